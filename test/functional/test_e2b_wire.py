#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: user only
"""
E2B's protocol as it is on the wire: tables of errors, frames, tokens, tenants, and what a hostile client tries

One daemon and few sandboxes for all; what a test changes is its own.
"""

import base64
import gzip
import hashlib
import json
import os
import random
import re
import socket
import struct
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from serving import Daemon  # noqa: E402

UNKNOWN = "i00000000000000000000"
STREAM = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
_shared = {}


def shared():
    """The daemon and a sandbox that most tests use."""
    need_layers()
    if not _shared:
        _shared["daemon"] = Daemon()
        _shared["box"] = _shared["daemon"].create(timeout=600)
    return _shared["daemon"], _shared["box"]


def envelope(message, flags=0, size=None):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(text) if size is None else size) + text


def frames(content):
    found = []
    while content:
        flags, size = struct.unpack(">BI", content[:5])
        check(len(content) >= 5 + size, "a frame is cut")
        found.append((flags, json.loads(content[5:5 + size])))
        content = content[5 + size:]
    return found


def unary(daemon, box, method, message, headers=None, data=None):
    status, body, _ = daemon.call("POST", "/" + method, message, box=box, data=data, headers=headers)
    return status, body


def streamed(daemon, box, method, data, headers=None):
    status, body, found = daemon.call("POST", "/" + method, data=data, box=box, headers={**STREAM, **(headers or {})})
    same((status, found.get("content-type")), (200, "application/connect+json"), "a stream's head for %s" % method)
    got = frames(body)
    check(got and got[-1][0] == 2 and all(flags == 0 for flags, _ in got[:-1]), "the last envelope, and only that, has flag 2: %s" % got)
    return got


def error_of(got):
    return got[-1][1].get("error", {}).get("code")


def come(look, what):
    found = until(look)
    check(found, "waited in vain for " + what)
    return found


def b64(data):
    return base64.b64encode(data).decode()


# ---- the control API

@test("control: every refusal has its status, and the same number in the body")
def _():
    daemon, box = shared()
    one = "/sandboxes/" + box["sandboxID"]
    for method, path, body, status in (
            ("GET", "/sandboxes/" + UNKNOWN, None, 404), ("DELETE", "/sandboxes/" + UNKNOWN, None, 404),
            ("GET", "/sandboxes/%2e%2e%2fetc", None, 404), ("GET", "/sandboxes/" + "a" * 500, None, 404),
            ("POST", "/sandboxes/%s/timeout" % UNKNOWN, {"timeout": 1}, 404), ("POST", "/sandboxes/%s/refreshes" % UNKNOWN, {}, 404),
            ("POST", "/sandboxes/%s/pause" % UNKNOWN, {}, 404), ("POST", "/v2/sandboxes/%s/connect" % UNKNOWN, {}, 404),
            ("POST", "/sandboxes/%s/resume" % UNKNOWN, {}, 404), ("POST", "/sandboxes/%s/fork" % UNKNOWN, {}, 404),
            ("PUT", "/sandboxes/%s/network" % UNKNOWN, {}, 404), ("GET", "/sandboxes/%s/metrics" % UNKNOWN, None, 404),
            ("GET", "/sandboxes/%s/logs" % UNKNOWN, None, 404), ("GET", "/v2/sandboxes/%s/logs" % UNKNOWN, None, 404),
            ("POST", "/sandboxes/%s/snapshots" % UNKNOWN, {}, 404), ("DELETE", "/templates/local%2Fnope%3Adefault", None, 404),
            ("GET", "/templates/aliases/nope", None, 404),
            ("POST", "/v2/sandboxes", {"templateID": "nope"}, 404), ("POST", "/v2/sandboxes", {}, 400),
            ("POST", "/v2/sandboxes", {"templateID": 7}, 400), ("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 0}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "timeout": "1"}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": 1}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "envVars": {"a=b": "c"}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "autoPause": "yes"}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "network": []}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowOut": ["10.0.0.1"]}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "v"}]}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "mcp": {"x": {}}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "base", "iam": {"tokens": {"a": {}}}}, 400),
            ("POST", one + "/timeout", {}, 400), ("POST", one + "/timeout", {"timeout": -1}, 400),
            ("POST", one + "/timeout", {"timeout": 1.5}, 400), ("POST", one + "/pause", {"memory": 1}, 400),
            ("POST", one + "/fork", {"count": 0}, 400), ("POST", one + "/fork", {"count": 101}, 400),
            ("POST", one + "/fork", {"count": "2"}, 400), ("POST", one + "/resume", {}, 409),
            ("POST", one + "/snapshots", {"name": "../x y"}, 400), ("PUT", one + "/network", {"denyOut": ["example.com"]}, 400),
            ("GET", one + "/metrics?start=x", None, 400), ("GET", "/v2/sandboxes?limit=0", None, 400),
            ("GET", "/v2/sandboxes?limit=101", None, 400), ("GET", "/v2/sandboxes?state=dead", None, 400),
            ("GET", "/v2/sandboxes?order=up", None, 400), ("GET", "/v2/sandboxes?nextToken=x", None, 400),
            ("GET", "/v2/sandboxes?startedAfter=x", None, 400), ("GET", "/nope", None, 404), ("PATCH", one, None, 405)):
        got, answer, _ = daemon.call(method, path, body)
        same(got, status, "%s %s %s: %s" % (method, path, body, answer))
        check(isinstance(answer, dict) and answer.get("code") == status and answer.get("message"), "its body: %s" % (answer,))


@test("control: bodies that are none")
def _():
    daemon, _ = shared()
    json_type = {"Content-Type": "application/json"}
    for data in (b"", b"{", b"[]", b"null", b'"x"', b"{}{}", b'{"templateID":"base\\u0000"}', b"\xff\xfe", b"[" * 100000):
        status, answer, _ = daemon.call("POST", "/v2/sandboxes", data=data, headers=json_type)
        same((status, answer["code"]), (400, 400), "%r" % data[:20])
    status, answer, _ = daemon.call("POST", "/v2/sandboxes", data=b" " * (2 << 20), headers=json_type)
    same(status, 413, "too large")


