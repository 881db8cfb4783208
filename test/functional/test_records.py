#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 22
# check: on disk as user
"""Records of runs in mode layer: made, listed, discarded, swept; through kill -9, a full disk and a hostile store."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from terminal import Terminal


def store(place):
    return os.path.join(place.home, ".local/state/atoll")


def records(place, *flags, **options):
    """What `atoll ls --json` lists."""
    result = atoll(place, "ls", "--json", "--all", *flags, **options)
    same(result.status, 0, "status of ls: " + result.err)
    return json.loads(result.out)


def layer(place, command, flags=(), **options):
    need_layers()
    return run(place, list(flags), command, mode="layer", **options)


def kept(place, command, flags=(), **options):
    """Run it and return the one record that it leaves."""
    before = {record["id"] for record in records(place)} if os.path.isdir(store(place)) else set()
    result = layer(place, command, flags, **options)
    fresh = [record for record in records(place) if record["id"] not in before]
    same(len(fresh), 1, "new records")
    return result, fresh[0]


def names_in_store(place, directory):
    path = os.path.join(store(place), directory)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


# ---- what a run leaves ----------------------------------------------------------------------------------------------

@test("a run leaves a record that says what it was, and the host's files do not move")
def _():
    with Place() as place:
        before = snapshot(place.ws)
        result, record = kept(place, inside_sh("echo x >>f; rm README.md; mkdir d; echo y >d/n; exit 3"))
        same(result.status, 3, "status")
        same(difference(before, snapshot(place.ws)), "", "the workspace")
        check("4 files changed (atoll diff %s; atoll apply %s)" % (record["id"], record["id"]) in result.err, "no summary")
        same(record["state"], "kept", "state")
        same(record["kind"], "run", "kind")
        same(record["status"], 3, "its status")
        same(record["workspace"], place.ws, "its workspace")
        check("mkdir d" in record["command"], "its command: %r" % record["command"])
        check(re.fullmatch("[a-z2-7]{8}", record["id"]), "its id: %r" % record["id"])
        check(record["bytes"] > 0 and record["end_ns"] > record["start_ns"] > 0, "its size and times")
        listed = atoll(place, "ls")
        check(record["id"] in listed.out and "mkdir d" in listed.out, "ls does not show it")


@test("what a run changed is told to programs, too, and to nobody with --quiet")
def _():
    with Place() as place:
        script = "echo x >>f; rm README.md; echo n >n; mkdir -p .git/hooks; echo h >.git/hooks/post-merge"
        result = layer(place, inside_sh(script), ["--json"])
        told = json.loads(result.err.splitlines()[-1])
        same(told["changes"], {"added": 2, "changed": 1, "deleted": 1, "marked": 1, "conflicts": 0}, "changes")
        same([told["record"]], [record["id"] for record in records(place)], "record")
        same(told["applied"], None, "applied")
        quiet = layer(place, inside_sh("echo x >>f"), ["--quiet"])
        same(quiet.err, "", "what was said with --quiet")
        same(len(records(place)), 2, "records")


@test("a run that changes nothing leaves nothing and says nothing")
def _():
    with Place() as place:
        result = layer(place, inside_sh("cat f; echo x >tmp; rm tmp; echo y >/tmp/other"))
        same((result.status, result.err), (0, ""), "status and words")
        same(records(place), [], "records")
        layer(place, ["true"])
        same(names_in_store(place, "records"), [], "left in the store")
        check("no records" in atoll(place, "ls").out, "ls")


@test("a run that does not start leaves no record")
def _():
    with Place() as place:
        same(layer(place, ["/nonexistent/command"]).status, 127, "status")
        result = layer(place, ["true"], ["--read", "/nonexistent/place"], starts=False)
        among(result.status, NOT_STARTED, "status")
        same(names_in_store(place, "records"), [], "left in the store")


@test("a file written and put back as it was is no change")
def _():
    with Place() as place:
        layer(place, inside_sh("cp -p f g; echo x >>f; cp -p g f; rm g"))
        listed = records(place)
        among(len(listed), (0, 1), "records")  # its time of change is another, its content is not
        if listed:
            same(atoll(place, "diff", "--name-only").out.strip(), "", "changes")


# ---- kill -9 --------------------------------------------------------------------------------------------------------

@test("a run whose supervisor is killed leaves a record that can be used")
def _():
    need_layers()
    with Place() as place:
        place.expect("half")
        running = start(place, [], inside_sh("echo half >half; sleep 1000"), mode="layer")
        check(until(lambda: any(record["state"] == "live" for record in records(place))), "it is never live")
        upper = os.path.join(store(place), "records", records(place)[0]["id"], "top/upper/half")
        check(until(lambda: os.path.exists(upper) and read(upper)), "nothing is written")
        running.kill()
        same(processes_left(), {}, "processes")
        record, = records(place)
        same((record["state"], record["status"]), ("kept", None), "state and status")
        same(atoll(place, "apply", record["id"]).status, 0, "apply")
        same(read(place.ws + "/half"), b"half\n", "what was applied")


@test("a run killed while it is set up is not listed")
def _():
    need_layers()
    with Place() as place:
        kept(place, inside_sh("echo x >x"))
        record = records(place)[0]
        # As a kill right after the record was made leaves it.
        top = os.path.join(store(place), "records", record["id"])
        os.unlink(os.path.join(top, "top/upper/x"))
        meta = read(os.path.join(top, "meta")).decode()
        write(os.path.join(top, "meta"), re.sub("(?m)^end=.*$", "end=0", meta))
        same(records(place), [], "records")


# ---- discard --------------------------------------------------------------------------------------------------------

@test("discard removes a record with all that it wrote, also directories that are shut")
def _():
    with Place() as place:
        _, one = kept(place, inside_sh("echo x >x; mkdir -p a/b/c; echo y >a/b/c/d; chmod 0 a/b/c a/b a"))
        _, two = kept(place, inside_sh("echo y >y"))
        same(atoll(place, "discard", one["id"][:5]).status, 0, "discard by its beginning")
        same([record["id"] for record in records(place)], [two["id"]], "records")
        same(atoll(place, "discard").status, 0, "discard the latest")
        same(records(place), [], "records")
        same(names_in_store(place, "records") + names_in_store(place, "trash"), [], "left in the store")
        result = atoll(place, "discard")
        same(result.status, BAD_REQUEST, "status where there is none")
        check("no run of this directory is kept" in result.err, result.err)
        same(atoll(place, "discard", "../../x").status, BAD_REQUEST, "a name that is a path")
        same(atoll(place, "discard", "").status, BAD_REQUEST, "an empty name")


@test("a live run is discarded only by force, which ends it")
def _():
    need_layers()
    with Place() as place:
        running = start(place, [], inside_sh("echo x >x; sleep 1000"), mode="layer")
        check(until(lambda: os.path.isdir(store(place)) and
                    any(os.path.exists(os.path.join(store(place), "records", record["id"], "top/upper/x"))
                        for record in records(place))), "it is never live")
        id = records(place)[0]["id"]
        refused = atoll(place, "discard", id)
        same(refused.status, POLICY, "status")
        check("--force" in refused.err, refused.err)
        check(running.process.poll() is None, "it ended")
        same(atoll(place, "discard", id, "--force").status, 0, "by force")
        result = running.process.wait(PATIENCE)
        check(result != 0, "it went on")
        running.kill()
        same(records(place), [], "records")
        same(processes_left(), {}, "processes")


# ---- gc -------------------------------------------------------------------------------------------------------------

@test("gc removes what is older than --age, says so before, and leaves what is live")
def _():
    need_layers()
    with Place() as place:
        _, one = kept(place, inside_sh("echo x >x"))
        running = start(place, [], inside_sh("echo y >y; sleep 1000"), mode="layer")
        check(until(lambda: [r for r in records(place) if r["state"] == "live"]), "it is never live")
        said = atoll(place, "gc", "--dry-run", "--age", "0s")
        check("would remove %s" % one["id"] in said.out and "1 record," in said.out, said.out)
        same(len(records(place)), 2, "records after a dry run")
        said = atoll(place, "gc", "--age", "1h")
        check("0 records" in said.out, said.out)
        said = atoll(place, "gc", "--age", "0s")
        check("removed %s (age)" % one["id"] in said.out, said.out)
        same([r["state"] for r in records(place)], ["live"], "records")
        running.kill()
        same(atoll(place, "gc", "--age", "soon").status, BAD_REQUEST, "a bad age")
        same(atoll(place, "gc", "--size", "much").status, BAD_REQUEST, "a bad size")


@test("the store is swept before a run, at most once an hour")
def _():
    with Place() as place:
        _, old = kept(place, inside_sh("echo x >x"))
        meta = os.path.join(store(place), "records", old["id"], "meta")

        def age():
            long_ago = time.time() - 15 * 86400
            text = re.sub("(?m)^(start|end)=.*$", lambda m: "%s=%d" % (m[1], long_ago * 1e9), read(meta).decode())
            write(meta, text)
            os.utime(meta, (long_ago, long_ago))
        age()
        layer(place, ["true"])
        check(os.path.exists(meta), "it was swept although somebody has swept just now")
        os.utime(os.path.join(store(place), "swept"), (0, 0))
        layer(place, ["true"])
        check(not os.path.exists(meta), "it was not swept")


# ---- the store ------------------------------------------------------------------------------------------------------

@test("a store that is not its owner's alone is refused")
def _():
    with Place() as place:
        kept(place, inside_sh("echo x >x"))

        def refused(why):
            for args in (["run", "--mode", "layer", "--", "true"], ["ls"], ["gc"], ["discard"], ["apply"]):
                result = atoll(place, *args)
                same(result.status, POLICY, "%s: status of %s (%s)" % (why, args[0], result.err.strip()))
                check(store(place) in result.err, result.err)
        for mode in (0o755, 0o770, 0o707):
            os.chmod(store(place), mode)
            refused("mode %o" % mode)
        os.chmod(store(place), 0o700)
        same(len(records(place)), 1, "records")
        if IS_ROOT:
            os.chown(store(place), 65534, 65534)
            refused("another owner")
            os.chown(store(place), 0, 0)
        os.rename(store(place), place.tmp + "/elsewhere")
        os.symlink(place.tmp + "/elsewhere", store(place))
        refused("a link")
        os.unlink(store(place))
        write(store(place), "")
        refused("a file")


@test("ls --all needs no current directory")
def _():
    need_layers()
    with Place() as place:
        result = layer(place, inside_sh("echo x >x"))
        same(result.status, 0, "status")
        result = plain(place, ["sh", "-c", 'mkdir "$2/gone" && cd "$2/gone" && rmdir "$2/gone" && "$1" ls --all', "sh", ATOLL, place.tmp],
                       confined=False)
        same(result.status, 0, "status: " + result.err)
        check("kept" in result.out, result.out)


@test("a place where no store can be made: the reason is told, and where else it could be")
def _():
    with Place() as place:
        if IS_ROOT:
            skip("an ordinary user: no mode keeps root out")
        os.mkdir(place.base + "/shut", 0o500)
        for mode in ("layer", "direct"):
            result = run(place, [], ["true"], mode=mode, env={"XDG_STATE_HOME": place.base + "/shut/a/b"}, starts=False)
            same(result.status, HOST_CANNOT, "status: " + result.err)
            check("Permission denied" in result.err and "XDG_STATE_HOME" in result.err, result.err)


@test("a home directory that does not exist is not made: the error names HOME, and what to set")
def _():
    with Place() as place:
        home = place.base + "/no-such-home"
        for command in (["run", "--direct", "--", "true"], ["run", "--mode", "layer", "--", "true"], ["create", "--mode", "layer"], ["serve", "--listen", "127.0.0.1:1"]):
            result = atoll(place, *command, env={"HOME": home, "XDG_STATE_HOME": None, "XDG_CONFIG_HOME": None})
            check(not os.path.lexists(home), "%s has made the home directory" % command)
            among(result.status, (BAD_REQUEST, HOST_CANNOT), "status of %s: %s" % (command, result.err))
            check(home in result.err and "HOME" in result.err and "XDG_STATE_HOME" in result.err, "%s: %s" % (command, result.err))
        # What the variable for it names is made.
        result = atoll(place, "run", "--mode", "layer", "--", *inside_sh("echo x >x"), env={"HOME": home, "XDG_STATE_HOME": place.base + "/new/state"})
        same(result.status, 0, "with XDG_STATE_HOME: %s" % result.err)
        check(os.path.isdir(place.base + "/new/state/atoll") and not os.path.lexists(home), "the store is elsewhere")


@test("a store that the command could reach is refused")
def _():
    with Place() as place:
        for flags, where in (([], place.ws + "/state"), (["--write", place.out], place.out), (["--read", place.out], place.out)):
            for mode in ("layer", "direct"):
                if mode == "layer":
                    need_layers()
                result = run(place, flags, ["true"], mode=mode, env={"XDG_STATE_HOME": where}, starts=False)
                same(result.status, POLICY, "status")
                check("XDG_STATE_HOME" in result.err, result.err)
        os.mkdir(place.base + "/free", 0o700)
        result = layer(place, inside_sh("echo x >x"), env={"XDG_STATE_HOME": place.base + "/free"})
        same(result.status, 0, "status")
        check({"records", "swept"} <= set(os.listdir(place.base + "/free/atoll")), "no store: %s" % os.listdir(place.base + "/free/atoll"))
        check(not os.path.exists(store(place)), "there is another")


@test("nothing inside leads to the store")
def _():
    with Place() as place:
        kept(place, inside_sh("echo %s >x" % place.token))
        result = layer(place, inside_py("""
            for top in arg:
                attempt("list " + top, lambda: os.listdir(top))
            text = open("/proc/self/mountinfo").read()
            tell("mounts", "told" if "state/atoll" in text and "upperdir" in text and arg[1] in text else "untold")
            """, store(place), place.home + "/.local/state"))
        for top in (store(place), place.home + "/.local/state"):
            among(result.tries["list " + top], GONE, "list")


@test("two runs at once have a record each")
def _():
    need_layers()
    with Place() as place:
        runs = [start(place, [], inside_sh("echo $1 >both; echo $1 >only-$1; while [ ! -e /tmp/never ]; do sleep 1; done", n),
                      mode="layer") for n in ("one", "two")]
        check(until(lambda: len([r for r in records(place) if r["state"] == "live"]) == 2), "not both are live")
        uppers = [os.path.join(store(place), "records", r["id"], "top/upper") for r in records(place)]
        check(until(lambda: all(len(os.listdir(upper)) == 2 for upper in uppers)), "they do not write")
        for running in runs:
            running.kill()
        same(sorted(read(upper + "/both") for upper in uppers), [b"one\n", b"two\n"], "what each wrote")
        same(len(records(place)), 2, "records")


@test("many records at once, each found by its id")
def _():
    need_layers()
    with Place() as place:
        runs = [start(place, [], inside_sh("echo $1 >n", n), mode="layer") for n in range(8)]
        for running in runs:
            same(running.wait().status, 0, "status")
        same(len({record["id"] for record in records(place)}), 8, "records")
        for record in records(place):
            same(atoll(place, "diff", "--name-only", record["id"]).out, "n\n", "diff")


def in_own_mounts(place, script, *args):
    """Run a script of the host's side in a mount namespace of its own, where it may mount."""
    unshare = ["unshare", "-m"] if IS_ROOT else ["unshare", "-Urm"]
    return plain(place, [*unshare, "sh", "-ec", script, "sh", *map(str, args)], confined=False)


