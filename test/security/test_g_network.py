# SPDX-License-Identifier: Apache-2.0
# check: seconds 56
# check: timeout 480
"""
Family G of the escape corpus: the network (NET): who is reached, and by which way

On a host with an Internet of the test's own (net.py); "contained" means that nothing arrived there. Names are in test_g_names.py, HTTP
and TLS in test_g_http.py, credentials in test_g_secrets.py, what must work in test_g_clients.py.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, connections, descendants_of, egress_of, inside  # noqa: E402

rig = net.enter()


BROAD = ["--allow", "**.test", "--accept-broad", "**.test"]


def refused(result, *labels):
    result.refused(*labels, how=NO_WAY)


@test("NET-00 the rig itself: from the host everything is reached")
def _():
    rig.clear()
    with Place() as place:
        result = plain(place, inside(r"""
            for label, host, port in (("name", "good.test", 80), ("v6", "v6.test", 80), ("literal", "1.1.1.1", 80), ("private", "10.9.0.5", 80), ("metadata", "169.254.169.254", 80),
                                      ("private name", "private.test", 80), ("wild", "x.w.wild.test", 80), ("loopback", "127.0.0.1", 7777), ("loopback 6", "::1", 7777)):
                talk(label, host, port)
            outcome("https", lambda: tls("good.test"))
            outcome("https 6", lambda: tls("v6.test"))
            outcome("expired", lambda: tls("expired.test"))
            outcome("selfsigned", lambda: tls("selfsigned.test"))
            outcome("wrong", lambda: tls("wrong.test"))
            outcome("s_server", lambda: tls("good.test", 8443))
            outcome("dns", lambda: dns("good.test"))
            outcome("dns tcp", lambda: dns("good.test", tcp=True))
            outcome("missing", lambda: dns("missing.test"))
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"udp here", ("8.8.8.8", 7000))
            s.sendto(query("x.elsewhere.test"), ("8.8.8.8", 53))
            """), confined=False)
        for label in ("name", "v6", "literal", "private", "metadata", "private name", "wild", "loopback", "loopback 6", "https", "https 6", "s_server"):
            same(result.tries[label], "ok", label)
        same(result.tries["dns"], "0 " + net.SERVER4, "the resolver")
        same(result.tries["dns tcp"], "0 " + net.SERVER4, "the resolver over TCP")
        same(result.tries["missing"], "3", "a name that nobody has")
        for label in ("expired", "selfsigned", "wrong"):
            same(result.tries[label], "tls CERTIFICATE_VERIFY_FAILED", label)
        check(len(rig.requests(9)) == 9, "nginx saw %d requests" % len(rig.requests()))
        same([one["data"] for one in rig.arrived("udp")], ["udp here"], "datagrams")
        check("udp 8.8.8.8:53" in rig.attempts() and "tcp 10.9.0.5:80" in rig.attempts(), "the sniffer saw %s" % rig.attempts())
        same(len(rig.canaries()), 4, "what the host's own services saw")


@test("NET-00 a run without a network, and one whose list is empty, reach nothing (NET-13)")
def _():
    code = r"""
        for label, host, port in (("name", "good.test", 80), ("literal", "1.1.1.1", 80), ("v6", "2606:4700:4700::1111", 443), ("private", "10.9.0.5", 80)):
            talk(label, host, port)
        outcome("dns", lambda: dns("good.test").replace("3", "no such name"))
        """
    with Place() as place:
        empty = job_file(place, {"command": ["true"], "network": {"allow": []}})
        for flags in ([], ["--net", "off"], ["--net", "rules"], ["-f", empty]):
            rig.clear()
            result = run(place, flags, inside(code))
            # With no resolver at all a name fails for now, not for ever.
            result.refused(how=(*NO_WAY, "gaierror -3"))
            rig.silence()


@test("NET-01 direct connections to whom no rule names: TCP, UDP, IPv4, IPv6, any port")
def _():
    code = r"""
        for host in ("1.1.1.1", "93.184.216.34", "8.8.8.8", "203.0.113.9", "2606:4700:4700::1111", "2606:2800:220:1:248:1893:25c8:1946", "255.255.255.255", "0.0.0.1"):
            for port in (22, 80, 443, 853, 7000, 65535):
                talk("tcp %s %d" % (host, port), host, port)
            for port in (123, 443, 7000):
                def udp():
                    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
                        s.settimeout(2); s.connect((host, port)); s.send(b"TOKEN " + arg[0].encode()); return s.recv(100)
                outcome("udp %s %d" % (host, port), udp)
        """
    with Place() as place:
        for flags in (["--allow", "good.test"], ["--allow", "good.test", "--no-proxy"], ["--allow", "10.1.2.3"]):
            rig.clear()
            result = run(place, flags, inside(code, place.token))
            refused(result)
            rig.silence()
        need("curl")
        rig.clear()
        among(run(place, ["--allow", "good.test"], ["curl", "-s", "-m", "5", "--noproxy", "*", "http://1.1.1.1/"]).status, (7, 52, 56), "curl without the proxy")
        rig.silence()
        # The same addresses where rules name them.
        rig.clear()
        result = run(place, ["--allow", "1.1.1.1:80,7000", "--allow", "[2606:4700::]/32:80"], inside(r"""
            talk("v4", "1.1.1.1", 80); talk("v6", "2606:4700:4700::1111", 80); talk("port", "1.1.1.1", 7001); talk("other", "1.1.1.2", 80); talk("v6 port", "2606:4700::1", 443)
            talk("v6 other", "2606:4701::1", 80)
            """))
        result.allowed("v4", "v6")
        refused(result, "port", "other", "v6 port", "v6 other")
        same(sorted(set(rig.attempts())), ["tcp 1.1.1.1:80", "tcp 2606:4700:4700::1111:80"], "what left the host")


@test("NET-02 the host's loopback, and its own addresses")
def _():
    code = r"""
        for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost", "0.0.0.0", "::", "45.33.32.10", "2600:3c01::10", "::ffff:127.0.0.1", "45.33.32.1"):
            for port in (80, 443, 7777, 22):
                talk("%s %d" % (host, port), host, port)
        for label, target in (("connect", "127.0.0.1:7777"), ("connect 6", "[::1]:7777"), ("connect own", "45.33.32.10:7777"), ("connect localhost", "localhost:7777"), ("connect any", "0.0.0.0:7777")):
            def by_proxy():
                s = socket.create_connection(("127.0.0.1", 1023), 30)
                s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n" % target.encode())
                return everything(s)
            outcome(label, by_proxy)
        """
    with Place() as place:
        for flags in (["--allow", "good.test"], ["--net", "open"], BROAD):
            rig.clear()
            result = run(place, flags, inside(code))
            refused(result, *[label for label in result.tries if not label.startswith("45.33.32.1 ") and label != "end"])
            same(rig.canaries(), [], "services of the host that were reached")
            if flags[0] != "--net":  # the gateway is just another public address here
                rig.silence()
        # A literal line opens just that (NET-31): this port at this address.
        rig.clear()
        result = run(place, ["--allow", "45.33.32.10:7777"], inside(r"""
            talk("granted", "45.33.32.10", 7777); talk("port", "45.33.32.10", 80); talk("address", "127.0.0.1", 7777); talk("v6", "2600:3c01::10", 7777)
            """))
        result.allowed("granted")
        refused(result, "port", "address", "v6")
        same({(one["to"], one["port"]) for one in rig.canaries()}, {("45.33.32.10", 7777)}, "services that were reached")


@test("NET-31 one port of the host's loopback by a literal line, and nothing beside it")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "127.0.0.1:5432"], inside(r"""
            def by_proxy(target):
                s = socket.create_connection(("127.0.0.1", 1023), 30)
                s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n" % target.encode())
                s.settimeout(30)
                head = s.recv(1000)
                if b" 200 " not in head.split(b"\r\n")[0] + b" ":
                    return head
                s.sendall(request(target))
                return everything(s)
            for target in ("127.0.0.1:5432", "127.0.0.1:7777", "127.0.0.2:5432", "[::1]:5432", "45.33.32.10:5432", "10.9.0.5:5432"):
                outcome(target, lambda: by_proxy(target))
            """))
        result.allowed("127.0.0.1:5432")
        refused(result, "127.0.0.1:7777", "127.0.0.2:5432", "[::1]:5432", "45.33.32.10:5432", "10.9.0.5:5432")
        same({(one["to"], one["port"]) for one in rig.canaries()}, {("127.0.0.1", 5432)}, "services that were reached")


@test("NET-31 a block of addresses: what lies in it, at its ports, and nobody beside it; a private one only if it is listed as such")
def _():
    code = r"""
        for target, port in (("93.184.216.34", 80), ("93.184.216.47", 80), ("93.184.216.48", 80), ("93.184.216.31", 80), ("93.184.216.34", 443),
                             ("2606:2800:220:1:248:1893:25c8:1946", 80), ("2606:2800:220:2::1", 80), ("10.9.0.5", 80), ("10.9.1.5", 80)):
            talk("%s %d" % (target, port), target, port)
        talk("by name", "good.test", 80)
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "93.184.216.32/28:80", "--allow", "[2606:2800:220:1::]/64:80", "--allow", "10.9.0.0/24:80"], inside(code))
        for target in ("93.184.216.34 80", "93.184.216.47 80", "2606:2800:220:1:248:1893:25c8:1946 80", "10.9.0.5 80"):
            result.allowed(target)
        refused(result, "93.184.216.48 80", "93.184.216.31 80", "93.184.216.34 443", "2606:2800:220:2::1 80", "10.9.1.5 80", "by name")
        same({one["to"] for one in rig.requests(4)}, {"93.184.216.34", "93.184.216.47", "2606:2800:220:1:248:1893:25c8:1946", "10.9.0.5"}, "who was reached")


