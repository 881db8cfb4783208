#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 28
# check: on disk as user
"""
What a workspace in mode `layer` is made of: an overlay in the sandbox's own user namespace

Seen from the host: where what was written lies and whose it is, what ends a run that writes too much, what of the host's can be
reached although no call that changes a file passes the guard any more, and what is refused before anything starts.
"""
import os
import select
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from package import IS_PACKAGE, PACKAGE  # noqa: E402

MIB = 1 << 20
OVER_LIMIT = 245


def uppers(place):
    """The writable layers in the store, the latest last."""
    records = place.home + "/.local/state/atoll/records"
    found = [os.path.join(records, name, "top/upper") for name in os.listdir(records)]
    return sorted((p for p in found if os.path.isdir(p)), key=os.path.getmtime)


def latest(place):
    return uppers(place)[-1]


# ---- where it lies --------------------------------------------------------------------------------------------------

@test("what was written is in the store, and belongs to the workspace's owner")
def _():
    need_layers()
    with Place() as place:
        owner = (12345, 23456) if IS_ROOT else (os.geteuid(), os.getegid())
        for where, _, names in os.walk(place.ws):
            for path in [where] + [os.path.join(where, name) for name in names]:
                os.chown(path, *owner)
        result = run(place, [], "echo more >>f; mkdir d; echo new >d/made; rm README.md; mkfifo p; stat -c %u:%g d/made f", mode="layer")
        same((result.status, result.out), (0, "%d:%d\n" % owner * 2), "inside")
        upper = latest(place)
        for name in ("", "f", "d", "d/made", "p"):
            st = os.lstat(os.path.join(upper, name))
            same((st.st_uid, st.st_gid), owner, "owner of '%s' in the store" % name)
        same(read(upper + "/f"), b"one line\nmore\n", "f in the store")
        check(stat.S_ISCHR(os.lstat(upper + "/README.md").st_mode), "what was deleted is no whiteout")
        same(read(place.ws + "/f"), b"one line\n", "f on the host")


@test("no path inside leads to the store, and the table of mounts does not name it")
def _():
    need_layers()
    with Place() as place:
        store = place.home + "/.local/state/atoll"
        run(place, [], "echo first >made", mode="layer")
        result = run(place, [], inside_sh("cat /proc/self/mountinfo; ls -d $1 $1/records; find / -xdev -name made 2>/dev/null; find / -name records -path '*atoll*' 2>/dev/null", store),
                     mode="layer")
        check(store not in result.out and "made" not in result.out, "the store is seen: %s" % result.out)
        check(" overlay " in result.out, "no overlay: %s" % result.out)


@test("marks of overlayfs cannot be made from inside")
def _():
    need_layers()
    with Place() as place:
        result = run(place, [], inside_py(r"""
            os.mkdir("d"); put("x")
            for name in ("opaque", "origin", "redirect", "metacopy", "whiteout"):
                attempt(name, lambda: os.setxattr("d", "user.overlay." + name, b"y"))
            attempt("device", lambda: os.mknod("dev", stat.S_IFCHR | 0o600, 0))
            attempt("set-id", lambda: os.chmod("x", 0o4755))
            attempt("end", lambda: None)
            """), mode="layer")
        result.refused("device", "set-id", how=("EPERM",))
        mine = [name for name in os.listxattr(latest(place) + "/d") if re.match(r"user\.overlay\.(?!overlay\.)", name)]
        same([name for name in mine if name not in ("user.overlay.impure", "user.overlay.uuid")], [], "marks on the host")
        check(not os.path.lexists(latest(place) + "/dev"), "a device was made")


@test("where the store cannot hold a layer it is in memory, the plan says so, and the changes are kept")
def _():
    need_layers()
    need_root()
    with Place() as place:
        state = place.base + "/state"
        os.mkdir(state)
        script = r"""
            mount --make-rprivate / && mount -t ramfs none "$1" || exit 77
            export XDG_STATE_HOME="$1"
            "$2" run --mode layer --plan -- true | grep overlay
            "$2" run --mode layer -- sh -c 'echo new >made; rm f; ls' 2>/dev/null
            find "$1" -name made
        """
        done = plain(place, ["unshare", "-m", "--", "sh", "-c", script, "sh", state, ATOLL], confined=False)
        if done.status == 77:
            skip("a ramfs")
        check("overlay on tmpfs, bounded by disk and memory" in done.out, "the plan: %s" % done.out)
        check("\nmade\n" in done.out, "inside: %s" % done.out)
        check(re.search(r"records/\w+/top/upper/made\n", done.out), "not kept: %s" % done.out)
        check(os.path.exists(place.ws + "/f") and not os.path.exists(place.ws + "/made"), "the host's files moved")


