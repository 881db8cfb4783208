# SPDX-License-Identifier: Apache-2.0
"""
Family N of the escape corpus: where egress connects to, whom it believes, and what it bears

atoll's own listeners, private addresses behind a proxy of the caller's, certificates without names; then WebSocket, SOCKS and published
ports with many and with bad clients.
"""
import base64
import os
import resource
import select
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import internet  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, egress_of, inside  # noqa: E402
from serving import Daemon  # noqa: E402

rig = net.enter()
resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
REFLECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reflect.py")

PROXIED = r"""
def through(kind, host, port, data=b"x", many=5):
    "By the proxy at 127.0.0.1:1023, which takes addresses that are local in the sandbox, too."
    s = socket.create_connection(("127.0.0.1", 1023), many)
    s.settimeout(many)
    if kind == "connect":
        s.sendall(("CONNECT %s:%d HTTP/1.1\r\n\r\n" % ("[%s]" % host if ":" in host else host, port)).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = s.recv(1000)
            if not piece: return b""
            head += piece
        if not head.startswith(b"HTTP/1.1 200"): return head
    elif kind == "forward":
        s.sendall(("GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % ((("[%s]" % host if ":" in host else host), port) * 2)).encode())
        return everything(s)
    else:
        if kind == "socks name": address = b"\x03" + bytes([len(host)]) + host.encode()
        elif ":" in host: address = b"\x04" + socket.inet_pton(socket.AF_INET6, host)
        else: address = b"\x01" + socket.inet_pton(socket.AF_INET, host)
        s.sendall(b"\x05\x01\x00\x05\x01\x00" + address + struct.pack("!H", port))
        answer = b""
        while len(answer) < 12:
            piece = s.recv(1000)
            if not piece: return b""
            answer += piece
        if answer[3] != 0: return b"HTTP/1.1 403 by SOCKS\r\n\r\n"
    s.sendall(data)
    return s.recv(1000) if data.startswith(b"\0") else everything(s)
"""


def published(running):
    """Where, as it was printed on stderr."""
    os.set_blocking(running.process.stderr.fileno(), False)
    said = b""

    def look():
        nonlocal said
        said += running.process.stderr.read() or b""
        return re.search(rb"127\.0\.0\.1:(\d+)", said)
    found = until(look, 10)
    check(found, "no port was printed: %s" % said)
    return int(found[1])


# ---- listeners of atoll's own ---------------------------------------------------------------------------------------

WAYS = [("127.0.0.1", None), ("127.0.0.2", None), ("::1", None), ("0.0.0.0", None), (net.HOST4, None), (net.HOST6, None), ("loop.test", "127.0.0.1"), ("own.test", net.HOST4),
        ("mapped.test", "127.0.0.1"), ("zero.test", "0.0.0.0"), ("localhost", "127.0.0.1")]


def attack(place, port, flags=()):
    """Everything is allowed; returns what was tried and how it ended."""
    names = ("127.0.0.0/8", "[::1]", net.HOST4, "[%s]" % net.HOST6, *(host for host, of in WAYS if of))
    allowed = [flag for name in names for flag in ("--allow", "%s:%d" % (name, port))]
    return run(place, [*allowed, *flags], inside(PROXIED + textwrap.dedent(r"""
        for host in arg[1].split(","):
            for kind in ("connect", "forward", "socks", "socks name"):
                if kind == "socks" and not host.replace(".", "").isdigit() and ":" not in host: continue
                outcome("%s %s" % (kind, host), lambda: through(kind, host, int(arg[0]), b"GET / HTTP/1.0\r\n\r\n"))
        for host in arg[1].split(","):
            if host not in ("127.0.0.1", "127.0.0.2", "::1", "0.0.0.0", "::", "localhost"): talk("direct " + host, host, int(arg[0]))
        """), str(port), ",".join(host for host, _ in WAYS)))


def reached(result):
    return sorted(label for label, how in result.tries.items() if label != "end" and how not in (*NO_WAY, "http 502", "timeout", "no such name"))


@test("N38 a published port of another run cannot be reached from inside, whatever is allowed; a server of the host's can")
def _():
    serve = r"""
        server = socket.create_server(("0.0.0.0", 8080)); server.settimeout(0.1); put("up")
        while not os.path.exists("stop"):
            try: c, _ = server.accept()
            except TimeoutError: continue
            c.recv(1000); c.sendall(b"HTTP/1.0 200 OK\r\n\r\npublished"); c.close()
        """
    with Place() as place, Place() as other:
        place.expect("up", "stop")
        running = start(place, ["--listen", "8080"], inside(serve))
        wait_file(place, "up")
        port = published(running)
        same(reached(attack(other, port)), [], "ways to a published port")
        with socket.create_connection(("127.0.0.1", port), 10) as s:
            s.sendall(b"x")
            check(b"published" in s.recv(1000), "the host itself reaches it no more")
        write(place.ws + "/stop")
        running.wait()
        # The same contract leads to a server that is not atoll's.
        control = reached(attack(other, net.CANARY))
        for way in ("connect 127.0.0.1", "socks 127.0.0.1", "forward 127.0.0.1", "connect ::1", "connect %s" % net.HOST4, "connect loop.test", "direct own.test"):
            check(way in control, "%s does not lead to a server of the host's: %s" % (way, control))