@test("NET-04 metadata services, also by a name that a rule allows")
def _():
    code = r"""
        for host in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "metadata.google.internal", "meta.test", "169.254.170.2", "fe80::a9fe:a9fe"):
            talk(host, host, 80)
        """
    with Place() as place:
        for flags in (["--allow", "good.test"], ["--allow", "**.google.internal", *BROAD], ["--net", "open"], ["--allow", "meta.test"]):
            rig.clear()
            refused(run(place, flags, inside(code)))
            same(rig.attempts(), [], "what left the host")
        rig.clear()
        run(place, ["--allow", "169.254.169.254"], inside('talk("literal", "169.254.169.254", 80)')).allowed("literal")
        same(rig.attempts(), ["tcp 169.254.169.254:80"], "what left the host")


PROXY = r"""
def by_connect(target, extra=b"", data=None):
    s = socket.create_connection(("127.0.0.1", 1023), 30)
    s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (target.encode(), target.encode(), extra))
    s.settimeout(30)
    head = s.recv(1000)
    if b" 200" not in head[:20]:
        return head
    s.sendall(data or request(target[:-3] if target.endswith(":80") else target))
    return everything(s)
def by_socks(host, port, kind=3, command=1, version=5, methods=b"\0"):
    s = socket.create_connection(("127.0.0.1", 1023), 30)
    s.settimeout(30)
    s.sendall(bytes([version, len(methods)]) + methods)
    said = s.recv(2, socket.MSG_WAITALL)
    if said != b"\5\0":
        return b"" if not said or said[1:] == b"\xff" else said
    if kind == 3:
        to = bytes([len(host)]) + host.encode()
    else:
        to = socket.inet_pton(socket.AF_INET if kind == 1 else socket.AF_INET6, host)
    s.sendall(bytes([5, command, 0, kind]) + to + struct.pack("!H", port))
    said = s.recv(4, socket.MSG_WAITALL)
    if len(said) < 4 or said[1] != 0:
        return b""
    s.recv(6 if said[3] == 1 else 18, socket.MSG_WAITALL)
    s.sendall(request(at(host, port)))
    return everything(s)
"""


