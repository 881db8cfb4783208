# SPDX-License-Identifier: Apache-2.0
# check: user only
"""
The daemon's HTTP: what clients of all kinds do to it

Raw sockets where the bytes matter; curl and openssl where somebody else's reading of the protocol does. Whatever one client
does, the next one is served: each test ends with that, and memory and descriptors are looked at from outside.
"""
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: E402

MIB = 1 << 20
LARGE = 32 * MIB if IS_SANITIZED else (1024 if os.environ.get("ATOLL_LONG") else 256) * MIB


def dial(daemon):
    parts = urllib.parse.urlsplit(daemon.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE * SLOW)


def hear(connection, end=None):
    """Until `end`, or the connection's."""
    text = b""
    try:
        while not (end and text.endswith(end)):
            piece = connection.recv(65536)
            if not piece:
                break
            text += piece
    except ConnectionResetError:
        pass
    return text


def ask(daemon, request):
    with dial(daemon) as connection:
        connection.sendall(request)
        return hear(connection)


def is_served(daemon):
    return daemon.call("GET", "/healthz")[0] == 200


def memory(daemon, what="VmRSS"):
    with open("/proc/%d/status" % daemon.pid) as file:
        return int(re.search(what + r":\s+(\d+)", file.read())[1]) * 1024


def descriptors(daemon):
    return len(os.listdir("/proc/%d/fd" % daemon.pid))


