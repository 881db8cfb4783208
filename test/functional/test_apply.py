#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 104
# check: on disk as user
"""
`atoll apply` and `atoll undo`: from a layer onto the host and back

What is looked at is the host's side: trees before, after, and after an undo. A plain run of the same commands on a copy says what
should come of them.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

import glob
import pty


def tree(top):
    """What an apply promises to keep: {path: (kind and mode, owner, links, content, time, attributes)}."""
    found = {}
    for path, (mode, uid, gid, links, content) in snapshot(top).items():
        where = os.path.join(top, path)
        st = os.lstat(where)
        time_ns = st.st_mtime_ns if stat.S_ISREG(st.st_mode) else None
        attributes = {name: os.getxattr(where, name, follow_symlinks=False)
                      for name in os.listxattr(where, follow_symlinks=False) if name != "security.selinux"}
        found[path] = (mode, uid, gid, links, content, time_ns, attributes)
    del found["."]
    return found


def timeless(found):
    """Without times, for what two runs of the same commands made."""
    return {path: what[:5] + what[6:] for path, what in found.items()}


def records(place):
    result = atoll(place, "ls", "--json", "--all")
    same(result.status, 0, "ls")
    return json.loads(result.out)


def layered(place, script, *args, status=0, flags=()):
    """Run a script in a layer; the host's files must not move. Gives the record's id."""
    need_layers()
    before = tree(place.ws)
    result = run(place, list(flags), inside_sh(script, *args), mode="layer")
    same(result.status, status, "status of the script, %s" % result.err)
    same(difference(before, tree(place.ws)), "", "the host's files after the run")
    return records(place)[0]["id"]


def apply(place, *args, status=0, **options):
    result = atoll(place, "apply", *args, **options)
    same(result.status, status, "apply %s: %s" % (" ".join(args), result.out + result.err))
    no_traces(place)
    return result


def undo(place, *args, status=0):
    result = atoll(place, "undo", *args)
    same(result.status, status, "undo: %s" % (result.out + result.err))
    no_traces(place)
    return result


def no_traces(place):
    same([name for name in os.listdir(place.ws) if name.startswith(".atoll")], [], "what is left in the workspace")


# ---- every kind of change -------------------------------------------------------------------------------------------

# ARC-10. $1 says where; all of it also works on a plain copy.
CHANGES = r"""
set -e
cd "$1"
echo two >>f
rm README.md
mkdir -p new/deep/empty; echo n >new/deep/n; chmod 750 new/deep
rm src/a.c; mkdir src/a.c; echo inner >src/a.c/inner
rm -r becomes-file; echo file >becomes-file
rm -r becomes-link; ln -s src becomes-link
rm was-link; echo no link >was-link
mv Name.txt tmp.$$; mv tmp.$$ name.txt
mv moved elsewhere
chmod 751 mode-only
touch -d @1234567890.5 time-only
echo pair >pair-a; ln pair-a new/pair-b
truncate -s 64M holes; printf data | dd of=holes bs=1 seek=33554432 conv=notrunc status=none
mkdir empty-dir; chmod 700 empty-dir
rm -r tree
: >"$(printf 'new\nline \377 and spaces')"
touch -d @1000000000 f new/deep/n becomes-file was-link pair-a holes src/a.c/inner
"""


def prepare(place):
    for name in ("becomes-file/x", "becomes-link/y", "mode-only", "time-only", "tree/a/b/c", "tree/d", "Name.txt",
                 "kept/by all"):
        write(os.path.join(place.ws, name), name + "\n")
    os.symlink("f", os.path.join(place.ws, "was-link"))
    for i in range(50):
        write(os.path.join(place.ws, "moved", str(i)), "content %d\n" % i)
    os.link(os.path.join(place.ws, "tree/d"), os.path.join(place.ws, "tree/other-name"))
    os.utime(os.path.join(place.ws, "tree/d"), ns=(10**18, 10**18))
    place.expect("*")
    place.settle()


@test("ARC-10 every kind of change arrives as a plain run of the same commands leaves it, and undo brings all back")
def _():
    with Place() as place:
        prepare(place)
        copy = os.path.join(place.tmp, "copy")
        subprocess.run(["cp", "-a", place.ws, copy], check=True)
        before = tree(place.ws)
        same(plain(place, inside_sh(CHANGES, copy), confined=False).status, 0, "the same on a copy")
        layered(place, CHANGES, place.ws)
        apply(place)
        same(difference(timeless(tree(copy)), timeless(tree(place.ws))), "", "applied, against the plain copy")
        fixed = ("f", "new/deep/n", "becomes-file", "time-only", "holes", "src/a.c/inner", "elsewhere/7")
        same({n: tree(place.ws)[n][5] for n in fixed}, {n: tree(copy)[n][5] for n in fixed}, "times of files")
        check(os.stat(place.ws + "/holes").st_blocks * 512 < 4 << 20, "holes are filled")
        same(os.stat(place.ws + "/pair-a").st_ino, os.stat(place.ws + "/new/pair-b").st_ino, "a pair of names")
        result = atoll(place, "diff", "--name-only")
        same((result.status, result.out), (0, ""), "what is left to apply")
        undo(place)
        same(difference(before, tree(place.ws)), "", "after undo")
        same(os.stat(place.ws + "/tree/d").st_ino, os.stat(place.ws + "/tree/other-name").st_ino, "a pair that came back")
        undo(place, status=BAD_REQUEST)
        apply(place)
        same(difference(timeless(tree(copy)), timeless(tree(place.ws))), "", "applied again")


@test("attributes and access lists arrive, change, and come back")
def _():
    with Place() as place:
        need("setfacl", "setfattr")
        write(place.ws + "/a", "a\n")
        write(place.ws + "/d/x", "x\n")
        os.setxattr(place.ws + "/a", "user.kept", b"old")
        os.setxattr(place.ws + "/d", "user.kept", b"old")
        place.expect("*")
        place.settle()
        before = tree(place.ws)
        layered(place, """set -e; echo b >b; setfattr -n user.new -v 1 b; setfattr -n user.kept -v new a; setfattr -x user.kept d
            setfattr -n user.dir -v 2 d; setfacl -m u:$(id -u):r b; setfacl -d -m g::rx d; chmod 700 d""")
        apply(place)
        same(os.getxattr(place.ws + "/b", "user.new"), b"1", "of a new file")
        same(os.getxattr(place.ws + "/a", "user.kept"), b"new", "of a changed file")
        same(sorted(os.listxattr(place.ws + "/d")), ["system.posix_acl_default", "user.dir"], "of a directory")
        check("system.posix_acl_access" in os.listxattr(place.ws + "/b"), "the access list is gone")
        same(os.stat(place.ws + "/d").st_mode & 0o777, 0o700, "mode")
        undo(place)
        same(difference(before, tree(place.ws)), "", "after undo")


@test("ARC-10 ten thousand files that were renamed")
def _():
    # Once is enough: as root.
    many = 10000 if IS_ROOT and not IS_SANITIZED or os.environ.get("ATOLL_LONG") else 1000
    with Place() as place:
        for i in range(many):
            write(os.path.join(place.ws, "many", "%d.txt" % i), "number %d\n" % i)
        place.expect("*")
        place.settle()
        before = snapshot(place.ws)
        layered(place, "mv many all")
        listed = json.loads(atoll(place, "diff", "--json").out)["changes"]
        same(sum(change["kind"] == "renamed" for change in listed), many, "renamed files that diff names")
        apply(place)
        same(len(os.listdir(place.ws + "/all")), many, "files")
        check(not os.path.exists(place.ws + "/many"), "the old name is there")
        same(read(place.ws + "/all/777.txt"), b"number 777\n", "content")
        undo(place)
        same(difference(before, snapshot(place.ws)), "", "after undo")


# ---- conflicts ------------------------------------------------------------------------------------------------------

@test("ARC-08 the same file edited on both sides, deleted on one, made on both: nothing is applied, also of the rest")
def _():
    cases = [
        ("edited on both", "echo inside >>f", lambda ws: write(ws + "/f", "the host's\n")),
        ("deleted on the host", "echo inside >>f", lambda ws: os.unlink(ws + "/f")),
        ("deleted inside", "rm f", lambda ws: write(ws + "/f", "the host's\n")),
        ("made on both", "echo inside >both", lambda ws: write(ws + "/both", "the host's\n")),
        ("in a directory that was deleted inside", "rm -r src", lambda ws: write(ws + "/src/fresh", "the host's\n")),
        ("a directory inside, a file on the host", "mkdir both; echo x >both/x", lambda ws: write(ws + "/both", "the host's\n")),
        ("a mode on the host", "echo inside >>f", lambda ws: os.chmod(ws + "/f", 0o600)),
    ]
    for label, inside, on_host in cases:
        with Place() as place:
            place.expect("*")
            id = layered(place, "echo rest >rest; " + inside)
            on_host(place.ws)
            before = tree(place.ws)
            result = apply(place, status=POLICY)
            check("conflict: " in result.err, "%s: no conflict is told: %s" % (label, result.err))
            same(difference(before, tree(place.ws)), "", label)
            # What does not conflict can be asked for.
            apply(place, "--run", id, "--", "rest")
            same(read(place.ws + "/rest"), b"rest\n", label)
            # Force takes the run's side, and undo brings the host's back.
            part = tree(place.ws)
            apply(place, "--force")
            same(atoll(place, "diff", "--name-only").out, "", label + ": left after force")
            undo(place)
            same(difference(part, tree(place.ws)), "", label + ": after undo")
            apply(place, status=POLICY)


@test("a change that the host made as well is no conflict")
def _():
    with Place() as place:
        place.expect("both")
        layered(place, "echo same >both; rm README.md")
        write(place.ws + "/both", "same\n")
        os.unlink(place.ws + "/README.md")
        result = apply(place)
        check("nothing to apply" in result.out, result.out)


@test("--merge joins texts that both sides changed; the same lines stay a conflict")
def _():
    with Place() as place:
        write(place.ws + "/text", "".join("line %d\n" % i for i in range(20)))
        place.expect("*")
        place.settle()
        layered(place, "sed -i 's/line 3$/inside/' text; chmod 755 text")
        write(place.ws + "/text", "".join("line %d\n" % i for i in range(20)).replace("line 15\n", "the host's\n"))
        apply(place, status=POLICY)
        result = apply(place, "--merge")
        check("(merged)" in result.out, result.out)
        same(read(place.ws + "/text").decode().splitlines()[3], "inside", "the run's line")
        same(read(place.ws + "/text").decode().splitlines()[15], "the host's", "the host's line")
        undo(place)
        text = read(place.ws + "/text")
        check(b"inside" not in text and b"the host's\n" in text, "undo brings %r" % text)
        write(place.ws + "/text", text.replace(b"line 3\n", b"also the host's\n"))
        result = apply(place, "--merge", status=POLICY)
        check("text: the same lines were changed on the host since" in result.err and "--merge" not in result.err, "what it says: " + result.err)
        write(place.ws + "/text", b"\0" + text)
        result = apply(place, "--merge", status=POLICY)
        check("text: changed on the host since, and cannot be merged as a text" in result.err, "what it says of no text: " + result.err)
        write(place.ws + "/text", text.replace(b"line 3\n", b"also the host's\n"))
        check("--merge joins" in apply(place, status=POLICY).err, "what it says without --merge")
        check(b"also the host's\n" in read(place.ws + "/text"), "the host's is gone")


@test("ARC-07 a directory that became a link on the host is not followed")
def _():
    with Place() as place:
        write(place.ws + "/d/kept", "k\n")
        place.expect("*")
        place.settle()
        layered(place, "echo x >d/x; echo more >>d/kept; mkdir d/e; echo y >d/e/y")
        os.rename(place.ws + "/d", place.ws + "/d.away")
        os.symlink(place.out, place.ws + "/d")
        before = snapshot(place.out)
        apply(place, status=POLICY)
        apply(place, "d/x", status=POLICY)
        apply(place, "d/e", status=POLICY)
        apply(place, "--force")
        same(difference(before, snapshot(place.out)), "", "where the link leads")
        check(not os.path.islink(place.ws + "/d"), "the link is there")
        undo(place)
        same(os.readlink(place.ws + "/d"), place.out, "the link, back")
        same(difference(before, snapshot(place.out)), "", "where the link leads")
        same(read(place.ws + "/d.away/kept"), b"k\n", "what was moved away")


@test("ARC-07 links that the run made for a later apply to follow")
def _():
    with Place() as place:
        place.expect("*")
        id = layered(place, "ln -s $1 dir; ln -s $1/canary file; ln -s . here; echo x >here/through", place.out)
        apply(place)  # links that lead outside are held
        check(not os.path.lexists(place.ws + "/dir"), "a link that leads outside was applied unasked")
        apply(place, "--run", id, "--", "dir", "file")
        check(os.path.islink(place.ws + "/dir") and os.path.islink(place.ws + "/file"), "links")
        second = layered(place, "rm dir file; mkdir dir; echo x >dir/new; echo y >file")
        apply(place, second)
        check(not os.path.islink(place.ws + "/dir"), "a directory")
        same(read(place.ws + "/dir/new"), b"x\n", "in place of a link")
        same(read(place.ws + "/file"), b"y\n", "in place of a link")
        undo(place, second)
        same(os.readlink(place.ws + "/dir"), place.out, "the link, back")
        undo(place, id)
        check(not os.path.lexists(place.ws + "/dir"), "the link is there")


@test("FS-W08 a dangling link is reported and applied as a link")
def _():
    with Place() as place:
        place.expect("result.txt")
        id = layered(place, "ln -s $1/new result.txt", place.out)
        result = atoll(place, "diff")
        check("result.txt" in result.out, result.out)
        result = apply(place)
        check("result.txt" in result.out and "held back" in result.out, result.out)
        apply(place, "--run", id, "--", "result.txt")
        same(os.readlink(place.ws + "/result.txt"), place.out + "/new", "the link")
        undo(place)
        check(not os.path.lexists(place.ws + "/result.txt") and not os.path.exists(place.out + "/new"), "it was followed")


# ---- what is held, and parts ----------------------------------------------------------------------------------------

@test("what the host would execute or trust waits until it is named")
def _():
    with Place() as place:
        place.expect("*")
        id = layered(place, "echo 'touch $1' >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; echo x >plain; "
                     "git config core.fsmonitor 'touch x'", place.mark)
        result = apply(place)
        check("! .git/hooks/pre-commit" in result.out, result.out)
        check("atoll apply --run %s -- .git/hooks/pre-commit" % id in result.out, "the command is not told: " + result.out)
        check(not os.path.exists(place.ws + "/.git/hooks/pre-commit"), "it came unasked")
        check(b"fsmonitor" not in read(place.ws + "/.git/config"), "git's config came unasked")
        same(read(place.ws + "/plain"), b"x\n", "the rest")
        apply(place, ".git")  # beneath it is not named
        check(not os.path.exists(place.ws + "/.git/hooks/pre-commit"), "it came with its directory")
        apply(place, ".git/hooks/pre-commit")
        check(os.access(place.ws + "/.git/hooks/pre-commit", os.X_OK), "it did not come")
        undo(place)
        check(not os.path.exists(place.ws + "/.git/hooks/pre-commit"), "undo left it")
        same(read(place.ws + "/plain"), b"x\n", "of the apply before")
        undo(place)
        check(not os.path.exists(place.ws + "/plain"), "the second undo left it")


@test("a deleted directory stays as long as something in it is held")
def _():
    with Place() as place:
        write(place.ws + "/sub/.envrc", "export A=1\n")
        write(place.ws + "/sub/x", "x\n")
        place.expect("*")
        place.settle()
        layered(place, "rm -r sub")
        result = apply(place)
        if os.path.exists(place.ws + "/sub/.envrc"):
            check("held back" in result.out, result.out)
        check(not os.path.exists(place.ws + "/sub/x"), "x is there")
        undo(place)
        same(read(place.ws + "/sub/x"), b"x\n", "x")


@test("set-id bits do not come: no command inside can set them, and a layer that has them is held")
def _():
    with Place() as place:
        place.expect("*")
        id = layered(place, "cp /bin/true t; chmod 4755 t && exit 9; echo x >plain")
        # As a command that has found a way would have left it.
        found = glob.glob(place.home + "/.local/state/atoll/records/%s/top/upper/t" % id)
        same(len(found), 1, "the layer's file")
        os.chmod(found[0], 0o4755)
        result = apply(place)
        check("! t" in result.out, result.out)
        check(not os.path.exists(place.ws + "/t"), "it came unasked")
        apply(place, "--run", id, "--", "t")
        same(oct(os.stat(place.ws + "/t").st_mode & 0o7777), "0o4755", "mode")
        same(os.stat(place.ws + "/t").st_uid, os.stat(place.ws).st_uid, "owner")
        undo(place)
        check(not os.path.exists(place.ws + "/t"), "it is there")


@test("what was hidden from the run, or is protected, is not deleted with the directory it lies in unless it is named")
def _():
    with Place() as place:
        for name in ("d/x", "d/token", "e/deep/my.key", "p/kept", "p/x"):
            write(os.path.join(place.ws, name), name + "\n")
        place.expect("*")
        place.settle()
        before = tree(place.ws)
        flags = ["--hide", place.ws + "/d/token", "--hide", place.ws + "/e/**/*.key", "--protect", place.ws + "/p/kept"]
        for gone, held in (("d", "d/token"), ("e", "e/deep/my.key"), ("p", "p/kept")):
            id = layered(place, "rm -r $1", gone, flags=flags)
            result = apply(place, id)
            check("! %s (" % held in result.out, result.out)
            same(read(os.path.join(place.ws, held)), held.encode() + b"\n", "what was hidden or protected")
            check(not os.path.exists(os.path.join(place.ws, gone, "x")), "the rest is there")
            apply(place, "--run", id, "--", *(entry["path"] for entry in json.loads(
                apply(place, id, "--dry-run", "--json").out)["held"]))
            check(not os.path.exists(os.path.join(place.ws, gone)), "named, and there")
            undo(place, id)
            if tree(place.ws) != before:
                undo(place, id)
            same(difference(before, tree(place.ws)), "", "after undo")


@test("parts of a run: paths, from a directory beneath, by name; what lies outside or is not there is refused")
def _():
    with Place() as place:
        place.expect("*")
        id = layered(place, "mkdir -p a/b/c; echo 1 >a/b/c/1; echo 2 >a/b/2; echo 3 >src/3; echo 4 >4")
        apply(place, id, "a/b/c/1")
        same(sorted(os.listdir(place.ws + "/a/b")), ["c"], "what is there of a/b")
        apply(place, "3", cwd=place.ws + "/src")
        same(read(place.ws + "/src/3"), b"3\n", "from a directory beneath")
        apply(place, "nothing-here", status=BAD_REQUEST)
        apply(place, "/etc/passwd", status=BAD_REQUEST)
        apply(place, "../out", status=BAD_REQUEST)
        apply(place, "--run", "zzzzzzzz", status=BAD_REQUEST)
        check(not os.path.exists(place.ws + "/4"), "4 was not asked for")
        result = apply(place, "--dry-run")
        check("would apply" in result.out and not os.path.exists(place.ws + "/4"), result.out)
        apply(place)
        same(read(place.ws + "/4"), b"4\n", "the rest")
        same([r["state"] for r in records(place)], ["applied"], "state")
        for _ in range(3):
            undo(place)
        check(not os.path.exists(place.ws + "/a"), "a is there")


@test("a path that is empty, as of a variable that is not set, does not mean all")
def _():
    with Place() as place:
        layered(place, "echo x >x")
        for command in (["apply", ""], ["apply", "x", ""], ["diff", "--", ""]):
            result = atoll(place, *command)
            same(result.status, BAD_REQUEST, "%s: %s" % (command, result.out))
            check("a path is empty" in result.err, result.err)
        check(not os.path.exists(place.ws + "/x"), "it was applied")


@test("for programs: applied, held and conflicting paths as JSON, with any bytes")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, r"""printf x >"$(printf 'odd\n\377')"; echo hook >.git/hooks/post-merge; mv f g""")
        said = json.loads(apply(place, "--dry-run", "--json").out)
        same({os.fsencode(entry["path"]) for entry in said["applied"]} >= {b"odd\n\xff", b"g"}, True, "applied: %r" % said["applied"])
        same([entry["path"] for entry in said["held"]], [".git/hooks/post-merge"], "held")
        same(said["held"][0]["why"], "git hooks", "why")
        write(place.ws + "/f", "the host's\n")
        said = json.loads(apply(place, "--json", status=POLICY).out)
        same(len(said["conflicts"]), 1, "conflicts: %r" % said["conflicts"])
        same(said["applied"], [], "applied")


# ---- the whole workspace, closed directories, full disks -----------------------------------------------------------

@test("ARC-13 the run removes all of its workspace: all deleted, and undo brings all back")
def _():
    with Place() as place:
        place.expect("*")
        before = tree(place.ws)
        need_layers()
        run(place, [], inside_sh('rm -rf "$PWD"; mv ../ws ../x; ls -A; true'), mode="layer")
        same(difference(before, tree(place.ws)), "", "the host's")
        result = apply(place)
        if os.listdir(place.ws):  # what is marked is held, with the directories above it
            check("held back" in result.out, "left: %s" % os.listdir(place.ws))
        check(not os.path.exists(place.ws + "/f") and not os.path.exists(place.ws + "/src"), "not deleted")
        undo(place)
        same(difference(before, tree(place.ws)), "", "after undo")


@test("directories that are closed to their owner are opened for the moment, and closed again")
def _():
    with Place() as place:
        write(place.ws + "/closed/x", "x\n")
        write(place.ws + "/closed/gone/y", "y\n")
        os.chmod(place.ws + "/closed/gone", 0o555)
        os.chmod(place.ws + "/closed", 0o555)
        place.expect("*")
        place.settle()
        before = tree(place.ws)
        layered(place, "chmod 755 closed closed/gone; echo more >>closed/x; rm -r closed/gone; mkdir -p shut/in; echo z >shut/in/z; "
                "chmod 555 shut/in shut closed")
        apply(place)
        same(read(place.ws + "/closed/x"), b"x\nmore\n", "in a closed directory")
        check(not os.path.exists(place.ws + "/closed/gone"), "it is there")
        same(oct(os.stat(place.ws + "/closed").st_mode & 0o777), "0o555", "mode")
        same(oct(os.stat(place.ws + "/shut/in").st_mode & 0o777), "0o555", "mode of a new one")
        undo(place)
        same(difference(before, tree(place.ws)), "", "after undo")


@test("a tree of any depth is applied, and undone; one of the host's that is too deep to be kept for undo is not deleted")
def _():
    levels = 450
    make = "i=0; while [ $i -lt %d ]; do mkdir d && cd d || exit 1; i=$((i + 1)); done; echo x >leaf" % levels
    with Place() as place:
        leaf = os.path.join(place.ws, "d/" * levels + "leaf")
        place.expect("*")
        before = tree(place.ws)
        layered(place, make)
        apply(place)
        same(read(leaf), b"x\n", "at the bottom")
        write(leaf, "the host's\n")
        undo(place, status=POLICY)
        same(read(leaf), b"the host's\n", "at the bottom, changed by the host")
        write(leaf, "x\n")
        undo(place)
        check(not os.path.exists(place.ws + "/d"), "d is there after undo")
        same(difference(before, tree(place.ws)), "", "after undo")
        same(plain(place, ["sh", "-c", make], cwd=place.ws).status, 0, "a deep tree on the host")
        place.settle()
        layered(place, "rm -r d")
        err = apply(place, status=HOST_CANNOT).err
        check("is nested too deeply" in err and "nothing was changed" in err, err)
        same(read(leaf), b"x\n", "of the host's")


@test("a workspace that cannot be written is left alone, and so is the record")
def _():
    with Place() as place:
        need_user()
        place.expect("*")
        layered(place, "echo x >x; rm f")
        os.chmod(place.ws, 0o555)
        try:
            result = apply(place, status=HOST_CANNOT)
            same(result.err.count("nothing was changed"), 1, "said once: " + result.err)
            check(os.path.exists(place.ws + "/f"), "f is gone")
        finally:
            os.chmod(place.ws, 0o755)
        apply(place)
        check(os.path.exists(place.ws + "/x") and not os.path.exists(place.ws + "/f"), "not applied")
        undo(place)


def small_disk(place, what, size, script):
    """Run a shell script with `what` (ws or home) on a small tmpfs, in a mount namespace of its own."""
    need_root()
    whole = """set -e