@test("control: a body in chunks, as the client sends it; an answer without a body has a length of none")
def _():
    daemon, _ = shared()
    text = json.dumps({"templateID": "base", "metadata": {"a": "b"}}).encode()
    status, box, _ = daemon.call("POST", "/v2/sandboxes", data=iter([text[:9], text[9:]]),
                                 headers={"Content-Type": "application/json"})
    same(status, 201, "create: %s" % box)
    same(sorted(box), sorted(["templateID", "sandboxID", "alias", "clientID", "envdVersion", "envdAccessToken", "trafficAccessToken", "domain"]),
         "its members")
    check(re.fullmatch("[a-z0-9]+", box["sandboxID"]) and len(box["envdAccessToken"]) >= 20, "%s" % box)
    status, body, headers = daemon.call("POST", "/sandboxes/%s/timeout" % box["sandboxID"], {"timeout": 60})
    same((status, body, headers.get("transfer-encoding")), (204, b"", None), "an empty answer")
    same(daemon.kill(box), 204, "kill")
    same(daemon.kill(box), 404, "kill again")


@test("control: without a key, or with a wrong one, nothing is answered but 401")
def _():
    daemon, box = shared()
    for key in (None, "x", "e2b_" + "0" * 40, daemon.key[:-1], daemon.key + "0"):
        for method, path in (("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("GET", "/sandboxes/" + box["sandboxID"]),
                             ("DELETE", "/sandboxes/" + box["sandboxID"]), ("GET", "/no/such/path")):
            status, answer, _ = daemon.call(method, path, key=key)
            same((status, answer["code"]), (401, 401), "%s %s with %s" % (method, path, key))
    same(daemon.state_of(box), "running", "the sandbox")


@test("control: another tenant sees and touches nothing")
def _():
    daemon, box = shared()
    other = daemon.make_key("other")
    one = "/sandboxes/" + box["sandboxID"]
    same(daemon.call("GET", "/v2/sandboxes", key=other)[1], [], "its list")
    same(daemon.call("GET", "/sandboxes", key=other)[1], [], "its old list")
    same(daemon.call("GET", "/sandboxes/metrics?sandbox_ids=" + box["sandboxID"], key=other)[1], {"sandboxes": {}}, "its metrics")
    for method, path, body in (("GET", one, None), ("DELETE", one, None), ("POST", one + "/timeout", {"timeout": 1}), ("POST", one + "/pause", {}),
                               ("POST", "/v2" + one + "/connect", {}), ("POST", one + "/fork", {}), ("PUT", one + "/network", {}),
                               ("GET", one + "/metrics", None), ("GET", one + "/logs", None), ("POST", one + "/snapshots", {})):
        same(daemon.call(method, path, body, key=other)[0], 404, "%s %s" % (method, path))
    same(daemon.state_of(box), "running", "the sandbox")


@test("control: what older clients ask for")
def _():
    daemon, _ = shared()
    status, box, _ = daemon.call("POST", "/sandboxes", {"templateID": "base", "secure": True, "timeout": 300, "metadata": {"old": "x y"}})
    same(status, 201, "create: %s" % box)
    one = "/sandboxes/" + box["sandboxID"]
    check(box["sandboxID"] in [b["sandboxID"] for b in daemon.call("GET", "/sandboxes")[1]], "the list")
    found = daemon.call("GET", "/v2/sandboxes?metadata=old%3Dx%252520y")[1]
    same([b["sandboxID"] for b in found], [box["sandboxID"]], "a filter that is encoded three times")
    same(daemon.call("POST", one + "/refreshes", {"duration": 3600})[0], 204, "refreshes")
    before = daemon.call("GET", one)[1]["endAt"]
    same(daemon.call("POST", one + "/refreshes", {})[0], 204, "refreshes")
    same(daemon.call("GET", one)[1]["endAt"], before, "an end that was only to be moved back")
    same(daemon.call("POST", one + "-suffix/connect", {"timeout": 60})[0], 200, "connect, with a suffix")
    same(daemon.call("POST", one + "/pause", {})[0], 204, "pause")
    same(daemon.call("POST", one + "/pause", {"memory": False})[0], 409, "pause again")
    same(daemon.call("POST", one + "/timeout", {"timeout": 5})[0], 404, "a time-out of a paused one")
    same(daemon.call("POST", one + "/fork", {})[0], 409, "fork of a paused one")
    check(box["sandboxID"] not in [b["sandboxID"] for b in daemon.call("GET", "/sandboxes")[1]], "the old list has only those that run")
    status, again, _ = daemon.call("POST", one + "/resume", {"timeout": 60})
    same((status, again["sandboxID"], again["envdAccessToken"]), (201, box["sandboxID"], box["envdAccessToken"]), "resume")
    same(daemon.call("POST", "/v2" + one + "/connect", {})[0], 200, "connect to one that runs")
    daemon.kill(box)


@test("control: the log tells what happened, metrics what was used")
def _():
    daemon, _ = shared()
    box = daemon.create(timeout=300)
    one = "/sandboxes/" + box["sandboxID"]
    daemon.run(box, "echo for the log; exit 3")
    logs = come(lambda: [e for e in daemon.call("GET", "/v2%s/logs" % one)[1]["logs"] if "exit status 3" in e["message"]], "the end in the log")
    check("for the log" in logs[0]["message"] and logs[0]["level"] == "info" and logs[0]["fields"] == {}, "%s" % logs)
    old = daemon.call("GET", one + "/logs?limit=1")[1]
    same((len(old["logs"]), len(old["logEntries"])), (1, 1), "a limit")
    same(daemon.call("GET", "/v2%s/logs?search=nothing-like-it" % one)[1], {"logs": []}, "a search")
    latest = daemon.call("GET", "/v2%s/logs?direction=backward&limit=1" % one)[1]["logs"]
    check("exit status 3" in latest[0]["message"], "backwards: %s" % latest)
    many = come(lambda: daemon.call("GET", "/sandboxes/metrics?sandbox_ids=%s,%s" % (box["sandboxID"], UNKNOWN))[1]["sandboxes"], "a sample")
    same(list(many), [box["sandboxID"]], "whose samples")
    same(daemon.call("GET", "/envs", box=box)[1].get("E2B_SANDBOX"), "true", "/envs")
    check(daemon.call("GET", "/metrics", box=box)[1]["mem_total"] > 0, "/metrics of the sandbox")
    daemon.kill(box)


# ---- the data plane

@test("tokens: without the sandbox's nothing is done, and only /health is told")
def _():
    daemon, box = shared()
    for token in ("", "x", box["envdAccessToken"][:-1], box["envdAccessToken"] + "0"):
        wrong = {"X-Access-Token": token}
        same(daemon.call("GET", "/health", box=box, headers=wrong)[0], 204, "/health")
        for method, path, data, headers in (
                ("POST", "/process.Process/List", b"{}", {"Content-Type": "application/json"}),
                ("POST", "/process.Process/Start", envelope({"process": {"cmd": "true"}}), STREAM),
                ("POST", "/filesystem.Filesystem/Stat", b'{"path":"/"}', {"Content-Type": "application/json"}),
                ("GET", "/files?path=x", None, {}), ("POST", "/files?path=x", b"x", {"Content-Type": "application/octet-stream"}),
                ("GET", "/envs", None, {}), ("POST", "/files/compose", b"{}", {}), ("GET", "/nope", None, {})):
            status, answer, _ = daemon.call(method, path, data=data, box=box, headers={**headers, **wrong})
            same((status, answer["code"]), (401, 401), "%s %s with '%s': %s" % (method, path, token, answer))
    for path in ("/execute", "/execute/", "/execute/x", "//execute", "/x"):
        same(daemon.call("POST", path, {"code": "1"}, box=box, port=49999, headers={"X-Access-Token": "x"})[0], 401, "running code")


@test("a sandbox that sleeps is woken by who may use it, and by nobody else")
def _():
    daemon, _ = shared()
    box = daemon.create(timeout=300, autoPause=True, autoResume={"enabled": True})
    one = "/sandboxes/" + box["sandboxID"]
    same(daemon.call("POST", one + "/pause", {})[0], 204, "pause")
    stranger = {"sandboxID": box["sandboxID"]}
    for path, status in (("/health", 502), ("/files?path=x", 401), ("/files?path=x&signature=v1_x", 401), ("/envs", 401)):
        same(daemon.call("GET", path, box=stranger)[0], status, path)
    same(daemon.call("POST", "/process.Process/List", {}, box=stranger)[0], 401, "a call")
    same(daemon.state_of(box), "paused", "it sleeps on")
    same(daemon.call("POST", "/process.Process/List", {}, box=box)[0], 200, "its owner's call")
    same(daemon.state_of(box), "running", "it is awake")
    same(daemon.call("POST", one + "/pause", {"memory": False})[0], 204, "pause without memory")
    same(daemon.call("POST", "/process.Process/List", {}, box=box)[0], 502, "which nothing but connect ends")
    same(daemon.call("POST", "/v2" + one + "/connect", {})[0], 201, "connect")
    same(daemon.call("POST", one + "/pause", {})[0], 204, "pause")
    status, again, _ = daemon.call("POST", "/v2" + one + "/connect", {"memory": False})
    same(status, 201, "connect that drops what was in memory")
    same(daemon.state_of(box), "running", "it runs")
    daemon.kill(box)


@test("a sandbox that is not there is 502, and half an address is 400")
def _():
    daemon, box = shared()
    nobody = {"sandboxID": UNKNOWN, "envdAccessToken": box["envdAccessToken"]}
    for path in ("/health", "/files?path=x"):
        status, answer, _ = daemon.call("GET", path, box=nobody)
        same((status, answer), (502, {"sandboxId": UNKNOWN, "message": "The sandbox was not found", "code": 502}), path)
    status, answer, _ = daemon.call("POST", "/process.Process/Start", data=envelope({}), box=nobody, headers=STREAM)
    same(status, 502, "a stream")
    for headers in ({"E2b-Sandbox-Id": box["sandboxID"]}, {"E2b-Sandbox-Port": "49983"},
                    {"E2b-Sandbox-Id": "../x", "E2b-Sandbox-Port": "49983"}, {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "0"},
                    {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "70000"}):
        same(daemon.call("GET", "/health", headers=headers)[0], 400, "%s" % headers)
    by_host = {"Host": "49983-%s.box.test:80" % box["sandboxID"]}
    same(daemon.call("GET", "/health", key=None, headers=by_host)[0], 204, "by the name of the host")


@test("Connect: plain calls have a status with their code")
def _():
    daemon, box = shared()
    list_, stat, signal = "process.Process/List", "filesystem.Filesystem/Stat", "process.Process/SendSignal"
    json_type = {"Content-Type": "application/json"}
    for method, data, status, code in (
            (list_, b"", 400, "invalid_argument"), (list_, b"[]", 400, "invalid_argument"), (list_, b"{", 400, "invalid_argument"),
            (list_, b'{"a":1,"a":2}', 400, "invalid_argument"), (stat, b'{"path":7}', 400, "invalid_argument"),
            (stat, b'{"path":"~nobody/x"}', 400, "invalid_argument"), (stat, b'{"path":"zzz"}', 404, "not_found"),
            ("filesystem.Filesystem/ListDir", b'{"path":"/etc/hostname"}', 400, "invalid_argument"),
            ("filesystem.Filesystem/ListDir", b'{"path":"/","depth":-1}', 400, "invalid_argument"),
            ("filesystem.Filesystem/MakeDir", b'{"path":"/home/user"}', 409, "already_exists"),
            ("filesystem.Filesystem/MakeDir", b'{"path":"/etc/hostname"}', 400, "invalid_argument"),
            ("filesystem.Filesystem/Move", b'{"source":"zzz","destination":"y"}', 404, "not_found"),
            ("filesystem.Filesystem/GetWatcherEvents", b'{"watcherId":"x"}', 404, "not_found"),
            ("filesystem.Filesystem/RemoveWatcher", b'{"watcher_id":"x"}', 404, "not_found"),
            (signal, b'{"process":{"pid":999999},"signal":"SIGNAL_SIGKILL"}', 404, "not_found"),
            (signal, b'{"process":{"pid":-1},"signal":"SIGNAL_SIGKILL"}', 400, "invalid_argument"),
            (signal, b'{"process":{"tag":"nope"},"signal":9}', 404, "not_found"), (signal, b"{}", 404, "not_found"),
            ("process.Process/SendInput", b'{"process":{"pid":999999},"input":{"stdin":""}}', 404, "not_found"),
            ("process.Process/CloseStdin", b'{"process":{"pid":999999}}', 404, "not_found"),
            ("process.Process/Update", b'{"process":{"pid":999999}}', 404, "not_found")):
        got, answer = unary(daemon, box, method, None, json_type, data)
        same((got, answer.get("code")), (status, code), "%s %s: %s" % (method, data, answer))
        check(isinstance(answer["message"], str) and answer["message"], "it says why: %s" % answer)
    same(unary(daemon, box, list_, {})[0], 200, "with a charset")
    same(unary(daemon, box, list_, None, {"Content-Type": "application/json; charset=utf-8"}, b"{}")[0], 200, "with a charset")
    for kind in ("text/plain", "application/proto", "application/connect+json"):
        same(unary(daemon, box, list_, None, {"Content-Type": kind}, b"{}")[0], 415, kind)
    same(daemon.call("POST", "/process.Process/Start", data=envelope({}), box=box, headers=json_type)[0], 415, "a stream as JSON")
    same(daemon.call("GET", "/process.Process/List", box=box)[0], 405, "GET")
    for path in ("/process.Process/Nope", "/process.Process", "/x/y/z", "/init", "/freeze"):
        same(daemon.call("POST", path, {}, box=box)[0], 404, path)
    user = {"Authorization": "Basic " + b64(b"nobody-here:")}
    same(unary(daemon, box, stat, {"path": "/"}, user), (401, {"code": "unauthenticated", "message": "invalid username: 'nobody-here'"}), "a user")


@test("Connect: streams say in their last envelope how they failed")
def _():
    daemon, box = shared()
    start = "process.Process/Start"
    good = {"process": {"cmd": "true"}}
    for data, code in (
            (b"", "invalid_argument"), (b"\0\0", "invalid_argument"), (envelope(good, size=9999), "invalid_argument"),
            (envelope(good, flags=1), "invalid_argument"), (envelope(good, flags=2), "invalid_argument"), (envelope(good, flags=128), "invalid_argument"),
            (envelope(good) * 2, "invalid_argument"), (envelope(b"{"), "invalid_argument"), (envelope(b"[]"), "invalid_argument"),
            (envelope(b""), "invalid_argument"), (b"\0\xff\xff\xff\xff" + b"x" * 50, "invalid_argument"),
            (envelope({}), "invalid_argument"), (envelope({"process": []}), "invalid_argument"),
            (envelope({"process": {"cmd": "x", "args": [1]}}), "invalid_argument"),
            (envelope({"process": {"cmd": "true", "envs": {"a=": "b"}}}), "invalid_argument"),
            (envelope({"process": {"cmd": "true", "cwd": "/nope"}}), "invalid_argument"),
            (envelope({"process": {"cmd": "/no/such/program"}}), "invalid_argument"),
            (envelope({"process": {"cmd": "true"}, "pty": {"size": {"cols": 70000}}}), "invalid_argument"),
            (envelope({"process": {"cmd": "true"}, "tag": "atoll:x"}), "invalid_argument")):
        got = streamed(daemon, box, start, data)
        same((len(got), error_of(got)), (1, code), "%r: %s" % (data[:60], got))
    same(error_of(streamed(daemon, box, "process.Process/Connect", envelope({"process": {"pid": 999999}}))), "not_found", "Connect")
    got = streamed(daemon, box, start, envelope(good), {"Authorization": "Basic " + b64(b"nobody-here:")})
    same(got, [(2, {"error": {"code": "unauthenticated", "message": "invalid username: 'nobody-here'"}})], "an unknown user")
    for path, code in (("nope", "not_found"), ("/etc/hostname", "invalid_argument")):
        same(error_of(streamed(daemon, box, "filesystem.Filesystem/WatchDir", envelope({"path": path}))), code, path)
    same(daemon.call("POST", "/" + start, data=b"\0" * (17 << 20), box=box, headers=STREAM)[0], 413, "a request of 17 MiB")


@test("processes: they begin in the home, or where they are told to")
def _():
    daemon, box = shared()
    daemon.run(box, "mkdir -p in/here")
    for cwd, where in ((None, b"/home/user"), ("", b"/home/user"), ("~", b"/home/user"), ("~/", b"/home/user"), ("~//in", b"/home/user/in"),
                       ("in/here", b"/home/user/in/here"), ("/tmp", b"/tmp")):
        out = daemon.run(box, "pwd", cwd=cwd)
        same((out.out, out.error), (where + b"\n", None), "cwd %s" % cwd)
    same(daemon.run(box, "pwd", cwd="~", user="root").out, b"/root\n", "the home of root")
    for cwd, message in (("/nope", "cwd '/nope' does not exist"), ("~root", "cwd '~root': of '~' only the own home is supported"),
                         ("/etc/hostname", "cwd '/etc/hostname' cannot be entered")):
        same(daemon.run(box, "pwd", cwd=cwd).error, {"code": "invalid_argument", "message": message}, cwd)


@test("processes: one more than there may be is told so, and the sandbox is not taken for gone")
def _():
    with Daemon(config="base: {pids: 40}\n") as daemon:
        box = daemon.create(timeout=300)
        fork = "import os, time\nwhile True:\n try:\n  if not os.fork(): time.sleep(1000)\n except OSError: break\nprint('full', flush=True)\ntime.sleep(1000)"
        frames = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": PYTHON, "args": ["-c", fork]}, "stdin": False})
        check("start" in next(frames)[1]["event"], "no start")
        check("data" in next(frames)[1]["event"], "nothing is said")
        status, body, headers = daemon.call("GET", "/files?path=x", box=box)
        # Where root has an id of its own inside its guest has a place among the processes of that one.
        if os.geteuid() == 0:
            same((status, body["code"]), (404, 404), "a file: %s" % body)
        else:
            same((status, body["code"], "retry-after" in headers), (429, 429, True), "a file: %s" % body)
            same(error_of(streamed(daemon, box, "filesystem.Filesystem/WatchDir", envelope({"path": "."}))), "resource_exhausted", "a watch")
        error = daemon.run(box, "true").error
        same(error["code"], "resource_exhausted", "a process: %s" % error)


@test("processes: of more than 128 at a time the next is refused as too many")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=300)
        many = []
        for number in range(128):
            many.append(daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "sleep", "args": ["1000"]}, "stdin": False}))
            check("start" in next(many[-1])[1].get("event", {}), "no start of %d" % number)
        same(daemon.run(box, "true").error["code"], "resource_exhausted", "one more")


