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


def box(name, path="/mnt/data", key=Daemon, **more):
    """The answer to a create with a volume."""
    return world().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": name, "path": path}], **more},
                        **({} if key is Daemon else {"key": key}))[:2]


def make_box(name, path="/mnt/data", **more):
    status, body = box(name, path, **more)
    same(status, 201, "create: %s" % body)
    return body


def told(place, script, user="user"):
    got = world().run(place, script, user=user)
    same(got.code, 0, "%r: %s" % (script, got.err))
    return got.out.decode()


@test("two boxes share a volume, and the API sees the same files, one owner's on the host")
def _():
    mine = volume("shared")
    ask(mine, "PUT", "file", "greeting", data=b"hello\n")
    one, two = make_box("shared"), make_box("shared", "/data")
    same(told(one, "cat /mnt/data/greeting; stat -c '%U %G' /mnt/data /mnt/data/greeting; echo one >/mnt/data/x; mkdir -p /mnt/data/d/e; echo $$ >/mnt/data/d/e/f"),
         "hello\nuser user\nuser user\n", "one")
    same(told(two, "cat /data/x; echo two >>/data/x; rm -r /data/d; ls /data; test -e /mnt/data || echo none"), "one\ngreeting\nx\nnone\n", "two")
    same(told(one, "cat /mnt/data/x"), "one\ntwo\n", "one again")
    same(told(two, "echo root >/data/roots; echo more >>/data/x; stat -c %U /data/roots", "root"), "user\n" if IS_ROOT else told(two, "id -un").strip() + "\n", "what root makes")
    same(told(one, "echo mine >>/mnt/data/roots; cat /mnt/data/roots"), "root\nmine\n", "is the user's")
    same(ask(mine, "GET", "file", "x"), (200, b"one\ntwo\nmore\n"), "by the API")
    ask(mine, "PUT", "file", "late", data=b"late\n")
    same(told(two, "echo again >>/data/late; cat /data/late"), "late\nagain\n", "what the API has made")
    for name in os.listdir(beneath(mine)):
        st = os.lstat(os.path.join(beneath(mine), name))
        same((st.st_uid, st.st_gid), (os.geteuid(), os.getegid()), "whose %s is" % name)
    same(world().call("GET", "/sandboxes/" + one["sandboxID"])[1]["volumeMounts"], [{"name": "shared", "path": "/mnt/data"}], "what is told")
    for place in (one, two):
        world().kill(place)


@test("what holds for a grant holds for a volume: protected names, no way out, the home apart")
def _():
    mine = volume("guarded")
    place = make_box("guarded")
    outside = os.path.join(world().place, "canary")
    with open(outside, "w") as file:
        file.write("canary")
    os.symlink(outside, os.path.join(beneath(mine), "link"))
    got = told(place, "cd /mnt/data; (echo x >.envrc) 2>/dev/null || echo no; mkdir p p/.git p/.git/hooks; (echo x >p/.git/hooks/pre-commit) 2>/dev/null || echo no; "
               "cat link 2>/dev/null || echo none; (echo x >link) 2>/dev/null || echo none; (mv /mnt/data /mnt/x) 2>/dev/null || echo stays; (ln /mnt/data/f ~/f) 2>/dev/null || echo apart; "
               "(mkdir /mnt/beside) 2>/dev/null || echo closed; ls %s 2>/dev/null || echo gone; touch ~/own; echo x >/tmp/x; echo end" % os.path.dirname(beneath(mine)))
    same(got, "no\nno\nnone\nnone\nstays\napart\nclosed\ngone\nend\n", "inside")
    with open(outside) as file:
        same(file.read(), "canary", "what is outside")
    same(sorted(os.listdir(os.path.dirname(beneath(mine)))), ["data", "draft", "meta"], "beside it")
    world().kill(place)