mount --make-rprivate /
mkdir %(b)s/copy; cp -a %(w)s/. %(b)s/copy/
mount -t tmpfs -o size=%(s)s,mode=755 tmpfs %(w)s
cp -a %(b)s/copy/. %(w)s/; rm -r %(b)s/copy
cd %(ws)s
""" % {"b": place.tmp, "w": what, "s": size, "ws": place.ws} + script
    return plain(place, ["unshare", "-m", "sh", "-c", whole], confined=False)


@test("a full disk: nothing is changed, nothing is left, and it works once there is room")
def _():
    with Place() as place:
        need_layers()
        script = r"""
%(a)s run --mode layer -- sh -c 'dd if=/dev/urandom of=big bs=1M count=8 status=none; echo more >>f; rm README.md' 2>/dev/null
ls -A >%(t)s/before; cp f %(t)s/f
set +e
%(a)s apply; echo "first $?"
ls -A >%(t)s/after; cmp %(t)s/before %(t)s/after && cmp f %(t)s/f && echo same
mount -o remount,size=64m %(w)s
%(a)s apply --force >/dev/null; echo "second $?"
test -f big && grep -q more f && test ! -e README.md && echo there
%(a)s undo >/dev/null; cmp f %(t)s/f && test ! -e big && test -e README.md && echo back
""" % {"a": ATOLL, "w": place.ws, "t": place.tmp}
        result = small_disk(place, place.ws, "4m", script)
        words = result.out.split()
        same(words, ["first", str(HOST_CANNOT), "same", "second", "0", "there", "back"], "what happened: %s" % result.err)
        check("nothing was changed" in result.err, result.err)


@test("a full disk under the store: what undo needs does not fit, so nothing is changed")
def _():
    with Place() as place:
        write(place.ws + "/big", os.urandom(8 << 20))
        place.expect("*")
        place.settle()
        script = r"""
