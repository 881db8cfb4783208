# SPDX-License-Identifier: Apache-2.0
# check: seconds 90
# check: bare
"""
Family A of the escape corpus: writing outside of what was granted (FS-W), and more of the same kind (FS-WX)

later:
  FS-W08  a dangling link for the host to follow: needs atoll's own export or apply step, which comes with layers
  FS-W20  FICLONE proper: the file systems here do not clone; tried, and counted as refused by whichever error comes
  FS-W26  a folding file system: tried where the kernel has one (vfat, or tmpfs with casefold); the names are tried everywhere
  FS-W29  `deny another`: denying by odd names is tried here, reading of what is denied in test_b_reading.py
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

# Every way of changing a directory (arg[0]) that holds `canary`. Each works where writing is granted.
CHANGES = r"""
T = arg[0]
C = T + "/canary"
attempt("open for writing", lambda: os.close(os.open(C, os.O_WRONLY)))
attempt("write", lambda: put(C, b"x"))
attempt("append", lambda: put(C, b"x", os.O_WRONLY | os.O_APPEND))
attempt("read-write", lambda: put(C, b"x", os.O_RDWR))
attempt("create", lambda: put(T + "/new"))
attempt("create exclusively", lambda: put(T + "/new-x", b"x", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
attempt("openat2", lambda: os.close(syscall(437, AT_FDCWD, (C + "-2").encode(), struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o644, 0), 24)))
attempt("mkdir", lambda: os.mkdir(T + "/dir"))
attempt("symlink", lambda: os.symlink("canary", T + "/sym"))
attempt("hard link", lambda: os.link(C, T + "/hard"))
attempt("mkfifo", lambda: os.mkfifo(T + "/fifo"))
attempt("mknod regular", lambda: os.mknod(T + "/node", 0o644 | stat.S_IFREG))
def bind_socket():
    import socket
    s = socket.socket(socket.AF_UNIX); s.bind(T + "/sock"); s.close()
attempt("bind a socket", bind_socket)
attempt("chmod", lambda: os.chmod(C, 0o600))
attempt("fchmodat2", lambda: syscall(452, AT_FDCWD, C.encode(), 0o640, 0))
attempt("utime", lambda: os.utime(C, (1, 1)))
attempt("setxattr", lambda: os.setxattr(C, "user.x", b"1"))
attempt("removexattr", lambda: os.removexattr(C, "user.x"))
attempt("rename within", lambda: os.rename(C, T + "/canary2") or os.rename(T + "/canary2", C))
attempt("exchange within", lambda: syscall(316, AT_FDCWD, C.encode(), AT_FDCWD, (T + "/secret.txt").encode(), 2))
attempt("unlink", lambda: os.unlink(T + "/secret.txt"))
attempt("O_TMPFILE", lambda: os.close(os.open(T, os.O_RDWR | O_TMPFILE, 0o600)))
def tmpfile_link():
    fd = os.open(T, os.O_RDWR | O_TMPFILE, 0o600)
    syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, (T + "/linked").encode(), AT_SYMLINK_FOLLOW)
attempt("O_TMPFILE and link", tmpfile_link)
attempt("truncate", lambda: os.truncate(C, 0))
"""

# What works only on a descriptor that was opened for reading; refused even though the file can be read.
THROUGH_A_READER = r"""
import fcntl, mmap
C = arg[0] + "/canary"
fd = os.open(C, os.O_RDONLY)
path = os.open(C, O_PATH)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def shared_map(protection):
    at = libc.mmap(None, 4096, protection, 1, fd, 0)
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return at
attempt("mmap shared", lambda: shared_map(3))
def upgrade():
    at = shared_map(1)
    if libc.mprotect(at, 4096, 3) < 0:
        raise OSError(ctypes.get_errno(), "mprotect")
