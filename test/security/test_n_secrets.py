# SPDX-License-Identifier: Apache-2.0
"""
Family N of the escape corpus: a host that gives a credential back

The host is trusted with the value and reflects it: a debugging service, an error page, an echo. Whatever form it chooses, no program inside
may read the value. The server is test/reflect.py; a program inside asks it, decodes what comes, and shows it.
"""
import inspect
import os
import statistics
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
import reflect  # noqa: E402
from net import inside  # noqa: E402

rig = net.enter()
rig.ask("spawn", name="reflect", argv=["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reflect.py"), rig.where, net.RAW, "443"])
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def letters(n):
    return "".join(ALPHABET[int.from_bytes(os.urandom(2), "big") % len(ALPHABET)] for _ in range(n))


def new_value():
    """With a prefix, and characters that encoders treat differently."""
    return "sk-" + letters(9) + "/" + letters(6) + "+" + letters(5)


CLIENT = "import base64, codecs, gzip, zlib, json\n" + inspect.getsource(reflect.decode) + r"""
key = os.environ.get("API_KEY", "")
auth = "Authorization: Bearer %s\r\n" % key
for _ in range(200):  # until the server is up
    try: tls("raw.test", data=request("raw.test", "/form/plain", more="Authorization: x\r\n")); break
    except OSError: time.sleep(0.05)
def ask(path, more="", method="GET", version="1.1"):
    got = tls("raw.test", data=request("raw.test", path, method, auth + more).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1))
    head, _, body = got.partition(b"\r\n\r\n")
    while head.split(b" ", 2)[1:2] and head.split(b" ", 2)[1].startswith(b"1"): head, _, body = body.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        text, body = body, b""
        while text:
            line, _, text = text.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if size == 0: break
            body += text[:size]
            text = text[size + 2:]
    return got, head, body
def show(label, text):
    tell(label, text.encode("utf-8", "replace").hex() if isinstance(text, str) else text.hex())
def status(head):
    return head.split(b" ", 2)[1].decode()
"""


