#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Volumes: which there are, and what is in one, with its own token
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: F401,F403


class World:
    daemon = None


def world():
    if not World.daemon:
        World.daemon = Daemon()
    return World.daemon


def volume(name):
    status, body, _ = world().call("POST", "/volumes", {"name": name})
    same(status, 201, "create: %s" % body)
    return body


def ask(volume, method, what, path, token=None, body=None, data=None, **query):
    text = urllib.parse.urlencode({"path": path, **query})
    return world().call(method, "/volumecontent/%s/%s?%s" % (volume["volumeID"], what, text), body, key=None, data=data,
                        headers={"Authorization": "Bearer " + (token or volume["token"])})[:2]


def beneath(volume):
    for place, names, _ in os.walk(world().state):
        if os.path.basename(place) == volume["volumeID"]:
            return os.path.join(place, "data")
    raise Failed("where is the volume?")


@test("a volume is made once, listed, found and removed, by its tenant alone")
def _():
    daemon = world()
    one = volume("first")
    check(one["volumeID"] and one["token"] and one["name"] == "first", "the answer: %s" % one)
    same(daemon.call("POST", "/volumes", {"name": "first"})[0], 409, "twice")
    for name in ("", "a/b", "..", "x" * 65, 7):
        same(daemon.call("POST", "/volumes", {"name": name})[0], 400, "name %r" % (name,))
    same(daemon.call("GET", "/volumes")[1], [{"volumeID": one["volumeID"], "name": "first"}], "the list")
    same(daemon.call("GET", "/volumes/" + one["volumeID"])[1], one, "by its id")
    other = daemon.make_key("other")
    same(daemon.call("GET", "/volumes", key=other)[1], [], "another tenant's list")
    same(daemon.call("GET", "/volumes/" + one["volumeID"], key=other)[0], 404, "another tenant")
    same(daemon.call("DELETE", "/volumes/" + one["volumeID"], key=other)[0], 404, "removed by another")
    same(daemon.call("DELETE", "/volumes/" + one["volumeID"])[0], 204, "removed")
    same(daemon.call("DELETE", "/volumes/" + one["volumeID"])[0], 404, "twice")
    for strange in ("..", "%2e%2e%2fdata", "v" + "0" * 20, "x" * 300):
        same(daemon.call("GET", "/volumes/" + strange)[0], 404, strange)


@test("files are written and read, and not by who has another token")
def _():
    mine, other = volume("files"), volume("others")
    status, body = ask(mine, "PUT", "file", "/a.txt", data=b"hello")
    same((status, body["path"], body["name"], body["size"], body["type"]), (201, "/a.txt", "a.txt", 5, "file"), "written")
    same(ask(mine, "GET", "file", "a.txt"), (200, b"hello"), "read")
    same(ask(mine, "PUT", "file", "a.txt", data=b"again")[0], 409, "over it")
    same(ask(mine, "PUT", "file", "a.txt", data=b"again", force="true")[0], 201, "by force")
    same(ask(mine, "GET", "file", "a.txt"), (200, b"again"), "read")
    same(ask(mine, "GET", "file", "nope")[0], 404, "not there")
    same(ask(mine, "GET", "file", "/")[0], 400, "a directory")
    same(ask(mine, "PUT", "file", "no/such/dir", data=b"x")[0], 404, "no parent")
    same(ask(mine, "GET", "file", "a.txt", token=other["token"])[0], 401, "another volume's token")
    same(ask(mine, "GET", "file", "a.txt", token="x")[0], 401, "no token")
    same(world().call("GET", "/volumecontent/%s/file?path=a.txt" % mine["volumeID"])[0], 401, "a key is no token")
    big = os.urandom(3 << 20)
    same(ask(mine, "PUT", "file", "big", data=big)[0], 201, "big")
    check(ask(mine, "GET", "file", "big")[1] == big, "big is other bytes")
    same(os.listdir(os.path.join(beneath(mine), "..", "draft")), [], "drafts")


