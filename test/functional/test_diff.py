# SPDX-License-Identifier: Apache-2.0
# check: seconds 62
# check: on disk as user
"""What a run has changed, as `atoll diff` tells it and `atoll export --format patch` writes it."""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from terminal import on_terminal  # noqa: E402


def layered(place, command, flags=()):
    """A run in mode layer that succeeds and changes nothing of the host's."""
    place.settle()
    before = snapshot(place.ws)
    result = run(place, list(flags), command, mode="layer")
    same(result.status, 0, "the run: " + result.err)
    changed = difference(before, snapshot(place.ws))
    check(not changed, "the host's files have moved: %s" % changed)
    return result


def diff(place, *args, **options):
    result = atoll(place, "diff", *args, **options)
    same(result.status, 0, "diff: " + result.err)
    return result


def changes(place, *args, **options):
    """path -> what the list says about it."""
    whole = json.loads(diff(place, "--json", *args, **options).raw_out.decode("utf-8", "surrogatepass"))
    check(re.fullmatch("[a-z2-7]{8}", whole["record"]), "the record's id")
    return {os.fsdecode(c["path"].encode("utf-8", "surrogateescape")): c for c in whole["changes"]}


def told(place, *args):
    """A short form of the list: (kind, parts) of each path."""
    return {path: (c["kind"], *c["parts"]) for path, c in changes(place, *args).items()}


@test("added, changed, deleted, renamed, types, modes, links, empty directories: each is told as what it is")
def _():
    need_layers()
    with Place() as place:
        for name in ("changed", "gone", "mode", "touched", "opened", "old-name", "to-dir", "to-link"):
            write(place.ws + "/" + name, "text of %s\n" % name)
        write(place.ws + "/tree/sub/file", "x\n")
        write(place.ws + "/again/kept", "kept\n")
        write(place.ws + "/again/lost", "lost\n")
        os.symlink("changed", place.ws + "/link")
        layered(place, """
            set -e
            echo more >>changed; rm gone; chmod 755 mode; touch -d @1000000000 touched; : >>opened
            mv old-name new-name; rm to-dir; mkdir to-dir; echo quite new >to-dir/in; ln -sf mode to-link
            rm -r tree; cp -p again/kept /tmp/kept; rm -r again; mkdir again; cp -p /tmp/kept again/kept
            ln -sfn gone link; mkdir -p empty/er; echo new >'new file'; ln 'new file' hard
            """)
        same(told(place), {
            "changed": ("changed", "content"), "gone": ("deleted",), "mode": ("changed", "mode"),
            "touched": ("changed", "time"), "new-name": ("renamed",), "to-dir": ("changed", "type"), "to-dir/in": ("added",),
            "to-link": ("changed", "type"), "tree": ("deleted",), "tree/sub": ("deleted",), "tree/sub/file": ("deleted",),
            "again/lost": ("deleted",), "link": ("changed", "content"), "empty": ("added",), "empty/er": ("added",),
            "new file": ("added",), "hard": ("added",)}, "the list")
        listed = changes(place)
        same(listed["new-name"]["from"], "old-name", "where the renamed one was")
        same(listed["mode"]["after"]["mode"], "0755", "the new mode")
        same(listed["hard"]["link_group"], listed["new file"]["link_group"], "names of one file")
        same(listed["gone"]["after"], None, "what is gone")