@test("NET-05 NET-07 address literals and odd spellings through the proxy: CONNECT and SOCKS 5")
def _():
    code = PROXY + r"""
outcome("control", lambda: by_connect("good.test:80"))
outcome("control socks", lambda: by_socks("good.test", 80))
for target in ("127.0.0.1:7777", "[::1]:7777", "1.1.1.1:443", "1.1.1.1:80", "[fe80::1%25eth0]:80", "[fe80::1%eth0]:80", "[::127.0.0.1]:7777", "[::ffff:127.0.0.1]:7777", "2130706433:7777",
               "0x7f.1:7777", "0177.0.0.1:7777", "127.1:7777", "[64:ff9b::7f00:1]:7777", "93.184.216.34:80", "[2606:2800:220:1:248:1893:25c8:1946]:80", "good.test:7000", "good.test:0", "good.test:65536",
               "good.test:-1", "good.test:80x", "good.test", ":80", "", "good.test:80:80", "evil.test:80", "good.test@evil.test:80", "198.18.0.1:80", "[::]:80", "0:80"):
    outcome("connect " + target, lambda: by_connect(target))
for host, kind in (("127.0.0.1", 1), ("1.1.1.1", 1), ("::1", 4), ("2606:2800:220:1:248:1893:25c8:1946", 4), ("127.0.0.1", 3), ("::1", 3), ("0x7f.1", 3), ("evil.test", 3), ("", 3), ("good.test\0.evil.test", 3),
                   ("198.18.0.1", 1), ("good.test:80", 3), ("[::1]", 3)):
    outcome("socks %r %d" % (host, kind), lambda: by_socks(host, 7777 if "127" in host or "::1" in host else 80, kind))
outcome("socks bind", lambda: by_socks("good.test", 80, command=2))
outcome("socks udp associate", lambda: by_socks("good.test", 80, command=3))
outcome("socks, no method", lambda: by_socks("good.test", 80, methods=b"\x7f"))
"""
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(code))
        result.allowed("control", "control socks")
        bad = [label for label in result.tries if label not in ("control", "control socks", "end")]
        result.refused(*bad, how=(*NO_WAY, "http 405", "http 421", "http 404", "ok" if False else "http 502"))
        same(rig.canaries(), [], "services of the host that were reached")
        same({one.rsplit(":", 1)[1] for one in rig.attempts()}, {"80"}, "ports that were reached")
        same({one["host"] for one in rig.requests(2)}, {"good.test"}, "requests that arrived")
        same(len(rig.attempts()), 2, "connections that left: %s" % rig.attempts())


@test("NET-05 the proxy and its other protocols: SOCKS 4 is judged alike, TLS and junk are refused at once")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(r"""
            def say(data):
                with socket.create_connection(("127.0.0.1", 1023), 30) as s:
                    s.sendall(data)
                    return everything(s)
            def socks4(address, name=b""):
                with socket.create_connection(("127.0.0.1", 1023), 30) as s:
                    s.settimeout(30)
                    s.sendall(b"\4\1\0\x50" + bytes(address) + b"\0" + (name + b"\0" if name else b""))
                    said = s.recv(8, socket.MSG_WAITALL)
                    if said[:2] != b"\0\x5a": return b""
                    s.sendall(request("good.test"))
                    return everything(s)
            outcome("4a, good", lambda: socks4((0, 0, 0, 1), b"good.test"))
            outcome("4a, evil", lambda: socks4((0, 0, 0, 1), b"evil.test"))
            outcome("4, literal", lambda: socks4((93, 184, 216, 34)))
            outcome("4, loopback", lambda: socks4((127, 0, 0, 1)))
            outcome("TLS", lambda: say(b"\x16\3\1\2\0\1\0\1\xfc\3\3" + bytes(600)))
            outcome("zeroes", lambda: say(bytes(64)))
            """))
        refused(result, "4a, evil", "4, literal", "4, loopback", "TLS", "zeroes")
        among(result.tries["4a, good"], ("ok", *NO_WAY), "4a to whom a rule allows")
        same({one["host"] for one in rig.requests()} - {"good.test"}, set(), "requests")
        same(len(rig.attempts()), len(rig.requests()), "connections that left")
        rig.silence("evil.test")


