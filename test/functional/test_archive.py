# SPDX-License-Identifier: Apache-2.0
# check: user only
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


def same_tree(got, wanted, timeless=()):
    def look(top):
        found = {path: (what[0], what[3], what[4]) for path, what in snapshot(top).items()}
        found.pop(".")
        return found
    changed = difference(look(wanted), look(got))
    check(not changed, "the trees differ: %s" % changed)
    for name in look(wanted):
        if name not in timeless:
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


# ---- export ----------------------------------------------------------------------------------------------------------

def unpack(place, data, name="out"):
    """What the host's tar makes of it."""
    where = os.path.join(place.tmp, name)
    os.mkdir(where)
    subprocess.run(["tar", "--xattrs", "--warning=no-unknown-keyword", "-C", where, "-xpf", "-"], input=data, check=True, env={"PATH": HOST_PATH})
    return where


CHANGES = r"""
echo new >n; ln n n2; rm README.md; mkdir e; printf x | dd of=sp bs=1 seek=50000000 2>/dev/null; chmod 750 src/a.c; ln -s a l; mkfifo ff
printf z >"$(printf '\377\376')"; printf z >"$(printf 'e\314\201')"; printf z >"$(printf '\303\251')"
mkdir -p %s; echo deep >%s/f; printf x >"%s"; touch -d '2001-02-03 04:05:06.789' n
/usr/bin/python3 -c "import os; os.setxattr('n', 'user.note', b'kept')"
/usr/bin/python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
chmod 000 e
""" % (*["/".join(["deep" * 20] * 20)] * 2, "n" * 255)


@test("a record's changes as a tar: what the host's tar makes of it is what apply makes")
def _():
    need_layers()
    with Place() as place:
        place.expect("*")
        run(place, [], CHANGES, mode="layer")
        result = atoll(place, "export", "--format", "tar")
        same(result.status, 0, result.err)
        check("1 deletions" in result.err and "1 sockets" in result.err, "what is not in it is not told: %s" % result.err)
        check("1 of what is in it the host would execute or trust" in result.err, "marked files are not told: %s" % result.err)
        again = atoll(place, "export", "--format", "tar")
        check(again.raw_out == result.raw_out, "the same changes give another tar")
        where = unpack(place, result.raw_out)
        same(os.stat(where + "/n").st_ino, os.stat(where + "/n2").st_ino, "the hard link")
        same(os.stat(where + "/n").st_mtime_ns, 981173106789000000, "a time")
        same(os.getxattr(where + "/n", "user.note"), b"kept", "an attribute")
        check(os.stat(where + "/sp").st_blocks * 512 < 1 << 20 and os.stat(where + "/sp").st_size == 50000001, "holes")
        check(stat.S_ISFIFO(os.lstat(where + "/ff").st_mode), "a fifo")
        same(atoll(place, "apply", "--", ".", "ff").status, 0, "apply")
        for top in (where, place.ws):
            same(oct(os.stat(top + "/e").st_mode & 0o777), oct(0), "a directory that is shut")
            os.chmod(top + "/e", 0o700)
        for name in sorted(snapshot(where)):
            one, other = os.lstat(os.path.join(where, name)), os.lstat(os.path.join(place.ws, name))
            if name != ".":
                same((oct(one.st_mode), one.st_size if not stat.S_ISDIR(one.st_mode) else 0),
                     (oct(other.st_mode), other.st_size if not stat.S_ISDIR(one.st_mode) else 0), "%r in the tar and on the host" % name)
        for name in ("n", "sp", "src/a.c", "/".join(["deep" * 20] * 20) + "/f"):
            same(read(os.path.join(where, name)), read(os.path.join(place.ws, name)), "content of %s" % name)


@test("as a layer: deletions are whiteouts, each once; a directory that became a file needs none inside")
def _():
    need_layers()
    with Place() as place:
        for name in ("d/a", "d/b/c", "gone/x/y", "turned/in", "kept/one", "kept/two"):
            write(os.path.join(place.ws, name))
        place.settle()
        run(place, [], "rm -r d/b gone; rm -r turned; echo file >turned; rm kept/one; mv kept/two kept/three; rm f; mkdir f", mode="layer")
        result = atoll(place, "export", "--format", "oci", "-o", place.tmp + "/x.tar")
        same(result.status, 0, result.err)
        with tarfile.open(place.tmp + "/x.tar") as file:
            names = sorted(member.name for member in file.getmembers())
            same(names, [".wh.gone", "d/.wh.b", "f", "kept/.wh.one", "kept/.wh.two", "kept/three", "turned"], "in the layer")
            check(all(member.uid == os.stat(place.ws).st_uid and not member.uname for member in file.getmembers()), "owners")


@test("what is exported comes in again as it was")
def _():
    need_layers()
    with Place() as place:
        place.expect("new*")
        run(place, [], CHANGES.replace("mkfifo ff", ":"), mode="layer")
        result = atoll(place, "export", "--format", "tar", "-o", place.tmp + "/x.tar", "-q")
        same((result.status, result.err), (0, ""), "export")
        same(atoll(place, "import", place.tmp + "/x.tar", "--to", "new").status, 0, "import")
        where = unpack(place, read(place.tmp + "/x.tar"))
        for top in (where, unpacked(place)):
            os.chmod(top + "/e", 0o700)
        same_tree(unpacked(place), where, timeless=["src"])  # which is only on the way to what is in it


@test("an export that cannot be written leaves nothing; none goes to a terminal; nothing to export is said")
def _():
    need_layers()
    with Place() as place:
        check(atoll(place, "export", "--format", "tar", "-o", place.tmp + "/x.tar").status != 0, "an export of nothing")
        run(place, [], "head -c 3000000 /dev/urandom >big", mode="layer")
        check(atoll(place, "export", "--format", "tar", "-o", place.tmp + "/no/x.tar").status != 0, "no such directory")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ATOLL, "export", "--format", "tar"], stdout=full, stderr=subprocess.PIPE, cwd=place.ws, env=caller_environment(place))
        check(done.returncode != 0 and b"No space left" in done.stderr, "a full disk: %r" % done.stderr)
        same(os.listdir(place.tmp), [], "left behind")


@test("a sandbox whose workspace comes from an archive")
def _():
    need_layers()
    with Place() as place:
        place.expect("given", "tree")
        path = write(place.tmp + "/tree.tar", tar(entry("f", data=b"in the archive\n")))
        for flags, where in (([], "tree"), (["-C", "given"], "given")):
            made = atoll(place, "create", "--workspace-from", path, *flags)
            same(made.status, 0, made.err)
            result = atoll(place, "exec", made.out.strip(), "--", "/bin/sh", "-c", "cat f; echo more >g")
            same(result.out, "in the archive\n", "what a step reads")
            same(sorted(os.listdir(place.ws + "/" + where)), ["f"], "the host's")
            same(atoll(place, "rm", made.out.strip()).status, 0, "rm")
        before = snapshot(place.ws)
        check(atoll(place, "create", "--workspace-from", path).status in ARCHIVE_REFUSED, "a directory that is not empty")
        bad = write(place.tmp + "/bad.tar", tar(entry("f", data=b"x"), entry("../x", data=b"x")))
        check(atoll(place, "create", "--workspace-from", bad).status in ARCHIVE_REFUSED, "a hostile archive")
        same(difference(before, snapshot(place.ws)), "", "left behind")


main()
