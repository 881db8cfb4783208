# SPDX-License-Identifier: Apache-2.0
"""A workspace from an archive, and a record's changes as one: what is kept, what is left out and told."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from archives import *  # noqa: E402


def host_tar(place, top, *flags):
    """A tar of a directory, by the host's tar."""
    done = subprocess.run(["tar", "-C", top, *flags, "-cf", "-", "."], stdout=subprocess.PIPE, check=True, env={"PATH": HOST_PATH})
    return done.stdout


def sample(place):
    """A tree with one of each."""
    top = place.tmp + "/tree"
    write(top + "/d/f", "hello\n", 0o640)
    write(top + "/d/run", "#!/bin/sh\n", 0o755)
    os.mkdir(top + "/empty")
    os.symlink("d/f", top + "/link")
    os.symlink("../d", top + "/d/up")
    os.link(top + "/d/f", top + "/hard")
    write(top + "/d e\nf", "odd\n")
    write(os.fsdecode(os.fsencode(top) + b"/\xff\xfe"), "no text\n")
    write(top + "/e\u0301", "decomposed\n")
    write(top + "/\u00e9", "composed\n")
    write(top + "/" + "n" * 255, "long\n")
    write(top + "/" + "/".join(["deep" * 20] * 20) + "/f", "deep\n")
    with open(top + "/holes", "wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"x" * 4096)
    os.chmod(top + "/empty", 0o555)
    os.utime(top + "/d/f", ns=(1, 1234567890123456789))
    os.utime(top + "/d", ns=(1, 1234567890000000000))
    return top


def same_tree(got, wanted, times=True):
    def look(top):
        found = {path: (what[0], what[3], what[4]) for path, what in snapshot(top).items()}
        found.pop(".")
        return found
    changed = difference(look(wanted), look(got))
    check(not changed, "the trees differ: %s" % changed)
    if times:
        for name in look(wanted):
            same(os.lstat(os.path.join(got, name)).st_mtime_ns, os.lstat(os.path.join(wanted, name)).st_mtime_ns, "time of %r" % name)


@test("a tree comes in as it was: names of any bytes, modes, times, links, holes, empty directories")
def _():
    with Place() as place:
        place.expect("new*")
        top = sample(place)
        result = import_archive(place, host_tar(place, top, "--format=pax", "-S"))
        same(result.status, 0, result.err)
        same_tree(unpacked(place), top)
        check(os.stat(unpacked(place) + "/holes").st_blocks * 512 < 1 << 20, "the holes are filled")
        same(os.stat(unpacked(place) + "/hard").st_ino, os.stat(unpacked(place) + "/d/f").st_ino, "the hard link")
        same([name for name in os.listdir(place.ws) if name.startswith(".atoll")], [], "left beside it")


@test("tar of each form, compressed by each program, and zip")
def _():
    with Place() as place:
        place.expect("new*")
        top = place.tmp + "/t"
        write(top + "/a/b", "text\n", 0o755)
        os.symlink("a/b", top + "/l")
        for form in ("pax", "gnu", "ustar", "v7"):
            taken_tree = taken(place, host_tar(place, top, "--format=" + form))
            same(sorted(taken_tree), [".", "a", "a/b", "l"], form)
        for flag, tool in (("-z", "gzip"), ("-j", "bzip2"), ("-J", "xz"), ("--zstd", "zstd")):
            if not shutil.which(tool, path=HOST_PATH):
                continue
            same(sorted(taken(place, host_tar(place, top, flag))), [".", "a", "a/b", "l"], tool)
        found = taken(place, make_zip(("a/b", "text\n", 0o100755), ("l", "a/b", 0o120777), ("\u00e9", "x")), name="a.zip")
        same(sorted(found), [".", "a", "a/b", "l", "\u00e9"], "zip")
        same(found["a/b"][0], oct(0o100755), "a mode in a zip")
        same(found["l"][2], "a/b", "a link in a zip")


@test("where it goes: a new directory, an empty one, one named after the file; nothing else is touched")
def _():
    with Place() as place:
        place.expect("given", "named", "new", "made*")
        data = tar(entry("f", data=b"x"))
        path = write(place.tmp + "/named.tar.gz", data)
        same(atoll(place, "import", path).status, 0, "named after the file")
        same(os.listdir(place.ws + "/named"), ["f"], "in it")
        os.mkdir(place.ws + "/given", 0o750)
        same(atoll(place, "import", "--to", "given/", path).status, 0, "an empty one")
        same(oct(os.stat(place.ws + "/given").st_mode), oct(0o40750), "its mode")
        for where, why in (("src", "not empty"), ("f", "a file"), (".", "has no name"), ("nowhere/x", "no directory above"), ("named", "taken")):
            before = snapshot(place.ws)
            among(atoll(place, "import", path, "--to", where).status, ARCHIVE_REFUSED, why)
            same(difference(before, snapshot(place.ws)), "", why)
        os.mkdir(place.ws + "/made")
        among(atoll(place, "import", path, "--to", place.ws + "/made", cwd=place.ws + "/made").status, ARCHIVE_REFUSED, "the current directory")
        os.symlink("made", place.ws + "/made-link")
        among(atoll(place, "import", path, "--to", "made-link").status, ARCHIVE_REFUSED, "a link")
        result = atoll(place, "import", "-", "--to", "new", stdin=data)
        same(result.status, 0, "from a pipe")
        among(atoll(place, "import", "-", stdin=data).status, ARCHIVE_REFUSED, "a pipe without a name")
        among(atoll(place, "import").status, ARCHIVE_REFUSED, "no archive")
        among(atoll(place, "import", path, "more").status, ARCHIVE_REFUSED, "one too many")
        among(atoll(place, "import", path, "--disk", "much").status, ARCHIVE_REFUSED, "no number")


@test("what is left out is told: set-id bits, attributes that are not the user's; the umask holds")
def _():
    with Place() as place:
        place.expect("new")
        pax = {"SCHILY.xattr.user.note": "kept", "SCHILY.xattr.security.capability": "x", "SCHILY.xattr.trusted.x": "y"}
        result = import_archive(place, tar(entry("s", mode=0o6755, data=b"x"), entry("d", DIR, mode=0o1777), entry("x", pax=pax, mode=0o666)))
        same(result.status, 0, result.err)
        check("set-id or sticky bits of 2" in result.out and "attributes of 2" in result.out, "it is not told: %s" % result.out)
        same(oct(os.stat(unpacked(place) + "/s").st_mode), oct(0o100755), "set-id")
        same(oct(os.stat(unpacked(place) + "/d").st_mode), oct(0o40755), "sticky and the umask")
        same(oct(os.stat(unpacked(place) + "/x").st_mode), oct(0o100644), "the umask")
        same(os.stat(unpacked(place) + "/s").st_uid, os.geteuid(), "the owner")
        same(os.listxattr(unpacked(place) + "/x"), ["user.note"], "attributes")


@test("an imported tree is a workspace to run in")
def _():
    with Place() as place:
        place.expect("new*")
        same(import_archive(place, tar(entry("f", data=b"in the archive\n"))).status, 0, "import")
        result = run(place, ["-C", "new"], "cat f; echo more >g")
        same(result.out, "in the archive\n", "what the command reads")


@test("ended in the middle it leaves nothing")
def _():
    with Place() as place:
        for number in (signal.SIGINT, signal.SIGTERM):
            reader, writer = os.pipe()
            running = Running(place, [ATOLL, "import", "-", "--to", "new"], stdin=reader, starts=False)
            os.close(reader)
            os.write(writer, tar(entry("f", data=b"x" * 8192))[:9000])
            check(until(lambda: any(os.listdir(place.ws + "/" + name) for name in os.listdir(place.ws) if name.startswith(".atoll-"))),
                  "nothing was unpacked")
            os.kill(running.pid, number)
            result = running.wait()
            os.close(writer)
            check(result.status != 0, "it says that it has ended")
            same([name for name in os.listdir(place.ws) if name.startswith(".atoll") or name == "new"], [], "left behind")


main()