@test("N38 a run's own published port cannot be reached through egress")
def _():
    with Place() as place:
        port = 18391
        allowed = ["--allow", "127.0.0.1:%d" % port, "--allow", "[::1]:%d" % port, "--listen", "8080=%d" % port]
        result = run(place, allowed, inside(PROXIED + textwrap.dedent(r"""
            import threading
            server = socket.create_server(("0.0.0.0", 8080))
            def loop():
                while True:
                    c, _ = server.accept(); c.recv(1000); c.sendall(b"HTTP/1.0 200 OK\r\n\r\nown"); c.close()
            threading.Thread(target=loop, daemon=True).start()
            for host in ("127.0.0.1", "::1"):
                for kind in ("connect", "forward", "socks"):
                    outcome("%s %s" % (kind, host), lambda: through(kind, host, int(arg[0]), b"GET / HTTP/1.0\r\n\r\n"))
            """), str(port)))
        same(reached(result), [], "ways to the own published port")


@test("N38 the daemon's port cannot be reached from inside, whatever is allowed")
def _():
    with Place() as place, Daemon() as daemon:
        port = int(daemon.url.rsplit(":", 1)[1])
        same(reached(attack(place, port)), [], "ways to the daemon")
        # Nor as a proxy that the contract names.
        result = run(place, ["--upstream", "http://127.0.0.1:%d" % port, "--allow", "good.test"], inside('talk("upstream", "good.test", 80)'))
        same(reached(result), [], "ways to the daemon as a proxy")
        with socket.create_connection(("127.0.0.1", port), 10) as s:
            s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            check(s.recv(100).startswith(b"HTTP/1."), "the host reaches it no more")


@test("N38 a name that anybody takes makes a port unreachable, and the end of its holder frees it")
def _():
    with Place() as place:
        flags, code = ["--allow", "127.0.0.1:%d" % net.CANARY], inside(PROXIED + 'outcome("way", lambda: through("connect", "127.0.0.1", 7777, b"x"))')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
            holder.bind("\0atoll-listener-%d-3" % net.CANARY)
            same(reached(run(place, flags, code)), [], "announced by somebody")
        same(reached(run(place, flags, code)), ["way"], "announced by nobody")


# ---- names behind a proxy -------------------------------------------------------------------------------------------

PRIVATE_NAMES = ("private.test", "loop.test", "meta.test", "own.test", "mixed.script.test", "cgnat.test", "zero.test", "mapped.test", "nat64.test", "ula.test", "linklocal.test", "localhost",
                 "a.localhost", "metadata.google.internal")


@test("N33 through a proxy of the caller's: names that are private here, and private literals, never get there")
def _():
    names = (*PRIVATE_NAMES, "good.test", "v4.test", "refused.test")
    code = PROXIED + textwrap.dedent(r"""
        for host in arg[0].split(","):
            if host not in ("localhost", "a.localhost"): talk("direct " + host, host, 80)
            outcome("connect " + host, lambda: through("connect", host, 80, request(host)))
        for host in ("10.9.0.5", "127.0.0.1", "169.254.169.254", "::1", "fd00::5", "100.64.1.1", "0.0.0.0"):
            outcome("literal " + host, lambda: through("connect", host, 80, request("x")))
            if host not in ("127.0.0.1", "::1", "0.0.0.0"): talk("direct " + host, host, 80)
        """)
    with Place() as place:
        for flags, env in ((["--upstream", "http://%s:3128" % net.SERVER4], {}), (["--upstream", "env"], {"HTTPS_PROXY": "http://proxy.test:3128"})):
            for allow in ([flag for name in names for flag in ("--allow", name)], ["--net", "open"]):
                rig.clear()
                rig.script("mixed.script.test", [net.SERVER4, net.PRIVATE])
                result = run(place, [*flags, *allow], inside(code, ",".join(names)), env=env)
                asked = {one["data"].split()[1].rsplit(":", 1)[0] for one in rig.arrived("proxy")}
                check(not asked & set(PRIVATE_NAMES), "the proxy was asked for %s" % (asked & set(PRIVATE_NAMES)))
                check({"good.test", "v4.test", "refused.test"} <= asked, "the proxy was asked for %s only" % asked)
                check(not [one for one in asked if one[0].isdigit() or ":" in one], "literals: %s" % asked)
                result.allowed("direct good.test", "connect good.test", "direct v4.test")
                rig.silence("10.9.0.5")
                check(not rig.canaries(), "a service of the host was reached: %s" % rig.canaries())


