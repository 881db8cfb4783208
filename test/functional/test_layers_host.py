#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The host changes while a layer is over it

doc/layers.md has a table of what a run sees then, and what apply makes of it; here is that table, row by row. What must hold on
every kernel: nothing of the host's is lost, what would overwrite a later change is a conflict, and the end of the run says so. What the
command sees of changes that it has not made itself is the kernel's; it is checked as far as the document says something.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402


class Live:
    """A run in a layer that does what it is told: with Live(place) as live: live.do("cat f")."""

    def __init__(self, place):
        self.place = place

    def __enter__(self):
        code = r'''
            import subprocess
            for line in sys.stdin:
                done = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
                sys.stdout.write(done.stdout.decode().replace("\n", "|") + "\n"); sys.stdout.flush()
        '''
        self.running = start(self.place, [], inside_py(code), mode="layer", stdin=subprocess.PIPE)
        self.do("true")  # it has begun
        return self

    def do(self, script):
        self.running.process.stdin.write(script.encode() + b"\n")
        self.running.process.stdin.flush()
        return self.running.process.stdout.readline().decode().rstrip("\n").replace("|", "\n")

    def end(self):
        """What the end of the run says."""
        out, err = self.running.process.communicate(timeout=RUN_SECONDS)
        return self.running._result(out, err).err

    def __exit__(self, *_):
        if self.running in self.place.running and self.running.process.poll() is None:
            self.running.kill()


def replace(place, name, text):
    """As editors do."""
    write(place.ws + "/" + name + ".tmp", text)
    os.rename(place.ws + "/" + name + ".tmp", place.ws + "/" + name)


def conflicts(place):
    told = json.loads(atoll(place, "diff", "--json").out)
    return {change["path"]: change["conflict"] for change in told["changes"] if change.get("conflict")}


def changes(place):
    return {change["path"]: change["kind"] for change in json.loads(atoll(place, "diff", "--json").out)["changes"]}


def refused(place, *paths):
    """Nothing is applied, and nothing of the host's has changed."""
    before = snapshot(place.ws)
    result = atoll(place, "apply")
    same(result.status, POLICY, "status of apply: %s" % result.err)
    for path in paths:
        check(path in result.out + result.err, "%s is not named: %s" % (path, result.err))
    same(difference(before, snapshot(place.ws)), "", "the workspace after a refused apply")


@test("a file that both have changed, in place or by replacing it, is a conflict, and the end of the run says so")
def _():
    need_layers()
    for how in (lambda place: write(place.ws + "/f", "host\n"), lambda place: replace(place, "f", "host\n")):
        with Place() as place, Live(place) as live:
            live.do("echo mine >>f")
            how(place)
            same(live.do("cat f"), "one line\nmine\n", "the command sees its own")
            check("the host has changed 1 of them meanwhile" in live.end(), "no warning")
            same(list(conflicts(place)), ["f"], "conflicts")
            refused(place, "f")
            same(read(place.ws + "/f"), b"host\n", "the host's")
            same(atoll(place, "apply", "--force").status, 0, "--force")
            same(read(place.ws + "/f"), b"one line\nmine\n", "once it is forced")
            same(atoll(place, "undo").status, 0, "undo")
            same(read(place.ws + "/f"), b"host\n", "undo brings the host's back")


@test("a file that one deleted and the other changed is a conflict")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        live.do("rm README.md")
        write(place.ws + "/README.md", "host\n")
        same(live.do("test -e README.md || echo gone"), "gone\n", "the command sees its own state")
        live.end()
        same(list(conflicts(place)), ["README.md"], "conflicts")
        refused(place, "README.md")
        same(read(place.ws + "/README.md"), b"host\n", "the host's")
    with Place() as place, Live(place) as live:
        live.do("echo mine >>f")
        os.unlink(place.ws + "/f")
        same(live.do("cat f"), "one line\nmine\n", "the command sees its own state")
        live.end()
        same(list(conflicts(place)), ["f"], "conflicts")
        refused(place, "f")
        check(not os.path.exists(place.ws + "/f"), "the host's deletion was undone")


@test("a file that both have made is a conflict, also if the content is another kind")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        place.expect("both", "other")
        live.do("echo mine >both; mkdir other; echo x >other/x")
        write(place.ws + "/both", "host\n")
        write(place.ws + "/other", "host\n")
        live.end()
        same(sorted(path for path in conflicts(place) if "/" not in path), ["both", "other"], "conflicts")
        refused(place, "both")


@test("what only the host has changed is no change of the run's, and stays")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        place.expect("made", "new")
        live.do("echo x >made")
        write(place.ws + "/f", "host\n")
        replace(place, "README.md", "host\n")
        write(place.ws + "/new", "host\n")
        os.unlink(place.ws + "/src/a.c")
        check("meanwhile" not in live.end(), "a warning about nothing")
        same(changes(place), {"made": "added"}, "changes")
        same(atoll(place, "apply").status, 0, "apply")
        same([read(place.ws + "/" + name) for name in ("made", "f", "README.md", "new")], [b"x\n", b"host\n", b"host\n", b"host\n"], "afterwards")
        check(not os.path.exists(place.ws + "/src/a.c"), "a file that the host has deleted is there again")