attempt("mprotect", upgrade)
attempt("write to a reader", lambda: os.write(fd, b"x"))
attempt("ftruncate a reader", lambda: os.ftruncate(fd, 0))
attempt("truncate on open", lambda: os.close(os.open(C, os.O_RDONLY | os.O_TRUNC)))
attempt("creat", lambda: os.close(syscall(85, C.encode(), 0o666)))
attempt("openat2 truncate", lambda: os.close(syscall(437, AT_FDCWD, C.encode(), struct.pack("QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0), 24)))
attempt("punch a hole", lambda: syscall(285, fd, 3, 0, 4096))
attempt("reopen through /proc", lambda: os.close(os.open("/proc/self/fd/%d" % fd, os.O_RDWR)))
attempt("reopen an O_PATH", lambda: os.close(os.open("/proc/self/fd/%d" % path, os.O_WRONLY)))
attempt("reopen with truncation", lambda: os.close(os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_TRUNC)))
attempt("/dev/fd", lambda: os.close(os.open("/dev/fd/%d" % fd, os.O_RDWR)))
attempt("truncate through /proc", lambda: os.truncate("/proc/self/fd/%d" % fd, 0))
attempt("chmod through /proc", lambda: os.chmod("/proc/self/fd/%d" % path, 0o600))
attempt("fchmod", lambda: os.fchmod(fd, 0o600))
attempt("fchown", lambda: os.fchown(fd, os.getuid(), os.getgid()))
attempt("futimens", lambda: os.utime(fd, (1, 1)))
attempt("utime through /proc", lambda: os.utime("/proc/self/fd/%d" % path, (1, 1)))
attempt("fsetxattr", lambda: os.setxattr(fd, "user.x", b"1"))
attempt("setxattr through /proc", lambda: os.setxattr("/proc/self/fd/%d" % path, "user.x", b"1"))
own = os.open("own-source", os.O_RDWR | os.O_CREAT, 0o644)
os.write(own, b"y" * 4096)
os.lseek(own, 0, 0)
attempt("sendfile", lambda: os.sendfile(fd, own, 0, 4096))
attempt("copy_file_range", lambda: syscall(326, own, None, fd, None, 4096, 0))
r, w = os.pipe()
os.write(w, b"z")
attempt("splice", lambda: os.splice(r, fd, 1))
attempt("FICLONE", lambda: fcntl.ioctl(fd, 0x40049409, own))
def dedupe():
    data = bytearray(struct.pack("QQHHI", 0, 4096, 1, 0, 0) + struct.pack("qQQiI", fd, 0, 0, 0, 0))
    fcntl.ioctl(own, 0xC0189436, data)
    status = struct.unpack_from("i", data, 24 + 24)[0]
    if status < 0:
        raise OSError(-status, "dedupe")
attempt("FIDEDUPERANGE", dedupe)
attempt("FS_IOC_SETFLAGS", lambda: fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x40)))
attempt("hard link of a descriptor", lambda: syscall(265, fd, b"", AT_FDCWD, b"hard1", AT_EMPTY_PATH))
attempt("hard link through /proc", lambda: syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % path, AT_FDCWD, b"hard2", AT_SYMLINK_FOLLOW))
attempt("hard link by name", lambda: os.link(C, "hard3"))
attempt("rename into the workspace", lambda: os.rename(C, "stolen"))
attempt("exchange with the workspace", lambda: syscall(316, AT_FDCWD, C.encode(), AT_FDCWD, b"own-source", 2))
"""
NEVER = GONE + ("EBADF", "EINVAL", "ENOTTY", "EOPNOTSUPP", "ENOSYS", "EBUSY")


@test("FS-W01 plain write outside every grant")
def _():
    with Place() as place:
        places = ["/etc", "/usr/local/bin", "/usr", "/opt", "/var/tmp", "/tmp", "/dev/shm", "/run", "/", "/root", "/home", "/var/lib",
                  "/srv", "/boot", "/var", "/var/log", "/usr/lib", "/bin", "/sbin", "/lib", "/mnt", "/media", "/dev", "/sys"]
        paths = [place.name(p) for p in places] + [place.home + "/x", place.out + "/x", place.base + "/x"]
        result = run(place, [], inside_sh('for p; do (echo x >"$p") 2>/dev/null && echo "wrote $p"; done; echo end', *paths))
        check("end" in result.out, "the attack did not come to its end")
        for path in paths:
            check(not os.path.lexists(path), "%s exists on the host" % path)
        for p in ("/etc", "/usr/local/bin", "/usr", "/opt", "/usr/lib", "/bin", "/sbin", "/lib"):
            check("wrote %s\n" % place.name(p) not in result.out, "%s could be written to" % p)
        if BARE:
            same(bare.says(bare.PRIVATE), None, "the plan")
            check("wrote" not in result.out, "something was written")
            return
        for p in ("/tmp", "/var/tmp", "/dev/shm"):
            check("wrote %s\n" % place.name(p) in result.out, "no private %s" % p)


@test("FS-W01 the workspace is written, by its owner")
def _():
    with Place() as place:
        place.expect("made", "made-dir")
        result = run(place, [], "umask 022; echo x >made && mkdir made-dir && echo y >>f && ls -ln made")
        same(result.status, 0, "status")
        st = os.stat(place.ws + "/made")
        same((st.st_uid, oct(st.st_mode & 0o7777)), (os.stat(place.ws).st_uid, "0o644"), "owner and mode")
        same(read(place.ws + "/f"), b"one line\ny\n", "content")


@test("FS-W01 every kind of change in a directory that may be read")
def _():
    need("python3")
    for flags in ([], ["--read"]):
        with Place() as place:
            result = run(place, [*flags, place.out] if flags else [], inside_py(CHANGES, place.out))
            result.refused(how=GONE + ("ENODATA", "EOPNOTSUPP"))
    with Place(strict=False) as place:
        result = run(place, ["--write", place.out], inside_py(CHANGES, place.out), leaks=True)
        for label, said in result.tries.items():
            # What a guard may refuse everywhere is not part of what this shows.
            among(said, ("ok",) if label not in ("mkfifo", "bind a socket", "fchmodat2") else ("ok", "EPERM", "EACCES", "ENOSYS"), label)
        same(os.stat(place.out + "/canary").st_size, 0, "size of the canary after truncate")


@test("FS-W01 a read grant inside a write grant is not written")
def _():
    with Place() as place:
        write(place.ws + "/ro/canary", "keep", 0o666)
        write(place.ws + "/ro/secret.txt", "keep", 0o666)
        os.chmod(place.ws + "/ro", 0o777)
        place.settle()
        before = snapshot(place.ws + "/ro")
        run(place, ["--read", place.ws + "/ro"], inside_py(CHANGES, place.ws + "/ro")).refused(how=GONE + ("ENODATA", "EBUSY"))
        same(difference(before, snapshot(place.ws + "/ro")), "", "ro")
        place.expect("other")  # mv copies where it cannot rename
        run(place, ["--read", "ro"], "mv ro other || ! rmdir ro; mkdir -p ro; echo x >ro/canary; rm -rf ro; true")
        same(difference(before, snapshot(place.ws + "/ro")), "", "ro")
        place.expect("ro/*")
        same(run(place, [], "echo x >ro/canary").status, 0, "without the line")


def _links(place):
    """Links of every kind in the workspace that lead to the canary, written through in every way. The host has made them: a run may not."""
    os.makedirs(place.ws + "/deep/er")
    for name, target in (("l", place.out + "/canary"), ("rel", "../out/canary"), ("chain", "l"), ("dir", place.out), ("deep/er/dir", "../../../out"),
                         ("dangling", place.out + "/new"), ("slash", place.out + "/"), ("magic", "/proc/self/cwd/../out/canary"),
                         ("root", "/proc/self/root" + place.out + "/canary")):
        os.symlink(target, os.path.join(place.ws, name))
    place.settle()
    return inside_sh(r"""
        for l in l rel chain dir/canary deep/er/dir/canary slash/canary magic root; do
            (echo x >$l); (echo x >>$l); (cp /bin/true $l); truncate -s0 $l; (dd if=/dev/zero of=$l count=1 conv=notrunc)
            sed -i s/a/b/g $l; tee $l </dev/null; chmod 600 $l; touch -d @1 $l; (: <>$l); ln -f f $l
        done
        (echo x >dangling); cp f dangling; mkdir dangling; touch dangling; (echo x >dir/new); (echo x >slash/new2); mkdir dir/sub; rm -f dir/canary
        mv f dir/moved; ln README.md dir/linked; echo end
        """, place.out)


@test("FS-W02 symlinks in the workspace, leaf and on the way")
def _():
    names = ("deep", "l", "rel", "chain", "dir", "dangling", "slash", "magic", "root", "sed*")
    for flags in ([], ["--read"]):
        with Place() as place:
            place.expect(*names)
            result = run(place, [*flags, place.out] if flags else [], _links(place))
            check("end\n" in result.out, "the attack did not come to its end")
    with Place(strict=False) as place:
        place.expect("*")
        run(place, ["--write", place.out], _links(place))
        check(difference(place.before["out"], snapshot(place.out)) != "", "the links do not work where they are allowed")


@test("FS-W02 a name that is a file and a symlink by turns")
def _():
    attack = inside_py(r"""
        import threading
        put("mine", b"mine")
        os.symlink(os.getcwd() + "/mine", os.environ.get("TMPDIR", "/tmp") + "/turn")  # a private place: in the workspace no link leads out
        os.chdir(os.environ.get("TMPDIR", "/tmp"))
        os.symlink(arg[0] + "/canary", "turn-link")
        stop, rounds = time.time() + 1.5, 0  # both: for long, and often also where that is not long; or until it has worked
        changed = lambda: os.stat(arg[0] + "/canary").st_mtime_ns
        before = changed()
        def flip():
            while time.time() < stop or rounds < 300:
                syscall(316, AT_FDCWD, b"turn", AT_FDCWD, b"turn-link", 2)
        threading.Thread(target=flip).start()
        n = 0
        while (time.time() < stop or rounds < 300) and changed() == before:
            rounds += 1
            for flags in (os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREAT):
                try:
                    put("turn", b"x", flags); n += 1
                except OSError:
                    pass
            try:
                os.truncate("turn", 0)
            except OSError:
                pass
        stop, rounds = 0, 300
        print("times", n)
        """, "%s")
    refused = both(lambda p: attack[:-1] + [p.out], lambda p, r: read(p.out + "/canary")[:1] == b"x" or not read(p.out + "/canary"),
                   deny=lambda p: ["--read", p.out], allow=lambda p: ["--write", p.out], expect=("mine",))
    check("times 0" not in refused.out, "nothing was written at all")


def _swap(place, grant, link, target, count, workspace):
    """Somebody on the host exchanges grant and link; runs, with a grant on it, write through it."""
    flipper = Running(place, inside_py(r"""
        put("ready")
        a, b = arg[0].encode(), arg[1].encode()
        while not os.path.exists("stop"):
            for i in range(50):
                syscall(316, AT_FDCWD, a, AT_FDCWD, b, 2)
        """, grant[0], link))
    wait_file(place, "ready")
    statuses = {}
    for i in range(count):
        path = os.path.join(place.ws, *grant)
        result = run(place, ["--write", path, *workspace],
                     inside_sh('for p; do (echo x >"$p"); done; true', "%s/w%d" % (target, i), "%s/v%d" % (path, i)), starts=False)
        statuses[result.status] = statuses.get(result.status, 0) + 1
        landed = [n for n in os.listdir(target) if n[:1] in "vw" and n[1:].isdigit()]
        check(not landed, "run %d wrote outside: %s" % (i, landed))
    write(place.ws + "/stop")
    result = flipper.wait()
    among(result.status, (0,), "the run that exchanges")
    check(set(statuses) <= {0, *REFUSED}, "statuses %s" % statuses)
    return statuses


@test("FS-W04 swap of a grant between check and mount")
def _():
    with Place() as place:
        place.expect("ready", "stop", "out", "outlink")
        os.mkdir(place.ws + "/out")
        os.symlink("../out", place.ws + "/outlink")
        other = place.tmp + "/b"
        os.mkdir(other)
        _swap(place, ("out",), "outlink", place.out, 50, [])
        os.unlink(place.ws + "/stop")
        os.unlink(place.ws + "/ready")
        _swap(place, ("out",), "outlink", place.out, 50, ["--workspace", other])


@test("FS-W04 swap of a directory on the way to a grant")
def _():
    with Place() as place:
        place.expect("ready", "stop", "d", "dlink")
        os.makedirs(place.ws + "/d/out")
        os.symlink("..", place.ws + "/dlink")
        other = place.tmp + "/b"
        os.mkdir(other)
        _swap(place, ("d", "out"), "dlink", place.out, 50, ["--workspace", other])


@test("FS-W05 a grant that became a symlink in an earlier run")
def _():
    with Place() as place:
        place.expect("out", "d", "w", "new", "canary")
        os.mkdir(place.ws + "/out")
        os.mkdir(place.ws + "/d")
        same(run(place, ["--write", "./out"], "echo x >out/x").status, 0, "before")
        same(run(place, [], "rm -rf out d").status, 0, "run 1")
        for name, target in (("out", place.out), ("d", ".."), ("w", place.out)):  # as an older atoll let a run make them
            os.symlink(target, os.path.join(place.ws, name))
        before = snapshot(place.out)
        for flag in ("--write", "--read"):
            for path in ("./out", "out/", "out/.", place.ws + "/out", place.ws + "//out///", "./d/out", "f/../out", "out/../out"):
                result = run(place, [flag, path], "(echo x >out/x); (echo x >d/out/x); cat out/secret.txt; true", starts=False)
                among(result.status, REFUSED, "%s %s" % (flag, path))
                check("out" in result.err and len(result.err.strip().splitlines()) <= 3, "the message does not name the link: %r" % result.err)
                same(difference(before, snapshot(place.out)), "", "out")
        for flags in (["--workspace", "w"], ["--workspace", "./w/"], ["--chdir", "w"], ["--protect", "w/canary"]):
            result = run(place, flags, "(echo x >canary); (echo x >w/canary); (echo x >new); true", starts=False)
            if flags[0] == "--protect":
                among(result.status, (0, *REFUSED), " ".join(flags))
            else:
                among(result.status, REFUSED, " ".join(flags))


@test("FS-W05 a link inside a grant that is wider by its target")
def _():
    # The grant is plain; a link in it, made before the run, leads outside. Following it gives nothing.
    with Place() as place:
        os.mkdir(place.tmp + "/g")
        os.symlink(place.out, place.tmp + "/g/l")
        result = run(place, ["--write", place.tmp + "/g"], inside_sh('echo x >"$1/g/ok"; echo x >"$1/g/l/canary"', place.tmp))
        check(result.status != 0, "the write came through")
        check(os.path.exists(place.tmp + "/g/ok"), "the grant itself is not writable")


@test("FS-W07 paths that cannot be resolved")
def _():
    with Place() as place:
        os.symlink("loop", place.ws + "/loop")
        os.symlink("loop2/x", place.ws + "/loop2")
        os.makedirs(place.ws + "/closed/in")
        write(place.ws + "/file")
        place.settle()
        paths = [("loop", "loop"), ("loop/x", "loop"), ("loop2", "loop2"), ("n" * 300, "nnnn"), ("/".join(["p" * 100] * 50), "pppp"),
                 ("missing", "missing"), ("f/below", "f"), ("file/", "file"), ("", "")]
        if not IS_ROOT:
            paths.append(("closed/in", "closed"))
            os.chmod(place.ws + "/closed", 0)
        for path, named in paths:
            for flag in ("--write", "--read"):
                if path == "file/":
                    continue  # whether a trailing slash on a file is forgiven is not a matter of safety
                result = run(place, [flag, path], "echo started >started; echo started", starts=False)
                among(result.status, REFUSED, "%s %.20s" % (flag, path))
                check("started" not in result.out and not os.path.exists(place.ws + "/started"), "the command ran")
                check(named in result.err, "the message does not name the path: %r" % result.err[:300])
                check(len(result.err.splitlines()) <= 3, "the message is long: %r" % result.err[:300])
        os.chmod(place.ws + "/closed", 0o755)


@test("FS-W07 hiding and protecting what cannot be resolved is never skipped")
def _():
    with Place() as place:
        os.symlink("loop", place.ws + "/loop")
        os.mkdir(place.ws + "/real")
        write(place.ws + "/real/s", place.secret)
        os.symlink("real", place.ws + "/alias")
        place.settle()
        # A line on a link: refused, or it holds for what the link leads to.
        wrong = []
        for line in ("alias", "alias/", "alias/s", "./alias/../alias/s"):
            result = run(place, ["--hide", line], "cat alias/s real/s; true", starts=False, leaks=True)
            if place.secret in result.out or result.status not in (0, *REFUSED):
                wrong.append("--hide %s: status %d%s" % (line, result.status, ", and it is read" if place.secret in result.out else ""))
            result = run(place, ["--protect", line], "(echo x >real/s); (echo x >alias/s); true", starts=False, leaks=True)
            if read(place.ws + "/real/s") != place.secret.encode() or result.status not in (0, *REFUSED):
                wrong.append("--protect %s: status %d, and it is written" % (line, result.status))
                write(place.ws + "/real/s", place.secret)
        same(wrong, [], "lines that lead through a link")
        for flags in (["--hide", "n" * 300], ["--hide", "/".join(["p" * 100] * 50)]):
            among(run(place, flags, "true", starts=False).status, (0, *REFUSED), "a long path")
        among(run(place, ["--hide", ""], "true", starts=False).status, REFUSED, "--hide ''")


@test("FS-W10 new hard links out of and into the grant")
def _():
    attack = inside_py(r"""
        O = arg[0]
        attempt("into", lambda: os.link(O + "/canary", "h"))
        attempt("out of", lambda: os.link("f", O + "/h2"))
        attempt("through /proc", lambda: os.link("/proc/self/fd/%d" % os.open(O + "/canary", os.O_RDONLY), "h3", follow_symlinks=True))
        attempt("O_PATH", lambda: os.link("/proc/self/fd/%d" % os.open(O + "/canary", O_PATH), "h4", follow_symlinks=True))
        attempt("empty path", lambda: syscall(265, os.open(O + "/canary", O_PATH), b"", AT_FDCWD, b"h5", AT_EMPTY_PATH))
        attempt("caller's 3", lambda: os.link(O.lstrip("/") + "/canary", "h6", src_dir_fd=3))
        attempt("caller's 200", lambda: os.link("f", O.lstrip("/") + "/h7", dst_dir_fd=200))
        """)
    for flags in (lambda p: [], lambda p: ["--read", p.out]):
        result = both(lambda p: attack + [p.out],
                      lambda p, r: os.stat(p.out + "/canary").st_nlink > 1 or os.path.exists(p.out + "/h2"), deny=flags, allow=OUTSIDE)
        result.refused(how=GONE + ("EBADF",))


@test("FS-W10 a hard link to a protected file is not a way to write it")
def _():
    attack = inside_sh("""
        cd "$1" || exit 1
        for s in .git/config .git/hooks/pre-commit.sample .git/HEAD keep .vscode/tasks.json; do
            ln $s link && { echo evil >>link; rm -f link; }
            ln -s $s sym; (echo evil >>sym); rm -f sym
            cp -l $s link && { echo evil >link; rm -f link; }
        done
        python3 -c 'import os; fd=os.open("keep",os.O_RDONLY); os.link("/proc/self/fd/%d"%fd,"link",follow_symlinks=True); open("link","a").write("evil")'
        true
        """)

    def prepare(place):
        write(place.ws + "/keep", "keep\n")
        write(place.ws + "/.vscode/tasks.json", "{}\n")
        place.settle()

    def effect(place, _result):
        return any(b"evil" in read(place.ws + "/" + n) for n in (".git/config", ".git/hooks/pre-commit.sample", "keep", ".vscode/tasks.json"))
    both(lambda p: attack + [p.ws], effect, deny=["--protect", "keep"], allow=OUTSIDE, prepare=prepare)


def _protected_state(place, *more):
    """What must stay the same object with the same content."""
    found = {}
    for name in (".git", ".git/hooks", ".git/config", ".git/hooks/pre-commit.sample", *more):
        path = os.path.join(place.ws, name)
        st = os.lstat(path)
        found[name] = (st.st_ino, oct(st.st_mode), read(path) if stat.S_ISREG(st.st_mode) else None)
    return found


RENAMES = inside_py(r"""
    def git(path): return arg[0] + "/" + path
    os.makedirs("own/hooks"); put("own/hooks/pre-commit"); put("own/config"); put("ownfile")
    def try_rename(label, source, target, flags=0):
        attempt(label, lambda: syscall(316, AT_FDCWD, source.encode(), AT_FDCWD, target.encode(), flags))
    try_rename("mv .git", git(".git"), "x")
    try_rename("exchange .git", git(".git"), "own", 2)
    try_rename("exchange with .git", "own", git(".git"), 2)
    try_rename("whiteout .git", git(".git"), "x2", 4)
    try_rename("mv hooks", git(".git/hooks"), "y")
    try_rename("mv hooks inside", git(".git/hooks"), git(".git/y"))
    try_rename("exchange hooks", git(".git/hooks"), "own/hooks", 2)
    try_rename("exchange with hooks", "own/hooks", git(".git/hooks"), 2)
    try_rename("into hooks", "ownfile", git(".git/hooks/pre-commit"))
    try_rename("into hooks, no replace", "ownfile", git(".git/hooks/post-checkout"), 1)
    try_rename("exchange a hook", "ownfile", git(".git/hooks/pre-commit.sample"), 2)
    try_rename("over a hook", "ownfile", git(".git/hooks/pre-commit.sample"))
    try_rename("over config.worktree", "own/config", git(".git/config.worktree"))
    try_rename("mv config away", git(".git/config"), "z")
    try_rename("exchange config", git(".git/config"), "own/config", 2)
    try_rename("new .git elsewhere", "own", "src/.git")
    try_rename("commondir", "ownfile", git(".git/commondir"))
    attempt("rmdir hooks", lambda: os.rmdir(git(".git/hooks")))
    attempt("unlink config", lambda: os.unlink(git(".git/config")))
    attempt("symlink over hooks", lambda: os.symlink("../own/hooks", git(".git/hooks")))
    """)


@test("FS-W11 rename of a protected directory, its parts and what replaces them")
def _():
    with Place() as place:
        place.expect("own", "ownfile")
        before = _protected_state(place)
        result = run(place, [], RENAMES + ["."])
        result.refused(how=DENIED + ("EBUSY", "EEXIST", "ENOTEMPTY", "EXDEV", "EINVAL", "ENOENT"))
        same(_protected_state(place), before, "the host's .git")
        for name in ("commondir", "config.worktree", "hooks/pre-commit", "hooks/post-checkout"):
            check(not os.path.lexists(place.ws + "/.git/" + name), ".git/%s exists" % name)
    with Place(strict=False) as place:
        place.expect("*")
        same(plain(place, RENAMES + ["."]).tries["mv .git"], "ok", "rename without atoll")


@test("FS-W11 protected names reached by every road to the same directory")
def _():
    # The guard must judge where a path leads, not how it is written.
    attack = inside_py(r"""
        roads = {"plain": ".git", "dot": "./.git", "up": "src/../.git", "double": ".//.git//", "absolute": arg[0] + "/.git", "cwd": "/proc/self/cwd/.git",
                 "root": "/proc/self/root" + arg[0] + "/.git", "thread": "/proc/thread-self/cwd/.git", "upper": "../ws/.git"}
        roads["alias"] = "alias"
        fd = os.open(".git", O_PATH); roads["proc fd"] = "/proc/self/fd/%d" % fd; roads["dev fd"] = "/dev/fd/%d" % fd
        for label, road in roads.items():
            attempt(label + ": hook", lambda: put(road + "/hooks/pre-commit", b"#!/bin/sh\n", mode=0o755))
            attempt(label + ": config", lambda: put(road + "/config", b"evil", os.O_WRONLY | os.O_APPEND))
            attempt(label + ": chmod", lambda: os.chmod(road + "/hooks/pre-commit.sample", 0o777))
            attempt(label + ": truncate", lambda: os.truncate(road + "/config", 0))
            attempt(label + ": unlink", lambda: os.unlink(road + "/hooks/pre-commit.sample"))
            attempt(label + ": symlink", lambda: os.symlink("/nonexistent/true", road + "/hooks/post-commit"))
            attempt(label + ": mknod", lambda: os.mknod(road + "/hooks/post-merge", 0o755))
        attempt("alias2", lambda: put("alias2/pre-push"))
        attempt("dirfd", lambda: put("hooks/pre-commit", dir_fd=fd))
        attempt("dirfd config", lambda: put("config", b"evil", os.O_WRONLY | os.O_APPEND, dir_fd=fd))
        hooks = os.open(".git/hooks", os.O_RDONLY)
        attempt("dirfd hooks", lambda: put("pre-commit", dir_fd=hooks))
        attempt("openat2", lambda: syscall(437, hooks, b"pre-commit", struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 0), 24))
        attempt("openat2 beneath", lambda: syscall(437, hooks, b"pre-commit", struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 8), 24))
        attempt("openat2 in root", lambda: syscall(437, fd, b"/hooks/pre-commit", struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 16), 24))
        def tmpfile(where):
            t = os.open(where, os.O_RDWR | O_TMPFILE, 0o755)
            syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % t, hooks, b"pre-commit", AT_SYMLINK_FOLLOW)
        attempt("O_TMPFILE in hooks", lambda: tmpfile(".git/hooks"))
        attempt("O_TMPFILE elsewhere", lambda: tmpfile("."))
        put("ownhook")
        attempt("link into hooks", lambda: os.link("ownhook", ".git/hooks/pre-commit"))
        attempt("linkat dirfd", lambda: os.link("ownhook", "pre-commit", dst_dir_fd=hooks))
        attempt("renameat dirfd", lambda: os.rename("ownhook", "pre-commit", dst_dir_fd=hooks))
        c = os.open(".git/config", os.O_RDONLY)
        attempt("reopen config", lambda: os.close(os.open("/proc/self/fd/%d" % c, os.O_RDWR)))
        attempt("reopen O_PATH config", lambda: os.close(os.open("/proc/self/fd/%d" % os.open(".git/config", O_PATH), os.O_RDWR)))
        attempt("fchmod", lambda: os.fchmod(os.open(".git/hooks/pre-commit.sample", os.O_RDONLY), 0o777))
        attempt("setxattr", lambda: os.setxattr(".git/config", "user.x", b"1"))
        os.chdir(".git")
        attempt("chdir: config", lambda: put("config", b"evil", os.O_WRONLY | os.O_APPEND))
        attempt("chdir: hook", lambda: put("hooks/pre-commit"))
        os.chdir("hooks")
        attempt("chdir hooks", lambda: put("pre-commit"))
        attempt("chdir hooks, up", lambda: put("../config", b"evil", os.O_WRONLY | os.O_APPEND))
        """)
    def aliases(place):
        """Links of the host's: a run makes none into a git directory."""
        os.symlink(".git", place.ws + "/alias")
        os.symlink("alias/hooks", place.ws + "/alias2")
        place.settle()
    with Place() as place:
        place.expect("ownhook")
        aliases(place)
        before = _protected_state(place)
        result = run(place, [], attack + [place.ws])
        # Outcomes that change nothing on the host are all the same to us; what may not be is "ok".
        for label, said in result.tries.items():
            if label not in ("end", "setxattr") and "chmod" not in label:
                check(said != "ok", "%s came through" % label)
        same(result.tries.get("end"), "ok", "the attack's end")
        same(_protected_state(place), before, "the host's .git")
        same(sorted(n for n in os.listdir(place.ws + "/.git/hooks") if not n.endswith(".sample")), [], "hooks")
        check(result.refusals, "atoll says nothing about what it refused")
    with Place(strict=False) as place:
        place.expect("*")
        aliases(place)
        result = plain(place, attack + [place.ws])
        for label in ("plain: hook", "alias: config", "proc fd: hook", "dirfd", "openat2 beneath", "chdir hooks, up"):
            same(result.tries.get(label), "ok", "without atoll: " + label)