@test("N33 what only the proxy can look up passes, soon, and the plan says so; an address that the contract names is allowed")
def _():
    with Place() as place:
        flags = ["--upstream", "http://%s:3128" % net.SERVER4]
        rig.clear()
        rig.script("silent.script.test", "nothing")
        result = run(place, [*flags, "--allow", "silent.script.test", "--allow", "nowhere.test"], inside(r"""
            for name in ("silent.script.test", "silent.script.test", "nowhere.test"):
                began = time.monotonic()
                try: reach(name, 80)
                except OSError: pass
                tell("took %s %s" % (name, os.urandom(2).hex()), "%.2f" % (time.monotonic() - began))
            """))
        asked = [one["data"].split()[1] for one in rig.arrived("proxy")]
        check("silent.script.test:80" in asked and "nowhere.test:80" in asked, "the proxy was asked for %s" % asked)
        took = [float(text) for label, text in result.tries.items() if label.startswith("took")]
        check(took[0] < 4 and took[1] < 1.5 and took[2] < 1.5, "it took %s s" % took)
        plan = atoll(place, "run", "--plan", *flags, "--allow", "good.test", "--", "true").out
        check("only the proxy can look up" in " ".join(plan.split()), "the plan: %s" % plan)
        rig.clear()
        run(place, [*flags, "--allow", "private.test", "--allow", net.PRIVATE], inside('talk("named", "private.test", 80)'))
        same([one["data"].split()[1] for one in rig.arrived("proxy")], ["private.test:80"], "a name for an address that the contract allows")


@test("N33 through a proxy of the caller's: a private address behind sixteen public ones counts the second time, too")
def _():
    with Place() as place:
        public = ["93.184.216.%d" % (100 + i) for i in range(16)]
        for answer, expected in ((["ttl:60", *public, net.PRIVATE], []), (["ttl:60", *public], ["many.script.test:80"] * 3)):
            rig.clear()
            rig.script("many.script.test", answer)
            run(place, ["--upstream", "http://%s:3128" % net.SERVER4, "--allow", "many.script.test"], inside(r"""
                for i in range(3): talk("try %d" % i, "many.script.test", 80)
                """))
            same([one["data"].split()[1] for one in rig.arrived("proxy")], expected, "what the proxy was asked for")


# ---- other names on other ports -------------------------------------------------------------------------------------

# Lenient, as Python's own server is: it splits a line at every blank of ISO 8859-1, and serves every method.
LENIENT = r"""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def __getattr__(self, name):
        if name.startswith("do_"): return self.answer
        raise AttributeError(name)
    def answer(self):
        body = ("host %s" % self.headers.get("Host")).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.send_header("Connection", "close"); self.end_headers(); self.wfile.write(body)
http.server.ThreadingHTTPServer(("93.184.216.34", 8081), Handler).serve_forever()
"""