@test("where the store cannot hold a layer it is in memory, says the plan, and is kept all the same")
def _():
    need_layers()
    with Place() as place:
        # A store on an overlay, as in a container.
        result = in_own_mounts(place, """
            mkdir -p $1/low $1/up $1/work $1/state
            mount -t overlay overlay -o lowerdir=$1/low,upperdir=$1/up,workdir=$1/work$3 $1/state
            export XDG_STATE_HOME=$1/state
            cd $1/../ws
            $2 run --mode layer --plan -- true | grep -i memory
            $2 run --mode layer -- sh -c 'echo new >>f; rm README.md; mkdir -p d src/e; echo y >d/n; ln f hard; rm -r src; mkdir src
                                          echo z >src/z' 2>&1
            $2 ls --json
            $2 diff --name-only
            $2 apply
            $2 ls
            mkfifo $1/go
            $2 run --mode layer -- sh -c 'echo l >live; read line' <$1/go &
            exec 5>$1/go
            until $2 ls | grep -q live; do sleep 0.05; done
            $2 diff >$1/seen 2>&1 || echo "status $?"
            cat $1/seen
            echo >&5; wait
            $2 diff --name-only | grep live
            $2 discard
            """, place.tmp, ATOLL, "" if IS_ROOT else ",userxattr")
        check("memory" in result.out, "the plan does not tell: " + result.out + result.err)
        check("status %d" % POLICY in result.out and "can be seen when it has ended" in result.out,
              "a live run's changes that are not seen yet: " + result.out[-600:])
        same(result.status, 0, "status: " + result.out[-600:] + result.err)
        check('"memory":true' in result.out, "the record does not tell")
        place.expect("d", "hard", "src")
        same(read(place.ws + "/f"), b"one line\nnew\n", "f")
        same(read(place.ws + "/d/n"), b"y\n", "d/n")
        check(not os.path.exists(place.ws + "/README.md"), "README.md is still there")
        same(sorted(os.listdir(place.ws + "/src")), ["z"], "src")
        same(os.stat(place.ws + "/f").st_ino, os.stat(place.ws + "/hard").st_ino, "names of one file")