@test("paths choose, and other forms: --stat, --name-only")
def _():
    need_layers()
    with Place() as place:
        layered(place, "echo 1 >src/b.c; echo 2 >>src/a.c; echo 3 >f; mkdir src2; echo 4 >src2/c")
        same(sorted(told(place, "--", "src")), ["src/a.c", "src/b.c"], "beneath src")
        same(sorted(told(place, "--", place.ws + "/f", "src/b.c")), ["f", "src/b.c"], "two")
        same(sorted(changes(place, "--", ".", cwd=place.ws + "/src")), ["src/a.c", "src/b.c"], "from the directory src")
        same(diff(place, "--name-only").out.split(), ["f", "src/a.c", "src/b.c", "src2", "src2/c"], "names")
        stat = diff(place, "--stat").out
        check(re.search(r"\+1 +-0 +changed +src/a.c", stat), "a line of --stat: " + stat)
        check("5 changes, 4 lines added, 1 removed" in stat, "the sum of --stat: " + stat)
        whole = json.loads(diff(place, "--json").out)["record"]
        same(told(place, whole), told(place), "by its id")
        same(told(place, whole[:5]), told(place), "by a beginning of it")
        result = atoll(place, "diff", "--", place.out)
        same(result.status, 240, "a path elsewhere")
        same(atoll(place, "diff", "zzzzzzzz").status, 240, "no such run")
        same(atoll(place, "diff", "--stat", "--json").status, 240, "two forms")


@test("texts are unified diffs as git makes them, and binary files have their sizes")
def _():
    need_layers()
    with Place() as place:
        write(place.ws + "/long", "".join("line %d\n" % i for i in range(100)))
        write(place.ws + "/bin", b"\0\1\2")
        layered(place, r"""sed -i -e 3s/line/LINE/ -e 50d -e '97a more' long; printf '\0\1\2\3' >bin; printf 'no newline' >tail""")
        shown = diff(place).out
        check("Binary file bin: 3 to 4 bytes" in shown, "sizes")
        check("+no newline\n\\ No newline at end of file" in shown, "the end of a text")
        text = shown[shown.index("--- a/long"):]
        text = text[:text.index("\n  ") + 1] if "\n  a" in text else text
        after = place.tmp + "/after"
        write(after, re.sub("line 2\n", "LINE 2\n", "".join("line %d\n" % i for i in range(100) if i != 49))
              .replace("line 96\n", "line 96\nmore\n"))
        git_says = subprocess.run(["git", "diff", "--no-index", "--no-color", place.ws + "/long", after], stdout=subprocess.PIPE,
                                  text=True, env={"PATH": HOST_PATH, "HOME": place.home}).stdout
        hunks = re.findall(r"^@@ [^@]* @@", git_says, re.M)
        same(re.findall(r"^@@ [^@]* @@", shown[shown.index("+++ b/long"):], re.M)[:3], hunks, "hunks")


@test("what the host would execute or trust comes first, marked, and has its reason")
def _():
    need_layers()
    with Place() as place:
        os.symlink("/etc", place.ws + "/etc-link")
        layered(place, """
            printf '#!/bin/sh\\n' >.git/hooks/pre-commit; git config core.fsmonitor 'touch x'; mkdir -p a/.vscode
            echo '{}' >a/.vscode/tasks.json; ln -s /etc/passwd bait; ln -s etc-link/shadow bait2; ln -s src/a.c fine
            mkfifo pipe; echo ordinary >aaa; git init -q --bare vendor.git; echo 'gitdir: x' >src/.git
            rm README.md; mkfifo README.md
            """)
        listed = changes(place)
        marks = {path: c["mark"] for path, c in listed.items()}
        for path, mark in {".git/hooks/pre-commit": "git hooks", ".git/config": "git config", "a/.vscode/tasks.json": "editor settings",
                           "bait": "link out of the workspace", "bait2": "link out of the workspace", "pipe": "special file",
                           "README.md": "special file", "vendor.git/config": "a new git directory",
                           "src/.git": "git pointer file", "aaa": None, "fine": None}.items():
            same(marks.get(path), mark, "mark of " + path)
        order = [c["mark"] is None for c in listed.values()]
        same(order, sorted(order), "marked ones first")
        lines = diff(place).out.splitlines()
        check(lines[0].startswith("! marks "), "the legend: " + lines[0])
        check(any(line.startswith("! added    .git/hooks/pre-commit") and "[git hooks]" in line for line in lines), "the mark")


