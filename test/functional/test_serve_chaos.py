# SPDX-License-Identifier: Apache-2.0
# check: alone
# check: timeout 30000
"""
The daemon under load while things die: nothing that it has promised is lost, and nothing is left

    ATOLL_LONG=1        five minutes instead of seconds, 1,000 sandboxes instead of dozens, 100,000 cycles (make soak)
"""

import os
import random
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib  # noqa: E402
from lib import *  # noqa: E402
from serving import *  # noqa: E402

LONG = bool(os.environ.get("ATOLL_LONG"))
SECONDS = 300 if LONG else 12
lib.TEST_SECONDS = (3600 * 8 if LONG else 300) * SLOW


class Client(threading.Thread):
    """Somebody who asks again until there is an answer, as every client of a service has to."""

    def __init__(self, daemon, number, until):
        super().__init__(daemon=True)
        self.serving, self.number, self.until = daemon, number, until
        self.done, self.lost, self.wrong = 0, 0, []

    def ask(self, method, path, body=None):
        give_up = time.monotonic() + 60 * SLOW
        while True:
            try:
                status, answer, headers = self.serving.call(method, path, body)
            except (OSError, ValueError, http.client.HTTPException) as what:
                status, answer = 0, repr(what)
            if status and status not in (429, 503):
                return status, answer
            if time.monotonic() > give_up:
                raise Failed("%s %s: no answer within a minute: %s" % (method, path, answer))
            time.sleep(0.05)

    def make(self, serial):
        status, box = self.ask("POST", "/v1/sandboxes", {"requestId": "box-%d-%d" % (self.number, serial), "labels": {"test": "chaos"}})
        check(status in (200, 201), "create: %s %s" % (status, box))
        return box["id"]

    def step(self, box, serial):
        """One line more in the file, and on its output; exactly once, however often it is asked for. None: the box died."""
        command = ["/bin/sh", "-c", "echo %d >>steps; echo line %d; sleep 0.0%d" % (serial, serial, serial % 7)]
        status, step = self.ask("POST", "/v1/sandboxes/%s/steps" % box, {"command": command, "requestId": "step-%d" % serial})
        while status in (200, 201) and step["state"] != "ended":
            time.sleep(0.01)
            status, step = self.ask("GET", "/v1/sandboxes/%s/steps/%d" % (box, step["number"]))
        if status not in (200, 201) or step["result"]["exitCode"] != 0:
            return None
        return step

    def use(self, box):
        count = 0
        for serial in range(1, 13):
            step = self.step(box, serial)
            if step is None:
                self.lost += 1
                return
            count += 1
            if step["out"]["size"] != len("line %d\n" % serial):
                self.wrong.append("step %d of %s has printed %s bytes" % (serial, box, step["out"]["size"]))
        status, answer = self.ask("GET", "/v1/sandboxes/%s/files?path=steps" % box)
        said = answer.decode() if isinstance(answer, bytes) else answer
        if status == 200 and said != "".join("%d\n" % serial for serial in range(1, count + 1)):
            self.wrong.append("%s: the steps were not executed once each: %r" % (box, said))
        self.done += count

    def run(self):
        serial = 0
        try:
            while time.monotonic() < self.until:
                serial += 1
                box = self.make(serial)
                self.use(box)
                status, answer = self.ask("DELETE", "/v1/sandboxes/" + box)
                if status not in (200, 204, 404):
                    self.wrong.append("delete: %s %s" % (status, answer))
        except Failed as what:
            self.wrong.append(str(what))


def processes_of(daemon, name):
    """Children of this daemon's holders with that name."""
    found = []
    for holder in daemon.holders():
        with contextlib.suppress(OSError):
            with open("/proc/%d/task/%d/children" % (holder, holder)) as file:
                for pid in file.read().split():
                    with open("/proc/%s/comm" % pid) as comm:
                        if comm.read().strip() == name:
                            found.append(int(pid))
    return found


