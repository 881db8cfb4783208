# SPDX-License-Identifier: Apache-2.0
# check: seconds 88
# check: user only
"""
HTTP through the egress process, plain and inside TLS: requests judged one by one, bodies both ways, secrets put in late

Clients go through the proxy of its listener (CONNECT, or absolute URIs); servers are on loopback, with certificates
that the test makes. What matters is asserted at the server: what it got, and what it never got.
"""
import atexit
import base64
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from egress import *  # noqa: E402

VALUE = "sk-live-4fG7hJ2kL9"
STAND_IN = "sk-QQQQ-8aB3cD5eF1"
PIECE = bytes(65536)


# ---- certificates ----

class Papers:
    """An authority that egress trusts, and one that it does not."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="atoll-egress-test-")
        atexit.register(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        self.authority("good-ca")
        self.authority("other-ca")
        self.leaf("good", "good-ca", "DNS:api.test,DNS:good.test,IP:127.0.0.1")
        self.leaf("other", "other-ca", "DNS:api.test")
        self.leaf("wrong", "good-ca", "DNS:elsewhere.test")
        self.leaf("expired", "good-ca", "DNS:api.test", "20200101000000Z", "20210101000000Z")
        self.leaf("early", "good-ca", "DNS:api.test", "20900101000000Z", "20910101000000Z")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "self.key",
                     "-out", "self.pem", "-days", "9", "-subj", "/CN=api.test", "-addext", "subjectAltName=DNS:api.test")

    def openssl(self, *args):
        subprocess.run(["openssl"] + list(args), cwd=self.dir, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key",
                     "-out", name + ".pem", "-days", "9", "-subj", "/CN=" + name)

    def leaf(self, name, issuer, names, start=None, end=None):
        with open(os.path.join(self.dir, "ca.conf"), "w") as file:
            file.write("[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n"
                       "default_days=9\nunique_subject=no\nrand_serial=yes\nx509_extensions=e\n[p]\n[e]\nsubjectAltName=%s\n" % names)
        with open(os.path.join(self.dir, "index"), "w"):
            pass
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key",
                     "-out", name + ".csr", "-subj", "/CN=" + name)
        dates = ["-startdate", start, "-enddate", end] if start else []
        self.openssl("ca", "-batch", "-config", "ca.conf", "-cert", issuer + ".pem", "-keyfile", issuer + ".key", "-in",
                     name + ".csr", "-out", name + ".pem", "-notext", *dates)

    def path(self, name):
        return os.path.join(self.dir, name)

    def context(self, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(name + ".pem"), self.path(name + ".key"))
        context.set_alpn_protocols(["http/1.1"])
        return context


papers = Papers()


# ---- a server that does what its paths say ----

class Reader:
    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def more(self):
        data = self.connection.recv(262144)
        self.data += data
        return bool(data)

    def head(self):
        while b"\r\n\r\n" not in self.data:
            if not self.more():
                return None
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        return head.decode("latin-1")

    def line(self):
        while b"\r\n" not in self.data:
            if not self.more():
                return None
        line, _, self.data = self.data.partition(b"\r\n")
        return line

    def take(self, size, sink):
        while size > 0:
            if not self.data and not self.more():
                return False
            part, self.data = self.data[:size], self.data[size:]
            size -= len(part)
            sink(part)
        return True

    def body(self, head, sink, trailers=None):
        """Of a message with this head; whether it was whole."""
        length = field(head, "content-length")
        if field(head, "transfer-encoding") == "chunked":
            while True:
                size = int(self.line(), 16)
                if size == 0:
                    break
                if not self.take(size, sink) or self.line() != b"":
                    return False
            while True:
                line = self.line()
                if not line:
                    return line == b""
                if trailers is not None:
                    trailers.append(line.decode())
        if length is not None:
            return self.take(int(length), sink)
        return True

    def to_end(self):
        while self.more():
            pass
        data, self.data = self.data, b""
        return data


def field(head, name):
    found = re.findall(r"(?im)^%s:[ \t]*(.*?)\r?$" % re.escape(name), head)
    check(len(found) <= 1, "%s more than once in %r" % (name, head))
    return found[0] if found else None


class Web(Server):
    def __init__(self, paper=None, protocol=None):
        self.context = papers.context(paper) if paper else None
        self.heads, self.bodies, self.trailers, self.connections = [], [], [], 0
        self.handshakes = 0
        super().__init__(self.speak)

    def speak(self, connection):
        if self.context:
            try:
                connection = self.context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=False)
            except (ssl.SSLError, OSError):
                return
            self.handshakes += 1
        reader = Reader(connection)
        while True:
            head = reader.head()
            if head is None:
                return
            self.heads.append(head)
            path = head.split()[1].split("?")[0].strip("/").replace("-", "_")
            if getattr(self, "do_" + path, self.do_hello)(connection, reader, head) is False:
                return

    def read(self, reader, head):
        body, trailers = bytearray(), []
        check(reader.body(head, body.extend, trailers), "a body that was cut")
        self.bodies.append(bytes(body))
        self.trailers.append(trailers)
        return bytes(body)

    def say(self, connection, body=b"", status="200 OK", extra=""):
        connection.sendall(("HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n" % (status, len(body), extra)).encode() + body)

    def do_hello(self, connection, reader, head):
        self.read(reader, head)
        self.say(connection, b"" if head.startswith("HEAD") else b"hello")

    def do_echo(self, connection, reader, head):
        self.say(connection, self.read(reader, head))

    def do_chunked(self, connection, reader, head):
        body = self.read(reader, head)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(body), 1000):
            connection.sendall(b"%x\r\n%s\r\n" % (len(body[i:i + 1000]), body[i:i + 1000]))
        connection.sendall(b"0\r\nX-Sum: %d\r\nContent-Length: 3\r\n\r\n" % len(body))

    def do_to_end(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        if self.context:
            connection.unwrap()
        return False

    def do_cut(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil the")
        connection.close()
        return False

    def do_short(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        return False

    def do_both(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")

    def do_too_much(self, connection, reader, head):
        # At once: what comes after the next request cannot be told from its answer by anybody.
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 4\r\n\r\nmine" + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")

    def do_once(self, connection, reader, head):
        """Says nothing of it, and closes."""
        self.say(connection, b"once")
        if self.context:
            connection.unwrap()
        return False

    def do_nothing(self, connection, reader, head):
        return False

    def do_continue(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.do_echo(connection, reader, head)

    def do_hints(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n")
        self.say(connection, b"hinted")

    def do_early(self, connection, reader, head):
        self.say(connection, b"too large", "413 Content Too Large")
        time.sleep(1)
        return False

    def do_ws(self, connection, reader, head):
        if "websocket" not in (field(head, "upgrade") or ""):
            return self.say(connection, b"no upgrade")
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome")
        while True:
            if not reader.data and not reader.more():
                return False
            connection.sendall(reader.data)
            reader.data = b""

    def do_upgrade(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")

    def do_not_modified(self, connection, reader, head):
        connection.sendall(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: \"x\"\r\n\r\n")

    def do_reflect(self, connection, reader, head):
        self.read(reader, head)
        self.say(connection, head.encode(), extra="X-Was: %s\r\n" % (field(head, "authorization") or "-"))

    def do_pieces(self, connection, reader, head):
        """The value, a byte a chunk."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for c in ("<%s%s>" % (VALUE, VALUE)).encode():
            connection.sendall(b"1\r\n%c\r\n" % c)
            time.sleep(0.002)
        connection.sendall(b"0\r\nX-Sum: %s\r\n\r\n" % VALUE.encode())

    def do_redirect(self, connection, reader, head):
        self.say(connection, status="302 Found", extra="Location: https://elsewhere.test/?key=%s\r\n" % VALUE)

    def do_big(self, connection, reader, head):
        size = int(re.search(r"\?(\d+)", head).group(1))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(PIECE)):
            connection.sendall(PIECE)

    def do_sink(self, connection, reader, head):
        n = 0

        def count(part):
            nonlocal n
            n += len(part)
        reader.body(head, count)
        self.say(connection, b"%d" % n)

    def do_hang(self, connection, reader, head):
        while reader.more():
            reader.data = b""
        return False