@test("FS-W11 a directory that is safe and a link to trusted settings by turns")
def _():
    attack = inside_py(r"""
        import threading
        os.mkdir("safe"); os.symlink(".vscode", "bait")
        stop, rounds = time.time() + 1.5, 0
        def flip():
            while time.time() < stop or rounds < 100:
                syscall(316, AT_FDCWD, b"safe", AT_FDCWD, b"bait", 2)
        threading.Thread(target=flip).start()
        n = 0
        while time.time() < stop or rounds < 100:
            rounds += 1
            for name in ("safe/pre-commit", "safe/../.vscode/post-commit"):
                try:
                    put(name, b"#!/bin/sh\n", mode=0o755); n += 1
                except OSError:
                    pass
            for act in (lambda: os.mkdir("safe/d"), lambda: os.rmdir("safe/d"), lambda: os.link("f", "safe/l"), lambda: os.unlink("safe/l"),
                        lambda: os.symlink("f", "safe/s"), lambda: os.unlink("safe/s"), lambda: os.unlink("safe/pre-commit.sample"),
                        lambda: os.chmod("safe/pre-push.sample", 0o777), lambda: os.truncate("safe/update.sample", 0)):
                try:
                    act()
                except OSError:
                    pass
        print("times", n)
        """)
    before = {}

    def prepare(place):
        for name in ("pre-commit.sample", "pre-push.sample", "update.sample"):
            write(place.ws + "/.vscode/" + name)
        place.settle()
        before[place.token] = snapshot(place.ws + "/.vscode")

    def effect(place, _result):
        return difference(before[place.token], snapshot(place.ws + "/.vscode"))
    refused = both(lambda p: attack, effect, allow=OUTSIDE, prepare=prepare, expect=("safe", "bait"))
    check("times 0\n" not in refused.out, "nothing was written at all")


@test("FS-W11 a path buffer that changes between the check and the call")
def _():
    # PR-25 for writing: whoever decides by a path in the caller's memory must not let the kernel read it again.
    source = r"""
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/stat.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        static char buffer[64] = "safe-file-name-00";
        static volatile int stop;
        static void *flip(void *unused)
        {
            while (!stop) { memcpy(buffer, ".git/hooks/update", 18); __asm__ volatile("" ::: "memory"); memcpy(buffer, "safe-file-name-00", 18); __asm__ volatile("" ::: "memory"); }
            return NULL;
        }
        int main(int argc, char **argv)
        {
            unsigned long how[3] = {O_WRONLY | O_CREAT, 0755, 0}, n = 0;
            time_t end = time(NULL) + 3;
            pthread_t thread;
            pthread_create(&thread, NULL, flip, NULL);
            /* Where it is not stopped it has shown what it can as soon as it has worked. */
            while (time(NULL) < end && !(argc > 1 && access(argv[1], F_OK) == 0)) {
                int fd = open(buffer, O_WRONLY | O_CREAT, 0755);
                if (fd >= 0) { n++; close(fd); }
                fd = syscall(437, AT_FDCWD, buffer, how, sizeof how);
                if (fd >= 0) { n++; close(fd); }
                unlink("safe-file-name-00"); mkdir(buffer, 0755); rmdir("safe-file-name-00");
                symlink("nowhere", buffer); unlink("safe-file-name-00");
                link("f", buffer); unlink("safe-file-name-00");
                mknod(buffer, 0755 | S_IFREG, 0); chmod(buffer, 0777); truncate(buffer, 0); rename("README.md", buffer); rename("safe-file-name-00", "README.md");
            }
            stop = 1;
            pthread_join(thread, NULL);
            printf("times %lu\n", n);
            return 0;
        }
        """
    for flags in ([], None):
        with Place(strict=flags is not None) as place:
            place.expect("*")
            program = build_c(place, "race", source)
            before = snapshot(place.ws + "/.git/hooks")
            result = run(place, flags, [program]) if flags is not None else plain(place, [program, ".git/hooks/update"])
            changed = difference(before, snapshot(place.ws + "/.git/hooks"))
            if flags is not None:
                check("times 0\n" not in result.out and "times" in result.out, "nothing was written at all")
                same(changed, "", "the hooks")
            else:
                check(changed, "without atoll the race does nothing either")


@test("FS-W11 --protect holds against renaming what lies above it")
def _():
    attack = inside_sh(r"""
        (echo evil >d/e/keep); (echo evil >>d/e/keep); rm -f d/e/keep; mv d/e/keep k && echo evil >d/e/keep
        mv d x && { echo evil >x/e/keep; mv x d; }
        mv d/e y && { echo evil >y/keep; mv y d/e; }
        mkdir -p own/e; echo evil >own/e/keep
        python3 -c 'import ctypes; print(ctypes.CDLL(None).renameat2(-100,b"own",-100,b"d",2))'
        python3 -c 'import ctypes; print(ctypes.CDLL(None).renameat2(-100,b"own/e/keep",-100,b"d/e/keep",2))'
        rm -rf d; mkdir -p d/e && echo evil >d/e/keep
        ln -s d/e s; (echo evil >s/keep); ln d/e/keep hl && echo evil >hl; cp own/e/keep d/e/keep; sed -i s/k/evil/ d/e/keep; truncate -s0 d/e/keep
        chmod 777 d/e/keep; echo end
        """)

    def prepare(place):
        write(place.ws + "/d/e/keep", "keep\n")
        write(place.ws + "/d/other", "other\n")
        place.settle()

    def effect(place, _result):
        path = place.ws + "/d/e/keep"
        return not os.path.exists(path) or read(path) != b"keep\n" or os.stat(path).st_mode & 0o777 != 0o644
    refused = both(lambda p: attack, effect, deny=["--protect", "d/e/keep"], allow=[], prepare=prepare, expect=("own", "s", "d", "x", "y", "k", "hl"))
    check("end\n" in refused.out, "the attack did not come to its end")


