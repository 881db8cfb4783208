# SPDX-License-Identifier: Apache-2.0
# check: seconds 110
# check: user only
# check: sanitized
"""
Family L of the escape corpus: archives, overlays, apply (ARC); and FS-W08 and TH against apply

What a run in a layer leaves behind reaches the host by `apply`, `export` and `undo`, and what comes in by `import`. Each attack
is made inside, in a layer, where it succeeds; the host's side is then looked at after `apply` without names, where nothing of it
may be, and after `apply` with its name, where it is: so that the test can fail.
"""
import gzip
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from archives import *  # noqa: E402
from trust import *  # noqa: E402


# ---- archives from strangers -----------------------------------------------------------------------------------------

def control(place):
    """The same way with nothing hostile in it works: else a refusal shows nothing."""
    check(taken(place, tar(entry("a", DIR, mode=0o755), entry("a/f", data=b"x"))), "nothing is imported here")


@test("ARC-01 names that lead out of the directory")
def _():
    with Place() as place:
        control(place)
        out = place.out
        for name in ("../x", "/abs/x", "a/../../x", "..", "/", "a/..", "a/../../../../../../" + out[1:] + "/x", out + "/x", "./../x", "a/./../../x",
                     "//x", "../new2", "a/../b", "../new/x"):
            for kind in (FILE, DIR, LINK, HARD):
                refused(place, tar(entry("a", DIR), entry(name, kind, link="a/x" if kind in (LINK, HARD) else "", data=b"x" if kind == FILE else b"")),
                        "%s of kind %r" % (name, kind))
        # By each way that a tar has to say a name.
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            refused(place, tar(entry("../x", data=b"x"), form=form), "format %d" % form)
        refused(place, tar(entry("../" * 60 + "x" * 150, data=b"x"), form=tarfile.GNU_FORMAT), "a long GNU name")
        refused(place, tar(entry("fine", data=b"x", pax={"path": "../x"})), "a pax path")
        refused(place, tar(entry("fine", LINK, "a", pax={"linkpath": "/etc"})), "a pax link")
        refused(place, tar(entry("fine", HARD, "a", pax={"linkpath": "../canary"})), "a pax hard link")
        refused(place, tar(entry("GNUSparseFile.0/x", data=b"0\n".ljust(512, b"\0"), pax={
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "../x", "GNU.sparse.realsize": "0"})), "a sparse file's name")
        # Said for all that follow: to some programs it counts, and to none it may.
        same(sorted(taken(place, global_header(path="../x") + tar(entry("fine", data=b"x")))), [".", "fine"], "a global pax header")
        same(os.listdir(place.tmp), ["a.tar"], "beside the archive")


def global_header(**records):
    """A pax header for all that follow."""
    body = b"".join(pax_record(key, value.encode()) for key, value in records.items())
    info = tarfile.TarInfo("g")
    info.type, info.size = tarfile.XGLTYPE, len(body)
    return info.tobuf(tarfile.USTAR_FORMAT) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def pax_record(key, value):
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


@test("ARC-02 links, and what is written through them")
def _():
    with Place() as place:
        control(place)
        out, canary = place.out, place.out + "/canary"
        hostile = {
            "a link out, then a file in it": [entry("d", LINK, out), entry("d/x", data=b"x")],
            "a relative link out": [entry("d", LINK, "../../out"), entry("d/x", data=b"x")],
            "a link inside, then a file in it": [entry("e", DIR), entry("d", LINK, "e"), entry("d/x", data=b"x")],
            "a link to the top, then a file in it": [entry("d", LINK, "."), entry("d/x", data=b"x")],
            "a link, then a directory in its place": [entry("d", LINK, "e"), entry("e", DIR), entry("d", DIR), entry("d/x", data=b"x")],
            "a directory, then a link in its place": [entry("d", DIR), entry("d", LINK, "e"), entry("d/x", data=b"x")],
            "a file, then a link in its place": [entry("d", data=b"x"), entry("d", LINK, out)],
            "a link, then a file in its place": [entry("f", LINK, "g"), entry("f", data=b"x")],
            "a dangling link, then a file in its place": [entry("f", LINK, "../new-file"), entry("f", data=b"x")],
            "links one behind the other": [entry("a", LINK, "b"), entry("b", LINK, ".."), entry("a/x", data=b"x")],
            "up through a link": [entry("a", LINK, "."), entry("b", LINK, "a/.."), entry("b/x", data=b"x")],
            "a hard link outside": [entry("h", HARD, canary), entry("h", data=b"x")],
            "a hard link outside by dots": [entry("h", HARD, "../../out/canary")],
            "a hard link through a link": [entry("d", LINK, "e"), entry("e", DIR), entry("e/f", data=b"x"), entry("h", HARD, "d/f")],
            "a hard link to a link": [entry("l", LINK, "f"), entry("f", data=b"x"), entry("h", HARD, "l")],
            "a hard link to a directory": [entry("d", DIR), entry("h", HARD, "d")],
            "a hard link to what comes later": [entry("h", HARD, "f"), entry("f", data=b"x")],
            "a hard link to itself": [entry("h", HARD, "h")],
            "a hard link with content": [entry("f", data=b"x"), entry("h", HARD, "f", data=b"yy", size=2)],
            "a hard link over a file": [entry("f", data=b"x"), entry("g", data=b"y"), entry("g", HARD, "f")],
            "a file, then something in it": [entry("f", data=b"x"), entry("f/x", data=b"x")],
            "the same name twice": [entry("f", data=b"x"), entry("./f", data=b"y")],
            "the top as a link": [entry(".", LINK, out), entry("x", data=b"x")],
            "the top as a file": [entry("./", FILE, data=b"x")],
        }
        for what, entries in hostile.items():
            refused(place, tar(*entries), what)
            if entries[0][0].type == LINK or entries[0][0].type == DIR:
                # Links that lead out may be asked for; written through is none even then.
                result = import_archive(place, tar(*entries), "--outside-links")
                if result.status == 0:
                    remove(unpacked(place))
                among(result.status, (*ARCHIVE_REFUSED, 0) if what.startswith("a hard link to a") else ARCHIVE_REFUSED, what + " with links allowed")
        for target in ("/etc/passwd", "..", "../x", "a/../../x", out, "a/../x"):
            refused(place, tar(entry("l", LINK, target)), "a link to %s" % target, says="symbolic link")
        found = taken(place, tar(entry("l", LINK, out), entry("a", DIR, mode=0o755), entry("a/l", LINK, "../b")), "--outside-links")
        same((found["l"][2], found["a/l"][2]), (out, "../b"), "links that were asked for")


@test("ARC-02 the tree is complete or not there at all, and nobody sees it before")
def _():
    with Place() as place:
        entries = [entry("f%d" % i, data=b"x" * 1000) for i in range(200)]
        refused(place, tar(*entries, entry("../x", data=b"x")), "the last of two hundred")
        refused(place, tar(*entries)[:100000], "cut off", says="")
        refused(place, gzip.compress(tar(*entries))[:-200], "cut off, compressed")
        broken = bytearray(gzip.compress(os.urandom(20000) + tar(*entries)))
        refused(place, bytes(broken), "something before it")
        refused(place, b"", "nothing")
        refused(place, os.urandom(5000), "noise")
        os.mkdir(place.ws + "/new")
        refused(place, tar(entry("f", data=b"x"), entry("../x", data=b"x")), "into an empty directory")
        same(os.listdir(unpacked(place)), [], "the empty directory")
        place.expect("new")