# ---- a client ----

def network(web, **rule):
    return {"mode": "rules", "allow": [dict({"host": "api.test", "ports": [web.port]}, **rule),
                                       {"host": "127.0.0.1", "ports": [web.port]}]}


HOSTS = {"api.test": "127.0.0.1", "good.test": "127.0.0.1"}


class Client:
    """A connection through CONNECT to api.test, with TLS if egress opens it."""

    def __init__(self, egress, web, is_tls=False, name="api.test", protocols=("http/1.1",), **how):
        self.host = "%s:%d" % (name, web.port)
        self.socket, head = egress.connect(self.host)
        check(" 200 " in head, head)
        if is_tls:
            context = ssl.create_default_context(cadata=egress.certificate)
            context.verify_flags |= getattr(ssl, "VERIFY_X509_STRICT", 0)
            context.set_alpn_protocols(list(protocols))
            self.socket = context.wrap_socket(self.socket, server_hostname=how.get("sni", name), suppress_ragged_eofs=False)
        self.reader = Reader(self.socket)

    def send(self, start, *fields, body=b"", host=None, version="1.1"):
        lines = ["%s HTTP/%s" % (start, version), "Host: %s" % (host or self.host)] + list(fields)
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode("latin-1") + body)

    def answer(self, method="GET"):
        """Head, body."""
        head = self.reader.head()
        check(head is not None, "no answer")
        body = bytearray()
        self.trailers = []
        if method != "HEAD" and not re.match(r"HTTP/1.1 (1\d\d|204|304)", head):
            if field(head, "content-length") is None and field(head, "transfer-encoding") is None:
                body = self.reader.to_end()
            else:
                check(self.reader.body(head, body.extend, self.trailers), "an answer that was cut")
        return head, bytes(body)

    def ask(self, *args, **kwargs):
        self.send(*args, **kwargs)
        return self.answer(args[0].split()[0])

    def status(self, *args, **kwargs):
        return int(self.ask(*args, **kwargs)[0].split()[1])

    def is_closed(self):
        try:
            return not self.reader.data and self.socket.recv(1) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Both:
    """The same test plain, and within TLS that is opened."""

    def __init__(self, is_tls, hosts=HOSTS, **rule):
        self.is_tls = is_tls
        self.web = Web("good" if is_tls else None)
        self.egress = Egress(network(self.web, tls="inspect", **rule), hosts, trust=papers.path("good-ca.pem"))

    def client(self, **how):
        return Client(self.egress, self.web, self.is_tls, **how)

    def __enter__(self):
        self.web.__enter__()
        self.egress.__enter__()
        return self

    def __exit__(self, *args):
        self.egress.__exit__(*args)
        self.web.__exit__(*args)


