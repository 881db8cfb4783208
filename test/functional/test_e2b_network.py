#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
"""
E2B's network rules, on a host with an Internet of its own: what is allowed arrives, what is not does not

The rules are those of E2B (allowed beats denied, everything else is open); who keeps them is egress.
"""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from internet import CANARY, GATE4, HOST4, HOST6, PRIVATE, SECOND4, SERVER4  # noqa: E402
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
    headers = {"api.test": [{"transform": {"headers": {"X-Token": "7"}}}]}
    waiting = daemon().begin(box, "echo go; exec sleep 1000")
    pid = next(waiting)[1]["event"]["start"]["pid"]
    status, answer, _ = put(box, rules=headers)
    same((status, "only while nothing runs" in str(answer)), (400, True), "headers, for one who trusts no certificate of ours: %s" % answer)
    daemon().run(box, "kill -9 %d" % pid)
    daemon().collect(waiting)
    status, answer, _ = put(box, allowOut=["10.0.0.1"])
    same(status, 400, "what is near: %s" % answer)
    same(reach(box, "http://good.test/"), [], "what was refused has changed nothing")
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
    for path, body in (("fork", {}), ("snapshots", {})):
        same(daemon().call("POST", "/sandboxes/%s/%s" % (box["sandboxID"], path), body)[0], 409, path)
    kept = [os.path.join(at, name) for at, _, names in os.walk(daemon().state) for name in names if "secrets" in at]
    check(kept and all(os.stat(path).st_mode & 0o77 == 0 for path in kept), "where values lie: %s" % kept)
    daemon().kill(box)
    check(until(lambda: not any(os.path.exists(path) for path in kept)), "values stay behind: %s" % kept)


def contract(**network):
    return daemon().call("POST", "/v1/sandboxes", {"contract": {"network": network}, "timeout": 300})


def open_box(made):
    """One of /v1, to be used by E2B's calls."""
    status, box, _ = made
    same(status, 201, "%s" % box)
    return daemon().call("POST", "/v2/sandboxes/%s/connect" % box["id"], {})[1]


BLOCK = HOST4.rsplit(".", 1)[0] + ".0/24"


@test("an address of the host's own is nobody's to allow: not as such, not in a block, not by a name that leads there")
def _():
    status, answer, _ = daemon().call("POST", "/v2/sandboxes", {"templateID": "base", "network": {"denyOut": [ALL], "allowOut": [HOST4]}})
    same((status, "machine's own" in str(answer)), (400, True), "E2B's rules: %s" % answer)
    for line in (HOST4, HOST4 + ":80", "[%s]" % HOST6):
        status, answer, _ = contract(mode="rules", allow=[line])
        same((status, answer.get("error", {}).get("cause")), (403, "policy"), "a contract with %s: %s" % (line, answer))
    near = ["http://%s/" % HOST4, "http://own.test/", "http://own.test:%d/" % CANARY]
    for box in (create(network={"denyOut": [ALL], "allowOut": [BLOCK, "own.test"]}), create(network={"denyOut": ["81.0.0.0/8"], "allowOut": [BLOCK]}),
                open_box(contract(mode="rules", allow=[BLOCK, "own.test", "own.test:%d" % CANARY])), open_box(contract(mode="open", allow=[BLOCK]))):
        rig.clear()
        same(reach(box, "http://%s/" % GATE4, *near), ["http://%s/" % GATE4], "what is beside it, and the host itself")
        same(rig.canaries(), [], "services of the host")
        daemon().kill(box)


@test("what the operator grants of his own network a contract may allow, and no other port, and no other tenant")
def _():
    with Daemon(config="tenants: {default: {near: ['%s:%d']}}\n" % (HOST4, CANARY)) as mine:
        body = {"timeout": 300, "contract": {"network": {"mode": "rules", "allow": ["%s:%d" % (HOST4, CANARY), "own.test:%d" % CANARY]}}}
        status, made, _ = mine.call("POST", "/v1/sandboxes", body)
        same(status, 201, "%s" % made)
        box = mine.call("POST", "/v2/sandboxes/%s/connect" % made["id"], {})[1]
        for host in (HOST4, "own.test"):
            rig.clear()
            mine.run(box, "(exec 3<>/dev/tcp/%s/%d; echo x >&3) 2>/dev/null; true" % (host, CANARY))
            check(until(lambda: rig.canaries()), "the granted port by %s" % host)
        for line in (HOST4, "%s:80" % HOST4, "10.0.0.1"):
            same(mine.call("POST", "/v1/sandboxes", {"contract": {"network": {"allow": [line]}}})[0], 403, line)
        same(mine.call("POST", "/v1/sandboxes", body, key=mine.make_key("other"))[0], 403, "another tenant")
        mine.kill(box)


