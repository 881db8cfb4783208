# SPDX-License-Identifier: Apache-2.0
"""
The daemon itself: starting and stopping, keys and tenants, time-outs, quotas, pauses, being killed, systemd's ways
"""

import os
import socket
import sys

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


def pid_inside(daemon, box, command):
    """A command in the background, by a mark in its arguments that the host sees."""
    mark = "mark-" + os.urandom(8).hex()
    daemon.run(box, "exec -a %s sleep 1000 >/dev/null 2>&1 & %s" % (mark, command))
    return mark


def is_running(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if file.read().split(b"\0")[0] == mark.encode():
                    return True
        except OSError:
            continue
    return False


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
                         ("idle: soon\n", "config.yaml:1: 'idle'"),
                         ("tenants:\n  a: {memory: 1G}\n  a: {}\n", "config.yaml:3:"),
                         ("listen: {a: b}\n", "config.yaml:1: 'listen'"),
                         ("a: &x 1\n", "config.yaml:1")):
        refused([], wanted, config=text)
    refused(["--config", "/nonexistent/c.yaml"], "No such file")


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


@test("a sandbox ends at its time, or is paused, and a time-out can be moved")
def _():
    with Daemon() as daemon:
        ends, pauses, stays = daemon.create(timeout=2), daemon.create(timeout=2, autoPause=True), daemon.create(timeout=2)
        same(daemon.call("POST", "/sandboxes/%s/timeout" % stays["sandboxID"], {"timeout": 600})[0], 204, "setting it")
        check(until(lambda: daemon.state_of(ends) is None), "it did not end")
        check(until(lambda: daemon.state_of(pauses) == "paused"), "it was not paused")
        same(daemon.call("GET", "/health", box=ends)[0], 502, "the data plane of one that has ended")
        same(daemon.call("GET", "/health", box=pauses)[0], 502, "the data plane of one that is paused")
        same(daemon.state_of(stays), "running", "one whose end was moved")
        status, body, _ = daemon.call("POST", "/v2/sandboxes/%s/connect" % pauses["sandboxID"], {"timeout": 60})
        same(status, 201, "connect resumes: %s" % body)
        same(daemon.run(pauses, "echo hi").out, b"hi\n", "a command after that")
        metrics = daemon.call("GET", "/metrics")[1]
        check(b'atoll_ended_total{cause="time-out"} 1' in metrics, "causes in /metrics")


@test("a pause keeps processes, or only files")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600)
        mark = pid_inside(daemon, box, "echo kept >file")
        path = "/sandboxes/%s/pause" % box["sandboxID"]
        same(daemon.call("POST", path, {})[0], 204, "pause")
        check(is_running(mark), "the process is gone with a pause that keeps memory")
        same(daemon.call("POST", path, {})[0], 409, "a second pause")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
        check(is_running(mark), "the process is gone after the resumption")
        same(daemon.call("POST", path, {"memory": False})[0], 204, "pause without memory")
        check(until(lambda: not is_running(mark)), "the process lives on in a pause without memory")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
        same(daemon.run(box, "cat file").out, b"kept\n", "the file")


@test("one that wakes is woken by a request")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600, autoPause=True, autoResume={"enabled": True})
        daemon.run(box, "echo x >f")
        same(daemon.call("POST", "/sandboxes/%s/pause" % box["sandboxID"], {})[0], 204, "pause")
        same(daemon.run(box, "cat f").out, b"x\n", "a command to a paused one")
        same(daemon.state_of(box), "running", "its state then")


@test("kill: unroutable at once, and nothing of it is left")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        box = daemon.create(timeout=600)
        mark = pid_inside(daemon, box, "true")
        check(is_running(mark), "the command does not run")
        same(daemon.kill(box), 204, "kill")
        same(daemon.call("GET", "/health", box=box)[0], 502, "the data plane")
        same(daemon.kill(box), 404, "a second kill")
        check(until(lambda: not is_running(mark)), "a process of it lives on")
        check(until(lambda: not daemon.records()), "records are left: %s" % daemon.records())
        check(until(lambda: not daemon.holders()), "holders are left")