@test("directories, lists, numbers and removing")
def _():
    mine = volume("dirs")
    same(ask(mine, "POST", "dir", "a/b/c")[0], 404, "no parents")
    status, body = ask(mine, "POST", "dir", "a/b/c", force="true", uid=7, gid=8, mode=0o750)
    same((status, body["path"], body["uid"], body["gid"], body["mode"]), (201, "/a/b/c", 7, 8, 0o750), "by force")
    same(ask(mine, "POST", "dir", "a")[0], 409, "twice")
    ask(mine, "PUT", "file", "a/b/f", data=b"x")
    same([entry["path"] for entry in ask(mine, "GET", "dir", "/")[1]], ["/a"], "one level")
    same([entry["path"] for entry in ask(mine, "GET", "dir", "", depth=9)[1]], ["/a", "/a/b", "/a/b/c", "/a/b/f"], "all")
    status, body = ask(mine, "PATCH", "path", "a/b/f", body={"mode": 0o600, "uid": 5})
    same((status, body["mode"], body["uid"]), (200, 0o600, 5), "changed")
    same(ask(mine, "PATCH", "path", "a/b/f", body={"mode": -1})[0], 400, "no mode")
    same(ask(mine, "GET", "path", "a/b/f")[1]["uid"], 5, "kept")
    same(ask(mine, "DELETE", "path", "a")[0], 204, "removed")
    same(ask(mine, "DELETE", "path", "a")[0], 404, "twice")
    same(ask(mine, "GET", "dir", "/")[1], [], "empty")
    same(ask(mine, "GET", "dir", "x")[0], 404, "not there")
    same(ask(mine, "DELETE", "path", "/")[0], 409, "all of it")
    same(ask(mine, "GET", "path", "x/" * 100)[0], 400, "too deep")


@test("no path and no link leads out of a volume")
def _():
    mine = volume("links")
    data = beneath(mine)
    outside = os.path.join(world().place, "outside")
    os.mkdir(outside)
    with open(os.path.join(outside, "secret"), "w") as file:
        file.write("secret")
    os.symlink(outside, os.path.join(data, "dir"))
    os.symlink(os.path.join(outside, "secret"), os.path.join(data, "file"))
    os.mkfifo(os.path.join(data, "fifo"))
    for path in ("dir/secret", "file", "../../../outside/secret", "/../" * 20 + outside + "/secret", "../meta", "dir"):
        status, body = ask(mine, "GET", "file", path)
        check(status // 100 == 4, "%s: %s %s" % (path, status, body))
    same(ask(mine, "PUT", "file", "dir/new", data=b"x")[0], 404, "written behind a link")
    same(ask(mine, "PUT", "file", "file", data=b"x", force="true")[0], 201, "a link is replaced")
    same(ask(mine, "POST", "dir", "dir/new", force="true")[0] // 100, 4, "made behind a link")
    same(ask(mine, "GET", "file", "fifo")[0], 400, "a FIFO")
    same(ask(mine, "PATCH", "path", "dir/secret", body={"mode": 0})[0], 404, "changed behind a link")
    same(ask(mine, "DELETE", "path", "dir/secret")[0], 404, "removed behind a link")
    entry = ask(mine, "GET", "path", "dir")[1]
    same((entry["type"], entry["target"]), ("symlink", outside), "told as what it is")
    same(ask(mine, "DELETE", "path", "dir")[0], 204, "the link itself")
    with open(os.path.join(outside, "secret")) as file:
        same(file.read(), "secret", "what is outside")
    same(os.listdir(outside), ["secret"], "and nothing else")


@test("a box with a volume is refused, not made without it")
def _():
    volume("mounted")
    status, body, _ = world().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "mounted", "path": "/mnt"}]})
    same(status, 400, "the answer: %s" % body)
    check("volumeMounts" in body["message"], "what it is about: %s" % body)
    same(world().call("GET", "/v2/sandboxes")[1], [], "boxes")


@test("a client that goes in the middle leaves what was there; a volume outlives the daemon")
def _():
    mine = volume("broken")
    ask(mine, "PUT", "file", "f", data=b"old")
    connection = world().connect()
    connection.putrequest("PUT", "/volumecontent/%s/file?path=f&force=true" % mine["volumeID"])
    connection.putheader("Authorization", "Bearer " + mine["token"])
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(b"new" * 1000)
    drafts = os.path.join(beneath(mine), "..", "draft")
    check(until(lambda: os.listdir(drafts)), "a draft")
    connection.close()
    check(until(lambda: not os.listdir(drafts)), "the draft is left")
    same(ask(mine, "GET", "file", "f"), (200, b"old"), "what was there")
    with open(os.path.join(drafts, "left"), "w"):
        pass
    world().crash()
    world().start()
    same(ask(mine, "GET", "file", "f"), (200, b"old"), "after kill -9")
    same(os.listdir(drafts), [], "what a killed daemon had left")


@test("everything ends")
def _():
    daemon, World.daemon = world(), None
    same(daemon.stop(), 0, "stopped")
    daemon.__exit__(None, None, None)


main()
