# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
# check: alone
# check: timeout 30000
"""
The daemon with many sandboxes, connections and bytes: nothing fails, and what it needs itself stays the same

    ATOLL_LONG=1        1,000 sandboxes with a step a second for minutes, 5,000 idle ones, a gigabyte both ways (make soak);
                        says what was reached
"""

import contextlib
import hashlib
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib  # noqa: E402
from lib import *  # noqa: E402
from serving import *  # noqa: E402

LONG = bool(os.environ.get("ATOLL_LONG"))
MIB = 1 << 20
TOOL = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(os.path.abspath(ATOLL)), "test", "perf", "serve")
lib.TEST_SECONDS = (3600 * 8 if LONG else 300) * SLOW


def memory_kb(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def say(text):
    if LONG:
        print("#", text, flush=True)


def processes_in(daemon, box):
    """How many there are beneath its holder."""
    with contextlib.closing(sqlite3.connect(daemon.state + "/state.db")) as database:
        record = database.execute("SELECT sandbox FROM boxes WHERE id = ?", (box["sandboxID"],)).fetchone()[0]
    for pid in daemon.holders():
        with contextlib.suppress(OSError):
            if not any(os.readlink("/proc/%d/fd/%s" % (pid, fd)).endswith("/records/" + record) for fd in os.listdir("/proc/%d/fd" % pid)):
                continue
            found = [pid]
            for each in found:
                found += children(each)
            return len(found) - 1
    return 0


class Crowd:
    """The small client of test/perf with many sandboxes."""

    def __init__(self, daemon, *words):
        port = urllib.parse.urlsplit(daemon.url).port
        self.process = subprocess.Popen([TOOL, words[0], str(port), daemon.key, *map(str, words[1:])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        check(line, "the client failed: %s" % (self.process.stderr.read() if not line else ""))
        return line.split()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        status = self.process.wait(1200 * SLOW) if kind is None else (self.process.kill(), self.process.wait())[1]
        error = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        if kind is None:
            check(status == 0, "the client failed: " + error)


@test("many sandboxes that each execute a step every second: all do, and the daemon grows by nothing")
def _():
    count, seconds = (1000, 180) if LONG else (50, 4)
    with Daemon() as daemon:
        with Crowd(daemon, "pace", count, seconds) as crowd:
            same(crowd.line(), ["held", str(count)], "sandboxes that were made")
            # Steps are known for half a minute after their end: so long it may grow.
            time.sleep(min(40, seconds / 2))
            before = memory_kb(daemon.pid), descriptors(daemon.pid)
            words = crowd.line()
            after = memory_kb(daemon.pid), descriptors(daemon.pid)
            same(int(words[1]), count * seconds, "steps")
            say("%d sandboxes, a step a second each: %s steps in %s s, median %s us, 99 of 100 within %s us; daemon %d kB, before %d kB; "
                "%d descriptors, before %d" % (count, words[1], words[3], words[5], words[7], after[0], before[0], after[1], before[1]))
            if LONG:
                # What is known of so many steps goes with their pace, which was lower before if others used the machine; a leak of
                # a few hundred bytes a step would be more.
                check(after[0] < before[0] * 1.5 + 8192, "memory: %d kB, before %d" % (after[0], before[0]))
                check(after[1] <= before[1] * 1.1 + 100, "descriptors: %d, before %d" % (after[1], before[1]))
            # One that eats all its memory touches no other.
            box, other = daemon.create(timeout=600), daemon.create(timeout=600)
            daemon.run(box, "exec /usr/bin/python3 -c 'x = bytearray(1 << 31)'")
            same(daemon.run(other, "echo here").out, b"here\n", "another one")
        counted = daemon.call("GET", "/metrics")[1].decode()
        check(re.search(r"^atoll_database_failures_total 0$", counted, re.M), "writes to the database that failed")
        check(until(lambda: descriptors(daemon.pid) < 200, 60), "descriptors are left: %d" % descriptors(daemon.pid))


@test("thousands of idle sandboxes: the next one is made as quickly, and nothing of the daemon's grows while they wait")
def _():
    count = 5000 if LONG else 60
    with Daemon(config="pool: {least: 0, most: 0}\n", env={"ATOLL_REST_SECONDS": "1"}) as daemon:
        first, busy = daemon.create(timeout=3600), daemon.create(timeout=3600)
        daemon.run(first, "echo kept >f; echo kept >/tmp/f")
        sleeper(daemon, busy)
        with Crowd(daemon, "hold", count) as crowd:
            held = int(crowd.line()[1])
            say("%d of %d idle sandboxes; the daemon has %d kB" % (held, count, memory_kb(daemon.pid)))
            check(held == count or (LONG and held >= 1000), "sandboxes that were made: %d" % held)
            before = memory_kb(daemon.pid), descriptors(daemon.pid)
            # Each is looked at meanwhile. What was kept ready for a step in those that nothing runs in goes.
            time.sleep(90 if LONG else 0)
            check(until(lambda: processes_in(daemon, first) == 1, 60), "processes of ours in an idle one: %d" % processes_in(daemon, first))
            same(daemon.run(first, "cat f /tmp/f").out, b"kept\nkept\n", "one that has rested")
            check(processes_in(daemon, busy) > 1, "one that something runs in")
            after = memory_kb(daemon.pid), descriptors(daemon.pid)
            check(after[0] <= before[0] + 8192 and after[1] <= before[1] + 50, "kB and descriptors: %s, before %s" % (after, before))
            box = daemon.create(timeout=60)
            same(daemon.run(box, "echo hi").out, b"hi\n", "one more")
            same(daemon.kill(box), 204, "its end")
        check(until(lambda: b"atoll_removing 0\n" in daemon.call("GET", "/metrics")[1], 600), "removals do not end")
        check(until(lambda: len(daemon.records()) == 2, 60), "records are left: %d" % len(daemon.records()))


class Few(Daemon):
    """One that may have few descriptors."""

    def arguments(self):
        return ["/usr/bin/prlimit", "--nofile=%d:%d" % (self.most, self.most), *super().arguments()]


@test("more connections at work than there may be: each one too many is told so at once, and there is room again when others go")
def _():
    need("prlimit")
    most = 8000 if LONG else 400
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    if limit[1] < most + 200:
        skip("%d descriptors" % (most + 200))
    Few.most = most
    with Few(config="pool: {least: 0, most: 0}\n") as daemon:
        where = urllib.parse.urlsplit(daemon.url)
        opened, refused = [], 0
        # A tenant has half of them. Their bodies are waited for.
        keys = [daemon.make_key("one"), daemon.make_key("two")]
        head = "POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\nX-API-KEY: "
        try:
            for i in range(most):
                connection = socket.create_connection((where.hostname, where.port), timeout=PATIENCE * SLOW)
                connection.sendall((head + keys[i % 2] + "\r\n\r\n").encode())
                answer = connection.recv(4096)
                if answer.startswith(b"HTTP/1.1 100 "):
                    opened.append(connection)
                    continue
                # By the server, or, where an idle connection has made room, because the tenant has its half.
                is_told = answer.startswith(b"HTTP/1.1 503 ") and b"too many connections" in answer or \
                    answer.startswith(b"HTTP/1.1 429 ") and b"as many requests open" in answer
                check(is_told and answer.count(b"\r\nRetry-After: ") == 1,
                      "how one too many is refused: %r" % answer)
                connection.close()
                refused += 1
                if refused == 20:
                    break
            same((refused, len(opened)), (20, most // 4 * 3), "connections refused, and served")
            # Those that are there are served as before.
            opened[0].sendall(b"x")
            check(opened[0].recv(4096).startswith(b"HTTP/1.1 400 "), "one that was there")
        finally:
            for connection in opened:
                connection.close()
        check(until(lambda: daemon.call("GET", "/healthz")[0] == 200), "one more, when others have gone")


@test("ten thousand idle connections cost little, and keep nobody waiting")
def _():
    count = 10000 if LONG else 500
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    count = min(count, limit[1] // 4 * 3 - 200)
    with Daemon() as daemon:
        where = urllib.parse.urlsplit(daemon.url)
        box, before, opened = daemon.create(timeout=600), memory_kb(daemon.pid), []
        try:
            for _ in range(count):
                opened.append(socket.create_connection((where.hostname, where.port), timeout=PATIENCE * SLOW))
            same(daemon.run(box, "echo hi").out, b"hi\n", "a command among them")
            each = (memory_kb(daemon.pid) - before) / count
            say("%d connections: %.2f kB of the daemon's each" % (count, each))
            check(IS_SANITIZED or each < 4, "%.2f kB each" % each)
        finally:
            for connection in opened:
                connection.close()
        check(until(lambda: descriptors(daemon.pid) < 200), "connections are left open")


@test("bodies of any size both ways, while others vanish in the middle and read slowly: the daemon's memory stays the same")
def _():
    size = (1024 if LONG else 64) * MIB
    piece, digest = os.urandom(MIB), hashlib.sha256()
    for _ in range(size // MIB):
        digest.update(piece)

    def body():
        for _ in range(size // MIB):
            yield piece
    with Daemon(config="base: {disk: 8G}\n") as daemon:
        box, other = daemon.create(timeout=3600), daemon.create(timeout=3600)
        head = {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": box["envdAccessToken"]}
        daemon.run(box, "true")
        slow = [daemon.connect() for _ in range(4)]
        streams = [daemon.begin(other, "exec cat /dev/zero", connection=connection) for connection in slow]
        for stream in streams:
            next(stream)
        most = [0]
        over = threading.Event()

        def watch():
            while not over.wait(0.05):
                most[0] = max(most[0], memory_kb(daemon.pid))

        def vanish():
            where = urllib.parse.urlsplit(daemon.url)
            text = "".join("%s: %s\r\n" % item for item in head.items())
            while not over.wait(0.02):
                with socket.create_connection((where.hostname, where.port), timeout=PATIENCE * SLOW) as connection:
                    connection.sendall(("POST /files?path=gone HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\n"
                                        "Content-Length: 100000000\r\n%s\r\n" % text).encode() + piece[:100000])
                with socket.create_connection((where.hostname, where.port), timeout=PATIENCE * SLOW) as connection:
                    connection.sendall(("GET /files?path=large HTTP/1.1\r\nHost: a\r\n%s\r\n" % text).encode())
                    connection.recv(1000)
        before = memory_kb(daemon.pid)
        threads = [threading.Thread(target=watch), threading.Thread(target=vanish)]
        for thread in threads:
            thread.start()
        try:
            start = time.monotonic()
            status, answer, _ = daemon.call("POST", "/files?path=large", data=body(), box=box, headers={"Content-Type": "application/octet-stream"})
            same(status, 200, "the upload: %s" % answer)
            middle = time.monotonic()
            connection = daemon.connect()
            connection.request("GET", "/files?path=large", headers=head)
            answer, got = connection.getresponse(), hashlib.sha256()
            while data := answer.read(MIB):
                got.update(data)
            connection.close()
            end = time.monotonic()
            same(got.hexdigest(), digest.hexdigest(), "what came back")
        finally:
            over.set()
            for thread in threads:
                thread.join()
        say("%d MiB written in %.1f s, read in %.1f s; the daemon had %d kB at most, before %d kB" % (size // MIB, middle - start, end - middle, most[0], before))
        check(IS_SANITIZED or most[0] < before + 96 * 1024, "memory: %d kB at most, before %d" % (most[0], before))
        same(daemon.run(box, "sha256sum <large | cut -c1-64").out.decode().strip(), digest.hexdigest(), "seen from inside")
        for connection in slow:
            connection.close()
        same(daemon.run(other, "echo hi").out, b"hi\n", "a command beside those that nobody reads any more")
        check(until(lambda: descriptors(daemon.pid) < 200), "descriptors are left: %d" % descriptors(daemon.pid))


main()
