# SPDX-License-Identifier: Apache-2.0
# check: seconds 74
# check: not sanitized
# check: bare
"""
Family D of the escape corpus: processes, privileges, namespaces (PR), and more of the same kind (PR-X)

later:
  PR-13  images: a root file system that somebody else supplies is not yet available; here the workspace supplies the names
  PR-19  matters where commands can be denied, which is not yet available; here: what runs without a path is as confined
  PR-20  denying commands by text is not yet available; here: a job that asks for it is refused, not ignored
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib  # noqa: E402
from lib import *  # noqa: E402

PTRACE = r"""
TRACEME, PEEK, CONT, ATTACH, DETACH, SETREGS, GETREGS, SYSCALL, SEIZE, INTERRUPT, SETOPTIONS = 0, 1, 7, 16, 17, 13, 12, 24, 0x4206, 0x4207, 0x4200
def ptrace(request, pid, address=0, data=0):
    return syscall(101, request, pid, address, data)
def others():
    "Every process that can be seen and is not this one."
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()]
"""


def tracing(code, *args):
    return inside_py(PTRACE + textwrap.dedent(code), *args)


def family(pid):
    """The living descendants of a process."""
    parent = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open("/proc/%d/stat" % int(entry), errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            if fields[0] not in "ZX":
                parent[int(entry)] = int(fields[1])
    found = {pid}
    while True:
        more = {child for child, above in parent.items() if above in found} - found
        if not more:
            return sorted(found - {pid})
        found |= more


class Canary:
    """A process of the host's user that nobody inside may touch: it keeps a text in memory and says it at the end."""

    def __enter__(self):
        self.process = subprocess.Popen([PYTHON, "-I", "-c", "import sys\nx = bytearray(b'untouched')\nprint(id(x), flush=True)\n"
                                         "sys.stdin.read()\nprint(x.decode())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.pid = self.process.pid
        lib._live.append(self)  # it is wanted, and not left behind by a run
        return self

    def check(self):
        check(self.process.poll() is None, "the canary is dead: %s" % self.process.returncode)
        with open("/proc/%d/status" % self.pid) as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        check(status["State"][0] in "SR" and status["TracerPid"].strip() == "0", "the canary is stopped or traced: %s" % status["State"])

    def __exit__(self, kind, *_):
        alive = self.process.poll() is None
        out = ""
        if alive:
            out = self.process.communicate("x", timeout=PATIENCE)[0]
        lib._live.remove(self)
        if kind is None:
            check(alive and out.strip() == "untouched", "the canary was hurt: %r" % out)


def status_of(text):
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


# ---- other processes -------------------------------------------------------------------------------------------------

@test("PR-01 ptrace attach")
def _():
    with Canary() as canary, Place() as place:
        place.expect("up")
        sibling = start(place, [], "touch up; sleep 600")
        wait_file(place, "up")
        inner = family(sibling.pid) + [sibling.pid]
        result = run(place, [], tracing(r'''
            for pid in [1, os.getppid()] + list(map(int, arg)) + others():
                attempt("attach %d" % pid, lambda: ptrace(ATTACH, pid))
                attempt("seize %d" % pid, lambda: ptrace(SEIZE, pid))
                attempt("interrupt %d" % pid, lambda: ptrace(INTERRUPT, pid))
        ''', canary.pid, *inner))
        result.refused(how=("ESRCH", "EPERM"))
        canary.check()
        check(sibling.process.poll() is None, "the sibling run has ended")
        sibling.kill()
    with Canary() as canary, Place() as place:  # the same works on the host where nothing forbids it
        if IS_ROOT:
            result = plain(place, tracing(r'''
                attempt("seize", lambda: ptrace(SEIZE, int(arg[0])))
            ''', canary.pid))
            result.allowed("seize")


@test("PR-01 own children may be traced; debuggers work")
def _():
    with Place() as place:
        result = run(place, [], tracing(r'''
            pid = os.fork()
            if pid == 0:
                time.sleep(600); os._exit(0)
            attempt("attach", lambda: ptrace(ATTACH, pid)); os.waitpid(pid, 0)
            attempt("detach", lambda: ptrace(DETACH, pid)); os.kill(pid, 9)
        '''))
        result.allowed("attach", "detach")
        if shutil.which("strace"):
            done = run(place, [], ["strace", "-f", "-e", "trace=execve", "sh", "-c", "/bin/echo hello"])
            check(done.status == 0 and "hello" in done.out and "execve" in done.err, "strace does not work inside: %s" % done.err)
        if shutil.which("gdb"):
            done = run(place, [], ["gdb", "-nx", "-batch", "-ex", "run", "--args", "/bin/echo", "hello"])
            check("hello" in done.out, "gdb does not work inside: %s" % done.err)


@test("PR-02 memory of other processes")
def _():
    with Canary() as canary, Place() as place:
        place.expect("up")
        sibling = start(place, [], "touch up; sleep 600")
        wait_file(place, "up")
        result = run(place, [], tracing(r'''
            buffer = ctypes.create_string_buffer(16)
            def iov(address): return struct.pack("QQ", address, 16)
            for pid in [1] + list(map(int, arg)) + [p for p in others() if p != 1]:
                attempt("readv %d" % pid, lambda: syscall(310, pid, iov(ctypes.addressof(buffer)), 1, iov(ctypes.addressof(buffer)), 1, 0))
                attempt("writev %d" % pid, lambda: syscall(311, pid, iov(ctypes.addressof(buffer)), 1, iov(ctypes.addressof(buffer)), 1, 0))
                for name in ("mem", "environ", "maps", "auxv", "syscall", "stack", "fd/0", "fd/3", "root/etc/passwd", "exe", "pagemap", "map_files", "clear_refs", "io"):
                    def read():
                        fd = os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY)
                        if not os.read(fd, 10): raise OSError(errno.EACCES, "empty")
                    attempt("%s of %d" % (name, pid), read)
                for name in ("mem", "oom_score_adj", "comm", "coredump_filter", "clear_refs", "attr/current", "uid_map", "setgroups", "timens_offsets"):
                    attempt("write %s of %d" % (name, pid), lambda: put("/proc/%d/%s" % (pid, name), b"0", os.O_WRONLY))
                def by_pidfd(call, *more):
                    fd = os.pidfd_open(pid)
                    try: return syscall(call, fd, *more)
                    finally: os.close(fd)
                attempt("madvise %d" % pid, lambda: by_pidfd(440, iov(0x10000), 1, 4, 0))
                attempt("mrelease %d" % pid, lambda: by_pidfd(448, 0))
                attempt("getfd %d" % pid, lambda: by_pidfd(438, 0, 0))
                attempt("kcmp %d" % pid, lambda: syscall(312, os.getpid(), pid, 0, 0, 0))
                import resource
                attempt("prlimit %d" % pid, lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, 1)))
                attempt("migrate %d" % pid, lambda: syscall(256, pid, 0, b"", b""))
        ''', canary.pid, sibling.pid))
        result.refused(how=("ESRCH", "EPERM", "EACCES", "ENOENT", "EINVAL", "EROFS", "EISDIR", "ENOTDIR", "EIO", "EFAULT", "ENOSYS", "EBADF", "ELOOP"))
        canary.check()
        sibling.kill()


@test("PR-04 kill everything")
def _():
    with Canary() as canary, Place() as place:
        place.expect("up", "after")
        outside = os.readlink("/proc/self/ns/pid")
        sibling = start(place, [], "touch up; sleep 600")
        wait_file(place, "up")
        result = run(place, [], inside_sh(r'''
            test "$(readlink /proc/self/ns/pid)" != "$1" || { echo "not in a pid namespace of its own"; exit 9; }
            sleep 600 & sleep 600 & setsid sleep 600 &
            for s in KILL STOP TERM SEGV INT HUP USR1 QUIT ABRT; do kill -$s 1; kill -$s $PPID; done
            kill -9 "$2" "$3" 2>/dev/null && echo "killed a process of the host"
            kill -9 -1
            echo x >after && echo alive
        ''', outside, canary.pid, sibling.pid))
        check(result.status in (0, 137), "status %d" % result.status)
        check("killed a process" not in result.out and "not in a pid" not in result.out, result.out)
        check("alive" in result.out and os.path.exists(place.ws + "/after"), "the guard does not answer after kill -1")
        canary.check()
        check(sibling.process.poll() is None, "the sibling run has ended")
        sibling.kill()
        # From a child, so that the run's first command is among those that die: the tool reports it.
        result = run(place, [], inside_sh('test "$(readlink /proc/self/ns/pid)" != "$1" || exit 9; sh -c "kill -9 -1"; sleep 600', outside))
        same(result.status, 137, "status of a run that was killed from inside")
        canary.check()


@test("PR-05 set-id programs, and no privilege in any task")
def _():
    with Place() as place:
        result = run(place, [], inside_sh(r'''
            id -u; for p in "su -c id" "sudo -n id" "mount" "ping -c1 127.0.0.1" newuidmap "newgrp root -c id" pkexec "passwd -S root" "chsh -s /bin/sh" "at now" crontab; do
                timeout 5 $p </dev/null >/dev/null 2>&1; done; id -u
            sh -c 'cat /proc/self/status'; for t in /proc/[0-9]*/task/*/status; do grep -H -E "NoNewPrivs|CapEff|CapBnd|CapPrm|CapAmb|Seccomp:" $t; done
        '''))
        ids = [line for line in result.out.splitlines() if line.isdigit()]
        check(len(ids) == 2 and ids[0] == ids[1], "the user id changed: %s" % ids)
        lines = [line for line in result.out.splitlines() if re.match("/proc/[0-9]+/task", line)]
        check(len(lines) >= (6 if BARE else 8), "no status lines")  # without a pid namespace only the run's own are shown
        for line in lines:
            field, value = line.split("/status:")[1].split(":")[0], line.split()[-1]
            first = line.startswith("/proc/1/")  # the guard itself: it may look into its own, and nothing else
            if BARE and field == "CapBnd":
                continue  # an ordinary user has nothing to empty it with; no_new_privs makes it mean nothing
            if field.startswith("Cap") and not (first and field in ("CapEff", "CapPrm")):
                same(int(value, 16), 0, line)
            if field == "NoNewPrivs":
                same(value, "1", line)
            if field == "Seccomp" and not first:
                same(value, "2", line)
    with Place() as place:
        result = run(place, [], inside_py(r'''
            for name, number in (("setuid", 105), ("setgid", 106)):
                for target in (0, 1, 65534):
                    if target not in (os.getuid(), os.getgid()):
                        attempt("%s %d" % (name, target), lambda: syscall(number, target))
            attempt("setgroups", lambda: os.setgroups([0]))
            if os.getuid() != 0: attempt("setresuid", lambda: os.setresuid(0, 0, 0))
            attempt("capset", lambda: syscall(126, struct.pack("Ii", 0x20080522, 0), struct.pack("IIIIII", ~0 & 0xffffffff, ~0 & 0xffffffff, 0, ~0 & 0xffffffff, ~0 & 0xffffffff, 0)))
            attempt("ambient", lambda: syscall(157, 47, 2, 21, 0, 0))
        '''))
        result.refused(how=("EPERM", "EINVAL"))


@test("PR-05 a set-id file that lies in the workspace already has no effect")
def _():
    need_root()
    shown = r'''
        os.execv("./sid", ["sid", "-u"])
    '''
    with Place() as place:
        shutil.copy("/usr/bin/id", place.ws + "/sid")
        os.chown(place.ws + "/sid", 12345, 12345)
        os.chmod(place.ws + "/sid", 0o6755)
        same(plain(place, inside_py(shown)).out.strip(), "12345", "the set-id file without atoll")
        among(run(place, [], inside_py(shown)).out.strip() == run(place, [], ["id", "-u"]).out.strip(), (True,), "the same user inside")
        os.unlink(place.ws + "/sid")


NAMESPACES = {"NEWTIME": 0x80, "NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000, "NEWUSER": 0x10000000,
              "NEWPID": 0x20000000, "NEWNET": 0x40000000}


@test("PR-07 namespaces")
def _():
    code = r'''
        flags = dict(a.split("=") for a in arg)
        for name, value in flags.items():
            value = int(value)
            attempt_child("unshare " + name, lambda: syscall(272, value))
            attempt_child("unshare user and " + name, lambda: syscall(272, value | 0x10000000))
            def clone():
                if syscall(56, (value & ~0xff) | signal.SIGCHLD | (0 if value > 0xff else 0x10000000), 0, 0, 0, 0) == 0: os._exit(0)
            attempt_child("clone " + name, clone)
            def clone3():
                if syscall(435, struct.pack("8Q", value, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64) == 0: os._exit(0)
            attempt_child("clone3 " + name, clone3)
        for pid in ("1", "self", "thread-self"):
            for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", "pid_for_children"):
                def enter():
                    fd = os.open("/proc/%s/ns/%s" % (pid, name), os.O_RDONLY)
                    syscall(308, fd, 0)
                attempt_child("setns %s %s" % (pid, name), enter)
        attempt_child("setns by pidfd", lambda: syscall(308, os.pidfd_open(1), 0x20000))
        attempt_child("setns by own pidfd", lambda: syscall(308, os.pidfd_open(os.getpid()), 0x20000))
        attempt("upper half", lambda: syscall(272, 0x10000000 | 1 << 40))
        attempt("unknown flags", lambda: syscall(272, 1 << 12))
    '''
    flags = ["%s=%d" % item for item in NAMESPACES.items()]
    with Place() as place:
        result = run(place, [], inside_py(code, *flags))
        result.refused(how=("EPERM", "ENOSYS", "EACCES", "EINVAL", "ENOENT"))
        for label, said in result.tries.items():
            if label.startswith(("unshare", "clone ")):
                same(said, "EPERM", label)
            if label.startswith("clone3"):
                same(said, "ENOSYS", label)  # the errno by which C libraries fall back to clone
    with Place() as place:
        result = plain(place, inside_py(code, *flags))
        check(result.tries["unshare NEWUSER"] == "ok" and result.tries["clone NEWUSER"] == "ok",
              "this host allows no user namespace: the test shows little")


PLANT_BITS = r'''
    import fcntl
    def file(name, mode=0o755):
        put(name, b"#!/bin/sh\n", mode=mode); return name
    bits = 0o4755, 0o2755, 0o6755
    for b in bits:
        n = "%o" % b
        attempt("chmod " + n, lambda: os.chmod(file("a" + n), b))
        attempt("fchmod " + n, lambda: os.fchmod(os.open(file("b" + n), os.O_RDONLY), b))
        attempt("fchmodat2 " + n, lambda: syscall(452, AT_FDCWD, os.fsencode(file("c" + n)), b, 0))
        attempt("fchmodat2 empty " + n, lambda: syscall(452, os.open(file("d" + n), O_PATH), b"", b, AT_EMPTY_PATH))
        attempt("open " + n, lambda: os.close(os.open("e" + n, os.O_CREAT | os.O_WRONLY, b)))
        attempt("creat " + n, lambda: syscall(85, b"f" + n.encode(), b))
        attempt("openat2 " + n, lambda: syscall(437, AT_FDCWD, b"g" + n.encode(), struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, b, 0), 24))
        attempt("mknod " + n, lambda: os.mknod("h" + n, stat.S_IFREG | b))
        def tmpfile():
            fd = os.open(".", O_TMPFILE | os.O_RDWR, b)
            syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"i" + n.encode(), AT_SYMLINK_FOLLOW)
        attempt("O_TMPFILE " + n, tmpfile)
        def tmpfile_chmod():
            fd = os.open(".", O_TMPFILE | os.O_RDWR, 0o755); os.fchmod(fd, b)
            syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"j" + n.encode(), AT_SYMLINK_FOLLOW)
        attempt("O_TMPFILE fchmod " + n, tmpfile_chmod)
        attempt("/proc/self/fd " + n, lambda: os.chmod("/proc/self/fd/%d" % os.open(file("k" + n), O_PATH), b))
        attempt("upper half " + n, lambda: syscall(90, os.fsencode(file("l" + n)), b | 1 << 32))
        attempt("install " + n, lambda: os.waitpid(os.posix_spawn("/usr/bin/install", ["install", "-m", n, "/bin/true", "m" + n], os.environ), 0)[1] and 1 / 0)
    caps = struct.pack("<IIIII", 0x02000001, 0x80, 0, 0, 0)  # cap_setuid+ep
    attempt("file capability", lambda: os.setxattr(file("n"), "security.capability", caps))
    attempt("file capability v3", lambda: os.setxattr("n", "security.capability", struct.pack("<IIIIII", 0x03000001, 0x80, 0, 0, 0, 0)))
    attempt("existing", lambda: os.chmod("f", 0o4755))
    def setgid_directory():
        os.mkdir("dir", 0o2755); os.chmod("dir", 0o2777)
    attempt("set-gid directory", setgid_directory)
'''


@test("PR-08 set-id planting")
def _():
    with Place() as place:
        place.expect(*[letter + "*" for letter in "abcdeghijklmn"], "f?*", "dir")
        result = run(place, [], inside_py(PLANT_BITS))
        for label, said in result.tries.items():
            if label != "end":
                check(said in DENIED + ("EINVAL", "ENOSYS", "EOPNOTSUPP") or said.startswith("error"), "%s: %s" % (label, said))
        for name in os.listdir(place.ws):
            check(not os.lstat(os.path.join(place.ws, name)).st_mode & 0o6000, "%s has mode %o" % (name, os.lstat(os.path.join(place.ws, name)).st_mode))
        # By archive, as people do it. What is unpacked is there, the bits are not.
        write(place.tmp + "/d/prog", "#!/bin/sh\n", 0o6755)
        subprocess.run(["tar", "-C", place.tmp, "-cf", place.ws + "/abits.tar", "d"], check=True)
        place.expect("d")
        os.chmod(place.ws + "/abits.tar", 0o644)
        run(place, [], "tar -xpf abits.tar")
        if os.path.exists(place.ws + "/d/prog"):
            check(not os.stat(place.ws + "/d/prog").st_mode & 0o6000, "tar -xp has kept the bits")
    with Place(strict=False) as place:
        plain(place, inside_py(PLANT_BITS))
        planted = [n for n in os.listdir(place.ws) if os.lstat(os.path.join(place.ws, n)).st_mode & 0o6000]
        check(len(planted) > 25, "without atoll only %s have the bits: the test shows little" % planted)
        for name in planted:
            os.chmod(os.path.join(place.ws, name), 0o755)
            with contextlib.suppress(OSError):
                os.removexattr(os.path.join(place.ws, name), "security.capability")
        place.expect("*")
        for name in os.listdir(place.ws):
            with contextlib.suppress(OSError):
                os.removexattr(os.path.join(place.ws, name), "security.capability")


@test("PR-10 cgroup v1 release_agent")
def _():
    with Place() as place:
        place.expect("cg")
        result = run(place, [], inside_py(r'''
            os.mkdir("cg")
            for kind, options in (("cgroup", b"rdma"), ("cgroup", b"memory"), ("cgroup", b"none,name=x"), ("cgroup2", b""), ("tmpfs", b""), ("proc", b""), ("sysfs", b"")):
                attempt("mount %s %s" % (kind, options.decode()), lambda: syscall(165, b"none", b"cg", kind.encode(), 0, options))
            attempt("fsopen", lambda: syscall(430, b"cgroup", 0))
            for where in ("/sys/fs/cgroup", "/sys/fs/cgroup/rdma", "/sys/fs/cgroup/memory", "/proc/1/root/sys/fs/cgroup"):
                for name in ("release_agent", "notify_on_release", "cgroup.procs", "tasks", "cgroup.subtree_control"):
                    attempt("%s/%s" % (where, name), lambda: put(where + "/" + name, b"1\n", os.O_WRONLY))
                attempt("mkdir " + where, lambda: os.mkdir(where + "/x"))
            for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/overcommit_memory", "sysrq-trigger",
                         "sys/fs/binfmt_misc/register", "sys/kernel/uevent_helper", "sys/user/max_user_namespaces", "sys/kernel/randomize_va_space"):
                attempt("/proc/" + name, lambda: os.close(os.open("/proc/" + name, os.O_WRONLY)))
            attempt("/proc/sys/kernel/ns_last_pid", lambda: put("/proc/sys/kernel/ns_last_pid", b"1000"))  # the own namespace's
        '''))
        result.refused(how=GONE + ("ENOSYS", "EBUSY"))


@test("PR-11 own cgroup limits")
def _():
    with Place() as place:
        place.expect("up", "done")
        running = start(place, ["--memory", "300M", "--pids", "40", "--cpus", "1"], inside_py(r'''
            import glob
            own = [line.rstrip("\n").split(":", 2) for line in open("/proc/self/cgroup")]
            print(own)
            places = ["/sys/fs/cgroup"] + ["/sys/fs/cgroup" + path for _, _, path in own] + ["/sys/fs/cgroup/%s%s" % (c, path) for _, c, path in own] + glob.glob("/sys/fs/cgroup/*")
            for where in places:
                for name in ("memory.max", "memory.high", "pids.max", "cpu.max", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.freeze", "cgroup.kill",
                             "memory.limit_in_bytes", "tasks", "cpu.cfs_quota_us"):
                    attempt("%s/%s" % (where, name), lambda: put(where + "/" + name, b"max\n" if "max" in name else b"0\n", os.O_WRONLY))
            put("up"); time.sleep(600)
        '''))
        wait_file(place, "up")
        text = read("/proc/%d/cgroup" % family(running.pid)[-1]).decode()
        limits = []
        for line in text.splitlines():
            _, controllers, path = line.split(":", 2)
            for where in ("/sys/fs/cgroup" + path, "/sys/fs/cgroup/%s%s" % (controllers, path)):
                for name in ("memory.max", "pids.max", "memory.limit_in_bytes"):
                    with contextlib.suppress(OSError):
                        limits.append((name, read(os.path.join(where, name)).decode().strip()))
        result = running.kill()
        for label, said in result.tries.items():
            among(said, GONE, label)
        for name, value in limits:  # where the run has a group of its own, its limits are those that were asked for
            if "atoll" in text:
                among(value, ("max", "40", "41", "42", str(300 << 20)), name)
        same(processes_left(), {}, "processes left")


@test("PR-13 masks and devices do not come from the workspace")
def _():
    with Place() as place:
        place.expect("made")
        canary = place.out + "/canary"
        for name in ("dev/null", "dev/zero", "dev/console", "dev/pts/0", "proc/kcore", "null", "run/atoll/contract.json"):
            os.makedirs(os.path.dirname(place.ws + "/" + name) or place.ws, exist_ok=True)
            os.symlink(canary, place.ws + "/" + name)
        place.settle()
        for flags in ([], ["--hide", "f"], ["--hide", "**/.env"], ["--read", place.out]):
            result = run(place, flags, inside_py(r'''
                for name, major, minor in (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)):
                    st = os.stat("/dev/" + name)
                    tell("is " + name, "ok" if stat.S_ISCHR(st.st_mode) and (os.major(st.st_rdev), os.minor(st.st_rdev)) == (major, minor) else "not: %r" % (st,))
                tell("extra", "ok" if set(os.listdir("/dev")) <= {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd", "stdin", "stdout", "stderr"}
                     else " ".join(os.listdir("/dev")))
                tell("pts", "ok" if os.listdir("/dev/pts") == ["ptmx"] else " ".join(os.listdir("/dev/pts")))
                attempt("replace null", lambda: os.rename("null", "/dev/null"))
                attempt("unlink null", lambda: os.unlink("/dev/null"))
                attempt("link null", lambda: os.symlink("/tmp/x", "/dev/null2"))
                attempt("mknod", lambda: os.mknod("made", 0o666 | stat.S_IFCHR, os.makedev(1, 3)))
                attempt("mknod whiteout", lambda: os.mknod("made", stat.S_IFCHR, os.makedev(0, 0)))
                attempt("chmod null", lambda: os.chmod("/dev/null", 0o600))
                attempt("mount over null", lambda: syscall(165, b"null", b"/dev/null", b"", 4096, b""))
                attempt("the mask of kcore", lambda: put("/proc/kcore", b"x", os.O_WRONLY))
                os.write(os.open("/dev/null", os.O_WRONLY), b"x" * 100)
            '''))
            for label, said in result.tries.items():
                if label in ("extra", "pts", "end") or label.startswith("is "):
                    same(said, "ok", label)
                else:
                    among(said, GONE + ("EBUSY",), label)


@test("PR-14 chroot tricks")
def _():
    with Place() as place:
        place.expect("x")
        code = r'''
            os.mkdir("x")
            top = os.open("/", os.O_RDONLY)
            attempt("chroot", lambda: os.chroot("x"))
            attempt("chroot .", lambda: os.chroot("."))
            attempt("chroot up", lambda: os.chroot("../../../.."))
            attempt("pivot_root", lambda: syscall(155, b"x", b"x"))
            os.fchdir(top)
            for i in range(50): os.chdir("..")
            tell("root", "ok" if os.stat(".").st_ino == os.stat("/").st_ino else "above the root")
            os.fchdir(os.open("/proc/self/root", os.O_RDONLY)); os.chdir("../../..")
            tell("root by /proc", "ok" if os.path.samefile(".", "/") else "above the root")
            attempt("canary", lambda: get(arg[0] + "/secret.txt"))
            attempt("canary by dots", lambda: get("../../../.." + arg[0] + "/secret.txt"))
        '''
        result = run(place, [], inside_py(code, place.out))
        result.refused("chroot", "chroot .", "chroot up", "pivot_root", "canary", "canary by dots")
        result.allowed("root", "root by /proc")
    if IS_ROOT:
        with Place() as place:
            place.expect("x")
            result = plain(place, inside_py(r'''os.mkdir("x"); attempt_child("chroot", lambda: os.chroot("x"))'''))
            result.allowed("chroot")


@test("PR-16 prctl switches cannot undo a protection")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r'''
            def prctl(*a): return syscall(157, *(list(a) + [0] * (5 - len(a))))
            attempt("no_new_privs off", lambda: prctl(38, 0))
            attempt("PR_SET_MM", lambda: prctl(35, 1, 0x1000))
            attempt("PR_SET_MM map", lambda: prctl(35, 14, 0, 0))
            attempt("securebits", lambda: prctl(28, 0))
            attempt("ambient", lambda: prctl(47, 2, 21))
            attempt("seccomp off", lambda: prctl(22, 0))
            attempt("syscall user dispatch", lambda: prctl(59, 1, 0, 0, 0))
            attempt("sched core", lambda: prctl(62, 1, 0, 0, 0))
            attempt("io flusher", lambda: prctl(57, 1))
            attempt_child("allowed name", lambda: prctl(15, ctypes.create_string_buffer(b"systemd")))
            attempt_child("allowed dumpable", lambda: prctl(4, 1))
            attempt_child("allowed ptracer", lambda: prctl(0x59616d61, -1))
            attempt_child("allowed pdeathsig", lambda: prctl(1, 0))
            attempt_child("allowed subreaper", lambda: prctl(36, 1))
            attempt("after all: unshare", lambda: syscall(272, 0x10000000))
            attempt("after all: pid 1", lambda: syscall(101, 16, 1, 0, 0))
            print(open("/proc/self/status").read())
        '''))
        result.refused(*[label for label in result.tries if not label.startswith("allowed") and label != "end"], how=("EPERM", "EINVAL", "ENOSYS", "ESRCH"))
        result.allowed(*[label for label in result.tries if label.startswith("allowed") and label != "allowed ptracer"])
        among(result.tries["allowed ptracer"], ("ok", "EINVAL"), "PR_SET_PTRACER")  # EINVAL: a kernel without Yama
        status = status_of(result.out)
        same((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no_new_privs and seccomp")


@test("PR-16 nobody outlives the supervisor, whatever was switched")
def _():
    with Place() as place:
        place.expect("up")
        running = start(place, [], inside_py(r'''
            def prctl(*a): return syscall(157, *(list(a) + [0] * (5 - len(a))))
            prctl(36, 1); prctl(1, 0)
            for i in range(3):
                if os.fork() == 0:
                    os.setsid(); prctl(1, 0); prctl(36, 1)
                    for n in range(1, 32): quiet = n in (9, 19) or signal.signal(n, signal.SIG_IGN)
                    if os.fork() == 0: os.setsid(); prctl(1, 0)
                    time.sleep(600)
            put("up"); time.sleep(600)
        '''))
        wait_file(place, "up")
        check(until(lambda: len(family(running.pid)) >= 7), "the attack did not start")
        running.kill()
        same(processes_left(), {}, "processes left behind")


@test("PR-17 i386 and x32 entry")
def _():
    if os.uname().machine != "x86_64":
        skip("x86-64")
    with Place() as place:
        name = build_c(place, "entry", r'''
            #include <errno.h>
            #include <fcntl.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <unistd.h>
            static long int80(long n, long a, long b, long c) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory"); return r; }
            int main(int argc, char **argv) {
                long n = atol(argv[2]), r;
                char *low = mmap((void *)0x10000, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                if (low != MAP_FAILED) strcpy(low, argc > 3 ? argv[3] : "x");
                if (argv[1][0] == 'i') r = int80(n, 0x10000, O_CREAT | O_WRONLY, 0644);
                else { r = syscall(n | 0x40000000, low, O_CREAT | O_WRONLY, 0644); if (r < 0) r = -errno; }
                printf("%ld\n", r);
                return 0;
            }
        ''')
        hook = ".git/hooks/pre-commit"
        for number in (5, 8, 10, 20, 11, 39, 102, 120, 359, 310, 21):  # open, creat, unlink, getpid, execve, mkdir, socketcall, clone, socket, unshare, mount
            result = run(place, [], [name, "i", str(number), hook])
            same(result.status, 128 + signal.SIGSYS, "int 0x80 with %d: %s" % (number, result.out))
        for number in (2, 85, 83, 39, 257, 41, 272, 165, 520, 521, 534, 512):
            result = run(place, [], [name, "x", str(number), hook])
            same((result.status, result.out.strip()), (0, str(-errno.ENOSYS)), "x32 call %d" % number)
        check(not os.path.lexists(place.ws + "/" + hook), "a hook was made")
        # Without the filter getpid() works, where the kernel has that entry at all: otherwise it ends the program, too.
        among(plain(place, [name, "i", "20"]).status, (0, -signal.SIGSEGV, -signal.SIGSYS), "int 0x80 without atoll")


@test("PR-17 a 32-bit static program")
def _():
    need("gcc")
    with Place() as place:
        source = write(place.tmp + "/t.c", r'''
            static int call(int n, int a, int b, int c) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory"); return r; }
            void _start(void) { call(4, 1, (int)"alive\n", 6); call(1, 0, 0, 0); }''')
        done = subprocess.run(["gcc", "-m32", "-w", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-o", place.ws + "/t32", source], stderr=subprocess.PIPE)
        if done.returncode != 0:
            skip("a compiler for 32 bits")
        place.expect("t32")
        if "alive" not in plain(place, ["./t32"]).out:
            skip("a kernel that runs 32-bit programs")
        result = run(place, [], ["./t32"])
        check("alive" not in result.out and result.status in (126, 128 + signal.SIGSYS), "a 32-bit program runs: %s %r" % (result.status, result.out))


@test("PR-19 what runs without a path is as confined")
def _():
    with Place() as place:
        write(place.ws + "/noexec", "#!/bin/sh\necho script\n", 0o644)
        place.settle()
        result = run(place, [], inside_py(r'''
            def memfd(path):
                fd = os.memfd_create("x"); os.write(fd, open(path, "rb").read()); return fd
            def child(run):
                pid = os.fork()
                if pid == 0:
                    try: run()
                    finally: os._exit(99)
                os.waitpid(pid, 0)
            sh = "/bin/sh"
            show = ["sh", "-c", "grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/self/status; echo x >.git/hooks/pre-commit; echo x >%s/x; echo ran" % arg[0]]
            sys.stdout.flush()
            child(lambda: os.execve(memfd(sh), show, os.environ))
            child(lambda: os.execv("/proc/self/fd/%d" % memfd(sh), show))
            import glob
            for loader in glob.glob("/lib64/ld-linux*") + glob.glob("/lib/ld-linux*"):
                child(lambda: os.execv(loader, [loader, sh] + show[1:]))
        ''', place.out))
        ran = result.out.count("ran\n")
        check(ran >= 2, "nothing ran without a path: %s" % result.err)
        same(result.out.count("NoNewPrivs:\t1"), ran, "no_new_privs")
        same(result.out.count("Seccomp:\t2"), ran, "seccomp")
        same(result.out.count("CapEff:\t0000000000000000"), ran, "capabilities")
        check(not os.path.lexists(place.ws + "/.git/hooks/pre-commit"), "a hook was made")


@test("PR-20 denying commands is refused as long as it cannot be enforced")
def _():
    with Place() as place:
        for clause in ({"commands": {"deny": ["git push"]}}, {"deny": ["git push"]}, {"approval": {"commands": ["git push"]}}, {"exec": {"deny": ["git"]}}):
            path = job_file(place, {"version": 1, "command": ["/bin/true"], **clause})
            result = run(place, ["-f", path], None, starts=False)
            among(result.status, REFUSED, "a job with %s: %s" % (clause, result.err))


@test("PR-22 host name, time, kernel log and other matters of the machine")
def _():
    with Place() as place:
        name = os.uname().nodename
        # Arguments that do no harm even if the call should be allowed: what is already so, or what does not exist.
        result = run(place, [], inside_py(r'''
            nowhere = b"/nonexistent/atoll-test"
            host = os.uname().nodename.encode()
            attempt("sethostname", lambda: syscall(170, host, len(host)))
            attempt("setdomainname", lambda: syscall(171, b"(none)", 6))
            attempt("settimeofday", lambda: syscall(164, 0, 0))
            attempt("clock_settime", lambda: syscall(227, 1, struct.pack("qq", 0, 0)))
            attempt("adjtimex", lambda: syscall(159, ctypes.create_string_buffer(256)))
            attempt("clock_adjtime", lambda: syscall(305, 0, ctypes.create_string_buffer(256)))
            attempt("syslog size", lambda: syscall(103, 10, 0, 0))
            attempt("syslog read", lambda: syscall(103, 3, ctypes.create_string_buffer(64), 64))
            attempt("swapon", lambda: syscall(167, nowhere, 0)); attempt("swapoff", lambda: syscall(168, nowhere))
            attempt("reboot", lambda: syscall(169, 0, 0, 0, 0))
            attempt("acct", lambda: syscall(163, nowhere))
            attempt("quotactl", lambda: syscall(179, 0x80000700, nowhere, 0, 0))
            attempt("init_module", lambda: syscall(175, 0, 0, nowhere)); attempt("delete_module", lambda: syscall(176, nowhere, 0o4000))
            attempt("kexec_load", lambda: syscall(246, 0, 0, 0, 0xffff0000))
            attempt("iopl", lambda: syscall(172, 0)); attempt("ioperm", lambda: syscall(173, 0, 0, 0))
            attempt("mount", lambda: syscall(165, nowhere, nowhere, b"none", 0, 0)); attempt("umount", lambda: syscall(166, nowhere, 0))
            attempt("setpriority", lambda: syscall(141, 0, 0, -20))
            attempt("open by handle", lambda: syscall(304, -1, 0, 0))
        '''))
        result.refused(*[label for label in result.tries if label not in ("end", "setpriority")], how=("EPERM",))
        among(result.tries["setpriority"], ("EACCES", "EPERM"), "setpriority")
        same(os.uname().nodename, name, "the host's name")


@test("PR-23 nested run of the tool")
def _():
    with Place() as place:
        binary = place.base + "/atoll"
        shutil.copy(ATOLL, binary)
        os.chmod(binary, 0o755)
        wide = ["run", "--direct", "--write", place.out, "--read", place.home, "--accept-weaker", "identity", "--"]
        result = run(place, ["--read", binary], [binary, *wide, "/bin/sh", "-c", "echo x >%s/x; cat %s/.ssh/id" % (place.out, place.home)], starts=False)
        check(result.status in (BAD_REQUEST, POLICY, HOST_CANNOT, INTERNAL, 1, 2), "nested, wider: status %d, %s" % (result.status, result.err))
        check(result.err.strip(), "it said nothing")
        among(result.status, (BAD_REQUEST, POLICY, HOST_CANNOT), "the nested run's status: %s" % result.err)
        result = run(place, ["--read", binary], [binary, "run", "--direct", "--", "/bin/true"], starts=False)
        among(result.status, (0, BAD_REQUEST, POLICY, HOST_CANNOT), "nested, narrower: %s" % result.err)
        check(len(result.err.strip().splitlines()) <= 6, "not a clear line: %s" % result.err)
        run(place, ["--read", binary], [binary, "doctor"], starts=False)  # it ends


# ---- the guard under attack ------------------------------------------------------------------------------------------

RACE = r"""
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* One thread flips a path between something allowed and something denied, of the same length; another makes one call
   after the other with it. */
static char path[256], good[256], bad[256], other[256];
static volatile int stop;
static struct open_how how = {O_CREAT | O_WRONLY, 0755, 0};
static struct sockaddr_un un = {AF_UNIX};
static int good_fd, bad_fd, slot = 200;
static const char *what;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static void *flip(void *unused)
{
	size_t n = strlen(good);
	while (!stop) {
		if (!strcmp(what, "dirfd") || !strcmp(what, "fchmod") || !strcmp(what, "linkfd")) {
			dup2(good_fd, slot); dup2(bad_fd, slot);
		} else if (!strcmp(what, "cwd")) {
			fchdir(good_fd); fchdir(bad_fd);
		} else if (!strcmp(what, "link")) {
			syscall(SYS_renameat2, AT_FDCWD, "l1", AT_FDCWD, "l2", RENAME_EXCHANGE);
		} else {
			for (int i = 0; i < 50; i++) {
				memcpy(path, bad, n); memcpy(un.sun_path, bad, n); how.mode = 06755; how.flags = O_RDONLY;
				memcpy(path, good, n); memcpy(un.sun_path, good, n); how.mode = 0755; how.flags = O_CREAT | O_WRONLY;
			}
		}
	}
	return unused;
}

static int one(void)
{
	int fd, s;

	if (!strcmp(what, "open")) { fd = open(path, O_CREAT | O_WRONLY, 0755); if (fd >= 0) { write(fd, "#!/bin/sh\n", 10); close(fd); } return fd; }
	if (!strcmp(what, "openat2")) { fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how); if (fd >= 0) { write(fd, "x", 1); close(fd); } return fd; }
	if (!strcmp(what, "mkdir")) { s = mkdir(path, 0755); rmdir(good); return s; }
	if (!strcmp(what, "mknod")) { s = mknod(path, S_IFIFO | 0755, 0); unlink(good); return s; }
	if (!strcmp(what, "symlink")) { s = symlink("x", path); unlink(good); return s; }
	if (!strcmp(what, "rename")) { close(open(other, O_CREAT | O_WRONLY, 0755)); return rename(other, path); }
	if (!strcmp(what, "renamefrom")) { close(open(good, O_CREAT | O_WRONLY, 0755)); return rename(path, other); }
	if (!strcmp(what, "hard")) { close(open(other, O_CREAT | O_WRONLY, 0755)); s = link(other, path); unlink(good); return s; }
	if (!strcmp(what, "hardfrom")) { close(open(good, O_CREAT | O_WRONLY, 0755)); s = link(path, other); unlink(other); return s; }
	if (!strcmp(what, "unlink")) { close(open(good, O_CREAT | O_WRONLY, 0755)); return unlink(path); }
	if (!strcmp(what, "chmod")) { close(open(good, O_CREAT | O_WRONLY, 0755)); return chmod(path, 0711); }
	if (!strcmp(what, "truncate")) { close(open(good, O_CREAT | O_WRONLY, 0755)); return truncate(path, 1); }
	if (!strcmp(what, "opentrunc")) { close(open(good, O_CREAT | O_WRONLY, 0755)); fd = open(path, O_RDONLY | O_TRUNC); if (fd >= 0) close(fd); return fd; }
	if (!strcmp(what, "bind")) { fd = socket(AF_UNIX, SOCK_STREAM, 0); s = bind(fd, (void *)&un, sizeof un); close(fd); unlink(good); return s; }
	if (!strcmp(what, "connect")) { fd = socket(AF_UNIX, SOCK_STREAM, 0); s = connect(fd, (void *)&un, sizeof un); if (s == 0) write(fd, "hello", 5); close(fd); return s; }
	if (!strcmp(what, "dirfd")) { fd = openat(slot, "planted", O_CREAT | O_WRONLY, 0755); if (fd >= 0) close(fd); return fd; }
	if (!strcmp(what, "cwd")) { fd = open("planted", O_CREAT | O_WRONLY, 0755); if (fd >= 0) close(fd); return fd; }
	if (!strcmp(what, "link")) { fd = open("l1/planted", O_CREAT | O_WRONLY, 0755); if (fd >= 0) close(fd); return fd; }
	if (!strcmp(what, "fchmod")) return fchmod(slot, 0700);
	if (!strcmp(what, "linkfd")) { s = linkat(slot, "planted", AT_FDCWD, other, 0); unlink(other); return s; }
	return -1;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	double end = now() + atof(argv[5]);
	long done = 0, worked = 0;
	int may_fail;

	what = argv[1]; strcpy(good, argv[2]); strcpy(bad, argv[3]); strcpy(other, argv[4]); strcpy(path, good); strcpy(un.sun_path, good);
	good_fd = open(good, O_PATH); bad_fd = open(bad, O_PATH);
	if (!strcmp(what, "fchmod")) { good_fd = open(good, O_RDONLY); bad_fd = open(bad, O_RDONLY); }
	dup2(good_fd, slot);
	pthread_create(&thread, NULL, flip, NULL);
	/* An open that truncates what it reads may be refused wherever it is. */
	may_fail = !strcmp(what, "connect") || !strcmp(what, "opentrunc");
	/* For its time, and often enough also where that is not long. */
	for (; now() < end || (now() < end + 60 && (done < 50 || (!worked && !may_fail))); done++) worked += one() >= 0;
	stop = 1; pthread_join(thread, NULL);
	printf("%s: %ld of %ld worked\n", what, worked, done);
	return done > 20 && (worked || may_fail) ? 0 : 3;
}
"""


def race(place, program, what, good, bad, other="other", seconds=0.25):
    if what not in ("fchmod", "dirfd", "cwd", "link"):
        same(len(good), len(bad), "the lengths of the paths")
    if what in ("mkdir", "mknod", "symlink", "hard", "bind") and good.startswith("okk"):
        with contextlib.suppress(OSError):
            remove(os.path.join(place.ws, good))
    command = [program, what, good, bad, other, str(seconds)]
    if BARE and good.startswith("/tmp/xxx"):  # private is only what TMPDIR names, which is known inside
        command = inside_sh(r'''
            good=$(printf "%s/%s" "$TMPDIR" "$3" | cut -c "1-${#4}"); [ ${#good} = ${#4} ] && [ "$good" != "$TMPDIR" ] || exit 99
            exec "$1" "$2" "$good" "$4" "$TMPDIR/other" "$6"''', program, what, "x" * 200, *command[3:])
    result = run(place, [], command)
    same(result.status, 0, "the race over %s: %s %s" % (what, result.out, result.err[-300:]))


@test("PR-25 a path that changes while it is looked at")
def _():
    with Place() as place:
        place.expect("*", ".git/hooks-ok")
        program = build_c(place, "race", RACE)
        os.makedirs(place.ws + "/okk/hooks")
        write(place.ws + "/.git/hooks/existing.sample", "#!/bin/sh\n", 0o755)
        place.settle()
        before = snapshot(place.ws + "/.git/hooks"), read(place.ws + "/.git/config"), os.stat(place.ws + "/.git/config").st_mode
        sample = ".git/hooks/existing.sample"
        for what in ("open", "openat2", "mkdir", "mknod", "symlink", "rename", "hard", "bind"):
            race(place, program, what, "okk/hooks/planted", ".git/hooks/planty", "okk/other")
        for what in ("renamefrom", "hardfrom", "unlink", "chmod", "truncate"):
            race(place, program, what, ("okk/hooks/" + "x" * 40)[:len(sample)], sample, "okk/other")
        for what in ("truncate", "opentrunc"):
            race(place, program, what, "okk/configx", ".git/config", "okk/other")
        race(place, program, "dirfd", "okk/hooks", ".git/hooks")
        race(place, program, "cwd", "okk/hooks", ".git/hooks")
        write(place.ws + "/okk/readable", "x")
        race(place, program, "fchmod", "okk/readable", sample)
        os.symlink("okk/hooks", place.ws + "/l1")
        os.symlink(".git/hooks", place.ws + "/l2")
        race(place, program, "link", "okk", ".git")
        after = snapshot(place.ws + "/.git/hooks"), read(place.ws + "/.git/config"), before[2]
        for one, two in zip(before, after):
            check(one == two, "the protected files have changed")


@test("PR-25 a path that changes: between the private and the guarded, and a socket's")
def _():
    with Place() as place, Sink(place) as sink:
        place.expect("*")
        program = build_c(place, "race", RACE)
        hook = place.ws + "/.git/hooks/" + "p" * 40
        for what in ("open", "openat2", "mkdir", "symlink", "mknod", "chmod", "truncate", "unlink"):
            race(place, program, what, ("/tmp/" + "x" * 200)[:len(hook)], hook, "/tmp/other")
        outside = place.out + "/canary"
        config = place.ws + "/.git/config"
        before = read(config)
        for what in ("truncate", "opentrunc"):
            race(place, program, what, ("/tmp/" + "x" * 200)[:len(config)], config, "/tmp/other", 1)
        check(read(config) == before, "the config was truncated")
        for what in ("open", "truncate", "opentrunc", "chmod", "unlink", "renamefrom"):
            race(place, program, what, (place.ws + "/" + "x" * 200)[:len(outside)], outside, place.ws + "/other")
        race(place, program, "connect", (place.ws + "/" + "x" * 200)[:len(sink.path)], sink.path)
        same(sink.log, [], "what reached the host's socket")
        check(not os.path.lexists(hook), "a hook was made")


@test("PR-X calls are neither lost nor doubled under signals")
def _():
    for mode in (0, 1):  # handlers that restart calls, and those that interrupt them
        with Place() as place:
            place.expect("n")
            result = run(place, [], inside_py(r'''
            import threading
            caught = [0]
            def handler(*_): caught[0] += 1
            for n in (signal.SIGURG, signal.SIGALRM, signal.SIGUSR1):
                signal.signal(n, handler); libc.siginterrupt(n, int(arg[0]))
            os.mkdir("n")  # not in the storm: this one call is not made again
            signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
            me = os.getpid(); storm = os.fork()
            if storm == 0:
                signal.setitimer(signal.ITIMER_REAL, 0)
                end = time.monotonic() + 0.7
                while time.monotonic() < end:
                    os.kill(me, signal.SIGURG); time.sleep(0.0001)
                os._exit(0)
            wrong = interrupted = 0
            for i in range(400):
                a, b = b"n/a%d" % i, b"n/b%d" % i
                def call(*a):  # os.open() and its like would try again by themselves
                    global wrong, interrupted
                    while True:
                        try: return syscall(*a)
                        except OSError as error:
                            if error.errno != errno.EINTR:
                                wrong += 1; print(i, a, error); return -1
                            interrupted += 1
                fd = call(257, AT_FDCWD, a, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
                call(3, fd)
                call(82, a, b)
                call(83, b"n/d%d" % i, 0o755)
                call(90, b, 0o600)
            until(lambda: caught[0] > 50)
            signal.setitimer(signal.ITIMER_REAL, 0); os.waitpid(storm, 0)
            tell("signals", "ok" if caught[0] > 50 else "only %d" % caught[0])
            tell("wrong", str(wrong)); tell("interrupted", str(interrupted))
        ''', mode))
            same(result.tries.get("signals"), "ok", "the storm")
            # A call that was interrupted has not been made: making it again works, and O_EXCL has not seen itself.
            same(result.tries.get("wrong"), "0", "calls that failed: %s" % result.out[:500])
            if mode == 0:
                same(result.tries.get("interrupted"), "0", "calls interrupted although the handler restarts them")
            same(len(os.listdir(place.ws + "/n")), 800, "names made")


@test("PR-X callers that are killed in the middle of a call, and process numbers used again")
def _():
    with Place() as place:
        place.expect("k")
        result = run(place, ["--pids", "60"], inside_py(r'''
            import random
            os.mkdir("k")
            end = time.monotonic() + 1.5; n = killed = 0
            while time.monotonic() < end or killed <= 40:
                pids = []
                for c in range(8):
                    pid = os.fork()
                    if pid == 0:
                        i = 0
                        while True:
                            name = "k/%d.%d.%d" % (n, c, i); i += 1
                            try:
                                put(name); os.rename(name, name + "r"); os.mkdir(name); os.rmdir(name); os.unlink(name + "r")
                                put(".git/hooks/pre-commit")
                            except OSError: pass
                    pids.append(pid)
                time.sleep(random.random() * 0.02)
                for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0); killed += 1
                n += 1
            tell("killed", "ok" if killed > 40 else "only %d" % killed)
            attempt("afterwards", lambda: put("k/end"))
            attempt("afterwards a hook", lambda: put(".git/hooks/pre-commit"))
        '''))
        same(result.tries.get("killed"), "ok", "callers killed")
        result.allowed("afterwards")
        result.refused("afterwards a hook")
        check(not os.path.lexists(place.ws + "/.git/hooks/pre-commit"), "a hook was made")


@test("PR-X a tracer that changes a sibling's call")
def _():
    if os.uname().machine != "x86_64":
        skip("x86-64")
    with Place() as place:
        place.expect("fine", "other")
        result = run(place, [], tracing(r'''
            good = ctypes.create_string_buffer(b"fine"); bad = ctypes.create_string_buffer(b".git/hooks/pre-commit")
            pid = os.fork()
            if pid == 0:
                ptrace(TRACEME, 0); os.kill(os.getpid(), signal.SIGSTOP)
                for i in range(3):
                    try: os.close(syscall(257, AT_FDCWD, good, os.O_CREAT | os.O_WRONLY, 0o755))
                    except OSError: pass
                os._exit(0)
            os.waitpid(pid, 0)
            ptrace(SETOPTIONS, pid, 0, 1)
            changed = 0; inside = False
            while True:
                ptrace(SYSCALL, pid)
                status = os.waitpid(pid, 0)[1]
                if os.WIFEXITED(status) or os.WIFSIGNALED(status): break
                if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80: continue
                regs = (ctypes.c_ulonglong * 27)()
                ptrace(GETREGS, pid, 0, ctypes.addressof(regs))
                if regs[15] == 257 and regs[13] == ctypes.addressof(good) and not inside:  # orig_rax, rsi: at the entry
                    regs[13] = ctypes.addressof(bad); ptrace(SETREGS, pid, 0, ctypes.addressof(regs)); changed += 1; inside = True
                else:
                    inside = False
            tell("changed", "ok" if changed else "no call was changed")
            # a harmless call made another one at its entry: getppid() becomes mkdir()
            pid = os.fork()
            if pid == 0:
                ptrace(TRACEME, 0); os.kill(os.getpid(), signal.SIGSTOP); syscall(110); os._exit(0)
            os.waitpid(pid, 0); ptrace(SETOPTIONS, pid, 0, 1); swapped = 0
            while True:
                ptrace(SYSCALL, pid)
                status = os.waitpid(pid, 0)[1]
                if os.WIFEXITED(status) or os.WIFSIGNALED(status): break
                regs = (ctypes.c_ulonglong * 27)()
                ptrace(GETREGS, pid, 0, ctypes.addressof(regs))
                if regs[15] == 110 and not swapped:
                    regs[15] = 83; regs[10] = regs[10]; regs[14] = ctypes.addressof(bad); regs[13] = 0o755; ptrace(SETREGS, pid, 0, ctypes.addressof(regs)); swapped = 1
            tell("swapped", "ok" if swapped else "no call was swapped")
        '''))
        result.allowed("changed", "swapped")
        check(not os.path.lexists(place.ws + "/.git/hooks/pre-commit"), "a hook was made")
        check(any("hooks" in line for line in result.refusals), "the changed call was not seen")


@test("PR-X vfork, and threads with a working directory, a umask and descriptors of their own")
def _():
    with Place() as place:
        place.expect("*")
        program = build_c(place, "own", r'''
            #include <errno.h>
            #include <fcntl.h>
            #include <pthread.h>
            #include <sched.h>
            #include <stdio.h>
            #include <sys/stat.h>
            #include <sys/wait.h>
            #include <unistd.h>
            static void *thread(void *unused)
            {
                unshare(CLONE_FS); unshare(CLONE_FILES);
                chdir("there"); umask(077);
                close(open("by-thread", O_CREAT | O_WRONLY, 0666)); mkdir("dir-by-thread", 0777);
                int fd = open("../.git/hooks", O_PATH); dup2(fd, 50);
                printf("%d\n", openat(50, "pre-commit", O_CREAT | O_WRONLY, 0755));
                printf("%d\n", open("../.git/hooks/pre-commit", O_CREAT | O_WRONLY, 0755));
                return unused;
            }
            int main(void)
            {
                pthread_t t;
                mkdir("there", 0755); dup2(open("there", O_PATH), 50); umask(022);
                pthread_create(&t, NULL, thread, NULL); pthread_join(t, NULL);
                close(open("by-main", O_CREAT | O_WRONLY, 0666)); close(openat(50, "by-main-fd", O_CREAT | O_WRONLY, 0666));
                if (vfork() == 0) { close(open("by-vfork", O_CREAT | O_WRONLY, 0644)); open(".git/hooks/pre-commit", O_CREAT | O_WRONLY, 0755); _exit(0); }
                wait(NULL);
                return 0;
            }''')
        result = run(place, [], [program])
        same(result.out.split(), ["-1", "-1"], "hooks by a thread")
        found = {name: oct(os.stat(os.path.join(place.ws, name)).st_mode & 0o777) for name in ("there/by-thread", "there/dir-by-thread", "by-main",
                                                                                               "there/by-main-fd", "by-vfork")}
        same(found, {"there/by-thread": "0o600", "there/dir-by-thread": "0o700", "by-main": "0o644", "there/by-main-fd": "0o644", "by-vfork": "0o644"},
             "where they lie, and their modes")
        check(not os.path.lexists(place.ws + "/.git/hooks/pre-commit"), "a hook was made")


@test("PR-X a descriptor handed in for reading is no way to write")
def _():
    code = r'''
        attempt("read", lambda: os.read(9, 10))
        attempt("reopen", lambda: put("/proc/self/fd/9", b"gotcha", os.O_WRONLY))
        attempt("reopen, truncating", lambda: os.open("/proc/self/fd/9", os.O_RDONLY | os.O_TRUNC))
        attempt("truncate", lambda: os.truncate("/proc/self/fd/9", 0))
        attempt("ftruncate", lambda: os.ftruncate(9, 0))
        attempt("link", lambda: syscall(265, AT_FDCWD, b"/proc/self/fd/9", AT_FDCWD, b"hard", AT_SYMLINK_FOLLOW))
        attempt("chmod", lambda: os.chmod("/proc/self/fd/9", 0o600))
        attempt("fchmod", lambda: os.fchmod(9, 0o600))
        attempt("create", lambda: put("new", dir_fd=10))
        attempt("write", lambda: put("canary", b"gotcha", os.O_WRONLY, dir_fd=10))
        attempt("through /proc", lambda: put("/proc/self/fd/10/canary", b"gotcha", os.O_WRONLY))
        os.fchdir(10)
        for label, action in (("cwd write", lambda: put("canary", b"gotcha", os.O_WRONLY)), ("cwd mkdir", lambda: os.mkdir("d")), ("cwd unlink", lambda: os.unlink("canary")),
                              ("cwd rename", lambda: os.rename("canary", "c")), ("cwd truncate", lambda: os.truncate("canary", 0)), ("cwd chmod", lambda: os.chmod("canary", 0o600)),
                              ("cwd symlink", lambda: os.symlink("x", "s")), ("cwd mkfifo", lambda: os.mkfifo("p"))):
            attempt(label, action)
        m = os.memfd_create("x")
        attempt("ok: memfd", lambda: (put("/proc/self/fd/%d" % m, b"x", os.O_WRONLY), os.truncate("/proc/self/fd/%d" % m, 10), os.fchmod(m, 0o700)))
    '''
    with Place() as place:
        fds = {9: os.open(place.out + "/canary", os.O_RDONLY), 10: os.open(place.out, os.O_RDONLY)}
        result = run(place, ["--fd", "9", "--fd", "10"], inside_py(code), fds=fds)
        result.allowed("read", "ok: memfd")
        result.refused(*[label for label in result.tries if label not in ("read", "end", "ok: memfd")], how=GONE + ("EINVAL",))
    with Place(strict=False) as place:
        place.expect("hard")
        fds = {9: os.open(place.out + "/canary", os.O_RDONLY), 10: os.open(place.out, os.O_RDONLY)}
        plain(place, inside_py(code), fds=fds).allowed("reopen", "create", "cwd write")
    for fd in fds.values():
        os.close(fd)


@test("PR-X the guard never waits: fifos, leases, sockets, stopped callers")
def _():
    with Place() as place:
        place.expect("p*", "g*", "lease", "s")
        result = run(place, ["--timeout", "100s"], inside_py(r'''
            import fcntl, socket
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            def child(action):
                pid = os.fork()
                if pid == 0:
                    try: action()
                    finally: os._exit(0)
                return pid
            waiting = []
            for i, flags in enumerate((os.O_WRONLY, os.O_RDONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_TRUNC)):
                os.mkfifo("p%d" % i); waiting.append(child(lambda: os.open("p%d" % i, flags)))
            os.mkfifo("pp"); path = os.open("pp", O_PATH); waiting.append(child(lambda: os.open("/proc/self/fd/%d" % path, os.O_WRONLY)))
            put("lease"); fd = os.open("lease", os.O_RDONLY)
            attempt("lease", lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))
            waiting.append(child(lambda: os.open("lease", os.O_WRONLY)))
            waiting.append(child(lambda: os.truncate("lease", 0)))
            s = socket.socket(socket.AF_UNIX); s.bind("s"); s.listen(0)
            for i in range(3): waiting.append(child(lambda: (socket.socket(socket.AF_UNIX).connect(os.getcwd() + "/s"), time.sleep(600))))
            time.sleep(0.2)
            began = time.monotonic()
            for i in range(50): put("g%d" % i)
            # Those at a pipe or a socket wait for ever, those at a lease for 45 s: the guard has not waited with them.
            still = [n for n, pid in enumerate(waiting) if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None]
            tell("meanwhile", "ok" if {0, 1, 2, 3, 4, 5} <= set(still) and time.monotonic() - began < 30 else "%s wait" % still)
            for pid in waiting: os.kill(pid, 9); os.waitpid(pid, 0)
            w = child(lambda: os.write(os.open("p0", os.O_WRONLY), b"hello"))
            tell("fifo", "ok" if get("p0") == b"hello" else "nothing came")
        '''))
        result.allowed("meanwhile", "fifo", "end")
        same(result.status, 0, "status")


main()
