#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
A network, from inside: what a program can do to the way out, and to those who share its sandbox

Whom egress lets through is tested elsewhere. Here nothing of the outside is meant to be reached: the addresses are of
blocks that belong to nobody, and what is asked is who gets a packet inside, and how a refusal looks.
"""

import glob
import os
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from terminal import Terminal

NETWORK = {"allow": ["good.test", "192.0.2.7:443", "[2001:db8::7]:443"]}

# Inside: connect by every road, and say how it ended and whether it took long.
ROADS = r"""
    import socket as s
    def family(host):
        return s.AF_INET6 if ":" in host else s.AF_INET
    def timed(label, action):
        began = time.monotonic()
        value = attempt(label, action)
        if time.monotonic() - began > 2:
            tell(label, "slow: %.1f s" % (time.monotonic() - began))
        return value
    def dial(host, port, kind=s.SOCK_STREAM):
        c = s.socket(family(host), kind); c.connect((host, port)); return c
    """


def roads(code, *args):
    return inside_py(textwrap.dedent(ROADS) + textwrap.dedent(code), *args)


def flags(place, network=None, name="job.yaml"):
    return ["-f", job_file(place, {"network": network or NETWORK}, name)]


@test("NET-01 an address that no rule allows is refused at once and said, by TCP and UDP")
def _():
    hosts = ("1.1.1.1", "8.8.8.8", "10.0.0.1", "192.168.1.1", "172.17.0.1", "169.254.169.254", "100.100.100.200", "192.0.2.8",
             "224.0.0.1", "255.255.255.255", "198.17.255.255", "198.20.0.0", "2606:4700:4700::1111", "fd00:ec2::254", "2001:db8::8",
             "::ffff:1.1.1.1", "::ffff:10.0.0.1", "64:ff9b::101:101", "64:ff9b:1:a702::1", "ff02::1")
    with Place() as place:
        result = run(place, flags(place), roads(r"""
            for host in arg:
                timed("tcp " + host, lambda: dial(host, 443))
                timed("udp " + host, lambda: dial(host, 443, s.SOCK_DGRAM))
                c = s.socket(family(host)); c.setblocking(False)
                timed("quiet " + host, lambda: c.connect((host, 443)))
            """, *hosts))
        result.refused(how=("ECONNREFUSED",))
        check("connect 1.1.1.1:443: not allowed (network)" in result.err, "it does not say so: %s" % result.err)
        # A mapped address is the address that it maps.
        check("::ffff:" not in result.err, result.err)


@test("NET-01 what a rule allows, or a name stands for, arrives at egress and nowhere else")
def _():
    with Place() as place, Sink(place) as sink:
        result = run(place, flags(place), roads(r"""
            timed("allowed", lambda: dial("192.0.2.7", 443))
            timed("allowed, IPv6", lambda: dial("2001:db8::7", 443))
            timed("mapped", lambda: dial("::ffff:192.0.2.7", 443))
            timed("a name", lambda: dial("198.18.0.9", 4433))
            timed("a name, IPv6", lambda: dial("64:ff9b:1:a701::c612:9", 22))
            timed("a query", lambda: dial("9.9.9.9", 53))
            timed("a query, UDP", lambda: dial("9.9.9.9", 53, s.SOCK_DGRAM))
            timed("the proxy", lambda: dial("127.0.0.1", 1023))
            timed("other port", lambda: dial("192.0.2.7", 80))
            for port in map(int, arg):
                timed("host %d" % port, lambda: dial("127.0.0.1", port))
            """, sink.tcp4))
        result.allowed("allowed", "allowed, IPv6", "mapped", "a name", "a name, IPv6", "a query", "a query, UDP", "the proxy")
        result.refused("other port", "host %d" % sink.tcp4, how=("ECONNREFUSED",))
        same(sink.log, [], "what arrived at the host")


@test("NET-01 a thousand connections from many threads do not wait")
def _():
    with Place() as place:
        result = run(place, flags(place) + ["--timeout", "60s"], roads(r"""
            import threading
            kept, wrong = [], []
            def work(host):
                for _ in range(125):
                    try:
                        kept.append(dial(host, 443))
                    except ConnectionResetError as error:
                        kept.append(error)  # by egress, faster than the answer came
                    except OSError as error:
                        wrong.append(error)
            hosts = ["198.18.1.%d" % i for i in range(8)]
            threads = [threading.Thread(target=work, args=(host,)) for host in hosts]
            def all():
                for t in threads: t.start()
                for t in threads: t.join()
                assert not wrong, wrong[:3]
                assert len(kept) == 1000
            timed("all", all)
            """))
        result.allowed("all")


@test("NET-01 with a terminal, too")
def _():
    with Place() as place:
        argv = [*ATOLL_RUN, *flags(place), "--", PYTHON, "-I", "-c",
                "import socket as s, os; c = s.create_connection(('198.18.0.9', 22), 30); print('conn' + 'ected', os.isatty(0));"
                "d = s.socket(); print('said', d.connect_ex(('1.1.1.1', 443)))"]
        with Terminal(place, argv) as terminal:
            terminal.expect("connected True")
            terminal.expect("said %d" % errno.ECONNREFUSED)
            same(terminal.process.wait(10), 0, "status")


@test("NET-22 datagrams reach nobody, and a connected socket says so")
def _():
    with Place() as place, Sink(place) as sink:
        result = run(place, flags(place), roads(r"""
            for host in ("192.0.2.7", "2001:db8::7", "198.18.0.9", "127.0.0.1"):
                c = dial(host, 443, s.SOCK_DGRAM)
                def twice():
                    for _ in range(3): c.send(b"quic")
                timed(host, twice)
            c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.settimeout(0.3)
            c.sendto(b"x", ("192.0.2.7", 443)); c.sendto(b"x", ("127.0.0.1", int(arg[0])))
            try: c.recv(10); tell("an answer", "ok")
            except OSError: tell("an answer", "ECONNREFUSED")
            """, sink.udp4))
        result.refused(how=("ECONNREFUSED",))
        same(sink.log, [], "what arrived at the host")


@test("NET-23 no raw, packet or other socket, no ping")
def _():
    with Place() as place:
        result = run(place, flags(place), roads(r"""
            kinds = {"raw tcp": (2, 3, 6), "raw icmp": (2, 3, 1), "raw icmp6": (10, 3, 58), "raw any": (2, 3, 255), "ping": (2, 2, 1),
                     "ping6": (10, 2, 58), "packet": (17, 3, 0x300), "packet datagram": (17, 2, 0x300), "sctp": (2, 1, 132), "sctp6": (10, 5, 132),
                     "mptcp": (2, 1, 262), "udplite": (2, 2, 136), "dccp": (2, 6, 33), "l2tp": (2, 2, 115), "vsock": (40, 1, 0), "xdp": (44, 3, 0),
                     "smc": (43, 1, 0), "tipc": (30, 1, 0), "netfilter": (16, 3, 12), "xfrm": (16, 3, 6), "diag": (16, 3, 4), "audit": (16, 3, 9)}
            for name, how in kinds.items():
                attempt(name, lambda: s.socket(*how))
            """))
        result.refused(how=("EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT"))


@test("NET-28 the way out cannot be changed from inside")
def _():
    with Place() as place:
        result = run(place, flags(place), roads(r"""
            import fcntl
            def option(level, name, value, family=s.AF_INET, kind=s.SOCK_STREAM):
                c = s.socket(family, kind); c.setsockopt(level, name, value)
            attempt("IP_TRANSPARENT", lambda: option(s.SOL_IP, 19, 1))
            attempt("IPV6_TRANSPARENT", lambda: option(41, 75, 1, s.AF_INET6))
            attempt("SO_MARK", lambda: option(s.SOL_SOCKET, 36, 1))
            attempt("TCP_REPAIR", lambda: option(s.SOL_TCP, 19, 1))
            attempt("SO_BINDTODEVICE", lambda: option(s.SOL_SOCKET, 25, b"eth0"))
            def netlink(kind, flags, body):
                c = s.socket(16, 3, 0); c.settimeout(2)
                c.send(struct.pack("IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
                got = c.recv(4096)
                error = struct.unpack_from("i", got, 16)[0]
                if error: raise OSError(-error, "")
            lo = struct.pack("I", 1)
            attempt("link down", lambda: netlink(16, 0, struct.pack("BxHiII", 0, 0, 1, 0, 1)))
            attempt("route away", lambda: netlink(25, 0, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 255, 4, 254, 2, 0)))
            attempt("route more", lambda: netlink(24, 0x400, struct.pack("BBBBBBBBI", 2, 32, 0, 0, 254, 4, 253, 1, 0) + struct.pack("HH4s", 8, 1, s.inet_aton("1.1.1.1")) + struct.pack("HH4s", 8, 4, lo)))
            attempt("address", lambda: netlink(20, 0x400, struct.pack("BBBBI", 2, 32, 0, 0, 1) + struct.pack("HH4s", 8, 2, s.inet_aton("1.1.1.1"))))
            c = s.socket()
            attempt("ioctl down", lambda: fcntl.ioctl(c, 0x8914, struct.pack("16sH14x", b"lo", 0)))
            attempt("sysctl", lambda: put("/proc/sys/net/ipv4/ip_unprivileged_port_start", b"0", os.O_WRONLY))
            attempt("sysctl6", lambda: put("/proc/sys/net/ipv6/conf/lo/disable_ipv6", b"1", os.O_WRONLY))
            attempt("unshare", lambda: syscall(272, 0x40000000))
            attempt("unshare user", lambda: syscall(272, 0x50000000))
            def enter(path):
                fd = os.open(path, os.O_RDONLY); syscall(308, fd, 0)
            attempt("setns own", lambda: enter("/proc/self/ns/net"))
            attempt("setns first", lambda: enter("/proc/1/ns/net"))
            attempt("tun", lambda: os.open("/dev/net/tun", os.O_RDWR))
            """))
        result.refused(how=GONE + ("ENODEV", "ENOPROTOOPT", "EINVAL"))


@test("NET-28 nobody inside takes egress's places, shares them, or stands at an address of the outside")
def _():
    with Place() as place:
        result = run(place, flags(place), roads(r"""
            def take(host, port, kind, reuse):
                c = s.socket(family(host), kind)
                if reuse:
                    c.setsockopt(s.SOL_SOCKET, s.SO_REUSEPORT, 1); c.setsockopt(s.SOL_SOCKET, s.SO_REUSEADDR, 1)
                c.bind((host, port))
            for host in ("127.0.0.1", "0.0.0.0", "::", "::1", "192.0.2.7", "198.18.0.9"):
                for reuse in (False, True):
                    attempt("listener %s %s" % (host, reuse), lambda: take(host, 1023, s.SOCK_STREAM, reuse))
                    attempt("dns %s %s" % (host, reuse), lambda: take(host, 53, s.SOCK_DGRAM, reuse))
                    attempt("dns by TCP %s %s" % (host, reuse), lambda: take(host, 53, s.SOCK_STREAM, reuse))
            server = s.socket(); server.bind(("198.18.0.9", 8443)); server.listen(); server.setblocking(False)
            c = dial("198.18.0.9", 8443)
            attempt("in between", lambda: server.accept())
            any = s.create_server(("", 8444)); any.setblocking(False)
            c = dial("198.18.0.9", 8444)
            attempt("in between, any", lambda: any.accept())
            """))
        result.refused(how=("EACCES", "EADDRINUSE", "EAGAIN"))


@test("NET-29 the sockets of the network are in no process inside")
def _():
    with Place() as place:
        result = run(place, flags(place), roads(r"""
            for n in range(3, 1024):
                try: os.fstat(n); tell("descriptor %d" % n, "ok")
                except OSError: pass
            attempt("look at the first", lambda: os.listdir("/proc/1/fd"))
            first = syscall(434, 1, 0)
            for n in range(0, 40):
                attempt("take %d" % n, lambda: syscall(438, first, n, 0))
            """))
        result.refused(how=GONE + ("EBADF",))


@test("NET-29 another run's network is not this one's")
def _():
    with Place() as place:
        place.expect("up", "go")
        one = start(place, flags(place), roads(r"""
            server = s.create_server(("0.0.0.0", 8080)); server.setblocking(False)
            put("up")
            while not os.path.exists("go"): time.sleep(0.01)
            attempt("visited", lambda: server.accept())
            """))
        wait_file(place, "up")
        two = run(place, flags(place, name="two.yaml"), roads(r"""
            attempt("visit", lambda: dial("127.0.0.1", 8080))
            """))
        write(place.ws + "/go")
        two.refused(how=("ECONNREFUSED",))
        one.wait().refused(how=("EAGAIN",))


@test("NET-13 an empty list, and 'off', allow nothing")
def _():
    with Place() as place:
        code = r"""
            for host in ("1.1.1.1", "192.0.2.7", "198.18.0.9", "2001:db8::7", "64:ff9b:1:a701::1"):
                timed(host, lambda: dial(host, 443))
            """
        for network in ("off", {"mode": "off"}, {"mode": "rules", "allow": []}):
            result = run(place, flags(place, network), roads(code))
            for host in ("1.1.1.1", "192.0.2.7", "2001:db8::7"):
                result.refused(host, how=("ENETUNREACH", "ECONNREFUSED"))


@test("NET-01 a network open to all public addresses refuses the others at once")
def _():
    with Place() as place:
        result = run(place, flags(place, {"mode": "open", "deny": ["1.0.0.0/8"]}), roads(r"""
            for host in ("10.0.0.1", "169.254.169.254", "192.168.0.1", "fd00::1", "fe80::1", "100.64.0.1", "1.1.1.1", "::ffff:10.0.0.1"):
                timed(host, lambda: dial(host, 443))
            """))
        result.refused(how=("ECONNREFUSED", "EINVAL"))  # a link-local address wants an interface


@test("NET-37 the run's authority is trusted inside, is not the host's, and cannot be changed")
def _():
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    if not os.path.exists(bundle):
        skip("no %s on this host" % bundle)
    stores = sorted({os.path.realpath(one) for one in glob.glob("/usr/lib/jvm/*/lib/security/cacerts") if os.path.exists(one)})
    with Place() as place:
        before, stores_before = read(bundle), [read(one) for one in stores]
        result = run(place, flags(place, {"allow": [{"host": "good.test", "paths": ["/**"]}]}), inside_py(r"""
            own, all, usual = (open(p).read() for p in ("/run/atoll/ca.pem", "/run/atoll/ca-bundle.pem", "%s"))
            host = int(arg[0])
            tell("one certificate", "ok" if own.count("BEGIN CERTIFICATE") == 1 else own)
            tell("no key", "ok" if "PRIVATE" not in own + all else "a key")
            tell("the host's and it", "ok" if all.count("BEGIN CERTIFICATE") == host + 1 and own.strip() in all else "%%d" %% all.count("BEGIN"))
            tell("at the usual place", "ok" if usual == all else "another")
            stores = arg[1:] and ["/run/atoll/cacerts", *arg[1:]]
            tell("for Java only where there is one", "ok" if os.path.exists("/run/atoll/cacerts") == bool(stores) else "not so")
            tell("the same for Java", "ok" if len({open(p, "rb").read() for p in stores}) == bool(stores) else "not")
            for path in ("/run/atoll/ca.pem", "/run/atoll/ca-bundle.pem", "%s", *stores):
                attempt("write " + path, lambda: put(path, flags=os.O_WRONLY))
                attempt("remove " + path, lambda: os.unlink(path))
                attempt("replace " + path, lambda: os.rename("f", path))
            """ % (bundle, bundle), before.count(b"BEGIN CERTIFICATE"), *stores))
        result.allowed("one certificate", "no key", "the host's and it", "at the usual place", "for Java only where there is one", "the same for Java")
        result.refused(*[name for name in result.tries if name.split()[0] in ("write", "remove", "replace")],
                       how=GONE + ("EBUSY",))
        same(read(bundle), before, "the host's file")
        same([read(one) for one in stores], stores_before, "the host's key stores")


main()
