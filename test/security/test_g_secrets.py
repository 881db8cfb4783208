# SPDX-License-Identifier: Apache-2.0
"""
Family G of the escape corpus: credentials that stay outside (NET-35)

The value is in the caller's environment, in a file or what a command prints. It must arrive at the one server that it belongs to, and be
nowhere else: not inside, not in another request, not in what atoll prints.
"""
import base64
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, inside  # noqa: E402

rig = net.enter()
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def new_value(size=40):
    return "sk-" + "".join(_random_letter() for _ in range(size))


def _random_letter():
    return ALPHABET[int.from_bytes(os.urandom(2), "big") % len(ALPHABET)]


def spellings(value):
    """As it could be told by mistake."""
    text = value.encode()
    return [value, value[::-1], base64.b64encode(text).decode().rstrip("="), base64.b64encode(b"user:" + text).decode().rstrip("="), text.hex(), value[3:]]


def unseen(value, *results):
    for result in results:
        for spelling in spellings(value):
            check(spelling not in result.out and spelling not in result.err, "the value is told: %s" % result.describe()[-600:])


GET = r"""
import json, base64
key = os.environ.get("API_KEY", "")
def get(host, path="/", more="", method="GET", body=b"", secure=True):
    data = request(host, path, method, more + ("Content-Length: %d\r\n" % len(body) if body else "")) + body
    got = tls(host, data=data) if secure else reach(host, 80, data)
    print("answer", host, path, got.decode("latin-1").replace("\n", "\\n").replace("\r", "\\r")[:3000])
    return got
"""


@test("NET-35 the value arrives at its host, over TLS, in its header; inside there is a placeholder of the same shape")
def _():
    value = new_value()
    with Place() as place:
        rig.clear()
        result = run(place, ["--secret", "API_KEY=api.test", "--allow", "api.test", "--allow", "other.test"], inside(GET + r"""
print("placeholder", key)
outcome("bearer", lambda: get("api.test", "/a", "Authorization: Bearer %s\r\n" % key))
outcome("as it is", lambda: get("api.test", "/b", "Authorization: %s\r\n" % key))
outcome("case", lambda: get("api.test", "/c", "AUTHORIZATION:%s\r\n" % key))
outcome("without", lambda: get("api.test", "/d"))
outcome("another key", lambda: get("api.test", "/e", "Authorization: Bearer sk-mine\r\n"))
"""), env={"API_KEY": value})
        result.allowed("bearer", "as it is", "case", "without", "another key")
        arrived = {one["path"]: one["auth"] for one in rig.requests(5)}
        same(arrived, {"/a": "Bearer " + value, "/b": value, "/c": value, "/d": "", "/e": "Bearer sk-mine"}, "what arrived")
        same({one["tls"] != "" for one in rig.requests()}, {True}, "over TLS")
        unseen(value, result)
        placeholder = re.search(r"placeholder (\S+)", result.out)[1]
        check(len(placeholder) == len(value) and placeholder.startswith("sk-") and placeholder != value, "the placeholder %r for %r" % (placeholder, value))
        for a, b in zip(placeholder, value):
            same((a.isdigit(), a.islower(), a.isupper()), (b.isdigit(), b.islower(), b.isupper()), "the kind of a letter in %s for %s" % (placeholder, value))
        again = run(place, ["--secret", "API_KEY=api.test", "--allow", "api.test"], ["sh", "-c", "echo placeholder $API_KEY"], env={"API_KEY": value})
        check(placeholder not in again.out, "the same placeholder in another run")


