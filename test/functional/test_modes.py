#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: bare only without user namespaces
"""
How the workspace is written: `layer` (the default), `direct`, `read-only`; and `root: layer`

What the lines of a contract mean in each, seen from inside and from the host. That what is kept in a layer can be looked at, applied
and taken back is shown elsewhere; here it matters that the host has none of it.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

CHANGES = """set -e
echo more >>f; echo new >made; mkdir -p d/e; echo x >d/e/x; mv README.md renamed; rm src/a.c; chmod 700 f
ln -s f link; mkfifo fifo; ln f hard; rmdir src; : >src
cat f made d/e/x renamed; ls; stat -c %a f
"""
SEEN = "one line\nmore\nnew\nx\n# a workspace\nd\nf\nfifo\nhard\nlink\nmade\nrenamed\nsrc\n700\n"
TRUSTED = "echo x >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.pager evil; mkdir .vscode; echo {} >.vscode/settings.json; echo x >.envrc"


def whole(place):
    return snapshot(place.ws)


@test("the default is a layer: the command sees its changes, the host has none")
def _():
    need_layers()
    with Place() as place:
        before = whole(place)
        for mode in ("default", "layer"):
            result = run(place, [], CHANGES, mode=mode)
            same((result.status, result.out), (0, SEEN), "what the command saw, mode %s" % mode)
            same(difference(before, whole(place)), "", "on the host, mode %s" % mode)


@test("with --direct the same is on the host")
def _():
    with Place() as place:
        place.expect("*")
        result = run(place, ["--direct"], CHANGES)
        same((result.status, result.out), (0, SEEN), "what the command saw")
        same(read(place.ws + "/f"), b"one line\nmore\n", "f")
        check(os.path.isfile(place.ws + "/d/e/x") and not os.path.lexists(place.ws + "/README.md"), "not all of it is there")


@test("two runs in a layer do not see each other's changes")
def _():
    need_layers()
    with Place() as place:
        one = start(place, [], "echo one >x; echo up; read line; cat x; ls", mode="layer", stdin=subprocess.PIPE)
        same(one.process.stdout.readline(), b"up\n", "the first")
        same(run(place, [], "ls x; echo two >x; cat x", mode="layer").out, "two\n", "the second")
        out, _ = one.process.communicate(b"\n", RUN_SECONDS)
        one._result(out, b"")
        check(out.startswith(b"one\n"), "the first sees %r" % out)


@test("what the host trusts can be written in a layer, and none of it is on the host; directly it is refused")
def _():
    need_layers()
    need("git")
    with Place() as place:
        before = whole(place)
        result = run(place, [], TRUSTED + "; cat .git/hooks/pre-commit .vscode/settings.json .envrc; git config core.pager", mode="layer")
        same((result.status, result.out), (0, "x\n{}\nx\nevil\n"), "inside")
        same(result.refusals, [], "refusals")
        same(difference(before, whole(place)), "", "on the host")
        hostgit(place)
    with Place() as place:
        result = run(place, ["--direct"], TRUSTED)
        check(len(result.refusals) >= 4, "directly only these were refused: %s" % result.refusals)


@test("git commits in a layer are not on the host")
def _():
    need_layers()
    need("git")
    with Place() as place:
        before = whole(place)
        result = run(place, [], "echo x >new && git add . && git commit -qm inside && git log --format=%s", mode="layer")
        same((result.status, result.out), (0, "inside\nfirst\n"), "inside")
        same(difference(before, whole(place)), "", "on the host")


@test("a hook that was made in a layer runs inside, and not on the host")
def _():
    need_layers()
    need("git")
    with Place() as place:
        script = "printf '#!/bin/sh\\necho hooked; touch \"%s\"\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit --allow-empty -qm x" % place.mark
        result = run(place, [], script, mode="layer")
        check("hooked" in result.out + result.err, "the hook did not run inside: %s" % result.err)
        git(place.ws, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "outside")
        check(not os.path.lexists(place.mark), "it ran on the host")


@test("hidden names are not there in a layer, by path and by pattern, and stay the host's")
def _():
    need_layers()
    with Place() as place:
        for name in ("plans/a", "sub/.env", ".env", "sub/deep/x.key"):
            write(os.path.join(place.ws, name), place.secret)
        place.settle()
        before = whole(place)
        flags = ["--hide", "plans", "--hide", "**/.env", "--hide", "**/*.key"]
        result = run(place, flags, "ls -A . sub sub/deep; cat plans/a sub/.env .env sub/deep/x.key; rm -rf plans; true", mode="layer")
        for name in ("plans", ".env", "x.key"):
            check(name not in result.out.split(), "%s is listed: %s" % (name, result.out))
        same(difference(before, whole(place)), "", "on the host")
        # What it makes under such a name is its own.
        result = run(place, ["--hide", "plans"], "mkdir plans && echo mine >plans/a && cat plans/a; ls plans", mode="layer")
        among(result.out, ("mine\na\n", ""), "a hidden name made inside")
        same(difference(before, whole(place)), "", "on the host")


@test("read lines inside a layer are read-only, protect lines can be written there, write lines are the host's")
def _():
    need_layers()
    with Place() as place:
        place.expect("out")
        for name in ("ro/a", "out/a", "kept"):
            write(os.path.join(place.ws, name), "old\n")
        place.settle()
        before = whole(place)
        flags = ["--read", "ro", "--write", "out", "--protect", "kept"]
        result = run(place, flags, inside_py('''
            attempt("read-only", lambda: put("ro/a"))
            attempt("read-only new", lambda: put("ro/new"))
            attempt("direct", lambda: put("out/new", b"now\\n"))
            attempt("direct trusted", lambda: put("out/.envrc"))
            attempt("protected", lambda: put("kept", b"mine\\n"))
            attempt("layer", lambda: put("f", b"mine\\n"))
            attempt("looks", lambda: None if (get("kept"), get("f")[:5]) == (b"mine\\n", b"mine\\n") else put("/"))
        '''), mode="layer")
        result.refused("read-only", "read-only new", "direct trusted")
        result.allowed("direct", "protected", "layer", "looks")
        changed = difference(before, whole(place))
        check(changed.startswith("out/new: absent") and ";" not in changed, "on the host: %s" % changed)
        same(read(place.ws + "/out/new"), b"now\n", "what was written directly")


@test("read-only: nothing can be written but what a line names")
def _():
    with Place() as place:
        write(place.ws + "/out/a")
        place.expect("out")
        place.settle()
        result = run(place, ["--write", "out"], "echo x >out/b; (echo x >f) || (echo x >made) || echo no", mode="read-only")
        same(result.out, "no\n", "refused")
        check(os.path.exists(place.ws + "/out/b"), "the line does not hold")


@test("a job file in the workspace may not write directly unless it is trusted")
def _():
    need_layers()
    with Place(strict=False) as place:
        place.expect("job.yaml", "made", "out")
        os.mkdir(place.ws + "/out")
        job = place.ws + "/job.yaml"

        def again(text, *flags, **options):
            write(job, text)
            return run(place, ["-f", "job.yaml", *flags], None, mode="default", starts=False, **options)

        refused = again("command: touch made\nworkspace: {mode: direct}\n")
        same(refused.status, POLICY, "status")
        check("workspace.mode direct (job.yaml:2)" in refused.err and "atoll trust" in refused.err, refused.err)
        refused = again("command: touch out/made\nfilesystem: {write: [out]}\n")
        same(refused.status, POLICY, "status of a directory")
        check("filesystem.write" in refused.err, refused.err)
        check("root layer" in again("command: touch made\nroot: layer\n").err, "a root that can be written needs no trust")
        check(not os.path.exists(place.ws + "/made") and not os.listdir(place.ws + "/out"), "something was written")
        for text in ("command: touch made\n", "command: touch made\nworkspace: {mode: layer}\nroot: read-only\ncheckpoints: every-step\n",
                     "command: cat f\nworkspace: {mode: read-only}\n"):
            same(again(text).status, 0, "status of %r" % text)
        check(not os.path.exists(place.ws + "/made"), "it is on the host")
        # A person who says so needs no trust.
        same(again("command: touch out/made\nfilesystem: {write: [out]}\n", "--direct").status, 0, "status with --direct")
        check(os.path.exists(place.ws + "/out/made"), "it is not on the host")
        write(job, "command: touch made\nworkspace: {mode: direct}\n")
        same(atoll(place, "trust", "job.yaml").status, 0, "trust")
        same(run(place, ["-f", "job.yaml"], None, mode="default").status, 0, "status once trusted")
        check(os.path.exists(place.ws + "/made"), "a trusted file writes directly")


@test("the command is told how its workspace is written")
def _():
    with Place() as place:
        for mode, when, words in (("layer", "apply", "kept in a layer"), ("direct", "write", "fails with EACCES"), ("read-only", "always", "read-only")):
            if BARE and mode == "layer":
                continue
            result = run(place, [], 'd=$(dirname "${ATOLL_CONTRACT:-/run/atoll/contract.md}"); cat $d/contract.json; echo; cat $d/contract.md', mode=mode)
            line, text = result.out.split("\n", 1)
            told = json.loads(line)
            same((told["workspace_mode"], told["protected_when"], told["root"], told["checkpoints"]), (mode, when, "read-only", "manual"), mode)
            check(words in text, "%s: %s" % (mode, text[:600]))


@test("a layer is stated in the plan, and its contract has a digest of its own")
def _():
    need_layers()
    with Place() as place:
        plans = {mode: json.loads(atoll(place, "run", "--plan", "--json", "--", "true", mode=mode).out) for mode in ("default", "layer", "direct", "read-only")}
        same(len({plan["digest"] for plan in plans.values()}), 3, "digests")
        same(plans["default"]["digest"], plans["layer"]["digest"], "the default")
        line, = [line for line in plans["default"]["clauses"] if line["subject"] == place.ws and line["clause"] == "filesystem.write"]
        check("layer" in "%s %s" % (line["mechanism"], line["note"]), line)
        line, = [line for line in plans["direct"]["clauses"] if line["subject"] == place.ws and line["clause"] == "filesystem.write"]
        check("directly" in line["note"], line)


@test("root: layer lets system directories be written, for this run alone")
def _():
    need_layers()
    places = ["/var/lib", "/usr/local/bin", "/etc", "/opt"] if IS_ROOT else ["/var"]
    with Place() as place:
        tried = "for d in %s; do echo x >$d/atoll-test-%s && cat $d/atoll-test-%s; done" % (" ".join(places), place.token, place.token)
        result = run(place, ["--root", "layer"], tried, mode="default")
        same(result.out, "x\n" * len(places), "inside: %s" % result.err)
        for where in places:
            check(not os.path.lexists(place.name(where)), "%s on the host" % place.name(where))
        result = run(place, ["--root", "layer"], "ls " + " ".join(places), mode="default")
        check(place.token not in result.out, "it is there in the next run")
        check("x" not in run(place, [], tried, mode="default").out.split(), "without it the same can be written")


@test("root: layer shows nothing that is hidden otherwise")
def _():
    need_layers()
    with Place() as place:
        result = run(place, ["--root", "layer"], "cat /etc/shadow /etc/gshadow /etc/sudoers; ls -A %s /root; cat %s/.ssh/id; true" % (place.home, place.home),
                     mode="default")
        check(place.secret not in result.out and "root:" not in result.out, "a secret is shown")
        if IS_ROOT:
            result = run(place, ["--root", "layer"], "echo new >/etc/hostname; cat /etc/hostname; id -u; rm -rf /etc/passwd; ls /etc/passwd", mode="default")
            same(result.out, "new\n0\n", "inside: %s" % result.err)
            check(os.path.exists("/etc/passwd") and read("/etc/hostname") != b"new\n", "the host's files were changed")


ACROSS = """import os
dev = os.stat("/usr").st_dev
print("one layer:", all(os.stat(p).st_dev == dev for p in ("/etc", "/opt", "/var/lib/dpkg")), os.stat("/").st_dev != dev)
os.makedirs("/opt/a/b")
open("/opt/a/f", "w").close()
os.chdir("/opt/a/b")
for call in (os.rename, os.link):
    for source in ("/opt/a", "/opt/a/f"):
        try:
            call(source, "/usr/local/gone")
            print("went")
        except OSError as what:
            print(os.strerror(what.errno) if source.endswith("f") else "refused")