@test("processes: events in their order, and every form of a selector")
def _():
    daemon, box = shared()
    got = streamed(daemon, box, "process.Process/Start", envelope({"process": {"cmd": "/bin/sh", "args": ["-c", "echo hi; echo err >&2; exit 3"]},
                                                                   "stdin": False}))
    check("pid" in got[0][1]["event"]["start"], "the first is the start: %s" % got)
    same(got[-2][1]["event"]["end"], {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}, "the end")
    same(got[-1], (2, {}), "the last envelope")
    end = streamed(daemon, box, "process.Process/Start", envelope({"process": {"cmd": "true"}}))[-2][1]["event"]["end"]
    check("error" not in end and end["status"] == "exit status 0", "a good end: %s" % end)
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "cat"}, "tag": "my tag"})
    pid = next(events)[1]["event"]["start"]["pid"]
    for selector in ({"pid": pid}, {"pid": str(pid)}, {"tag": "my tag"}):
        same(unary(daemon, box, "process.Process/SendInput", {"process": selector, "input": {"stdin": b64(b"x\n")}}), (200, {}), "%s" % selector)
        same(base64.b64decode(next(events)[1]["event"]["data"]["stdout"]), b"x\n", "%s" % selector)
    listed = [p for p in unary(daemon, box, "process.Process/List", {})[1]["processes"] if p["pid"] == pid]
    same((listed[0]["tag"], listed[0]["config"]["cmd"], listed[0]["config"]["args"]), ("my tag", "cat", []), "the list")
    same(error_of(list(daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "cat"}, "tag": "my tag"}))), "already_exists", "its tag again")
    same(unary(daemon, box, "process.Process/SendInput", {"process": {"pid": pid}, "input": {"pty": "eA=="}})[1]["code"], "internal", "pty for a pipe")
    same(unary(daemon, box, "process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "!"}})[1]["code"], "invalid_argument", "base64")
    same(unary(daemon, box, "process.Process/Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 1, "rows": 1}}})[1]["code"], "internal", "its size")
    same(unary(daemon, box, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGHUP"})[0], 501, "another signal")
    same(unary(daemon, box, "process.Process/CloseStdin", {"process": {"pid": pid}}), (200, {}), "close")
    same(list(events)[-2][1]["event"]["end"]["exitCode"], 0, "its end")


@test("processes: a terminal's rules, a stream of input, and signals")
def _():
    daemon, box = shared()
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "cat"}, "pty": {"size": {"cols": 80, "rows": 24}}})
    pid = next(events)[1]["event"]["start"]["pid"]
    same(unary(daemon, box, "process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "eA=="}})[1]["code"], "internal", "stdin for a pty")
    same(unary(daemon, box, "process.Process/CloseStdin", {"process": {"pid": pid}})[1]["code"], "unknown", "close")
    same(unary(daemon, box, "process.Process/SendInput", {"process": {"pid": pid}, "input": {"pty": b64(b"x\n")}})[0], 200, "input")
    check("pty" in next(events)[1]["event"]["data"], "its output")
    same(unary(daemon, box, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"})[0], 200, "SIGTERM")
    same(list(events)[-2][1]["event"]["end"], {"exitCode": -1, "exited": False, "status": "signal: terminated", "error": "signal: terminated"}, "its end")
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "cat"}})
    pid = next(events)[1]["event"]["start"]["pid"]
    data = [{"start": {"process": {"pid": pid}}}, {"data": {"input": {"stdin": b64(b"one ")}}}, {"keepalive": {}}, {"data": {"input": {"stdin": b64(b"two")}}}]
    same(streamed(daemon, box, "process.Process/StreamInput", b"".join(map(envelope, data))), [(0, {}), (2, {})], "a stream of input")
    same(unary(daemon, box, "process.Process/CloseStdin", {"process": {"pid": pid}})[0], 200, "close")
    same(daemon.collect(events).out, b"one two", "all of it")
    same(error_of(streamed(daemon, box, "process.Process/StreamInput", envelope(data[1]))), "invalid_argument", "no start")


@test("streams: keepalives in silence, and their deadline")
def _():
    daemon, box = shared()
    begun = time.monotonic()
    got = streamed(daemon, box, "process.Process/Start", envelope({"process": {"cmd": "sleep", "args": ["2.5"]}}), {"Keepalive-Ping-Interval": "1"})
    check(sum("keepalive" in f.get("event", {}) for _, f in got) >= 1, "keepalives of a process: %s" % got)
    check("start" in got[0][1]["event"], "which do not come first")
    got = streamed(daemon, box, "process.Process/Start", envelope({"process": {"cmd": "sleep", "args": ["600"]}}), {"Connect-Timeout-Ms": "300"})
    same(error_of(got), "deadline_exceeded", "a deadline")
    pid = got[0][1]["event"]["start"]["pid"]
    come(lambda: pid not in [p["pid"] for p in unary(daemon, box, "process.Process/List", {})[1]["processes"]], "the process's end")
    got = streamed(daemon, box, "filesystem.Filesystem/WatchDir", envelope({"path": "."}), {"Connect-Timeout-Ms": "1400", "Keepalive-Ping-Interval": "1"})
    same((got[0], error_of(got)), ((0, {"start": {}}), "deadline_exceeded"), "a watch's")
    check((0, {"keepalive": {}}) in got, "keepalives of a watch: %s" % got)
    check(time.monotonic() - begun < 60, "it all took long")


@test("streams: Connect's deadline ends the stream alone; who comes late hears the end")
def _():
    daemon, box = shared()
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "cat"}})
    pid = next(events)[1]["event"]["start"]["pid"]
    got = streamed(daemon, box, "process.Process/Connect", envelope({"process": {"pid": pid}}), {"Connect-Timeout-Ms": "200"})
    same(error_of(got), "deadline_exceeded", "the stream")
    check(pid in [p["pid"] for p in unary(daemon, box, "process.Process/List", {})[1]["processes"]], "the process is gone")
    unary(daemon, box, "process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": b64(b"for nobody\n")}})
    same(base64.b64decode(next(events)[1]["event"]["data"]["stdout"]), b"for nobody\n", "its first stream goes on")
    unary(daemon, box, "process.Process/CloseStdin", {"process": {"pid": pid}})
    list(events)
    got = streamed(daemon, box, "process.Process/Connect", envelope({"process": {"pid": pid}}))
    same([list(f.get("event", {})) for _, f in got], [["start"], ["end"], []], "start and end, and nothing of what was said before: %s" % got)