# ---- who decides about files ----------------------------------------------------------------------------------------

def first_process(running):
    def look():
        with contextlib.suppress(OSError):
            for task in os.listdir("/proc/%d/task" % running.pid):
                for pid in map(int, read("/proc/%d/task/%s/children" % (running.pid, task)).split()):
                    if read("/proc/%d/comm" % pid) == b"atoll-init\n":
                        return pid
        return None
    return until(look)


def while_it_stands_still(place, flags):
    """Does the command get a file written while the first process, where the guard is, is stopped?"""
    running = start(place, flags, "echo up; read line; echo x >made && mv made moved && chmod 600 moved; echo done; read line",
                    mode="layer", stdin=subprocess.PIPE)
    same(running.process.stdout.readline(), b"up\n", "the command")
    pid = first_process(running)
    check(pid, "no first process")
    os.kill(pid, signal.SIGSTOP)
    try:
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        ready = select.select([running.process.stdout], [], [], 3 * SLOW)[0]
    finally:
        os.kill(pid, signal.SIGCONT)
    same(running.process.stdout.readline(), b"done\n", "the command")
    out, err = running.process.communicate(b"\n", RUN_SECONDS)
    running._result(out, err)
    return bool(ready)


@test("files in a layer are the kernel's alone; with a root that is written directly the guard is asked")
def _():
    need_layers()
    with Place() as place:
        os.mkdir(place.ws + "/direct")
        place.settle()
        # Where nothing inside is recorded; otherwise the first process looks, and lets the kernel go on.
        check(while_it_stands_still(place, ["--record", "steps"]), "a file in a layer waits for the first process")
        check(not while_it_stands_still(place, ["--record", "steps", "--write", place.ws + "/direct"]), "the guard is not asked")


@test("nothing of the host's can be changed although nobody is asked")
def _():
    need_layers()
    with Place() as place:
        write(place.base + "/shown/file", "shown\n", 0o666)
        os.chmod(place.base + "/shown", 0o777)
        before = snapshot(place.base + "/shown")
        result = run(place, ["--read", place.base + "/shown", "--read", place.ws + "/src"], inside_py(r"""
            for where in (arg[0] + "/file", "/etc/passwd", "src/a.c"):
                tag = where[-6:]
                attempt(tag + " truncate", lambda: os.truncate(where, 0))
                attempt(tag + " open", lambda: os.open(where, os.O_RDONLY | os.O_TRUNC))
                attempt(tag + " write", lambda: os.open(where, os.O_WRONLY))
                attempt(tag + " chmod", lambda: os.chmod(where, 0o777))
                attempt(tag + " times", lambda: os.utime(where, (1, 1)))
                attempt(tag + " xattr", lambda: os.setxattr(where, "user.x", b"x"))
                attempt(tag + " unlink", lambda: os.unlink(where))
                attempt(tag + " rename", lambda: os.rename(where, where + "2"))
                attempt(tag + " link", lambda: os.link(where, "/tmp/" + tag.replace("/", "-")))
                attempt(tag + " make", lambda: put(os.path.dirname(where) + "/new"))
                fd = os.open(where, os.O_RDONLY)
                attempt(tag + " fchmod", lambda: os.fchmod(fd, 0o777))
                attempt(tag + " by descriptor", lambda: os.truncate("/proc/self/fd/%d" % fd, 0))
            attempt("/dev/null chmod", lambda: os.chmod("/dev/null", 0o600))
            attempt("/dev/null unlink", lambda: os.unlink("/dev/null"))
            attempt("end", lambda: None)
            """, place.base + "/shown"), mode="layer")
        result.refused(how=("EROFS", "EACCES", "EPERM", "EXDEV"))
        same(difference(before, snapshot(place.base + "/shown")), "", "on the host")
        same(read(place.ws + "/src/a.c") != b"", True, "src/a.c")