@test("ARC-02 what reads an archive is locked in before the first byte")
def _():
    with Place() as place:
        reader, writer = os.pipe()
        running = Running(place, [ATOLL, "import", "-", "--to", "new"], stdin=reader, starts=False)
        os.close(reader)

        def status():
            for pid in children(running.pid):
                with contextlib.suppress(OSError):
                    fields = dict(line.split(":", 1) for line in read("/proc/%d/status" % pid).decode().splitlines())
                    if fields["Name"].strip() == "atoll-archive" and fields["Seccomp"].strip() == "2":
                        return pid, {name: text.strip() for name, text in fields.items()}
        found = until(status)
        check(found, "it has not locked itself in, and waits for the archive")
        pid, fields = found
        same((fields["NoNewPrivs"], int(fields["CapEff"], 16), int(fields["CapPrm"], 16)), ("1", 0, 0), "privileges")
        if IS_ROOT:
            among(os.path.basename(os.readlink("/proc/%d/root" % pid))[:7], [".atoll-"], "its root")
            same(sorted(map(int, os.listdir("/proc/%d/fd" % pid))), [0, 1, 2, 3, 4], "its descriptors")
        os.write(writer, tar(entry("f", data=b"x")))
        os.close(writer)
        same(running.wait().status, 0, "and it works")
        same(os.listdir(unpacked(place)), ["f"], "what came in")
        place.expect("new")


@test("ARC-02 kinds and attributes that a workspace does not take from strangers")
def _():
    with Place() as place:
        control(place)
        for kind, what in ((CHAR, "a device"), (BLOCK, "a device"), (FIFO, "a fifo")):
            refused(place, tar(entry("x", kind)), what, says=what)
        whiteout = tarfile.TarInfo("x")
        whiteout.type, whiteout.devmajor, whiteout.devminor = CHAR, 0, 0
        refused(place, tar((whiteout, b"")), "overlayfs's whiteout", says="a device")
        for name in (".wh.f", "a/.wh.f", ".wh..wh..opq", ".wh.d/x"):
            refused(place, tar(entry(name)), name, says="whiteout")
        for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout", "user.overlay.origin",
                     "trusted.overlay.opaque", "user.overlay.overlay.opaque"):
            refused(place, tar(entry("d", DIR, pax={"SCHILY.xattr." + name: "y"})), name, says="overlayfs")
            refused(place, tar(entry("f", pax={"SCHILY.xattr." + name: "y"})), name, says="overlayfs")


@test("ARC-04 zip: names, links, bombs, zips in zips")
def _():
    with Place() as place:
        same(sorted(taken(place, make_zip(("a/b", "x")), name="a.zip")), [".", "a", "a/b"], "a zip with nothing hostile in it")
        for name in ("../x", "/abs/x", "a/../../x", place.out + "/x"):
            refused(place, make_zip((name, "x")), name, name="a.zip")
        refused(place, make_zip(("d", place.out, 0o120777), ("d/x", "x")), "a link, then a file in it", name="a.zip")
        refused(place, make_zip(("d", "e", 0o120777), ("e/", "", 0o40755), ("d/x", "x")), "a link inside, then a file in it", name="a.zip")
        refused(place, make_zip(("l", "/etc/passwd", 0o120777)), "a link out", name="a.zip")
        refused(place, make_zip(("x", "", 0o20666)), "a device", name="a.zip")
        found = taken(place, make_zip(("x", "", 0o10666)), name="a.zip")
        same(found["x"][0], oct(0o100644), "a fifo is taken for a file")
        same(sorted(taken(place, make_zip(("in.zip", make_zip(("../x", "x")))), name="a.zip")), [".", "in.zip"], "a zip in a zip is a file")
        found = taken(place, make_zip(("s", "x", 0o106755)), name="a.zip")
        same(found["s"][0], oct(0o100755), "set-id bits")
        # Windows separators mean a directory to some; never one above.
        result = import_archive(place, make_zip(("..\\..\\x", "x")), name="a.zip")
        if result.status == 0:
            remove(unpacked(place))
        check(not os.path.lexists(place.base + "/x") and not os.path.lexists(place.ws + "/x"), "backslashes lead out")


