# SPDX-License-Identifier: Apache-2.0
"""
Ports in a sandbox, from outside: HTTP and WebSockets to a server that runs inside

The server inside shows what arrived, and does what a server should not.
"""
import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: E402

MIB = 1 << 20
PORT = 8080

SERVER = r'''
import socket, sys, threading, time

def read_head(c):
    text = b""
    while b"\r\n\r\n" not in text:
        piece = c.recv(65536)
        if not piece:
            return text, b""
        text += piece
    head, _, rest = text.partition(b"\r\n\r\n")
    return head, rest

def read_body(c, head, rest):
    low = head.lower()
    if b"\r\ncontent-length: " in low:
        n = int(low.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        while len(rest) < n:
            rest += c.recv(65536)
        return rest
    if b"chunked" in low:
        while not rest.endswith(b"0\r\n\r\n"):
            rest += c.recv(65536)
    return rest

def serve(c):
    head, rest = read_head(c)
    path = head.split()[1] if head else b""
    if path.startswith(b"/show"):
        body = read_body(c, head, rest)
        text = head + b"\n\n" + body
        c.sendall(b"HTTP/1.1 201 Created\r\nX-One: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: x-hop\r\nX-Hop: 1\r\n"
                  b"Content-Type: text/x\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
    elif path == b"/count":
        n = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(rest)
        while n > 0:
            n -= len(c.recv(1 << 20))
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nall.")
    elif path == b"/large":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 << 20))
        for _ in range(64):
            c.sendall(bytes(1 << 20))
    elif path == b"/to-end":
        c.sendall(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
    elif path == b"/chunks":
        c.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        time.sleep(0.1)
        c.sendall(b"3\r\ntwo\r\n0\r\nX-Trailer: 1\r\n\r\n")
    elif path == b"/half":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    elif path == b"/nothing":
        pass
    elif path == b"/early":
        c.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
    elif path == b"/split":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nno")
    elif path == b"/switch":
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
    elif path == b"/forever":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
        try:
            c.recv(1)
        except OSError:
            pass
        print("left", flush=True)
    elif path.startswith(b"/ws"):
        if b"\r\nsec-websocket-key: abc" not in head.lower():
            c.sendall(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
            return
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst" + rest)
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            c.sendall(piece.upper())
        print("left", flush=True)
    else:
        c.sendall(b"garbage\r\n\r\n")

def one(c):
    try:
        serve(c)
    finally:
        c.close()

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
print("ready", flush=True)
while True:
    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
'''


class Inside:
    """A server in a box; what it prints can be waited for."""

    def __init__(self, daemon, **more):
        self.daemon, self.box = daemon, daemon.create(timeout=300, **more)
        status, body, _ = daemon.call("POST", "/files?path=server.py", data=SERVER.encode(), box=self.box,
                                      headers={"Content-Type": "application/octet-stream"})
        check(status == 200, "upload: %s" % body)
        self.frames = daemon.begin(self.box, "exec python3 server.py %d 2>&1" % PORT, connection=daemon.connect())
        self.wait(b"ready")

    def wait(self, word):
        said = b""
        for _, frame in self.frames:
            said += base64.b64decode(frame.get("event", {}).get("data", {}).get("stdout", ""))
            if word in said:
                return
        raise Failed("the server inside said %r" % said)

    def call(self, method, path, **more):
        return self.daemon.call(method, path, box=self.box, port=more.pop("port", PORT), **more)

    def dial(self):
        parts = urllib.parse.urlsplit(self.daemon.url)
        return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE * SLOW)

    def fields(self):
        return b"E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n" % (self.box["sandboxID"].encode(), PORT)


def hear(connection, end=None):
    text = b""
    try:
        while not (end and end in text):
            piece = connection.recv(65536)
            if not piece:
                break
            text += piece
    except ConnectionResetError:
        pass
    return text


@test("a request arrives as it was meant, without what is not for strangers, and so does the answer")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon)
        status, body, fields = inside.call("POST", "/show/a%2Fb?x=1&y=%20", data=b"hello", headers={
            "X-Mine": "1", "X-API-KEY": daemon.key, "Connection": "keep-alive, X-Hop", "X-Hop": "1", "Keep-Alive": "timeout=5",
            "E2B-Traffic-Access-Token": "t", "Cookie": "a=b", "Authorization": "Bearer app"})
        head, _, content = body.partition(b"\n\n")
        low = head.lower()
        same((status, content), (201, b"hello"), "the answer")
        check(head.startswith(b"POST /show/a%2Fb?x=1&y=%20 HTTP/1.1\r\n"), "the target: %r" % head)
        for name in (b"x-mine: 1", b"cookie: a=b", b"authorization: bearer app", b"content-length: 5", b"x-forwarded-for: 127.0.0.1",
                     b"host: " + daemon.url[len("http://"):].encode(), b"connection: close"):
            check(b"\r\n" + name in low, "%r is missing in %r" % (name, head))
        for name in (b"x-api-key", b"e2b-", b"x-hop", b"keep-alive", b"x-access-token"):
            check(b"\r\n" + name not in low, "%r is in %r" % (name, head))
        same((fields["x-one"], fields["content-type"]), ("1", "text/x"), "fields of the answer")
        check("x-hop" not in fields, "what is about the connection inside stays there")
        status, body, _ = inside.call("POST", "/show", data=iter([b"one", b"two"]))
        check(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" in body, "chunks: %r" % body)
        status, body, _ = inside.call("GET", "/show", headers={"X-API-KEY": "of the application"})
        check(b"of the application" in body, "a key that is none of the daemon's belongs to the application")
        for value in ("Bearer " + daemon.key, "bearer   " + daemon.key, daemon.key):
            status, body, _ = inside.call("GET", "/show", headers={"Authorization": value})
            check(status == 201 and b"authorization" not in body.lower() and daemon.key.encode() not in body, "a key: %r" % body)


@test("the host's name leads there, too, and can be masked")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon, network={"maskRequestHost": "app.test:${PORT}"})
        status, body, _ = daemon.call("GET", "/show", key=None,
                                      headers={"Host": "%d-%s.localhost:1234" % (PORT, inside.box["sandboxID"])})
        same(status, 201, "by name")
        check(b"\r\nHost: app.test:%d\r\n" % PORT in body, "masked: %r" % body)