%s run --mode layer -- rm big 2>/dev/null
set +e
%s apply; echo "first $?"
test -f big && ls -A | grep -c '^.atoll'
mount -o remount,size=200m %s
%s apply >/dev/null; echo "second $?"
test ! -e big && echo gone
%s undo >/dev/null; test -e big && echo back
""" % (ATOLL, ATOLL, place.home, ATOLL, ATOLL)
        result = small_disk(place, place.home, "6m", script)
        same(result.out.split(), ["first", str(HOST_CANNOT), "0", "second", "0", "gone", "back"], "what happened: %s" % result.err)


@test("a file system that is mounted in a deleted directory is not emptied")
def _():
    with Place() as place:
        write(place.ws + "/sub/inner/x", "x\n")
        place.expect("*")
        place.settle()
        need_root()
        need_layers()
        script = r"""
mount --make-rprivate /
cd %s
%s run --mode layer -- rm -r sub 2>/dev/null
mount --bind %s sub/inner
%s apply; echo "first $?"
%s apply --force; echo "second $?"
ls sub/inner
""" % (place.ws, ATOLL, place.out, ATOLL, ATOLL)
        result = plain(place, ["unshare", "-m", "sh", "-c", script], confined=False)
        same(result.out.split(), ["first", str(POLICY), "second", str(POLICY), "canary", "secret.txt"], "what happened: %s" % result.err)


# ---- undo -----------------------------------------------------------------------------------------------------------

@test("undo takes nothing that the host changed since, unless it is forced")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, "echo inside >>f; mkdir d; echo x >d/x; rm README.md")
        apply(place)
        write(place.ws + "/f", "edited since\n")
        write(place.ws + "/d/own", "the host's\n")
        before = tree(place.ws)
        result = undo(place, status=POLICY)
        check("conflict" in result.err, result.err)
        same(difference(before, tree(place.ws)), "", "after the refusal")
        undo(place, "--force")
        same(read(place.ws + "/f"), b"one line\n", "f")
        same(sorted(os.listdir(place.ws + "/d")), ["own"], "the host's own file")
        check(os.path.exists(place.ws + "/README.md"), "README.md")


@test("what is in the way of an undo is named: the files themselves, not the directories that they lie in")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, "mkdir -p a/b; echo x >a/b/leaf; echo y >y; echo z >a/z")
        apply(place)
        write(place.ws + "/a/b/leaf", "the host's\n")
        err = undo(place, status=POLICY).err
        check("because of 1 conflict: 'a/b/leaf': changed on the host since\n" in err, err)
        write(place.ws + "/y", "the host's\n")
        err = undo(place, status=POLICY).err
        check("because of 2 conflicts" in err and "'a/b/leaf': " in err and "'y': " in err, err)
        write(place.ws + "/a/b/own", "the host's\n")
        undo(place, "--force")
        same(read(place.ws + "/a/b/own"), b"the host's\n", "a file of the host's own")
        check(not os.path.exists(place.ws + "/y") and not os.path.exists(place.ws + "/a/b/leaf") and
              not os.path.exists(place.ws + "/a/z"), "what was applied is there")


@test("two runs, applied one after the other and undone in either order")
def _():
    with Place() as place:
        place.expect("*")
        before = tree(place.ws)
        first = layered(place, "echo 1 >one")
        second = layered(place, "echo 2 >two; echo more >>f")
        apply(place, first)
        apply(place, second)
        undo(place, first)
        check(not os.path.exists(place.ws + "/one") and os.path.exists(place.ws + "/two"), "not the first")
        undo(place, second)
        same(difference(before, tree(place.ws)), "", "after both")


@test("a workspace of another owner: what root applies belongs to that owner")
def _():
    with Place() as place:
        need_root()
        for top, dirs, files in os.walk(place.ws):
            for name in [top] + [os.path.join(top, n) for n in dirs + files]:
                os.lchown(name, 4711, 4711)
        os.chmod(place.home, 0o755)
        place.expect("*")
        layered(place, "echo x >x; mkdir d; ln -s x d/l; echo more >>f")
        apply(place)
        same({name: os.lstat(os.path.join(place.ws, name)).st_uid for name in ("x", "d", "d/l", "f")},
             {"x": 4711, "d": 4711, "d/l": 4711, "f": 4711}, "owners")
        undo(place)
        same(os.stat(place.ws + "/f").st_uid, 4711, "owner after undo")


# ---- kill -9 ----------------------------------------------------------------------------------------------------------

# The calls that change something, and those that wait for the disk.
CALLS = ["mkdirat,mkdir", "renameat2", "renameat,rename", "unlinkat,unlink", "fsync,syncfs,fdatasync", "pwrite64", "write", "fchmod",
         "linkat", "utimensat"]


def killed_at(place, call, number, *args):
    """Run a command of atoll that is killed at its n-th call. False if it came to its end."""
    argv = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=%s:signal=KILL:when=%d" % (call, number),
            ATOLL, *args]
    result = Running(place, argv, starts=False).wait()
    if result.status == 0:
        return False
    among(result.status, (-signal.SIGKILL, 128 + signal.SIGKILL), "how it ended, %s" % result.err)
    return True


def crash_everywhere(place, what, other, states):
    """Kill `what` at every call of every kind; after any next command the tree is one of both."""
    n = 0
    for call in CALLS:
        number = 1
        while killed_at(place, call, number, what):
            n += 1
            number += 1
            result = atoll(place, "apply", "--dry-run")
            same(result.status, 0, "the next command after %s %d: %s" % (call, number - 1, result.err))
            no_traces(place)
            now = tree(place.ws)
            check(now in states, "killed at %s %d: neither the one nor the other: %s"
                  % (call, number - 1, difference(states[0], now)))
            if now == states[1]:
                same(atoll(place, other).status, 0, other)
                same(difference(states[0], tree(place.ws)), "", "%s after %s %d" % (other, call, number - 1))
            check(number < 400, "no end of %s" % call)
        same(difference(states[1], tree(place.ws)), "", "%s came to its end" % what)
        same(atoll(place, other).status, 0, other)
    return n


@test("killed at every system call that changes something, an apply and an undo are done or not done")
def _():
    if IS_SANITIZED:
        skip("a build without sanitizers, which cannot be traced")
    with Place(repository=False) as place:
        need("strace")
        for name in ("changed", "gone/a", "becomes-dir", "mode"):
            write(os.path.join(place.ws, name), name + "\n")
        place.expect("*")
        place.settle()
        before = tree(place.ws)
        layered(place, "echo more >>changed; rm -r gone; rm becomes-dir; mkdir becomes-dir; echo i >becomes-dir/i; chmod 600 mode; "
                "echo pair >pair; ln pair becomes-dir/pair; mkdir new; ln -s mode new/link; chmod 750 new")
        apply(place)
        after = tree(place.ws)
        undo(place)
        same(difference(before, tree(place.ws)), "", "after undo")
        n = crash_everywhere(place, "apply", "undo", [before, after])
        apply(place)
        n += crash_everywhere(place, "undo", "apply", [after, before])
        check(n > 100, "only %d crashes" % n)


@test("interrupted at any moment by Ctrl-C, an apply leaves nothing lying about")
def _():
    if IS_SANITIZED:
        skip("a build without sanitizers, which cannot be traced")
    with Place(repository=False) as place:
        need("strace")
        for name in ("changed", "gone/a", "other"):
            write(os.path.join(place.ws, name), name + "\n")
        place.expect("*")
        place.settle()
        before = tree(place.ws)
        layered(place, "echo more >>changed; rm -r gone; echo new >new; echo more >>other")
        seen = set()
        for call in ("mkdirat,mkdir", "fsync,syncfs", "renameat2", "unlinkat,unlink"):
            for number in range(1, 12):
                argv = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=%s:signal=INT:when=%d" % (call, number),
                        ATOLL, "apply"]
                result = Running(place, argv, starts=False).wait()
                among(result.status, (0, -signal.SIGINT, 128 + signal.SIGINT), "how it ended: %s" % result.err)
                no_traces(place)
                if tree(place.ws) == before:
                    seen.add("before")
                    continue
                seen.add("after")
                same(atoll(place, "undo").status, 0, "undo after %s %d" % (call, number))
                same(difference(before, tree(place.ws)), "", "after undo")
        same(seen, {"before", "after"}, "what came of it")


# ---- at the terminal --------------------------------------------------------------------------------------------------

def dialogue(place, argv, answers):
    """Run a command at a terminal of its own and answer its questions, each when it stands there. Gives all that was shown."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(place.ws)
        os.execve(argv[0], argv, caller_environment(place))
    shown, answered = "", 0
    os.set_blocking(fd, False)

    def more():
        nonlocal shown, answered
        try:
            shown += os.read(fd, 65536).decode("utf-8", "replace")
        except BlockingIOError:
            pass
        except OSError:
            return True
        while answered < len(answers) and shown.count("[N]o") > answered:
            # It drops what was typed before the question stood there, and then reads.
            if not is_reading(pid):
                break
            os.write(fd, answers[answered].encode() + b"\n")
            answered += 1
        return False
    check(until(more), "no end; shown: %r" % shown)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), shown


