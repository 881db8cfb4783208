# SPDX-License-Identifier: Apache-2.0
"""
Family N of the escape corpus: published ports and web pages

A page in the person's browser reaches a published port by having its own name resolved to 127.0.0.1. Its requests are told by their Host,
which egress reads before it passes them on. Everything that is no such request passes as it is: raw bytes, servers that speak first, TLS.
"""
import contextlib
import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import inside  # noqa: E402

rig = net.enter()

# 8080: HTTP, keeps connections. 8081: echo. 8082: speaks first, then echoes. 8083: answers whatever it gets first.
SERVERS = r"""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = ("served %s %s %d" % (self.path, self.headers.get("Host"), len(self.rfile.read(size)))).encode()
            put("seen-" + str(time.monotonic_ns()), (self.command[:10] + " " + self.path[:20]).encode())
            self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
        def __getattr__(self, name):
            if name.startswith("do_"): return self.do_GET
            raise AttributeError(name)
        def log_message(self, *_): pass
    def echo(c, first):
        if first: c.sendall(first)
        with c:
            while True:
                piece = c.recv(65536)
                if not piece: break
                c.sendall(piece)
            c.shutdown(socket.SHUT_WR)
    def once(c):
        with c:
            data = c.recv(65536)
            if data:
                put("got-" + str(time.monotonic_ns()), data[:40]); c.sendall(b"HTTP/1.0 200 OK\r\n\r\ntold")
    def serve(port, one):
        server = socket.create_server(("127.0.0.1", port), backlog=100)
        def go():
            while True:
                c, _ = server.accept()
                threading.Thread(target=guarded, args=(one, c), daemon=True).start()
        threading.Thread(target=go, daemon=True).start()
    def guarded(one, c):
        try: one(c)
        except OSError: pass
    web = ThreadingHTTPServer(("127.0.0.1", 8080), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    serve(8081, lambda c: echo(c, b""))
    serve(8082, lambda c: echo(c, b"220 ready\r\n"))
    serve(8083, once)
    put("up")
    while not os.path.exists("stop"): time.sleep(0.05)
    tell("served", "all")
    """


class Ports:
    """A run that publishes all of them; attributes are the host's ports."""

    def __init__(self, *names):
        self.names, self.stack = names, contextlib.ExitStack()

    def __enter__(self):
        self.place = self.stack.enter_context(Place())
        self.place.expect("up", "stop", "seen-*", "got-*")
        flags = ["--listen", "8080" + ("/" + ",".join(self.names) if self.names else "")]
        for port in ("8081", "8082", "8083"):
            flags += ["--listen", port]
        self.running = start(self.place, flags, inside(SERVERS), mode="direct")
        wait_file(self.place, "up")
        os.set_blocking(self.running.process.stderr.fileno(), False)
        self.said = b""

        def look():
            self.said += self.running.process.stderr.read() or b""
            return len(re.findall(rb"port \d+ is at ", self.said)) == 4
        check(until(look, 10), "ports were not printed: %s" % self.said)
        found = dict(re.findall(rb"port (\d+) is at http://127\.0\.0\.1:(\d+)/", self.said))
        self.web, self.echo, self.first, self.once = (int(found[b"%d" % port]) for port in (8080, 8081, 8082, 8083))
        return self

    def __exit__(self, *why):
        write(self.place.ws + "/stop")
        self.result = self.running.wait()
        self.said += self.result.raw_err
        self.stack.__exit__(*why)

    def seen(self, kind="seen-"):
        """What reached the server inside; forgotten then."""
        found = []
        for name in sorted(os.listdir(self.place.ws)):
            if name.startswith(kind):
                found.append(read(self.place.ws + "/" + name).decode())
                os.unlink(self.place.ws + "/" + name)
        return found


def talk(port, *pieces, pause=0.0, host="127.0.0.1", ends=False, patience=10):
    """Everything that comes back after these pieces."""
    with socket.create_connection((host, port), 10) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(patience)
        answer = b""
        try:
            for piece in pieces:
                s.sendall(piece)
                if pause:
                    time.sleep(pause)
            if ends:
                s.shutdown(socket.SHUT_WR)
            while True:
                piece = s.recv(65536)
                if not piece:
                    return answer
                answer += piece
        except (ConnectionError, TimeoutError):
            return answer


def request(host, method="GET", target="/x", more="", end="\r\n"):
    return ("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s%s" % (method, target, host, more, end)).encode()


