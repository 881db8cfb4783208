#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
E2B's network rules, on a host with an Internet of its own: what is allowed arrives, what is not does not

The rules are those of E2B (allowed beats denied, everything else is open); who keeps them is egress.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from internet import HOST4, PRIVATE, SECOND4, SERVER4  # noqa: E402
from serving import Daemon  # noqa: E402

rig = net.enter()
ALL = "0.0.0.0/0"
_shared = {}


def daemon():
    need_layers()
    if not _shared:
        _shared["daemon"] = Daemon()
    return _shared["daemon"]


def create(**options):
    return daemon().create(timeout=300, **options)


def reach(box, *urls):
    """Which of them answer, as seen from inside."""
    script = "; ".join("curl -sfk -m 10 -o /dev/null '%s' && echo '%s'" % (url, url) for url in urls)
    done = daemon().run(box, script + "; true")
    return done.out.decode().split()


def put(box, **rules):
    return daemon().call("PUT", "/sandboxes/%s/network" % box["sandboxID"], rules)


@test("without rules everything public is reached, and nothing that is near")
def _():
    box = create()
    rig.clear()
    same(reach(box, "http://good.test/", "https://other.test/", "http://%s/" % SERVER4, "http://own.test/", "http://%s/" % HOST4, "http://127.0.0.1/",
               "http://%s/" % PRIVATE, "http://loop.test/", "http://meta.test/"),
         ["http://good.test/", "https://other.test/", "http://%s/" % SERVER4], "what is reached")
    same(rig.canaries(), [], "services of the host")
    daemon().kill(box)


@test("allow_internet_access: false, and deny-all, leave nothing; allowed names and addresses beat it")
def _():
    for options in ({"allow_internet_access": False}, {"network": {"denyOut": [ALL]}}):
        box = create(**options)
        rig.clear()
        same(reach(box, "http://good.test/", "http://%s/" % SERVER4), [], "%s" % options)
        rig.silence()
        daemon().kill(box)
    box = create(network={"denyOut": [ALL], "allowOut": ["good.test", "*.wild.test", SECOND4]})
    same(reach(box, "http://good.test/", "https://good.test/", "http://w.wild.test/", "http://evil.test/", "http://%s/" % SERVER4, "http://%s/" % SECOND4),
         ["http://good.test/", "https://good.test/", "http://w.wild.test/", "http://%s/" % SECOND4], "names and an address")
    daemon().kill(box)


@test("addresses: what is allowed out of a denied block is reached, with all its ports and by any name")
def _():
    box = create(network={"denyOut": ["93.184.216.0/24"], "allowOut": [SECOND4]})
    same(reach(box, "http://%s/" % SERVER4, "http://%s/" % SECOND4, "http://v4.test/", "http://81.2.69.1/"),
         ["http://%s/" % SECOND4, "http://81.2.69.1/"], "a block without one address")
    daemon().kill(box)
    box = create(allow_internet_access=False, network={"allowOut": [SERVER4]})
    out = daemon().run(box, "for to in '%s 7000' '%s 7000' 'good.test 7000'; do set -- $to; (exec 3<>/dev/tcp/$1/$2 && echo x >&3 && read -t 5 y <&3 && echo $1) "
                            "2>/dev/null; done; true" % (SERVER4, SECOND4)).out.decode().split()
    same(out, [SERVER4, "good.test"], "one address, another port")
    daemon().kill(box)


@test("other rules take hold at once, and cut what the old ones had allowed")
def _():
    box = create()
    frames = daemon().begin(box, "exec 3<>/dev/tcp/%s/7001; echo open; cat <&3; echo cut" % SERVER4)
    next(frames)
    while "stdout" not in next(frames)[1]["event"].get("data", {}):
        pass
    same(put(box, denyOut=[ALL], allowOut=["other.test"])[0], 204, "other rules")
    same(daemon().collect(frames).out, b"cut\n", "the connection that was open")
    same(reach(box, "http://good.test/", "http://other.test/"), ["http://other.test/"], "by the new rules")
    same(put(box)[0], 204, "no rules")
    same(reach(box, "http://good.test/", "http://other.test/"), ["http://good.test/", "http://other.test/"], "everything again")
    same(put(box, allow_internet_access=False)[0], 204, "no Internet")
    same(reach(box, "http://good.test/"), [], "nothing")
    status, answer, _ = put(box, rules={"api.test": [{"transform": {"headers": {"A": "1"}}}]})
    check(status == 400 and "trusts no certificate" in answer["message"], "headers, where something has run: %s %s" % (status, answer))
    status, answer, _ = put(box, allowOut=["10.0.0.1"])
    same(status, 400, "what is near: %s" % answer)
    same(reach(box, "http://good.test/"), [], "what was refused has changed nothing")
    daemon().kill(box)