seen = set()
for start in ("/usr", "/etc", "/opt/a/b", "/var/lib/dpkg"):
    fd = os.open(start, os.O_RDONLY)
    for _ in range(5):
        fd = os.open("..", os.O_RDONLY, dir_fd=fd)
        try:
            os.stat(%r, dir_fd=fd)
            seen.add(start)
        except OSError:
            pass
print("beyond:", *seen)
"""


@test("root: layer: the system's trees have one layer, and nothing leads from one to another, or to what is not shown")
def _():
    need_layers()
    if not IS_ROOT:
        raise Skipped("root alone has a layer over them")
    if len({os.stat(where).st_dev for where in ("/", "/usr", "/etc", "/opt", "/var/lib/dpkg")}) > 1:
        raise Skipped("a system on one file system")
    with Place() as place:
        hidden = (place.out + "/secret.txt").lstrip("/")
        check(os.path.exists("/" + hidden), "there is nothing to find")
        result = run(place, ["--root", "layer"], ["python3", "-c", ACROSS % hidden], mode="default")
        same(result.out, "one layer: True True\nrefused\nInvalid cross-device link\nrefused\nInvalid cross-device link\nbeyond:\n", "inside: %s" % result.err)


@test("root: layer, and the workspace written directly or not at all")
def _():
    need_layers()
    with Place() as place:
        place.expect("made")
        job = job_file(place, {"command": ["sh", "-c", "echo x >/var/x && cat /var/x; echo x >made"], "root": "layer", "workspace": {"mode": "direct"}})
        same(run(place, ["-f", job], None).out, "x\n", "inside")
        same(os.stat(place.ws + "/made").st_uid, os.stat(place.ws).st_uid, "whose it is")
        result = run(place, ["--root", "layer"], "echo x >/var/x && cat /var/x; (echo x >other) || echo no", mode="read-only")
        same(result.out, "x\nno\n", "read-only")


@test("a workspace that is missing, a link or no directory is refused alike in every mode, and leaves no record")
def _():
    with Place() as place:
        os.symlink("/nonexistent", place.ws + "/dangling")
        os.symlink(place.out, place.ws + "/link")
        place.settle()
        for mode in ("direct", "read-only") if BARE else ("default", "direct", "read-only"):
            for name, statuses in (("missing", (BAD_REQUEST,)), ("f", (BAD_REQUEST,)), ("dangling", (POLICY,)), ("link", (POLICY,))):
                result = run(place, ["--workspace", name], "true", mode=mode, starts=False)
                among(result.status, statuses, "%s, %s: %s" % (mode, name, result.err))
                same(len(result.err.splitlines()), 1, "lines of %r" % result.err)
        check("no records" in atoll(place, "ls").out, "a record is left")


@test("a run in a layer that is killed leaves nothing in the workspace")
def _():
    need_layers()
    with Place() as place:
        before = whole(place)
        running = start(place, [], "echo x >made; rm f; echo up; sleep 600", mode="layer")
        same(running.process.stdout.readline(), b"up\n", "output")
        running.kill()
        same(processes_left(), {}, "processes")
        same(difference(before, whole(place)), "", "on the host")


@test("without user namespaces a layer is refused in one line that names --direct")
def _():
    if not BARE:
        skip("a host without user namespaces (ATOLL_BARE=1)")
    with Place() as place:
        for mode in ("default", "layer"):
            result = run(place, [], "touch made", mode=mode, starts=False)
            same(result.status, HOST_CANNOT, "status")
            same(len(result.err.strip().splitlines()), 1, "lines")
            check("--direct" in result.err, result.err)


main()