@test("a workspace that holds the store is written to memory, and the store is not seen inside")
def _():
    need_layers()
    with Place() as place:
        where = place.home
        result = run(place, ["-C", where, "--accept-broad", where], inside_sh("echo x >fresh; ls -A .local/state"), mode="layer",
                     cwd=where)
        same(result.status, 0, "status")
        check("atoll" not in result.out, "the store is seen: " + result.out)
        record, = records(place)
        same(record["memory"], True, "in memory")
        same(atoll(place, "diff", "--name-only", cwd=where).out, "fresh\n", "diff")


@test("no run begins where the disk is almost full")
def _():
    need_layers()
    with Place() as place:
        result = in_own_mounts(place, """
            mkdir $1/state
            mount -t tmpfs -o size=40m tmpfs $1/state
            export XDG_STATE_HOME=$1/state
            cd $1/../ws
            $2 run --mode layer -- sh -c 'echo x >small' 2>&1; echo "small: $?"
            head -c 39m /dev/zero >$1/state/filler
            $2 run --mode layer -- sh -c 'echo x >small' 2>&1 || echo "full: $?"
            $2 run --direct -- sh -c 'echo x >direct' 2>&1; echo "direct: $?"
            rm $1/state/filler
            $2 run --mode layer -- sh -c 'echo x >small' 2>&1; echo "again: $?"
            ls $1/state/atoll/records | wc -l
            """, place.tmp, ATOLL)
        place.expect("direct")
        check("small: 0" in result.out, "it does not run on a tmpfs: " + result.out + result.err)
        check("full: %d" % HOST_CANNOT in result.out, "it runs on a full disk: " + result.out)
        check("have to stay so; `atoll gc" in result.out, "no advice: " + result.out)
        check(", and 0 " not in result.out, "a small floor is shown as none: " + result.out)
        check("direct: 0" in result.out, "a direct run is refused: " + result.out)
        check("again: 0\n2\n" in result.out, "after that: " + result.out)


