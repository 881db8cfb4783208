#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 24
"""Records that a run has not written to are the next run's, those of removed sandboxes the next sandbox's: nothing of the one is seen by the
other, through kill -9 and many at once."""

import json
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *


def store(place):
    return os.path.join(place.home, ".local/state/atoll")


def layer(place, script, **options):
    need_layers()
    result = run(place, [], inside_sh(script), mode="layer", **options)
    same(result.status, 0, "status")
    return result.out


def spares(place):
    path = store(place) + "/spare"
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def begin(place, script):
    environment = dict(os.environ, HOME=place.home)
    environment.pop("XDG_STATE_HOME", None)
    return subprocess.Popen([ATOLL, "run", "--mode", "layer", "--", "/bin/sh", "-c", script], cwd=place.ws, env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


@test("a run that wrote nothing leaves no record, and the next one uses its directories")
def _():
    with Place() as place:
        layer(place, "true")
        check(spares(place), "nothing was put aside")
        uppers = {os.stat("%s/spare/%s/top/upper" % (store(place), name)).st_ino for name in spares(place)}
        layer(place, "echo x >x")
        records = os.listdir(store(place) + "/records")
        same(len(records), 1, "records")
        check(os.stat("%s/records/%s/top/upper" % (store(place), records[0])).st_ino in uppers, "it is another one")


@test("what a run did and undid is not seen by the next: names, mode, times, attributes")
def _():
    with Place() as place:
        os.chmod(place.ws, 0o755)
        look = "ls -A; stat -c '%a %u %g' .; getfattr -d -m - . 2>/dev/null | grep -v overlay.uuid"
        before = layer(place, look + "; true")
        for script in ("touch a b c; mkdir d; rm -r a b c d; touch -d 2001-01-01 .", "chmod 700 .; chmod 755 .",
                       "setfattr -n user.own -v x . || true"):
            layer(place, script)
            same(layer(place, look + "; true"), before, "after `%s`" % script)
            check(int(layer(place, "stat -c %Y .")) > 1600000000, "the time that it set")


@test("with runs killed at any moment, and several at once, each sees the workspace as it is on the host")
def _():
    need_layers()
    with Place() as place:
        names = sorted(os.listdir(place.ws))
        pick = random.Random(7)
        script = "ls -A; [ -e mine ] && echo FOREIGN; echo $$ >mine; %s; [ $$ = $(cat mine) ] || echo OTHER; rm mine"
        for _ in range(25):
            runs = [begin(place, script % pick.choice(("true", "true", "sleep 0.02"))) for _ in range(3)]
            victim = pick.choice(runs)
            time.sleep(pick.random() * 0.06)
            victim.kill()
            for one in runs:
                out = one.communicate(timeout=60)[0].decode().split("\n")
                if one is victim:
                    check("FOREIGN" not in out and "OTHER" not in out, "in one that was killed: %s" % out)
                else:
                    same(one.returncode, 0, "status")
                    same(sorted(name for name in out if name), names, "what it saw")
        same(layer(place, "ls -A").split(), names, "what the last one sees")
        check(len(spares(place)) <= 8, "there are too many: %s" % spares(place))
        same(atoll(place, "gc").status, 0, "gc")
        same(spares(place), [], "after a sweep")


# ---- of sandboxes ----

def said(place, *args, status=0):
    result = atoll(place, *args)
    same(result.status, status, "%s: %s" % (" ".join(args), result.err))
    return result.out


def create(place):
    if BARE:
        skip("user namespaces")
    need_layers()
    return said(place, "create", "--mode", "layer").strip()


def step(place, id, script):
    return said(place, "exec", id, "--", *inside_sh(script))


def inode_of(place, path):
    return os.stat(os.path.join(store(place), path)).st_ino


@test("a sandbox has the record of one that was removed, and nothing that was in it")
def _():
    with Place() as place:
        names = sorted(os.listdir(place.ws))
        first = create(place)
        was = inode_of(place, "records/" + first)
        step(place, first, "mkdir -p own/deep; echo secret >own/deep/file; touch -d 2001-01-01 .; chmod 700 .")
        said(place, "checkpoint", first)
        step(place, first, "echo more >more")
        said(place, "rm", "--force", first)
        check(any(name.startswith("s") for name in spares(place)), "nothing was put aside: %s" % spares(place))
        for top, _, files in os.walk(store(place)):
            for name in files:
                with open(os.path.join(top, name), "rb") as file:
                    check("/log" in top or b"secret" not in file.read(), "%s/%s" % (top, name))
        second = create(place)
        same(inode_of(place, "records/" + second), was, "its record")
        same(sorted(step(place, second, "ls -A").split()), names, "what it sees")
        check(int(step(place, second, "stat -c %Y .")) > 1600000000, "the time that the other set")
        same(json.loads(said(place, "history", second, "--json")), [], "its history")
        same(said(place, "diff", second), "", "its changes")
        said(place, "rm", "--force", second)
        for id in (first, second):
            lines = said(place, "log", id, "--json")
            check('"kind":"remove"' in lines or '"remove"' in lines, "the log does not tell of its end: %s" % lines[-300:])
            same(atoll(place, "verify", id).status, 0, "verify")
        same(atoll(place, "gc").status, 0, "gc")
        same(spares(place), [], "after a sweep")


@test("with removals killed at any moment a sandbox sees the workspace as it is on the host")
def _():
    with Place() as place:
        names = sorted(os.listdir(place.ws))
        pick = random.Random(11)
        environment = dict(os.environ, HOME=place.home)
        environment.pop("XDG_STATE_HOME", None)
        id = create(place)
        for _ in range(12):
            step(place, id, "echo mine >mine; mkdir d; setfattr -n user.own -v x . || true")
            removal = subprocess.Popen([ATOLL, "rm", "--force", id], cwd=place.ws, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(pick.random() * 0.05)
            removal.kill()
            removal.wait()
            id = create(place)
            same(sorted(step(place, id, "ls -A").split()), names, "what it sees")
        for record in json.loads(said(place, "ls", "--all", "--json")):
            said(place, "rm", "--force", record["id"])
        same(json.loads(said(place, "ls", "--all", "--json")), [], "what is left")
        check(len(spares(place)) <= 48, "there are too many: %s" % spares(place))


main()