@test("N-sniff a request that a lenient server takes is for the name that was looked up, however its first line is written, cut or delayed")
def _():
    rig.ask("spawn", name="lenient", argv=["/usr/bin/python3", "-c", LENIENT])
    code = r"""
        tail = b"Host: %s\r\n\r\n" % arg[0].encode()
        def send(label, *pieces):
            def say():
                with socket.create_connection(("v4.test", 8081), 5) as s:
                    for piece in pieces:
                        if isinstance(piece, bytes): s.sendall(piece)
                        else: time.sleep(piece)
                    return "served" if b"host evil.test" in everything(s) else "nothing"
            outcome(label, say)
        for _ in range(200):  # until the server is up
            try: reach("v4.test", 8081); break
            except OSError: time.sleep(0.05)
        line = b" / HTTP/1.1\r\n" + tail
        send("usual", b"GET" + line)
        for name, blank in (("blank", b" "), ("tab", b"\t"), ("VT", b"\v"), ("FF", b"\f"), ("FS", b"\x1c"), ("NEL", b"\x85"), ("NBSP", b"\xa0"), ("lines", b"\r\n \r\n")):
            send("%s in front" % name, blank + b"GET" + line)
            if name != "lines": send("%s behind the method" % name, b"GET" + blank + b"/ HTTP/1.1\r\n" + tail)
        send("a control character in the target", b"GET /\x01 HTTP/1.1\r\n" + tail)
        send("NUL in the target of a strange method", b"FOO /\0 HTTP/1.1\r\n" + tail)
        send("a long method", b"A" * 40 + line)
        send("a very long target", b"G@T /" + b"a" * 60000 + b" HTTP/1.1\r\n" + tail)
        send("a method that is none", b"G@T" + line)
        send("a pause behind a word", b"FOO", 0.8, line)
        send("a pause in front", b" ", 0.8, b"FOO" + line)
        send("a pause behind the target", b"FOO /", 0.8, b" HTTP/1.1\r\n" + tail)
        send("byte by byte behind a pause", b"FOO", 0.8, *(bytes([one]) for one in line))
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "v4.test:8081"], inside(textwrap.dedent(code), "evil.test"))
        same([label for label, how in result.tries.items() if how == "served"], [], "requests for another name that were served")
        check(len(result.tries) > 20, "what was tried: %s" % result.tries)
        # The server does serve them: nothing is looked at with `tls: off`.
        control = run(place, ["-f", job_file(place, {"network": {"allow": [{"host": "v4.test", "ports": [8081], "tls": "off"}]}})], inside(textwrap.dedent(code), "evil.test"))
        served = [label for label, how in control.tries.items() if how == "served"]
        for label in ("usual", "VT in front", "NBSP behind the method", "a long method", "a method that is none", "a very long target", "a pause behind a word"):
            check(label in served, "%s: the server itself does not serve it: %s" % (label, control.tries.get(label)))


@test("N-override where methods or paths are limited, a field that names another is refused in every spelling, and passes in no trailer")
def _():
    names = ("X-HTTP-Method-Override", "X_HTTP_Method_Override", "x-http_method-override", "X.HTTP.Method.Override", "X_Method_Override", "X_Original_URL", "X-Rewrite_URL")
    chunked = "POST /v1/x HTTP/1.1\r\nHost: v4.test:7000\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n%s\r\n" % "".join("%s: DELETE\r\n" % name for name in names)
    code = r"""
        for name in arg[0].split(","): talk(name, "v4.test", 7000, request("v4.test:7000", "/v1/x", "POST", name + ": DELETE\r\n"))
        talk("overlong", "v4.test", 7000, request("v4.test:7000", "/v1/%c0%ae%c0%ae%c0%af", "POST"))
        talk("trailers", "v4.test", 7000, arg[1].encode())
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["-f", job_file(place, {"network": {"allow": [{"host": "v4.test", "ports": [7000], "methods": ["POST"], "paths": ["/v1/**"]}]}})],
                     inside(code, ",".join(names), chunked.replace("0\r\nX-HTTP", "0\r\nX-Sum: 1\r\nX-HTTP")))
        same({how for label, how in result.tries.items() if label in (*names, "overlong")}, {"http 403"}, "answers to %s" % dict(result.tries))
        came = rig.bytes_at(7000)
        check("X-Sum: 1" in came, "trailers do not pass: %r" % came)
        check("DELETE" not in came and "%c0" not in came, "an override passed: %r" % came)
        rig.clear()
        run(place, ["-f", job_file(place, {"network": {"allow": [{"host": "v4.test", "ports": [7000], "tls": "inspect"}]}})], inside(code, ",".join(names), chunked))
        check("X_HTTP_Method_Override: DELETE" in rig.bytes_at(7000), "where nothing is limited the field does not pass")


@test("N-address where addresses are allowed, too, TLS to an address for a name with methods, paths, limits or inspection is refused")
def _():
    code = r"""
        def go(label, to, method="GET", name="v4.test"):
            def ask():
                context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
                with socket.create_connection((to, 443), 5) as plain, context.wrap_socket(plain, server_hostname=name) as s:
                    s.sendall(request(name, "/x", method))
                    return everything(s)
            outcome(label, ask)
        go("by name", "v4.test")
        go("by address", arg[0], "DELETE")
        go("by address, for another name", arg[0], "DELETE", "other.test")
        """
    with Place() as place:
        for line in ({"methods": ["GET"]}, {"paths": ["/x"]}, {"tls": "inspect"}, {"bytes": "1M"}, {"requests": 5}):
            for more in ({"mode": "open"}, {"allow": [net.SERVER4 + ":443"]}):
                rig.clear()
                contract = {"network": {**more, "allow": [{"host": "v4.test", **line}, *more.get("allow", [])]}}
                result = run(place, ["-f", job_file(place, contract)], inside(code, net.SERVER4))
                result.allowed("by name", "by address, for another name")
                check(result.tries["by address"] in NO_WAY, "%s: by address it is %s" % (contract, result.tries["by address"]))
                same([one["host"] for one in rig.requests(2) if one["method"] == "DELETE"], ["other.test"], "requests that arrived")
        plain = run(place, ["--net", "open", "--allow", "v4.test"], inside(code, net.SERVER4))
        plain.allowed("by name", "by address")