@test("NET-20 ports: only those of the rule, 80 and 443 if none is named")
def _():
    code = r"""
        for port in (22, 25, 80, 443, 853, 5432, 6379, 7000, 8080, 8443, 0):
            talk(str(port), "good.test", port, b"EHLO x\r\n" if port not in (80, 443) else b"")
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(code))
        result.allowed("80")
        refused(result, *(str(port) for port in (22, 25, 443, 853, 5432, 6379, 7000, 8080, 8443)))  # 443: it was no TLS
        among(result.tries["0"], (*NO_WAY, "EADDRNOTAVAIL", "EINVAL"), "port 0")
        check(set(rig.attempts()) <= {"tcp %s:80" % net.SERVER4, "tcp %s:80" % net.SERVER6}, "what left: %s" % rig.attempts())
        rig.clear()
        result = run(place, ["--allow", "good.test:7000,22"], inside(code))
        result.allowed("7000", "22")
        refused(result, "25", "80", "443", "853", "5432", "6379", "8080", "8443")
        for word in ("good.test:0", "good.test:65536", "good.test:-1", "good.test:x", "good.test:", "good.test:80,", ":80", "", "good.test:1-5"):
            done = run(place, ["--allow", word], ["true"], starts=False)
            same(done.status, BAD_REQUEST, "--allow %r: %s" % (word, done.err))


@test("deny beats allow, the order of lines does not matter, and a deny line holds with --net open")
def _():
    code = r"""
        for name in ("good.test", "other.test", "x.w.wild.test", "evil.test"):
            talk(name, name, 80)
        talk("literal", "93.184.216.34", 80)
        talk("other literal", "1.1.1.1", 80)
        """
    with Place() as place:
        for flags in ([*BROAD, "--deny", "evil.test", "--deny", "other.test"], ["--deny", "evil.test", "--deny", "other.test", *BROAD, "--allow", "evil.test"]):
            rig.clear()
            result = run(place, flags, inside(code))
            result.allowed("good.test", "x.w.wild.test")
            refused(result, "other.test", "evil.test", "literal", "other literal")
            same({one["host"] for one in rig.requests(2)}, {"good.test", "x.w.wild.test"}, "requests")
            check(not [one for one in rig.queries() if "evil" in one or "other" in one], "a denied name was looked up: %s" % rig.queries())
        rig.clear()
        result = run(place, ["--net", "open", "--deny", "evil.test", "--deny", "1.1.1.0/24"], inside(code))
        result.allowed("good.test", "other.test", "literal")
        refused(result, "evil.test", "other literal")


@test("NET open: every public address by name and literal, and nothing of the host's or its network's")
def _():
    code = r"""
        talk("name", "good.test", 80); talk("port", "good.test", 7000, b"x\n"); talk("literal", "1.1.1.1", 80); talk("v6", "2606:4700:4700::1111", 80)
        outcome("https", lambda: tls("evil.test"))
        for host in ("10.9.0.5", "private.test", "127.0.0.1", "169.254.169.254", "192.168.1.1", "172.16.0.1", "100.64.1.1", "fd00::5", "fe80::1", "own.test", "45.33.32.10", "loop.test", "224.0.0.1", "198.18.0.1", "::ffff:10.9.0.5", "cgnat.test"):
            talk(host, host, 80)
        def udp():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(2); s.connect(("1.1.1.1", 7000)); s.send(b"x"); return s.recv(100)
        outcome("udp", udp)
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--net", "open"], inside(code))
        result.allowed("name", "port", "literal", "v6", "https")
        refused(result, *[label for label in result.tries if label not in ("name", "port", "literal", "v6", "https", "end")])
        same(rig.canaries(), [], "services of the host")
        public = ("tcp 93.184.216.34:", "tcp 2606:2800:", "tcp 1.1.1.1:80", "tcp 2606:4700:4700::1111:80")
        same([one for one in rig.attempts() if not one.startswith(public)], [], "what else left")
        plan = atoll(place, "run", "--plan", "--net", "open", "--", "true")
        check("open" in plan.out, "the plan does not tell: %s" % plan.out)