@test("FS-W11 --protect of a directory, and of a name that does not exist yet")
def _():
    with Place() as place:
        place.expect("free")
        write(place.ws + "/dir/a", "keep\n")
        place.settle()
        result = run(place, ["--protect", "dir", "--protect", "later", "--protect", place.ws + "/src/deep/later/"], """
            (echo x >dir/a); (echo x >dir/new); mkdir dir/sub; rm -rf dir; mv dir free; (echo x >later); mkdir later; ln -s f later; ln f later
            mv README.md later; mkdir -p src/deep/later; (echo x >src/deep/later); cp -r src later; echo x >free; echo end""")
        check("end\n" in result.out, "the attack did not come to its end")
        place.expect("src/deep")
        check(not os.path.lexists(place.ws + "/src/deep/later"), "src/deep/later exists")
        check(not os.path.lexists(place.ws + "/later"), "later exists")
        same(read(place.ws + "/dir/a"), b"keep\n", "dir/a")
        same(os.listdir(place.ws + "/dir"), ["a"], "dir")
        check(os.path.exists(place.ws + "/free") and os.path.exists(place.ws + "/README.md"), "the workspace itself")


@test("FS-W13 own user namespace, then unmount")
def _():
    need("unshare", "umount")
    with Place() as place:
        before = _protected_state(place)
        result = run(place, ["--read", place.out, "--hide", "src"], inside_sh(r"""
            for how in -Urm -rm -m -Um; do
                unshare $how sh -c 'umount -l .git/hooks; umount -l .git; umount -l "$1"; umount -l "$PWD"; umount -l src; umount -l /
                    mount -o remount,rw,bind "$1"; mount -o remount,rw "$1"; mount --bind / /mnt; mount -t tmpfs t .git/hooks
                    echo x >.git/hooks/h; echo x >"$1/h"; cat src/a.c' sh "$1" && echo came-through
            done
            umount -l .git/hooks; umount -l "$1"; mount -o remount,rw,bind "$1"; (echo x >.git/hooks/h); (echo x >"$1/h"); echo end
            """, place.out))
        check("end\n" in result.out, "the attack did not come to its end")
        check("int a" not in result.out, "a hidden file was read")
        result = run(place, ["--read", place.out], inside_py(r"""
            NEWUSER, NEWNS = 0x10000000, 0x20000
            def child(body):
                def go():
                    body()
                    try: libc.umount2(b".git/hooks", 2); libc.umount2(arg[0].encode(), 2)
                    finally: pass
                    put(".git/hooks/h"); put(arg[0] + "/h")
                return go
            attempt_child("unshare", child(lambda: syscall(272, NEWUSER | NEWNS)))
            attempt_child("unshare in two", child(lambda: (syscall(272, NEWUSER), syscall(272, NEWNS))))
            def clone(): # in the child the call returns 0
                pid = syscall(56, NEWUSER | NEWNS | 17, 0, 0, 0, 0)
                if pid: os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            attempt_child("clone", child(clone))
            def clone3():
                pid = syscall(435, struct.pack("QQQQQQQQ", NEWUSER | NEWNS, 0, 0, 0, 17, 0, 0, 0), 64)
                if pid: os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            attempt_child("clone3", child(clone3))
            attempt("mount", lambda: syscall(165, b"none", b"/tmp", b"tmpfs", 0, 0))
            attempt("bind", lambda: syscall(165, b"/", b"/tmp", 0, 4096, 0))
            attempt("remount", lambda: syscall(165, 0, arg[0].encode(), 0, 4096 | 32, 0))
            attempt("umount2", lambda: syscall(166, arg[0].encode(), 2))
            attempt("open_tree", lambda: syscall(428, AT_FDCWD, arg[0].encode(), 1))
            attempt("fsopen", lambda: syscall(430, b"tmpfs", 0))
            attempt("fspick", lambda: syscall(433, AT_FDCWD, b"/tmp", 0))
            attempt("mount_setattr", lambda: syscall(442, AT_FDCWD, arg[0].encode(), 0x8000, struct.pack("QQQQ", 0, 1, 0, 0), 32))
            attempt("pivot_root", lambda: syscall(155, b"/tmp", b"/tmp"))
            attempt("chroot", lambda: os.chroot("/tmp"))
            """, place.out))
        result.refused(how=DENIED + ("ENOSYS", "EINVAL", "ENOSPC"))
        same(_protected_state(place), before, "the host's .git")
        check(not os.path.lexists(place.ws + "/.git/hooks/h"), "a hook was planted")