# ---- the record -----------------------------------------------------------------------------------------------------

def events(place, *kinds):
    """Of all runs of the place."""
    found = []
    directory = place.home + "/.local/state/atoll/log"
    for name in os.listdir(directory):
        if name.endswith(".jsonl") and name != "runs.jsonl":
            with open(os.path.join(directory, name)) as file:
                found += [json.loads(line) for line in file]
    return [one for one in found if one["kind"] in kinds]


@test("N-record an egress that is slow at the end, stuck or killed: every connection is told, or the log says that some are missing")
def _():
    code = r"""
        s = socket.create_connection(("good.test", 7000), 30); s.settimeout(30); s.sendall(b"x\n"); s.recv(2)
        put("up")
        while not os.path.exists("stop"): time.sleep(0.02)
        os._exit(0)
        """
    for how in ("slow", "stuck", "killed"):
        with Place() as place:
            place.expect("up", "stop")
            running = start(place, ["--allow", "good.test:7000"], inside(code))
            wait_file(place, "up")
            egress = egress_of(running)
            os.kill(egress, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            write(place.ws + "/stop")
            if how == "slow":
                time.sleep(1.5)
                os.kill(egress, signal.SIGCONT)
            running.wait(40)
            told = [(one["name"], one["verdict"], one["count"]) for one in events(place, "connection")]
            lost = [one["count"] for one in events(place, "lost")]
            same((told, lost), ([("good.test", "allowed", 1)], []) if how == "slow" else ([], [1]), "connections and missing ones in the log of %s egress" % how)
            same(atoll(place, "verify").status, 0, "verify")


@test("N-record what was refused is told as refused, and allowed as allowed, also where more happens than the supervisor reads")
def _():
    with Place() as place:
        place.expect("up", "go", "done", "stop")
        running = start(place, ["--allow", "v4.test:80,7000", "--json"], inside(r"""
            ip = socket.gethostbyname("v4.test")
            talk("first", "v4.test", 80)
            put("up")
            while not os.path.exists("go"): time.sleep(0.02)
            for i in range(2500):
                talk("", ip, 80, request("v4.test", "/%d" % i)) if i % 5 else talk("", ip, 80, request("other-%d.test" % i))
            put("done")
            while not os.path.exists("stop"): time.sleep(0.02)
            """.replace('talk("", ', "reach(")))
        wait_file(place, "up")
        supervisor = running.pid
        os.kill(supervisor, signal.SIGSTOP)  # reads nothing
        try:
            write(place.ws + "/go")
            wait_file(place, "done", 120)
        finally:
            os.kill(supervisor, signal.SIGCONT)
        write(place.ws + "/stop")
        result = running.wait(60)
        same(result.status, 0, "the command: %s" % result.err[-300:])
        counts = {}
        for one in events(place, "connection"):
            counts[one["verdict"]] = counts.get(one["verdict"], 0) + one["count"]
        same((counts, events(place, "lost")), ({"allowed": 2001, "refused": 500}, []), "connections in the log")
        check(any("too many" in (one["reason"] or "") for one in events(place, "connection")), "the queue was never full")


@test("N-record beyond the log's size refused requests are counted apart from allowed ones of the same rule")
def _():
    with Place() as place:
        contract = {"network": {"allow": [{"host": "v4.test", "methods": ["GET"]}]}, "audit": {"size": "1M"}}
        run(place, ["-f", job_file(place, contract)], inside(r"""
            for i in range(4000):
                try: open("/etc/%s%d" % ("x" * 200, i), "w")
                except OSError: pass
            for i in range(2): talk("get %d" % i, "v4.test", 80, request("v4.test", "/x", "GET"))
            for i in range(5): talk("delete %d" % i, "v4.test", 80, request("v4.test", "/x", "DELETE"))
            """))
        counted = {one["verdict"]: one["count"] for one in events(place, "lost") if one["of"] == "connection"}
        same((counted, events(place, "connection")), ({"allowed": 2, "refused": 5}, []), "connections that were only counted")
        check(any("connection, refused, by allow v4.test" in line for line in atoll(place, "log").out.splitlines()), "atoll log does not say what was refused")


# ---- certificates ---------------------------------------------------------------------------------------------------

@test("N34 a certificate counts by its list of names, not by its subject")
def _():
    kinds = {"none": None, "address": "IP:93.184.216.80", "mail": "email:raw@raw.test", "other": "DNS:other.test", "right": "DNS:raw.test"}
    with Place() as place:
        for number, (kind, names) in enumerate(kinds.items()):
            where, port = os.path.join(rig.where, "san-" + kind), 9440 + number
            os.makedirs(where, exist_ok=True)
            internet.quiet(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", where + "/leaf.key", "-out", where + "/leaf.pem",
                            "-subj", "/CN=raw.test", "-days", "20", *(["-addext", "subjectAltName=" + names] if names else []), "-CA", rig.where + "/ca.pem", "-CAkey", rig.where + "/ca.key"])
            rig.ask("spawn", name="server-" + kind, argv=["/usr/bin/python3", REFLECT, where, net.RAW, str(port)])
            job = job_file(place, {"network": {"allow": [{"host": "raw.test", "ports": [port], "tls": "inspect"}]}})
            result = run(place, ["-f", job], inside(r"""
                for _ in range(100):
                    try:
                        got = tls("raw.test", int(arg[0]), data=request("raw.test:" + arg[0], "/form/plain", more="Authorization: x\r\n"))
                        if b"connection refused" not in got: break
                    except OSError: pass
                    time.sleep(0.05)
                outcome("x", lambda: got)
                """, str(port)))
            same(result.tries.get("x"), "ok" if kind == "right" else "http 502", "a certificate with the names %s" % names)