@test("ARC-04 bombs: bytes, ratio, entries, depth, holes, headers")
def _():
    with Place() as place:
        big = [entry("zeros%d" % i, data=bytes(8 << 20)) for i in range(12)]
        bomb = subprocess.run(["xz", "-9", "-T1"], input=tar(*big), stdout=subprocess.PIPE, check=True).stdout if shutil.which("xz") else None
        if bomb:
            check(len(tar(*big)) > 5000 * len(bomb), "this is no bomb")
            refused(place, bomb, "1 to %d" % (len(tar(*big)) // len(bomb)), says="--ratio")
            same(len(taken(place, bomb, "--ratio", "100000")), 13, "with the bound lifted")
        zipped = make_zip(*[("z%d" % i, bytes(8 << 20)) for i in range(12)])
        refused(place, zipped, "a zip of 1 to %d" % ((96 << 20) // len(zipped)), says="--ratio", name="a.zip")
        twice = gzip.compress(gzip.compress(tar(*big)))
        refused(place, twice, "compressed twice", says="--ratio")
        refused(place, tar(entry("f", data=bytes(3 << 20))), "too many bytes", "--disk", "2M", says="--disk")
        refused(place, tar(*[entry("f%d" % i, data=bytes(1 << 20)) for i in range(3)]), "too many bytes in all", "--disk", "2M", says="--disk")
        refused(place, tar(*[entry("f%d" % i) for i in range(101)]), "too many entries", "--files", "100", says="--files")
        same(len(taken(place, tar(*[entry("f%d" % i) for i in range(100)]), "--files", "100")), 101, "as many as allowed")
        refused(place, tar(entry("/".join("d" * 100) + "/f")), "directories that nobody counted", "--files", "50", says="--files")
        refused(place, tar(entry("/".join("d" * 300))), "too deep", says="deep")
        refused(place, tar(entry("n" * 256)), "a name too long", says="long")
        refused(place, tar(entry("/".join(["n" * 200] * 30))), "a path too long", says="long")
        holes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": str(1 << 50)}
        refused(place, tar(entry("s", data=b"0\n".ljust(512, b"\0"), pax=holes)), "a hole of a petabyte")
        refused(place, tar(entry("s", size=1 << 60, data=b"")), "a size that is a lie")
        # Declared as small, and there is more; and the other way round.
        refused(place, tar(entry("f", data=b"x" * 600))[:600], "less than it says")


@test("ARC-04 what is strange and not hostile is told apart")
def _():
    with Place() as place:
        found = taken(place, tar(entry(".", DIR), entry("./a", data=b"x"), entry(".//b//c", data=b"y")))
        same(sorted(found), [".", "a", "b", "b/c"], "dots and slashes that mean nothing")
        found = taken(place, tar(entry("d/f", data=b"x"), entry("d", DIR, mode=0o500), entry("d", DIR, mode=0o700)))
        same(found["d"][0], oct(0o40700), "a directory told of again")
        found = taken(place, tar(entry("a\0b", data=b"x", pax={"path": "c\0d"})))
        same(sorted(found), [".", "c"], "a name ends at a NUL")
        names = ["...", "..a", "a..", "-rf", "~", "$(touch x)", "a\nb", "\x1b[31m", "con", "a:b", "a\\b", " ", "%s%n"]
        same(sorted(taken(place, tar(*[entry(name) for name in names]))), sorted([".", *names]), "odd names")
        result = import_archive(place, tar(entry("\x1b]0;x\x07/../y")))
        check("\x1b" not in result.err, "a terminal is told what to do")


# ---- what a layer brings to the host ---------------------------------------------------------------------------------

def layered(place, command, *flags, **options):
    """A run in a layer, whose end leaves the host's workspace as it was."""
    need_layers()
    before = snapshot(place.ws)
    result = run(place, [*flags], command, mode="layer", **options)
    changed = difference(before, snapshot(place.ws))
    check(not changed, "a run in a layer changed the host: %s" % changed)
    return result


def changes(place):
    """{path: change} of the latest run, by `atoll diff --json`."""
    result = atoll(place, "diff", "--json", leaks=True)
    same(result.status, 0, "diff: %s" % result.err.strip())
    return {change["path"]: change for change in json.loads(result.out)["changes"]}


def marked(place):
    return [path for path, change in changes(place).items() if change.get("mark")]


def apply(place, *paths, status=0):
    result = atoll(place, "apply", *(["--", *paths] if paths else []))
    if status is not None:
        same(result.status, status, "apply %s: %s" % (" ".join(paths)[:200], result.err.strip()[:300]))
    return result


def held_back(attack, effect, prepare=None, flags=(), repository=True, wants_marks=True):
    """Planted in a layer: `apply` brings nothing of it that works to the host, `apply` with the names does, and undo takes all of
    it back.

    attack(place)   the command, which succeeds inside; effect(place): true if it works on the host."""
    with Place(repository=repository) as place:
        if prepare:
            prepare(place)
        place.expect("*", ".git/*")
        before = snapshot(place.ws)
        layered(place, attack(place), *flags)
        listed = changes(place)
        if wants_marks:
            check(any(change.get("mark") for change in listed.values()), "nothing is marked: %s" % sorted(listed)[:20])
        apply(place)
        apply(place)  # the second one sees what the first has left
        check(not effect(place), "apply without names brought it to the host")
    with Place(strict=False, repository=repository) as place:
        if prepare:
            prepare(place)
        place.expect("*", ".git/*")
        before = snapshot(place.ws)
        layered(place, attack(place), *flags)
        names = marked(place)
        apply(place)
        if names:
            apply(place, *names)
        after = snapshot(place.ws)
        check(effect(place), "it does not work when it is named: this test shows nothing")
        if os.path.lexists(place.mark):
            os.unlink(place.mark)
        restored(place, before, after)


def restored(place, before, after):
    """undo, as often as there were applies, if the effect itself has changed nothing since."""
    if difference(after, snapshot(place.ws)):
        return
    result = atoll(place, "undo")
    same(result.status, 0, "undo: %s" % result.err.strip()[:300])
    atoll(place, "undo")  # the first of two, if it had anything to apply
    changed = difference(before, snapshot(place.ws))
    check(not changed, "undo did not restore: %s" % changed[:600])


def runs(place):
    return use_git(place, 60)


HOOK_SH = "printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$1\""
EVIL_SH = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = \"touch %s;false\"\\n' \"$1\""


def script(text):
    text = text.replace("HOOK", HOOK_SH).replace("EVIL", EVIL_SH)
    return lambda place: inside_sh("set -e\n" + text, place.mark)


@test("TH-01 git hooks, made in a layer")
def _():
    held_back(script("for h in %s; do HOOK >.git/hooks/$h; chmod +x .git/hooks/$h; done" % " ".join(HOOKS)), runs)
    held_back(script("mkdir d; for h in %s; do HOOK >d/$h; chmod +x d/$h; done; rm -rf .git/hooks; mv d .git/hooks" % " ".join(HOOKS)), runs)
    held_back(script("HOOK >x; chmod +x x; ln x .git/hooks/pre-commit; ln -s ../../x .git/hooks/post-checkout"), runs)

    def with_hook(place):
        write(place.ws + "/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
        write(place.ws + "/.git/hooks/off", "#!/bin/sh\ntouch '%s'\n" % place.mark, 0o644)
        place.settle()
    held_back(script("HOOK >>.git/hooks/pre-commit"), runs, prepare=with_hook)
    held_back(script("chmod +x .git/hooks/off; mv .git/hooks/off .git/hooks/post-checkout"), runs, prepare=with_hook)


@test("TH-02 git config keys that run programs, set in a layer")
def _():
    def planted(place):
        return b"!touch" in read(place.ws + "/.git/config")
    held_back(lambda place: inside_sh('m=$1; shift; for k; do git config "$k" "!touch $m"; done', place.mark, *KEYS), planted)
    held_back(script('git config core.fsmonitor "touch $1;false"'), runs)
    held_back(script("EVIL >.git/config"), runs)
    held_back(script("EVIL >c; mv c .git/config"), runs)
    held_back(script("EVIL >c; rm .git/config; ln -s ../c .git/config"), runs)
    held_back(script("EVIL >c; printf '[include]\\n\\tpath = ../c\\n' >>.git/config"), runs)


@test("TH-04 .git/commondir, in a layer")
def _():
    held_back(script("mkdir -p evil; cp -r .git/objects .git/refs evil; EVIL >evil/config; echo ../evil >.git/commondir"), runs)


@test("TH-05 worktree config, in a layer")
def _():
    held_back(script("git config extensions.worktreeConfig true; EVIL >.git/config.worktree"), runs)

    def on_already(place):
        git(place.ws, "config", "extensions.worktreeConfig", "true")
        git(place.ws, "worktree", "add", "-q", "wt")
        place.settle()
    held_back(script("EVIL >.git/config.worktree; EVIL >.git/worktrees/wt/config.worktree"), runs, prepare=on_already)


@test("TH-07 submodule directories, in a layer")
def _():
    held_back(script('git config -f .git/modules/sub/config core.fsmonitor "touch $1;false"'), runs, prepare=with_submodule)
    held_back(script("HOOK >.git/modules/sub/hooks/pre-commit; chmod +x .git/modules/sub/hooks/pre-commit"), runs, prepare=with_submodule)


@test("TH-08 .git pointer files, in a layer")
def _():
    def prepare(place):
        with_submodule(place)
        git(place.ws, "worktree", "add", "-q", "wt")
        place.settle()
    evil = "mkdir -p evil/objects evil/refs/heads; echo 'ref: refs/heads/main' >evil/HEAD; EVIL >evil/config\n"
    held_back(script(evil + "for d in sub wt; do echo 'gitdir: ../evil' >$d/.git; done"), runs, prepare=prepare)
    held_back(script(evil + "for d in sub wt; do rm $d/.git; ln -s ../evil $d/.git; done"), runs, prepare=prepare)
    held_back(script(evil + "rm sub/.git; mv evil sub/.git"), runs, prepare=prepare)
    held_back(script(evil + "mkdir n; echo 'gitdir: ../evil' >n/.git"), runs)


@test("TH-10 embedded bare repository, in a layer")
def _():
    held_back(lambda place: inside_sh(BARE_REPOSITORY, place.mark), runs)
    held_back(script("mkdir -p v/objects v/refs; EVIL >v/config; echo 'ref: refs/heads/main' >v/HEAD; mkdir p; echo 'gitdir: ../v' >p/.git"), runs)


@test("TH-10 a git directory whose halves come by two applies")
def _():
    with Place(strict=False) as place:
        place.expect("*")
        layered(place, script("mkdir -p v/objects; EVIL >v/config; echo 'ref: refs/heads/main' >v/HEAD; mkdir p; echo 'gitdir: ../v' >p/.git")(place))
        apply(place)
        layered(place, inside_sh("mkdir -p v/refs"))
        apply(place)
        check(not runs(place), "the second half made it one")
        apply(place, *marked(place))
        check(runs(place) or not marked(place), "nothing is shown here")


@test("TH-11 workspace root turned into a repository, in a layer")
def _():
    held_back(script("cp -r .git/objects .git/refs .git/HEAD .; rm -rf .git/HEAD .git/objects; EVIL >config; echo 'worktree = .' >>config; "
                     "mkdir -p hooks; HOOK >hooks/pre-commit; chmod +x hooks/pre-commit"), runs)


@test("TH-13 repositories deeper than a scan, in a layer")
def _():
    deep = "a/b/c/d/e/f/g/h/i/j/k/l"

    def prepare(place):
        make_repository(place.ws + "/" + deep)
        place.settle()
    held_back(script('cd %s; git config core.fsmonitor "touch $1;false"; HOOK >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit' % deep), runs,
              prepare=prepare)


@test("TH-14 new repository where there was none, in a layer")
def _():
    held_back(script('git init -q; git config core.fsmonitor "touch $1;false"; HOOK >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit'), runs,
              repository=False)


@test("TH-16 alternates and grafts, in a layer")
def _():
    def planted(place):
        return any(os.path.lexists(place.ws + "/.git/" + n) for n in ("objects/info/alternates", "objects/info/http-alternates", "info/grafts",
                                                                      "info/attributes"))
    held_back(lambda place: inside_sh('echo "$1/.git/objects" >.git/objects/info/alternates; echo x >.git/info/grafts; '
                                      'echo "* filter=x" >.git/info/attributes; ln -s /x .git/objects/info/http-alternates', place.home), planted)


def plant_all(names, top=""):
    return lambda place: inside(r"""
        for name in arg[1:]:
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True); put(name, b"planted\n")
    """, place.mark, *[top + name for name in names])


@test("TH-17 editor, agent and CI folders, made in a layer, also in subfolders")
def _():
    for top in ("", "src/"):
        held_back(plant_all(EDITORS, top), lambda place: planted_names(place.ws + "/" + top, EDITORS))
        with Place() as place:
            place.expect("*")
            layered(place, plant_all(EDITORS, top)(place))
            listed = changes(place)
            same([name for name in EDITORS if not listed[top + name].get("mark")], [], "not marked")
    def prepare(place):
        for name in EDITORS:
            write(os.path.join(place.ws, name), "the user's\n")
        place.settle()
    with Place() as place:
        prepare(place)
        layered(place, inside(r"""
            for name in arg[1:]:
                put(name, b"planted\n", os.O_WRONLY | os.O_TRUNC)
        """, place.mark, *EDITORS))
        apply(place)
        same([name for name in EDITORS if read(os.path.join(place.ws, name)) != b"the user's\n"], [], "changed")
    with Place() as place:
        prepare(place)
        layered(place, inside_sh('for n; do rm -f "$n"; done', *EDITORS))
        apply(place)
        same([name for name in EDITORS if not os.path.exists(os.path.join(place.ws, name))], [], "deleted")


@test("TH-17 the same by rename, by link and as a whole directory")
def _():
    def moved(place):
        return inside(r"""
            for i, name in enumerate(arg[1:]):
                top = name.split("/")[0]; tmp = "made-%d" % i
                if os.path.lexists(top): continue
                if top == name: put(tmp, b"planted\n")
                else:
                    rest = tmp + name[len(top):]; os.makedirs(os.path.dirname(rest), exist_ok=True); put(rest, b"planted\n")
                os.rename(tmp, top)
        """, place.mark, *EDITORS)

    def linked(place):
        return inside(r"""
            for i, name in enumerate(arg[1:]):
                os.makedirs(os.path.dirname(name) or ".", exist_ok=True); put("plain-%d" % i, b"planted\n"); os.link("plain-%d" % i, name)
        """, place.mark, *EDITORS)

    def by_link(place):
        return inside(r"""
            for i, name in enumerate(arg[1:]):
                top = name.split("/")[0]; tmp = "made-%d" % i
                if os.path.lexists(top): continue
                rest = tmp + name[len(top):]
                if top != name: os.makedirs(os.path.dirname(rest), exist_ok=True)
                put(rest, b"planted\n"); os.symlink(tmp, top)
        """, place.mark, *EDITORS)
    for attack in (moved, linked, by_link):
        held_back(attack, lambda place: planted_names(place.ws, EDITORS))


@test("TH-19 and TH-20 shell files and persistence, where the workspace is somebody's home")
def _():
    for names in (HOME_FILES, PERSISTENCE):
        with Place() as place:
            place.expect("*")
            layered(place, plant_all(names)(place))
            listed = changes(place)
            same([name for name in names if not listed[name].get("mark")], [], "not marked")
            apply(place)
            same(planted_names(place.ws, names), [], "planted")
        held_back(plant_all(names), lambda place: planted_names(place.ws, names))


@test("TH-17 names that some file system takes for a trusted one, in a layer")
def _():
    names = [odd + rest for odd in ODD for rest in ("/hooks/pre-commit", "/config")]
    names += [".BASHRC", ".VsCode/tasks.json", ".vscode./tasks.json", ".GitHub/Workflows/x.yml", ".ENVRC", ".Gitlab-CI.yml", "JENKINSFILE", ".NPMRC"]
    with Place() as place:
        place.expect("*")
        layered(place, plant_all(names)(place), env={"LC_ALL": "C.UTF-8"})
        apply(place)
        same(planted_names(place.ws, names), [], "planted")


@test("TH-22 and TH-23 what a run left is neither a program nor a setting of atoll's own commands")
def _():
    tools = ["git", "less", "more", "diff", "patch", "diff3", "merge", "tar", "cp", "sh", "true", "atoll-archive", "atoll-egress", "xz", "pager"]
    with Place(strict=False) as place:
        place.expect("*")
        wide = json.dumps({"version": 1, "command": ["/bin/true"], "filesystem": {"write": [place.out]}})
        layered(place, inside(r"""
            for where in ("", "bin/"):
                for tool in arg[2:]:
                    if where: os.makedirs(where, exist_ok=True)
                    put(where + tool, HOOK, mode=0o755)
            for name in ("atoll.yaml", "atoll.json", ".atollrc", ".atoll/config", "job.yaml", "policy.yaml"):
                if "/" in name: os.makedirs(os.path.dirname(name), exist_ok=True)
                put(name, arg[1].encode())
        """, place.mark, wide, *tools))
        env = {"PATH": ".:%s:%s:%s" % (place.ws, place.ws + "/bin", HOST_PATH), "PAGER": None}
        plan = atoll(place, "run", "--plan", "--json", "--", "/bin/true", env=env).out
        for args in (["diff"], ["diff", "--stat"], ["apply"], ["diff"], ["ls"], ["export", "--format", "patch"], ["export", "--format", "tar", "-o", place.tmp + "/x.tar"],
                     ["undo"], ["apply"], ["gc"], ["ls", "--json"]):
            result = atoll(place, *args, env=env)
            among(result.status, (0,), "atoll %s: %s" % (" ".join(args), result.err.strip()[:200]))
            check(not os.path.lexists(place.mark), "atoll %s ran a planted program on the host" % " ".join(args))
        same(len(planted_names(place.ws, tools)), len(tools), "planted programs on the host")
        same(atoll(place, "run", "--plan", "--json", "--", "/bin/true", env=env).out, plan, "the plan with settings in the workspace")


@test("TH-25 special files left in a layer")
def _():
    large = 256 << 20 if IS_SANITIZED or not IS_ROOT else 10 << 30  # it is read for the record: once is enough
    with Place() as place:
        place.expect("many", "sparse", "x", "loop", "d", "README.md", "plain")
        layered(place, inside(r"""
            os.unlink("README.md"); os.mkfifo("README.md"); os.mkfifo("fifo"); os.mkdir("d"); os.mkfifo("d/.env")
            socket.socket(socket.AF_UNIX).bind("sock")
            put("sparse"); os.truncate("sparse", int(arg[1]))
            os.mkdir("many")
            for i in range(1000): os.mknod("many/%d" % i)
            put("x"); quiet(lambda: os.setxattr("x", "user.big", b"x" * 3000))
            os.symlink("loop", "loop"); put("plain")
            put("setuid", b"#!/bin/sh\n", mode=0o755); quiet(lambda: os.chmod("setuid", 0o6755))
        """, place.mark, large), "--disk", "20G")
        listed = changes(place)
        for name in ("fifo", "d/.env", "README.md"):
            check(listed[name].get("mark"), "%s is not marked" % name)
        apply(place)
        for name in ("fifo", "sock", "d/.env"):
            check(not os.path.lexists(os.path.join(place.ws, name)), "%s came to the host" % name)
        check(os.path.isfile(place.ws + "/README.md"), "a file was replaced by a fifo")
        check(os.path.exists(place.ws + "/plain"), "the rest did not come: nothing is shown")
        same(os.stat(place.ws + "/sparse").st_size, large, "the size of a sparse file")
        check(os.stat(place.ws + "/sparse").st_blocks * 512 < 1 << 20, "its holes are filled")
        for args in (["diff"], ["diff", "--json"], ["ls"], ["undo"]):
            same(atoll(place, *args).status, 0, " ".join(args))


@test("FS-W08 and TH-26 links that a run left are never followed, and are told as links")
def _():
    attack = 'ln -s "$1/new" result.txt; ln -s "$1/canary" over.txt; rm f; ln -s "$1/canary" f; ln -s "$1" dir; ln -s "$2/.ssh/id" key; ln -s / site'
    with Place() as place:
        place.expect("*")
        layered(place, inside_sh(attack, place.out, place.home))
        listed = changes(place)
        for name in ("result.txt", "over.txt", "f", "dir", "key", "site"):
            check(listed[name].get("mark"), "%s is not marked" % name)
        for args in (["diff"], ["diff", "--stat"], ["export", "--format", "patch"]):
            result = atoll(place, *args)
            check(place.secret not in result.out, "%s read through a link" % args[0])
        result = atoll(place, "export", "--format", "tar", "-o", place.tmp + "/x.tar")
        same(result.status, 0, "export: %s" % result.err)
        with tarfile.open(place.tmp + "/x.tar") as file:
            same(file.getmember("key").linkname, place.home + "/.ssh/id", "the link in the tar")
            check(all(member.issym() for member in file.getmembers()), "something else is in the tar")
        apply(place)
        check(not os.path.islink(place.ws + "/f") and read(place.ws + "/f") == b"one line\n", "a file was replaced by a link out")
        apply(place, *marked(place))
        for name in ("result.txt", "over.txt", "f", "dir", "key", "site"):
            check(os.path.islink(os.path.join(place.ws, name)), "%s is no link" % name)
        same(atoll(place, "undo").status, 0, "undo")
        check(not os.path.lexists(place.out + "/new"), "something was made through a link")
        # Over links that the host has: a second run writes what the first left as a link.
        os.symlink(place.out + "/canary", place.ws + "/over.txt")
        os.symlink(place.out + "/new", place.ws + "/result.txt")
        place.settle()
        layered(place, inside_sh("rm -f over.txt result.txt; echo mine >over.txt; echo mine >result.txt"))
        apply(place)
        same((read(place.ws + "/over.txt"), os.path.islink(place.ws + "/over.txt")), (b"mine\n", False), "a link replaced by a file")


# ---- overlays --------------------------------------------------------------------------------------------------------

@test("ARC-05 whiteouts and overlay attributes that the command makes by itself delete nothing")
def _():
    keys = ("opaque", "redirect", "metacopy", "whiteout", "origin", "impure", "nlink", "upper", "uuid", "protattr", "verity")
    with Place() as place:
        place.expect("dir", ".wh.*", "src/.wh.*", "dir/.wh.*", "x", "new")
        for i in range(5):
            write(place.ws + "/dir/f%d" % i, "host\n")
            write(place.ws + "/keep/f%d" % i, "host\n")
        place.settle()
        result = layered(place, inside(r"""
            def node(name, mode, number): os.mknod(name, mode, number)
            attempt("mknod c 0 0", lambda: node("f", stat.S_IFCHR | 0o600, 0))
            attempt("mknod c 0 0 new", lambda: node("x", stat.S_IFCHR | 0o600, 0))
            attempt("mknod over a name", lambda: (os.rename("README.md", "moved"), os.rename("moved", "README.md")))
            attempt("rename whiteout", lambda: rename2("src/a.c", "src/b.c", 4))
            quiet(lambda: os.rename("src/b.c", "src/a.c"))
            for name in (".wh.f", ".wh..wh..opq", "src/.wh.a.c", "dir/.wh..wh..opq", ".wh.README.md", "dir/.wh.f0"):
                put(name, b"")
            for key in arg[1:]:
                for where in ("dir", "keep", "keep/f0", "f", "src", "."):
                    attempt("%s %s" % (key, where), lambda: os.setxattr(where, "user.overlay." + key, b"y"))
                    attempt("trusted %s %s" % (key, where), lambda: os.setxattr(where, "trusted.overlay." + key, b"y"))
            os.mkdir("new"); put("new/f0")
            for key in arg[1:]:
                attempt("new %s" % key, lambda: os.setxattr("new", "user.overlay." + key, b"/keep"))
        """, place.mark, *keys))
        result.refused("mknod c 0 0 new", how=(*DENIED, "EEXIST", "EINVAL"))
        listed = changes(place)
        same([path for path, change in listed.items() if change["kind"] == "deleted"], [], "told as deleted")
        apply(place)
        for name in ("f", "README.md", "src/a.c", *["dir/f%d" % i for i in range(5)], *["keep/f%d" % i for i in range(5)]):
            check(os.path.isfile(os.path.join(place.ws, name)), "%s was deleted by apply" % name)
        same(sorted(os.listdir(place.ws + "/keep")), ["f%d" % i for i in range(5)], "what is in keep")
        for name in (".wh.f", "src/.wh.a.c", "dir/.wh..wh..opq"):
            check(os.path.isfile(os.path.join(place.ws, name)), "%s is no plain file of the command's any more" % name)
        found = [(where, name) for where, _, _ in os.walk(place.ws) for name in os.listxattr(where) if "overlay" in name]
        same(found, [], "overlay attributes on the host")


@test("ARC-05 the same in an export: a whiteout of the command's own is no deletion")
def _():
    with Place() as place:
        layered(place, inside_sh("touch .wh.f src/.wh.a.c; rm README.md; echo x >new; mkdir -p empty; ln new hard; rm -rf src/gone"))
        result = atoll(place, "export", "--format", "oci", "-o", place.tmp + "/x.tar")
        among(result.status, ARCHIVE_REFUSED, "a layer with such a file")
        check(".wh." in result.err and not os.path.lexists(place.tmp + "/x.tar"), "it is not said, or there is a tar: %s" % result.err)
        same([name for name in os.listdir(place.tmp) if name.startswith("x.tar")], [], "left beside it")
        result = atoll(place, "export", "--format", "tar", "-o", place.tmp + "/x.tar")
        same(result.status, 0, "a plain tar: %s" % result.err)
        check("deletions" in result.err, "deletions are not told: %s" % result.err)
        with tarfile.open(place.tmp + "/x.tar") as file:
            same(sorted(file.getnames()), [".wh.f", "empty", "hard", "new", "src/.wh.a.c"], "in the plain tar")
            check(file.getmember("new").islnk() or file.getmember("hard").islnk(), "the hard link is two files")
        layered(place, inside_sh("rm -f .wh.f src/.wh.a.c; rm README.md; rm -r src; mkdir src; echo y >src/b.c; echo x >new"))
        result = atoll(place, "export", "--format", "oci", "-o", place.tmp + "/y.tar")
        same(result.status, 0, "a layer: %s" % result.err)
        with tarfile.open(place.tmp + "/y.tar") as file:
            same(sorted(name for name in file.getnames() if name != "src"), [".wh.README.md", "new", "src/.wh.a.c", "src/b.c"], "in the layer")


@test("ARC-07 the host replaces a directory by a link between run and apply")
def _():
    for how in ("before", "deep"):
        with Place() as place:
            place.expect("*")
            write(place.ws + "/d/e/old", "old\n")
            place.settle()
            layered(place, inside_sh("echo x >d/x; echo x >d/e/x; echo x >d/e/old; mkdir d/n; echo x >d/n/x; echo x >elsewhere"))
            target = "d" if how == "before" else "d/e"
            os.rename(place.ws + "/" + target, place.tmp + "/away")
            os.symlink(place.out, place.ws + "/" + target)
            before = snapshot(place.ws)
            result = apply(place, status=None)
            check(result.status != 0, "apply went through the link")
            same(result.status, POLICY, "status: %s" % result.err.strip()[:200])
            check("d" in result.err, "the conflict is not named: %s" % result.err)
            same(difference(before, snapshot(place.ws)), "", "after a refused apply")
            same(sorted(os.listdir(place.out)), ["canary", "secret.txt"], "outside")
            apply(place, "elsewhere")
            check(os.path.exists(place.ws + "/elsewhere"), "the rest cannot be applied by name")
            os.unlink(place.ws + "/" + target)
            os.rename(place.tmp + "/away", place.ws + "/" + target)


@test("ARC-07 the workspace itself is replaced between run and apply")
def _():
    for by in ("link", "directory"):
        with Place() as place:
            place.expect("*")
            layered(place, inside_sh("echo x >new; rm f"))
            os.rename(place.ws, place.tmp + "/ws")
            if by == "link":
                os.symlink(place.out, place.ws)
            else:
                os.mkdir(place.ws)
                write(place.ws + "/f", "somebody else's\n")
            listed = json.loads(atoll(place, "ls", "--all", "--json", cwd=place.tmp).out)
            records = listed if isinstance(listed, list) else listed["records"]
            same(len(records), 1, "records")
            result = atoll(place, "apply", records[0]["id"], cwd=place.tmp)
            check(result.status != 0, "applied to another directory")
            same(sorted(os.listdir(place.out)), ["canary", "secret.txt"], "outside")
            if by == "link":
                os.unlink(place.ws)
            else:
                same(read(place.ws + "/f"), b"somebody else's\n", "the other directory's file")
                remove(place.ws)
            os.rename(place.tmp + "/ws", place.ws)
            apply(place)
            check(os.path.exists(place.ws + "/new") and not os.path.exists(place.ws + "/f"), "not applied once it is back")


@test("ARC-07 links that change while apply is at work")
def _():
    """The host's own user, or another run in mode direct, exchanges a directory and a link all the time."""
    with Place() as place:
        place.expect("*")
        for i in range(40):
            write(place.ws + "/d/f%d" % i, "old\n")
        os.mkdir(place.ws + "/other")
        place.settle()
        stop = threading.Event()

        def exchange():
            libc = ctypes.CDLL(None)
            a, b = os.fsencode(place.ws + "/d"), os.fsencode(place.ws + "/l")
            while not stop.is_set():
                libc.syscall(316, -100, a, -100, b, 2)
        for _ in range(6):
            layered(place, inside_sh("for i in $(seq 0 39); do echo $$-$i >d/f$i; echo x >d/new$i; done"))
            os.symlink(place.out, place.ws + "/l")
            stop.clear()
            thread = threading.Thread(target=exchange)
            thread.start()
            try:
                apply(place, status=None)
                atoll(place, "undo")
            finally:
                stop.set()
                thread.join()
            if os.path.islink(place.ws + "/d"):
                ctypes.CDLL(None).syscall(316, -100, os.fsencode(place.ws + "/d"), -100, os.fsencode(place.ws + "/l"), 2)
            os.unlink(place.ws + "/l")
            same(sorted(os.listdir(place.out)), ["canary", "secret.txt"], "outside")
            atoll(place, "discard", "--force")


@test("ARC-08 the host changed meanwhile: never a silent overwrite")
def _():
    def prepared():
        place = Place()
        place.__enter__()
        place.expect("*")
        for name in ("both", "mine", "gone", "kept", "dir/f"):
            write(os.path.join(place.ws, name), "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
        place.settle()
        return place
    cases = {
        "edited on both sides": ("echo inside >both", lambda ws: write(ws + "/both", "host\n"), "both", b"host\n"),
        "edited inside, deleted on the host": ("echo inside >both", lambda ws: os.unlink(ws + "/both"), "both", None),
        "deleted inside, edited on the host": ("rm both", lambda ws: write(ws + "/both", "host\n"), "both", b"host\n"),
        "made on both sides": ("echo inside >fresh", lambda ws: write(ws + "/fresh", "host\n"), "fresh", b"host\n"),
        "directory deleted inside, filled on the host": ("rm -r dir", lambda ws: write(ws + "/dir/more", "host\n"), "dir/more", b"host\n"),
        "mode changed on the host": ("echo inside >both", lambda ws: os.chmod(ws + "/both", 0o600), "both", b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
        "a directory where the run made a file": ("echo inside >fresh", lambda ws: os.mkdir(ws + "/fresh"), "fresh", None),
    }
    for what, (command, meanwhile, name, content) in cases.items():
        place = prepared()
        try:
            layered(place, inside_sh(command + "; echo x >mine"))
            meanwhile(place.ws)
            before = snapshot(place.ws)
            result = apply(place, status=None)
            same(result.status, POLICY, "%s: status (%s)" % (what, result.err.strip()[:200]))
            check(name.split("/")[0] in result.err + result.out, "%s: the conflict is not named: %s" % (what, result.err))
            same(difference(before, snapshot(place.ws)), "", what + ": changed although there is a conflict")
            check(any(change.get("conflict") for change in changes(place).values()), what + ": diff does not tell")
            apply(place, "mine")
            same(read(place.ws + "/mine"), b"x\n", "what was asked for by name")
            path = os.path.join(place.ws, name)
            same(read(path) if os.path.isfile(path) else None, content, what + ": the host's own")
            result = atoll(place, "apply", "--force")
            same(result.status, 0, what + ": forced: " + result.err.strip()[:200])
            same(atoll(place, "undo").status, 0, "undo")
            same(read(path) if os.path.isfile(path) else None, content, what + ": after undo")
        finally:
            place.__exit__(*sys.exc_info())


@test("ARC-08 merged three ways if that is asked for, and no other way")
def _():
    with Place() as place:
        place.expect("*")
        text = "".join("line %d\n" % i for i in range(30))
        write(place.ws + "/t", text)
        write(place.ws + "/u", text)
        place.settle()
        layered(place, inside_sh("sed -i 's/line 3$/inside/' t; sed -i 's/line 3$/inside/' u"))
        write(place.ws + "/t", text.replace("line 25\n", "host\n"))
        result = apply(place, status=POLICY)
        same(atoll(place, "apply", "--merge").status, 0, "merge: %s" % result.err)
        same(read(place.ws + "/t").decode(), text.replace("line 25\n", "host\n").replace("line 3\n", "inside\n"), "merged")
        same(atoll(place, "undo").status, 0, "undo")
        write(place.ws + "/t", text.replace("line 3\n", "host\n"))
        among(atoll(place, "apply", "--merge").status, (POLICY,), "the same line on both sides")
        same(read(place.ws + "/t").decode(), text.replace("line 3\n", "host\n"), "the host's own")
        same(read(place.ws + "/u").decode(), text, "all or nothing")


# Ten thousand are test_apply.py's.
MANY = 10000 if os.environ.get("ATOLL_LONG") else 500


@test("ARC-10 every kind of change is kept, or named as dropped")
def _():
    with Place() as place:
        place.expect("*")
        for name in ("file-to-dir", "file-to-link", "mode", "mtime", "case", "pair", "acl", "xattr"):
            write(os.path.join(place.ws, name), "content of %s\n" % name)
        for name in ("dir-to-link", "dir-to-file", "dir-gone", "dir-mode"):
            write(os.path.join(place.ws, name, "f"), "x\n")
        os.link(place.ws + "/pair", place.ws + "/pair2")
        for i in range(MANY):
            write(place.ws + "/many/%05d" % i, "%d\n" % i)
        place.settle()
        result = layered(place, inside(r"""
            os.unlink("file-to-dir"); os.mkdir("file-to-dir"); put("file-to-dir/in")
            os.unlink("file-to-link"); os.symlink("f", "file-to-link")
            import shutil
            for d in ("dir-to-link", "dir-to-file", "dir-gone"): shutil.rmtree(d)
            os.symlink("src", "dir-to-link"); put("dir-to-file")
            os.chmod("dir-mode", 0o711); os.chmod("mode", 0o751); os.utime("mtime", ns=(1, 1234567890000000001))
            os.rename("case", "CASE")
            put("pair", b"new\n", os.O_WRONLY | os.O_TRUNC)
            put("new-pair"); os.link("new-pair", "new-pair2"); os.mkdir("empty"); os.makedirs("a/b/c")
            put("holes"); os.truncate("holes", 64 << 20)
            fd = os.open("holes", os.O_WRONLY); os.pwrite(fd, b"end", (64 << 20) - 3); os.close(fd)
            attempt("xattr", lambda: os.setxattr("xattr", "user.note", b"kept"))
            attempt("acl", lambda: os.setxattr("acl", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in (
                (1, 6, 0xffffffff), (2, 4, os.getuid()), (4, 4, 0xffffffff), (16, 4, 0xffffffff), (32, 0, 0xffffffff)))))
            os.mkdir("renamed")
            for i in range(%d): os.rename("many/%%05d" %% i, "renamed/%%05d" %% i)
            os.rmdir("many")
            put(b"odd \xff\n\x1b name")
        """ % MANY, place.mark))
        same(result.tries.get("end"), "ok", "the changes inside: %s" % result.err[-300:])
        listed = changes(place)
        same(listed["CASE"]["kind"], "renamed", "a rename that changes only the case")
        check(sum(change["kind"] == "renamed" and path.startswith("renamed/") for path, change in listed.items()) == MANY, "renames of many files")
        before = snapshot(place.ws)
        told = apply(place)
        ws = place.ws
        check(os.path.isdir(ws + "/file-to-dir") and os.path.isfile(ws + "/file-to-dir/in"), "file to directory")
        same(os.readlink(ws + "/file-to-link"), "f", "file to link")
        same(os.readlink(ws + "/dir-to-link"), "src", "directory to link")
        check(os.path.isfile(ws + "/dir-to-file") and not os.path.lexists(ws + "/dir-gone"), "directory to file, and deleted")
        same((oct(os.stat(ws + "/mode").st_mode & 0o777), oct(os.stat(ws + "/dir-mode").st_mode & 0o777)), (oct(0o751), oct(0o711)), "modes")
        same(os.stat(ws + "/mtime").st_mtime_ns, 1234567890000000001, "a time")
        check(os.path.exists(ws + "/CASE") and not os.path.exists(ws + "/case"), "case")
        same(read(ws + "/pair"), b"new\n", "a hard-linked pair that was written")
        same(os.stat(ws + "/new-pair").st_ino, os.stat(ws + "/new-pair2").st_ino, "a new hard-linked pair")
        check(os.path.isdir(ws + "/empty") and os.path.isdir(ws + "/a/b/c"), "empty directories")
        same((os.stat(ws + "/holes").st_size, read(ws + "/holes")[-4:]), (64 << 20, b"\0end"), "a file with holes")
        check(os.stat(ws + "/holes").st_blocks * 512 < 1 << 20, "holes are filled")
        if result.tries["xattr"] == "ok":
            check("user.note" in os.listxattr(ws + "/xattr") or "attribute" in told.err, "an attribute is neither kept nor told")
        if result.tries["acl"] == "ok":
            check("system.posix_acl_access" in os.listxattr(ws + "/acl") or "dropped" in told.err or "access list" in told.err or "left out" in told.err,
                  "an access list is neither kept nor told: %s" % told.err)
        same(len(os.listdir(ws + "/renamed")), MANY, "renamed files")
        check(not os.path.lexists(ws + "/many") and os.path.exists(os.fsencode(ws) + b"/odd \xff\n\x1b name"), "the rest")
        same(atoll(place, "undo").status, 0, "undo")
        # Names of one file that the host had become two files, which have the same content again.
        before, now = ({path: what[:3] + what[4:] if path.startswith("pair") else what for path, what in tree.items()}
                       for tree in (before, snapshot(place.ws)))
        changed = difference(before, now)
        check(not changed, "undo did not restore: %s" % changed[:500])


# ---- the store -------------------------------------------------------------------------------------------------------

def store(place):
    return place.home + "/.local/state/atoll"


@test("ARC-11 the store cannot be seen from inside, by its name or another run's id")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, inside_sh("echo first >first; echo %s >secret-of-a-run" % place.secret), leaks=True)
        ids = os.listdir(store(place) + "/records")
        same(len(ids), 1, "records")
        check(re.fullmatch("[a-z2-7]{8}", ids[0]), "an id that is no id: %r" % ids[0])
        before = snapshot(store(place) + "/records/" + ids[0])
        for flags in ([], ["--read", place.home, "--accept-broad", place.home], ["--write", place.home, "--accept-broad", place.home]):
            result = run(place, flags, inside(r"""
                top = arg[1]
                def listed(path):
                    "What a hidden directory shows is empty."
                    if not os.listdir(path): raise OSError(errno.ENOENT, path)
                for name in ("", "/records", "/records/" + arg[2], "/records/%s/top/upper/first" % arg[2], "/records/%s/meta" % arg[2], "/layers"):
                    attempt("list " + name, lambda: listed(top + name)); attempt("read " + name, lambda: get(top + name))
                    attempt("write " + name, lambda: put(top + name + "/x")); attempt("over " + name, lambda: put(top + name, flags=os.O_WRONLY))
                    attempt("rename " + name, lambda: os.rename(top + name, "taken")); attempt("link " + name, lambda: os.link(top + name, "taken"))
                quiet(lambda: os.makedirs(top + "/records/aaaaaaaa"))  # in a home of its own perhaps
                quiet(lambda: os.rename(os.path.dirname(top), os.path.dirname(top) + "2"))
                for where, names, files in os.walk("/"):
                    if arg[2] in names + files: tell("found in " + where, "ok")
                    if where.count("/") > 6 or where.startswith(("/proc", "/sys", "/usr")): names[:] = []
                with open("/proc/self/mountinfo") as file: text = file.read()
                if arg[2] in text or "records" in text: tell("in mountinfo", "ok")
            """, place.mark, store(place), ids[0]), mode="layer", leaks=True)
            tried = {label: said for label, said in result.tries.items() if said == "ok" and label != "end"}
            same(tried, {}, "reached with %s" % flags[:1])
            result.refused(how=GONE + ("EISDIR", "EEXIST", "EINVAL", "ENXIO"))
            same(difference(before, snapshot(store(place) + "/records/" + ids[0])), "", "the first run's record, with %s" % flags[:1])
        same(atoll(place, "apply", ids[0]).status, 0, "apply of the first run")
        same(read(place.ws + "/first"), b"first\n", "what it brings")


@test("ARC-11 a grant of the store itself is refused")
def _():
    with Place() as place:
        layered(place, inside_sh("echo first >first"))
        for flags in (["--write", store(place)], ["--write", store(place) + "/records"], ["--read", store(place)], ["-C", store(place)],
                      ["-C", store(place) + "/records"]):
            result = run(place, flags, inside_sh("ls -A . %s/records; touch x %s/x; true" % (store(place), store(place))), mode="layer", starts=False)
            check(result.status in (*NOT_STARTED,) or not re.search("^[a-z2-7]{8}$", result.out, re.M), "%s shows records" % flags)
            check(not os.path.lexists(store(place) + "/x") and not os.path.lexists(store(place) + "/records/x"), "%s writes there" % flags)


@test("ARC-11 a workspace that holds the store does not hold it inside")
def _():
    """The home as a workspace: nothing of the store is in the layer, or can be deleted, or comes back by apply."""
    with Place(strict=False) as place:
        layered(place, inside_sh("echo first >first"))
        write(place.home + "/plain", "x\n")
        before = snapshot(store(place) + "/records")
        result = run(place, ["-C", place.home, "--accept-broad", place.home], inside(r"""
            attempt("list", lambda: os.listdir(arg[1] + "/records"))
            attempt("make", lambda: os.makedirs(arg[1] + "/records/aaaaaaaa"))
            import shutil
            shutil.rmtree(arg[1] + "/../..", ignore_errors=True); shutil.rmtree(arg[1], ignore_errors=True)
            put("plain", b"changed\n", os.O_WRONLY | os.O_TRUNC)
        """, place.mark, store(place)), mode="layer", leaks=True, starts=False)
        if result.status in NOT_STARTED:
            check(result.err.strip(), "refused without a word")
            return
        check(result.tries.get("list") != "ok", "the store is seen inside")
        atoll(place, "apply", cwd=place.home, leaks=True)
        after = snapshot(store(place) + "/records")
        lost = [path for path in before if path.count("/") > 0 and path not in after]
        same(lost, [], "of the first run's record is gone")


@test("ARC-11 filling the store: the limits hold, and the next run still starts")
def _():
    need_layers()
    with Place(on_disk=True) as place:
        place.expect("*")
        for flags, code in ((["--disk", "20M"], r"""
            def fill():
                for i in range(1000): put("f%d" % i, bytes(1 << 20))
            attempt("fill", fill)
        """), (["--files", "200"], r"""
            def fill():
                for i in range(1000000): put("f%d" % i, b"")
            attempt("fill", fill)
        """)):
            result = run(place, flags, inside(code, place.mark), mode="layer")
            check(result.status == OVER_LIMIT or result.tries.get("fill") in ("ENOSPC", "EDQUOT", "EFBIG"), "filled: status %d, %s" % (result.status, result.tries))
            used = sum(os.lstat(os.path.join(where, name)).st_blocks * 512 for where, _, files in os.walk(store(place)) for name in files)
            check(used < 1 << 30, "%d bytes are in the store" % used)
            same(run(place, [], ["/bin/true"], mode="layer").status, 0, "the next run")
            atoll(place, "discard", "--force")


@test("ARC-11 names and files of a record that was tampered with are refused")
def _():
    with Place() as place:
        place.expect("*")
        layered(place, inside_sh("echo first >first"))
        for name in ("../" + os.path.basename(place.out), "..", ".", "/etc", "a/b", "", "aaaaaaaa/../x", "AAAAAAAA", "*", "x\n", "%n"):
            for command in (["diff"], ["apply", "--run"], ["undo"], ["discard"], ["export"]):
                result = atoll(place, *command, name)
                check(result.status != 0, "atoll %s %r does something" % (" ".join(command), name))
        if IS_ROOT:
            return
        os.chmod(store(place), 0o777)
        result = atoll(place, "ls")
        check(result.status == 0 or "store" in result.err or place.home in result.err, "a store that others may write: %s" % result.err)


@test("ARC-13 removing or moving the workspace itself")
def _():
    with Place() as place:
        place.expect("*")
        before = snapshot(place.ws)
        result = layered(place, inside_sh('rm -rf "$PWD" 2>/dev/null; rm -rf ./* ./.[!.]* 2>/dev/null; mv ../ws ../x; mv "$PWD" "$PWD-2"; rmdir "$PWD"; ls -A; '
                                          'ls -d ../ws ../x; true'))
        check("../x" not in result.out and os.path.isdir(place.ws), "the workspace was moved")
        listed = changes(place)
        same({change["kind"] for change in listed.values()}, {"deleted"}, "kinds of change")
        check({"f", "README.md", "src", "src/a.c"} <= set(listed) or {"f", "README.md", "src"} <= set(listed), "not told as deleted: %s" % sorted(listed)[:10])
        apply(place)
        check(os.path.isdir(place.ws) and not os.path.exists(place.ws + "/f"), "all deleted, and the directory itself kept")
        check(os.path.exists(place.ws + "/.git/hooks") or os.path.exists(place.ws + "/.git/config"), "what is trusted was deleted without being named")
        same(atoll(place, "undo").status, 0, "undo")
        changed = difference(before, snapshot(place.ws))
        check(not changed, "undo did not restore: %s" % changed[:500])


main()