def is_reading(pid):
    """Does it wait for a line from its terminal?"""
    with contextlib.suppress(OSError):
        words = read("/proc/%d/syscall" % pid).split()
        return words[0] == b"0"  # read(2)
    return True


@test("--pick asks about every file; marked ones say so, and the default is no")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, r"""echo a >a; echo b >b; echo hook >.git/hooks/post-merge; echo x >"$(printf 'esc\033]0;title\007')" """)
        result = atoll(place, "apply", "--pick")
        same(result.status, BAD_REQUEST, "without a terminal")
        # Marked first, then by path: the hook, a, b, the odd one.
        status, shown = dialogue(place, [ATOLL, "apply", "--pick"], ["", "y", "d", "n", "n"])
        same(status, 0, shown)
        check("MARKED: git hooks" in shown and "+b" in shown, "shown: %r" % shown)
        check("\x1b]0;" not in shown, "the terminal would have obeyed: %r" % shown)
        check(os.path.exists(place.ws + "/a") and not os.path.exists(place.ws + "/b"), "a was picked, b was not")
        check(not os.path.exists(place.ws + "/.git/hooks/post-merge"), "the default of a marked one is no")
        status, shown = dialogue(place, [ATOLL, "apply", "--pick"], ["y", "q"])
        check(os.path.exists(place.ws + "/.git/hooks/post-merge"), "picked: %r" % shown)
        check(not os.path.exists(place.ws + "/b"), "b was not picked")


main()