def strike(daemon, kinds, counts):
    kind = random.choice(kinds)
    counts[kind] = counts.get(kind, 0) + 1
    if kind == "daemon":
        daemon.crash()
        daemon.start()
        return
    victims = daemon.holders() if kind == "holder" else processes_of(daemon, "atoll-" + kind)
    if victims:
        with contextlib.suppress(OSError):
            os.kill(random.choice(victims), signal.SIGKILL)


def bombard(daemon, kinds, clients=4, seconds=SECONDS):
    port = daemon.url.rsplit(":", 1)[1]
    daemon.listen = "127.0.0.1:" + port  # the same one again
    until, counts = time.monotonic() + seconds, {}
    crowd = [Client(daemon, number, until) for number in range(clients)]
    for client in crowd:
        client.start()
    while time.monotonic() < until - 1:
        time.sleep(random.uniform(0.3, 1.2))
        strike(daemon, kinds, counts)
    for client in crowd:
        client.join(180 * SLOW)
        check(not client.is_alive(), "a client still waits")
    wrong = [line for client in crowd for line in client.wrong]
    check(not wrong, "%d things went wrong: %s" % (len(wrong), "; ".join(wrong[:4])))
    return sum(client.done for client in crowd), sum(client.lost for client in crowd), counts


@test("kill -9 of the daemon again and again: every step is executed once, and its result is known")
def _():
    residue = Residue()
    with Daemon() as daemon:
        done, lost, counts = bombard(daemon, ["daemon"])
        check(counts.get("daemon", 0) >= 3 and done >= 20, "little happened: %s, %d steps" % (counts, done))
        same(lost, 0, "boxes that died although nobody touched them")
        same(daemon.call("GET", "/v1/sandboxes?label=test%3Dchaos")[1]["items"], [], "sandboxes")
    same(residue.found(), [], "what is left")


@test("kill -9 of daemon, holders and first processes at random: others are not touched, and nothing is left")
def _():
    residue = Residue()
    with Daemon() as daemon:
        done, lost, counts = bombard(daemon, ["daemon", "holder", "init"])
        check(done >= 20, "little happened: %s, %d steps" % (counts, done))
        check(lost <= counts.get("holder", 0) + counts.get("init", 0), "%d boxes died of %s" % (lost, counts))
    same(residue.found(), [], "what is left")


@test("create and kill in a row: no descriptor, process, record or memory stays behind")
def _():
    cycles = 100000 if LONG else 150
    with Daemon() as daemon:
        def look():
            with open("/proc/%d/status" % daemon.pid) as file:
                memory = int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
            return len(os.listdir("/proc/%d/fd" % daemon.pid)), memory

        def cycle(count):
            connection = daemon.connect()
            for _ in range(count):
                box = daemon.create(timeout=600)
                same(daemon.call("DELETE", "/sandboxes/" + box["sandboxID"], connection=connection)[0], 204, "kill")
            connection.close()
        cycle(50)
        descriptors, memory = look()
        cycle(cycles)
        until(lambda: len(daemon.records()) <= 40, 60 * SLOW)  # what is parked
        after = look()
        check(after[0] <= descriptors + 40, "descriptors: %d, before %d" % (after[0], descriptors))
        check(after[1] <= memory + 8192 + cycles // 20, "memory: %d kB, before %d" % (after[1], memory))
        check(len(daemon.records()) <= 40, "records: %d" % len(daemon.records()))
        check(len(daemon.holders()) <= 40, "holders: %d" % len(daemon.holders()))


@test("many live sandboxes that each execute a step now and then")
def _():
    count, rounds = (1000, 30) if LONG else (40, 3)
    with Daemon() as daemon:
        boxes = [daemon.create(timeout=600) for _ in range(count)]
        failures = []

        def use(share):
            for _ in range(rounds):
                for box in share:
                    out = daemon.run(box, "echo here")
                    if (out.code, out.out) != (0, b"here\n"):
                        failures.append((box["sandboxID"], out.code, out.out, out.error))
        threads = [threading.Thread(target=use, args=(boxes[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same(failures[:3], [], "steps that failed")
        # One that eats all its memory touches no other.
        daemon.run(boxes[0], "exec /usr/bin/python3 -c 'x = bytearray(1 << 31)'")
        same(daemon.run(boxes[1], "echo here").out, b"here\n", "another one")


main()