@test("answers of every form come through; those that are none are 502, or cut where they had begun")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon)
        same(inside.call("GET", "/to-end")[:2], (200, b"until the end"), "no length")
        same(inside.call("GET", "/chunks")[:2], (200, b"onetwo"), "chunks")
        same(inside.call("HEAD", "/show")[:2], (201, b""), "HEAD")
        same(inside.call("POST", "/early", data=b"x")[:2], (413, b"no"), "an early answer")
        for path in ("/garbage", "/nothing", "/split", "/switch"):
            status, body, _ = inside.call("GET", path)
            same((status, body["code"], body["port"], body["sandboxId"]), (502, 502, PORT, inside.box["sandboxID"]), path)
        try:
            inside.call("GET", "/half")
            raise Failed("half an answer passes for one")
        except http.client.IncompleteRead:
            pass
        status, body, _ = inside.call("GET", "/", port=PORT + 1)
        same((status, body), (502, {"sandboxId": inside.box["sandboxID"], "port": PORT + 1, "code": 502,
                                    "message": "The sandbox is running but port is not open"}), "a port that is closed")


@test("large bodies in both directions, and readers that wait")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon)
        same(inside.call("POST", "/count", data=bytes(64 * MIB))[:2], (200, b"all."), "in")
        with open("/proc/%d/status" % daemon.pid) as file:
            before = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
        connection = inside.dial()
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n" + inside.fields() + b"\r\n")
        check(connection.recv(1), "it begins")
        same(inside.call("GET", "/to-end")[:2], (200, b"until the end"), "another one meanwhile")
        n = 1
        while n < 64 * MIB:
            n += len(connection.recv(MIB))
        connection.close()
        with open("/proc/%d/status" % daemon.pid) as file:
            after = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
        check(after - before < 32 * 1024 or IS_SANITIZED, "%d KiB more" % (after - before))


@test("a WebSocket is a pipe in both directions, until either side leaves")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon)
        request = (b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n" +
                   inside.fields() + b"\r\n")
        with inside.dial() as connection:
            connection.sendall(request + b"early")
            text = hear(connection, b"first")
            check(text.startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Accept: x\r\n" in text, "%r" % text)
            got = text.partition(b"first")[2] + (b"" if text.lower().endswith(b"early") else hear(connection, b"EARLY"))
            same(got, b"EARLY", "what was sent with the head")
            for i in range(20):
                connection.sendall(b"x" * 100000)
                n = 0
                while n < 100000:
                    n += len(connection.recv(65536))
        inside.wait(b"left")
        with inside.dial() as connection:
            connection.sendall(request.replace(b"abc", b"xyz"))
            check(hear(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 400 "), "a server that does not want it")
        with inside.dial() as connection:
            connection.sendall(request)
            hear(connection, b"first")
            daemon.kill(inside.box)
            same(hear(connection), b"", "the end of the sandbox is the pipe's")


@test("who leaves is noticed inside, and the end of the sandbox outside")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon)
        with inside.dial() as connection:
            connection.sendall(b"GET /forever HTTP/1.1\r\nHost: a\r\n" + inside.fields() + b"\r\n")
            check(b"begun" in hear(connection, b"begun"), "it begins")
        inside.wait(b"left")
        with inside.dial() as connection:
            connection.sendall(b"GET /forever HTTP/1.1\r\nHost: a\r\n" + inside.fields() + b"\r\n")
            check(b"begun" in hear(connection, b"begun"), "it begins")
            daemon.kill(inside.box)
            check(b"0\r\n\r\n" not in hear(connection), "cut, not ended")
        status, body, _ = inside.call("GET", "/to-end")
        same((status, body["code"]), (502, 502), "afterwards")


@test("traffic that is not public needs its token, which stays outside")
def _():
    with Daemon() as daemon:
        inside = Inside(daemon, network={"allowPublicTraffic": False})
        token = inside.box["trafficAccessToken"]
        check(token, "a token")
        same(inside.call("GET", "/show")[0], 403, "without")
        same(inside.call("GET", "/show", headers={"e2b-traffic-access-token": "x" + token[1:]})[0], 403, "a wrong one")
        status, body, _ = inside.call("GET", "/show", headers={"E2B-Traffic-Access-Token": token})
        check(status == 201 and token.encode() not in body, "with it: %s %r" % (status, body))


main()