@test("a box with a volume that cannot be had is refused, not made without it")
def _():
    volume("one")
    other = world().make_key("another")
    cases = [box("nobody-made-it"), box("one", key=other), box("../one"), box("one", "relative"), box("one", "/a/../b"), box("one", "/x=y"), box("one", ""),
             *[box("one", path) for path in ("/", "/proc", "/proc/x", "/dev/shm", "/run/atoll", "/usr/x", "/etc/passwd", "/home", "/home/user", "/home/user/data", "/root", "/tmp", "/var")]]
    many = [{"name": "one", "path": "/a"}, {"name": "one", "path": "/b"}]
    for mounts in (many, [{"name": "one", "path": "/a"}] * 17, [{"name": 1, "path": "/a"}], [{"path": "/a"}], ["one"], {"name": "one"}, [{"name": "one", "path": "/a\x00b"}]):
        cases.append(world().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": mounts})[:2])
    for status, body in cases:
        same(status, 400, "the answer: %s" % body)
        check(world().state not in body["message"], "names of the host: %s" % body)
    same(world().call("GET", "/v2/sandboxes")[1], [], "boxes")
    same(world().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": []})[0], 201, "no volumes")
    world().kill(world().call("GET", "/v2/sandboxes")[1][0])


@test("a volume in use cannot be removed: not by a running box's, a paused one's or a fork's side")
def _():
    mine = volume("busy")
    place = make_box("busy")
    told(place, "echo kept >/mnt/data/f")
    status, body, _ = world().call("DELETE", "/volumes/" + mine["volumeID"])
    same(status, 409, "in use: %s" % body)
    check(place["sandboxID"] in body["message"], "by whom: %s" % body)
    forks = world().call("POST", "/sandboxes/%s/fork" % place["sandboxID"], {"count": 1})
    same(forks[0], 201, "a fork: %s" % (forks[1],))
    fork = forks[1][0].get("sandbox", forks[1][0])
    same(told(fork, "cat /mnt/data/f; echo fork >>/mnt/data/f"), "kept\n", "the fork")
    same(told(place, "cat /mnt/data/f"), "kept\nfork\n", "shared, not copied")
    world().kill(fork)
    same(world().call("POST", "/sandboxes/%s/pause" % place["sandboxID"], {"memory": False})[0], 204, "paused")
    same(world().call("DELETE", "/volumes/" + mine["volumeID"])[0], 409, "of a paused one")
    same(world().call("POST", "/sandboxes/%s/connect" % place["sandboxID"], {"timeout": 60})[0] // 100, 2, "resumed")
    same(told(place, "cat /mnt/data/f"), "kept\nfork\n", "after the pause")
    world().kill(place)
    same(world().call("DELETE", "/volumes/" + mine["volumeID"])[0], 204, "free again")
    check(until(lambda: not [name for name in os.listdir(os.path.join(world().state, "volumes")) if mine["volumeID"] in name]), "what was in it is left")


@test("a snapshot has no volumes; who makes a box from it says which")
def _():
    mine = volume("apart")
    place = make_box("apart")
    told(place, "echo v >/mnt/data/f; echo home >~/f")
    status, snapshot, _ = world().call("POST", "/sandboxes/%s/snapshots" % place["sandboxID"], {})
    same(status, 201, "a snapshot: %s" % snapshot)
    world().kill(place)
    plain = world().call("POST", "/v2/sandboxes", {"templateID": snapshot["snapshotID"]})[1]
    same(told(plain, "cat ~/f; test -e /mnt/data/f || echo none"), "home\nnone\n", "without")
    again = make_box("apart", "/elsewhere", templateID=snapshot["snapshotID"])
    same(told(again, "cat ~/f /elsewhere/f; echo more >>/elsewhere/f"), "home\nv\n", "with")
    same(ask(mine, "GET", "file", "f"), (200, b"v\nmore\n"), "in the volume")
    for one in (plain, again):
        world().kill(one)
    same(world().call("DELETE", "/volumes/" + mine["volumeID"])[0], 204, "the snapshot does not hold it")


@test("boxes and their volumes outlive the daemon")
def _():
    mine = volume("lasting")
    place = make_box("lasting")
    told(place, "echo before >/mnt/data/f")
    world().crash()
    world().start()
    same(told(place, "cat /mnt/data/f; echo after >>/mnt/data/f"), "before\n", "after kill -9")
    same(world().call("GET", "/sandboxes/" + place["sandboxID"])[1]["volumeMounts"], [{"name": "lasting", "path": "/mnt/data"}], "what is told")
    same(world().call("DELETE", "/volumes/" + mine["volumeID"])[0], 409, "still in use")
    world().kill(place)
    same(ask(mine, "GET", "file", "f"), (200, b"before\nafter\n"), "what it holds")


@test("what a box leaves in a volume can be told and removed, whatever it is")
def _():
    mine = volume("strange")
    place = make_box("strange")
    told(place, "cd /mnt/data; mkdir closed; echo x >closed/f; chmod 000 closed; mkfifo fifo; ln -s / other 2>/dev/null && exit 1; touch -- $'new\\nline'; i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done")
    os.symlink("/", os.path.join(beneath(mine), "root"))  # no box can leave a link out of its volume
    same(sorted(one["name"] for one in ask(mine, "GET", "dir", "/")[1]), sorted(["closed", "fifo", "root", "new\nline", "d"]), "listed")
    same(ask(mine, "GET", "file", "root/etc/passwd")[0], 404, "behind a link")
    world().kill(place)
    same(world().call("DELETE", "/volumes/" + mine["volumeID"])[0], 204, "removed")
    check(until(lambda: not [name for name in os.listdir(os.path.join(world().state, "volumes")) if mine["volumeID"] in name]),
          "left: %s" % os.listdir(os.path.join(world().state, "volumes")))


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
