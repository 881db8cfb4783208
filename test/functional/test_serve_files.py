#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Files in a box, over HTTP: the program inside, and that nothing it could say or meet there harms the daemon
"""

import gzip
import hashlib
import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: F401,F403

QUOTE = urllib.parse.quote


class World:
    """One daemon and one box for all tests here: what they do to files does not meet."""

    daemon = box = None


def world():
    if not World.daemon:
        World.daemon = Daemon()
        World.box = World.daemon.create(timeout=600)
    return World.daemon, World.box


def put(path, data, user=None, **headers):
    daemon, box = world()
    query = "path=" + QUOTE(path, safe="") + ("&username=" + user if user else "")
    fields = {"Content-Type": "application/octet-stream", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return daemon.call("POST", "/files?" + query, data=data, headers=fields, box=box)[:2]


def get(path, user=None):
    daemon, box = world()
    query = "path=" + QUOTE(path, safe="") + ("&username=" + user if user else "")
    return daemon.call("GET", "/files?" + query, box=box)[:2]


def ask(name, user=None, **message):
    daemon, box = world()
    headers = {"Connect-Protocol-Version": "1"}
    if user:
        headers["Authorization"] = "Basic " + base64.b64encode((user + ":").encode()).decode()
    return daemon.call("POST", "/filesystem.Filesystem/" + name, message, headers=headers, box=box)[:2]


def shell(script, **options):
    daemon, box = world()
    done = daemon.run(box, script, **options)
    same(done.code, 0, "%s: %s %s" % (script, done.err, done.error))
    return done.out


def names(entries):
    return [entry["path"] for entry in entries]


@test("what is written is read, by a command inside and from outside")
def _():
    status, body = put("a.txt", b"hello world")
    same((status, body), (200, [{"path": "/home/user/a.txt", "name": "a.txt", "type": "file"}]), "the answer")
    same(get("a.txt"), (200, b"hello world"), "read again")
    same(shell("cat ~/a.txt"), b"hello world", "as a command sees it")
    same(put("a.txt", b"")[0], 200, "emptied")
    same(get("/home/user/a.txt"), (200, b""), "empty")
    status, body = put("deep/er/than/before", b"x")
    same(body[0]["path"], "/home/user/deep/er/than/before", "with its parents")
    same(shell("stat -c '%a %U' deep/er deep/er/than/before"), b"755 user\n644 user\n", "modes and owner")


@test("ten million bytes come back as they went")
def _():
    data = os.urandom(1 << 20) * 10
    same(put("big", data)[0], 200, "written")
    status, body = get("big")
    check(status == 200 and body == data, "read: %s, %d bytes" % (status, len(body)))


@test("what is not there, what is a directory, who is unknown")
def _():
    same(get("nope"), (404, {"code": 404, "message": "path '/home/user/nope' does not exist"}), "missing")
    status, body = get("/home/user")
    same((status, body["message"]), (400, "path '/home/user' is a directory"), "read a directory")
    same(put("/home/user", b"x")[0], 400, "write a directory")
    same(get("a.txt", user="nobody-such")[0], 401, "unknown user")
    same(ask("Stat", path="zzz")[0], 404, "stat")
    same(ask("ListDir", path="zzz")[0], 404, "list")
    put("plain", b"")
    same(ask("ListDir", path="plain")[0], 400, "list a file")
    same(ask("MakeDir", path="plain")[0], 400, "a file is in the way")
    same(ask("Stat", path="~other/x")[0], 400, "somebody's home")
    same(ask("Remove", path="zzz"), (200, {}), "remove nothing")


@test("hostile names go out and come back")
def _():
    raw = "we \"ird\\ \n\t\x1b[2J é \u202e ~ %41 'x"
    same(put("names/" + raw, b"1")[0], 200, "written")
    status, body = ask("ListDir", path="names")
    same(names(body["entries"]), ["/home/user/names/" + raw], "listed")
    same(get("names/" + raw), (200, b"1"), "read")
    same(ask("Move", source="names/" + raw, destination="names/-rf")[0], 200, "moved")
    same(ask("Remove", path="names/-rf")[0], 200, "removed")
    same(ask("ListDir", path="names")[1].get("entries", []), [], "gone")
    shell(r"printf x >names/$'\xff\xfe'")
    status, body = ask("ListDir", path="names")
    same((status, len(body["entries"])), (200, 1), "no UTF-8 at all")
    same(ask("ListDir", path="/" + "x" * 5000)[0] // 100, 4, "too long")
    same(ask("Stat", path="../../../../../home/user/a.txt/../../user")[1]["entry"]["path"], "/home/user", "dots")


@test("links lead where they lead inside, and nowhere else")
def _():
    with open("/etc/hostname") as file:
        host = file.read()
    shell("mkdir -p links; cd links; ln -sf /etc/hostname host; ln -sf ../a.txt file; ln -sf nowhere dangling; "
          "ln -sf loop loop; ln -sf / root; echo own >~/a.txt; mkdir -p real; touch real/f; ln -sfn real dir")
    status, body = ask("Stat", path="links/file")
    entry = body["entry"]
    same((entry["type"], entry["symlinkTarget"], entry["permissions"][0]),
         ("FILE_TYPE_FILE", "/home/user/a.txt", "L"), "a link")
    entry = ask("Stat", path="links/dangling")[1]["entry"]
    same((entry.get("type", "FILE_TYPE_UNSPECIFIED"), entry["symlinkTarget"]),
         ("FILE_TYPE_UNSPECIFIED", "/home/user/links/dangling"), "a dangling link")
    same(get("links/file"), (200, b"own\n"), "read through it")
    status, body = get("links/host")
    check(status != 200 or body.decode() != host or host == shell("cat /etc/hostname").decode(), "the host's file")
    same(get("links/root/home/user/a.txt"), (200, b"own\n"), "the box's root")
    same(names(ask("ListDir", path="links/dir")[1]["entries"]), ["/home/user/links/dir/f"], "the prefix stays")
    check("/home/user/links/dir/f" not in names(ask("ListDir", path="links", depth=5)[1]["entries"]), "walked through a link")
    same(ask("ListDir", path="links/loop")[0], 400, "a loop")
    same(put("links/out", b"x")[0], 200, "beside them")
    same(ask("Remove", path="links")[0], 200, "removed")
    same(get("a.txt"), (200, b"own\n"), "what a removed link led to")


@test("a large file arrives whole, however it is cut up, and the connection goes on")
def _():
    daemon, box = world()
    connection, data = daemon.connect(), os.urandom(1 << 20) * 5 + b"end"
    digest = hashlib.sha256(data).hexdigest()
    form = (b"--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cut/form-1\"\r\n\r\n" + data +
            b"\r\n--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cut/form-2\"\r\n\r\n" + data + b"\r\n--xx--\r\n")
    raw, multi = "application/octet-stream", "multipart/form-data; boundary=xx"
    for name, body, size, fields in (
            ("small", data, 8192, {"Content-Type": raw}), ("odd", data, 100003, {"Content-Type": raw}),
            ("packed", gzip.compress(data, 1), 8192, {"Content-Type": raw, "Content-Encoding": "gzip"}),
            ("chunked", data, 65536, {"Content-Type": raw, "Transfer-Encoding": "chunked"}),
            ("long-chunks", data, 1 << 20, {"Content-Type": raw, "Transfer-Encoding": "chunked"}),
            (None, form, 8192, {"Content-Type": multi})):
        is_chunked = "Transfer-Encoding" in fields
        pieces = (body[at:at + size] for at in range(0, len(body), size))
        if not is_chunked:
            fields["Content-Length"] = str(len(body))
        fields.update({"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": box["envdAccessToken"]})
        connection.request("POST", "/files" + ("?path=cut/" + name if name else ""), pieces, fields, encode_chunked=is_chunked)
        answer = connection.getresponse()
        same((answer.status, len(json.loads(answer.read()))), (200, 1 if name else 2), name or "form")
    same(shell("cd cut; ls; sha256sum * | cut -d' ' -f1 | sort -u").decode().split(),
         ["chunked", "form-1", "form-2", "long-chunks", "odd", "packed", "small", digest], "what there is")
    connection.close()


@test("what comes slowly is taken, and what breaks off is noticed")
def _():
    daemon, box = world()
    parts = urllib.parse.urlsplit(daemon.url)
    head = "POST /files?path=slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n" + "".join(
        "%s: %s\r\n" % pair for pair in (("E2b-Sandbox-Id", box["sandboxID"]), ("E2b-Sandbox-Port", "49983"), ("X-Access-Token", box["envdAccessToken"]))) + "\r\n"
    with socket.create_connection((parts.hostname, parts.port), 60 * SLOW) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall((head % 1000).encode())
        for _ in range(1000):
            client.sendall(b"x")
        check(b"200 OK" in client.recv(4096), "the answer")
    same(get("slow"), (200, b"x" * 1000), "the file")
    client = socket.create_connection((parts.hostname, parts.port), 60 * SLOW)
    client.sendall((head % 1000000).encode() + b"y" * 1000)
    client.shutdown(socket.SHUT_WR)
    same(client.recv(4096), b"", "who ends too early is told nothing")
    client.close()


@test("a list is in the order of bytes, and a directory stands before what it holds")
def _():
    shell("mkdir -p order/b/c; cd order; touch a b/c/d b/a b.x Z; ")
    entries = ask("ListDir", path="order", depth=3)[1]["entries"]
    same([name[len("/home/user/order/"):] for name in names(entries)], ["Z", "a", "b", "b/a", "b/c", "b/c/d", "b.x"], "all")
    same(len(ask("ListDir", path="order")[1]["entries"]), 4, "one level")


@test("ten thousand entries, and a tree deeper than any path")
def _():
    shell("mkdir -p many; cd many; seq -w 0 9999 | xargs touch")
    entries = ask("ListDir", path="many")[1]["entries"]
    same([entry["name"] for entry in entries], ["%04d" % i for i in range(10000)], "the names")
    same(ask("Remove", path="many"), (200, {}), "removed")
    # Not in the home: in a layer that deep, files are counted by what all of the host's file system has.
    shell("python3 -c \"import os\nos.mkdir('/tmp/deep-tree'); os.chdir('/tmp/deep-tree')\n"
          "for i in range(3000): os.mkdir('down'); os.chdir('down')\"")
    status, body = ask("ListDir", path="/tmp/deep-tree", depth=100000)
    check(status == 200 and len(body["entries"]) > 500, "listed: %s" % status)
    same(ask("Remove", path="/tmp/deep-tree"), (200, {}), "removed")
    same(ask("Stat", path="/tmp/deep-tree")[0], 404, "gone")


@test("what has no size is read to its end, and a FIFO keeps nobody waiting")
def _():
    status, body = get("/proc/self/status")
    check(status == 200 and body.startswith(b"Name:"), "procfs: %s %s" % (status, body[:50]))
    shell("mkfifo -m 666 fifo")
    same(get("fifo"), (200, b""), "nobody writes")
    same(put("fifo", b"x")[0] // 100, 4, "written")
    same(get("a.txt")[0], 200, "others are served")
    status, body = get("/dev/null")
    same((status, body), (200, b""), "a device")


@test("moving makes parents, and reaches from one file system to another")
def _():
    shell("mkdir -p tree/sub; echo 1 >tree/sub/f; ln -s sub/f tree/l; chmod 700 tree/sub")
    status, body = ask("Move", source="tree", destination="/tmp/moved/here")
    same((status, body.get("entry", {}).get("path")), (200, "/tmp/moved/here"), "to /tmp: %s" % body)
    same(shell("cat /tmp/moved/here/l; stat -c %a /tmp/moved/here/sub; test -e tree || echo gone"), b"1\n700\ngone\n", "there")
    same(ask("Move", source="/tmp/moved/here", destination="back")[0], 200, "and back")
    same(get("back/sub/f"), (200, b"1\n"), "its file")
    same(ask("Move", source="tree", destination="x")[0], 404, "not there")
    shell("mkdir -p own; echo 2 >own/f")
    for to in ("/home/user/in/it", "/tmp/elsewhere"):
        status, body = ask("Move", source="/home/user", destination=to)
        same((status, body["message"]), (500, "path '/home/user': Device or resource busy"), "the home, to %s" % to)
        same(shell("cat own/f; test -e %s || echo none" % to), b"2\nnone\n", "what it holds after that")
    shell("echo 3 >/tmp/kept")
    status, body = ask("Move", source="/tmp", destination="there")  # of the same file system as what is above it
    same((status, body["message"]), (500, "path '/tmp': Device or resource busy"), "/tmp")
    same(shell("cat /tmp/kept; test -e there || echo none"), b"3\nnone\n", "what it holds after that")


@test("metadata stays with a file, and the next upload replaces it")
def _():
    status, body = put("meta", b"x", X_Metadata_Author="me", X_Metadata_Kind="k")
    same(status, 200, "written")
    entry = ask("Stat", path="meta")[1]["entry"]
    if "metadata" not in entry:
        skip("a file system with extended attributes")
    same(entry["metadata"], {"author": "me", "kind": "k"}, "told")
    same(body[0].get("metadata"), {"author": "me", "kind": "k"}, "in the answer")
    put("meta", b"y")
    check("metadata" not in ask("Stat", path="meta")[1]["entry"], "still there")


@test("root's files are his, and what the API makes there is the user's")
def _():
    same(put("/root/r", b"root's", user="root")[0], 200, "as root")
    same(get("/root/r", user="root"), (200, b"root's"), "read as root")
    status, body = put("/newtop/dir/f", b"x")
    same(status, 200, "a directory at the top: %s" % body)
    same(shell("cat /newtop/dir/f"), b"x", "a command reads it")
    if os.geteuid() == 0:
        same(shell("stat -c %U /newtop/dir /newtop/dir/f"), b"user\nuser\n", "whose it is")


def watch(path, **options):
    daemon, box = world()
    connection = daemon.connect()
    frames = daemon.stream(box, "/filesystem.Filesystem/WatchDir", {"path": path, **options}, connection=connection)
    same(next(frames)[1], {"start": {}}, "the first message")
    return connection, frames


def await_event(frames, name, kind):
    for _, frame in frames:
        event = frame.get("filesystem", {})
        if (event.get("name"), event.get("type")) == (name, "EVENT_TYPE_" + kind):
            return event
    raise Failed("the stream ended before %s %s" % (kind, name))


@test("a watch tells what happens, also in directories that are made meanwhile")
def _():
    shell("mkdir -p w/sub")
    connection, frames = watch("w", recursive=True, includeEntry=True)
    put("w/f", b"text")
    event = await_event(frames, "f", "CREATE")
    same(event["entry"]["path"], "/home/user/w/f", "the entry")
    await_event(frames, "f", "WRITE")
    shell("mkdir -p w/new/er; echo 1 >w/new/er/file; mv w/f w/g")
    await_event(frames, "new/er/file", "CREATE")
    await_event(frames, "f", "RENAME")
    await_event(frames, "g", "CREATE")
    put("w/new/er/later", b"")
    await_event(frames, "new/er/later", "CREATE")
    shell("rm w/g; for i in $(seq 30); do mkdir w/race$i; echo 1 >w/race$i/f; done")
    await_event(frames, "g", "REMOVE")
    for i in range(1, 31):
        await_event(frames, "race%d/f" % i, "CREATE")
    connection.close()
    same(get("w/new/er/later")[0], 200, "others are served")


@test("a guest that is killed or stopped harms nobody, and another one comes")
def _():
    same(get("a.txt")[0], 200, "before")
    for _ in range(3):
        shell("pkill -KILL -x guest || sudo -n pkill -KILL -x guest || true")
        # Who asks while it dies is told so.
        check(until(lambda: get("a.txt")[0] == 200), "nobody answers after its end")
    daemon, box = world()
    other = daemon.create(timeout=600)
    same(daemon.call("GET", "/files?path=none", box=other)[0], 404, "another box")
    daemon.kill(other)


@test("the daemon's end takes no file, and its next start finds them")
def _():
    daemon, box = world()
    put("kept", b"still here")
    daemon.crash()
    daemon.start()
    same(get("kept"), (200, b"still here"), "after kill -9")


@test("everything ends")
def _():
    daemon, box = world()
    same(daemon.kill(box), 204, "killed")
    World.daemon = None
    same(daemon.stop(), 0, "stopped")
    daemon.__exit__(None, None, None)


main()