@test("an edit in place is seen at once; a file that was not looked at before is as the host has it now")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        place.expect("later")
        same(live.do("cat f"), "one line\n", "before")
        write(place.ws + "/f", "host\n")
        same(live.do("cat f"), "host\n", "edited in place")
        replace(place, "README.md", "host\n")
        same(live.do("cat README.md"), "host\n", "replaced, and not looked at before")
        write(place.ws + "/later", "host\n")
        same(live.do("cat later"), "host\n", "a new file")
        replace(place, "later", "again\n")
        among(live.do("cat later"), ("host\n", "again\n"), "replaced, and looked at before: one of the two, whole")


@test("what the run writes on top of a later edit is a conflict")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        write(place.ws + "/f", "host\n")
        live.do("echo mine >>f")
        check("the host has changed 1 of them meanwhile" in live.end(), "no warning")
        refused(place, "f")
        same(read(place.ws + "/f"), b"host\n", "the host's")


@test("a directory that the run has written in is deleted on the host")
def _():
    need_layers()
    with Place() as place, Live(place) as live:
        place.expect("src")
        live.do("echo mine >src/new; echo mine >>src/a.c")
        remove(place.ws + "/src")
        same(live.do("cat src/new"), "mine\n", "its own file, by name")
        live.end()
        check("src/a.c" in conflicts(place), "the file that is gone is no conflict: %s" % conflicts(place))
        refused(place, "src/a.c")


@test("git checkout of another branch on the host: what both changed is a conflict, the rest can be applied")
def _():
    need_layers()
    need("git")
    with Place() as place:
        place.expect("made", "only-there", ".git")
        git(place.ws, "checkout", "-q", "-b", "other")
        write(place.ws + "/f", "other branch\n")
        write(place.ws + "/only-there", "x\n")
        git(place.ws, "add", ".")
        git(place.ws, "commit", "-q", "-m", "other")
        git(place.ws, "checkout", "-q", "main")
        with Live(place) as live:
            live.do("echo mine >>f; echo mine >>README.md; echo x >made")
            same(git(place.ws, "checkout", "-q", "other").returncode, 0, "git checkout")
            same(live.do("cat f"), "one line\nmine\n", "its own")
            check("meanwhile" in live.end(), "no warning")
        same(list(conflicts(place)), ["f"], "conflicts")
        refused(place, "f")
        same(atoll(place, "apply", "README.md", "made").status, 0, "the rest")
        same(read(place.ws + "/README.md"), b"# a workspace\nmine\n", "applied")
        same(read(place.ws + "/f"), b"other branch\n", "the branch's")
        same(git(place.ws, "fsck", "--strict").returncode, 0, "git fsck")


@test("a text that the host has changed elsewhere since the run is merged on request")
def _():
    need_layers()
    lines = ["line %d\n" % i for i in range(20)]
    theirs = "".join(lines[:15] + ["host\n"] + lines[16:])
    with Place() as place:
        write(place.ws + "/text", "".join(lines))
        place.settle()
        with Live(place) as live:
            live.do("sed -i '2s/.*/mine/' text")
            live.end()
        replace(place, "text", theirs)
        refused(place, "text")
        same(atoll(place, "apply", "--merge").status, 0, "--merge")
        same(read(place.ws + "/text").decode(), "".join(lines[:1] + ["mine\n"] + lines[2:15] + ["host\n"] + lines[16:]), "merged")
    # What it was before is kept at the end of the run; if it has changed by then, nobody knows, and nothing is guessed.
    with Place() as place:
        write(place.ws + "/text", "".join(lines))
        place.settle()
        with Live(place) as live:
            live.do("sed -i '2s/.*/mine/' text")
            replace(place, "text", theirs)
            live.end()
        same(atoll(place, "apply", "--merge").status, POLICY, "--merge without a base")
        same(read(place.ws + "/text").decode(), theirs, "the host's")


@test("the workspace is moved away, and another takes its place")
def _():
    need_layers()
    with Place() as place:
        place.expect("*")
        with Live(place) as live:
            live.do("echo mine >made")
            os.rename(place.ws, place.base + "/was")
            os.mkdir(place.ws)
            same(live.do("cat made f"), "mine\none line\n", "the command goes on with what it had")
            live.end()
        result = atoll(place, "apply")
        check(result.status != 0 and not os.listdir(place.ws), "applied to another directory: %s" % result.err)
        os.rmdir(place.ws)
        os.rename(place.base + "/was", place.ws)
        result = atoll(place, "apply")
        same(result.status, 0, "once it is back: %s" % result.err)
        same(read(place.ws + "/made"), b"mine\n", "applied")


main()
