# SPDX-License-Identifier: Apache-2.0
# check: seconds 86
# check: user only
"""
The egress process by itself: DNS, SOCKS, CONNECT, bytes both ways, limits, questions, published ports

Loopback stands for the sandbox and for the outside. What needs the namespace's own way (tproxy) makes one by unshare.
"""
import contextlib
import hashlib
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from egress import *  # noqa: E402
import egress as lib_egress  # noqa: E402

GOOD = {"good.test": "127.0.0.1"}


def rules(port, *more, **limits):
    """good.test is allowed at `port`, and so is what it leads to, which is not public."""
    return dict({"mode": "rules", "allow": [dict({"host": "good.test", "ports": [port]}, **limits),
                                            {"host": "127.0.0.1", "ports": [port]}] + list(more)})


def fails(**how):
    with Egress(how.pop("network", {"mode": "rules"}), starts=False, **how) as egress:
        kind, _, body, _ = egress.receive()
        same(kind, FAILED, "type of the message")
        text = text_of(body[8:])
        check(text and "\n" not in text, "no single line: %r" % text)
        same(egress.process.wait(10), 1, "status")
        egress.process.wait = lambda _: 0
        return text


@test("a configuration that makes no sense ends it with one line")
def _():
    for config in (b"", b"{", b"[]", b"nonsense", b"{}", b'{"network": 1}', b'{"network": {"mode": "rules"}, "extra": 1}',
                   b'{"network": {"mode": "sometimes"}}', b'{"network": {"mode": "rules"}, "uid": -1, "gid": 0}',
                   b'{"network": {"mode": "rules"}, "uid": 65534}', b'{"network": {"mode": "rules"}, "own": ["x"]}',
                   b'{"network": {"mode": "rules"}, "network": {"mode": "open"}}', b"\0" * 100, b"{" * 100000,
                   b'{"network": {"mode": "rules"}, "secrets": [{"placeholder": "a", "value": "b"}]}',
                   b'{"network": {"mode": "rules"}, "token": "' + b"x" * 100 + b'"}'):
        fails(config=config)