@test("FS-W14 inherited descriptors")
def _():
    attack = inside_py(r"""
        import fcntl
        def is_open(n):
            try: fcntl.fcntl(n, fcntl.F_GETFD); return True
            except OSError: return False
        tell("open", ",".join(str(n) for n in range(0, 4096) if is_open(n)))
        tell("all", ",".join(sorted(os.listdir("/proc/self/fd"), key=int)))
        for n in (3, 17, 200, 513):
            attempt("dirfd %d" % n, lambda: put(arg[0].lstrip("/") + "/viafd", dir_fd=n))
            attempt("fchdir %d" % n, lambda: os.fchdir(n))
            attempt("proc %d" % n, lambda: put("/proc/self/fd/%d%s/viafd" % (n, arg[0])))
        attempt("log", lambda: os.write(9, b"x"))
        for p in ("1", str(os.getppid())):
            attempt("fds of " + p, lambda: [os.stat("/proc/%s/fd/%s%s" % (p, n, arg[0])) for n in os.listdir("/proc/%s/fd" % p)][0])
        """)
    with Place() as place:
        log = os.open(place.tmp + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        result = run(place, [], attack + [place.out], fds={9: log, 513: os.open("/", os.O_RDONLY)})
        same(result.tries["open"], "0,1,2", "open descriptors")
        result.refused(*[label for label in result.tries if label not in ("open", "all", "end")], how=GONE + ("EBADF", "IndexError"))
        same(os.path.getsize(place.tmp + "/log"), 0, "bytes written through the caller's descriptor")
        # What the contract names does arrive, and nothing with it.
        result = run(place, ["--fd", "9"], attack + [place.out], fds={9: log})
        same(result.tries["open"], "0,1,2,9", "open descriptors with --fd 9")
        same(read(place.tmp + "/log"), b"x", "the log")
        os.close(log)
    with Place(strict=False) as place:
        result = plain(place, attack + [place.out])
        same(result.tries["dirfd 200"], "ok", "without atoll")


@test("FS-W14 descriptors above a lowered limit, and with 0, 1, 2 closed")
def _():
    with Place() as place:
        place.expect("fds")
        listing = inside_sh('ls -l /proc/self/fd >fds 2>&1; readlink /proc/self/fd/* >>fds; [ -e "/proc/self/fd/0$1" ] && echo leak >>fds; true', place.out)
        for script in ('ulimit -n 64; exec "$0" "$@"', 'exec "$0" "$@" <&-', 'exec "$0" "$@" >&-', 'exec "$0" "$@" 2>&-',
                       'exec "$0" "$@" <&- >&- 2>&-', 'exec "$0" "$@" </', 'exec "$0" "$@" >&200', 'exec "$0" "$@" 2>&200 <&200'):
            with contextlib.suppress(OSError):
                os.unlink(place.ws + "/fds")
            if ">&200" in script:
                script = "exec 8</; " + script.replace("200", "8")
            Running(place, ["/bin/sh", "-c", script, *ATOLL_RUN, "--", *listing], fds={900: os.open("/", os.O_RDONLY)}).wait()
            if not os.path.exists(place.ws + "/fds"):
                continue  # refusing to start is fine
            text = read(place.ws + "/fds").decode()
            check("leak" not in text, "a descriptor on a directory came in with %s" % script)
            targets = [line.split(" -> ")[1] for line in text.splitlines() if " -> " in line]
            for target in targets:
                check(target.startswith(("pipe:", "/dev/null", "/proc/", place.ws + "/fds", "socket:")), "%s is open with %s" % (target, script))


@test("FS-W14 a directory as standard input is not a way in")
def _():
    attack = inside_sh('for n in 0 1 2; do (echo x >/proc/self/fd/$n$1/viafd); (cd /proc/self/fd/$n && echo x >".$1/viafd"); done; true')
    both(lambda p: attack + [p.out], lambda p, r: os.path.exists(p.out + "/viafd"), allow=OUTSIDE, stdin=os.open("/", os.O_RDONLY))


@test("FS-W16 magic roots")
def _():
    attack = inside_py(r"""
        import glob
        O = arg[0]
        roots = ["/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/../../../../../..", "/proc/1/root", "/proc/1/cwd/../../../../../..", "/proc/2/root",
                 "/proc/%d/root" % os.getppid(), "/proc/self/task/%d/root" % os.getpid(), "/proc/1/task/1/root", "/../../..", "/proc/self/root/proc/self/root", "/proc/self/fd/../root",
                 "/proc/1/fd/0", "/proc/1/fd/3", "/proc/1/fd/4", "/proc/1/fd/5"]
        roots += glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd") + glob.glob("/proc/1/fd/*")
        for root in dict.fromkeys(roots):
            attempt(root, lambda: put(root + O + "/x-magic"))
            attempt("canary " + root, lambda: put(root + O + "/canary"))
        attempt("up", lambda: put("/proc/self/cwd/../out/x-magic"))
        """)
    for flags in (lambda p: [], lambda p: ["--read", p.out]):
        result = both(lambda p: attack + [p.out], lambda p, r: os.path.exists(p.out + "/x-magic"), deny=flags, allow=OUTSIDE)
        result.refused(how=GONE + ("ESRCH",))


@test("FS-W17 overwriting the running supervisor or a helper")
def _():
    directory = os.path.dirname(os.path.realpath(ATOLL))
    files = [os.path.join(directory, n) for n in os.listdir(directory)]
    files = [f for f in files if os.path.isfile(f) and os.access(f, os.X_OK)]
    before = {f: hashlib.sha256(read(f)).hexdigest() for f in files}
    with Place() as place:
        place.expect("script", "shebang*", "stop")
        write(place.ws + "/shebang", "#!/proc/self/exe run -- /bin/sh -c 'echo y'\n", 0o755)
        write(place.ws + "/shebang1", "#!/proc/1/exe\n", 0o755)
        code = inside_py(r"""
            import glob
            seen = {}
            held = []
            for n in (1, os.getppid()):
                for flags in (O_PATH, os.O_RDONLY):
                    try: held.append(os.open("/proc/%d/exe" % n, flags))
                    except OSError: pass
            stop = time.time() + float(arg.pop(0))
            while time.time() < stop:
                paths = ["/proc/1/exe", "/proc/%d/exe" % os.getppid(), "/proc/self/exe"] + glob.glob("/proc/[0-9]*/exe") + ["/proc/self/fd/%d" % fd for fd in held] + arg
                for path in paths:
                    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
                        try:
                            fd = os.open(path, flags); os.write(fd, b""); os.close(fd); seen["ok " + path] = 1
                        except OSError as error:
                            seen[errno.errorcode[error.errno]] = 1
            tell("opened", ",".join(sorted(k for k in seen if k.startswith("ok"))) or "none")
            """, 1.5 if os.environ.get("ATOLL_LONG") else 0.7, *files)
        for _ in range(3):
            result = run(place, [], code)
            same(result.tries.get("opened"), "none", "programs that could be opened for writing")
        for script in ("./shebang", "./shebang1", "/proc/self/exe"):
            result = run(place, ["--timeout", "60s"], [script], starts=False)
            check(result.status != TIMED_OUT, "%s does not end" % script)
    after = {f: hashlib.sha256(read(f)).hexdigest() for f in files}
    same(after, before, "atoll's programs")


@test("FS-W19 truncation, and every change through a descriptor for reading")
def _():
    with Place() as place:
        place.expect("own-source")
        result = run(place, ["--read", place.out], inside_py(THROUGH_A_READER, place.out))
        result.refused(how=NEVER)
    with Place() as place:  # not granted at all
        result = run(place, [], inside_py("""
            C = arg[0] + "/canary"
            attempt("truncate", lambda: os.truncate(C, 0))
            attempt("creat", lambda: os.close(syscall(85, C.encode(), 0o666)))
            attempt("open", lambda: os.close(os.open(C, os.O_RDONLY | os.O_TRUNC)))
            """, place.out))
        result.refused()
    with Place(strict=False) as place:
        place.expect("*")
        result = run(place, ["--write", place.out], inside_py(THROUGH_A_READER, place.out), leaks=True)
        for label in ("truncate on open", "creat", "openat2 truncate", "reopen through /proc", "reopen an O_PATH", "truncate through /proc",
                      "chmod through /proc", "fchmod", "futimens", "reopen with truncation"):
            same(result.tries.get(label), "ok", "with --write: " + label)


@test("FS-W19 truncation of protected files in the workspace")
def _():
    attack = inside_py(r"""
        for path in (".git/config", ".git/hooks/pre-commit.sample", "keep", ".bashrc"):
            attempt("truncate " + path, lambda: os.truncate(path, 0))
            attempt("O_TRUNC " + path, lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)))
            attempt("creat " + path, lambda: os.close(syscall(85, path.encode(), 0o644)))
            attempt("openat2 " + path, lambda: os.close(syscall(437, AT_FDCWD, path.encode(), struct.pack("QQQ", os.O_TRUNC, 0, 0), 24)))
            fd = os.open(path, os.O_RDONLY)
            attempt("again " + path, lambda: os.close(os.open("/proc/self/fd/%d" % fd, os.O_WRONLY | os.O_TRUNC)))
            attempt("truncate /proc " + path, lambda: os.truncate("/proc/self/fd/%d" % fd, 0))
            attempt("mmap " + path, lambda: __import__("mmap").mmap(fd, 0, flags=1, prot=3))
            attempt("punch " + path, lambda: syscall(285, fd, 3, 0, 10))
        """)

    def prepare(place):
        write(place.ws + "/keep", "keep\n")
        write(place.ws + "/.bashrc", "keep\n")
        place.settle()

    def effect(place, _result):
        return any(os.path.getsize(os.path.join(place.ws, n)) == 0 for n in (".git/config", "keep", ".bashrc", ".git/hooks/pre-commit.sample"))
    both(lambda p: attack, effect, deny=["--protect", "keep"], allow=OUTSIDE, prepare=prepare).refused(how=DENIED + ("EBADF",))


def _flags_of(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return struct.unpack("l", fcntl.ioctl(fd, 0x80086601, b"\0" * 8))[0]
    except OSError:
        return 0
    finally:
        os.close(fd)


@test("FS-W20 inode flags")
def _():
    need("chattr")
    with Place() as place:
        write(place.ws + "/victim", "x\n")
        os.mkdir(place.ws + "/dir")
        place.settle()
        result = run(place, [], inside_py(r"""
            import fcntl
            for path in ("victim", "dir", "."):
                fd = os.open(path, os.O_RDONLY)
                for name, flag in (("immutable", 0x10), ("append only", 0x20)):
                    attempt("%s %s" % (name, path), lambda: fcntl.ioctl(fd, 0x40086602, struct.pack("l", flag)))
                    attempt("xflags %s %s" % (name, path), lambda: fcntl.ioctl(fd, 0x401c5820, struct.pack("IIIII8x", 8 if flag == 0x10 else 16, 0, 0, 0, 0)))
                attempt("project " + path, lambda: fcntl.ioctl(fd, 0x401c5820, struct.pack("IIIII8x", 0, 0, 0, 77, 0)))
                attempt("file_setattr " + path, lambda: syscall(469, AT_FDCWD, path.encode(), struct.pack("QIIII", 8, 0, 0, 0, 0), 24, 0))
            """))
        result.refused(how=DENIED + ("ENOTTY", "EOPNOTSUPP", "ENOSYS", "EINVAL"))
        run(place, [], "chattr +i victim; chattr +a victim; chattr +i dir; chattr +i .; true")
        for name in ("victim", "dir", "."):
            same(_flags_of(os.path.join(place.ws, name)) & 0x30, 0, "flags of %s" % name)
        os.unlink(place.ws + "/victim")


@test("FS-W22 device nodes")
def _():
    with Place() as place:
        place.expect("p")
        result = run(place, [], inside_py(r"""
            attempt("block", lambda: os.mknod("d", 0o666 | stat.S_IFBLK, os.makedev(8, 0)))
            attempt("char", lambda: os.mknod("c", 0o666 | stat.S_IFCHR, os.makedev(1, 1)))
            attempt("zero", lambda: os.mknod("z", 0o666 | stat.S_IFCHR, os.makedev(1, 5)))
            attempt("in /tmp", lambda: os.mknod("/tmp/z", 0o666 | stat.S_IFCHR, os.makedev(1, 5)))
            attempt("in /dev", lambda: os.mknod("/dev/z", 0o666 | stat.S_IFCHR, os.makedev(1, 5)))
            attempt("in /dev/shm", lambda: os.mknod("/dev/shm/z", 0o666 | stat.S_IFCHR, os.makedev(1, 5)))
            """))
        result.refused()
        same(run(place, [], "mkfifo p; (cat p >/dev/null & echo x >p; wait)").status, 0, "a FIFO of its own")


@test("FS-W22 a device node made on the host before start")
def _():
    need_root()

    def prepare(place):
        for where in ("", "sub"):
            os.makedirs(os.path.join(place.ws, where), exist_ok=True)
            path = os.path.join(place.ws, where, "node")
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: harmless
            os.chmod(path, 0o666)
        place.settle()
    both(lambda p: inside_sh("head -c 4 node | od -An -c; head -c 4 sub/node | od -An -c; true"), lambda p, r: "\\0" in r.out,
         allow=OUTSIDE, prepare=prepare)
    with Place() as place:  # the same in a grant
        os.mknod(place.tmp + "/node", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        os.chmod(place.tmp + "/node", 0o666)
        for flag in ("--read", "--write"):
            for what in (place.tmp, place.tmp + "/node"):
                result = run(place, [flag, what], inside_sh('head -c 4 "$1/node" | od -An -c; true', place.tmp), starts=False)
                check("\\0" not in result.out, "a device was read with %s %s" % (flag, what))


@test("FS-W23 only harmless devices")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r"""
            tell("names", " ".join(sorted(os.listdir("/dev"))))
            for where, directories, files in os.walk("/dev"):
                for name in files:
                    st = os.lstat(os.path.join(where, name))
                    if stat.S_ISBLK(st.st_mode): tell("block " + where + "/" + name, "there")
                    if stat.S_ISCHR(st.st_mode): tell("char %s/%s" % (where, name), "%d:%d" % (os.major(st.st_rdev), os.minor(st.st_rdev)))
            for name in "vda sda nvme0n1 mem kmem port kmsg kvm fuse loop-control loop0 uinput vsock vhost-vsock net/tun hpet rtc0 snapshot userio cuse btrfs-control mapper/control cpu/0/msr input/event0 dri/card0 sgx_enclave bus/usb console".split():
                attempt("stat " + name, lambda: os.stat("/dev/" + name))
            attempt("null", lambda: put("/dev/null"))
            tell("zero", str(get("/dev/zero")[:2] == b"\0\0"))
            tell("random", str(len(set(os.read(os.open("/dev/urandom", 0), 64))) > 8))
            """))
        names = set(result.tries["names"].split())
        known = {"null": "1:3", "zero": "1:5", "full": "1:7", "random": "1:8", "urandom": "1:9", "tty": "5:0"}
        check(names <= {*known, "pts", "ptmx", "shm", "fd", "stdin", "stdout", "stderr", "mqueue"}, "devices inside: %s" % names)
        check({"null", "zero", "random", "urandom"} <= names, "devices inside: %s" % names)
        for label, said in result.tries.items():
            if label.startswith("block "):
                check(False, label)
            if label.startswith("char ") and label != "char /dev/pts/ptmx" and label != "char /dev/ptmx":
                same(said, known.get(os.path.basename(label)), label)
            if label.startswith("stat "):
                among(said, ("ENOENT", "ENOTDIR") + DENIED, label)
        for label in ("null",):
            same(result.tries[label], "ok", label)
        same((result.tries["zero"], result.tries["random"]), ("True", "True"), "reading zero and urandom")
        same(result.tries.get("end"), "ok", "end")


@test("FS-W25 predictable temporary names")
def _():
    with Place() as place:
        names = ["atoll", "atoll-%d" % os.geteuid(), "atoll.%d" % os.geteuid(), "atoll.sock", "atoll-0", "atoll-root", "atoll-run", "atoll.lock", ".atoll"]
        hostile = place.tmp + "/hostile"
        os.mkdir(hostile)
        os.chmod(hostile, 0o777)
        made = []

        def as_other(action):
            """As somebody else, where we can become one."""
            if not IS_ROOT:
                return action()
            os.seteuid(65534)
            try:
                return action()
            finally:
                os.seteuid(0)
        os.chmod(place.tmp, 0o711)
        try:
            for kind in ("link", "directory", "fifo"):
                for where in ("/tmp", "/var/tmp", "/dev/shm", hostile):
                    for name in names:
                        path = os.path.join(where, name)
                        with contextlib.suppress(FileExistsError):  # somebody's: leave it alone
                            as_other(lambda: os.symlink(place.out, path) if kind == "link" else
                                     os.mkdir(path) if kind == "directory" else os.mkfifo(path, 0o666))
                            made.append(path)
                            if kind == "directory":
                                os.chmod(path, 0o777)
                result = run(place, [], "echo fine; touch /tmp/x", env={"TMPDIR": hostile})
                same((result.status, result.out), (0, "fine\n"), "with a hostile %s: %s" % (kind, result.err))
                same(difference(place.before["out"], snapshot(place.out)), "", "out")
                for path in made:
                    if kind == "directory":
                        same(os.listdir(path), [], path)
                    remove(path)
                del made[:]
                same(os.listdir(hostile), [], "TMPDIR")
        finally:
            for path in made:
                with contextlib.suppress(OSError):
                    remove(path)


FOLDED = [".GIT/hooks/x", ".Git/config", ".git./config", ".git /config", ".g\u200cit/config", ".\u200dgit/hooks/x", "GIT~1/config", "git~1/hooks/x", ".gIt/commondir",
          "src/.GIT/config", ".VSCODE/tasks.json", ".vsCode/tasks.json", ".BashRC", ".ZSHRC", ".Claude/settings.json", ".git.../hooks/x", "src/.giT/hooks/x",
          ".git/Hooks/x", ".git/HOOKS/y", ".git/CONFIG.worktree", ".git/COMMONDIR", ".git/hooks./z", ".git/\ufeffhooks/z"]


def _fold(place):
    return inside_sh('cd "$1"; shift; for p; do d=$(dirname "$p"); mkdir -p "$d"; (echo evil >"$p"); mkdir -p own; echo evil >own/f; mv own/f "$p"; done; echo end',
                     place.ws, *FOLDED)


@test("FS-W26 case and Unicode folding of protected names")
def _():
    with Place() as place:
        place.expect("own", "src/.G*", "src/.g*", ".G*", ".g*", "G*", "g*", ".\u200d*", ".vs*", ".V*", ".C*")
        # Empty directories of such names harm nobody; files in them would.
        result = run(place, [], _fold(place))
        check("end\n" in result.out, "the attack did not come to its end")
        for name in FOLDED:
            check(not os.path.lexists(os.path.join(place.ws, name)), "%r was written" % name)
        for name in (".GIT.txt", ".github.md", "git", "gitignore", ".gitx", "my.git.txt"):
            same(run(place, [], inside_sh('echo x >"$1" && rm "$1"', name)).status, 0, "the harmless name %s" % name)
    with Place() as place:
        place.expect("*", ".*")
        plain(place, _fold(place))
        check(os.path.exists(place.ws + "/.GIT/hooks/x") and os.path.exists(place.ws + "/GIT~1/config"), "these names cannot be written at all")


@test("FS-W26 on a file system that folds")
def _():
    need_root()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:  # in a mount namespace of its own, so that the host sees no mount
        text = b""
        try:
            _libc = ctypes.CDLL(None, use_errno=True)
            check(_libc.unshare(0x20000) == 0, "unshare")
            _libc.mount(b"none", b"/", None, 0x44000, None)
            with Place(repository=False) as place:
                options = b"casefold,strict_encoding=0" if False else b"casefold"
                if _libc.mount(b"t", place.ws.encode(), b"tmpfs", 0, options) != 0:
                    text = b"skip"
                else:
                    os.mkdir(place.ws + "/repo")
                    if subprocess.run(["chattr", "+F", place.ws + "/repo"], stderr=subprocess.DEVNULL).returncode:
                        text = b"skip"
                    else:
                        make_repository(place.ws + "/repo")
                        place.ws += "/repo"
                        place.settle()
                        before = _protected_state(place)
                        place.expect("*", ".*")
                        run(place, [], _fold(place))
                        same(_protected_state(place), before, "the host's .git")
                        place.ws = os.path.dirname(place.ws)
                    _libc.umount2(place.ws.encode(), 2)
        except Exception:
            text = traceback.format_exc().encode()
        os.write(write_end, text or b"fine")
        os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 65536)
    os.close(read_end)
    os.waitpid(pid, 0)
    if said == b"skip":
        skip("no file system that folds case in this kernel (tmpfs with casefold)")
    same(said.decode(), "fine", "in its own mount namespace")