def ask(place, value, code, *args, flags=(), env=None):
    result = run(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test", *flags], inside(CLIENT + textwrap.dedent(code), *args), env={"API_KEY": value, **(env or {})})
    same(result.status, 0, "the program inside: %s" % result.err[-600:])
    return result


def shown(result, label):
    return bytes.fromhex(result.tries.get(label, "")).decode("utf-8", "replace")


def find(value, text):
    """The value, or all of it but the ends (base64 shares a character with its neighbours there)."""
    return value[1:-1].lower() in text.lower()


@test("N6 the value in 36 forms, in one piece, byte by byte, and to the end of an HTTP/1.0 answer: the placeholder comes back")
def _():
    value = new_value()
    with Place() as place:
        result = ask(place, value, r"""
        for form in arg[0].split(","):
            for how in ("", "?bytes", "?end"):
                try:
                    got, head, body = ask("/form/" + form + how)
                    show(form + how, decode(form, head, body))
                    show("head " + form + how, head)
                except Exception as error:
                    tell(form + how, "error %r" % error)
        tell("placeholder", key)
        """, ",".join(reflect.FORMS))
        placeholder = result.tries["placeholder"]
        for form in reflect.FORMS:
            for how in ("", "?bytes", "?end"):
                text = result.tries.get(form + how, "")
                check(text and not text.startswith("error"), "%s%s: %s" % (form, how, text))
                text = shown(result, form + how)
                check(not find(value, text), "the value came back as %s%s: %r" % (form, how, text))
                if not form.startswith(("base64", "html")):  # characters that do not fit there
                    check(placeholder in text, "%s%s: no placeholder: %r" % (form, how, text))
        check(value not in result.out, "the value came back in clear")
        for form in ("gzip", "x-gzip", "deflate"):
            check("content-encoding" not in shown(result, "head " + form).lower(), "the head of %s: %s" % (form, shown(result, "head " + form)))


@test("N6 a value with signs with which escapes begin, escaped once and several times")
def _():
    for value in ("sk-%s%%%s" % (letters(9), letters(9)), "sk-%s\\%s&%s" % (letters(9), letters(5), letters(5))):
        forms = ("plain", "json", "json-slash", "json-twice", "python", "percent", "percent-some", "percent-twice", "html", "hex", "base64-1")
        with Place() as place:
            result = ask(place, value, r"""
            for form in arg[0].split(","):
                for how in ("", "?bytes"):
                    show(form + how, decode(form, *ask("/form/" + form + how)[1:]))
            """, ",".join(forms))
        for form in forms:
            for how in ("", "?bytes"):
                text = shown(result, form + how)
                check(text and not find(value, text), "the value came back as %s%s: %r" % (form, how, text))


@test("N6 encodings that cannot be looked into, and parts of answers, are refused; other hosts may send them")
def _():
    value = new_value()
    code = r"""
    for form in arg[0].split(","):
        got, head, body = ask("/form/" + form)
        tell(form, status(head))
        show("all " + form, got)
    got, head, body = ask("/range/always")
    tell("range", status(head))
    got, head, body = ask("/range/silent", "Range: bytes=0-20\r\n")
    tell("silent range", status(head))
    for form in ("gzip", "br"):
        got, head, body = ask("/form/" + form, method="HEAD")
        tell("HEAD " + form, status(head))
    """
    with Place() as place:
        result = ask(place, value, code, ",".join(reflect.REFUSED))
        for form in (*reflect.REFUSED, "range"):
            same(result.tries[form], "502", form)
        same(result.tries["silent range"], "200", "a range that was asked for, and not passed on")
        same((result.tries["HEAD gzip"], result.tries["HEAD br"]), ("200", "200"), "answers without a body")
        check(not any(find(value, shown(result, "all " + form)) for form in reflect.REFUSED), "the value came back")
        control = run(place, ["-f", job_file(place, {"network": {"allow": [{"host": "raw.test", "tls": "inspect"}]}})],
                      inside(CLIENT + textwrap.dedent(code), ",".join(reflect.REFUSED)), env={"API_KEY": value})
        same({control.tries[form] for form in reflect.REFUSED}, {"200"}, "without a secret")
        same(control.tries["range"], "206", "without a secret")


@test("N6 two halves by Range: the server is asked for all of it")
def _():
    value = new_value()
    with Place() as place:
        result = ask(place, value, r"""
        half = len(key) // 2 + 12
        text = b""
        for name in ("Range", "range", "Request-Range"):
            for first, last in ((0, half), (half + 1, 100)):
                got, head, body = ask("/range/x", "%s: bytes=%d-%d\r\nIf-Range: \"x\"\r\n" % (name, first, last))
                text += body if status(head) in ("200", "206") else b""
                tell("status %s %d" % (name, first), status(head))
                tell("accept-ranges %s %d" % (name, first), str(b"accept-ranges" in head.lower()))
        show("text", text)
        """)
        check(not find(value, shown(result, "text")), "the value came back in halves: %r" % shown(result, "text"))
        same({text for name, text in result.tries.items() if name.startswith("status ")}, {"200"}, "answers")
        same({text for name, text in result.tries.items() if name.startswith("accept-ranges ")}, {"False"}, "the server's offer")


@test("N6 a secret that egress sets: what the program says in its header is dropped in every spelling that servers take for the same name")
def _():
    contract = {"network": {"allow": ["raw.test"], "secrets": [{"name": "API_KEY", "host": "raw.test", "header": "x-api-key", "from": "env", "set": True}]}}
    names = ("X-Api-Key", "X_Api_Key", "x-api_key", "X.Api.Key")
    code = CLIENT + textwrap.dedent(r"""
        for name in arg[0].split(","): tell(name, ask("/fields", name + ": mine\r\n")[2].decode())
        tell("other", ask("/fields", "X_Other_Key: mine\r\n")[2].decode())
        """)
    with Place() as place:
        result = run(place, ["-f", job_file(place, contract)], inside(code, ",".join(names)), env={"API_KEY": new_value()})
        for name in names:
            same([one for one in result.tries[name].split() if "key" in one], ["x-api-key"], "fields that came of %s" % name)
        check("x_other_key" in result.tries["other"], "another field does not pass: %s" % result.tries["other"])


@test("N6 heads: reason, fields, Location, interim answers, trailers, chunk extensions")
def _():
    value = new_value()
    with Place() as place:
        result = ask(place, value, r"""
        for where in ("reason", "location", "field", "interim", "trailer", "extension"):
            try: show(where, ask("/head/" + where)[0])
            except Exception as error: show(where, repr(error))
        """)
        import urllib.parse
        for where in ("reason", "location", "field", "interim", "trailer", "extension"):
            text = urllib.parse.unquote(shown(result, where))
            words = " ".join(base64_words(text))
            check(not find(value, text) and not find(value, words), "%s: %r" % (where, text))


def base64_words(text):
    import base64
    for word in re.findall(r"[A-Za-z0-9+/]{16,}", text):
        with contextlib.suppress(ValueError):
            yield base64.b64decode(word + "==").decode("latin-1")


SOCKET = r"""
import zlib
def websocket(path, more="", most=1 << 22):
    context = ssl.create_default_context()
    with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
        s.settimeout(5)
        s.sendall(("GET %s HTTP/1.1\r\nHost: raw.test\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n%s\r\n" % (path, auth, more)).encode())
        got = b""
        try:
            while len(got) < most and not got.endswith(b"\x81\x03end"):
                data = s.recv(65536)
                if not data: break
                got += data
        except OSError as error: tell("how " + path, errno.errorcode.get(error.errno, str(error)))
        return got
def messages(data):
    "All messages, put together, and what control frames say."
    text, kinds = b"", []
    while len(data) >= 2:
        kind, size, at = data[0], data[1] & 127, 2
        if size == 126: size, at = int.from_bytes(data[2:4], "big"), 4
        elif size == 127: size, at = int.from_bytes(data[2:10], "big"), 10
        if data[1] & 128: at += 4
        piece = data[at:at + size]
        if kind & 0x40:
            try: piece = zlib.decompressobj(-15).decompress(piece)
            except zlib.error: pass
        kinds.append("%x" % kind)
        text += piece
        data = data[at + size:]
    return text, kinds
def messages_of_text(data):
    while len(data) >= 2:
        size = data[1] & 127
        if data[0] & 15 < 8: yield data[2:2 + size]
        data = data[2 + size:]
"""


@test("N6 WebSocket: text, binary, parts with pings between, large frames, control frames, escapes go through the filter")
def _():
    value = new_value()
    kinds = ("text", "binary", "parts", "bytes", "large", "ping", "close", "json")
    with Place() as place:
        result = ask(place, value, SOCKET + textwrap.dedent(r"""
        for kind in arg[0].split(","):
            got = websocket("/ws/" + kind)
            head, _, data = got.partition(b"\r\n\r\n")
            text, frames = messages(data)
            # Pings between the parts are no part of the text.
            if kind in ("parts", "bytes"): text = b"".join(messages_of_text(data))
            if kind == "json": text = codecs.decode(text.decode().replace("end", ""), "unicode_escape").encode()
            show(kind, text)
            tell("status " + kind, status(head))
        tell("placeholder", key)
        """), ",".join(kinds))
        for kind in kinds:
            same(result.tries["status " + kind], "101", kind)
            text = shown(result, kind)
            check(not find(value, text), "%s: the value came back: %r" % (kind, text[:300]))
            check(result.tries["placeholder"] in text, "%s: no placeholder: %r" % (kind, text[:300]))
            check(kind == "json" or text.endswith("end"), "%s: the rest is missing: %r" % (kind, text[-100:]))


@test("N6 WebSocket: compression is not agreed upon; frames of an extension, masked or unknown ones end the connection")
def _():
    value = new_value()
    with Place() as place:
        result = ask(place, value, SOCKET + textwrap.dedent(r"""
        offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
        for kind, path, more in (("offer", "/ws/text", offer), ("forced", "/ws/text?extension", ""), ("compressed", "/ws/compressed?without", offer), ("masked", "/ws/masked", ""), ("odd", "/ws/odd", "")):
            head, _, data = websocket(path, more).partition(b"\r\n\r\n")
            tell("status " + kind, status(head))
            tell("extension " + kind, str(b"sec-websocket-extensions" in head.lower()))
            show(kind, messages(data)[0])
        """))
        same(result.tries["status offer"], "101", "an offer is taken out")
        same(result.tries["extension offer"], "False", "an offer is taken out")
        same(result.tries["status forced"], "502", "an extension that nobody asked for")
        for kind in ("offer", "forced", "compressed", "masked", "odd"):
            check(not find(value, shown(result, kind)), "%s: %r" % (kind, shown(result, kind)))


@test("N6 WebSocket: what the client sends arrives as it is, both ways flow, the end is passed on")
def _():
    value = new_value()
    with Place() as place:
        result = ask(place, value, r"""
        context = ssl.create_default_context()
        with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
            s.settimeout(5)
            s.sendall(("GET /ws/echo HTTP/1.1\r\nHost: raw.test\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n" % auth).encode())
            head = b""
            while b"\r\n\r\n" not in head: head += s.recv(65536)
            worst = 0
            for i in range(50):
                data = b"\x81\x7e" + struct.pack("!H", 1000) + b"%03d" % i + b"x" * 997  # unmasked, so that its echo is a server's frame
                begin = time.monotonic()
                s.sendall(data)
                got = b""
                while len(got) < len(data): got += s.recv(65536)
                worst = max(worst, time.monotonic() - begin)
                if got != data: tell("echo", repr(got[:40])); break
            else: tell("echo", "same")
            tell("worst", "%.4f" % worst)
        """)
        same(result.tries["echo"], "same", "what comes back")
        check(float(result.tries["worst"]) < 0.5, "it took %s s" % result.tries["worst"])


# How an answer is cut: 40 ms lie between two pieces, each of which could be the beginning of the value.
ORACLE = r"""
    context = ssl.create_default_context()
    def measure(text):
        "How many bytes arrive between two pauses."
        with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
            s.settimeout(5)
            s.sendall(request("raw.test", "/oracle/x?" + text, more=auth))
            sizes = []
            while data := s.recv(65536): sizes.append(len(data))
            return " ".join(map(str, sizes))
    import collections
    for name, guess in (("right", arg[0]), ("wrong", arg[1])):
        tell(name, collections.Counter(measure(guess) for _ in range(9)).most_common(1)[0][0])
"""


@test("N6 the oracle: what is held back of a guess does not tell whether it is right")
def _():
    value = "sk-" + letters(15)
    with Place() as place:
        for size in (4, 5, 12, 17):
            wrong = value[:3] + "".join(ALPHABET[(ALPHABET.index(c) + 1) % 26 + ALPHABET.index(c) // 26 * 26] if c.isalpha() else "%d" % ((int(c) + 1) % 10) for c in value[3:size])
            for _ in range(3):  # a machine that is busy moves a piece; not three times
                result = ask(place, value, ORACLE, "%s/%s" % (value[:size], value[:size]), "%s/%s" % (wrong, wrong))
                if result.tries["right"] == result.tries["wrong"]:
                    break
            same(result.tries["right"], result.tries["wrong"], "what arrives of a guess of %d bytes between two pauses" % size)


def cpu_of(pid):
    return int(read("/proc/%d/schedstat" % pid).split()[0])


# How much more CPU time 8 MB of right guesses took than 8 MB of wrong ones, before a whole block was compared: 16 %.
@test("N6 the oracle of time: text that begins within an escape costs the same, right or wrong")
def _():
    value = "sk-" + letters(29)
    code = value.encode().hex()
    right, wrong = "%" + code[:24], "%" + code[:6] + "".join("7" if c != "7" else "6" for c in code[6:24])
    with Place() as place:
        place.expect("at*", "go*")
        running = start(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test"], inside(CLIENT + textwrap.dedent(r"""
        context = ssl.create_default_context()
        for i in range(12):
            put("at%d" % i)
            until(lambda: os.path.exists("go%d" % i))
            size = 0
            with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
                s.sendall(request("raw.test", "/repeat/x?" + arg[i % 2], more=auth + "Connection: close\r\n"))
                while data := s.recv(1 << 20): size += len(data)
            tell("size%d" % i, str(size))
        put("at12")
        until(lambda: os.path.exists("go12"))
        """), right, wrong), env={"API_KEY": value})
        times = []
        for i in range(13):
            wait_file(place, "at%d" % i, 60)
            egress = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_egress_of(int(pid), running.pid)]
            times.append(cpu_of(egress[0]))
            write(place.ws + "/go%d" % i)
        result = running.wait()
        check(all(int(result.tries.get("size%d" % i, 0)) > 8000000 for i in range(12)), "what arrived: %s %s" % (result.tries, result.err[-300:]))
        spent = [(after - before) / 1e6 for before, after in zip(times, times[1:])]
        best = min(spent[2::2]), min(spent[3::2])
        print("# CPU time of egress: right %.1f ms, wrong %.1f ms" % best)
        check(abs(best[0] / best[1] - 1) < 0.07, "right guesses cost %.1f ms, wrong ones %.1f" % best)


@test("N6 streams flow: each of 100 server-sent events arrives within 5 ms")
def _():
    value = new_value()

    def once():
        with Place() as place:
            result = ask(place, value, r"""
            context = ssl.create_default_context()
            late, text = [], b""
            with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
                s.settimeout(5)
                s.sendall(request("raw.test", "/sse/x?100", more=auth))
                while data := s.recv(65536):
                    now = time.monotonic_ns()
                    text += data
                    if b"\"at\": " in data: late.append((now - int(data.split(b"\"at\": ")[-1].split(b"}")[0])) / 1e6)
            tell("late", " ".join("%.2f" % one for one in late))
            show("text", text)
            tell("placeholder", key)
            """)
            check(not find(value, shown(result, "text")) and result.tries["placeholder"] in shown(result, "text"), "the events: %r" % shown(result, "text")[:300])
            late = [float(one) for one in result.tries["late"].split()]
            same(len(late), 100, "events that came alone")
            print("# events: median %.2f ms, worst %.2f ms late" % (statistics.median(late), max(late)))
            return late
    # What other programs of this machine delay is another event each time; what is held back is the same one.
    best = once()
    for _ in range(5):
        if max(best) < 5:
            break
        best = [min(both) for both in zip(best, once())]
    check(max(best) < 5, "ms that events took: %s" % best)


@test("N6 a small compressed answer that becomes 128 MB costs no memory")
def _():
    value = new_value()
    with Place() as place:
        place.expect("half", "go")
        running = start(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test"], inside(CLIENT + textwrap.dedent(r"""
        context = ssl.create_default_context()
        total = 0
        with socket.create_connection(("raw.test", 443), 5) as plain, context.wrap_socket(plain, server_hostname="raw.test") as s:
            s.settimeout(30)
            s.sendall(request("raw.test", "/bomb/x?128", more=auth))
            while total < 8 << 20: total += len(s.recv(65536))
            put("half")
            until(lambda: os.path.exists("go"))
            while total < 64 << 20: total += len(s.recv(1 << 20))
        tell("total", str(total > 60 << 20))
        """)), env={"API_KEY": value})
        wait_file(place, "half", 60)
        time.sleep(0.2)
        used = max(memory_of(int(pid)) for pid in os.listdir("/proc") if pid.isdigit() and is_egress_of(int(pid), running.pid))
        write(place.ws + "/go")
        result = running.wait()
        same(result.tries.get("total"), "True", "what arrived: %s" % result.err[-300:])
        check(0 < used < 40000 or "ASAN_OPTIONS" in os.environ, "egress has %d kB" % used)


def is_egress_of(pid, parent):
    with contextlib.suppress(OSError, IndexError, ValueError):
        text = read("/proc/%d/stat" % pid).decode()
        return "(atoll-egress" in text and int(text[text.rindex(")") + 2:].split()[1]) == parent
    return False


def memory_of(pid):
    with contextlib.suppress(OSError):
        return int(re.search(r"VmRSS:\s+(\d+)", read("/proc/%d/status" % pid).decode())[1])
    return 0


@test("N6 real clients with compression: curl --compressed, wget, python requests, node")
def _():
    value = new_value()
    clients = {
        "curl": 'curl -sS -m 30 --compressed -H "Authorization: Bearer $API_KEY" https://raw.test/form/gzip',
        "wget": 'wget -q -O- --timeout=30 --compression=auto --header="Authorization: Bearer $API_KEY" https://raw.test/form/gzip',
        "/usr/bin/python3": """/usr/bin/python3 -c 'import os, requests; print(requests.get("https://raw.test/form/deflate", headers={"Authorization": "Bearer " + os.environ["API_KEY"]}, timeout=30).text)'""",
        "node": """node -e 'fetch("https://raw.test/form/gzip-members", {headers: {authorization: "Bearer " + process.env.API_KEY}}).then(r => r.text()).then(console.log, e => { console.error(e); process.exit(1) })'""",
    }
    with Place() as place:
        for name, script in clients.items():
            if not shutil.which(name, path="/usr/bin:/bin") or name.endswith("python3") and subprocess.run([name, "-c", "import requests"], stderr=subprocess.DEVNULL).returncode:
                continue
            result = run(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test"], inside_sh("echo placeholder $API_KEY; " + script), env={"API_KEY": value})
            same(result.status, 0, "%s: %s" % (name, result.err[-300:]))
            check(value not in result.out, "%s: the value came back" % name)
            same(result.out.count(re.search(r"placeholder (\S+)", result.out)[1]), 2, "%s: the placeholder in %s" % (name, result.out[-300:]))


@test("N25 a prefix that its vendor documents stays at every length, and nothing else does")
def _():
    with Place() as place:
        for value, kept in (("sk-" + letters(6), "sk-"), ("sk-" + letters(15), "sk-"), ("sk-" + letters(30), "sk-"), ("ghp_" + letters(8), "ghp_"), ("glpat-" + letters(6), "glpat-")):
            result = run(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test"], ["sh", "-c", "echo placeholder $API_KEY"], env={"API_KEY": value})
            placeholder = re.search(r"placeholder (\S+)", result.out)[1]
            check(placeholder.startswith(kept) and len(placeholder) == len(value) and placeholder != value, "%r for %r" % (placeholder, value))
        words = set()
        for _ in range(3):
            result = run(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test"], ["sh", "-c", "echo placeholder $API_KEY"], env={"API_KEY": "battery-" + letters(8)})
            words.add(re.search(r"placeholder ([^-]+)", result.out)[1])
        check("battery" not in words, "a word that may be a part of the secret stays: %s" % words)


main()