def both(name, **rule):
    """A test that is run plain and with TLS."""
    def decorate(body):
        for is_tls in (False, True):
            def once(is_tls=is_tls):
                with Both(is_tls, **rule) as world:
                    body(world)
            test("%s, %s" % (name, "TLS" if is_tls else "plain"))(once)
    return decorate


# ---- requests and answers ----

@both("a request arrives as it was meant, without what is between two hops")
def _(world):
    with world.client() as client:
        head, body = client.ask("GET /hello?q=1", "X-Kept: yes", "Connection: X-Mine, keep-alive", "X-Mine: 1",
                                "Proxy-Authorization: Basic eA==", "TE: trailers", "Keep-Alive: 5", "Upgrade: h2c",
                                "HTTP2-Settings: AAMAAABk")
        same((head.split()[1], body), ("200", b"hello"), "answer")
    seen = world.web.heads[0]
    same(seen.split("\r\n")[:2], ["GET /hello?q=1 HTTP/1.1", "Host: " + client.host], "request line and host")
    same(field(seen, "x-kept"), "yes", "a field")
    for name in ("x-mine", "proxy-authorization", "te", "keep-alive", "upgrade", "http2-settings", "connection"):
        same(field(seen, name), None, name)
    event = world.egress.event(name="api.test")
    same((event["verdict"], event["request"], event["address"]), (ALLOWED, "GET /hello", "127.0.0.1"), "event")
    check(event["sent"] > 0 and event["received"] > 0, "%r" % event)


@both("many requests on one connection are one connection outside")
def _(world):
    with world.client() as client:
        for i in range(20):
            same(client.ask("GET /hello?%d" % i)[1], b"hello", "answer")
    same((world.web.n, len(world.web.heads)), (1, 20), "connections, requests")


@both("requests sent ahead are answered one after the other")
def _(world):
    with world.client() as client:
        client.socket.sendall(b"".join(b"POST /echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n%02d" %
                                       (client.host.encode(), i) for i in range(30)))
        same([client.answer()[1] for _ in range(30)], [b"%02d" % i for i in range(30)], "answers")
    same(world.web.n, 1, "connections")


@both("NET-16 NET-17 a later request for somebody else goes nowhere")
def _(world):
    for start, host in (("GET /hello", "evil.test"), ("GET http://evil.test/hello", None), ("GET /hello", "api.test:1"),
                        ("GET https://api.test:1/", None), ("GET /hello", "127.0.0.1"), ("GET /hello", "api.test.evil.test")):
        with world.client() as client:
            same(client.status("GET /hello"), 200, "first")
            head, body = client.ask(start, host=host)
            same(head.split()[1], "421", "second: %s %s" % (start, host))
            same(field(head, "connection"), "close", "connection")
            check(body.startswith(b"atoll: a request for "), body)
            check(client.is_closed(), "not closed")
        event = world.egress.event(verdict=REFUSED)
        check("on a connection to api.test" in event["reason"], event["reason"])
    same(len(world.web.heads), 6, "requests that arrived")


@both("an absolute URI becomes a path, also in other spellings of the host")
def _(world):
    scheme = "https" if world.is_tls else "http"
    with world.client() as client:
        same(client.status("GET %s://API.test.:%d/a?b" % (scheme, world.web.port), host="Api.Test:%d" % world.web.port), 200,
             "status")
    same(world.web.heads[0].split("\r\n")[:2], ["GET /a?b HTTP/1.1", "Host: " + client.host], "request")
    with world.client() as client:
        wrong = "http" if world.is_tls else "https"
        same(client.status("GET %s://api.test:%d/" % (wrong, world.web.port)), 421, "another scheme")


@both("NET-14 HTTP/1.0 is judged alike, 0.9 and no Host are refused")
def _(world):
    with world.client() as client:
        client.socket.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
        same(client.answer()[1], b"hello", "without a Host")
        check(client.is_closed(), "not closed")
    with world.client() as client:
        same(client.status("GET /hello", version="1.0"), 200, "with a Host")
    with world.client() as client:
        same(client.status("GET /hello", version="1.0", host="evil.test"), 421, "with another Host")
    with world.client() as client:
        same(client.status("GET /chunked", version="1.0"), 502, "chunks for HTTP/1.0")
    same(field(world.web.heads[0], "host"), client.host, "Host that was filled in")
    for text in (b"GET /hello HTTP/1.1\r\n\r\n", b"GET /hello\r\n\r\n"):
        with world.client() as client:
            client.socket.sendall(text)
            same(client.answer()[0].split()[1], "400", "%r" % text)
    same(len(world.web.heads), 3, "requests that arrived")