@test("a descriptor from outside keeps the guard in place")
def _():
    need_layers()
    with Place() as place:
        target = place.tmp + "/given"
        write(target, "given\n", 0o666)
        os.chmod(place.tmp, 0o711)
        fd = os.open(target, os.O_RDONLY)
        result = run(place, ["--fd", "9"], inside_py(r"""
            attempt("truncate", lambda: os.truncate("/proc/self/fd/9", 0))
            attempt("open", lambda: os.open("/proc/self/fd/9", os.O_RDONLY | os.O_TRUNC))
            attempt("chmod", lambda: os.fchmod(9, 0o600))
            attempt("end", lambda: None)
            """), mode="layer", fds={9: fd})
        os.close(fd)
        result.refused(how=("EACCES", "EPERM", "EROFS"))
        same((read(target), os.stat(target).st_mode & 0o777), (b"given\n", 0o666), "the file that was given")


@test("a socket made in a layer can be connected to; one that a program of the host's listens at cannot")
def _():
    need_layers()
    with Place() as place:
        path = place.ws + "/host"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            os.chmod(path, 0o777)
            server.listen()
            place.expect("host")
            result = run(place, [], inside_py(r"""
                import socket
                def talk(name):
                    with socket.socket(socket.AF_UNIX) as client: client.connect(name)
                own = socket.socket(socket.AF_UNIX); own.bind("own"); own.listen()
                attempt("own", lambda: talk("own"))
                attempt("host", lambda: talk("host"))
                attempt("end", lambda: None)
                """), mode="layer")
            result.allowed("own")
            result.refused("host", how=("ECONNREFUSED", "EACCES"))
            check(not select.select([server], [], [], 0)[0], "somebody has connected")


# ---- limits ---------------------------------------------------------------------------------------------------------

def told(done):
    return json.loads(done.err.strip().split("\n")[-1])


@test("what is written to a layer counts: disk ends the run, and files do")
def _():
    need_layers()
    with Place(on_disk=True) as place:
        fill = "import itertools\nfor i in itertools.count(): put('d%d' % (i % 40), b'x' * 1000000)"
        done = run(place, ["--json", "--disk", "16M", "--timeout", "100s"], inside_py(fill), mode="layer")
        same((done.status, told(done)["limit"]), (OVER_LIMIT, "disk"), "disk: %s" % done.err)
        done = run(place, ["--json", "--files", "300", "--timeout", "100s"], inside_py("import itertools\nfor i in itertools.count(): put('n%d' % i)"), mode="layer")
        same((done.status, told(done)["limit"]), (OVER_LIMIT, "files"), "files: %s" % done.err)
        done = run(place, ["--json", "--files", "300", "--disk", "64M"], inside_py("for i in range(200): put('n%d' % i)"), mode="layer")
        same((done.status, told(done)["usage"]["files"]["used"]), (0, 200), "where it may: %s" % done.err)


@test("the store's file system is not filled below its floor")
def _():
    need_layers()
    need_root()
    need("mkfs.ext4")
    with Place() as place:
        image, point = place.tmp + "/image", place.base + "/small"
        with open(image, "wb") as file:
            file.truncate(64 * MIB)
        os.mkdir(point)
        script = r"""
            set -e
            mount --make-rprivate /
            mkfs.ext4 -q -m 0 -F "$1"
            mount -o loop "$1" "$2"
            export XDG_STATE_HOME="$2"
            set +e
            "$3" run --mode layer --json --disk 1G --timeout 100s -- sh -c 'i=0; while :; do head -c 1000000 /dev/zero >d$i; i=$((i+1)); sleep 0.01; done'
            echo "status $?"
            "$3" run --mode layer -- true; echo "again $?"
            "$3" run --direct -- true; echo "directly $?"
            umount "$2"
        """
        done = plain(place, ["unshare", "-m", "--", "sh", "-c", script, "sh", image, point, ATOLL], confined=False)
        if "status" not in done.out:
            skip("a loop mount (%s)" % done.err.strip()[-80:])
        lines = done.out.split("\n")
        same(lines[0], "status %d" % OVER_LIMIT, "the run: %s" % done.err)
        check("left free" in done.err and '"limit":"disk"' in done.err, done.err)
        check(lines[1] != "again 0", "a run that starts without room: %s" % done.err)
        same(lines[2], "directly 0", "a run that needs no store")


# ---- what is refused before anything starts -------------------------------------------------------------------------

def refused(place, script, *args):
    """A run in a mount namespace of the test's own; what it says."""
    user = [] if IS_ROOT else ["-U", "--map-current-user", "--keep-caps"]
    done = plain(place, ["unshare", "-m", *user, "--", "sh", "-c", script, "sh", ATOLL, *args], confined=False)
    if done.status == 77:
        skip("mounts in a namespace of the test's own")
    return done