@test("kill -9 of the daemon: sandboxes and their commands go on, and are taken over")
def _():
    with Daemon() as daemon:
        box, ended, other = daemon.create(timeout=600, metadata={"a": "b"}), daemon.create(timeout=3), daemon.create(timeout=600)
        mark = pid_inside(daemon, box, "echo here >file")
        gone = pid_inside(daemon, ended, "true")
        same(daemon.call("POST", "/sandboxes/%s/pause" % other["sandboxID"], {})[0], 204, "pause")
        before = daemon.call("GET", "/sandboxes/" + box["sandboxID"])[1]
        daemon.crash()
        check(is_running(mark), "the command ended with the daemon")
        time.sleep(3)
        daemon.start()
        check(is_running(mark), "the command ended with the next daemon")
        same(daemon.call("GET", "/sandboxes/" + box["sandboxID"])[1], before, "what is known of it")
        same(daemon.run(box, "cat file").out, b"here\n", "a file, by a command in it")
        same(daemon.state_of(other), "paused", "the paused one")
        check(until(lambda: daemon.state_of(ended) is None), "the one whose time came meanwhile is still there")
        check(until(lambda: not is_running(gone)), "its command lives on")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % other["sandboxID"], {})[0], 201, "connect to the paused one")
        same(daemon.kill(box), 204, "kill")
        check(until(lambda: not is_running(mark)), "its command lives on")


@test("what a killed daemon has parked or half made is removed by the next")
def _():
    with Daemon(config="pool: {least: 3, most: 3}\n") as daemon:
        check(until(lambda: b"atoll_pool_parked 3" in daemon.call("GET", "/metrics")[1]), "the pool does not fill")
        daemon.crash()
        same(len(daemon.records()), 3, "what the killed daemon left")
        left = set(daemon.records())
        daemon.flags = []
        daemon.start()
        check(until(lambda: not left & set(daemon.records())), "it is left: %s" % daemon.records())


@test("a stop waits for answers, leaves sandboxes as they are, and takes parked ones away")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600)
        mark = pid_inside(daemon, box, "true")
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


@test("--end-sandboxes ends them with the daemon")
def _():
    with Daemon(flags=["--end-sandboxes"]) as daemon:
        box = daemon.create(timeout=600)
        mark = pid_inside(daemon, box, "true")
        same(daemon.stop(), 0, "the daemon's exit status")
        check(until(lambda: not is_running(mark)), "a command lives on")
        same(daemon.records(), [], "records")


@test("snapshots outlive their sandbox, and forks are on their own")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600, envVars={"E": "1"})
        daemon.run(box, "echo one >f")
        status, made, _ = daemon.call("POST", "/sandboxes/%s/snapshots" % box["sandboxID"], {"name": "snap"})
        same((status, made), (201, {"snapshotID": "local/snap:default", "names": ["local/snap"]}), "a snapshot")
        status, forks, _ = daemon.call("POST", "/sandboxes/%s/fork" % box["sandboxID"], {"count": 2, "timeout": 100})
        same((status, len(forks)), (201, 2), "forks: %s" % forks)
        daemon.run(box, "echo two >f")
        fork = forks[0]["sandbox"]
        same(daemon.run(fork, "cat f; echo $E").out, b"one\n1\n", "the fork")
        same(daemon.kill(box), 204, "kill")
        daemon.crash()
        daemon.start()
        copy = daemon.create("snap", timeout=100)
        same(daemon.run(copy, "cat f").out, b"one\n", "one made from the snapshot, after all that")
        same(daemon.call("DELETE", "/templates/local%2Fsnap%3Adefault")[0], 204, "remove the snapshot")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "snap"})[0], 404, "one from it after that")
        same(daemon.run(copy, "cat f").out, b"one\n", "the copy after that")


@test("a budget that is used up pauses the work, and there is no new")
def _():
    config = "tenants:\n  poor: {budget: {cpu: 1s, then: pause}}\npool: {least: 0, most: 0}\n"
    with Daemon(config=config) as daemon:
        daemon.key = daemon.make_key()
        daemon.key = daemon.serve("key", "new", "--tenant", "poor")[1].strip()
        box = daemon.create(timeout=600)
        frames = daemon.begin(box, "while :; do :; done")
        check("start" in next(frames)[1]["event"], "no start")
        check(until(lambda: daemon.state_of(box) == "paused"), "it was not paused")
        status, body, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"})
        check(status == 429 and "budget" in body["message"], "a new one: %s %s" % (status, body))


@test("an idle one ends, and one with a command does not")
def _():
    with Daemon(config="idle: 2s\npool: {least: 0, most: 0}\n") as daemon:
        idle, busy = daemon.create(timeout=600), daemon.create(timeout=600)
        frames = daemon.begin(busy, "sleep 1000")
        check("start" in next(frames)[1]["event"], "no start")
        check(until(lambda: daemon.state_of(idle) is None, 60), "it did not end")
        same(daemon.state_of(busy), "running", "the one with a command")


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
        daemon.stop()
        os.close(moved)


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


main()