@test("NET-22 UDP, QUIC, UDP-Lite, SCTP and others are refused at once; NET-23 raw sockets and ping")
def _():
    code = r"""
        def udp(host, port, data=b"x"):
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(2); s.connect((host, port)); s.send(data); return s.recv(2000)
        address = socket.getaddrinfo("good.test", 443, socket.AF_INET)[0][4][0]
        address6 = socket.getaddrinfo("good.test", 443, socket.AF_INET6)[0][4][0]
        quic = b"\xc3\0\0\0\1" + bytes(1195)
        for host in (address, address6, "1.1.1.1", "8.8.8.8"):
            for port in (443, 123, 7000, 5353):
                outcome("udp %s %d" % (host, port), lambda: udp(host, port, quic))
        def unconnected():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(1)
                s.sendto(b"TOKEN", ("1.1.1.1", 7000))
                try: s.recv(10)
                except TimeoutError: return b""
        outcome("unconnected", unconnected)
        for label, family, kind, protocol in (("udplite", 2, 2, 136), ("sctp", 2, 1, 132), ("dccp", 2, 6, 33), ("icmp ping", 2, 2, 1), ("icmp6 ping", 10, 2, 58), ("raw", 2, 3, 255), ("raw icmp", 2, 3, 1),
                                             ("packet", 17, 3, 3), ("mptcp", 2, 1, 262)):
            def open_and_send():
                with socket.socket(family, kind, protocol) as s:
                    s.settimeout(2)
                    if label == "mptcp":
                        s.connect(("1.1.1.1", 80)); s.send(b"GET / HTTP/1.0\r\n\r\n"); return s.recv(100)
                    if family == 2: s.sendto(b"\x08\0\xf7\xff\0\0\0\0", ("1.1.1.1", 7000)); return s.recv(100) and None
                    return None
            outcome(label, open_and_send)
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(code))
        result.refused(how=(*NO_WAY, "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EAFNOSUPPORT", "ENOPROTOOPT"))
        rig.silence()
        if shutil.which("ping"):
            check(run(place, ["--allow", "good.test"], ["ping", "-c", "1", "-W", "2", "1.1.1.1"]).status != 0, "ping works")
            rig.silence()


@test("a protocol that nobody knows: short messages pass, whoever speaks first, and what follows is the same bytes")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test:22,7000"], inside(r"""
            def said(data):
                with socket.create_connection(("good.test", 7000), 20) as s:
                    s.settimeout(20); s.sendall(data)
                    got = s.recv(100)
                    return "ok" if got == data else repr(got)
            for data in (b"x", b"PING", b"\0", b"hello world", b"x\n", b"\x7fELF"):  # not "GET": that may become a request
                outcome(repr(data), lambda: said(data))
            def first():
                with socket.create_connection(("good.test", 22), 30) as s:
                    s.settimeout(20); return s.recv(4)
            outcome("server first", first)
            """))
        for label in result.tries:
            same(result.tries[label], "ok", label)


@test("a place whose last connection was passed on is dialled ahead; what is refused then sends no byte there")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test:7000"], inside(r"""
            def said(data, wait=0):
                with socket.create_connection(("good.test", 7000), 20) as s:
                    s.settimeout(20); time.sleep(wait); s.sendall(data)
                    got = s.recv(100)
                    return "ok" if got == data else repr(got)
            def foreign(wait):
                context = ssl.create_default_context()
                with socket.create_connection(("good.test", 7000), 20) as s:
                    time.sleep(wait)
                    with context.wrap_socket(s, server_hostname="foreign.test"): return "in"
            def other_host():
                with socket.create_connection(("good.test", 7000), 20) as s:
                    s.settimeout(20); time.sleep(0.1); s.sendall(b"GET / HTTP/1.1\r\nHost: foreign.test\r\n\r\n")
                    return everything(s)
            for n in range(3): outcome("first %d" % n, lambda: said(b"x\n"))
            outcome("TLS at once", lambda: foreign(0))
            for n in range(3): outcome("again %d" % n, lambda: said(b"x\n", 0.1))
            outcome("TLS later", lambda: foreign(0.1))
            outcome("back %d" % 0, lambda: said(b"x\n")); outcome("back %d" % 1, lambda: said(b"x\n", 0.1))
            outcome("another host", other_host)
            outcome("back %d" % 2, lambda: said(b"x\n", 0.1))
            """))
        for label, end in result.tries.items():
            check((end == "ok") == (label.split()[0] in ("first", "again", "back", "end")), "%s: %s" % (label, end))
        same(rig.bytes_at(7000), "x\n" * 9, "what came to the server")
        rig.silence("foreign.test")


@test("NET-28 network set-up inside: links, routes, rules, devices, tables")
def _():
    need("ip")
    code = r"""
        import subprocess, fcntl
        for words in ("link add d0 type dummy", "link add v0 type veth peer name v1", "link set lo down", "route add default via 127.0.0.1", "route del local 0.0.0.0/0 dev lo", "rule add fwmark 1 lookup 100",
                      "addr add 45.33.32.99/24 dev lo", "tuntap add dev t0 mode tun", "netns add x", "link set lo netns 1"):
            done = subprocess.run(["ip", *words.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            tell("ip " + words, "EPERM" if done.returncode else "ok")
        for words in (["nft", "flush", "ruleset"], ["nft", "add", "table", "inet", "x"], ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1s"]):
            try: done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            except OSError: done = 1
            tell(" ".join(words[:3]), "EPERM" if done else "ok")
        attempt("tun", lambda: os.open("/dev/net/tun", os.O_RDWR))
        def option(level, name, value):
            with socket.socket() as s: s.setsockopt(level, name, value)
        attempt("IP_TRANSPARENT", lambda: option(0, 19, 1))
        attempt("SO_MARK", lambda: option(1, 36, 1))
        attempt("SO_BINDTODEVICE", lambda: option(1, 25, b"host0\0"))
        attempt("port 1023", lambda: socket.socket().bind(("127.0.0.1", 1023)))
        attempt("port 53", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("9.9.9.9", 53)))
        print("devices", sorted(line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]))
        talk("still", "good.test", 80)
        talk("still not", "evil.test", 80)
        talk("nor", "1.1.1.1", 80)
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(code))
        result.refused(*[label for label in result.tries if label not in ("still", "still not", "nor", "end")], how=(*DENIED, "ENOENT", "ENODEV", "EADDRINUSE", "ENXIO"))
        check("devices ['lo']" in result.out, "devices: %s" % result.out)
        result.allowed("still")
        refused(result, "still not", "nor")
        same({one["host"] for one in rig.requests(1)}, {"good.test"}, "requests")


@test("NET-29 other network namespaces, and sockets of the host's")
def _():
    code = r"""
        for path in ("/proc/1/ns/net", "/proc/self/ns/net", "/run/netns", "/var/run/netns/x", "/proc/%s/ns/net" % os.getppid()):
            def enter():
                with open(path) as file: syscall(308, file.fileno(), 0x40000000)
            attempt("setns " + path, enter)
        attempt("unshare", lambda: syscall(272, 0x40000000))
        attempt("unshare user", lambda: syscall(272, 0x50000000))
        for fd in range(3, 260):
            try:
                link = os.readlink("/proc/self/fd/%d" % fd)
                if link.startswith("socket") or link.startswith("net"): tell("fd %d %s" % (fd, link), "there")
            except OSError: pass
        me = os.stat("/proc/self/ns/net").st_ino
        print("namespace", me)
        talk("nor", "1.1.1.1", 80)
        """
    with Place() as place:
        rig.clear()
        with socket.socket() as s:
            s.connect((net.SERVER4, 7001))
            fds = {9: s.fileno()}
            result = run(place, ["--allow", "good.test"], inside(code), fds=fds)
        refused_labels = [label for label in result.tries if label not in ("end", "nor")]
        result.refused(*refused_labels, how=(*GONE, "EINVAL"))
        refused(result, "nor")
        check("namespace %d" % os.stat("/proc/self/ns/net").st_ino not in result.out, "the sandbox is in the host's namespace")
        same(rig.bytes_at(7001), "", "bytes on the caller's socket")


