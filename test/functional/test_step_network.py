#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
"""
Other network rules for a sandbox that lives (atoll_sandbox_set_network), and the death of its egress

On a host with an Internet of its own (test/net.py); what is asserted is what arrived there.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
import net

rig = net.enter()

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(os.path.abspath(ATOLL))
STEP = os.path.join(BUILD, "test", "step")


def ask(place, *args, status=0, **options):
    result = Running(place, [STEP, *args], starts=False, **options).wait()
    same(result.status, status, "step %s: %s" % (" ".join(args), result.out + result.err))
    return result.out


class Sandbox:
    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        if BARE:
            skip("user namespaces")
        self.place = Place()
        self.place.__enter__()
        made = atoll(self.place, "create", "--mode", "layer", *self.flags)
        if made.status:
            self.place.__exit__(None, None, None)
        same(made.status, 0, "create: %s" % made.err)
        self.id = made.out.strip()
        ask(self.place, "start", self.id)
        rig.clear()
        return self.place, self.id

    def __exit__(self, *trace):
        removed = atoll(self.place, "rm", "--force", self.id)
        if trace[0] is None:
            same(removed.status, 0, "rm: %s" % removed.err)
        self.place.__exit__(*trace)


def fetch(place, id, url, *flags):
    """What a step got from there; "" if nothing."""
    path = os.path.join(place.tmp, "f" + os.urandom(4).hex())
    ask(place, "run", id, "--out", path, "--", "curl", "-s", "-m", "20", *flags, url)
    with open(path, errors="replace") as file:
        return file.read()


def hosts():
    return [request["host"] for request in rig.requests()]


def wait_inside(place, id):
    """Something that runs inside, so that the sandbox cannot be built anew."""
    ask(place, "run", id, "--detach", "--stdin", "--", "cat")


@test("other rules while nothing runs: what was allowed is refused, what was not is allowed")
def _():
    with Sandbox("--allow", "good.test") as (place, id):
        check(fetch(place, id, "http://good.test/"), "before")
        ask(place, "network", id, '{"mode": "rules", "allow": ["other.test"]}')
        rig.clear()
        check(not fetch(place, id, "http://good.test/").startswith("<html") and hosts() == [], "refused now: %s" % hosts())
        fetch(place, id, "http://other.test/")
        same(hosts(), ["other.test"], "allowed now")


@test("the same while something runs, which goes on")
def _():
    with Sandbox("--allow", "good.test") as (place, id):
        wait_inside(place, id)
        fetch(place, id, "http://good.test/")
        same(hosts(), ["good.test"], "before")
        ask(place, "network", id, "allow:\n  - other.test\n")
        rig.clear()
        fetch(place, id, "http://good.test/")
        same(hosts(), [], "refused now")
        fetch(place, id, "http://other.test/")
        same(hosts(), ["other.test"], "allowed now")
        ask(place, "network", id, '{"mode": "rules", "allow": []}')
        rig.clear()
        fetch(place, id, "http://other.test/")
        same(hosts(), [], "nothing at all")
        check(" running " in ask(place, "list", id), "what ran runs")


@test("rules that make no sense change nothing, and say why")
def _():
    with Sandbox("--allow", "good.test") as (place, id):
        for rules in ('{"mode": "sideways"}', "allow: 7", '{"allow": ["good.test"', '{"allow": ["**.com"]}'):
            check("failed network" in ask(place, "network", id, rules, status=1), rules)
        fetch(place, id, "http://good.test/")
        same(hosts(), ["good.test"], "as before")


@test("rules that open TLS: refused while something runs that trusts nothing of ours; kept up through a change where it does")
def _():
    inspect = '{"mode": "rules", "allow": [{"host": "good.test", "tls": "inspect"}%s]}'
    with Sandbox("--allow", "good.test") as (place, id):
        wait_inside(place, id)
        check("only while nothing runs" in ask(place, "network", id, inspect % "", status=1), "refused")
        check(fetch(place, id, "https://good.test/"), "as before")
    with Sandbox("--allow", "good.test") as (place, id):
        ask(place, "network", id, inspect % "")
        wait_inside(place, id)
        check(fetch(place, id, "https://good.test/"), "by our certificate")
        ask(place, "network", id, inspect % ', "other.test"')
        check(fetch(place, id, "https://good.test/"), "by the same one, from another process")
        check(fetch(place, id, "http://other.test/") and "other.test" in hosts(), "the new line")


@test("egress is killed: the next connection starts another one, with the same authority")
def _():
    with Sandbox("--allow", "good.test") as (place, id):
        ask(place, "network", id, '{"mode": "rules", "allow": [{"host": "good.test", "tls": "inspect"}]}')
        wait_inside(place, id)
        for _ in range(2):
            check(fetch(place, id, "https://good.test/"), "it works")
            killed = [pid for pid, name in descendants().items() if name == "atoll-egress"]
            same(len(killed), 1, "one egress")
            os.kill(killed[0], signal.SIGKILL)
            check(until(lambda: killed[0] not in descendants()), "it is gone")
        check(fetch(place, id, "https://good.test/"), "and again")
        usage = json.loads(ask(place, "usage", id))
        check(usage["in"] > 0 and usage["out"] > 0, "counted: %s" % usage)


main()