@test("a slow reader has every byte, holds up its process, and nobody else")
def _():
    daemon, box = shared()
    size = 60_000_000
    connection = daemon.connect()
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "/bin/sh", "args": ["-c", "yes 0123456 | head -c %d; echo >done" % size]}},
                           connection=connection)
    next(events)
    time.sleep(0.5)
    same(daemon.run(box, "echo quick").out, b"quick\n", "another command meanwhile")
    same(unary(daemon, box, "filesystem.Filesystem/Stat", {"path": "done"})[0], 404, "the process waits for its reader")
    seen, whole = hashlib.sha256(), 0
    for _, frame in events:
        piece = base64.b64decode(frame.get("event", {}).get("data", {}).get("stdout", ""))
        seen.update(piece)
        whole += len(piece)
    connection.close()
    same((whole, seen.hexdigest()), (size, hashlib.sha256((b"0123456\n" * (size // 8))).hexdigest()), "what was read")


@test("a client that vanishes leaves its process running and its output to nobody")
def _():
    daemon, box = shared()
    connection = daemon.connect()
    events = daemon.stream(box, "/process.Process/Start", {"process": {"cmd": "/bin/sh", "args": ["-c", "head -c 40000000 /dev/zero; echo >through; sleep 600"]}},
                           connection=connection)
    pid = next(events)[1]["event"]["start"]["pid"]
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    come(lambda: unary(daemon, box, "filesystem.Filesystem/Stat", {"path": "through"})[0] == 200, "it went on")
    same(unary(daemon, box, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})[0], 200, "kill")


@test("killing a sandbox cuts its streams in the middle")
def _():
    daemon, _ = shared()
    box = daemon.create(timeout=300)
    parts = urllib.parse.urlsplit(daemon.url)
    with socket.create_connection((parts.hostname, parts.port), 60) as raw:
        data = envelope({"process": {"cmd": "sleep", "args": ["600"]}})
        raw.sendall(b"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n"
                    b"E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n\r\n"
                    % (len(data), box["sandboxID"].encode(), box["envdAccessToken"].encode()) + data)
        text = b""
        while b'"start"' not in text:
            text += raw.recv(65536)
        same(daemon.kill(box), 204, "kill")
        same(daemon.call("GET", "/health", box=box)[0], 502, "not to be found at once")
        try:
            while True:
                piece = raw.recv(65536)
                text += piece
                if not piece:
                    break
        except ConnectionResetError:
            pass
    check(b"\r\n0\r\n\r\n" not in text and b"error" not in text, "a tidy end: %r" % text[-100:])


# ---- /files

def multipart(parts, boundary="xyz", end=True):
    text = b""
    for head, content in parts:
        text += b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (boundary.encode(), head.encode(), content)
    return text + (b"--%s--\r\n" % boundary.encode() if end else b"")


@test("files: errors of downloads, ranges, and what is sent with them")
def _():
    daemon, box = shared()
    octets = {"Content-Type": "application/octet-stream"}
    same(daemon.call("POST", "/files?path=r.bin", data=b"0123456789", box=box, headers=octets)[1],
         [{"path": "/home/user/r.bin", "name": "r.bin", "type": "file"}], "an upload")
    for path, status, message in (("nope", 404, "path '/home/user/nope' does not exist"), ("/", 400, "path '/' is a directory"),
                                  ("~x/y", 400, None), ("x" * 300, 400, None), ("r.bin/x", 400, None)):
        got, answer, _ = daemon.call("GET", "/files?path=" + urllib.parse.quote(path), box=box)
        same((got, answer["code"]), (status, status), "%s: %s" % (path[:40], answer))
        check(message is None or answer["message"] == message, "%s: %s" % (path, answer))
    same(daemon.call("GET", "/files?path=r.bin&username=nobody-here", box=box)[0], 401, "an unknown user")
    for field, status, content, shown in (("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=8-", 206, b"89", "bytes 8-9/10"),
                                          ("bytes=-3", 206, b"789", "bytes 7-9/10"), ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
                                          ("bytes=5-99", 206, b"56789", "bytes 5-9/10"), ("bytes=4-2", 200, b"0123456789", None),
                                          ("bytes=0-1,3-4", 200, b"0123456789", None), ("lines=1-2", 200, b"0123456789", None),
                                          ("bytes=99999999999999999999-", 200, b"0123456789", None)):
        got, body, headers = daemon.call("GET", "/files?path=r.bin", box=box, headers={"Range": field})
        same((got, body, headers.get("content-range")), (status, content, shown), field)
    got, _, headers = daemon.call("GET", "/files?path=r.bin", box=box, headers={"Range": "bytes=10-"})
    same((got, headers.get("content-range")), (416, "bytes */10"), "behind the end")
    got, body, headers = daemon.call("HEAD", "/files?path=r.bin", box=box)
    same((got, body, headers["content-length"]), (200, b"", "10"), "HEAD")
    check("filename*=utf-8''r.bin" in headers["content-disposition"] and headers["vary"] == "Accept-Encoding", "%s" % headers)
    same(daemon.call("GET", "/files?path=r.bin", box=box, headers={"If-Modified-Since": headers["last-modified"]})[0], 304, "not changed")
    same(daemon.call("GET", "/files?path=r.bin", box=box, headers={"Range": "bytes=0-1", "If-Range": headers["last-modified"]})[0], 206, "If-Range")
    same(daemon.call("GET", "/files?path=r.bin", box=box, headers={"Range": "bytes=0-1", "If-Range": "x"})[0], 200, "If-Range, changed")
    same(daemon.call("GET", "/files?path=r.bin", box=box, headers={"Accept-Encoding": "identity;q=0"})[0], 406, "no encoding left")
    same(daemon.call("GET", "/files?path=/proc/sys/kernel/ostype", box=box)[1], b"Linux\n", "what has no size")


@test("files: every form of an upload, and what is no upload")
def _():
    daemon, box = shared()
    form = {"Content-Type": "multipart/form-data; boundary=xyz"}

    def post(query, data, headers):
        return daemon.call("POST", "/files" + query, data=data, box=box, headers=headers)[:2]

    def read(path):
        return daemon.call("GET", "/files?path=" + urllib.parse.quote(path), box=box)[1]

    status, answer = post("", multipart([('name="file"; filename="u/a b.txt"', b"1"), ('name="other"', b"skip"), ('name="file"; filename="u/%22q%22"', b"2")]), form)
    same((status, [e["path"] for e in answer]), (200, ["/home/user/u/a b.txt", '/home/user/u/"q"']), "two files and something else")
    same((read("u/a b.txt"), read('u/"q"')), (b"1", b"2"), "their content")
    same(post("?path=one", multipart([('name="file"', b"plain field")]), form)[0], 200, "without a name of its own")
    same(read("one"), b"plain field", "its content")
    packed = gzip.compress(b"x" * 1000000)
    same(post("?path=g", packed, {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})[0], 200, "gzip")
    same(read("g"), b"x" * 1000000, "unpacked")
    same(post("", gzip.compress(multipart([('name="file"; filename="gm"', b"in a form")])), {**form, "Content-Encoding": "gzip"})[0], 200, "a packed form")
    same(read("gm"), b"in a form", "its content")
    same(daemon.call("POST", "/files?path=c", data=iter([b"a" * 10, b"b" * 70000]), box=box,
                     headers={"Content-Type": "application/octet-stream"})[0], 200, "in chunks")
    same(len(read("c")), 70010, "its size")
    for query, data, headers, status, why in (
            ("", b"x", {"Content-Type": "application/octet-stream"}, 400, "no path"), ("?path=x", b"x", {}, 400, "no type"),
            ("?path=x", b"x", {"Content-Type": "text/plain"}, 400, "another type"), ("?path=u", b"x", {"Content-Type": "application/octet-stream"}, 400, "a directory"),
            ("", multipart([]), form, 400, "no file"), ("", multipart([('name="other"', b"x")]), form, 400, "only something else"),
            ("", multipart([('name="file"', b"x")]), form, 400, "no name"), ("", multipart([('name="file"; filename="cut"', b"x")], end=False), form, 400, "no end"),
            ("", b"rubbish", form, 400, "no form"), ("", b"", {"Content-Type": "multipart/form-data"}, 400, "no boundary"),
            ("", multipart([('name="file"; filename="t"', b"1"), ('name="file"; filename="./t"', b"2")]), form, 400, "twice the same"),
            ("?path=t2", multipart([('name="file"', b"1"), ('name="file"', b"2")]), form, 400, "twice by the query"),
            ("?path=x", b"no gzip", {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}, 400, "no gzip"),
            ("?path=x", b"x", {"Content-Type": "application/octet-stream", "Content-Encoding": "br"}, 415, "another coding"),
            ("?path=x&username=nobody-here", b"x", {"Content-Type": "application/octet-stream"}, 401, "an unknown user"),
            ("?path=x", b"x", {"Content-Type": "application/octet-stream", "X-Metadata-" + "k" * 247: "v"}, 400, "a long key"),
            ("?path=x", b"x", {"Content-Type": "application/octet-stream", "X-Metadata-A": "v" * 4100}, 400, "much metadata")):
        got = post(query, data, headers)
        same(got[0], status, "%s: %s" % (why, got[1]))
        same(got[1]["code"], status, why)


@test("files: composed of pieces; what fills the disk is 507")
def _():
    daemon, box = shared()
    octets = {"Content-Type": "application/octet-stream"}
    for i in range(3):
        daemon.call("POST", "/files?path=part%d" % i, data=b"%d" % i * 3, box=box, headers=octets)
    status, entry, _ = daemon.call("POST", "/files/compose", {"source_paths": ["part0", "part1", "part2"], "destination": "all/of/it"}, box=box)
    same((status, entry["path"]), (200, "/home/user/all/of/it"), "%s" % entry)
    same(daemon.call("GET", "/files?path=all/of/it", box=box)[1], b"000111222", "one behind the other")
    same(daemon.call("GET", "/files?path=part0", box=box)[0], 404, "the pieces")
    same(daemon.call("POST", "/files/compose", {"source_paths": [], "destination": "x"}, box=box)[0], 400, "of nothing")
    same(daemon.call("POST", "/files/compose", {"source_paths": ["nope"], "destination": "x"}, box=box)[0], 404, "of what is not there")
    box = daemon.create(timeout=300)
    body = json.dumps({"source_paths": ["a"] * 100, "destination": "x"}).encode()
    mine = daemon.connect()
    mine.putrequest("POST", "/files/compose")
    for name, value in (("E2b-Sandbox-Id", box["sandboxID"]), ("E2b-Sandbox-Port", "49983"), ("X-Access-Token", box["envdAccessToken"]),
                        ("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
        mine.putheader(name, value)
    mine.endheaders(body[:50])
    same(daemon.call("POST", "/process.Process/List", {}, box=box)[0], 200, "the daemon is behind the first half")
    same(daemon.call("DELETE", "/sandboxes/" + box["sandboxID"])[0], 204, "its end while the body comes")
    mine.send(body[50:])
    same(mine.getresponse().status, 502, "of one that has ended meanwhile")
    mine.close()


def signature(path, operation, token, user="", expiration=None):
    text = ":".join([path, operation, user, token] + ([str(expiration)] if expiration else []))
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@test("files: signed URLs, with and without the sandbox's id")
def _():
    daemon, box = shared()
    token, soon = box["envdAccessToken"], int(time.time()) + 600
    daemon.call("POST", "/files?path=s.txt", data=b"signed", box=box, headers={"Content-Type": "application/octet-stream"})

    def ask(method, query, headers=None, data=None, named=False):
        fields = dict(headers or {})
        if named:
            fields.update({"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983"})
        return daemon.call(method, "/files?" + urllib.parse.urlencode(query), key=None, headers=fields, data=data)[:2]

    good = {"path": "s.txt", "signature": signature("s.txt", "read", token)}
    timed = {**good, "signature": signature("s.txt", "read", token, expiration=soon), "signature_expiration": soon}
    for named in (False, True):
        same(ask("GET", good, named=named), (200, b"signed"), "good")
        same(ask("GET", timed, named=named), (200, b"signed"), "with a time")
        for query, message in (({"path": "s.txt"}, "missing signature query parameter"), ({**good, "signature": "v1_x"}, "invalid signature"),
                               ({**good, "path": "r.bin"}, "invalid signature"), ({**good, "username": "root"}, "invalid signature"),
                               ({**timed, "signature_expiration": soon + 1}, "invalid signature"),
                               ({**good, "signature": signature("s.txt", "write", token)}, "invalid signature"),
                               ({**good, "signature": signature("s.txt", "read", token, expiration=5), "signature_expiration": 5},
                                "signature is already expired")):
            same(ask("GET", query, named=named), (401, {"code": 401, "message": message}), "%s" % query)
        wrong = {"X-Access-Token": "x"}
        same(ask("GET", good, wrong, named=named), (401, {"code": 401, "message": "access token present in header but does not match"}), "a token, too")
        write = {"path": "w%d" % named, "signature": signature("w%d" % named, "write", token)}
        same(ask("POST", write, {"Content-Type": "application/octet-stream"}, b"x", named)[0], 200, "writing")
        same(ask("GET", write, named=named)[0], 401, "reading by what is for writing")
    for long in ({"path": "x" * 4097}, {"username": "u" * 257}, {"signature_expiration": "1" * 257}):
        same(ask("GET", {**good, **long})[0], 400, "longer than what is signed")
    same(ask("GET", {**good, "path": "x" * 4096})[0], 401, "as long as may be")
    same(daemon.call("DELETE", "/files?" + urllib.parse.urlencode(good), key=None)[0], 404, "another method")


@test("watchers that are asked")
def _():
    daemon, box = shared()
    unary(daemon, box, "filesystem.Filesystem/MakeDir", {"path": "asked"})
    status, answer = unary(daemon, box, "filesystem.Filesystem/CreateWatcher", {"path": "asked", "recursive": True, "include_entry": True})
    same(status, 200, "%s" % answer)
    watcher = {"watcherId": answer["watcherId"]}
    same(unary(daemon, box, "filesystem.Filesystem/GetWatcherEvents", watcher), (200, {"events": []}), "nothing yet")
    daemon.call("POST", "/files?path=asked/x", data=b"x", box=box, headers={"Content-Type": "application/octet-stream"})
    seen = []

    def look():
        seen.extend(unary(daemon, box, "filesystem.Filesystem/GetWatcherEvents", watcher)[1]["events"])
        return {"EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE"} <= {e["type"] for e in seen if e["name"] == "x"}

    come(look, "its events")
    same(unary(daemon, box, "filesystem.Filesystem/RemoveWatcher", watcher), (200, {}), "remove")
    same(unary(daemon, box, "filesystem.Filesystem/GetWatcherEvents", watcher)[0], 404, "after that")
    same(unary(daemon, box, "filesystem.Filesystem/CreateWatcher", {"path": "nope"})[0], 404, "of nothing")


# ---- hostile

@test("frames and bodies of chance: the daemon stays, and so does the sandbox")
def _():
    daemon, box = shared()
    dice = random.Random(7)
    methods = ["process.Process/" + m for m in ("Start", "Connect", "List", "SendInput", "CloseStdin", "SendSignal", "Update", "StreamInput")]
    methods += ["filesystem.Filesystem/" + m for m in ("Stat", "ListDir", "MakeDir", "Move", "Remove", "WatchDir", "CreateWatcher", "GetWatcherEvents")]
    seeds = [{"process": {"pid": 1}}, {"process": {"cmd": "true", "args": ["x"]}}, {"path": "/"}, {"process": {"tag": ""}}, {"path": "x" * 5000},
             {"source": "", "destination": ""}, {"watcherId": None}, {"start": {"process": {}}}, {"process": {"cmd": "", "envs": []}}]
    for _ in range(300):
        data = bytearray(envelope(dice.choice(seeds)) if dice.random() < 0.7 else json.dumps(dice.choice(seeds)).encode())
        for _ in range(dice.randrange(4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        headers = {"Content-Type": dice.choice(["application/json", "application/connect+json"]), "Connect-Timeout-Ms": dice.choice(["50", "x", "99999999999"][:1 + dice.randrange(1)])}
        status = daemon.call("POST", "/" + dice.choice(methods), data=bytes(data), box=box, headers=headers)[0]
        check(status in (200, 400, 401, 403, 404, 409, 413, 415, 429, 500, 501, 504), "a status of %d for %r" % (status, bytes(data)))
    same(daemon.run(box, "echo alive").out, b"alive\n", "afterwards")


@test("names that lead out of the sandbox lead nowhere")
def _():
    daemon, box = shared()
    secret = os.path.join(daemon.place, "secret.txt")
    with open(secret, "w") as file:
        file.write("not for you")
    os.chmod(secret, 0o644)
    daemon.run(box, "ln -s %s out; ln -s /proc/1/root/%s out2; mkdir -p d; ln -s / d/root" % (secret, secret))
    for path in (secret, "../../.." + secret, "out", "out2", "d/root" + secret, "/proc/self/root" + secret, "/proc/1/cwd" + secret):
        status, answer, _ = daemon.call("GET", "/files?path=" + urllib.parse.quote(path), box=box)
        check(status in (400, 403, 404) and b"not for you" not in str(answer).encode(), "%s: %s %s" % (path, status, answer))
    daemon.call("POST", "/files?path=" + urllib.parse.quote("../../../../.." + secret), data=b"overwritten", box=box,
                headers={"Content-Type": "application/octet-stream"})
    same(open(secret).read(), "not for you", "the file outside")


@test("at the end the daemon is well, and leaves nothing")
def _():
    daemon, box = shared()
    same(daemon.call("GET", "/health", box=box)[0], 204, "the sandbox")
    check(daemon.process.poll() is None, "the daemon has ended: " + daemon.stderr()[-2000:])
    _shared.clear()
    daemon.__exit__(None, None, None)


try:
    main()
finally:
    if _shared:
        _shared["daemon"].__exit__(Exception, None, None)