@test("started by hand it says so")
def _():
    result = subprocess.run([lib_egress.PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    same(result.returncode, 1, "status")
    check("not by hand" in result.stderr, result.stderr)


@test("it ends when its channel does")
def _():
    with Egress({"mode": "rules"}):
        pass


@test("it is locked in: no new privileges, a filter, nothing to be dumped")
def _():
    with Egress({"mode": "rules"}) as egress:
        with open("/proc/%d/status" % egress.process.pid) as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        same(status["NoNewPrivs"], "1", "no_new_privs")
        same(status["Seccomp"], "2", "seccomp")
        same(status["CapPrm"].strip("0"), "", "capabilities")
        with open("/proc/%d/limits" % egress.process.pid) as file:
            limits = file.read()
        check(re.search("^Max core file size +0 +0 ", limits, re.M), limits)
        same(os.stat("/proc/%d/mem" % egress.process.pid).st_uid, 0, "owner of what cannot be dumped")


@test("root's becomes somebody else")
def _():
    need_root()
    with Egress({"mode": "rules"}, uid=65533, gid=65532) as egress:
        with open("/proc/%d/status" % egress.process.pid) as file:
            status = file.read()
        check("\nUid:\t65533\t65533\t65533\t65533\n" in status and "\nGid:\t65532\t65532\t65532\t65532\n" in status, status)
        check("\nGroups:\t \n" in status, status)


@test("DNS: known names get addresses, the same each time; others do not exist")
def _():
    with Egress({"mode": "rules", "allow": ["good.test", "*.wild.test"]}) as egress:
        first = egress.query("good.test")
        same(first.code, 0, "code")
        check(first.address.startswith("198.18.") and 0 < first.ttl <= 60, first.address)
        same(egress.query("good.test").address, first.address, "second answer")
        sixth = egress.query("good.test", 28)
        check(sixth.address.startswith("64:ff9b:1:a701:"), sixth.address)
        same(socket.inet_pton(socket.AF_INET6, sixth.address)[12:], socket.inet_aton(first.address), "last four bytes")
        check(egress.query("a.b.wild.test").address not in (first.address, None), "another name")
        for name in ("evil.test", "wild.test", "evilgood.test", "good.test.evil.test", "test", "", "a b.test", "x" * 63 + ".test"):
            answer = egress.query(name)
            same((answer.code, answer.address), (3, None), "%r" % name)
        same(egress.query("good.test", 16).code, 0, "TXT of a known name")
        same(egress.query("good.test", 65).address, None, "HTTPS of a known name")
        same(egress.query("GoOd.TeSt").question[:11], dns_name("GoOd.TeSt"), "letter case")
        same(egress.query("good.test.").address, first.address, "dot at the end")
        same(egress.query("localhost").address, "127.0.0.1", "localhost")


@test("DNS: what is refused is told, often as one")
def _():
    with Egress({"mode": "rules"}) as egress:
        for _ in range(20):
            same(egress.query("evil.test").code, 3, "code")
        event = egress.event(name="evil.test", verdict=REFUSED, port=0)
        same(event["reason"], "name is not allowed", "reason")
        n = event["count"]
        while n < 20:
            n += egress.event(name="evil.test", verdict=REFUSED)["count"]
        same(n, 20, "count")
        egress.quiet()


@test("DNS: EDNS, other classes and operations, and what is no query")
def _():
    with Egress({"mode": "rules", "allow": ["good.test"]}) as egress:
        answer = egress.query("evil.test", edns=EDNS)
        same((answer.code, answer.extra), (3, 1), "code")
        check(b"not allowed by the contract" in answer.rest and answer.rest[11:17] == struct.pack(">HHH", 15, 29, 15), answer.rest)
        same(egress.query("good.test", edns=EDNS).rest[:1], b"\0", "OPT")
        bad = b"\0" + struct.pack(">HHBBHH", 41, 1232, 0, 1, 0, 0)
        answer = egress.query("good.test", edns=bad)
        same((answer.code, answer.rest[5]), (0, 1), "BADVERS")
        same(egress.query("good.test", klass=3).code, 5, "class CH")
        same(egress.query("good.test", klass=255).code, 5, "class ANY")
        same(egress.query("good.test", flags=0x2900).code, 4, "opcode UPDATE")
        same(egress.query("good.test", edns=EDNS[:-1]).code, 1, "cut OPT")
        same(egress.query("good.test", edns=EDNS + b"x").code, 1, "bytes behind")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(egress.dns.getsockname())
            client.settimeout(5)
            for data in (b"", b"\0", bytes(11), dns_query("good.test", flags=0x8180)):
                client.send(data)
            client.send(struct.pack(">HHHHHH", 7, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1")
            same(DnsAnswer(client.recv(4096)).code, 1, "a name that points to itself")
            for data in (b"\x3f" + b"a" * 10, b"".join(b"\x3f" + b"a" * 63 for _ in range(5)) + b"\0\0\1\0\1", b"\7example"):
                client.send(struct.pack(">HHHHHH", 7, 0, 1, 0, 0, 0) + data)
                same(DnsAnswer(client.recv(4096)).code, 1, "%r" % data[:20])
            client.send(dns_query("good.test") + bytes(60000))
            same(DnsAnswer(client.recv(4096)).code, 1, "60 kB")
        same(egress.query("good.test").code, 0, "still there")


@test("SOCKS 5 by name: bytes go both ways, an end goes through, and all of it is told")
def _():
    def serve(connection):
        data = b""
        while not data.endswith(b"END"):
            more = connection.recv(65536)
            if not more:
                break
            data += more
        same(connection.recv(1), b"", "the client's end")
        connection.sendall(b"got %d" % len(data))

    with Server(serve) as server, Egress(rules(server.port), GOOD) as egress:
        with egress.proxy() as client:
            same(socks5(client, "good.test", server.port), 0, "reply")
            client.sendall(b"x" * 100000 + b"END")
            client.shutdown(socket.SHUT_WR)
            same(client.recv(100), b"got 100003", "answer after the end")
            same(client.recv(100), b"", "end")
        event = egress.event(name="good.test")
        same((event["verdict"], event["port"], event["address"], event["sent"], event["received"], event["count"], event["reason"]),
             (ALLOWED, server.port, "127.0.0.1", 100003, 10, 1, ""), "event")
        check("good.test" in event["rule"], event["rule"])
        same(server.errors, [], "errors of the server")


@test("SOCKS 5: addresses, refusals, BIND and UDP, a server that is not there")
def _():
    with Server(echo) as server, Egress(rules(server.port, {"host": "127.0.0.1", "ports": [9]}, {"host": "good.test", "ports": [9]}),
                                        GOOD) as egress:
        for host, port, command, code in (("127.0.0.1", server.port, 1, 0), ("good.test", 9, 1, 5), ("evil.test", 80, 1, 2),
                                          ("good.test", 22, 1, 2), ("127.0.0.2", server.port, 1, 2), ("::1", server.port, 1, 2),
                                          ("good.test", server.port, 2, 7), ("good.test", server.port, 3, 7), ("a b", 80, 1, 8),
                                          ("good.test", 0, 1, 1)):
            with egress.proxy() as client:
                same(socks5(client, host, port, command), code, "%s:%d, command %d" % (host, port, command))
        same(egress.event(name="good.test", port=9)["verdict"], UNREACHED, "verdict")
        same(egress.event(name="good.test", port=22)["reason"], "port is not allowed", "reason")
        same(egress.event(name="evil.test")["verdict"], REFUSED, "verdict")
        same(egress.event(address="127.0.0.2")["reason"], "address is not allowed", "reason")
        with egress.proxy() as client:  # 4a
            client.sendall(b"\4\1" + struct.pack(">H", server.port) + b"\0\0\0\1me\0good.test\0ping")
            same(read_exactly(client, 8)[1], 90, "reply of 4a")
            same(read_exactly(client, 4), b"ping", "echo")


@test("words without an end of line pass after a moment, unless they could be a method of HTTP")
def _():
    with Server(echo) as server, Egress(rules(server.port), GOOD) as egress:
        client, _ = egress.connect("good.test:%d" % server.port)
        client.sendall(b"JDWP-Handshake")
        same(read_exactly(client, 14), b"JDWP-Handshake", "echo")
        client, _ = egress.connect("good.test:%d" % server.port)
        client.settimeout(1.5)
        client.sendall(b"prop")
        try:
            check(not client.recv(1), "it was passed on")
        except socket.timeout:
            pass


@test("CONNECT: allowed, refused with the flag that would allow it, unreachable, malformed")
def _():
    with Server(echo) as server, Egress(rules(server.port, {"host": "127.0.0.1", "ports": [9]}, {"host": "good.test", "ports": [9]}),
                                        GOOD) as egress:
        client, head = egress.connect("good.test:%d" % server.port)
        check(head.startswith("HTTP/1.1 200 "), head)
        client.sendall(b"\0ping")
        same(read_exactly(client, 5), b"\0ping", "echo")
        client.close()
        for target, status, words in (
                ("evil.test:443", "403", "evil.test:443 is not allowed by the contract; allow it with --allow evil.test\n"),
                ("evil.test:8443", "403", "allow it with --allow evil.test:8443\n"),
                ("[2001:db8::1]:443", "403", "allow it with --allow 2001:db8::1\n"),
                ("1.1.1.1:443", "403", "allow it with --allow 1.1.1.1\n"),
                ("good.test:9", "502", "could not be reached: connection refused"),
                ("good.test", "400", "HOST:PORT"), ("good.test:0", "400", "HOST:PORT"), ("good.test:65536", "400", "HOST:PORT"),
                ("good.test:-1", "400", ""), ("good.test:080", "400", ""), ("http://good.test:80/", "400", ""),
                ("[fe80::1%25eth0]:80", "400", ""), ("0x7f.1:80", "400", ""), ("2130706433:80", "400", ""), ("good.test\t:80", "400", ""),
                (":80", "400", ""), ("[::ffff:127.0.0.1]:80", "403", ""), ("2001:db8::1:443", "400", "")):
            client, head = egress.connect(target)
            check(head.startswith("HTTP/1.1 %s " % status), "%s: %s" % (target, head))
            body = client.makefile("rb").read().decode()
            check(words in body and body.startswith("atoll: "), "%s: %s" % (target, body))
            client.close()
        with egress.proxy() as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            check(read_head(client).startswith("HTTP/1.1 400 "), "no proxy request")
        with egress.proxy() as client:
            client.sendall(b"A" * 20000)
            check(read_head(client).startswith("HTTP/1.1 400 "), "a head without end")


@test("a token is asked for where there is one")
def _():
    with Server(echo) as server, Egress(rules(server.port), GOOD, token="s3cret-token") as egress:
        client, head = egress.connect("good.test:%d" % server.port)
        check(head.startswith("HTTP/1.1 407 ") and "Proxy-Authenticate: Basic" in head, head)
        import base64
        for password, status in (("wrong", "407"), ("s3cret-tokem", "407"), ("s3cret-token", "200")):
            value = base64.b64encode(("atoll:" + password).encode()).decode()
            client, head = egress.connect("good.test:%d" % server.port, "Proxy-Authorization: Basic %s\r\n" % value)
            check(head.startswith("HTTP/1.1 %s " % status), head)
        with egress.proxy() as client:
            same(socks5(client, "good.test", server.port), "method", "SOCKS without a password")
        with egress.proxy() as client:
            same(socks5(client, "good.test", server.port, auth=("atoll", "wrong")), "password", "SOCKS with a wrong password")
        with egress.proxy() as client:
            same(socks5(client, "good.test", server.port, auth=("atoll", "s3cret-token")), 0, "SOCKS with the password")


@test("many bytes arrive as they were, both ways at once")
def _():
    block = random.Random(1).randbytes(1 << 20)
    n = 64

    def serve(connection):
        connection.recv(1)
        sender = threading.Thread(target=lambda: [connection.sendall(block) for _ in range(n)] and connection.shutdown(socket.SHUT_WR))
        sender.start()
        digest = hashlib.sha256()
        while True:
            data = connection.recv(1 << 20)
            if not data:
                break
            digest.update(data)
        sender.join()
        digests.append(digest.hexdigest())

    digests = []
    with Server(serve) as server, Egress(rules(server.port), GOOD) as egress:
        client, head = egress.connect("good.test:%d" % server.port)
        client.settimeout(60)
        client.sendall(b"\0")

        def send():
            for _ in range(n):
                client.sendall(block)
            client.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        digest, total = hashlib.sha256(), 0
        while True:
            data = client.recv(1 << 20)
            if not data:
                break
            digest.update(data)
            total += len(data)
        sender.join()
        same(total, n << 20, "bytes")
        until(lambda: digests)
        same(digests, [digest.hexdigest()], "digest")
        event = egress.event(name="good.test")
        same((event["sent"], event["received"], event["reason"]), ((n << 20) + 1, n << 20, ""), "event")


@test("bytes that one client does not take are nobody else's, also if it is reset meanwhile")
def _():
    def serve(connection):
        block = connection.recv(1) * (1 << 20)
        with contextlib.suppress(OSError):
            for _ in range(24):
                connection.sendall(block)

    def read(client, own, wrong, resets):
        total = 0
        with client, contextlib.suppress(OSError):
            client.settimeout(30)
            client.sendall(own)
            while data := client.recv(1 << 17):
                total += len(data)
                if data.count(own) != len(data):
                    wrong.append(own)
                if total % 7 == 0:
                    time.sleep(0.002)  # so that some of it has to wait in egress
                if resets and total > 6 << 20:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
        totals.append(total)

    wrong, totals, readers = [], [], []
    with Server(serve) as server, Egress(rules(server.port), GOOD) as egress:
        for i in range(12):
            client, head = egress.connect("good.test:%d" % server.port)
            check(" 200 " in head, head)
            readers.append(threading.Thread(target=read, args=(client, bytes([200 + i]), wrong, i % 3 == 0)))
            readers[-1].start()
        for reader in readers:
            reader.join(60)
        same(wrong, [], "connections that got another's bytes")
        same(totals, [24 << 20] * 8, "bytes of those that read on")
        same(sum(1 for _ in range(12) if egress.event(name="good.test", verdict=ALLOWED)["reason"] == "reset by the client"), 4, "resets that are told")


@test("short connections one after another: each is told with its bytes, each is closed, and nothing of them stays")
def _():
    with Server(echo) as server, Egress(rules(server.port), GOOD) as egress:
        for _ in range(400):
            client, head = egress.connect("good.test:%d" % server.port)
            client.sendall(b"x\n")
            same(client.recv(2), b"x\n", "echo")
            client.close()
        count = sent = received = 0
        while count < 400:
            event = egress.event(name="good.test", verdict=ALLOWED, reason="")
            check(event["duration"] > 0 and abs(event["start"] / 1e9 - time.time()) < 60, "time: %r" % event)
            count, sent, received = count + event["count"], sent + event["sent"], received + event["received"]
        same((count, sent, received), (400, 800, 800), "connections, bytes sent, bytes received")
        egress.quiet()
        until(lambda: not open_to(server.port))
        same(open_to(server.port), [], "connections that are still open")


def open_to(port, is_whole=False):
    """[timer] of connections to that port of 127.0.0.1, by their clients' ends; those that are over do not count, and for is_whole
    those of which one side has ended neither: somebody may have had the port before, with clients that have not closed theirs."""
    with open("/proc/net/tcp") as file:
        lines = [line.split() for line in file.read().splitlines()[1:]]
    return [fields[5].split(":")[0] for fields in lines if
            fields[2] == "0100007F:%04X" % port and (fields[3] == "01" if is_whole else fields[3] not in ("06", "07"))]


@test("a connection that lasts is kept alive, whoever has spoken; one that does not is spared it")
def _():
    with Server(lambda connection: echo(connection)) as server, Egress(rules(server.port), GOOD) as egress:
        with egress.connect("good.test:%d" % server.port)[0] as silent, egress.connect("good.test:%d" % server.port)[0] as spoken:
            spoken.sendall(b"x\n")
            same(spoken.recv(2), b"x\n", "echo")
            until(lambda: open_to(server.port, is_whole=True) == ["00", "00"])
            same(open_to(server.port, is_whole=True), ["00", "00"], "timers at first")
            until(lambda: open_to(server.port, is_whole=True) == ["02", "02"], 8, pause=0.25)  # the kernel goes through all of a large table
            same(open_to(server.port, is_whole=True), ["02", "02"], "timers of what lasts: that of keeping alive")
            silent.sendall(b"y\n")
            same(silent.recv(2), b"y\n", "echo of the one that was silent")


@test("a server that speaks first is heard, one that a client speaks to first as well")
def _():
    def banner(connection):
        connection.sendall(b"220 hello\r\n")
        same(connection.recv(100), b"GET / HTTP/1.1\r\n", "what it says then is its own matter")
        connection.sendall(b"bye")

    with Server(banner) as server, Egress(rules(server.port), GOOD) as egress:
        with egress.proxy() as client:
            same(socks5(client, "good.test", server.port), 0, "reply")
            same(read_exactly(client, 11), b"220 hello\r\n", "banner")
            client.sendall(b"GET / HTTP/1.1\r\n")
            same(read_exactly(client, 3), b"bye", "end")


@test("TLS has to be for the name, on every port")
def _():
    with Server(echo) as server, Egress(rules(server.port), GOOD) as egress:
        def attempt(first, *parts):
            client, head = egress.connect("good.test:%d" % server.port)
            check(head.startswith("HTTP/1.1 200 "), head)
            with client:
                for part in (first,) + parts:
                    client.sendall(part)
                    time.sleep(0.01)
                try:
                    return read_exactly(client, len(first) + sum(map(len, parts))) == first + b"".join(parts)
                except ConnectionResetError:
                    return False
        good, evil = hello("good.test"), hello("evil.test")
        same(attempt(good), True, "its own name")
        same(attempt(*[good[i:i + 97] for i in range(0, len(good), 97)]), True, "in small packets")
        same(attempt(evil), False, "another name")
        check("evil.test" in egress.event(name="good.test", verdict=REFUSED)["reason"], "the reason names it")
        same(attempt(hello(None)), True, "no name, on another port than 443")
        same(attempt(b"\x16\x03\x01\x00\x02\x02\x00"), False, "no hello")
        same(attempt(good.replace(b"good.test", b"GOOD.test")), True, "letter case")
        same(attempt(good[:5] + b"\2" + good[6:]), False, "another message")


@test("the limit of connections at the same time is exact")
def _():
    with Server(echo) as server, Egress(rules(server.port, connections=3), GOOD) as egress:
        clients = [egress.connect("good.test:%d" % server.port) for _ in range(3)]
        check(all(" 200 " in head for _, head in clients), "three are fine")
        client, head = egress.connect("good.test:%d" % server.port)
        check(head.startswith("HTTP/1.1 403 "), head)
        check("limit of connections" in egress.event(verdict=REFUSED)["reason"], "reason")
        clients[0][0].close()
        egress.event(verdict=ALLOWED)
        client, head = egress.connect("good.test:%d" % server.port)
        check(" 200 " in head, head)


@test("the limit of bytes is exact, and many connections do not get more")
def _():
    def serve(connection):
        connection.recv(1)
        while True:
            connection.sendall(bytes(65536))

    for where in ("rule", "run"):
        with Server(serve) as server:
            network = rules(server.port, bytes=300000) if where == "rule" else dict(rules(server.port), bytes=300000)
            with Egress(network, GOOD) as egress:
                got = []

                def take():
                    n = 0
                    try:
                        client, head = egress.connect("good.test:%d" % server.port)
                        if head.startswith("HTTP/1.1 403 "):  # too late: what follows is why
                            client.close()
                            got.append(0)
                            return
                        client.sendall(b"\0")
                        while True:
                            data = client.recv(65536)
                            if not data:
                                break
                            n += len(data)
                    except OSError:
                        pass
                    got.append(n)
                threads = [threading.Thread(target=take) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                events = [egress.event() for _ in range(8)]
                total = sum(event["sent"] + event["received"] for event in events)
                same(total, 300000, "bytes counted, by %s" % where)
                check(sum(got) <= 300000, "bytes received")
                check(all("limit of" in event["reason"] for event in events), events)
                if where == "run":
                    same(text_of(egress.other(LIMIT)[2]), "bytes", "the run's limit is told")
                    client, head = egress.connect("good.test:%d" % server.port)
                    check(head.startswith("HTTP/1.1 403 "), head)


@test("a rate holds for all connections together")
def _():
    def serve(connection):
        connection.recv(1)
        while True:
            connection.sendall(bytes(65536))

    rate = 400000
    with Server(serve) as server, Egress(dict(rules(server.port), rate=rate), GOOD) as egress:
        totals = [0] * 6
        stop = time.monotonic() + 3

        def take(i):
            client, _ = egress.connect("good.test:%d" % server.port)
            with client:
                client.sendall(b"\0")
                while time.monotonic() < stop:
                    totals[i] += len(client.recv(65536))
        start = time.monotonic()
        threads = [threading.Thread(target=take, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - start
        check(sum(totals) <= rate * (seconds + 0.2), "%d bytes in %.2f s" % (sum(totals), seconds))
        check(sum(totals) >= rate * seconds * 0.2, "%d bytes in %.2f s" % (sum(totals), seconds))
        check(min(totals) > 0, "somebody got nothing: %r" % totals)


@test("connections a second are limited where requests are")
def _():
    with Server(echo) as server, Egress(rules(server.port, requests=5), GOOD) as egress:
        start = time.monotonic()
        for _ in range(10):
            client, head = egress.connect("good.test:%d" % server.port)
            check(" 200 " in head, head)
            client.close()
        check(0.8 < time.monotonic() - start < 4, "10 connections at 5 a second took %.1f s" % (time.monotonic() - start))


@test("ask: held while a person decides; one question for many; the answer holds")
def _():
    with Server(echo) as server, Egress(dict({"mode": "rules", "ask": True, "allow": [{"host": "127.0.0.1", "ports": [server.port]}]}),
                                        {"asked.test": "127.0.0.1", "no.test": "127.0.0.1"}) as egress:
        check(egress.query("asked.test").address, "an unlisted name has an address")
        clients = []
        for _ in range(5):
            client = egress.proxy()
            client.sendall(b"CONNECT asked.test:%d HTTP/1.1\r\n\r\n" % server.port)
            clients.append(client)
        number, name, port = egress.question()
        same((name, port), ("asked.test", server.port), "question")
        egress.quiet()
        same(egress.questions, [], "other questions")
        same(server.n, 0, "connections before the answer")
        egress.answer(number + 1000, True)
        egress.answer(number, True)
        for client in clients:
            check(" 200 " in read_head(client), "allowed")
        client, head = egress.connect("asked.test:%d" % server.port)
        check(" 200 " in head, "without a question")
        client = egress.proxy()
        client.sendall(b"CONNECT no.test:%d HTTP/1.1\r\n\r\n" % server.port)
        egress.answer(egress.question()[0], False)
        check(" 403 " in read_head(client), "refused")
        check(" 403 " in egress.connect("no.test:%d" % server.port)[1], "refused without a question")


@test("ask: a flood is refused, and a client that goes away is forgotten")
def _():
    with Egress({"mode": "rules", "ask": True}) as egress:
        clients = []
        for i in range(40):
            client = egress.proxy()
            client.sendall(b"CONNECT n%d.test:443 HTTP/1.1\r\n\r\n" % i)
            clients.append(client)
        for i in range(24):
            egress.event(verdict=REFUSED, reason="too many questions are open")
        numbers = [egress.question()[0] for _ in range(16)]
        for client in clients:
            client.close()
        for i in range(16):
            egress.event(verdict=REFUSED, reason="the client went away")
        for number in numbers:
            egress.answer(number, True)
        egress.quiet()


@test("names that lead to the host, its neighbours or metadata lead nowhere")
def _():
    hosts = {"a.test": "127.0.0.1", "b.test": "10.0.0.1", "c.test": "169.254.169.254", "d.test": "::1", "e.test": "fe80::1",
             "f.test": "100.64.0.1", "g.test": "::ffff:192.168.0.1", "h.test": "203.0.113.99", "i.test": "224.0.0.1"}
    with Egress({"mode": "rules", "allow": ["**.test"]}, hosts, own=["203.0.113.99"]) as egress:
        for name in hosts:
            with egress.proxy() as client:
                same(socks5(client, name, 443), 2, name)
            event = egress.event(name=name)
            check(event["verdict"] == REFUSED and "not allowed (" in event["reason"], event)
            same(event["address"], "", "no address was connected to")


@test("resolution: real queries, A and AAAA, mixed answers filtered, NXDOMAIN, silence")
def _():
    asked = []

    def answer(data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        type = struct.unpack_from(">H", data, at + 1)[0]
        name = ".".join(labels)
        asked.append((name, type))
        question = data[12:at + 5]
        if name == "silent.test":
            return None
        records = {("mixed.test", 1): ["10.0.0.1", "127.0.0.1", "169.254.169.254"], ("six.test", 28): ["::1"]}.get((name, type), [])
        code = 3 if name == "gone.test" else 0
        packed = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", type, 1, 0, 4 if type == 1 else 16) +
                          socket.inet_pton(socket.AF_INET if type == 1 else socket.AF_INET6, one) for one in records)
        return data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0) + question + packed

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dns:
        try:
            dns.bind(("127.0.0.77", 53))
        except OSError:
            skip("port 53 of 127.0.0.77")

        def serve():
            while True:
                try:
                    data, client = dns.recvfrom(4096)
                except OSError:
                    return
                reply = answer(data)
                if reply:
                    dns.sendto(reply, client)
        threading.Thread(target=serve, daemon=True).start()
        with Server(echo) as server, Server(echo, "::1") as sixth:
            network = {"mode": "rules", "allow": [{"host": "**.test", "ports": [server.port, sixth.port]},
                                                  {"host": "127.0.0.1", "ports": [server.port]}, {"host": "::1", "ports": [sixth.port]}]}
            with Egress(network, resolv="nameserver 127.0.0.77\n") as egress:
                client, head = egress.connect("mixed.test:%d" % server.port)
                check(" 200 " in head, head)
                client.close()
                same(egress.event(name="mixed.test")["address"], "127.0.0.1", "the one that is allowed")
                same(sorted(asked), [("mixed.test", 1), ("mixed.test", 28)], "queries")
                client, head = egress.connect("six.test:%d" % sixth.port)
                check(" 200 " in head, head)
                client.close()
                same(egress.event(name="six.test")["address"], "::1", "IPv6")
                client, head = egress.connect("gone.test:%d" % server.port)
                check(" 502 " in head and "does not exist" in client.makefile().read(), head)
                del asked[:]
                egress.query("not-yet.test")
                client, head = egress.connect("refused.example:443")
                same(asked, [], "nothing is asked before a rule allows the connection")
                start = time.monotonic()
                client = egress.proxy(30)
                client.sendall(b"CONNECT silent.test:%d HTTP/1.1\r\n\r\n" % server.port)
                check(" 502 " in read_head(client), "time-out")
                check(time.monotonic() - start < 13, "it took %.0f s" % (time.monotonic() - start))


@test("an upstream proxy is used for names")
def _():
    heads = []

    def proxy(connection):
        head = read_head(connection)
        heads.append(head)
        if "refused.test" in head:
            connection.sendall(b"HTTP/1.1 407 No\r\n\r\n")
            return
        connection.sendall(b"HTTP/1.1 200 Fine\r\nX: y\r\n\r\nfirst")
        echo(connection)

    with Server(proxy) as server:
        network = {"mode": "rules", "allow": [{"host": "**.test", "ports": [8443]}],
                   "upstream": "http://me:p%%40ss@127.0.0.1:%d" % server.port}
        with Egress(network) as egress:
            client, head = egress.connect("good.test:8443")
            check(" 200 " in head, head)
            same(read_exactly(client, 5), b"first", "what comes right behind the head")
            client.sendall(b"ping")
            same(read_exactly(client, 4), b"ping", "echo")
            same(heads[0].split("\r\n")[:2], ["CONNECT good.test:8443 HTTP/1.1", "Host: good.test:8443"], "request")
            check("Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in heads[0], heads[0])
            client, head = egress.connect("refused.test:8443")
            check(" 502 " in head and "status 407" in client.makefile().read(), head)


@test("resets go through both ways")
def _():
    def reset(connection):
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    seen = []

    def wait(connection):
        connection.recv(1)
        try:
            seen.append(connection.recv(1))
        except ConnectionResetError:
            seen.append("reset")

    with Server(reset) as first, Server(wait) as second:
        network = rules(first.port, {"host": "good.test", "ports": [second.port]}, {"host": "127.0.0.1", "ports": [second.port]})
        with Egress(network, GOOD) as egress:
            client, _ = egress.connect("good.test:%d" % first.port)
            client.sendall(b"\0")
            check(is_reset(client), "the server's reset")
            same(egress.event(port=first.port)["reason"], "reset by the server", "reason")
            client, _ = egress.connect("good.test:%d" % second.port)
            client.sendall(b"\0")
            time.sleep(0.1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            same(egress.event(port=second.port)["reason"], "reset by the client", "reason")
            until(lambda: seen)
            same(seen, ["reset"], "what the server saw")


@test("published ports: joined with sockets of the inside, IPv4 or IPv6")
def _():
    for host in ("127.0.0.1", "::1"):
        with Server(echo, host) as inside:
            with Egress({"mode": "rules", "listen": [{"port": inside.port}]}) as egress:
                same(len(egress.ports), 1, "ports")
                for visitor in ("127.0.0.1", "::1"):
                    client = socket.create_connection((visitor, egress.ports[0]), timeout=10)
                    want = egress.other(WANT)
                    made = [socket.socket(socket.AF_INET6) for _ in range(want[1])]
                    egress.send(message(INSIDE, len(made)), [one.fileno() for one in made])
                    for one in made:
                        one.close()
                    client.sendall(b"ping")
                    same(read_exactly(client, 4), b"ping", "echo at %s by %s" % (host, visitor))
                    client.close()
                    event = egress.event(port=inside.port, verdict=ALLOWED)
                    same(event["rule"], "listen %d" % inside.port, "rule")


@test("published ports: a socket of the inside that its maker still has open ends nobody else's connection")
def _():
    with Server(echo, "127.0.0.1") as inside, Egress({"mode": "rules", "listen": [{"port": inside.port}]}) as egress:
        kept = []
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", egress.ports[0]), timeout=10)
            want = egress.other(WANT)
            made = [socket.socket(socket.AF_INET6) for _ in range(want[1])]
            egress.send(message(INSIDE, len(made)), [one.fileno() for one in made])
            kept += made
            client.sendall(b"ping")
            same(read_exactly(client, 4), b"ping", "echo")
            client.shutdown(socket.SHUT_WR)
            same(client.recv(10), b"", "the end")
            client.close()
            egress.event(port=inside.port, verdict=ALLOWED)
        for one in kept:
            one.close()


@test("a fixed host port that is taken is an error with its number")
def _():
    with listener() as taken:
        port = taken.getsockname()[1]
        text = fails(network={"mode": "rules", "listen": [{"port": 8080, "host": port}]})
        check(str(port) in text and "in use" in text, text)


@test("connections that live are told of at the end")
def _():
    with Server(echo) as server:
        egress = Egress(rules(server.port), GOOD)
        clients = [egress.connect("good.test:%d" % server.port)[0] for _ in range(3)]
        egress.channel.shutdown(socket.SHUT_WR)
        for _ in clients:
            same(egress.event(name="good.test")["reason"], "the run ended", "reason")
        same(egress.process.wait(10), 0, "status")
        egress.__exit__(None)


@test("a supervisor that does not listen blocks nobody, and hears a sum")
def _():
    with Server(echo) as server, Egress(rules(server.port), GOOD) as egress:
        for i in range(1200):
            with egress.proxy() as client:
                client.sendall(b"CONNECT evil%d.test:443 HTTP/1.1\r\n\r\n" % i)
                check(" 403 " in read_head(client), "refused")
        client, head = egress.connect("good.test:%d" % server.port)
        check(" 200 " in head, head)
        n = 0
        while egress.pump(0.3):
            pass
        n = sum(event["count"] for event in egress.events)
        same(n, 1200, "attempts")
        del egress.events[:]


@test("killed, it takes its connections along and nothing else")
def _():
    with Server(echo) as server:
        egress = Egress(rules(server.port), GOOD)
        client, head = egress.connect("good.test:%d" % server.port)
        client.sendall(b"\0")
        same(read_exactly(client, 1), b"\0", "echo")
        egress.process.kill()
        egress.process.wait()
        try:
            same(client.recv(1), b"", "the connection")
        except ConnectionResetError:
            pass
        same(egress.channel.recv(1), b"", "the channel")
        egress.process.wait = lambda _: 0
        egress.__exit__(None)


@test("readers that are stuck cost little, and lose nothing")
def _():
    block = bytes(i % 251 for i in range(251 * 4096))

    def serve(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        connection.recv(1)
        try:
            while True:
                connection.sendall(block)
        except OSError:
            pass

    def tcp_pages():
        with open("/proc/net/sockstat") as file:
            return int(re.search("TCP: .* mem ([0-9]+)", file.read()).group(1))

    with Server(serve) as server, Egress(rules(server.port), GOOD) as egress:
        clients, before = [], tcp_pages()
        for _ in range(400):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.settimeout(20)
            client.connect(egress.listener.getsockname())
            client.sendall(b"CONNECT good.test:%d HTTP/1.1\r\n\r\n" % server.port)
            check(" 200 " in read_head(client), "allowed")
            client.sendall(b"\0")
            clients.append(client)
        time.sleep(2)
        print("# kernel: %d MB for their sockets" % ((tcp_pages() - before) * 4 // 1024))
        memory = egress.memory_kib()
        print("# memory: %d kB with 400 stuck readers" % memory)
        check(memory < 120000, "%d kB" % memory)
        for client in clients[::40] + clients[-10:]:
            at = 0
            while at < 8 << 20:
                data = client.recv(1 << 19)
                start = at % 251
                check(data and data == block[start:start + len(data)], "bytes changed at %d" % at)
                at += len(data)
        for client in clients:
            client.close()


@test("5,000 idle connections take less than 100 MB")
def _():
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 12000:
        skip("a hard limit of 12,000 descriptors")
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 32768), hard))
    with listener() as server:
        server.listen(4096)
        kept = []

        def accept():
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
        threading.Thread(target=accept, daemon=True).start()
        port = server.getsockname()[1]
        with Egress(rules(port), GOOD) as egress:
            before = egress.memory_kib()
            clients = []
            for _ in range(5000):
                client, head = egress.connect("good.test:%d" % port)
                client.sendall(b"\0")
                clients.append(client)
            until(lambda: len(kept) == 5000)
            time.sleep(0.5)
            after = egress.memory_kib()
            print("# memory: %d kB before, %d kB with 5,000 connections" % (before, after))
            check(after < 100000, "%d kB" % after)
            for one in clients + kept:
                one.close()
            while egress.pump(2):
                pass
            same(sum(event["count"] for event in egress.events), 5000, "events")
            del egress.events[:]
        server.shutdown(socket.SHUT_RDWR)
    resource.setrlimit(resource.RLIMIT_NOFILE, old)


# ---- the namespace's own way ----

PRELUDE = """
import socket, struct, ssl
def ask(name, server, kind=1, tcp=False):
    query = struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + b"".join(
        bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\\0" + struct.pack(">HH", kind, 1)
    client = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    client.settimeout(5)
    client.connect((server, 53))
    client.send(struct.pack(">H", len(query)) + query if tcp else query)
    answer = client.recv(4096)[2 * tcp:]
    if answer[3] & 15 or not answer[7]:
        return answer[3] & 15
    return socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, answer[-4 if kind == 1 else -16:])
def talk(address, port, say, size=65536):
    got = b""
    try:
        with socket.create_connection((address, port), timeout=5) as client:
            client.sendall(say)
            while len(got) < size:
                more = client.recv(65536)
                if not more:
                    break
                got += more
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "timed out after " + repr(got)
    return got.decode("latin-1")
"""


def inside(network, hosts, **more):
    """A namespace and an egress that serves it."""
    need("unshare", "nft", "ip")
    place = Inside()
    if len(place.sockets) != 2:
        skip("a user namespace with tproxy")
    place.run(PRELUDE)
    return place, Egress(network, hosts, sockets=place.sockets, **more)


@test("inside: any resolver's address answers, UDP and TCP, IPv4 and IPv6")
def _():
    place, egress = inside({"mode": "rules", "allow": ["good.test"]}, {})
    with place, egress:
        address = place.run('result = ask("good.test", "8.8.8.8")')
        check(address.startswith("198.18."), address)
        for server in ("1.2.3.4", "127.0.0.53", "2001:4860:4860::8888", "::1"):
            for tcp in (False, True):
                same(place.run('result = ask("good.test", %r, tcp=%r)' % (server, tcp)), address, "%s %s" % (server, tcp))
        check(place.run('result = ask("good.test", "9.9.9.9", 28)').startswith("64:ff9b:1:a701:"), "AAAA")
        same(place.run('result = ask("evil.test", "9.9.9.9", tcp=True)'), 3, "an unlisted name")
        same(place.run("""
client = socket.create_connection(("8.8.8.8", 53), timeout=5)
client.sendall(b"\\xff\\xff" + b"x" * 1000)
try:
    result = client.recv(10) == b""
except ConnectionResetError:
    result = True
"""), True, "a query of 64 kB ends it")
        same(place.run("""
client = socket.create_connection(("8.8.8.8", 53), timeout=5)
one = struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + b"\\4good\\4test\\0\\0\\1\\0\\1"
for byte in struct.pack(">H", len(one)) + one + struct.pack(">H", len(one)) + one:
    client.sendall(bytes([byte]))
n = 0
while n < 2 * (2 + len(one) + 16):
    n += len(client.recv(4096))
result = n
"""), 2 * (2 + 27 + 16), "two queries byte by byte")


@test("inside: by name, by address, IPv4 and IPv6, and all else refused")
def _():
    with Server(echo) as server:
        place, egress = inside({"mode": "rules", "allow": [{"host": "good.test", "ports": [server.port]},
                                                           {"host": "127.0.0.0/8", "ports": [server.port]}, {"host": "192.0.2.0/24"}]},
                               GOOD)
        with place, egress:
            port = server.port
            for kind in (1, 28):
                same(place.run('result = talk(ask("good.test", "8.8.8.8", %d), %d, b"\\0ping", 5)' % (kind, port)), "\0ping", "echo")
                event = egress.event(name="good.test")
                same((event["verdict"], event["sent"], event["received"], event["address"]), (ALLOWED, 5, 5, "127.0.0.1"), "event")
                check(event["local_port"] > 0, "the client's port")
            same(place.run('result = talk(ask("good.test", "8.8.8.8"), 22, b"\\0ping")'), "reset", "another port")
            same(egress.event(name="good.test")["reason"], "port is not allowed", "reason")
            for address in ("1.1.1.1", "10.0.0.1", "2001:db8::1", "169.254.169.254"):
                same(place.run('result = talk(%r, 80, b"\\0ping")' % address), "reset", address)
                event = egress.event(address=address)
                same((event["verdict"], event["reason"]), (REFUSED, "address is not allowed"), "event")
            same(place.run('result = talk("198.18.77.77", 80, b"ping")'), "reset", "an address of no name")
            check("no name was looked up" in egress.event(verdict=REFUSED)["reason"], "reason")
            same(place.run("""
try:
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("1.1.1.1", 443))
    client.send(b"quic")
    client.settimeout(2)
    client.recv(1)
except ConnectionRefusedError:
    result = "refused"
"""), "refused", "UDP")


@test("inside: ports 80 and 443 want HTTP and TLS for the name")
def _():
    servers = []
    for port in (80, 443):
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.88", port))
        except OSError:
            skip("port %d of 127.0.0.88" % port)
        server.listen(16)
        servers.append(server)
    seen = []

    def serve(server):
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                data = client.recv(65536)
                seen.append(data)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi" if data[:3] == b"GET" else b"TLS!")
    for server in servers:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    place, egress = inside({"mode": "rules", "allow": ["good.test", {"host": "127.0.0.88"}]}, {"good.test": "127.0.0.88"})
    with place, egress:
        place.run('good = ask("good.test", "8.8.8.8")')

        def attempt(port, data):
            del seen[:]
            got = place.run("result = talk(good, %d, bytes.fromhex(%r))" % (port, data.hex()))
            return got, bool(seen)
        got, arrived = attempt(80, b"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")
        check(got.startswith("HTTP/1.1 200 ") and got.endswith("hi") and arrived, got)
        for port, data in ((80, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), (80, hello("good.test")), (80, b"\0\1\2"),
                           (443, b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"), (443, hello("evil.test")), (443, hello(None)),
                           (443, b"SSH-2.0-x\r\n")):
            got, arrived = attempt(port, data)
            check(not arrived, "%r arrived at port %d" % (data[:30], port))
            check(not got.startswith("timed out"), "%r at port %d: %s" % (data[:30], port, got))
        same(attempt(443, hello("good.test")), ("TLS!", True), "its own name")


@test("inside: the proxy at 127.0.0.1 and ::1, and a server that speaks first")
def _():
    def banner(connection):
        connection.sendall(b"SSH-2.0-x\r\n")
        echo(connection)

    with Server(banner) as server:
        place, egress = inside(rules(server.port), GOOD)
        with place, egress:
            port = server.port
            for address in ("127.0.0.1", "::1"):
                got = place.run('result = talk(%r, 1023, b"CONNECT good.test:%d HTTP/1.1\\r\\n\\r\\n", 50)' % (address, port))
                check(got.startswith("HTTP/1.1 200 ") and got.endswith("SSH-2.0-x\r\n"), got)
            same(place.run('result = talk(ask("good.test", "8.8.8.8"), %d, b"", 11)' % port), "SSH-2.0-x\r\n", "banner")
            same(place.run("""
client = socket.create_connection((ask("good.test", "8.8.8.8"), %d), timeout=5)
client.shutdown(socket.SHUT_WR)
result = client.recv(100).decode()
""" % port), "SSH-2.0-x\r\n", "banner for one who only listens")


main()