@test("what could be read in two ways is refused, in JSON with its code, and the connection ends")
def _():
    cases = [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\nHost: a\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET http://other/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400),
        (b"POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}", 400),
        (b"POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
        (b"GET /healthz HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (b"GET /healthz\r\n\r\n", 505),
        (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /" + b"a" * 70000, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70000, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
    ]
    with Daemon() as daemon:
        for request, status in cases:
            answer = ask(daemon, request)
            head, _, body = answer.partition(b"\r\n\r\n")
            check(head.startswith(b"HTTP/1.1 %d " % status), "%r: %r" % (request[:70], head[:70]))
            same(json.loads(body)["code"], status, "the code in %r" % body)
            check(b"Connection: close" in head, "it ends")
        check(is_served(daemon), "the next one")


@test("paths are compared, not walked: dots, slashes and escapes lead nowhere")
def _():
    paths = ["/../healthz", "/./healthz", "//healthz", "/healthz/", "/healthz/..", "/v2/sandboxes/%2e%2e%2f%2e%2e", "/v2/sandboxes/..",
             "/sandboxes/a%00b", "/%68ealthz%00", "/files/../../etc/passwd", "/static/..%2f..%2fetc/passwd", "/*", "/?/healthz"]
    with Daemon() as daemon:
        for path in paths:
            answer = ask(daemon, b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-API-KEY: %s\r\n\r\n" %
                         (path.encode(), daemon.key.encode()))
            status = int(answer.split()[1])
            check(400 <= status < 500, "%s: %r" % (path, answer[:80]))
            check(b"root:" not in answer, "%s shows a file" % path)
        check(is_served(daemon), "the next one")


@test("a connection carries one request after the other, and pipelined ones in order")
def _():
    with Daemon() as daemon, dial(daemon) as connection:
        one = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        for _ in range(100):
            connection.sendall(one)
            check(hear(connection, b"ok\n").startswith(b"HTTP/1.1 200 "), "an answer")
        connection.sendall(one * 50 + b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = hear(connection)
        same(answer.count(b"HTTP/1.1 200 "), 51, "answers")
        check(answer.endswith(b"\r\n\r\n"), "HEAD has no body")


@test("clients: curl with every kind of body, Python, a HTTP/1.0 client, one that shuts its side")
def _():
    need("curl")
    with Daemon() as daemon:
        url = daemon.url + "/v2/sandboxes"
        for more in (["-d", "[]"], ["-d", "[]", "-H", "Transfer-Encoding: chunked"], ["-d", "[]", "-H", "Expect: 100-continue"]):
            done = subprocess.run(["curl", "-sS", "-H", "X-API-KEY: " + daemon.key, "-H", "Content-Type: application/json", *more,
                                   url], capture_output=True, timeout=PATIENCE * SLOW)
            same(json.loads(done.stdout)["code"], 400, "curl %s" % more)
        answer = ask(daemon, b"GET /healthz HTTP/1.0\r\n\r\n")
        check(answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok\n"), "HTTP/1.0: %r" % answer)
        with dial(daemon) as connection:
            connection.sendall(b"GET /v2/sandboxes HTTP/1.1\r\nHost: a\r\nX-API-KEY: %s\r\n\r\n" % daemon.key.encode())
            connection.shutdown(socket.SHUT_WR)
            check(hear(connection).endswith(b"[]"), "an answer for one who says no more")


@test("thousands of connections, most of them idle, cost little and keep nobody waiting")
def _():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    n = min(1000 if IS_SANITIZED else 10000, limit[1] // 2)
    with Daemon() as daemon:
        check(is_served(daemon), "at first")
        before, opened = memory(daemon), []
        try:
            for i in range(n):
                opened.append(dial(daemon))
                if i % 2:
                    opened[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                elif i % 10 == 0:
                    opened[-1].sendall(b"GET /healthz HTTP/1.1\r\nHo")
            for connection in opened[1::2]:
                check(hear(connection, b"ok\n"), "an answer")
            check(is_served(daemon), "one more is served")
            if not IS_SANITIZED:
                check(memory(daemon) - before < n * 4096, "%d bytes for %d connections" % (memory(daemon) - before, n))
        finally:
            for connection in opened:
                connection.close()
        check(until(lambda: descriptors(daemon) < 200), "connections are left open")
        check(is_served(daemon), "afterwards")


@test("clients that vanish in the middle of anything leave nothing behind")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=300)
        check(is_served(daemon), "at first")
        before = descriptors(daemon)
        head = b"X-Access-Token: %s\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n" % (
            box["envdAccessToken"].encode(), box["sandboxID"].encode())
        for text in (b"GET /hea", b"POST /files?path=x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n" + head + b"\r\nabc",
                     b"POST /files?path=x HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n" + head + b"\r\n5\r\nab",
                     b"POST /files HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n"
                     b"Transfer-Encoding: chunked\r\n" + head + b"\r\n5\r\n--b\r\n\r\n"):
            for _ in range(10):
                with dial(daemon) as connection:
                    connection.sendall(text)
        for _ in range(5):
            frames = daemon.begin(box, "echo begun; exec sleep 1000", connection=daemon.connect())
            check(any("data" in frame.get("event", {}) for _, frame in frames), "a command that has begun")
            del frames
        check(until(lambda: descriptors(daemon) <= before + 30), "%d descriptors, %d before" % (descriptors(daemon), before))
        same(len(daemon.call("POST", "/process.Process/List", {}, box=box)[1]["processes"]), 5, "commands go on")
        check(is_served(daemon), "the next one")


@test("a reader that stops keeps neither memory nor anybody else")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=300)
        slow = [daemon.connect() for _ in range(4)]
        frames = [daemon.begin(box, "exec cat /dev/zero", connection=connection) for connection in slow]
        for stream in frames:
            next(stream)
        same(daemon.run(box, "echo hi").out, b"hi\n", "another command")
        after = memory(daemon)
        for _ in range(5):
            same(daemon.run(box, "sleep 0.2; echo hi").out, b"hi\n", "another command")
        check(memory(daemon) < after + 64 * MIB * (4 if IS_SANITIZED else 1), "%d more bytes" % (memory(daemon) - after))
        for connection in slow:
            connection.close()
        check(is_served(daemon), "the next one")


@test("a large upload and a large download need no memory")
def _():
    piece = os.urandom(MIB)

    def body():
        for _ in range(LARGE // MIB):
            yield piece
    with Daemon() as daemon:
        box = daemon.create(timeout=300)
        daemon.call("POST", "/files?path=small", data=b"x", headers={"Content-Type": "application/octet-stream"}, box=box)
        before = memory(daemon, "VmHWM")
        status, entries, _ = daemon.call("POST", "/files?path=large", data=body(), box=box,
                                         headers={"Content-Type": "application/octet-stream"})
        check(status == 200, "the upload: %s %s" % (status, entries))
        connection = daemon.connect()
        connection.request("GET", "/files?path=large", headers={"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983",
                                                                "X-Access-Token": box["envdAccessToken"]})
        answer = connection.getresponse()
        same(int(answer.headers["Content-Length"]), LARGE, "the size")
        while got := answer.read(MIB):
            check(got == piece, "the content")
        connection.close()
        check(memory(daemon, "VmHWM") < before + 32 * MIB, "%d more bytes" % (memory(daemon, "VmHWM") - before))


def make_certificate(where):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    where + "/key.pem", "-out", where + "/cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return ["--tls-cert", where + "/cert.pem", "--tls-key", where + "/key.pem"]


@test("TLS: 1.2 and later, HTTP/1.1 by ALPN; without it nothing is served beyond the loopback")
def _():
    need("openssl", "curl")
    with tempfile.TemporaryDirectory(prefix="atoll-tls-") as where:
        with Daemon(flags=make_certificate(where)) as daemon:
            check(daemon.url.startswith("https://"), daemon.url)
            place = daemon.url[len("https://"):]

            def curl(*more):
                return subprocess.run(["curl", "-sS", "--cacert", where + "/cert.pem", *more], capture_output=True,
                                      timeout=PATIENCE * SLOW)
            same(curl("--http2", daemon.url + "/healthz", "-w", "%{http_version}").stdout, b"ok\n1.1", "curl")
            check(curl("--tls-max", "1.1", daemon.url + "/healthz").returncode != 0, "TLS 1.1")
            check(b"HTTP/1.1 200" not in curl("http://%s/healthz" % place).stdout, "plain HTTP is none")
            shown = subprocess.run(["openssl", "s_client", "-connect", place, "-CAfile", where + "/cert.pem", "-alpn",
                                    "h2,http/1.1", "-ign_eof"], capture_output=True, timeout=PATIENCE * SLOW,
                                   input=b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").stdout
            check(b"ALPN protocol: http/1.1" in shown and b"Verification: OK" in shown, "s_client: %r" % shown[-2000:])
            check(b"HTTP/1.1 200 OK" in shown, "s_client's answer")
            data = os.urandom(4 * MIB).hex().encode()
            context = ssl.create_default_context(cafile=where + "/cert.pem")
            context.check_hostname = False
            connection = http.client.HTTPSConnection(*place.split(":"), context=context, timeout=PATIENCE * SLOW)
            connection.request("POST", "/v2/sandboxes", body=b'{"x":"' + data + b'"}', headers={"X-API-KEY": daemon.key})
            check(400 <= connection.getresponse().status < 500, "a large body over TLS")
            same(curl(daemon.url + "/healthz").stdout, b"ok\n", "the next one")
    for place in ("0.0.0.0:0", "[::]:0"):
        with Daemon(starts=False) as daemon:
            done = subprocess.run([ATOLL, "serve", "--listen", place, "--state", daemon.state], capture_output=True,
                                  env=daemon.environment, timeout=PATIENCE * SLOW)
            check(done.returncode != 0 and b"TLS" in done.stderr, "%s: %r" % (place, done.stderr))


@test("a unix socket is for its owner alone, and one that was left over is no obstacle")
def _():
    need("curl")
    with tempfile.TemporaryDirectory(prefix="atoll-unix-") as where:
        path = where + "/socket"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        with Daemon(flags=["--listen", "unix:" + path]) as daemon:
            same(os.stat(path).st_mode & 0o777, 0o600, "its mode")
            done = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://localhost/healthz"], capture_output=True,
                                  timeout=PATIENCE * SLOW)
            same(done.stdout, b"ok\n", "by the socket")
            check(is_served(daemon), "by TCP")
            daemon.stop()
            check(not os.path.exists(path), "it goes with the daemon")


@test("a socket that was opened before is served, as systemd hands one over")
def _():
    with socket.create_server(("127.0.0.1", 0)) as listener, Daemon(starts=False, fds=[listener.fileno()]) as daemon:
        daemon.arguments = lambda: ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --state "$1" 3<&%d'
                                    % listener.fileno(), ATOLL, daemon.state]
        daemon.start()
        same(daemon.url, "http://127.0.0.1:%d" % listener.getsockname()[1], "where")
        check(is_served(daemon), "a request")


main()