@test("NET-35 other hosts, plain HTTP, the URL, the body and other headers get the placeholder or a refusal")
def _():
    value = new_value()
    with Place() as place:
        rig.clear()
        result = run(place, ["--json", "--secret", "API_KEY=api.test", "--allow", "api.test", "--allow", "other.test", "--allow", "good.test"], inside(GET + r"""
auth = "Authorization: Bearer %s\r\n" % key
outcome("control", lambda: get("api.test", "/control", auth))
outcome("other host", lambda: get("other.test", "/x", auth))
outcome("other host plain", lambda: get("other.test", "/x", auth, secure=False))
outcome("plain", lambda: get("api.test", "/x", auth, secure=False))
outcome("url", lambda: get("api.test", "/x?key=" + key))
outcome("path", lambda: get("api.test", "/x/" + key))
outcome("body", lambda: get("api.test", "/py/x", "", "POST", key.encode()))
outcome("header", lambda: get("api.test", "/x", "X-Api-Key: %s\r\nCookie: %s\r\n" % (key, key)))
outcome("host in the header", lambda: tls("api.test", data=request("other.test", "/x", "GET", auth)))
outcome("name in TLS", lambda: tls("api.test", sni="other.test", data=request("api.test", "/x", "GET", auth), check=False))
outcome("folded", lambda: tls("api.test", data=b"GET /x HTTP/1.1\r\nHost: api.test\r\nX: y\r\n " + auth.encode() + b"\r\n"))
outcome("websocket to another path", lambda: get("api.test", "/x?2", "X-Authorization: %s\r\nProxy-Authorization: Bearer %s\r\n" % (key, key)))
"""), env={"API_KEY": value})
        result.allowed("control")
        requests = rig.requests(5)
        carrying = [one for one in requests if value in json.dumps(one)]
        same([one["path"] for one in carrying], ["/control"], "requests that carried the value")
        rig.silence(value)  # in no packet in clear text
        unseen(value, result)


@test("NET-35 what the server reflects comes back as the placeholder: header, body, split, across buffers, Basic")
def _():
    value = new_value()
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "api.test", "--secret", "API_KEY=api.test", "--secret", "SECOND=api.test/x-api-key"], inside(GET + r"""
auth = "Authorization: Bearer %s\r\nX-Api-Key: %s\r\n" % (key, os.environ["SECOND"])
for path in ("/reflect", "/py/split", "/py/late", "/py/x"):
    got = None
    def reflected():
        global got
        got = get("api.test", path, auth)
        return got
    outcome(path, reflected)
    tell("placeholder back " + path, str(key.encode() in (got or b"") or key.encode() in (got or b"").replace(b"\r\n1\r\n", b"")))
basic = base64.b64encode(b"user:" + key.encode()).decode()
outcome("basic", lambda: get("api.test", "/reflect?basic", "Authorization: Basic %s\r\n" % basic))
outcome("gzip", lambda: get("api.test", "/reflect?gzip", auth + "Accept-Encoding: gzip, br\r\n"))
def ranges(): return get("api.test", "/py/late", auth + "Range: bytes=0-100\r\n")
outcome("range", ranges)
"""), env={"API_KEY": value, "SECOND": value[::-1]})
        result.allowed("/reflect", "/py/split", "/py/late", "/py/x")
        for path in ("/reflect", "/py/split", "/py/late", "/py/x"):
            same(result.tries["placeholder back " + path], "True", "the placeholder comes back from " + path)
        joined = result.out.replace("\\r\\n1\\r\\n", "")
        for spelling in (*spellings(value), value[::-1]):
            check(spelling not in result.out and spelling not in joined, "the value came back: %r" % spelling)
        arrived = [one for one in rig.requests() if one["path"] == "/reflect"]
        same((arrived[0]["auth"], arrived[0]["key"]), ("Bearer " + value, value[::-1]), "both arrived")
        basic = [one for one in rig.requests() if one["query"] == "basic"]
        if basic:
            sent = base64.b64decode(basic[0]["auth"].split()[1]).decode()
            check(sent == "user:" + value or value not in sent, "Basic: %s" % sent)


@test("NET-35 redirects: what is followed to another host carries no value")
def _():
    need("curl")
    value = new_value()
    with Place() as place:
        for path in ("redirect", "redirect-tls"):
            for proxy in ([], ["--no-proxy"]):
                rig.clear()
                result = run(place, [*proxy, "--secret", "API_KEY=api.test", "--allow", "api.test", "--allow", "other.test"], inside_sh(
                    'curl -sS -m 40 --location-trusted -H "Authorization: Bearer $API_KEY" https://api.test/$1', path), env={"API_KEY": value})
                same(result.status, 0, "curl")
                by = {one["host"]: one for one in rig.requests(2)}
                same(by["api.test"]["auth"], "Bearer " + value, "at its host")
                check(value not in by["other.test"]["auth"] and by["other.test"]["auth"].startswith("Bearer sk-"), "at the other: %s" % by["other.test"])
                rig.silence(value)
                unseen(value, result)