# ---- much of it -----------------------------------------------------------------------------------------------------

def egress_memory(running):
    """In kB, of the run's egress."""
    for pid in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError, ValueError, TypeError):
            text = read("/proc/%s/stat" % pid).decode()
            if "(atoll-egress" in text and int(text[text.rindex(")") + 2:].split()[1]) == running.pid:
                return int(re.search(r"VmRSS:\s+(\d+)", read("/proc/%s/status" % pid).decode())[1])
    raise Failed("no egress beneath %d" % running.pid)


@test("N-websocket 240 sockets that nobody reads cost a bounded memory, and others are served")
def _():
    with Place() as place:
        place.expect("up", "go")
        rig.ask("spawn", name="flood", argv=["/usr/bin/python3", REFLECT, rig.where, net.RAW, "443"])
        running = start(place, ["--secret", "API_KEY=raw.test", "--allow", "raw.test", "--allow", "good.test"], inside(r"""
            import threading
            context = ssl.create_default_context()
            for _ in range(200):
                try: tls("raw.test", data=request("raw.test", "/form/plain", more="Authorization: x\r\n")); break
                except OSError: time.sleep(0.05)
            held = []
            for i in range(240):
                s = context.wrap_socket(socket.create_connection(("raw.test", 443), 20), server_hostname="raw.test")
                s.sendall(b"GET /ws/flood HTTP/1.1\r\nHost: raw.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n")
                held.append(s)
            for s in held: s.recv(16)
            time.sleep(1)
            began = time.monotonic()
            talk("served", "good.test", 80)
            outcome("served by the same host", lambda: tls("raw.test", data=request("raw.test", "/form/plain", more="Authorization: x\r\n")))
            tell("took", "%.2f" % (time.monotonic() - began))
            put("up")
            until(lambda: os.path.exists("go"))
            """), env={"API_KEY": "sk-" + "0123456789abcdef" * 2})
        wait_file(place, "up", 60)
        used = egress_memory(running)
        write(place.ws + "/go")
        result = running.wait()
        result.allowed("served", "served by the same host")
        print("# egress: %d kB with 240 sockets that nobody reads; others were served in %s s" % (used, result.tries["took"]))
        check(float(result.tries["took"]) < 2, "it took %s s" % result.tries["took"])
        check(used < 64000 or "ASAN_OPTIONS" in os.environ, "egress has %d kB" % used)