MISSING = [".claude/settings.json", ".claude/settings.local.json", ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".envrc", ".mcp.json",
           ".bashrc", ".profile", ".zshenv", ".cursor/mcp.json", ".codex/config.toml", ".devcontainer/devcontainer.json", ".github/workflows/x.yml",
           ".gitmodules", ".git/hooks/pre-commit", ".git/config.worktree", ".git/commondir", "sub/.git/hooks/pre-commit", "a/b/c/.vscode/tasks.json", "a/b/.bashrc"]
MUST_REFUSE = [n for n in MISSING if n != ".gitmodules"]


@test("FS-W28 protected paths that are missing at start")
def _():
    script = 'for p; do mkdir -p "$(dirname "$p")"; (echo evil >"$p"); mkdir -p own; echo evil >own/f; mv own/f "$p"; ln own/f "$p"; ln -s own/f "$p"; done; echo end'
    with Place() as place:
        place.expect("own", "sub", "a", ".github")
        place.expect(*[n.split("/")[0] for n in MISSING if n not in MUST_REFUSE])
        result = run(place, [], inside_sh(script, *MISSING))
        check("end\n" in result.out, "the attack did not come to its end")
        for name in MUST_REFUSE:
            check(not os.path.lexists(os.path.join(place.ws, name)), "%s was made" % name)
        check(result.refusals, "atoll says nothing about what it refused")
        check(any(".vscode" in line for line in result.refusals), "no line names .vscode: %s" % result.refusals)
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside_sh(script, *MISSING))
        for name in MUST_REFUSE:
            check(os.path.lexists(os.path.join(place.ws, name)), "without atoll %s cannot be made" % name)


@test("FS-W28 no stand-ins: nothing new on the host, also after kill -9")
def _():
    with Place() as place:
        before = snapshot(place.ws)
        same(run(place, ["--protect", "not-there", "--hide", "nor-this", "--hide", "**/.env"], "true").status, 0, "status")
        same(difference(before, snapshot(place.ws)), "", "the workspace")
        for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2):
            running = start(place, ["--protect", "not-there", "--hide", "nor-this", "--hide", "src/a.c", "--read", place.out], "sleep 600")
            time.sleep(delay)
            running.kill()
            same(difference(before, snapshot(place.ws)), "", "the workspace, killed after %s s" % delay)
            same(processes_left(), {}, "processes left")


@test("FS-W28 no repository at start: one with hooks and config cannot be planted")
def _():
    script = inside_sh(r"""
        mkdir -p .git/hooks .git/objects .git/refs; echo 'ref: refs/heads/main' >.git/HEAD
        printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s;false"\n' "$1" >.git/config; printf '#!/bin/sh\ntouch %s\n' "$1" >.git/hooks/post-index-change
        chmod +x .git/hooks/*; mkdir x; cp -r .git/* x; mv x/config .git/config; mv x sub; mv sub/ .git; true""")

    def effect(place, _result):
        config, hook = place.ws + "/.git/config", place.ws + "/.git/hooks/post-index-change"
        hostgit_failed = False
        try:
            hostgit(place)
        except Failed:
            hostgit_failed = True
        return hostgit_failed or os.path.exists(hook) or os.path.exists(config) and b"fsmonitor" in read(config)
    both(lambda p: script + [p.mark], effect, allow=OUTSIDE, repository=False, expect=(".git", "x", "sub"))


ODD = ["*", "[a]", "a b", "$(id)", "new\nline", "\udcff", "-rf", ":", "?", "{x,y}", "back\\slash", "quo\"te", "app'os", "#hash", "%s", "~", "a,b", "x=y", "!", "tab\t", " lead", "trail ", "ä", ".dot", "**", "\u202egnp", "[!a]", "[", "a]b"]


@test("FS-W29 odd names in grants are taken literally")
def _():
    with Place() as place:
        top = place.tmp + "/odd"
        for name in [*ODD, "a", "x", "b", "id", "plain"]:
            os.makedirs(os.path.join(top, name))
        script = 'for d in "$1"/* "$1"/.dot; do (echo x >"$d/w") 2>/dev/null; done; (echo x >"$2/w") 2>/dev/null; true'
        refused = []
        for name in ODD:
            grant = os.path.join(top, name)
            result = run(place, ["--read", top, "--write", grant], inside_sh(script, top, grant), starts=False)
            written = [n for n in os.listdir(top) if os.path.exists(os.path.join(top, n, "w"))]
            if result.status in REFUSED:
                refused.append(name)
                same(written, [], "written although refused: %r" % name)
                check(len(result.err.splitlines()) <= 2, "the message for %r: %r" % (name, result.err))
            else:
                same(written, [name], "written with a grant on %r" % name)
                os.unlink(os.path.join(grant, "w"))
        # A name without meaning for patterns must simply work.
        strict = [n for n in refused if not set(n) & set("*?[]{}\\\n\udcff\t\u202e")]
        same(strict, [], "grants that were refused")


@test("FS-W29 odd names in hide and protect lines")
def _():
    with Place() as place:
        for name in ODD:
            write(os.path.join(place.ws, "odd", name, "s"), place.secret)
        write(place.ws + "/odd/plain/s", "visible\n")
        place.settle()
        wrong = []
        for name in ODD:
            grant = os.path.join(place.ws, "odd", name)
            result = run(place, ["--hide", grant], inside_sh('cat "$1/s"; cat odd/plain/s', grant), starts=False, leaks=True)
            if place.secret in result.out:
                wrong.append("--hide %r does not" % name)
            elif result.status in REFUSED and len(result.err.splitlines()) > 2:
                wrong.append("--hide %r: the message %r" % (name, result.err))
            elif result.status not in REFUSED and name not in ("*", "?", "**") and "visible" not in result.out:
                wrong.append("--hide %r hides its neighbour" % name)
            before = snapshot(grant)
            run(place, ["--protect", grant], inside_sh('(echo x >"$1/s"); (echo x >"$1/t"); rm -f "$1/s"; true', grant), starts=False)
            if difference(before, snapshot(grant)):
                wrong.append("--protect %r does not" % name)
                with contextlib.suppress(OSError):
                    os.unlink(grant + "/t")
        same(wrong, [], "lines")


@test("FS-W31 a working directory that would widen the grant")
def _():
    with Place() as place:
        place.expect("sub", "l", "bad")
        os.mkdir(place.ws + "/sub")
        os.symlink(place.out, place.ws + "/l")
        os.symlink("..", place.ws + "/up")
        place.settle()
        write_here = "(echo x >made); (echo x >canary); pwd"
        for where in ("/", place.home, "../..", "..", place.out, "l", "up", "up/out", "sub/../../out", "/proc/self/cwd/../out", "/tmp", "", "missing", "f", "sub/.."):
            result = run(place, ["--chdir", where], write_here, starts=False)
            if result.status == 0:
                check(where in ("sub/..", "/tmp", ""), "--chdir %r was taken" % where)
                place.expect("made", "canary")
            else:
                among(result.status, REFUSED, "--chdir %r" % where)
            check(not os.path.lexists(place.base + "/made") and not os.path.lexists("/made"), "written through --chdir %r" % where)
        same(run(place, ["--chdir", "sub"], "pwd").out.strip(), place.ws + "/sub", "--chdir sub")
        for where in ("/", place.home, "/etc", "/usr", "/tmp", "/proc", "/sys", "/dev", "l", "up", "missing", "", "f", "/root", "/home"):
            if where == "/root" and place.home.startswith("/root"):
                continue
            result = run(place, ["--workspace", where], "true", starts=False)
            among(result.status, REFUSED, "--workspace %r" % where)
        # The same by starting there.
        for where in ("/", place.home, "/etc", "/usr", "/proc", "/tmp"):
            result = run(place, [], "true", cwd=where, starts=False)
            among(result.status, REFUSED, "started in %s" % where)
        same(run(place, [], "pwd", cwd=place.ws + "/sub").out.strip(), place.ws + "/sub", "started in a directory")


@test("FS-W31 started through a symlink to the workspace")
def _():
    with Place() as place:
        os.symlink("ws", place.base + "/link")
        place.expect("made")
        result = run(place, [], "echo x >made; pwd", cwd=place.base + "/link", env={"PWD": place.base + "/link"}, starts=False)
        if result.status == 0:
            check(os.path.exists(place.ws + "/made"), "written elsewhere")
        else:
            among(result.status, REFUSED, "status")
        # PWD is the caller's claim, nothing more.
        result = run(place, [], "echo x >made2; pwd", env={"PWD": place.out})
        place.expect("made2")
        same(result.out.strip(), place.ws, "pwd with a false PWD")


@test("FS-W32 write while the host replaces files")
def _():
    with Place() as place:
        place.expect("*", ".*")
        running = start(place, [], inside_py(r"""
            put("ready")
            i = n = 0
            stop = time.time() + 100
            while time.time() < stop and not os.path.exists("/tmp/never"):
                i += 1
                for path in ("w-%d" % (i % 20), arg[0] + "/abs-%d" % (i % 20), "src/w", arg[0] + "/src/abs"):
                    try: put(path); n += 1
                    except OSError: pass
                if os.path.exists("stop"): break
            print("times", n)
            """, place.ws))
        wait_file(place, "ready")
        for args in (["checkout", "-q", "-b", "other"], ["reset", "-q", "--hard"], ["checkout", "-q", "main"]):
            same(git(place.ws, *args).returncode, 0, "git %s on the host" % args[0])
        # Replace the workspace by another directory, by a link, and by a clone.
        old = place.base + "/old"
        os.rename(place.ws, old)
        os.mkdir(place.ws)
        time.sleep(0.3)
        same(os.listdir(place.ws), [], "written into the new directory")
        os.rmdir(place.ws)
        os.symlink(place.out, place.ws)
        time.sleep(0.3)
        os.unlink(place.ws)
        same(git(place.base, "clone", "-q", old, place.ws).returncode, 0, "git clone")
        time.sleep(0.3)
        same([n for n in os.listdir(place.ws) if n.startswith(("w-", "abs-"))], [], "written into the clone")
        write(old + "/stop")
        result = running.wait()
        check("times" in result.out and "times 0\n" not in result.out, "nothing was written at all")
        place.settle()