@test("NET-35 the value is nowhere inside: environments, memory of every process in the sandbox, files")
def _():
    value = new_value()
    with Place() as place:
        place.expect("up", "go")
        running = start(place, ["--secret", "API_KEY=api.test", "--allow", "api.test"], inside(GET + r"""
outcome("used", lambda: get("api.test", "/a", "Authorization: Bearer %s\r\n" % key))
outcome("reflected", lambda: get("api.test", "/reflect", "Authorization: Bearer %s\r\n" % key))
put("up")  # the host looks into our memory, where it must not be; then we look for it ourselves
end = time.monotonic() + 20
while not os.path.exists("go") and time.monotonic() < end: time.sleep(0.02)
found = []
needle = bytes(a ^ 0x55 for a in bytes.fromhex(arg[0]))  # not here as it is
def search(path):
    try:
        with open(path, "rb") as file:
            if needle in file.read(1 << 22): found.append(path)
    except OSError: pass
for top in ("/run", "/tmp", "/var/tmp", "/dev/shm", "/etc", os.environ.get("HOME", "/nowhere"), "."):
    for where, directories, files in os.walk(top):
        for name in files: search(os.path.join(where, name))
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for name in ("environ", "cmdline", "auxv"):
        search("/proc/%s/%s" % (pid, name))
    try:
        for line in open("/proc/%s/maps" % pid):
            if pid == str(os.getpid()): continue
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            with open("/proc/%s/mem" % pid, "rb", 0) as memory:
                memory.seek(begin)
                if needle in memory.read(min(end - begin, 1 << 24)): found.append("memory of " + pid)
    except (OSError, ValueError, OverflowError): pass
tell("found", " ".join(found) or "nothing")
""", bytes(a ^ 0x55 for a in value.encode()).hex()), env={"API_KEY": value})
        wait_file(place, "up", 20)
        looked, holders = memory_search(running, value.encode())
        write(place.ws + "/go")
        result = running.wait()
        result.allowed("used", "reflected")
        same(result.tries["found"], "nothing", "what was found inside")
        unseen(value, result)
        if IS_ROOT:  # pid 1 of the sandbox shows its memory to nobody else
            check(len(looked) >= 2, "the first process's memory could not be read: %s" % looked)
        if "ASAN_OPTIONS" not in os.environ:  # which keep freed memory for a while
            same(holders, [], "processes of the sandbox with the value in memory")
        for where in ("home", "out"):
            for directory, _, files in os.walk(getattr(place, where)):
                for name in files:
                    check(value.encode() not in read(os.path.join(directory, name)), "the value is on disk: %s" % name)


def memory_search(running, needle):
    """Of the processes in the sandbox, as the host sees them: which could be read, and which have it."""
    import terminal
    own = terminal.namespace(os.getpid())
    looked, holders = [], []
    for pid, name in terminal.inside(running.pid).items():
        with contextlib.suppress(OSError, ValueError, OverflowError):
            if terminal.namespace(pid) == own:
                continue
            for line in read("/proc/%d/maps" % pid).decode().splitlines():
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                if "[v" in line or "r" not in line.split()[1] or end - begin > 1 << 30:  # the sanitizers' shadow has terabytes
                    continue
                with open("/proc/%d/mem" % pid, "rb", 0) as memory:
                    memory.seek(begin)
                    if needle in memory.read(end - begin):
                        holders.append("%s %s" % (name, line.split()[-1]))
            looked.append(name)
    if not looked:
        skip("rights to read the memory of a sandbox from outside")
    return looked, holders