@test("N-websocket one tenant of a daemon has at most 512 sockets to its ports, and leaves room for others; their end frees them")
def _():
    serve = r"""
import selectors, socket, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
server = socket.create_server(("127.0.0.1", 8080), backlog=1024)
watch = selectors.DefaultSelector()
watch.register(server, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in watch.select():
        if key.fileobj is server:
            watch.register(server.accept()[0], selectors.EVENT_READ)
        elif data := key.fileobj.recv(65536):
            key.fileobj.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst" if data.startswith(b"GET") else data)
        else:
            watch.unregister(key.fileobj); key.fileobj.close()
"""

    def open_socket(daemon, box):
        s = socket.create_connection(("127.0.0.1", int(daemon.url.rsplit(":", 1)[1])), 30)
        s.settimeout(30)
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 8080\r\n\r\n" % box.encode())
        got = b""
        while b"\r\n\r\n" not in got and (piece := s.recv(1000)):
            got += piece
        return s, got[9:12].decode()
    with Place() as place, Daemon() as daemon:
        boxes, streams = [], []
        for key in (daemon.key, daemon.make_key("second")):
            daemon.key = key
            box = daemon.create(timeout=120)
            same(daemon.call("POST", "/files?path=server.py", data=serve.encode(), box=box, headers={"Content-Type": "application/octet-stream"})[0], 200, "upload")
            streams.append(daemon.begin(box, "exec python3 server.py 2>&1", connection=daemon.connect()))
            said = b""
            while b"ready" not in said:
                said += base64.b64decode(next(streams[-1])[1].get("event", {}).get("data", {}).get("stdout", ""))
            boxes.append(box["sandboxID"])
        held, answers = [], []
        for _ in range(530):
            s, status = open_socket(daemon, boxes[0])
            held.append(s)
            answers.append(status)
        same((answers.count("101"), answers.count("502")), (512, 18), "the first tenant's sockets: %s" % set(answers))
        same(open_socket(daemon, boxes[1])[1], "101", "the second tenant's")
        for s in held:
            s.close()
        check(until(lambda: open_socket(daemon, boxes[0])[1] == "101", 10), "no room after the others have ended")


@test("N-socks bad, slow and many clients of SOCKS: each is refused, and good ones are served meanwhile")
def _():
    with Place() as place:
        result = run(place, ["--allow", "good.test:7000"], inside(PROXIED + textwrap.dedent(r"""
            import random
            held = []
            for i in range(400):  # begun, and never finished
                s = socket.create_connection(("127.0.0.1", 1023), 10)
                s.sendall((b"\x05", b"\x05\xff", b"\x05\x01\x00\x05\x01\x00\x03\xff", b"\x04\x01", b"\x04\x01\x00\x50\x00\x00\x00\x01user", b"\x05\x01\x02\x01\xff")[i % 6])
                held.append(s)
            began = time.monotonic()
            for i in range(20): outcome("good %d" % i, lambda: through("socks name", "good.test", 7000, b"\0echo"))
            tell("took", "%.2f" % (time.monotonic() - began))
            bad = {"version": b"\x05\x01\x00\x04\x01\x00\x01\x7f\0\0\x01\0\x50", "bind": b"\x05\x01\x00\x05\x02\x00\x01\x01\x01\x01\x01\0\x50", "udp": b"\x05\x01\x00\x05\x03\x00\x01\x01\x01\x01\x01\0\x50",
                   "kind": b"\x05\x01\x00\x05\x01\x00\x09\x01\x01\x01\x01\0\x50", "no name": b"\x05\x01\x00\x05\x01\x00\x03\x00\0\x50", "port 0": b"\x05\x01\x00\x05\x01\x00\x01\x01\x01\x01\x01\0\0",
                   "NUL": b"\x05\x01\x00\x05\x01\x00\x03\x0agood\0.test\x1b\x58", "dots": b"\x05\x01\x00\x05\x01\x00\x03\x0agood..test\x1b\x58", "methods": b"\x05\x00", "no method": b"\x05\x01\x07",
                   "v4 no end": b"\x04\x01\0\x50\0\0\0\x01" + b"u" * 300, "v4 name no end": b"\x04\x01\0\x50\0\0\0\x01\0" + b"n" * 300, "v4 bind": b"\x04\x02\0\x50\x01\x01\x01\x01\0", "other": b"\x06abc",
                   "number": b"\x05\x01\x00\x05\x01\x00\x03\x0a2130706433\x1b\x58", "octal": b"\x05\x01\x00\x05\x01\x00\x03\x0a0177.0.0.1\x1b\x58"}
            for label, data in bad.items():
                with socket.create_connection(("127.0.0.1", 1023), 5) as s:
                    s.settimeout(5)
                    got = b""
                    try:
                        s.sendall(data)
                        s.shutdown(socket.SHUT_WR)
                        while piece := s.recv(100): got += piece
                    except OSError as error: got += errno.errorcode[error.errno].encode() if error.errno else b"timeout"
                    tell("bad " + label, got.hex())
            random.seed(7)
            for _ in range(300):
                with socket.create_connection(("127.0.0.1", 1023), 5) as s:
                    s.sendall(bytes([random.choice((4, 5))]) + random.randbytes(random.randrange(40)))
            slow = socket.create_connection(("127.0.0.1", 1023), 5)
            for byte in b"\x05\x01\x00\x05\x01\x00\x03\x09good.test\x1b\x58":
                slow.sendall(bytes([byte])); time.sleep(0.005)
            slow.settimeout(5)
            outcome("slow", lambda: slow.recv(12, socket.MSG_WAITALL)[3:4] == b"\0" and b"yes" or b"")
            outcome("after", lambda: through("socks name", "good.test", 7000, b"\0echo"))
            """)))
        result.allowed(*("good %d" % i for i in range(20)), "slow", "after")
        check(float(result.tries["took"]) < 3, "20 good clients took %s s" % result.tries["took"])
        for label, text in result.tries.items():
            if label.startswith("bad "):
                check(not re.match(r"(05000500|005a)", text), "%s was connected: %s" % (label, text))
                check("74696d656f7574" not in text, "%s was left waiting" % label)


