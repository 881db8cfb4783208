#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots, forks, pauses without memory and template builds keep what is written outside the home; as root."""

import io
import os
import sys
import tarfile
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from package import *
from serving import *


def archive(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def build(daemon, name, steps, below="base"):
    status, asked, _ = daemon.call("POST", "/v3/templates", {"name": name})
    same(status, 202, str(asked))
    template, number = asked["templateID"], asked["buildID"]
    status, told, _ = daemon.call("POST", "/v2/templates/%s/builds/%s" % (template, number), {"fromTemplate": below, "steps": steps})
    same(status, 202, str(told))
    path = "/templates/%s/builds/%s/status" % (template, number)
    until(lambda: daemon.call("GET", path)[1]["status"] in ("ready", "error"), 120)
    return daemon.call("GET", path + "?logsOffset=0")[1]


def look(daemon, box, command, user="root"):
    done = daemon.run(box, command, user=user)
    check(done.code == 0, "%s: %s %s %s" % (command, done.code, done.err, done.error))
    return done.out.decode()


@test("the daemon: snapshots, forks and pauses without memory hold the whole file system")
def _():
    need_roots()
    need("dpkg", "dpkg-deb")
    with Daemon() as daemon:
        box = daemon.create(timeout=120)
        look(daemon, box, PACKAGE + "echo x >/usr/local/atoll-kept; mkdir /atoll-data; chown user /atoll-data; echo r >/root/r; rm /usr/bin/yes")
        look(daemon, box, "echo mine >/atoll-data/mine; echo home >~/h", user="user")
        whole = "cat /usr/local/atoll-kept /atoll-data/mine /root/r /home/user/h; stat -c %U /atoll-data/mine; ls /usr/bin/yes 2>/dev/null; " + IS_PACKAGE
        wanted = "x\nmine\nr\nhome\nuser\n" + PACKAGE_SAYS
        one = "/sandboxes/" + box["sandboxID"]
        status, snapshot, _ = daemon.call("POST", one + "/snapshots", {})
        same(status, 201, str(snapshot))
        look(daemon, box, "echo later >>/usr/local/atoll-kept")
        other = daemon.create(snapshot["snapshotID"], timeout=120)
        same(look(daemon, other, whole), wanted, "from the snapshot")
        status, forks, _ = daemon.call("POST", "/sandboxes/%s/fork" % other["sandboxID"], {"count": 2})
        same(status, 201, str(forks))
        made = [fork["sandbox"] for fork in forks]
        same([look(daemon, fork, whole) for fork in made], [wanted] * 2, "the forks")
        look(daemon, made[0], "echo own >/usr/local/atoll-own; rm -r /atoll-data; dpkg -r atoll-hello >/dev/null")
        same(look(daemon, made[1], whole), wanted, "one does not see the other")
        pause = "/sandboxes/%s" % made[0]["sandboxID"]
        same(daemon.call("POST", pause + "/pause", {"memory": False})[0], 204, "pause")
        same(daemon.call("POST", pause + "/resume", {"timeout": 120})[0], 201, "resume")
        same(look(daemon, made[0], "cat /usr/local/atoll-own /usr/local/atoll-kept; ls -d /atoll-data /usr/bin/atoll-hello 2>/dev/null; true"), "own\nx\n", "after the pause")
        same(look(daemon, box, "cat /usr/local/atoll-kept"), "x\nlater\n", "the first one")
        same(daemon.call("POST", "/sandboxes/%s/pause" % made[1]["sandboxID"], {})[0], 204, "a pause with memory")
        daemon.crash()
        daemon.start()
        again = daemon.create(snapshot["snapshotID"], timeout=120)
        same(look(daemon, again, whole), wanted, "after a restart of the daemon")
        not_on_host("/usr/local/atoll-kept", "/atoll-data", *PACKAGE_PATHS)
        check(os.path.exists("/usr/bin/yes"), "the host's file is gone")
        for each in (box, other, again, *made):
            daemon.kill(each)
        same(daemon.call("DELETE", "/templates/" + urllib.parse.quote(snapshot["snapshotID"], safe=""))[0], 204, "the snapshot goes")
        store = os.path.join(daemon.state, "atoll", "layers")
        until(lambda: not [name for name in os.listdir(store) if os.path.isdir(os.path.join(store, name, "upper", "usr"))])
        same([name for name in os.listdir(store) if os.path.isdir(os.path.join(store, name, "upper", "usr"))], [], "its layers")


@test("the daemon: a template keeps what RUN and COPY write anywhere; templates lie on templates")
def _():
    need_roots()
    need("dpkg", "dpkg-deb")
    with Daemon() as daemon:
        name = "%064x" % 7
        told = daemon.call("GET", "/templates/x/files/" + name)[1]
        parts = urllib.parse.urlsplit(told["url"])
        same(daemon.call("PUT", parts.path + "?" + parts.query, data=archive(("app/main.txt", b"app\n")), key=None)[0], 200, "the upload")
        status = build(daemon, "whole", [
            {"type": "RUN", "args": [PACKAGE, "root"]}, {"type": "COPY", "args": ["app", "/opt/atoll-app"], "filesHash": name},
            {"type": "WORKDIR", "args": ["/atoll-code"]}, {"type": "RUN", "args": ["echo code >main.py; echo home >~/h"]}])
        same(status["status"], "ready", str(status))
        check(not any("ordinary user" in line for line in status["logs"]), str(status["logs"]))
        whole = "cat /opt/atoll-app/main.txt /atoll-code/main.py /home/user/h; stat -c %U /atoll-code; " + IS_PACKAGE
        wanted = "app\ncode\nhome\nuser\n" + PACKAGE_SAYS
        for _ in range(2):
            box = daemon.create("whole", timeout=60)
            same(look(daemon, box, whole), wanted, "a box of it")
            look(daemon, box, "rm -r /opt/atoll-app /atoll-code /usr/bin/atoll-hello")
        status = build(daemon, "upon", [{"type": "RUN", "args": ["echo upon >/usr/local/atoll-upon; rm /opt/atoll-app/main.txt", "root"]}], "whole")
        same(status["status"], "ready", str(status))
        box = daemon.create("upon", timeout=60)
        same(look(daemon, box, "cat /usr/local/atoll-upon /atoll-code/main.py; ls /opt/atoll-app; atoll-hello"), "upon\ncode\nhello from a package\n", "one upon the other")
        not_on_host("/opt/atoll-app", "/atoll-code", "/usr/local/atoll-upon", *PACKAGE_PATHS)


@test("the daemon of an ordinary user: a build says that only the home is kept")
def _():
    need_layers()
    need_user()
    with Daemon() as daemon:
        status = build(daemon, "home", [{"type": "RUN", "args": ["echo x >/var/lib/mine; echo home >~/h"]}])
        same(status["status"], "ready", str(status))
        check(any("only /home/user is kept" in line for line in status["logs"]), str(status["logs"]))
        box = daemon.create("home", timeout=60)
        same(look(daemon, box, "cat ~/h; ls /var/lib/mine 2>/dev/null; true", user="user"), "home\n", "a box of it")


main()