@test("a commit inside is not marked; of git gc only the commit-graph is, without which git works as well")
def _():
    need_layers()
    for gc, expected in (("", []), ("; git gc -q", [".git/objects/info/commit-graph"])):
        with Place() as place:
            layered(place, "echo more >>f; git add f; git commit -q -m second; git branch other%s; git status >/dev/null" % gc)
            same([path for path, c in changes(place).items() if c["mark"]], expected, "marks")


@test("lines of the contract are marked: protect, hide")
def _():
    need_layers()
    with Place() as place:
        write(place.ws + "/keep/x", "x\n")
        write(place.ws + "/secret/token", "x\n")
        layered(place, "echo y >keep/x; echo z >kept; rm -rf secret; mkdir secret; echo w >secret/new",
                ["--protect", "keep", "--hide", "secret"])
        marks = {path: c["mark"] for path, c in changes(place).items()}
        same(marks.get("keep/x"), "protected by the contract", "protect")
        same(marks.get("kept"), None, "another")
        same(marks.get("secret/new"), "hidden by the contract", "what was made where something is hidden")
        check("secret/token" not in marks or marks["secret/token"] == "hidden by the contract", "what was hidden is not deleted")


@test("a terminal obeys nothing of names and texts; other readers get them as they are")
def _():
    need_layers()
    with Place() as place:
        evil = "\\033]0;title\\007\\033[2J\\302\\233x\\r"
        layered(place, "printf 'a%s\\tb\\n' >text; n=$(printf 'n%s\\n-'); echo x >\"$n\"" % (evil, evil))
        seen = on_terminal(place, "diff", env={"PAGER": "cat"})
        check(b"\x1b[32m+a" in seen, "colours")
        harmless = re.sub(rb"\x1b\[[0-9;]*m|[\r\n\t]", b"", seen)
        check(not re.search(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]", harmless), "obeyed: %r" % harmless)
        check(b"title" in seen, "the text is shown")
        check(b"\x1b]0;title\x07" in diff(place).raw_out, "a program gets the text itself")
        plain_seen = on_terminal(place, "diff", env={"PAGER": "", "NO_COLOR": "1"})
        check(b"\x1b" not in plain_seen, "NO_COLOR")


@test("a pager reads it on a terminal, and only there")
def _():
    need_layers()
    with Place() as place:
        layered(place, "echo x >new")
        seen = on_terminal(place, "diff", env={"PAGER": "sed s/^/PAGED:/"})
        check(b"PAGED:" in seen and b"new" in seen, "through $PAGER: %r" % seen)
        check("PAGED" not in diff(place, env={"PAGER": "sed s/^/PAGED:/"}).out, "into a pipe")
        write(place.ws + "/less", "#!/bin/sh\ntouch %s\n" % place.mark, 0o755)
        place.expect("less")
        on_terminal(place, "diff", env={"PAGER": None, "PATH": place.ws + ":" + HOST_PATH})  # TH-22
        # Who has seen enough goes, and that is no failure.
        on_terminal(place, "diff", env={"PAGER": "true"})


@test("fifos, sockets, closed directories, depth, odd names and a quarter of a gibibyte of holes keep nobody")
def _():
    need_layers()
    # Longer than a path may be, and by the user also deeper than anybody may have files open.
    name, depth = ("d", 2500) if os.environ.get("ATOLL_LONG") else ("d" * 40, 120) if IS_ROOT else ("dddd", 1100)
    with Place() as place:
        with open(place.ws + "/holes", "wb") as file:
            file.truncate(1 << 28)
            file.seek(1 << 27)
            file.write(b"middle")
        layered(place, ["python3", "-c", r"""
import os, socket, sys
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.makedirs("closed/in"); open("closed/in/file", "w").write("x"); os.chmod("closed/in/file", 0)
os.chmod("closed/in", 0); os.chmod("closed", 0)
open(b"\xff\n\x01\"\\", "w").write("odd")
with open("holes", "r+b") as file:
    file.seek((1 << 28) - 1); file.write(b"!")
with open("more", "wb") as file:
    file.truncate(1 << 28)
os.mkdir("deep"); os.chdir("deep")
for i in range(int(sys.argv[2])):
    os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
open("bottom", "w").write("x")
""", name, str(depth)])
        listed = changes(place)
        same(listed["fifo"]["after"]["type"], "fifo", "fifo")
        same(listed["socket"]["after"]["type"], "socket", "socket")
        same(listed["closed/in/file"]["after"]["mode"], "0000", "what is closed")
        same(listed["holes"]["parts"], ["content"], "holes")
        same(listed["more"]["after"]["size"], 1 << 28, "more")
        check(os.fsdecode(b"\xff\n\x01\"\\") in listed, "odd names")
        check("deep/" + (name + "/") * depth + "bottom" in listed, "the bottom")
        shown = diff(place).out
        check("Binary file holes: 268435456 to 268435456 bytes" in shown, "a large one is named")
        same(changes(place)["closed/in"]["after"]["mode"], "0000", "still closed")
        same(atoll(place, "discard").status, 0, "discard")  # deeper than what removes the place can go


@test("extended attributes count, those of the overlay do not")
def _():
    need_layers()
    with Place() as place:
        write(place.ws + "/plain", "x\n")
        try:
            os.setxattr(place.ws + "/plain", "user.old", b"1")
        except OSError:
            skip("a file system with attributes")
        layered(place, ["python3", "-c", """
import os
os.setxattr("plain", "user.old", b"2")
os.setxattr("f", "user.new", b"1")
os.setxattr("src", "user.dir", b"1")
open("src/a.c", "a").close()
"""])
        same(told(place), {"plain": ("changed", "xattrs"), "f": ("changed", "xattrs"), "src": ("changed", "xattrs")}, "the list")


@test("what the host changed meanwhile is told, and what came out the same is no conflict")
def _():
    need_layers()
    with Place() as place:
        for name in ("both", "alike", "gone-here", "gone-there", "calm"):
            write(place.ws + "/" + name, "one\n")
        time.sleep(0.02)  # a tick of the file system's clock
        layered(place, "for n in both alike gone-there calm; do echo two >$n; done; rm gone-here; echo two >new")
        time.sleep(0.02)
        write(place.ws + "/both", "three\n")
        write(place.ws + "/alike", "two\n")
        write(place.ws + "/gone-here", "three\n")
        write(place.ws + "/new", "three\n")
        os.unlink(place.ws + "/gone-there")
        place.expect("new")
        same({path: c["conflict"] for path, c in changes(place).items()},
             {"both": "changed on the host since", "gone-here": "changed on the host since", "new": "added on the host as well",
              "gone-there": "deleted on the host since", "calm": None}, "conflicts")
        check("conflict: changed on the host since" in diff(place).out, "for people")


def tree(top):
    """What git can say of a tree: files with their bit, links."""
    found = {}
    for where, directories, files in os.walk(os.fsencode(top)):
        if b".git" in directories:
            directories.remove(b".git")
        for name in files + [d for d in directories if os.path.islink(os.path.join(where, d))]:
            path = os.path.join(where, name)
            below = os.path.relpath(path, os.fsencode(top))
            if os.path.islink(path):
                found[below] = ("link", os.readlink(path))
            else:
                found[below] = (bool(os.stat(path).st_mode & 0o100), read(path))
    return found


CHANGE = r"""
import os, shutil
def put(path, data=b"new\n"):
    os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
put(b"src/a.c", b"int a;\nint b;\n")
put(b"bin", bytes(range(256)) * 700)
put(b"bin-new", b"\0" * 100000 + b"x")
put(b"empty")
open("empty", "w").close()
os.unlink("gone-empty"); os.unlink("gone-bin"); os.unlink("gone")
put(b"na me/with \"quotes\" and \\", b"q\n")
put(b"\xff\xfe\n\x01", b"odd")
put(b"tail", b"no newline")
os.chmod("mode", 0o755)
os.rename("old", "sub-new")
shutil.move("dir/inner", "moved"); open("moved", "a").write("and more\n")
os.unlink("to-link"); os.symlink("f", "to-link")
os.unlink("link"); os.symlink("else\nwhere", "link")
os.unlink("from-link"); put(b"from-link", b"a file\n")
os.unlink("to-dir"); put(b"to-dir/in", b"in\n")
shutil.rmtree("to-file"); put(b"to-file", b"out\n")
os.mkdir("nothing-in-it")
put(b".gitignore", b"*.o\n")
put(b"crlf", b"a\r\nb\r\n\r\n")
"""


@test("a patch of everything applies with git apply and gives the same tree")
def _():
    need_layers()
    need("git")
    with Place() as place:
        for name, content in {"bin": bytes(range(255, -1, -1)) * 9, "gone-empty": b"", "gone-bin": b"\0\1", "gone": b"gone\n",
                              "mode": b"m\n", "old": b"some text that moves\nas it is\n", "dir/inner": b"more\ntext\nthat\nmoves\n" * 9,
                              "to-link": b"was a file\n", "to-dir": b"was a file\n", "to-file/deep/x": b"x\n",
                              "tail": b"tail\n", "crlf": b"a\r\nb\r\nc\r\n"}.items():
            write(place.ws + "/" + name, content)
        os.symlink("f", place.ws + "/link")
        os.symlink("nowhere", place.ws + "/from-link")
        there, there_direct = place.tmp + "/patched", place.tmp + "/direct"
        shutil.copytree(place.ws, there, symlinks=True)
        shutil.copytree(place.ws, there_direct, symlinks=True)
        layered(place, ["python3", "-c", CHANGE])
        same(plain(place, ["python3", "-c", CHANGE], cwd=there_direct).status, 0, "the same outside")
        patch = atoll(place, "export", "--format", "patch")
        same(patch.status, 0, patch.err)
        done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=there, input=patch.raw_out, stderr=subprocess.PIPE,
                              env={"PATH": HOST_PATH, "HOME": place.home})
        same(done.returncode, 0, "git apply: %r" % done.stderr)
        same(tree(there), tree(there_direct), "the trees")
        check(b"# not in this patch: nothing-in-it (a directory)" in patch.raw_out, "what a patch cannot say")
        same(atoll(place, "export", "-o", place.tmp + "/p").status, 0, "into a file")
        same(read(place.tmp + "/p"), patch.raw_out, "the file")