@both("NET-16 what could be read in two ways is answered 400, and nothing of it goes out")
def _(world):
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
    for fields, body in ((["Content-Length: 5", "Transfer-Encoding: chunked"], "0\r\n\r\n" + smuggled),
                         (["Content-Length: 0", "Content-Length: 40"], smuggled),
                         (["Content-Length: 0, 40"], smuggled),
                         (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "0\r\n\r\n" + smuggled),
                         (["Transfer-Encoding: \tx, chunked"], "0\r\n\r\n" + smuggled),
                         (["Transfer-Encoding : chunked"], "0\r\n\r\n" + smuggled),
                         (["X: y\r\n Transfer-Encoding: chunked"], smuggled),
                         (["X: y\nContent-Length: 40"], smuggled),
                         (["X: y\rContent-Length: 40"], smuggled),
                         (["Host: evil.test"], "")):
        with world.client() as client:
            same(client.status("POST /hello", *fields, body=body.encode()), 400, "%r" % fields)
            check(client.is_closed(), "not closed")
        world.egress.event(verdict=REFUSED)
    same(world.web.heads, [], "requests that arrived")


@both("NET-16 chunk tricks are refused, and what follows is no request")
def _(world):
    for body in ("5;x=y\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
                 "5\r\nhelloGET /smuggled HTTP/1.1\r\n\r\n", "0\r\nX : y\r\n\r\n", "fffffffffffffffff\r\n"):
        with world.client() as client:
            same(client.status("POST /echo", "Transfer-Encoding: chunked", body=body.encode()), 400, "%r" % body)
        world.egress.event(verdict=REFUSED)
    check(not any("smuggled" in head for head in world.web.heads), "smuggled")
    same(world.web.bodies, [], "whole bodies that arrived")


@both("bodies pass in chunks both ways, with trailers that may stand there")
def _(world):
    text = os.urandom(50000)
    with world.client() as client:
        for size in (1, 7, 4096, 50000):
            client.send("POST /chunked", "Transfer-Encoding: chunked")
            for i in range(0, len(text), size) if size > 1 else range(100):
                client.socket.sendall(b"%x\r\n%s\r\n" % (len(text[i:i + size]), text[i:i + size]))
            client.socket.sendall(b"0\r\nX-Check: 7\r\nHost: evil.test\r\nAuthorization: x\r\n\r\n")
            want = text if size > 1 else text[:100]
            head, body = client.answer()
            check(body == want, "a body of %d bytes in pieces of %d came back as %d" % (len(want), size, len(body)))
            same(client.trailers, ["X-Sum: %d" % len(want)], "trailers of the answer")
            same(world.web.trailers[-1], ["X-Check: 7"], "trailers of the request")


@both("NET-32 100-continue, interim answers, HEAD, 304")
def _(world):
    with world.client() as client:
        client.send("PUT /continue", "Expect: 100-continue", "Content-Length: 4")
        same(client.answer()[0], "HTTP/1.1 100 Continue", "interim")
        client.socket.sendall(b"body")
        same(client.answer()[1], b"body", "answer")
        client.send("GET /hints")
        same([client.answer()[0].split()[1] for _ in range(2)], ["103", "103"], "hints")
        same(client.answer()[1], b"hinted", "answer")
        head, body = client.ask("HEAD /hello")
        same((field(head, "content-length"), body), ("0", b""), "HEAD")
        head, _ = client.ask("GET /not-modified")
        same(field(head, "content-length"), "77", "length of 304")
        same(client.ask("GET /hello")[1], b"hello", "and the next")
    same(world.web.n, 1, "connections")


@both("an early answer arrives, and the connection is not used again")
def _(world):
    with world.client() as client:
        client.send("POST /early", "Content-Length: 100000000", "Expect: 100-continue")
        head, body = client.answer()
        same((head.split()[1], body, field(head, "connection")), ("413", b"too large", "close"), "answer")
        check(client.is_closed(), "not closed")
    with world.client() as client:
        client.send("POST /early", "Content-Length: 100000000", body=bytes(300000))
        same(client.answer()[0].split()[1], "413", "while the body is sent")


@both("a server that closes between requests is dialled again")
def _(world):
    with world.client() as client:
        for _ in range(5):
            same(client.ask("GET /once")[1], b"once", "answer")
            time.sleep(0.05)
        same(client.ask("GET /to-end")[1], b"until the end", "until the end")
        check(client.is_closed(), "not closed")
    same(world.web.n, 6, "connections")


