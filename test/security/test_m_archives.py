# SPDX-License-Identifier: Apache-2.0
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


main()