# ---- what the host does meanwhile -----------------------------------------------------------------------------------

def meanwhile(place, flags, script, action):
    """Run a script in a layer; the host acts once it has written, and only then it ends."""
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, reading)
        running = start(place, flags, inside_sh(script + "; echo done; read line"), mode="layer", stdin=reading, starts=False)
        stack.callback(os.close, writing)
        same(running.process.stdout.read1(5), b"done\n", "what it said")
        action()
        os.write(writing, b"go\n")
        return running.wait()


@test("what the host changed meanwhile is told")
def _():
    need_layers()
    with Place() as place:
        result = meanwhile(place, [], "echo inside >>f", lambda: write(place.ws + "/f", "the host's\n"))
        check("the host has changed 1 of them meanwhile" in result.err, result.err)
        refused = atoll(place, "apply")
        same(refused.status, POLICY, "status of apply")
        same(read(place.ws + "/f"), b"the host's\n", "the host's file")


# ---- --apply --------------------------------------------------------------------------------------------------------

@test("--apply=auto applies all but what the host would trust, and says so")
def _():
    with Place() as place:
        place.expect("n")
        result = layer(place, inside_sh("echo x >n; echo '#!/bin/sh' >.git/hooks/post-merge; chmod +x .git/hooks/post-merge"),
                       ["--apply", "auto"])
        same(result.status, 0, "status")
        same(read(place.ws + "/n"), b"x\n", "n")
        check(not os.path.exists(place.ws + "/.git/hooks/post-merge"), "the hook is on the host")
        check("applied 1 change" in result.err and "held back 1" in result.err, result.err)
        same(atoll(place, "undo").status, 0, "undo")
        check(not os.path.exists(place.ws + "/n"), "it was not undone")