@test("N-publish 700 visitors at once, silent ones, resets: everybody is answered, the first one first, and egress goes on")
def _():
    serve = r"""
        import threading
        server = socket.create_server(("0.0.0.0", 8080), backlog=4096); server.settimeout(0.1); put("up")
        def one(c):
            try:
                if c.recv(1000): c.sendall(b"answer")
            except OSError: pass
            c.close()
        while not os.path.exists("stop"):
            try: c, _ = server.accept()
            except TimeoutError: continue
            c.settimeout(20)
            threading.Thread(target=one, args=(c,), daemon=True).start()
        tell("served", "all")
        """
    with Place() as place:
        place.expect("up", "stop")
        running = start(place, ["--listen", "8080"], inside(serve))
        wait_file(place, "up")
        port = published(running)
        silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(100)]
        for _ in range(50):  # gone before it begins
            with socket.create_connection(("127.0.0.1", port), 10) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        began, visitors = time.monotonic(), []
        for _ in range(700):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", port))
            visitors.append(s)
        answers = []
        for s in visitors:
            s.settimeout(10)
            try:
                select.select([], [s], [], 10)
                s.sendall(b"x")
                answers.append(s.recv(100))
            except OSError as error:
                answers.append(repr(error).encode())
            s.close()
        took = time.monotonic() - began
        print("# 700 visitors in %.2f s; egress %d kB" % (took, egress_memory(running)))
        same(sum(one == b"answer" for one in answers), 700, "visitors that were answered: %s" % set(answers))
        check(took < 8, "it took %.1f s" % took)
        for s in silent:
            s.close()
        write(place.ws + "/stop")
        running.wait()


@test("N-publish idle visitors take at most half of egress's connections: the command still has a network")
def _():
    serve = r"""
        import threading
        server, kept = socket.create_server(("127.0.0.1", 8080), backlog=1000), []
        def take():
            while True: kept.append(server.accept()[0])
        threading.Thread(target=take, daemon=True).start()
        put("up")
        while not os.path.exists("go"): time.sleep(0.02)
        for n in range(20): talk("meanwhile %d" % n, "v4.test", 80)
        """
    with Place() as place:
        place.expect("up", "go")
        # Egress has as many connections as there are descriptors for: 384 of 1024.
        running = start(place, ["--allow", "v4.test:80", "--listen", "8080"], inside(serve), before=("prlimit", "--nofile=1024:1024"))
        wait_file(place, "up")
        port, visitors = published(running), []
        try:
            for _ in range(600):
                with contextlib.suppress(ConnectionResetError):  # one too many
                    visitors.append(socket.create_connection(("127.0.0.1", port), 10))
            check(len(visitors) >= 192, "only %d visitors were let in" % len(visitors))
            time.sleep(1)
            write(place.ws + "/go")
            result = running.wait(60)
        finally:
            for one in visitors:
                one.close()
        result.allowed(*("meanwhile %d" % n for n in range(20)))


@test("N-publish visitors of a port where nobody listens are turned away at once, and the next ones are served")
def _():
    with Place() as place:
        place.expect("listen", "up", "stop")
        running = start(place, ["--listen", "8080"], inside(r"""
            until(lambda: os.path.exists("listen"))
            server = socket.create_server(("127.0.0.1", 8080)); server.settimeout(0.1); put("up")
            while not os.path.exists("stop"):
                try: c, _ = server.accept()
                except TimeoutError: continue
                c.recv(100); c.sendall(b"answer"); c.close()
            """))
        port = published(running)

        def visit():
            try:
                with socket.create_connection(("127.0.0.1", port), 10) as s:
                    s.settimeout(10)
                    s.sendall(b"x")
                    return s.recv(100)
            except ConnectionError:
                return b""
        began = time.monotonic()
        same({visit() for _ in range(200)}, {b""}, "visits without a server")
        check(time.monotonic() - began < 5, "200 visits took %.1f s" % (time.monotonic() - began))
        write(place.ws + "/listen")
        wait_file(place, "up")
        same({visit() for _ in range(50)}, {b"answer"}, "visits with one")
        write(place.ws + "/stop")
        running.wait()


main()