@test("FS-W32 the old workspace is removed under the run")
def _():
    with Place() as place:
        place.expect("*", ".*")
        running = start(place, [], inside_py(r"""
            put("ready")
            stop = time.time() + 1.5
            while time.time() < stop:
                for path in ("gone", arg[0] + "/gone", "../ws/gone"):
                    try: put(path)
                    except OSError: pass
            """, place.ws))
        wait_file(place, "ready")
        shutil.rmtree(place.ws, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(place.ws, place.base + "/rest")
        os.mkdir(place.ws)
        running.wait()
        same(os.listdir(place.ws), [], "the new directory")


@test("FS-WX1 file handles")
def _():
    attack = inside_py(r"""
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
        mount = ctypes.c_int()
        attempt("name_to_handle_at", lambda: syscall(303, AT_FDCWD, arg[0].encode(), handle, ctypes.byref(mount), 0))
        def reopen(path, flags):
            fd = os.open(path, os.O_RDONLY)
            return os.close(syscall(304, fd, handle, flags))
        attempt("by handle", lambda: reopen(".", os.O_RDWR))
        attempt("by handle, root", lambda: reopen("/", os.O_RDWR))
        # A handle made by hand: ext4's is inode and generation. The root directory of the disk is inode 2.
        made = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0) + b"\0" * 64)
        attempt("made by hand", lambda: syscall(304, os.open(".", os.O_RDONLY), made, os.O_RDONLY))
        """)
    with Place() as place:
        result = run(place, [], attack + [place.out + "/canary"])
        result.refused("by handle", "by handle, root", "made by hand", how=GONE + ("ESTALE", "ENOSYS", "EINVAL", "EOPNOTSUPP"))
        result = run(place, ["--read", place.out], attack + [place.out + "/canary"])
        result.refused("by handle", "by handle, root", "made by hand", how=GONE + ("ESTALE", "ENOSYS", "EINVAL", "EOPNOTSUPP"))


@test("FS-WX2 switches of the kernel and of other processes cannot be opened for writing")
def _():
    # Opened, never written to: this must be harmless where there is no sandbox, too.
    with Place() as place:
        paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register",
                 "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/bus", "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/1/mem", "/proc/1/oom_score_adj",
                 "/proc/1/uid_map", "/proc/1/clear_refs", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/release_agent",
                 "/proc/self/uid_map", "/proc/self/gid_map", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/kcore", "/proc/scsi/scsi",
                 "/proc/acpi/wakeup", "/proc/mtrr", "/proc/driver/rtc"]
        result = run(place, [], inside_py("""
            for path in arg:
                attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
            """, *paths))
        for path in paths:
            if path in ("/proc/self/uid_map", "/proc/self/gid_map"):
                continue  # may be opened; a second map cannot be written
            among(result.tries.get(path), GONE + ("EISDIR", "EIO", "EINVAL"), path)
        result = run(place, [], inside_py("""
            attempt("uid_map", lambda: put("/proc/self/uid_map", b"0 0 1\\n", os.O_WRONLY))
            attempt("setgroups", lambda: put("/proc/self/setgroups", b"allow\\n", os.O_WRONLY))
            """))
        result.refused(how=GONE + ("EINVAL",))


@test("FS-WX3 a grant on a FIFO, a socket or a file does not block the start")
def _():
    with Place() as place:
        os.mkfifo(place.tmp + "/fifo", 0o666)
        s = socket.socket(socket.AF_UNIX)
        s.bind(place.tmp + "/sock")
        write(place.tmp + "/file", "one\n", 0o666)
        for flag in ("--read", "--write", "--hide", "--protect"):
            for name in ("fifo", "sock", "file"):
                result = run(place, [flag, place.tmp + "/" + name], "echo here", starts=False)
                among(result.status, (0, *REFUSED), "%s %s" % (flag, name))
        os.mkfifo(place.ws + "/README.fifo")
        place.settle()
        for flags in ([], ["--hide", "**/*.fifo"], ["--hide", "README.fifo"], ["--protect", "README.fifo"]):
            among(run(place, flags, "echo here", starts=False).status, (0, *REFUSED), "a FIFO in the workspace, %s" % flags)
        s.close()
        result = run(place, ["--write", place.tmp + "/file"], inside_sh('echo two >>"$1/file"; (echo x >"$1/new"); ls "$1"', place.tmp))
        same((sorted(os.listdir(place.tmp)), read(place.tmp + "/file")), (["fifo", "file", "sock"], b"one\ntwo\n"), "a grant on one file")


@test("FS-WX4 one file granted: it cannot be replaced by a link or grow into its directory")
def _():
    with Place() as place:
        write(place.tmp + "/d/file", "one\n", 0o666)
        os.chmod(place.tmp + "/d", 0o777)
        os.chmod(place.tmp, 0o777)
        run(place, ["--write", place.tmp + "/d/file"], inside_sh("""
            cd "$1/d"; rm -f file; ln -s "$2/canary" file; mv file other; ln -sf "$2/canary" file; (echo x >file2); mkdir sub; ln file hard; mv "$1/d" "$1/e"; echo end
            """, place.tmp, place.out))
        same(sorted(os.listdir(place.tmp + "/d")), ["file"], "the directory of the granted file")
        check(not os.path.islink(place.tmp + "/d/file"), "the granted file became a link")
        same(os.listdir(place.tmp), ["d"], "the directory above")


@test("FS-WX5 the most specific line wins, whatever their order")
def _():
    for order in (0, 1):
        with Place() as place:
            for name in ("a", "a/b", "a/b/c"):
                os.makedirs(place.tmp + "/" + name)
            for name in ("a", "a/b", "a/b/c"):
                os.chmod(place.tmp + "/" + name, 0o777)
            lines = [["--write", place.tmp + "/a"], ["--read", place.tmp + "/a/b"], ["--write", place.tmp + "/a/b/c"]]
            flags = sum(lines if order == 0 else lines[::-1], [])
            run(place, flags, inside_sh('for d in a a/b a/b/c; do (echo x >"$1/$d/w"); done; rm -rf "$1/a/b"; mkdir -p "$1/a/b"; echo x >"$1/a/b/v"; true', place.tmp))
            made = sorted(os.path.relpath(os.path.join(w, f), place.tmp) for w, _, fs in os.walk(place.tmp) for f in fs)
            among(made, (["a/b/c/w", "a/w"], ["a/w"]), "written")  # rm -rf may take its own file in c
        with Place() as place:  # at a tie: hide > read > write
            os.mkdir(place.tmp + "/t")
            os.chmod(place.tmp + "/t", 0o777)
            lines = [["--write", place.tmp + "/t"], ["--read", place.tmp + "/t"]]
            result = run(place, sum(lines if order == 0 else lines[::-1], []), inside_sh('(echo x >"$1/t/w"); true', place.tmp))
            same(os.listdir(place.tmp + "/t"), [], "written where read and write tie")


@test("FS-WX14 a host whose mounts are shared, as systemd makes them, sees none of the sandbox's")
def _():
    need_root()
    need("unshare")
    with Place() as place:
        os.makedirs(place.ws + "/ro/deep")
        write(place.ws + "/plans/x", "x")
        place.settle()
        script = ('mount --bind "$1" "$1"; cat /proc/self/mountinfo >"$3/before"; '
                  '"$2" run --direct --read "$1/ro" --hide "$1/plans" --write "$1/ro/deep" -- ls ro || exit; '
                  'cat /proc/self/mountinfo >"$3/after"')
        done = plain(place, ["unshare", "--mount", "--propagation", "shared", *inside_sh(script, place.ws, ATOLL, place.tmp)],
                     confined=False)
        same((done.status, done.out), (0, "deep\n"), "status and output")
        same(read(place.tmp + "/after"), read(place.tmp + "/before"), "mounts of the host")


@test("FS-WX6 removing or replacing the workspace from inside")
def _():
    with Place() as place:
        place.expect("*")
        inode = os.stat(place.ws).st_ino
        result = run(place, [], inside_sh('cd /; rmdir "$1/.."; mv "$1" "$1-x"; rm -rf "$1-x"; ln -s /etc "$1-y"; mv "$1/../out" /tmp; mkdir "$1/../made"; chmod 777 "$1/.."; echo end', place.ws))
        check("end\n" in result.out, "the attack did not come to its end")
        same(os.stat(place.ws).st_ino, inode, "the workspace's inode")
        same(sorted(os.listdir(place.base)), ["home", "out", "tmp", "ws"], "beside the workspace")
        same(oct(os.stat(place.base).st_mode & 0o7777), "0o711", "mode of the directory above")


@test("FS-WX7 descriptors of other processes by pidfd and by ptrace")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r"""
            def steal(pid, n):
                fd = syscall(434, pid, 0)
                return syscall(438, fd, n, 0)
            for pid in (1, os.getppid()):
                if pid == os.getpid(): continue
                for n in (0, 3, 4, 5, 6, 7, 8):
                    attempt("pidfd_getfd %d %d" % (pid, n), lambda: steal(pid, n))
                attempt("ptrace %d" % pid, lambda: syscall(101, 16, pid, 0, 0))
                attempt("seize %d" % pid, lambda: syscall(101, 0x4206, pid, 0, 0))
                attempt("mem %d" % pid, lambda: os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR)))
            """))
        result.refused(how=GONE + ("ESRCH", "ENOSYS"))


@test("FS-WX8 locks and leases on the host's files end with the run")
def _():
    with Place() as place:
        running = start(place, ["--read", place.out], inside_py(r"""
            import fcntl
            fd = os.open(arg[0] + "/canary", os.O_RDONLY)
            attempt("lease", lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))
            put("ready")
            time.sleep(600)
            """, place.out))
        place.expect("ready")
        wait_file(place, "ready")
        running.kill()
        same(processes_left(), {}, "processes left")
        began = time.monotonic()
        os.close(os.open(place.out + "/canary", os.O_WRONLY))
        check(time.monotonic() - began < 30, "the host waited for a lease")  # the kernel breaks one after 45 s


EVERY_CALL = r"""
    # Every system call that changes what a name stands for, by number, so that no library stands between.
    B = lambda text: text.encode()
    how = lambda flags, mode=0o755, resolve=0: struct.pack("QQQ", flags, mode, resolve)
    put("own"); os.mkdir("owndir")
    W, C, T = os.O_WRONLY, os.O_CREAT, os.O_TRUNC
    H, N, D = ".git/hooks/pre-commit.sample", ".git/hooks/new", ".vscode"
    calls = {
        "open": (2, B(H), W), "open creat": (2, B(N), W | C, 0o755), "open mode 3": (2, B(H), 3), "open mode 3 truncate": (2, B(H), 3 | T), "open read truncate": (2, B(H), T),
        "open read creat": (2, B(N), C, 0o755), "open path creat": (2, B(N), O_PATH | C, 0o755), "open directory creat": (2, B(D), os.O_DIRECTORY | C, 0o755), "open append": (2, B(H), W | os.O_APPEND),
        "open excl": (2, B(N), W | C | os.O_EXCL, 0o755), "open nofollow": (2, B(N), W | C | os.O_NOFOLLOW, 0o755), "open noatime": (2, B(H), os.O_RDWR | os.O_NOATIME), "open tmpfile": (2, B(".git/hooks"), O_TMPFILE | os.O_RDWR, 0o755),
        "openat": (257, AT_FDCWD, B(N), W | C, 0o755), "openat2": (437, AT_FDCWD, B(N), how(W | C), 24), "openat2 large": (437, AT_FDCWD, B(N), how(W | C) + bytes(40), 64), "openat2 cached": (437, AT_FDCWD, B(H), how(W, 0, 0x20), 24),
        "creat": (85, B(N), 0o755), "mkdir": (83, B(D), 0o755), "mkdirat": (258, AT_FDCWD, B(D), 0o755), "mkdir hooks": (83, B(N), 0o755), "rmdir": (84, B(".git/hooks")), "unlink": (87, B(H)), "unlinkat": (263, AT_FDCWD, B(H), 0),
        "unlinkat directory": (263, AT_FDCWD, B(".git/hooks"), 0x200), "rename to": (82, B("own"), B(N)), "rename from": (82, B(H), B("taken")), "renameat": (264, AT_FDCWD, B("own"), AT_FDCWD, B(N)), "renameat2": (316, AT_FDCWD, B("own"), AT_FDCWD, B(N), 1),
        "renameat2 exchange": (316, AT_FDCWD, B("own"), AT_FDCWD, B(H), 2), "renameat2 whiteout": (316, AT_FDCWD, B(H), AT_FDCWD, B("taken"), 4), "rename directory": (82, B("owndir"), B(D)), "link to": (86, B("own"), B(N)), "link from": (86, B(H), B("taken")),
        "linkat": (265, AT_FDCWD, B("own"), AT_FDCWD, B(N), 0), "linkat from": (265, AT_FDCWD, B(H), AT_FDCWD, B("taken"), AT_SYMLINK_FOLLOW), "symlink": (88, B("own"), B(N)), "symlinkat": (266, B("own"), AT_FDCWD, B(N)), "symlink directory": (88, B("owndir"), B(D)),
        "mknod": (133, B(N), stat.S_IFREG | 0o755, 0), "mknodat": (259, AT_FDCWD, B(N), stat.S_IFREG | 0o755, 0), "mknod fifo": (133, B(N), stat.S_IFIFO | 0o755, 0), "mknod directory": (133, B(D), stat.S_IFIFO | 0o755, 0), "chmod": (90, B(H), 0o777),
        "fchmodat": (268, AT_FDCWD, B(H), 0o777), "fchmodat2": (452, AT_FDCWD, B(H), 0o777, 0), "truncate": (76, B(H), 0), "setxattr": (188, B(H), b"user.x", b"1", 1, 0), "lsetxattr": (189, B(H), b"user.x", b"1", 1, 0),
        "setxattrat": (463, AT_FDCWD, B(H), 0, b"user.x", struct.pack("QII", 0, 0, 0), 16), "chown": (92, B(H), 12345, 12345), "lchown": (94, B(H), 12345, 12345), "fchownat": (260, AT_FDCWD, B(H), 12345, 12345, 0),
        "access list": (188, B(H), b"system.posix_acl_access", struct.pack("<IHHIHHIHHI", 2, 1, 7, 0xffffffff, 4, 7, 0xffffffff, 0x20, 7, 0xffffffff), 28, 0),
        "acct": (163, B(H)), "swapon": (167, B(H), 0), "uselib": (134, B(H)), "mount over": (165, B("owndir"), B(".git/hooks"), 0, 4096, 0), "file_setattr": (469, AT_FDCWD, B(H), struct.pack("QIIII", 8, 0, 0, 0, 0), 24, 0),
    }
    for label, call in calls.items():
        attempt(label, lambda: syscall(*call))
    def bind():
        import socket
        socket.socket(socket.AF_UNIX).bind(N)
    attempt("bind", bind)
    fd = os.open(H, os.O_RDONLY)
    for label, call in {"fchmod": (91, fd, 0o777), "fchown": (93, fd, 12345, 12345), "ftruncate": (77, fd, 0), "fallocate": (285, fd, 0, 0, 1 << 20), "fsetxattr": (190, fd, b"user.x", b"1", 1, 0),
                        "fchmodat2 empty": (452, fd, b"", 0o777, AT_EMPTY_PATH), "linkat empty": (265, fd, b"", AT_FDCWD, b"taken", AT_EMPTY_PATH)}.items():
        attempt(label, lambda: syscall(*call))
    path = os.open(H, O_PATH)
    for label, action in {"chmod /proc": lambda: os.chmod("/proc/self/fd/%d" % path, 0o777), "truncate /proc": lambda: os.truncate("/proc/self/fd/%d" % path, 0), "open /proc": lambda: put("/proc/self/fd/%d" % path, b"x", W),
                          "truncating open /proc": lambda: os.open("/proc/self/fd/%d" % path, T), "setxattr /proc": lambda: os.setxattr("/proc/self/fd/%d" % path, "user.x", b"1"), "unlink ..": lambda: os.unlink(".git/hooks/../hooks/./pre-commit.sample")}.items():
        attempt(label, action)
    """