@test("NET-35 from a file and from a command; what cannot be had is an error before the start")
def _():
    value = new_value()
    with Place() as place:
        path = write(place.tmp + "/key", value + "\n", 0o600)
        for source in ("file:" + path, "command:cat '%s'" % path, "env:OTHER_NAME"):
            rig.clear()
            job = job_file(place, {"network": {"allow": ["api.test"], "secrets": [{"name": "API_KEY", "host": "api.test", "header": "x-api-key", "from": source}]}})
            result = run(place, ["-f", job], inside(GET + 'outcome("x", lambda: get("api.test", "/x", "X-Api-Key: %s\\r\\nAuthorization: %s\\r\\n" % (key, key)))'), env={"OTHER_NAME": value})
            result.allowed("x")
            got = rig.requests(1)[0]
            same(got["key"], value, "what arrived from %s" % source)
            check(value not in got["auth"], "in another header, too")
            unseen(value, result)
            check(value not in atoll(place, "run", "--plan", "-f", job, env={"OTHER_NAME": value}).out, "the plan tells")
        bad = [({"from": "file:/nonexistent/key"}, {}), ({"from": "command:false"}, {}), ({"from": "env:NOT_THERE"}, {}), ({}, {}), ({"host": "*.test"}, {"API_KEY": "x" * 20}), ({"host": "10.0.0.1"}, {"API_KEY": "x" * 20}),
               ({"header": "host"}, {"API_KEY": "x" * 20}), ({"header": "a b"}, {"API_KEY": "x" * 20}), ({"header": "content-length"}, {"API_KEY": "x" * 20}), ({"name": "A=B"}, {"API_KEY": "x" * 20}), ({}, {"API_KEY": ""}), ({}, {"API_KEY": "two\r\nlines: x"})]
        for more, env in bad:
            job = job_file(place, {"network": {"allow": ["api.test"], "secrets": [{"name": "API_KEY", "host": "api.test", **more}]}})
            done = run(place, ["-f", job], ["true"], starts=False, env=env)
            among(done.status, (*REFUSED, HOST_CANNOT), "%s: %s" % (more, done.err))
            check(all(text not in done.err for text in env.values() if text), "the message tells the value: %s" % done.err)


@test("NET-35 a server that cannot show who it is gets no value")
def _():
    value = new_value()
    with Place() as place:
        for name in ("expired.test", "selfsigned.test", "wrong.test"):
            rig.clear()
            result = run(place, ["--secret", "API_KEY=" + name, "--allow", name], inside(GET + 'outcome("x", lambda: tls(arg[0], check=False, data=request(arg[0], "/", "GET", "Authorization: " + key + "\\r\\n")))', name),
                         env={"API_KEY": value})
            result.refused("x", how=("http 502", *NO_WAY, "tls TLSV1_ALERT_INTERNAL_ERROR", "tls UNEXPECTED_EOF_WHILE_READING"))
            same(rig.requests(), [], "requests that arrived")
            unseen(value, result)


@test("NET-35 real clients with a credential: curl, git, python requests, node")
def _():
    value = new_value()
    clients = {
        "curl": 'curl -sS -m 40 -H "Authorization: Bearer $API_KEY" https://api.test/curl',
        "wget": 'wget -q -O- --timeout=40 --header="Authorization: Bearer $API_KEY" https://api.test/wget',
        "git": 'git -c http.extraHeader="Authorization: Bearer $API_KEY" ls-remote https://api.test/git/repo.git',
        "/usr/bin/python3": """/usr/bin/python3 -c 'import os, requests; print(requests.get("https://api.test/python", headers={"Authorization": "Bearer " + os.environ["API_KEY"]}, timeout=40).text)'""",
        "node": """node -e 'fetch("https://api.test/node", {headers: {authorization: "Bearer " + process.env.API_KEY}}).then(r => r.text()).then(console.log, e => { console.error(e); process.exit(1) })'""",
    }
    with Place() as place:
        for proxy in ([], ["--no-proxy"]):
            for name, script in clients.items():
                if not shutil.which(name, path="/usr/bin:/bin") or name.endswith("python3") and subprocess.run([name, "-c", "import requests"], stderr=subprocess.DEVNULL).returncode:
                    continue
                rig.clear()
                result = run(place, [*proxy, "--secret", "API_KEY=api.test", "--allow", "api.test"], inside_sh(script), env={"API_KEY": value})
                same(result.status, 0, name)
                same({one["auth"] for one in rig.requests(1)}, {"Bearer " + value}, "what arrived from %s" % name)
                unseen(value, result)


main()