@test("--apply=auto applies nothing if one conflicts, or if the command was stopped")
def _():
    need_layers()
    with Place() as place:
        result = meanwhile(place, ["--apply=auto"], "echo i >>f; echo n >n", lambda: write(place.ws + "/f", "the host's\n"))
        same(result.status, POLICY, "status")
        check(not os.path.exists(place.ws + "/n"), "a part was applied")
        same(read(place.ws + "/f"), b"the host's\n", "the host's file")
        check("atoll diff" in result.err, result.err)
        stopped = layer(place, inside_sh("echo m >m; sleep 1000"), ["--apply=auto", "--timeout", "2s"])
        same(stopped.status, TIMED_OUT, "status")
        check(not os.path.exists(place.ws + "/m"), "half of its work was applied")


@test("--apply=auto applies nothing of a command that failed, or that a signal ended, and says so")
def _():
    need_layers()
    with Place() as place:
        for script, status in (("echo m >m; exit 3", 3), ("echo m >m; kill -9 $$", 128 + 9)):
            result = layer(place, inside_sh(script), ["--apply=auto"])
            same(result.status, status, "status")
            check(not os.path.exists(place.ws + "/m"), "the work of a command that failed was applied")
            check("nothing was applied, because the command failed" in result.err, result.err)
            check("atoll apply" in result.err, "how to take it all the same: %s" % result.err)
        place.expect("m")
        same(atoll(place, "apply").status, 0, "apply on request")
        check(os.path.exists(place.ws + "/m"), "m was not applied")