@test("a patch leaves out what git refuses, and is not written through a link or to a terminal")
def _():
    need_layers()
    need("git")
    with Place() as place:
        layered(place, "echo x >.git/hooks/pre-push; echo x >new; mkfifo pipe")
        os.symlink(place.out + "/new", place.ws + "/result.patch")
        place.expect("result.patch", "new")
        same(atoll(place, "export", "--format", "patch", "-o", "result.patch").status, 0, "export")  # FS-W08
        check(not os.path.lexists(place.out + "/new") and not os.path.islink(place.ws + "/result.patch"), "written through a link")
        text = read(place.ws + "/result.patch")
        check(b"# not in this patch: .git/hooks/pre-push (in a git directory)" in text, "git's own")
        check(b"# not in this patch: pipe (a special file)" in text, "special files")
        done = git(place.ws, "apply", "result.patch")
        same(done.returncode, 0, "git apply: %s" % done.stdout)
        primary, secondary = pty.openpty()
        done = subprocess.run([ATOLL, "export", "--format", "patch"], cwd=place.ws, stdout=secondary, stderr=subprocess.PIPE,
                              env=caller_environment(place))
        os.close(secondary)
        os.close(primary)
        same(done.returncode, 240, "to a terminal: %r" % done.stderr)
        same(atoll(place, "export", "--format", "nothing").status, 240, "another format")


main()