@test("the identity of a run with a network is online; offline with a network is a contradiction")
def _():
    with Place() as place:
        done = run(place, ["--allow", "good.test", "--identity", "offline"], ["true"], starts=False)
        among(done.status, REFUSED, "offline with a network: %s" % done.err)
        check("identity" in done.err or "offline" in done.err, "says %s" % done.err)
        done = run(place, ["--net", "off", "--allow", "good.test"], ["true"], starts=False)
        same(done.status, BAD_REQUEST, "--net off with --allow: %s" % done.err)
        plan = atoll(place, "run", "--plan", "--json", "--allow", "good.test", "--", "true")
        clauses = {one["clause"]: one for one in json.loads(plan.out)["clauses"]}
        check("online" in json.dumps(clauses), "the plan does not say online: %s" % plan.out)
        run(place, ["--allow", "good.test", "--identity", "online"], inside('talk("x", "good.test", 80)')).allowed("x")


@test("what happened is told: refused on stderr, all of it by --json, with program, rule, bytes")
def _():
    code = r"""
        talk("good", "good.test", 80)
        talk("evil", "evil.test", 80)
        talk("literal", "1.1.1.1", 80)
        talk("port", "good.test", 7000)
        """
    with Place() as place:
        result = run(place, ["--allow", "good.test"], inside(code))
        for word in ("evil.test", "1.1.1.1", "7000"):
            check(word in result.err, "stderr does not tell of %s: %s" % (word, result.err))
        parts = result.err.split("atoll: ")
        talked = [part for part in parts if re.match(r"connections:\n  good\.test:80 +1 connection +35 B out +\d+ B in\n$", part)]
        denied = [part for part in parts if re.match(r"refused \d+ connections:\n", part)]
        check(len(talked) == 1, "whom it talked to: %s" % result.err)
        check(len(denied) == 1 and "good.test:80" not in denied[0] and "good.test:7000 (python3" in denied[0], "who was refused: %s" % result.err)
        flags = re.findall(r"(?:;|allow with) (--allow \S+)$", result.err, re.M)
        same(sorted(flags), ["--allow 1.1.1.1:80", "--allow evil.test", "--allow good.test:7000"], "the flags that would allow it")
        again = run(place, ["--allow", "good.test", *" ".join(flags).split()], inside(code))
        for name in ("good", "evil", "literal"):
            again.allowed(name)
        check("refused" not in again.err and "\n  good.test:7000" in again.err, "with these flags: %s" % again.err)
        result = run(place, ["--json", "--allow", "good.test"], inside(code))
        told = connections(result)
        by = {(one["name"] or one["address"], one["port"]): one for one in told}
        same(by[("good.test", 80)]["verdict"], "allowed", "good.test")
        check(by[("good.test", 80)]["sent"] > 20 and by[("good.test", 80)]["received"] > 20, "bytes: %s" % by[("good.test", 80)])
        check("good.test" in by[("good.test", 80)]["rule"], "the rule: %s" % by[("good.test", 80)])
        check(by[("good.test", 80)]["address"] in (net.SERVER4, net.SERVER6), "the address: %s" % by[("good.test", 80)])
        check(0 < by[("good.test", 80)]["duration_ns"] < 30e9 and abs(by[("good.test", 80)]["start_ns"] / 1e9 - time.time()) < 60, "when, and how long: %s" % by[("good.test", 80)])
        check("GET /" in by[("good.test", 80)]["request"], "the request: %s" % by[("good.test", 80)])
        check(by[("good.test", 80)]["program"].startswith("python3"), "the program: %s" % by[("good.test", 80)])
        same(by[("good.test", 7000)]["verdict"], "refused", "the port")
        check("evil.test" in json.dumps(told), "the name that was looked up is not told: %s" % told)
        check("1.1.1.1" in result.err, "the literal is not told: %s" % result.err)


@test("limits: connections at the same time, total bytes, bytes and requests a second; by run and by rule, under parallel use")
def _():
    many = r"""
        import threading
        count, size = int(arg[0]), int(arg[1])
        got, lock, began = [0, 0], threading.Lock(), time.monotonic()
        def one():
            try:
                with socket.create_connection(("good.test", 7100), 10) as s:
                    s.settimeout(20); s.sendall(b"%d\n" % size); n = 0
                    while True:
                        data = s.recv(65536)
                        if not data: break
                        n += len(data)
                        with lock: got[0] += len(data)
                    with lock: got[1] += n == size
            except OSError: pass
        all = [threading.Thread(target=one) for _ in range(count)]
        [t.start() for t in all]; [t.join() for t in all]
        print("bytes %d whole %d seconds %.2f" % (got[0], got[1], time.monotonic() - began))
        """

    def numbers(result):
        match = re.search(r"bytes (\d+) whole (\d+) seconds ([\d.]+)", result.out)
        check(match, "no numbers: %s" % result.out)
        return int(match[1]), int(match[2]), float(match[3])
    with Place() as place:
        allow = ["--allow", "good.test:7100"]
        total, whole, seconds = numbers(run(place, allow, inside(many, 20, 1 << 20)))
        same((total, whole), (20 << 20, 20), "without a limit")
        total, whole, seconds = numbers(run(place, [*allow, "--net-bytes", "3M"], inside(many, 20, 1 << 20)))
        check(total <= (3 << 20) + 65536, "%d bytes in all, of 3 MiB" % total)
        check(total >= 1 << 18, "only %d bytes came" % total)  # what is on the way when the rest is cut is lost
        total, whole, seconds = numbers(run(place, [*allow, "--rate", "2M"], inside(many, 8, 1 << 19)))
        same(whole, 8, "whole transfers under a rate")
        check(1.0 <= seconds <= 4.5, "4 MiB at 2 MiB/s took %.2f s" % seconds)
        by_rule = job_file(place, {"network": {"allow": [{"host": "good.test", "ports": [7100], "bytes": "2M"}]}})
        total, whole, seconds = numbers(run(place, ["-f", by_rule], inside(many, 10, 1 << 20)))
        check(total <= (2 << 20) + 65536, "%d bytes by a rule of 2 MiB" % total)
        hold = r"""
            held, refused = [], 0
            for n in range(12):
                try:
                    s = socket.create_connection(("good.test", 7000), 30); s.settimeout(30)
                    s.sendall(b"x\n")
                    if s.recv(2): held.append(s)
                    else: refused += 1
                except OSError: refused += 1
            print("held", len(held), "refused", refused)
            held.pop().close(); time.sleep(0.3)
            s = socket.create_connection(("good.test", 7000), 30); s.settimeout(30); s.sendall(b"x\n")
            outcome("one more", lambda: s.recv(2))
            """
        result = run(place, ["--allow", "good.test:7000", "--connections", "5"], inside(hold))
        check("held 5 refused 7" in result.out, "connections: %s" % result.out)
        result.allowed("one more")
        paced = r"""
            began = time.monotonic()
            for n in range(9): reach("good.test", 80)
            print("seconds %.2f" % (time.monotonic() - began))
            """
        result = run(place, ["--allow", "good.test", "--requests", "4"], inside(paced))
        took = float(re.search(r"seconds ([\d.]+)", result.out)[1])
        check(0.9 <= took <= 4, "9 requests at 4 a second took %.2f s" % took)