@both("answers that break off are seen to break off")
def _(world):
    with world.client() as client:
        client.send("GET /short")
        head = client.reader.head()
        same(field(head, "content-length"), "100", "length")
        try:
            check(len(client.reader.to_end()) < 100, "too much")
        except (ConnectionResetError, ssl.SSLError):
            pass
    check("within its answer" in world.egress.event(name="api.test")["reason"], "reason")
    with world.client() as client:
        same(client.ask("GET /nothing")[0].split()[1], "502", "no answer")
    same(world.egress.event(name="api.test")["reason"], "the server closed without an answer", "reason")
    if world.is_tls:  # somebody in between could do that
        with world.client() as client:
            client.send("GET /cut")
            try:
                client.reader.to_end()
                raise Failed("a cut looked like the end")
            except (ConnectionResetError, ssl.SSLError):
                pass


@both("answers that make no sense are not passed on")
def _(world):
    with world.client() as client:
        head, body = client.ask("GET /both")
        same(head.split()[1], "502", "both lengths")
        same(body, b"atoll: the server's answer has both Content-Length and Transfer-Encoding\n", "body")
    with world.client() as client:
        same(client.status("GET /upgrade"), 502, "an upgrade that nobody asked for")
    with world.client() as client:
        same(client.ask("GET /too-much")[1], b"mine", "the answer")
        same(client.ask("GET /hello")[1], b"hello", "the answer to the next request")
    same(world.web.n, 4, "connections")


@both("NET-32 WebSocket passes, other upgrades do not")
def _(world):
    with world.client() as client:
        head = client.ask("GET /ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: eA==")[0]
        same(head.split()[1], "101", "status")
        client.reader.take(7, lambda part: None)
        for size in (1, 1000, 1000000):
            data, back = os.urandom(size), bytearray()
            # By turns: Python's TLS cannot be read and written by two threads at the same time.
            for at in range(0, size, 30000):
                client.socket.sendall(data[at:at + 30000])
                check(client.reader.take(len(data[at:at + 30000]), back.extend), "%d bytes did not come back" % size)
            check(back == data, "%d bytes came back as others" % size)
    with world.client() as client:
        same(client.ask("GET /ws", "Connection: Upgrade", "Upgrade: h2c")[1], b"no upgrade", "h2c")
    same(field(world.web.heads[0], "upgrade"), "websocket", "upgrade")
    with world.client() as client:
        client.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        same(client.answer()[0].split()[1], "400", "HTTP/2")


@both("methods and paths of a rule hold for each request", methods=["GET", "POST"], paths=["/hello", "/v1/**"])
def _(world):
    for start, status in (("GET /hello", 200), ("POST /v1/a/b?x=/../", 200), ("DELETE /hello", 403), ("GET /other", 403),
                          ("GET /v1/../other", 403), ("GET /v1/%2e%2e/other", 403), ("GET //hello", 403), ("OPTIONS *", 403),
                          ("CONNECT evil.test:443", 403)):
        with world.client() as client:
            head, body = client.ask(start)
            same(int(head.split()[1]), status, start)
            if status == 403 and not start.startswith("CONNECT"):
                check(re.match(rb"atoll: [A-Z]+ \S+ is not allowed by allow api.test", body), body)
                event = world.egress.event(verdict=REFUSED)
                same(event["request"], start.split("?")[0], "request")
                check(client.is_closed(), "not closed")
    same(len(world.web.heads), 2, "requests that arrived")