@test("stored secrets: a contract and header rules name them, their host alone gets them, and nobody reads them back")
def _():
    value, other = "very-secret-9876543210", daemon().make_key("second")
    call = daemon().call
    same(call("PUT", "/v1/secrets/api-key", {"value": value})[0], 201, "a new one")
    same([call("PUT", "/v1/secrets/" + name, {"value": text})[0] for name, text in (("x", "a\nb"), ("x", ""), ("sec_x", "v"), ("X", "v"))], [400] * 4, "no secret")
    rules = {"mode": "rules", "allow": ["api.test", "good.test"],
             "secrets": [{"name": "API_KEY", "host": "api.test", "header": "authorization", "from": "secret:api-key"}]}
    for bad in ("env", "file:/etc/passwd", "command:id", "secret:../x"):
        same(contract(**{**rules, "secrets": [{**rules["secrets"][0], "from": bad}]})[0], 403, "from " + bad)
    same(contract(**{**rules, "secrets": [{**rules["secrets"][0], "from": "secret:none"}]})[0], 404, "one that is not there")
    same(call("POST", "/v1/sandboxes", {"contract": {"network": rules}}, key=other)[0], 404, "another tenant's")
    box = open_box(contract(**rules))
    headed = create(network={"rules": {"api.test": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.API-key}"}}}]}})
    rig.clear()
    out = daemon().run(box, "curl -s -H \"Authorization: $API_KEY\" https://api.test/one; curl -s -H \"Authorization: $API_KEY\" https://good.test/two; env").out
    daemon().run(headed, "curl -s https://api.test/three")
    check(value.encode() not in out and b"API_KEY=" in out, "inside there is a placeholder: %s" % out)
    got = {one["path"]: one["auth"] for one in rig.requests(3)}
    same((got["/one"], value in got["/two"], got["/three"]), (value, False, "Bearer " + value), "who got what: %s" % got)
    detail = call("GET", "/sandboxes/%s" % headed["sandboxID"])[1]
    check(value not in json.dumps(detail), "the value is told: %s" % detail)
    for id in (box["sandboxID"], headed["sandboxID"]):
        same(call("POST", "/sandboxes/%s/fork" % id, {})[0], 409, "a fork would outlive it")
    same(call("POST", "/v1/sandboxes/%s/fork" % box["sandboxID"], {})[0], 409, "likewise under /v1")
    listed = call("GET", "/v1/secrets")[1]
    same(([one["name"] for one in listed["items"]], value in json.dumps(listed)), (["api-key"], False), "the list: %s" % listed)
    same(call("GET", "/v1/secrets", key=other)[1]["items"], [], "another tenant's list")
    found = [path for path in (os.path.join(at, name) for at, _, names in os.walk(daemon().state) for name in names)
             if os.path.isfile(path) and os.access(path, os.R_OK) and value.encode() in open(path, "rb").read()]
    check(len(found) == 2 and all("/secrets/" in path and os.stat(path).st_mode & 0o77 == 0 for path in found), "where the value lies: %s" % found)
    daemon().crash()
    daemon().start()
    rig.clear()
    daemon().run(box, "curl -s -H \"Authorization: $API_KEY\" https://api.test/four")
    same([one["auth"] for one in rig.requests(1)], [value], "after the daemon was killed")
    for one in (box, headed):
        daemon().kill(one)
    check(until(lambda: not any(os.path.exists(path) for path in found)), "values stay behind: %s" % found)
    box = open_box(contract(**rules))
    same(call("DELETE", "/v1/secrets/api-key")[0], 204, "removed")
    same(call("DELETE", "/v1/secrets/api-key")[0], 404, "twice")
    same(contract(**rules)[0], 404, "gone")
    daemon().kill(box)


@test("secrets as E2B's clients store them")
def _():
    call = daemon().call
    status, made, _ = call("POST", "/secrets", {"name": "Open-Ai", "value": "sk-1234567890", "metadata": {"team": "x"}})
    same((status, made["name"], made["currentVersion"], made["metadata"], "value" in made), (201, "open-ai", 1, {"team": "x"}, False), "%s" % made)
    same(call("POST", "/secrets", {"name": "open-ai", "value": "x"})[0], 409, "twice")
    status, changed, _ = call("POST", "/secrets/" + made["secretID"], {"value": "sk-2"})
    same((status, changed["currentVersion"], changed["metadata"], changed["secretID"]), (200, 2, {"team": "x"}, made["secretID"]), "%s" % changed)
    same(call("GET", "/secrets/open-ai")[1]["secretID"], made["secretID"], "by name")
    call("POST", "/secrets", {"name": "b", "value": "x"})
    status, page, headers = call("GET", "/secrets?limit=1")
    same(([one["name"] for one in page], headers.get("x-next-token")), (["b"], "b"), "a page")
    same([one["name"] for one in call("GET", "/secrets?nextToken=b")[1]], ["open-ai"], "the next")
    status, answer, _ = call("POST", "/v2/sandboxes", {"templateID": "base", "network": {"rules": {
        "api.test": [{"transform": {"headers": {"A": "${e2b.secrets.nosuch}"}}}]}}})
    same((status, "nosuch" in str(answer)), (400, True), "one that is not there: %s" % answer)
    same([call("DELETE", "/secrets/open-ai")[0], call("DELETE", "/secrets/open-ai")[0], call("GET", "/secrets/open-ai")[0]], [204, 404, 404], "removed")
    same(call("POST", "/secrets/open-ai", {"value": "x"})[0], 404, "no update of what is not there")
    call("DELETE", "/secrets/b")


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
