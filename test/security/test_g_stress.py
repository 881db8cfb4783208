# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
# check: timeout 480
# check: alone
"""
Family G: much of it. Thousands of connections, slow ones, large bodies, resets: egress's memory stays bounded and nothing hangs

Once is enough: as an ordinary user, and not under sanitizers, whose memory says nothing.
"""
import os
import resource
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import inside  # noqa: E402

if (IS_ROOT and not os.environ.get("ATOLL_STRESS")) or "ASAN_OPTIONS" in os.environ:
    print("skip all of it: once is enough, as an ordinary user without sanitizers\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
rig = net.enter()
MEMORY_KB = 100 * 1000
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

WAIT = r"""
import threading, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
def step(name):
    put("at-" + name)
    end = time.monotonic() + 30
    while not os.path.exists("on-" + name) and time.monotonic() < end: time.sleep(0.02)
def served():
    "The others still are, and soon."
    began = time.monotonic()
    talk("served", "good.test", 80)
    took = time.monotonic() - began
    tell("served in", "time" if took < 2 else "%.1f s" % took)
"""


class Watched:
    """A run, and its egress seen from outside, at the steps where the command waits."""

    def __init__(self, place, flags, command, **options):
        self.place = place
        place.expect("at-*", "on-*")
        self.running = start(place, flags, command, **options)
        self.pid = None

    def at(self, name, seconds=40):
        wait_file(self.place, "at-" + name, seconds)
        self.pid = self.pid or self.find()
        return self

    def on(self, name):
        write(self.place.ws + "/on-" + name)

    def find(self):
        import terminal
        for pid, name in terminal.inside(self.running.pid).items():
            if name.startswith("atoll-egress"):
                return pid
        raise Failed("no atoll-egress beneath %d: %s" % (self.running.pid, terminal.inside(self.running.pid)))

    def kb(self, what="VmHWM"):
        return int(re.search(r"%s:\s+(\d+)" % what, read("/proc/%d/status" % self.pid).decode())[1])

    @staticmethod
    def outside():
        """Connections of the host's own to the outside: egress hides its descriptors, also from its user."""
        found = 0
        for kind in ("tcp", "tcp6"):
            for line in read("/proc/net/" + kind).decode().splitlines()[1:]:
                fields = line.split()
                found += fields[3] not in ("0A", "06", "07") and int(fields[2].split(":")[1], 16) in (80, 443, *net.SINK)  # listening, over
        return found

    def bounded(self, what):
        check(self.kb() < MEMORY_KB, "egress has had %d kB with %s" % (self.kb(), what))


@test("10,000 connections, 5,000 of them at once: memory bounded, all served, none left")
def _():
    if hard < 20000:
        skip("RLIMIT_NOFILE of 20000, for two ends of each connection")
    rig.ask("sniff", on=False)
    code = WAIT + r"""
served()
step("first")
target = socket.getaddrinfo("good.test", 7000, socket.AF_INET)[0][4]
held, bad = [], 0
def open_one():
    s = socket.socket(); s.settimeout(20); s.connect(target); s.send(b"x\n")
    return s
pending = []
for n in range(5000):
    pending.append(open_one())
    if len(pending) == 250:
        for s in pending:
            try:
                if s.recv(2) == b"x\n": held.append(s)
                else: bad += 1
            except OSError: bad += 1
        pending = []
tell("held", "%d %d" % (len(held), bad))
step("held")
served()
for s in held: s.close()
held = []
good = 0
for n in range(100):
    batch = [open_one() for _ in range(50)]
    for s in batch:
        try: good += s.recv(2) == b"x\n"
        except OSError: pass
        s.close()
tell("one after another", str(good))
served()
step("end")
"""
    with Place() as place:
        run_ = Watched(place, ["--allow", "good.test:80,7000", "--open-files", "16384"], inside(code))
        run_.at("first")
        before = run_.outside()
        run_.on("first")
        run_.at("held", 60)
        at_once, live = run_.outside(), rig.ask("live")
        rss = run_.kb("VmRSS")
        run_.on("held")
        run_.at("end", 60)
        left = until(lambda: run_.outside() <= before + 8, 5)
        check(left, "egress still has %d connections outside, %d at first" % (run_.outside(), before))
        run_.bounded("5,000 connections at once")
        run_.on("end")
        result = run_.running.wait(60)
        same(result.tries["held"], "5000 0", "held at once, lost")
        same(result.tries["one after another"], "5000", "one after another")
        check(live >= 5000 and at_once >= 5000, "at the server %d, from the host %d" % (live, at_once))
        check(rss < MEMORY_KB, "egress has %d kB with 5,000 idle connections" % rss)
        same((result.tries["served"], result.tries["served in"]), ("ok", "time"), "others meanwhile")


@test("slow ones both ways: they hold up nobody, and cost little")
def _():
    rig.ask("sniff", on=False)
    code = WAIT + r"""
import select
slow = []
for n in range(300):  # a request's head, a TLS hello, a name for the proxy: byte by byte
    kind = n % 4
    s = socket.create_connection(("good.test", (80, 443)[kind % 2]) if kind < 2 else ("127.0.0.1", 1023) if kind == 2 else ("9.9.9.9", 53), 10)
    slow.append((s, (b"GET / HTTP/1.1\r\nX: " + b"a" * 2000, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"a" * 2000, b"CONNECT good.test:443 HTTP/1.1\r\nX: " + b"a" * 2000, b"\x03\xff" + b"a" * 1000)[kind]))
drips = [socket.create_connection(("good.test", 7004), 10) for n in range(100)]  # a server that sends a byte now and then
for s in drips: s.send(b"x\n")
for n in range(15):
    for s, data in slow:
        try: s.send(data[n:n + 1])
        except OSError: pass
    time.sleep(0.1)
    if n % 5 == 0: served()
got = sum(1 for s in drips if select.select([s], [], [], 2)[0] and s.recv(100))
tell("drips", str(got))
step("end")
"""
    with Place() as place:
        run_ = Watched(place, ["--allow", "good.test:80,443,7004"], inside(code))
        run_.at("end")
        run_.bounded("300 slow clients")
        run_.on("end")
        result = run_.running.wait()
        same((result.tries["served"], result.tries["served in"], result.tries["drips"]), ("ok", "time", "100"), "others meanwhile")


@test("1 GiB each way, and nobody who reads it: bodies go through without being kept")
def _():
    rig.ask("sniff", on=False)
    code = WAIT + r"""
room = bytearray(1 << 20)
def down():
    with socket.create_connection(("other.test", 7100), 10) as s:
        s.settimeout(30); s.sendall(b"%d\n" % (1 << 30)); total = 0
        while n := s.recv_into(room): total += n
    return str(total)
def up():
    with socket.create_connection(("other.test", 7101), 10) as s:
        s.settimeout(30); data = bytes(1 << 20)
        for _ in range(1024): s.sendall(data)
        s.shutdown(1); return s.recv(100).decode().strip()
outcome("down", down)
outcome("up", up)
def by_http(path, secure):
    s = socket.create_connection(("good.test", 443 if secure else 80), 10)
    if secure: s = ssl.create_default_context().wrap_socket(s, server_hostname="good.test")
    s.settimeout(30); s.sendall(request("good.test", path, more="Range: bytes=0-268435455\r\n")); total = 0
    while n := s.recv_into(room): total += n
    return str(total >> 20)
outcome("http", lambda: by_http("/files/big", False))
outcome("inspected", lambda: by_http("/files/big", True))
# who asks and does not read
lazy = []
for n in range(60):
    s = socket.socket(); s.setsockopt(1, 8, 4096); s.settimeout(10); s.connect((socket.gethostbyname("other.test"), 7100) if n % 2 else (socket.gethostbyname("good.test"), 80))
    s.sendall(b"%d\n" % (1 << 30) if n % 2 else request("good.test", "/files/big")); lazy.append(s)
# and who writes to somebody that does not read
for n in range(30):
    s = socket.create_connection(("other.test", 7100), 10); s.setblocking(False); lazy.append(s)
    try:
        while True: s.send(b"1\n" * 32768)
    except BlockingIOError: pass
    except OSError: pass
time.sleep(1)
served()
step("end")
"""
    with Place() as place:
        job = job_file(place, {"network": {"allow": [{"host": "good.test", "tls": "inspect"}, "other.test:7100,7101"]}})
        run_ = Watched(place, ["-f", job], inside(code), env={})
        run_.at("end", 100)
        run_.bounded("1 GiB each way and 90 that do not read")
        run_.on("end")
        result = run_.running.wait(60)
        same((result.tries["down"], result.tries["up"]), (str(1 << 30), str(1 << 30)), "bytes that came through")
        same((result.tries["http"], result.tries["inspected"]), ("256", "256"), "MiB by HTTP")
        same((result.tries["served"], result.tries["served in"]), ("ok", "time"), "others meanwhile")


@test("half-closed connections pass their end on; resets of either side end the other; nothing is left")
def _():
    rig.ask("sniff", on=False)
    code = WAIT + r"""
served()
step("first")
def half():
    with socket.create_connection(("good.test", 7003), 10) as s:
        s.sendall(b"a\n" * 50000); s.shutdown(1); s.settimeout(30); return everything(s).decode().strip()
outcome("half-closed", half)
resets = 0
for n in range(300):
    with socket.create_connection(("good.test", 7002), 10) as s:
        try:
            s.settimeout(30); s.send(b"x\n")
            if s.recv(1) == b"": resets += 1
        except OSError as error: resets += error.errno in (32, 104)
tell("resets of the server", str(resets))
for n in range(300):
    s = socket.create_connection(("good.test", 7000), 10)
    if n % 3: s.send(b"x\n" * 500)
    s.setsockopt(1, 13, struct.pack("ii", 1, 0)); s.close()  # SO_LINGER: reset
for n in range(200):  # gone before anything was decided
    s = socket.socket(); s.setblocking(False)
    try: s.connect((("198.18.0.1", 80), ("1.1.1.1", 80), ("127.0.0.1", 1023))[n % 3])
    except OSError: pass
    s.setsockopt(1, 13, struct.pack("ii", 1, 0)); s.close()
def both_ways():
    with socket.create_connection(("good.test", 7000), 10) as s:
        s.sendall(b"last\n"); s.shutdown(1); s.settimeout(30)
        return everything(s)
outcome("both ways", both_ways)
served()
step("end")
"""
    with Place() as place:
        run_ = Watched(place, ["--allow", "good.test:80,7000,7002,7003"], inside(code))
        run_.at("first")
        before, live = run_.outside(), rig.ask("live")
        run_.on("first")
        run_.at("end")
        check(until(lambda: run_.outside() <= before + 8, 5), "egress still has %d connections outside, %d at first" % (run_.outside(), before))
        check(until(lambda: rig.ask("live") <= live, 5), "the server still has %d connections, %d at first" % (rig.ask("live"), live))
        run_.bounded("resets")
        run_.on("end")
        result = run_.running.wait()
        same(result.tries["half-closed"], "got 100000", "the server's answer after the end")
        same(result.tries["resets of the server"], "300", "resets that were passed on")
        same((result.tries["both ways"], result.tries["served"], result.tries["served in"]), ("ok", "ok", "time"), "the rest")


@test("a flood of refused attempts and of names: told in bounded space, memory bounded, others served")
def _():
    rig.ask("sniff", on=False)
    code = WAIT + r"""
message = query("x%d.evil.test" % 0)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(20000):
    s.sendto(query("n%d.evil.test" % n), ("9.9.9.9", 53))
for n in range(20000):
    s.sendto(query("n%d.w.wild.test" % n), ("9.9.9.9", 53))
served()
refused = 0
for n in range(2000):
    try:
        with socket.create_connection(("1.2.%d.%d" % (n >> 8, n & 255), 80), 30) as c:
            c.settimeout(30)
            if c.recv(1) == b"": refused += 1
    except OSError: refused += 1
tell("refused", str(refused))
served()
step("end")
"""
    with Place() as place:
        run_ = Watched(place, ["--json", "--allow", "good.test", "--allow", "*.w.wild.test"], inside(code))
        run_.at("end", 60)
        run_.bounded("a flood")
        run_.on("end")
        result = run_.running.wait()
        same((result.tries["refused"], result.tries["served"], result.tries["served in"]), ("2000", "ok", "time"), "the flood, and others")
        check(len(result.err) < 1 << 20, "%d bytes about it on stderr" % len(result.err))


main()