@both("a body of 1 GiB passes each way in little memory")
def _(world):
    size = 1 << (30 if not world.is_tls else 28)
    before = world.egress.memory_kib()
    with world.client() as client:
        client.send("GET /big?%d" % size)
        head, n = client.reader.head(), len(client.reader.data)
        buffer = bytearray(1 << 20)
        started = time.monotonic()
        while n < size:
            got = client.socket.recv_into(buffer)
            check(got > 0, "cut after %d" % n)
            n += got
        down = time.monotonic() - started
        same(n, size, "bytes")
        client.reader.data = b""
        client.send("POST /sink", "Content-Length: %d" % size)
        started = time.monotonic()
        for _ in range(size // (1 << 20)):
            client.socket.sendall(buffer)
        same(client.answer()[1], b"%d" % size, "bytes that arrived")
        up = time.monotonic() - started
    after = world.egress.memory_kib()
    print("# %d MiB: %.0f MB/s in, %.0f MB/s out; memory %d kB, then %d kB" % (size >> 20, size / down / 1e6, size / up / 1e6,
                                                                             before, after))
    check(after < before + 8192, "%d kB became %d kB" % (before, after))
    event = world.egress.event(name="api.test")
    check(event["sent"] >= size and event["received"] >= size, "%r" % event)


@both("a reader that stops holds the server back")
def _(world):
    with world.client() as client:
        client.send("GET /big?%d" % (1 << 28))
        time.sleep(1)
        check(world.egress.memory_kib() < 65536, "%d kB" % world.egress.memory_kib())


@both("clients that go away in the middle leave nothing")
def _(world):
    for text in (b"", b"GET /", b"POST /sink HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\nx",
                 b"GET /hang HTTP/1.1\r\nHost: %s\r\n\r\n", b"GET /big?1073741824 HTTP/1.1\r\nHost: %s\r\n\r\n"):
        with world.client() as client:
            client.socket.sendall(text % client.host.encode() if b"%" in text else text)
            time.sleep(0.1)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        world.egress.event(name="api.test")
    world.egress.quiet()


def cpu_of(egress):
    with open("/proc/%d/stat" % egress.process.pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@both("who waits does not spin")
def _(world):
    kept = []
    for text, ends in (("GET /hang", False), ("GET /hang", True), ("GET /big?1073741824", False), ("GET /hello", False)):
        client = world.client()
        client.send(text)
        if ends and not world.is_tls:
            client.socket.shutdown(socket.SHUT_WR)
        kept.append(client)
    time.sleep(1)
    before = cpu_of(world.egress)
    time.sleep(1)
    spent = cpu_of(world.egress) - before
    check(spent < 0.1, "%.2f s of processor time in a second of waiting" % spent)
    for client in kept:
        client.socket.close()


@both("what a server could take for another method, path or request", methods=["GET"])
def _(world):
    for name in ("X-HTTP-Method-Override: DELETE", "x-original-url: /other"):
        with world.client() as client:
            same(client.status("GET /hello", name), 403, name)
    same(world.web.heads, [], "requests that arrived")
    with world.client() as client:
        for _ in range(2):
            same(client.status("GET /hello", "Content-Length: 40", body=b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".ljust(40)),
                 200, "a GET with a body")
    same([field(head, "connection") for head in world.web.heads], ["close", "close"], "connection")
    same(world.web.n, 2, "connections")


@test("a client may end its half before the answer")
def _():
    with Both(False) as world, world.client() as client:
        client.send("POST /echo", "Content-Length: 5", body=b"hello")
        client.socket.shutdown(socket.SHUT_WR)
        same(client.answer()[1], b"hello", "answer")


# ---- the proxy ----

@test("an absolute URI through the proxy is one request, and others are judged anew")
def _():
    with Web() as web, Egress(network(web), HOSTS) as egress:
        for host, status in (("api.test:%d" % web.port, 200), ("evil.test", 403)):
            with egress.proxy() as client:
                client.sendall(("GET http://%s/hello HTTP/1.1\r\nHost: %s\r\n\r\n" % (host, host)).encode())
                head, body = read_head(client), b""
                same(int(head.split()[1]), status, host)
                same(field(head, "connection"), "close", "connection")
        with egress.proxy() as client:
            client.sendall(("GET http://api.test:%d/hello HTTP/1.1\r\nHost: evil.test\r\n\r\n" % web.port).encode())
            same(read_head(client).split()[1], "421", "Host and URI that differ")
        with egress.proxy() as client:
            client.sendall(("GET http://api.test:%d/hello HTTP/1.1\r\nHost: api.test:%d\r\n\r\n" % (web.port, web.port) +
                            "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n").encode())
            check(Reader(client).to_end().count(b"HTTP/1.1 ") == 1, "more than one answer")
        same([head.split()[1] for head in web.heads], ["/hello", "/hello"], "requests that arrived")


# ---- TLS ----

@test("NET-37 a server that cannot show who it is gets nothing")
def _():
    for paper, reason in (("expired", "the server's certificate has expired"),
                          ("early", "the server's certificate is not valid yet"),
                          ("self", "the server's certificate is signed by itself"),
                          ("other", "the server's certificate is from an authority that is not trusted"),
                          ("wrong", "the server's certificate is for another name")):
        with Web(paper) as web, Egress(network(web, tls="inspect"), HOSTS, trust=papers.path("good-ca.pem")) as egress:
            with Client(egress, web, True) as client:
                head, body = client.ask("GET /hello", "Authorization: x")
                same((head.split()[1], body.decode()), ("502", "atoll: %s\n" % reason), paper)
            event = egress.event(name="api.test")
            same((event["verdict"], event["reason"]), (UNREACHED, reason), "event")
            same(web.heads, [], "requests that arrived")


@test("a server that speaks no TLS gets nothing")
def _():
    def greet(connection):
        connection.sendall(b"220 ready\r\n")
        connection.recv(100000)
    with Server(greet) as web, Egress(network(web, tls="inspect"), HOSTS, trust=papers.path("good-ca.pem")) as egress:
        with Client(egress, web, True) as client:
            same(client.status("GET /hello"), 502, "status")
        check(egress.event(name="api.test")["reason"].startswith("TLS with the server failed"), "reason")


@test("the authority is new for each run, and signs for the name that was looked up")
def _():
    seen = set()
    for _ in range(2):
        with Both(True) as world:
            seen.add(world.egress.certificate)
            with world.client() as client:
                certificate = client.socket.getpeercert()
                same(certificate["subjectAltName"], (("DNS", "api.test"),), "names")
                check(re.match(r"atoll sandbox [0-9a-f]{8}$", certificate["issuer"][0][0][1]), "%r" % (certificate["issuer"],))
                same(client.socket.selected_alpn_protocol(), "http/1.1", "protocol")
                check(client.socket.version() in ("TLSv1.3", "TLSv1.2"), client.socket.version())
            with world.client(protocols=("h2", "http/1.1")) as client:
                same(client.socket.selected_alpn_protocol(), "http/1.1", "protocol of two")
    same(len(seen), 2, "authorities")


@test("an address as such is judged like a name, without TLS")
def _():
    with Web() as web, Egress({"mode": "rules", "allow": [{"host": "127.0.0.1", "ports": [web.port]}]}) as egress:
        with Client(egress, web, name="127.0.0.1") as client:
            same(client.ask("GET /hello")[1], b"hello", "answer")
            same(client.status("GET /hello", host="api.test:%d" % web.port), 421, "another Host")
        same(field(web.heads[0], "host"), "127.0.0.1:%d" % web.port, "Host")


@test("who speaks only HTTP/2, or does not trust the authority, is told so in the event")
def _():
    with Both(True) as world:
        try:
            world.client(protocols=("h2",))
            raise Failed("a handshake without a protocol in common")
        except ssl.SSLError as error:
            check("application protocol" in str(error), str(error))
        check("does not offer HTTP/1.1" in world.egress.event(verdict=UNREACHED)["reason"], "reason")
        raw, _ = world.egress.connect("api.test:%d" % world.web.port)
        try:
            ssl.create_default_context().wrap_socket(raw, server_hostname="api.test")
            raise Failed("an unknown authority was trusted")
        except ssl.SSLError:
            raw.close()
        same(world.egress.event(verdict=UNREACHED)["reason"], "the program does not trust the authority of this sandbox",
             "reason")
        raw, _ = world.egress.connect("api.test:%d" % world.web.port)
        try:
            ssl.create_default_context(cadata=world.egress.certificate).wrap_socket(raw, server_hostname="good.test")
            raise Failed("a handshake for another name")
        except (ssl.SSLError, ConnectionResetError):
            raw.close()
        check("another name: good.test" in world.egress.event(verdict=REFUSED)["reason"], "reason")
        same(world.web.n, 0, "connections to the server")


# ---- secrets ----

def with_secret(web, header="authorization", **rule):
    rules = network(web, **rule)
    rules["secrets"] = [{"name": "KEY", "host": "api.test", "header": header}]
    return rules


class Secret(Both):
    def __init__(self, is_tls=True, header="authorization"):
        self.is_tls = is_tls
        self.web = Web("good" if is_tls else None)
        rules = with_secret(self.web, header, tls="inspect")
        rules["allow"].append({"host": "good.test", "ports": [self.web.port], "tls": "inspect"})
        self.egress = Egress(rules, HOSTS, trust=papers.path("good-ca.pem"), secrets=[{"placeholder": STAND_IN, "value": VALUE}])

    def __exit__(self, *args):
        self.egress.pump(0.3)
        check(VALUE not in repr(self.egress.events), "the value is in an event")
        super().__exit__(*args)


@test("NET-35 the placeholder becomes the value in its header for its host over TLS")
def _():
    with Secret() as world:
        with world.client() as client:
            head, body = client.ask("GET /reflect?key=" + STAND_IN, "Authorization: Bearer " + STAND_IN, "X-Other: " + STAND_IN,
                                    "Accept-Encoding: gzip, br")
        seen = world.web.heads[0]
        same(field(seen, "authorization"), "Bearer " + VALUE, "at the server")
        same(field(seen, "x-other"), STAND_IN, "another header")
        check(seen.startswith("GET /reflect?key=%s HTTP" % STAND_IN), "in the URL: %r" % seen)
        same(field(seen, "accept-encoding"), "identity", "encodings")
        same(field(head, "x-was"), "Bearer " + STAND_IN, "reflected in a header")
        check(VALUE.encode() not in body and body.count(STAND_IN.encode()) == 3, "reflected in the body: %r" % body)


@test("NET-35 elsewhere the placeholder is just a text")
def _():
    with Secret() as world:
        with world.client(name="good.test") as client:
            client.ask("POST /echo", "Authorization: Bearer " + STAND_IN, "Content-Length: 3", body=b"abc")
        with world.client() as client:
            same(client.ask("POST /echo", "Content-Length: %d" % len(STAND_IN), body=STAND_IN.encode())[1], STAND_IN.encode(),
                 "in a body")
        check(not any(VALUE in head for head in world.web.heads), "the value went out")
        same(world.web.bodies[1], STAND_IN.encode(), "body at the server")
    with Secret(is_tls=False) as world:
        with world.client() as client:
            same(client.ask("GET /reflect", "Authorization: Bearer " + STAND_IN)[0].split()[1], "200", "status")
        same(field(world.web.heads[0], "authorization"), "Bearer " + STAND_IN, "without TLS")


@test("Basic carries it, and hides it again")
def _():
    def basic(text):
        return base64.b64encode(text.encode()).decode()
    with Secret() as world:
        with world.client() as client:
            for user in ("git", "x-access-token", "a", ""):
                head, body = client.ask("GET /reflect", "Authorization: Basic " + basic(user + ":" + STAND_IN))
                same(field(world.web.heads[-1], "authorization"), "Basic " + basic(user + ":" + VALUE), "at the server")
                same(field(head, "x-was"), "Basic " + basic(user + ":" + STAND_IN), "reflected")
                check(basic(user + ":" + VALUE).encode() not in body, "reflected in the body")
            statuses = [client.status("GET /reflect", "Authorization: Basic " + basic("user%d:%s" % (i, STAND_IN)))
                        for i in range(28)]
            same(set(statuses), {200}, "statuses")
            same(client.status("GET /reflect", "Authorization: Basic " + basic("one-more:" + STAND_IN)), 400, "too many names")


@test("another header than Authorization, in any case")
def _():
    with Secret(header="x-api-key") as world:
        with world.client() as client:
            client.ask("GET /hello", "X-API-Key: " + STAND_IN, "Authorization: Bearer " + STAND_IN)
        same((field(world.web.heads[0], "x-api-key"), field(world.web.heads[0], "authorization")),
             (VALUE, "Bearer " + STAND_IN), "at the server")


@test("NET-35 a value that comes back in pieces, in trailers or in a redirect is hidden")
def _():
    with Secret() as world:
        with world.client() as client:
            same(client.ask("GET /pieces")[1].decode(), "<%s%s>" % (STAND_IN, STAND_IN), "pieces")
            same(client.trailers, ["X-Sum: " + STAND_IN], "trailers")
            same(field(client.ask("GET /redirect")[0], "location"), "https://elsewhere.test/?key=" + STAND_IN, "redirect")


@test("the value is sent to nobody who cannot show who it is")
def _():
    with Web("self") as web:
        with Egress(with_secret(web, tls="inspect"), HOSTS, trust=papers.path("good-ca.pem"),
                    secrets=[{"placeholder": STAND_IN, "value": VALUE}]) as egress:
            with Client(egress, web, True) as client:
                head, body = client.ask("GET /reflect", "Authorization: Bearer " + STAND_IN)
                same(head.split()[1], "502", "status")
            same((web.heads, web.handshakes), ([], 0), "at the server")


@test("a secret whose placeholder has another length ends it with one line")
def _():
    with Web("good") as web:
        with Egress(with_secret(web, tls="inspect"), HOSTS, trust=papers.path("good-ca.pem"), starts=False,
                    secrets=[{"placeholder": STAND_IN + "x", "value": VALUE}]) as egress:
            kind, _, body, _ = egress.receive()
            same((kind, text_of(body[8:])), (FAILED, "secret KEY: its placeholder has not its shape"), "message")
            egress.process.wait(10)
            egress.process.wait = lambda _: 0


# ---- limits ----

@test("requests a second are counted one by one")
def _():
    with Web() as web, Egress(network(web, requests=5), HOSTS) as egress:
        with Client(egress, web) as client:
            started = time.monotonic()
            for _ in range(16):
                same(client.status("GET /hello"), 200, "status")
            took = time.monotonic() - started
        check(1.0 < took < 10, "16 requests took %.1f s" % took)


@test("bytes a second and bytes in all hold for bodies")
def _():
    with Web() as web, Egress(network(web, rate=4 << 20), HOSTS) as egress:
        with Client(egress, web) as client:
            started = time.monotonic()
            same(len(client.ask("GET /big?%d" % (8 << 20))[1]), 8 << 20, "bytes")
            took = time.monotonic() - started
        check(0.7 < took < 10, "8 MiB took %.1f s" % took)
    with Web() as web, Egress(network(web, bytes=1 << 20), HOSTS) as egress:
        with Client(egress, web) as client:
            client.send("GET /big?%d" % (8 << 20))
            try:
                n = len(client.reader.to_end())
            except ConnectionResetError:
                n = len(client.reader.data)
            check(n <= 1 << 20, "%d bytes came" % n)
        check("bytes" in egress.event(name="api.test")["reason"], "reason")


# ---- real clients ----

@test("curl through an opened connection: keep-alive, upload, 403")
def _():
    need("curl")
    with Both(True, methods=["GET", "PUT"]) as world:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as bundle, tempfile.NamedTemporaryFile() as upload:
            bundle.write(world.egress.certificate)
            bundle.flush()
            upload.write(os.urandom(3000000))
            upload.flush()
            base = ["curl", "-sS", "--http2", "--cacert", bundle.name, "-x", "http://127.0.0.1:%d" %
                    world.egress.listener.getsockname()[1]]
            url = "https://api.test:%d" % world.web.port
            out = subprocess.run(base + [url + "/hello", url + "/hello"], capture_output=True, text=True)
            same((out.stdout, out.stderr), ("hellohello", ""), "two requests")
            out = subprocess.run(base + ["-T", upload.name, url + "/echo"], capture_output=True)
            with open(upload.name, "rb") as file:
                check(out.stdout == file.read(), "an upload that did not come back: %r" % out.stderr)
            out = subprocess.run(base + ["-X", "DELETE", url + "/x"], capture_output=True, text=True)
            check(out.stdout.startswith("atoll: DELETE /x is not allowed by allow api.test"), out.stdout)
        same(world.web.n, 2, "connections")


main()