@test("--apply=ask without a terminal is refused before the start")
def _():
    with Place() as place:
        result = layer(place, inside_sh("echo x >n"), ["--apply=ask"], starts=False)
        same(result.status, BAD_REQUEST, "status")
        check("needs a terminal" in result.err, result.err)
        check(not os.path.exists(store(place) + "/records"), "it left a record")
        same(atoll(place, "run", "--apply=perhaps", "--", "true").status, BAD_REQUEST, "status of a bad word")


@test("--apply=ask shows the changes and takes yes, no, or one by one")
def _():
    need_layers()
    with Place() as place:
        place.expect("yes", "two")

        def ask(script):
            return Terminal(place, [ATOLL, "run", "--mode", "layer", "--apply=ask", "--", "sh", "-c", script])
        with ask("echo content >yes") as terminal:
            terminal.expect(r"\+content")
            terminal.expect(r"apply these\?")
            terminal.send("y\r")
            terminal.expect("applied 1 change")
            same(terminal.wait(), 0, "status")
        same(read(place.ws + "/yes"), b"content\n", "yes")
        with ask("echo content >no") as terminal:
            terminal.expect(r"apply these\?")
            terminal.send("\r")
            terminal.expect("1 file changed")
            same(terminal.wait(), 0, "status")
        check(not os.path.exists(place.ws + "/no"), "it was applied against the answer")
        with ask("echo content >one; echo content >two") as terminal:
            terminal.expect(r"apply these\?")
            terminal.send("p\r")
            terminal.expect("one")
            terminal.expect(r"apply it\?")
            terminal.send("n\r")
            terminal.expect("two")
            terminal.expect(r"apply it\?")
            terminal.send("y\r")
            terminal.expect("applied 1 change")
            same(terminal.wait(), 0, "status")
        check(not os.path.exists(place.ws + "/one") and os.path.exists(place.ws + "/two"), "the wrong one was picked")


main()