@test("FS-WX9 every system call that changes a name, on protected ones")
def _():
    with Place() as place:
        place.expect("own", "owndir")
        before = snapshot(place.ws + "/.git/hooks")
        xattrs = os.listxattr(place.ws + "/.git/hooks/pre-commit.sample")
        result = run(place, [], inside_py(EVERY_CALL))
        came = [label for label, said in result.tries.items() if said == "ok" and label != "end"]
        same(came, [], "calls that came through")
        same(result.tries.get("end"), "ok", "the attack's end")
        same(difference(before, snapshot(place.ws + "/.git/hooks")), "", "the hooks")
        same(os.listxattr(place.ws + "/.git/hooks/pre-commit.sample"), xattrs, "extended attributes of a hook")
        check(not os.path.lexists(place.ws + "/.vscode") and not os.path.lexists(place.ws + "/taken"), "something was made")
    # The same names where nothing is special about them.
    with Place() as place:
        place.expect("own", "owndir")
        made = run(place, [], inside_py(EVERY_CALL.replace(".git/hooks/pre-commit.sample", "n/h").replace(".git/hooks", "n").replace('".vscode"', '"n/d"').replace('put("own")', 'os.mkdir("n"); put("n/h"); put("own")')))
        place.expect("n", "taken")
        for label in ("open", "open creat", "openat2", "creat", "mkdir"):
            check(made.tries.get(label) in ("ok", "EEXIST"), "where it is allowed, %s: %s" % (label, made.tries.get(label)))


@test("FS-WX10 two threads with different working directories and descriptors")
def _():
    # Whoever looks up a path for a caller must take that thread's view, not its process's.
    source = r"""
        #include <fcntl.h>
        #include <pthread.h>
        #include <sched.h>
        #include <stdio.h>
        #include <unistd.h>
        static pthread_barrier_t both;
        static int fd = -1;
        static void *other(void *unused)
        {
            if (unshare(CLONE_FS | CLONE_FILES) < 0) perror("unshare");
            if (chdir(".git/hooks") < 0) perror("chdir");
            pthread_barrier_wait(&both);
            int made = open("planted", O_WRONLY | O_CREAT, 0755);
            printf("in hooks: %s\n", made < 0 ? "refused" : "made");
            close(fd);
            fd = open(".", O_RDONLY | O_DIRECTORY); /* the same number, another directory, in this thread only */
            made = openat(fd, "planted2", O_WRONLY | O_CREAT, 0755);
            printf("by descriptor: %s\n", made < 0 ? "refused" : "made");
            pthread_barrier_wait(&both);
            return NULL;
        }
        int main(void)
        {
            pthread_t thread;
            fd = open("src", O_RDONLY | O_DIRECTORY);
            pthread_barrier_init(&both, NULL, 2);
            pthread_create(&thread, NULL, other, NULL);
            pthread_barrier_wait(&both);
            int made = open("mine", O_WRONLY | O_CREAT, 0644);
            printf("in the workspace: %s\n", made < 0 ? "refused" : "made");
            pthread_barrier_wait(&both);
            pthread_join(thread, NULL);
            return 0;
        }
        """
    with Place() as place:
        place.expect("mine", "src/planted*", "planted*")
        result = run(place, [], [build_c(place, "threads", source)])
        check("in the workspace: made" in result.out, "the first thread cannot write: %s" % result.out)
        hooks = [n for n in os.listdir(place.ws + "/.git/hooks") if not n.endswith(".sample")]
        same(hooks, [], "hooks")
        check(os.path.exists(place.ws + "/mine"), "mine is elsewhere")


@test("FS-WX11 permissions of files hold inside as outside")
def _():
    # Whoever opens for the command must not lend it more than the command's own rights.
    with Place() as place:
        write(place.ws + "/read-only", "keep\n", 0o444)
        write(place.ws + "/none", place.secret, 0o000)
        os.mkdir(place.ws + "/closed")
        write(place.ws + "/closed/x", "keep\n")
        os.chmod(place.ws + "/closed", 0o555)
        names = ["read-only", "closed/x"]
        if IS_ROOT:
            write(place.ws + "/theirs", place.secret, 0o600)
            write(place.ws + "/theirs-dir/x", place.secret, 0o600)
            for name in ("theirs", "theirs-dir", "theirs-dir/x"):
                os.chown(os.path.join(place.ws, name), 65534, 65534)
            os.chmod(place.ws + "/theirs-dir", 0o700)
            names += ["theirs", "theirs-dir/x"]
        place.settle()
        before = {name: (read(os.path.join(place.ws, name)), os.stat(os.path.join(place.ws, name)).st_mode) for name in names}
        result = run(place, [], inside_py(r"""
            attempt("write a read-only file", lambda: put("read-only", b"x", os.O_WRONLY))
            attempt("append to it", lambda: put("read-only", b"x", os.O_WRONLY | os.O_APPEND))
            attempt("truncate it", lambda: os.truncate("read-only", 0))
            attempt("truncate on open", lambda: os.open("read-only", os.O_TRUNC))
            attempt("create in a closed directory", lambda: put("closed/new"))
            attempt("mkdir there", lambda: os.mkdir("closed/d"))
            attempt("unlink there", lambda: os.unlink("closed/x"))
            attempt("rename out of it", lambda: os.rename("closed/x", "taken"))
            attempt("rename into it", lambda: os.rename("f", "closed/f"))
            attempt("link into it", lambda: os.link("f", "closed/f"))
            attempt("read without permission", lambda: sys.stdout.write(get("none").decode()))
            for path in ("theirs", "theirs-dir/x"):
                attempt("read " + path, lambda: sys.stdout.write(get(path).decode()))
                attempt("write " + path, lambda: put(path, b"x", os.O_WRONLY))
                attempt("truncate " + path, lambda: os.truncate(path, 0))
                attempt("chmod " + path, lambda: os.chmod(path, 0o666))
                attempt("chown " + path, lambda: os.chown(path, os.getuid(), os.getgid()))
                attempt("utime " + path, lambda: os.utime(path, (1, 1)))
                attempt("link " + path, lambda: os.link(path, "taken"))
            """))
        if IS_ROOT:
            for name in ("theirs", "theirs-dir", "theirs-dir/x"):  # for the check of owners at the end
                os.chown(os.path.join(place.ws, name), 0, 0)
        os.chmod(place.ws + "/closed", 0o755)
        result.refused(how=GONE + ("EOVERFLOW",))
        for name in names:
            path = os.path.join(place.ws, name)
            same((read(path), os.stat(path).st_mode), before[name], name)


@test("FS-WX12 /proc/self is the caller's own, whoever opens it")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r"""
            buffer = ctypes.create_string_buffer(b"a mark of my own")
            fd = os.open("/proc/self/mem", os.O_RDWR)
            tell("memory", str(os.pread(fd, 6, ctypes.addressof(buffer)) == b"a mark"))
            tell("whose", str(os.readlink("/proc/self/fd/%d" % fd) == "/proc/%d/mem" % os.getpid()))
            one = open("/proc/1/comm").read()
            put("/proc/self/comm", b"my-own-name", os.O_WRONLY)
            tell("name", open("/proc/self/comm").read().strip() + " " + str(open("/proc/1/comm").read() == one))
            put("/proc/thread-self/comm", b"my-other-name", os.O_WRONLY)
            tell("thread", open("/proc/self/comm").read().strip())
            before = open("/proc/1/oom_score_adj").read()
            attempt("oom_score_adj", lambda: put("/proc/self/oom_score_adj", b"1000", os.O_WRONLY))
            tell("oom of 1", str(open("/proc/1/oom_score_adj").read() == before))
            for name in ("/dev/stdout", "/dev/stderr", "/proc/self/fd/1", "/dev/fd/2"):
                attempt(name, lambda: put(name, b"through %s\n" % name.encode(), os.O_WRONLY))
            """))
        same((result.tries["memory"], result.tries["whose"]), ("True", "True"), "/proc/self/mem")
        same((result.tries["name"], result.tries["thread"]), ("my-own-name True", "my-other-name"), "names")
        same(result.tries["oom of 1"], "True", "oom_score_adj of pid 1 is unchanged")
        for name in ("/dev/stdout", "/proc/self/fd/1"):
            check("through %s\n" % name in result.out, "writing to %s: %s" % (name, result.tries.get(name)))
        for name in ("/dev/stderr", "/dev/fd/2"):
            check("through %s\n" % name in result.err, "writing to %s: %s" % (name, result.tries.get(name)))


@test("FS-WX13 pid 1 and the guard cannot be weakened from inside")
def _():
    with Place() as place:
        place.expect("after")
        result = run(place, [], inside_py(r"""
            import resource
            limits = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
            others = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
            tell("others", " ".join(map(str, others)))
            for pid in others:
                for name, number in limits.items():
                    attempt("%s of %d" % (name, pid), lambda: resource.prlimit(pid, number, (0, 0)) if name != "RLIMIT_CORE" else resource.prlimit(pid, number, (-1, -1)))
                attempt("stop %d" % pid, lambda: os.kill(pid, signal.SIGSTOP) if pid != 1 else os.kill(1, 0) and None)
                attempt("nice %d" % pid, lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
                attempt("idle %d" % pid, lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
                attempt("affinity %d" % pid, lambda: os.sched_setaffinity(pid, {0}))
                attempt("ioprio %d" % pid, lambda: syscall(251, 1, pid, 3 << 13))
                attempt("oom %d" % pid, lambda: put("/proc/%d/oom_score_adj" % pid, b"1000", os.O_WRONLY))
                attempt("mem %d" % pid, lambda: os.close(os.open("/proc/%d/mem" % pid, os.O_RDONLY)))
                attempt("environ %d" % pid, lambda: get("/proc/%d/environ" % pid))
            for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGXCPU, 34, 64):
                for pid in others:
                    try: os.kill(pid, sig)
                    except OSError: pass
            time.sleep(0.2)
            attempt("write after", lambda: put("after"))
            attempt("hook after", lambda: put(".git/hooks/after"))
            """))
        same(result.tries.get("write after"), "ok", "the workspace afterwards")
        among(result.tries.get("hook after"), DENIED, "a hook afterwards")
        came = [label for label, said in result.tries.items() if said == "ok" and label.split()[0].startswith(("RLIMIT", "nice", "idle", "oom", "mem", "environ", "affinity", "ioprio"))]
        same(came, [], "what could be changed or read of other processes")


main()
