# SPDX-License-Identifier: Apache-2.0
# check: seconds 20
"""
The daemon itself: starting and stopping, keys and tenants, quotas, configuration, systemd's ways
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: E402


def refused(words, wanted, config=None, status=BAD_REQUEST):
    """`atoll serve` with these does not start, and says why."""
    with Daemon(config=config, flags=words, starts=False, listen=None) as daemon:
        done = subprocess.run(daemon.arguments(), capture_output=True, env=daemon.environment, timeout=60 * SLOW,
                              stdin=subprocess.DEVNULL)
        text = done.stderr.decode()
        same(done.returncode, status, "its exit status (%s)" % text)
        check(wanted in text, "it says %r, not %r" % (text, wanted))
        same(len(text.splitlines()), 1, "lines of the error")


def is_listening(daemon):
    parts = urllib.parse.urlsplit(daemon.url)
    try:
        socket.create_connection((parts.hostname, parts.port)).close()
    except OSError:
        return False
    return True


@test("it says where it listens, with which key, and what an E2B program needs")
def _():
    with Daemon() as daemon:
        check(daemon.url.startswith("http://127.0.0.1:"), "url " + daemon.url)
        check(re.fullmatch("e2b_[0-9a-f]{40}", daemon.key), "key " + daemon.key)
        check("export E2B_SANDBOX_URL=" + daemon.url in daemon.said, "what it says: %s" % daemon.said)
        same(daemon.call("GET", "/healthz", key=None)[0], 200, "/healthz")
        same(daemon.call("GET", "/readyz", key=None)[0], 200, "/readyz")
        status, text, _ = daemon.call("GET", "/metrics")
        check(status == 200 and b"atoll_request_seconds_bucket" in text, "/metrics: %s" % status)
        with open(os.path.join(daemon.state, "state.db"), "rb") as file:
            check(daemon.key.encode() not in file.read(), "the key is in the database")
        first = daemon.key
        same(daemon.stop(), 0, "its exit status")
        daemon.start()
        check(not any(line.startswith("export E2B_API_KEY") for line in daemon.said), "a second key: %s" % daemon.said)
        same(daemon.call("GET", "/v2/sandboxes", key=first)[0], 200, "the first key after a restart")


@test("without a key, or with a wrong one, nothing is told but that")
def _():
    with Daemon() as daemon:
        for key in (None, "e2b_" + 40 * "0", "x", daemon.key[:-1], daemon.key + "0"):
            for path in ("/v2/sandboxes", "/metrics", "/nothing", "/v1/sandboxes"):
                status, body, _ = daemon.call("GET", path, key=key)
                same(status, 401, "%s with key %s" % (path, key))
        status, body, _ = daemon.call("GET", "/v2/sandboxes", key=None, headers={"Authorization": "Bearer " + daemon.key})
        same((status, body), (200, []), "the key as a bearer's")
        status, body, _ = daemon.call("GET", "/nothing")
        same((status, body["code"]), (404, 404), "an unknown path")
        status, body, headers = daemon.call("PATCH", "/v2/sandboxes")
        same((status, body["code"]), (405, 405), "another method")
        check("POST" in headers["allow"] and "GET" in headers["allow"], "Allow: " + headers["allow"])


@test("keys come and go while it runs, and before it has ever run")
def _():
    with Daemon(starts=False) as daemon:
        early = daemon.make_key()
        daemon.start()
        check(not any(line.startswith("export E2B_API_KEY") for line in daemon.said), "another key was made")
        same(daemon.call("GET", "/v2/sandboxes", key=early)[0], 200, "a key that was made before the first start")
        late = daemon.make_key("ci")
        same(daemon.call("GET", "/v2/sandboxes", key=late)[0], 200, "a key that was made meanwhile")
        for key, named in ((early, {b"default", b"ci"}), (late, {b"ci"})):
            metrics = daemon.call("GET", "/metrics", key=key)[1]
            same(set(re.findall(rb'tenant="([^"]*)"', metrics)), named, "tenants in /metrics")
        status, out, _ = daemon.serve("key", "ls")
        check(status == 0 and late[:12] in out and late not in out and "ci" in out, "key ls: " + out)
        same(daemon.serve("key", "rm", late[:12])[0], 0, "key rm")
        same(daemon.call("GET", "/v2/sandboxes", key=late)[0], 401, "a key that was removed")
        same(daemon.call("GET", "/v2/sandboxes", key=early)[0], 200, "another one")
        same(daemon.serve("key", "rm", "e2b_00000000")[0], BAD_REQUEST, "key rm of none")
        same(daemon.serve("key", "new", "--tenant", "nobody")[0], BAD_REQUEST, "a key of nobody")
        same(daemon.serve("tenant", "rm", "ci")[0], 0, "tenant rm")
        same(daemon.serve("tenant", "add", "Not A Name")[0], BAD_REQUEST, "a bad name")


@test("tenants see nothing of each other's sandboxes")
def _():
    with Daemon() as daemon:
        other = daemon.make_key("other")
        box = daemon.create(timeout=60)
        path = "/sandboxes/" + box["sandboxID"]
        same(daemon.call("GET", path)[0], 200, "its owner")
        for method, where, body in (("GET", path, None), ("DELETE", path, None), ("POST", path + "/timeout", {"timeout": 1}),
                                    ("POST", path + "/pause", {}), ("POST", path + "/snapshots", {}),
                                    ("POST", path + "/fork", {}), ("POST", "/v2" + path + "/connect", {})):
            same(daemon.call(method, where, body, key=other)[0], 404, "%s %s by another tenant" % (method, where))
        same(daemon.call("GET", "/v2/sandboxes", key=other)[1], [], "another tenant's list")
        same(daemon.state_of(box), "running", "the sandbox")


@test("quotas of a tenant and of the machine are 429 with Retry-After")
def _():
    with Daemon(config="machine: {sandboxes: 3}\ntenants:\n  small: {sandboxes: 1}\npool: {least: 0, most: 0}\n") as daemon:
        status, key, _ = daemon.serve("key", "new", "--tenant", "small")
        small = key.strip()
        status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)
        same(status, 201, "the first of the small tenant: %s" % box)
        status, body, headers = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)
        same((status, body["code"], headers.get("retry-after", "").isdigit()), (429, 429, True), "the second: %s" % body)
        boxes = [daemon.create(), daemon.create()]
        status, body, headers = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"})
        same((status, headers.get("retry-after", "").isdigit()), (429, True), "the fourth of the machine: %s" % body)
        same(daemon.kill(boxes[0]), 204, "kill")
        daemon.create()
        same(daemon.call("DELETE", "/sandboxes/" + box["sandboxID"], key=small)[0], 204, "kill")


@test("what makes no sense in a configuration is told with its line")
def _():
    for text, wanted in (("machine:\n  sandboxs: 3\n", "config.yaml:2: unknown key 'sandboxs'"),
                         ("machine: {sandboxes: many}\n", "config.yaml:1: 'sandboxes' has to be a whole number"),
                         ("pool: [1]\n", "config.yaml:1: 'pool' has to be a section"),
                         ("tls: {certificate: x.pem}\n", "given with both"),
                         ("tls: {certificate: x.pem, key: y.pem}\n", "x.pem': No such file or directory"),
                         ("machine: {memory: 5Q}\n", "config.yaml:1: 'memory': '5Q' is not a size"),
                         ("idle: soon\n", "config.yaml:1: 'idle': 'soon' is not a time"),
                         ("tenants:\n  a: {memory: 1G}\n  a: {}\n", "config.yaml:3:"),
                         ("listen: {a: b}\n", "config.yaml:1: 'listen'"),
                         ("a: &x 1\n", "config.yaml:1")):
        refused([], wanted, config=text)
    refused(["--config", "/nonexistent/c.yaml"], "No such file")
    refused(["--state", ""], "--state: there is no directory")


@test("a later start says how a key is made, for its own state")
def _():
    with Daemon() as daemon:
        daemon.stop()
        daemon.start()
        line = "# keys are made by: atoll serve key new --state " + daemon.state
        check(line in daemon.said, "it says %s" % daemon.said)


@test("it listens beyond the loopback only with TLS")
def _():
    for where in ("0.0.0.0:0", "[::]:0"):
        refused(["--listen", where], "TLS", status=POLICY)
    refused(["--tls-cert", "x.pem"], "--tls-key")
    refused(["--listen", "nowhere"], "nowhere")


@test("TLS, and a unix socket beside it")
def _():
    need("openssl")
    with Daemon(starts=False) as daemon:
        files = [os.path.join(daemon.place, name) for name in ("c.pem", "k.pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=localhost", "-days", "2", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
        path = os.path.join(daemon.place, "s")
        daemon.listen = "0.0.0.0:0"
        daemon.flags += ["--listen", "unix:" + path, "--tls-cert", files[0], "--tls-key", files[1]]
        daemon.start()
        check(daemon.url.startswith("https://"), "url " + daemon.url)
        import ssl
        context = ssl.create_default_context(cafile=files[0])
        context.check_hostname = False
        port = int(daemon.url.rsplit(":", 1)[1])
        secure = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30 * SLOW)
        same(daemon.call("GET", "/v2/sandboxes", connection=secure)[0], 200, "by TLS")
        secure.close()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            check(client.recv(1000).startswith(b"HTTP/1.1 200"), "by the unix socket")


@test("one daemon for a state directory")
def _():
    with Daemon() as daemon:
        done = subprocess.run(daemon.arguments(), capture_output=True, env=daemon.environment, timeout=60 * SLOW)
        same(done.returncode, BAD_REQUEST, "the second one's status")
        check(("another daemon (pid %d)" % daemon.pid).encode() in done.stderr, "it says %s" % done.stderr)
        same(daemon.call("GET", "/healthz")[0], 200, "the first one")


@test("a stop waits for answers, leaves sandboxes as they are, and takes parked ones away")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600)
        mark = sleeper(daemon, box, "true")
        frames = daemon.begin(box, "echo begun; sleep 1; echo done")
        check("start" in next(frames)[1]["event"], "no start")
        daemon.process.send_signal(signal.SIGTERM)
        output = daemon.collect(frames)
        same((output.out, output.code), (b"begun\ndone\n", 0), "a command that was running")
        same(daemon._wait(), 0, "the daemon's exit status")
        check(is_running(mark), "the sandbox ended with the daemon")
        same(len(daemon.records()), 1, "records after the stop: %s" % daemon.records())
        daemon.start()
        same(daemon.state_of(box), "running", "the sandbox")


@test("a stop does not stumble over those who wait for a step, or for what a tenant is told")
def _():
    with Daemon(config="log: {requests: true}\n") as daemon:
        box = daemon.create(timeout=600)["sandboxID"]
        steps = "/v1/sandboxes/%s/steps" % box
        waits = []
        for path, body in ((steps, {"command": ["sleep", "1000"], "wait": 100}), ("/v1/events", None)):
            connection = daemon.connect()
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"X-API-KEY": daemon.key})
            waits.append(connection)
        waits[1].getresponse()
        check(until(lambda: daemon.call("GET", steps)[1]["items"]), "the step does not run")
        # Twice: now, whoever waits.
        daemon.process.send_signal(signal.SIGTERM)
        check(until(lambda: not is_listening(daemon)), "it still listens")
        same(daemon.stop(), 0, "the daemon's exit status")
        for connection in waits:
            connection.close()
        told = [json.loads(line) for line in daemon.stderr().splitlines() if line.startswith("{")]
        same([line["tenant"] for line in told if line["path"] in (steps, "/v1/events") and line.get("broken")], ["default"] * 2,
             "who waited, in the log")
        daemon.start()
        same(len(daemon.call("GET", steps)[1]["items"]), 1, "the step after a start")


@test("--end-sandboxes ends them with the daemon")
def _():
    with Daemon(flags=["--end-sandboxes"]) as daemon:
        box = daemon.create(timeout=600)
        mark = sleeper(daemon, box, "true")
        same(daemon.stop(), 0, "the daemon's exit status")
        check(until(lambda: not is_running(mark)), "a command lives on")
        same(daemon.records(), [], "records")


@test("systemd's sockets, its notices and its watchdog")
def _():
    with Daemon(starts=False) as daemon, socket.socket() as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        heard.bind(os.path.join(daemon.place, "notify"))
        heard.settimeout(PATIENCE * SLOW)

        def hand_over():
            os.dup2(listener.fileno(), 3)
            os.environ["LISTEN_PID"] = str(os.getpid())
        port = listener.getsockname()[1]
        code = "import os,sys; os.environ['LISTEN_PID']=str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])"
        environment = {**daemon.environment, "LISTEN_FDS": "1", "WATCHDOG_USEC": "300000",
                       "NOTIFY_SOCKET": os.path.join(daemon.place, "notify")}
        daemon.listen = None
        daemon.errors = open(os.path.join(daemon.place, "stderr"), "ab")
        moved = os.dup(listener.fileno())
        daemon.process = subprocess.Popen([PYTHON, "-c", code, *daemon.arguments()], stdout=subprocess.PIPE,
                                          stderr=daemon.errors, env=environment, pass_fds=(3,),
                                          preexec_fn=lambda: os.dup2(moved, 3))
        daemon._read_start()
        said = {heard.recv(100).split(b"=")[0] for _ in range(3)}
        same(said, {b"READY", b"WATCHDOG"}, "notices")
        daemon.url = "http://127.0.0.1:%d" % port
        same(daemon.call("GET", "/healthz", key=None)[0], 200, "/healthz by the socket that was handed over")
        # It has to come three times in the time that is given; one late one must not end the service.
        same({heard.recv(100) for _ in range(9)}, {b"WATCHDOG=1"}, "while it is served")
        daemon.process.send_signal(signal.SIGSTOP)
        drain(heard)
        time.sleep(0.5)
        same(drain(heard), [], "what is said when it does not move")
        daemon.process.send_signal(signal.SIGCONT)
        same(heard.recv(100), b"WATCHDOG=1", "and when it does again")
        daemon.stop()
        same([word for word in drain(heard) if word != b"WATCHDOG=1"], [b"STOPPING=1"], "at its end")
        os.close(moved)


def drain(heard):
    """All that has been said so far."""
    said, patience = [], heard.gettimeout()
    heard.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            said.append(heard.recv(100))
    heard.settimeout(patience)
    return said


@test("sockets that systemd has handed to somebody else are not taken, and nobody inside sees its variables")
def _():
    with Daemon(starts=False, env={"LISTEN_FDS": "1", "LISTEN_PID": "1", "NOTIFY_SOCKET": "@nobody-there", "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}) as daemon:
        daemon.start()
        same(daemon.call("GET", "/healthz", key=None)[0], 200, "by the place that was asked for")
        out = daemon.run(daemon.create(timeout=60), "env").out
        check(not re.search(rb"LISTEN_|NOTIFY|WATCHDOG", out), "inside: %r" % out)


UNIT = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL), "src/daemon/atoll.service")


def unit():
    if not os.path.exists(UNIT):
        skip("the unit, which is beside the program that is built")
    return open(UNIT).read()


@test("the installed units are what systemd takes for units, and no more is open than has to be")
def _():
    need("systemd-analyze")
    text = unit()
    with tempfile.TemporaryDirectory() as root:
        place = root + "/usr/lib/systemd/system"
        shutil.copytree("/lib/systemd/system", place, symlinks=True)
        write(place + "/atoll.service", text)
        for name in ("atoll.socket", "atoll-sandboxes.service"):
            shutil.copy(os.path.join(os.path.dirname(UNIT), name), place)
        program = re.search(r"^ExecStart=(\S+)", text, re.M)[1]
        for path in (program, "/bin/sh", "/bin/sleep"):
            write(root + path, "#!/bin/sh\n", 0o755)
        for words in (["verify", "--man=no", "atoll.service", "atoll.socket", "atoll-sandboxes.service"], ["security", "--offline=yes", "--threshold=86", "atoll.service"]):
            done = subprocess.run(["systemd-analyze", "--root=" + root, "--no-pager", *words], capture_output=True, text=True, timeout=60)
            same(done.returncode, 0, "%s: %s%s" % (words[0], done.stderr, done.stdout[-300:]))
            if words[0] == "verify":
                same(done.stderr, "", "what it says of the units")


@test("a daemon from which is taken what the unit takes makes sandboxes that lack nothing")
def _():
    need("setpriv")
    taken = re.search(r"^CapabilityBoundingSet=~(.*)$", unit(), re.M)[1].split()
    check(taken and re.search(r"^NoNewPrivileges=yes$", unit(), re.M), "the unit")
    less = ["setpriv", "--no-new-privs"]
    if os.geteuid() == 0:
        less += ["--bounding-set", ",".join("-" + name.lower().removeprefix("cap_") for name in taken)]
    with Daemon(starts=False) as daemon:
        usual = daemon.arguments
        daemon.arguments = lambda: [*less, *usual()]
        daemon.start()
        status = open("/proc/%d/status" % daemon.pid).read()
        same(re.search(r"^NoNewPrivs:\s*(\d)", status, re.M)[1], "1", "its own status")
        box = daemon.create(timeout=600)
        same(daemon.run(box, "test $$ -lt 1000 && echo x >f && mkdir d && mv f d && cat d/f && head -c 1 /dev/urandom >/dev/null && ! grep eth0 /proc/net/dev").out,
             b"x\n", "a command")
        if os.geteuid() == 0:
            same(daemon.run(box, "id -u; mount -t tmpfs x /mnt 2>/dev/null || echo refused", user="root").out, b"0\nrefused\n", "as root inside")
            bound = int(re.search(r"^CapBnd:\s*(\w+)", status, re.M)[1], 16)
            check(not bound & 1 << 16, "CAP_SYS_MODULE is there: %x" % bound)
        same(daemon.kill(box), 204, "kill")


@test("requests are logged as JSON, with their trace")
def _():
    with Daemon(flags=["--log-requests"]) as daemon:
        trace = "00-%s-%s-01" % ("ab" * 16, "cd" * 8)
        daemon.call("GET", "/v2/sandboxes?secret=1", headers={"traceparent": trace})
        daemon.call("GET", "/v2/sandboxes", headers={"traceparent": "00-nonsense"})
        lines = until(lambda: [json.loads(line) for line in daemon.stderr().splitlines()][1:] and
                      [json.loads(line) for line in daemon.stderr().splitlines()])
        same((lines[0]["path"], lines[0]["status"], lines[0]["tenant"], lines[0]["trace"]),
             ("/v2/sandboxes", 200, "default", trace), "the first line")
        check("trace" not in lines[1] and "secret" not in daemon.stderr(), "the log: %s" % daemon.stderr())
        check(lines[0]["peer"].startswith("127.0.0.1:"), "the peer: %s" % lines[0])
        box = daemon.create(timeout=60)
        body = {"command": ["sh", "-c", "echo $TRACEPARENT"], "wait": 30}
        status, step, _ = daemon.call("POST", "/v1/sandboxes/%s/steps" % box["sandboxID"], body, headers={"traceparent": trace})
        same((status, base64.b64decode(step["out"]["data"])), (201, trace.encode() + b"\n"), "a step's environment")
        status, job, _ = daemon.call("POST", "/v1/jobs", {"command": ["sh", "-c", "echo $TRACEPARENT"]}, headers={"traceparent": trace})
        check(until(lambda: daemon.call("GET", "/v1/jobs/" + job["id"])[1]["state"] == "ended"), "the job goes on")
        same(daemon.call("GET", "/v1/jobs/%s/output" % job["id"])[1], trace.encode() + b"\n", "a job's environment")
        frames = daemon.begin(box, "echo $TRACEPARENT", headers={"traceparent": trace})
        next(frames)
        same(daemon.collect(frames).out, trace.encode() + b"\n", "E2B's")


main()