@test("listen: a port of the sandbox on the host's loopback, and there alone; nothing by default; two runs at once")
def _():
    serve = r"""
        import threading
        server = socket.create_server(("0.0.0.0", 8080)); put("up-" + arg[0])
        def loop():
            while True:
                c, _ = server.accept()
                try:
                    c.recv(1000); c.sendall(b"inside " + arg[0].encode()); c.close()
                except OSError: pass
        threading.Thread(target=loop, daemon=True).start()
        end = time.monotonic() + 20
        while not os.path.exists("stop-" + arg[0]) and time.monotonic() < end: time.sleep(0.02)
        """

    def ask(host, port):
        with socket.create_connection((host, port), 30) as s:
            s.settimeout(30)
            s.sendall(b"hello")
            return s.recv(100).decode()

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
    with Place() as place:
        place.expect("up-*", "stop-*")
        before = listening()
        one = start(place, ["--listen", "8080"], inside(serve, "a"))
        two = start(place, ["--listen", "8080"], inside(serve, "b"))
        fixed = start(place, ["--listen", "8080=18081"], inside(serve, "c"))
        none = start(place, ["--allow", "good.test"], inside(serve, "d"))
        for name in "abcd":
            wait_file(place, "up-" + name)
        a, b = published(one), published(two)
        same(ask("127.0.0.1", a), "inside a", "the first")
        same(ask("127.0.0.1", b), "inside b", "the second")
        same(ask("127.0.0.1", 18081), "inside c", "the fixed one")
        for host in (net.HOST4, "127.0.0.2", "::1", net.HOST6):
            try:
                ask(host, a)
                check(host == "::1", "%s reaches it" % host)
            except OSError:
                pass
        fresh = listening() - before
        check(all(name.startswith(("127.0.0.1:", "::1:")) for name in fresh), "listening: %s" % fresh)
        same({name.split(":")[-1] for name in fresh}, {str(a), str(b), "18081"}, "ports that the host listens at")
        # Nobody there, and the port taken.
        for name in "abcd":
            write(place.ws + "/stop-" + name)
        for running in (one, two, fixed, none):
            running.wait()
        same(listening() - before, set(), "still listening")
        with socket.create_server(("127.0.0.1", 18082)):
            done = run(place, ["--listen", "8080=18082"], ["true"], starts=False)
            among(done.status, (HOST_CANNOT, *REFUSED), "a host port that is taken: %s" % done.err)
            check("18082" in done.err, "says %s" % done.err)
        running = start(place, ["--listen", "9"], ["sleep", "5"])
        port = published(running)
        try:
            same(ask("127.0.0.1", port), "", "nobody listens inside")
        except ConnectionError:
            pass
        running.kill(signal.SIGTERM)


def listening():
    found = set()
    for kind in ("tcp", "tcp6"):
        for line in read("/proc/net/" + kind).decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, port = fields[1].split(":")
                if kind == "tcp":
                    host = ".".join(str(byte) for byte in bytes.fromhex(address)[::-1])
                else:
                    host = socket.inet_ntop(socket.AF_INET6, b"".join(bytes.fromhex(address[i:i + 8])[::-1] for i in range(0, 32, 8)))
                found.add("%s:%d" % (host, int(port, 16)))
    return found


@test("upstream: through a proxy of the host's, names and all; what is refused never gets there")
def _():
    code = r"""
        talk("http", "good.test", 80)
        outcome("https", lambda: tls("good.test"))
        talk("evil", "evil.test", 80)
        talk("literal", "1.1.1.1", 80)
        talk("refused by the proxy", "refused.test", 80)
        """
    with Place() as place:
        for flags, env in ((["--upstream", "http://%s:3128" % net.SERVER4], {}), (["--upstream", "env"], {"HTTPS_PROXY": "http://proxy.test:3128"})):
            rig.clear()
            result = run(place, [*flags, "--allow", "good.test", "--allow", "refused.test"], inside(code), env=env)
            result.allowed("http", "https")
            result.refused("evil", "literal", how=NO_WAY)
            result.refused("refused by the proxy", how=(*NO_WAY, "http 502", "http 503"))
            heads = [one["data"].split("\r\n")[0] for one in rig.arrived("proxy")]
            same(sorted(set(heads)), ["CONNECT good.test:443 HTTP/1.1", "CONNECT good.test:80 HTTP/1.1", "CONNECT refused.test:80 HTTP/1.1"], "what the proxy was asked")
            # What is allowed is looked up here, too: a name that is private here is refused (test_n_egress.py).
            check(not [one for one in rig.queries() if "evil.test" in one], "names were looked up here: %s" % rig.queries())
            same({one.rsplit(":", 1)[1] for one in rig.attempts()}, {"3128"}, "what left the host directly")
        done = run(place, ["--upstream", "socks://x:1", "--allow", "good.test"], ["true"], starts=False)
        same(done.status, BAD_REQUEST, "a proxy of another kind: %s" % done.err)