@test("another file system inside the workspace is named, and --direct is the way")
def _():
    need_layers()
    need_root()
    with Place() as place:
        os.mkdir(place.ws + "/volume")
        place.settle()
        script = 'mount --make-rprivate / && mount -t tmpfs none volume || exit 77; "$1" run --mode layer -- true; echo "status $?"; "$1" run --direct -- true; echo "status $?"'
        done = refused(place, script)
        check("status 0\n" in done.out and not done.out.startswith("status 0"), done.out)
        check(place.ws + "/volume" in done.err and "--direct" in done.err, done.err)


@test("a workspace that holds the store: the layer is in memory, the store is hidden, and the changes are kept")
def _():
    need_layers()
    with Place() as place:
        place.expect(".local*")
        env = {"HOME": place.ws}
        for _ in range(2):
            result = run(place, ["--accept-broad", place.ws], "echo new >made; ls -A .local/state/atoll .local/state; grep -c ' overlay ' /proc/self/mountinfo >/dev/null", mode="layer", env=env)
            same((result.status, result.out), (0, ".local/state:\n"), "inside: %s" % result.err)
        found = [os.path.join(where, name) for where, _, names in os.walk(place.ws + "/.local/state/atoll/records") for name in names]
        same(len([path for path in found if path.endswith("/top/upper/made")]), 2, "kept: %s" % found)
        check(not os.path.exists(place.ws + "/made"), "the host's files moved")


# ---- root: layer ----------------------------------------------------------------------------------------------------

PACKAGE_AND_BACK = PACKAGE + IS_PACKAGE + r"""
dpkg -r atoll-hello >/dev/null
test -e /usr/bin/atoll-hello || echo removed
"""


@test("root: layer: a package can be installed and removed again, and the host has none of it")
def _():
    need_layers()
    need_root()
    need("dpkg", "dpkg-deb")
    for mode in ("layer", "direct"):
        with Place() as place:
            result = run(place, ["--root", "layer"], PACKAGE_AND_BACK, mode=mode)
            same((result.status, result.out), (0, "hello from a package\nStatus: install ok installed\n0:0\n0:0\n6:12\nremoved\n"), "mode %s" % mode)
            for path in ("/usr/bin/atoll-hello", "/etc/atoll-hello.conf", "/var/lib/hello", "/var/lib/dpkg/info/atoll-hello.list"):
                check(not os.path.lexists(path), "%s is on the host" % path)


@test("root: layer: root inside reads nothing that others may not read on the host, and writes the workspace as its owner")
def _():
    need_layers()
    need_root()
    with Place() as place:
        for where, _, names in os.walk(place.ws):
            for path in [where] + [os.path.join(where, name) for name in names]:
                os.chown(path, 12345, 12345)
        result = run(place, ["--root", "layer"], inside_py(r"""
            found = []
            for top in ("/etc", "/opt", "/usr/local", "/var/lib/dpkg"):
                for where, dirs, names in os.walk(top):
                    for name in dirs + names:
                        path = os.path.join(where, name)
                        if not os.path.islink(path) and not os.lstat(path).st_mode & 4: found.append(path)
            print("closed", found)
            attempt("shadow", lambda: get("/etc/shadow"))
            put("made"); os.chown("made", 0, 0)
            attempt("give away", lambda: os.chown("made", 6, 6))
            attempt("nice", lambda: os.nice(-5))
            attempt("set-id", lambda: os.chmod("made", 0o4755))
            attempt("mount", lambda: syscall(165, 0, 0, 0, 0, 0))
            attempt("end", lambda: None)
            """), mode="layer")
        result.refused("shadow", "give away", "nice", "set-id", "mount", how=("ENOENT", "EPERM", "EACCES", "EINVAL", "EOVERFLOW"))
        check("closed []\n" in result.out, result.out)
        st = os.lstat(latest(place) + "/made")
        same((st.st_uid, st.st_gid), (12345, 12345), "owner in the store")


@test("root: layer: an ordinary user has a /var of his own, and the plan says what he has not")
def _():
    need_layers()
    need_user()
    with Place() as place:
        result = run(place, ["--root", "layer"], "echo x >/var/lib/mine && cat /var/lib/mine; echo x >/usr/mine", mode="layer")
        same(result.out, "x\n", "inside")
        check(not os.path.lexists("/var/lib/mine"), "it is on the host")
        done = atoll(place, "run", "--plan", "--root", "layer", "--", "true", mode="layer")
        check("one id, which owns nothing of the system" in done.out, done.out)


main()