def curl(port, *args, at="127.0.0.1"):
    done = subprocess.run(["curl", "-s", "-m", "10", "-o", "-", "-w", "\n%{http_code}", "--noproxy", "*", *args, "http://%s:%d/page" % (at, port)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
    text, _, status = done.stdout.decode().rpartition("\n")
    return int(status), text


OWN = socket.gethostname()
EVIL = ["evil.example", "evil.example:8080", "EVIL.example.", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1.nip.io",
        "app.test", "x" * 300 + ".test"]
GOOD = ["localhost", "LOCALHOST:1", "localhost.", "app.localhost:80", "127.0.0.1", "[::1]:8080", "10.0.0.1", "devbox", OWN]


@test("N24 curl: a Host that a web page can own is answered 421 and does not reach the server inside; names of this machine do")
def _():
    need("curl")
    with Ports() as ports:
        for host in EVIL:
            same(curl(ports.web, "-H", "Host: " + host)[0], 421, "status for Host %s" % host[:40])
        same(ports.seen(), [], "requests that reached the server")
        for host in GOOD:
            same(curl(ports.web, "-H", "Host: " + host), (200, "served /page %s 0" % host), "answer for Host %s" % host)
        same(curl(ports.web, at="localhost")[0], 200, "by name")
        same(curl(ports.web, at="[::1]")[0], 200, "by IPv6")
        same(curl(ports.web, "--data", "abc")[1][-2:], " 3", "with a body")
        same(curl(ports.web, "--data", "abc", "-H", "Host: evil.example", "-X", "PUT")[0], 421, "with a body, for another name")
        text = curl(ports.web, "-H", "Host: evil.example")[1]
        check(text.startswith("atoll: ") and text.count("\n") == 1, "one line for people: %r" % text)
        check("evil" not in text, "the answer repeats the name: %r" % text)
    check(b"its Host is not a name of this machine" in ports.said, "the summary: %s" % ports.said[-2000:])


@test("N24 names that the contract lists pass, and names beneath them; others do not")
def _():
    with Ports("app.test", "B.test.") as ports:
        for host, status in (("app.test", 200), ("x.app.test:8080", 200), ("b.TEST", 200), ("myapp.test", 421), ("test", 200),
                             ("evil.example", 421), ("localhost", 200)):
            same(curl(ports.web, "-H", "Host: " + host)[0], status, "status for %s" % host)
        same(curl(ports.once, "-H", "Host: app.test")[0], 421, "listed for another port")
    with Place() as place:
        plan = run(place, ["--plan", "--listen", "8080/app.test"], ["true"], starts=False)
        check("app.test" in plan.out, "the plan: %s" % plan.out)
        bad = run(place, ["--listen", "8080/*.test"], ["true"], starts=False)
        check(bad.status != 0 and "is no host name" in bad.err, "a star: %s" % bad.err)


@test("N24 whatever a page can choose: methods, targets, fields, sizes; heads in pieces and byte by byte")
def _():
    evil, good = request("evil.example"), request("localhost")
    with Ports() as ports:
        for label, data in (
                ("a method of its own", request("evil.example", method="FOO")),
                ("a long method", request("evil.example", method="M" * 40)),
                ("a method of 60 kB", request("evil.example", method="M" * 60000)),
                ("a method of 100 kB", request("evil.example", method="M" * 100000)),
                ("a target of 30 kB", request("evil.example", target="/" + "a" * 30000)),
                ("a target of 1 MB", request("evil.example", target="/" + "a" * 1000000)),
                ("fields of 60 kB", request("evil.example", more="X: " + "a" * 60000 + "\r\n")),
                ("fields of 1 MB", request("evil.example", more="X: " + "a" * 1000000 + "\r\n")),
                ("a second Host", request("localhost", more="Host: evil.example\r\n")),
                ("Host at the end", b"GET /x HTTP/1.1\r\nX: localhost\r\nHost: evil.example\r\n\r\n"),
                ("a blank before the colon", b"GET /x HTTP/1.1\r\nHost : evil.example\r\n\r\n"),
                ("line feeds alone", b"GET /x HTTP/1.1\nHost: evil.example\n\n"),
                ("a WebSocket", request("evil.example", more="Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n")),
                ("HTTP/1.0", b"GET /x HTTP/1.0\r\nHost: evil.example\r\n\r\n"),
                ("half a head", b"GET /x HTTP/1.1\r\nHost: localhost\r\n")):
            answer = talk(ports.web, data, ends=True)
            check(re.match(rb"HTTP/1\.1 4(21|00|31) ", answer) or (not answer and len(data) > 65536), "%s: %r" % (label, answer[:100]))
            answer = talk(ports.once, data, ends=True)
            # A first word is passed on as it comes: such a server may answer a method that came in several pieces.
            check(b"told" not in answer or data[:1000] == b"M" * 1000, "%s, a server that reads nothing: %r" % (label, answer[:100]))
        same(ports.seen(), [], "requests that reached the server")
        ports.seen("got-")
        for size in (1, 2, 7, 20, 40):
            pieces = [evil[i:i + size] for i in range(0, len(evil), size)]
            for pause in (0.002, 0.03):
                check(talk(ports.web, *pieces, pause=pause).startswith(b"HTTP/1.1 421 "), "pieces of %d, %g s apart" % (size, pause))
                if pause > 0.01 and size < 7:
                    break
        same(ports.seen(), [], "requests that reached the server")
        for size in (1, 20):
            pieces = [good[i:i + size] for i in range(0, len(good), size)]
            check(b"served /x localhost" in talk(ports.web, *pieces, pause=0.01), "good ones in pieces of %d" % size)
        check(b"served" in talk(ports.web, request("localhost", more="X: " + "a" * 60000 + "\r\n")), "a large good one")
        check(b"served" in talk(ports.web, "GET /\u00e4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()), "bytes beyond ASCII")
        check(b"served / None" in talk(ports.web, b"GET / HTTP/1.0\r\n\r\n"), "an old client without Host")


@test("N24 what is no request of a browser's passes as it is and at once: echo, servers that speak first, TLS, HTTP/2, proxies' requests")
def _():
    firsts = [b"ping", b"x", b"GET", b"hello world", b"\x16\x03\x01\x02\x00\x01", b"\0\1\2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"EHLO me\r\n",
              b"GET key\r\n", b"\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
              b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"CD /tmp", b"CD /tmp\r\n", b"{\"a\": 1}", b"SSH-2.0-x\r\n",
              b"\xff" * 70000, b"x" * 300000, b"word word " * 20000]
    with Ports() as ports:
        for port, greeting in ((ports.echo, b""), (ports.first, b"220 ready\r\n")):
            for first in firsts:
                with socket.create_connection(("127.0.0.1", port), 10) as s:
                    s.settimeout(10)
                    same(exactly(s, len(greeting)), greeting, "the server speaks first")
                    began = time.monotonic()
                    for data in (first, b"more", b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" if not first.isalpha() else b"\n"):
                        if data == b"more" and first.startswith(b"CD /tmp") and not first.endswith(b"\n"):
                            data = b"\n"
                        sender = threading.Thread(target=s.sendall, args=(data,))
                        sender.start()
                        got = exactly(s, len(data))
                        sender.join()
                        check(got == data, "%r: %d of %d bytes came back" % (first[:20], len(got), len(data)))
                    check(time.monotonic() - began < 3, "%r took %.2f s" % (first[:20], time.monotonic() - began))
        best = min(roundtrip(ports.echo, b"ping") for _ in range(20))
        print("# best first round trip of 'ping': %.2f ms" % (best * 1000))
        check(best < 0.015, "'ping' was held for %.1f ms" % (best * 1000))
        same(talk(ports.echo, b"GET", ends=True), b"GET", "a word and the end")
        same(talk(ports.echo, ends=True), b"", "nothing and the end")


def exactly(s, size):
    data = b""
    with contextlib.suppress(OSError):
        while len(data) < size:
            piece = s.recv(size - len(data))
            if not piece:
                break
            data += piece
    return data


def roundtrip(port, data):
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.settimeout(10)
        began = time.monotonic()
        s.sendall(data)
        exactly(s, len(data))
        return time.monotonic() - began


@test("N24 300 visitors with heads that do not end cost a bounded memory, and others are served")
def _():
    with Ports() as ports:
        held = []
        for _ in range(300):
            s = socket.create_connection(("127.0.0.1", ports.web), 10)
            s.settimeout(10)
            with contextlib.suppress(OSError):
                s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60000)
            held.append(s)
        until(lambda: False, 0.5)
        check(b"served" in talk(ports.web, request("localhost")), "others are not served")
        memory = egress_memory(ports.running)
        print("# egress with 300 half heads: %d kB" % memory)
        check(memory < 64000, "egress has %d kB" % memory)
        for s in held:
            s.close()
        until(lambda: False, 0.2)
        check(b"served" in talk(ports.web, request("localhost", more="X: " + "a" * 60000 + "\r\n")), "afterwards")


def egress_memory(running):
    """In kB, of the run's egress."""
    for pid in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError, ValueError, TypeError):
            text = read("/proc/%s/stat" % pid).decode()
            if "(atoll-egress" in text and int(text[text.rindex(")") + 2:].split()[1]) == running.pid:
                return int(re.search(r"VmRSS:\s+(\d+)", read("/proc/%s/status" % pid).decode())[1])
    raise Failed("no egress beneath %d" % running.pid)


main()
