#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
# check: timeout 3000
"""
Sandboxes of the daemon under load while their egress is killed, on a host with an Internet of its own

Who is killed is started anew by the next connection. At no moment does anything pass that the rules refuse, no sandbox dies
of it, and nothing is left.

    ATOLL_LONG=1        minutes instead of seconds (make soak)
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
import net  # noqa: E402
from serving import Daemon  # noqa: E402

rig = net.enter()
LONG = bool(os.environ.get("ATOLL_LONG"))
lib.TEST_SECONDS = (3600 if LONG else 300) * SLOW
RULES = {"denyOut": ["0.0.0.0/0"], "allowOut": ["good.test"]}
# A sandbox whose egress has died more often within a minute has no network any more; a new one is made before that.
DEATHS = 4


def egresses(daemon):
    """Of each holder: {holder: [pid]}."""
    found = {}
    for holder in daemon.holders():
        with contextlib.suppress(OSError):
            with open("/proc/%d/task/%d/children" % (holder, holder)) as file:
                pids = file.read().split()
            for pid in pids:
                with contextlib.suppress(OSError), open("/proc/%s/comm" % pid) as comm:
                    if comm.read().strip() == "atoll-egress":
                        found.setdefault(holder, []).append(int(pid))
    return found


class Talker(threading.Thread):
    """One sandbox after the other that talks, to whom it may and to whom it may not."""

    def __init__(self, daemon, until):
        super().__init__(daemon=True)
        self.serving, self.until = daemon, until
        self.reached = self.failed = 0
        self.wrong = []

    def run(self):
        try:
            while time.monotonic() < self.until:
                box = self.serving.create(timeout=600, network=RULES)
                for _ in range(12):
                    done = self.serving.run(box, "curl -s -m 20 -o /dev/null http://good.test/ && echo good; curl -sf -m 5 -o /dev/null http://evil.test/ && echo evil; echo over")
                    words = done.out.split()
                    if words[-1:] != [b"over"] or b"evil" in words:
                        self.wrong.append("%s: %s %s" % (box["sandboxID"], done.out, done.error))
                    self.reached += b"good" in words
                    self.failed += b"good" not in words
                if self.serving.kill(box) != 204:
                    self.wrong.append("%s could not be killed" % box["sandboxID"])
        except BaseException as what:
            self.wrong.append(repr(what))


@test("kill -9 of egress at random under load: refused stays refused, the next connection goes, nothing is left")
def _():
    need("curl")
    need_layers()
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        until_s, deaths, kills = time.monotonic() + (120 if LONG else 5), {}, 0
        talkers = [Talker(daemon, until_s) for _ in range(3)]
        for talker in talkers:
            talker.start()
        while time.monotonic() < until_s:
            time.sleep(random.uniform(0.05, 0.3))
            victims = [(holder, pids) for holder, pids in egresses(daemon).items() if deaths.get(holder, 0) < DEATHS]
            if victims:
                holder, pids = random.choice(victims)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(pids), signal.SIGKILL)
                    deaths[holder] = deaths.get(holder, 0) + 1
                    kills += 1
        for talker in talkers:
            talker.join(180 * SLOW)
            check(not talker.is_alive(), "a client still waits")
        same([line for talker in talkers for line in talker.wrong], [], "what went wrong")
        reached, failed = sum(t.reached for t in talkers), sum(t.failed for t in talkers)
        check(kills >= 3 and reached >= 5, "little happened: %d kills, %d connections" % (kills, reached))
        check(failed <= kills, "%d connections failed for %d kills" % (failed, kills))
        same({request["host"] for request in rig.requests()} - {"good.test"}, set(), "who was reached besides")
        # One that has just lost it, and nobody else's.
        box = daemon.create(timeout=600, network=RULES)
        for _ in range(2):
            same(daemon.run(box, "curl -sf -m 20 -o /dev/null http://good.test/ && echo good").out, b"good\n", "a connection")
            for pids in egresses(daemon).values():
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
        same(daemon.run(box, "curl -sf -m 20 -o /dev/null http://good.test/ && echo good").out, b"good\n", "the next one after that")
        same(daemon.kill(box), 204, "kill")
        check(until(lambda: not egresses(daemon) and not daemon.holders()), "processes are left: %s" % egresses(daemon))


main()