@test("other rules touch nothing inside: what runs goes on, and files in memory stay")
def _():
    box = create()
    daemon().run(box, "echo kept >/tmp/kept; setsid sleep 600 >/dev/null 2>&1 <&- & echo $! >/tmp/pid")
    same(put(box, denyOut=[ALL])[0], 204, "other rules")
    same(daemon().run(box, "cat /tmp/kept; kill -0 $(cat /tmp/pid) && echo lives").out, b"kept\nlives\n", "what was there")
    daemon().kill(box)
    box = create()
    daemon().run(box, "echo kept >/tmp/kept")
    same(put(box, denyOut=[ALL])[0], 204, "other rules, while nothing runs")
    same(daemon().run(box, "cat /tmp/kept").out, b"kept\n", "what was there")
    daemon().kill(box)


@test("rules hold on through a pause, with memory and without")
def _():
    box = create(network={"denyOut": [ALL], "allowOut": ["good.test"]})
    same(put(box, denyOut=[ALL], allowOut=["other.test"])[0], 204, "other rules")
    for memory in (True, False):
        same(daemon().call("POST", "/sandboxes/%s/pause" % box["sandboxID"], {"memory": memory})[0], 204, "pause")
        same(daemon().call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
        same(reach(box, "http://good.test/", "http://other.test/"), ["http://other.test/"], "after a pause with memory %s" % memory)
    daemon().kill(box)


@test("headers are set on the way: the program can neither choose nor see them, and only their host gets them")
def _():
    secret = "Bearer very-secret-0123456789"
    rules = {"api.test": [{"transform": {"headers": {"Authorization": secret, "X-Token": "1"}}}]}
    box = create(network={"rules": rules})
    rig.clear()
    same(reach(box, "https://api.test/", "https://good.test/", "http://good.test/", "http://api.test/"),
         ["https://api.test/", "https://good.test/", "http://good.test/"], "what is reached: the host with headers over TLS alone")
    daemon().run(box, "curl -s -H 'Authorization: mine' -H 'X-Token: 2' https://api.test/mine; curl -s -H 'Authorization: mine' https://good.test/mine")
    got = {(one["host"], one["path"], one["tls"] != ""): (one["auth"], one["token"]) for one in rig.requests(5)}
    same(got[("api.test", "/", True)], (secret, "1"), "the host's")
    same(got[("api.test", "/mine", True)], (secret, "1"), "what the program says is replaced")
    same(got[("good.test", "/", True)], ("", ""), "another host")
    same(got[("good.test", "/mine", True)], ("mine", ""), "another host, as the program says")
    found = daemon().run(box, "env; cat /run/atoll/* /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; mount").out
    check(b"very-secret" not in found, "the value is inside")
    got = put(box, rules={"api.test": [{"transform": {"headers": {"X-Token": "another"}}}]})
    same(got[0], 204, "other headers: %s" % (got[1],))
    rig.clear()
    same(reach(box, "https://api.test/later"), ["https://api.test/later"], "under the same certificate")
    same([(one["auth"], one["token"]) for one in rig.requests(1)], [("", "another")], "the other ones, and those alone")
    for path, body in (("fork", {}), ("snapshots", {})):
        same(daemon().call("POST", "/sandboxes/%s/%s" % (box["sandboxID"], path), body)[0], 409, path)
    kept = [os.path.join(at, name) for at, _, names in os.walk(daemon().state) for name in names if "secrets" in at]
    check(kept and all(os.stat(path).st_mode & 0o77 == 0 for path in kept), "where values lie: %s" % kept)
    daemon().kill(box)
    check(until(lambda: not any(os.path.exists(path) for path in kept)), "values stay behind: %s" % kept)


@test("at the end the daemon is well, and leaves nothing")
def _():
    one = daemon()
    check(one.process.poll() is None, "the daemon has ended: " + one.stderr()[-2000:])
    _shared.clear()
    one.__exit__(None, None, None)


try:
    main()
finally:
    if _shared:
        _shared["daemon"].__exit__(Exception, None, None)