@test("egress killed with -9: the network is cut, the command goes on, nothing opens, and it is told")
def _():
    code = r"""
        s = socket.create_connection(("good.test", 7000), 30); s.settimeout(30); s.sendall(b"before\n"); tell("before", s.recv(7).decode().strip())
        put("up")
        end = time.monotonic() + 15
        while not os.path.exists("killed") and time.monotonic() < end: time.sleep(0.02)
        outcome("open connection", lambda: s.recv(10))
        talk("name", "good.test", 80)
        talk("synthetic", "198.18.0.1", 80)
        talk("literal", "1.1.1.1", 80)
        talk("loopback", "127.0.0.1", 7777)
        outcome("dns", lambda: dns("good.test", wait=1))
        outcome("udp", lambda: dns_raw(b"x" * 40, server="8.8.8.8", wait=1))
        def own():
            server = socket.create_server(("127.0.0.1", 0))
            c = socket.create_connection(server.getsockname()); server.accept()[0].sendall(b"ok"); return c.recv(2)
        outcome("own loopback", own)
        """
    with Place() as place:
        place.expect("up", "killed")
        running = start(place, ["--json", "--allow", "good.test:80,7000"], inside(code))
        wait_file(place, "up")
        rig.clear()
        os.kill(egress_of(running), signal.SIGKILL)
        write(place.ws + "/killed")
        result = running.wait(40)
        same(result.status, 0, "the command's status")
        same(result.tries["before"], "before", "before")
        result.refused("open connection", "name", "synthetic", "literal", "loopback", how=(*NO_WAY, "gaierror -3", "timeout"))
        result.refused("dns", "udp", how=(*NO_WAY, "timeout"))
        same((result.tries["own loopback"], result.tries["end"]), ("ok", "ok"), "the command goes on")
        check([one for one in rig.attempts() if one.startswith(("tcp 1.1", "udp"))] == [] and not rig.requests(), "something left: %s" % rig.attempts())
        check("network's process ended (signal 9)" in result.err, "nobody tells: %s" % result.err)


@test("egress holds nothing of the host's: its privileges, files and sockets")
def _():
    with Place() as place:
        place.expect("up", "stop")
        running = start(place, ["--allow", "good.test:7000"], inside(r"""
            s = socket.create_connection(("good.test", 7000), 30); s.sendall(b"x\n"); s.recv(2); put("up")
            end = time.monotonic() + 15
            while not os.path.exists("stop") and time.monotonic() < end: time.sleep(0.02)
            """))
        wait_file(place, "up")
        pid = egress_of(running)
        status = dict(line.split(":", 1) for line in read("/proc/%d/status" % pid).decode().splitlines())
        same((status["CapEff"].strip(), status["CapPrm"].strip()), ("0" * 16, "0" * 16), "capabilities of egress")
        same((status["NoNewPrivs"].strip(), status["Seccomp"].strip()), ("1", "2"), "no new privileges, and a filter")
        if IS_ROOT:
            check("0" not in status["Uid"].split(), "egress runs as root: %s" % status["Uid"])
        write(place.ws + "/stop")
        running.wait()
        check(until(lambda: not os.path.exists("/proc/%d" % pid)), "egress outlives its run")


@test("nothing is started and nothing listens where nothing is used")
def _():
    with Place() as place:
        place.expect("up", "stop")
        before = listening()
        running = start(place, ["--allow", "good.test"], inside_sh("touch up; while [ ! -e stop ]; do sleep 0.05; done"))
        wait_file(place, "up")
        same([name for name in descendants_of(running.pid).values() if name.startswith("atoll-egress")], [], "egress without use")
        same(listening() - before, set(), "listening sockets")
        write(place.ws + "/stop")
        running.wait()


@test("the variables: a proxy inside by default, taken away by --no-proxy, and the caller's never arrive")
def _():
    names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "NO_PROXY", "no_proxy"]
    env = {name: "http://user:hunter2@93.184.216.34:3128" for name in names}
    with Place() as place:
        result = run(place, ["--allow", "good.test"], ["env"], env=env)
        check("http_proxy=http://127.0.0.1:1023" in result.out.lower(), "the variables: %s" % result.out)
        check("hunter2" not in result.out, "the caller's variables arrive")
        result = run(place, ["--allow", "good.test", "--no-proxy"], ["env"], env=env)
        check("_proxy" not in result.out.lower().replace("no_proxy", ""), "--no-proxy: %s" % result.out)
        result = run(place, [], ["env"], env=env)
        check("_proxy" not in result.out.lower(), "without a network: %s" % result.out)


@test("the plan says what the network is, rule by rule, and by which mechanism")
def _():
    with Place() as place:
        flags = ["--allow", "*.wild.test:443", "--deny", "x.wild.test", "--listen", "8080", "--rate", "1M"]
        plan = atoll(place, "run", "--plan", *flags, "--", "true")
        same(plan.status, 0, "the plan: %s" % plan.err)
        for word in ("*.wild.test", "x.wild.test", "8080"):
            check(word in plan.out, "the plan does not name %s: %s" % (word, plan.out))
        told = json.loads(atoll(place, "run", "--plan", "--json", *flags, "--", "true").out)
        network = [one for one in told["clauses"] if one["clause"].startswith("network")]
        check(network and all(one["strength"] in ("enforced", "note") for one in network), "clauses: %s" % network)


main()
