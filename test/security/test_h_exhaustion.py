#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 108
# check: not sanitized
"""
H. Exhaustion: every limit bounds the whole tree

Each attack is refused under a small limit and comes through under a larger one, so that a limit that does nothing would
show. All attacks end by themselves at a small multiple of the limit: a limit that fails costs this machine a few hundred
megabytes at most. What counts is what the host sees: processes, memory, free space, files, time.
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from package import need_roots  # noqa: E402

MIB = 1 << 20


def told(result):
    """The result for programs: the last line of standard error."""
    return json.loads(result.err.strip().splitlines()[-1])


def run_json(place, flags, command, **options):
    return told(run(place, ["--json", *flags], command, **options))


def ended_by(result, limit, value):
    """A run that was ended by a limit says which, how large it was, and how much was used: that is returned."""
    same((result["limit"], result["limit_value"]), (limit, value), "the limit that ended it")
    check(result["limit_used"] >= value, "ended at %d of %d" % (result["limit_used"], value))
    same(result["usage"][limit]["limit"], value, "the limit in the usage")
    return result["limit_used"]


def used_on_disk(path):
    total = 0
    for where, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total


def watch_host(running, measure, every=0.01):
    """The highest that measure() gives while a run lives."""
    highest = 0
    while running.process.poll() is None:
        highest = max(highest, measure())
        time.sleep(every)
    return highest


def tree_of(pid):
    """A run's processes and threads, from the host."""
    tasks, queue = 0, [pid]
    while queue:
        one = queue.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir("/proc/%d/task" % one):
                tasks += 1
                with open("/proc/%d/task/%s/children" % (one, task)) as file:
                    queue += map(int, file.read().split())
    return tasks


def anonymous_of(pid):
    """What a run's processes have written into memory, in shares, from the host."""
    total, queue = 0, [pid]
    while queue:
        one = queue.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir("/proc/%d/task" % one):
                with open("/proc/%d/task/%s/children" % (one, task)) as file:
                    queue += map(int, file.read().split())
            with open("/proc/%d/smaps_rollup" % one) as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith(("Pss_Anon", "Pss_Shmem"))) * 1024
    return total


# ---- processes ------------------------------------------------------------------------------------------------------

BOMBS = {
    # They double until they cannot, at most 256 in all, and then stay until the host has seen them.
    "fork bomb": r"""
        for _ in range(8):
            try: os.fork()
            except OSError: pass
        while not os.path.exists("go"): time.sleep(0.05)
        """,
    "threads": r"""
        import threading
        stop = threading.Event()
        try:
            for _ in range(256): threading.Thread(target=stop.wait, daemon=True).start()
        except RuntimeError: pass
        while not os.path.exists("go"): time.sleep(0.05)
        os._exit(0)
        """,
    "orphans": r"""
        def stay():
            while not os.path.exists("go"): time.sleep(0.05)
        for _ in range(256):
            try: pid = os.fork()
            except OSError: break
            if pid == 0:
                try:
                    if os.fork() == 0: stay()
                except OSError: pass
                os._exit(0)
            os.waitpid(pid, 0)
        stay()
        """,
}


@test("DOS-01 fork bombs, threads and orphans stop at the limit of processes")
def _():
    for name, code in BOMBS.items():
        with Place() as place:
            place.expect("go")
            running = start(place, ["--json", "--pids", "32", "--timeout", "100s"], inside_py(code))
            # As many as there can be, and then long enough for more to show.
            until(lambda: tree_of(running.pid) >= 20)
            highest = max(tree_of(running.pid) for _ in range(100) if not time.sleep(0.01))
            write(place.ws + "/go")
            result = told(running.wait())
            # The supervisor, the first process and those of the command.
            check(highest <= 35, "%s: %d tasks under a limit of 32" % (name, highest))
            check(16 <= result["usage"]["pids"]["used"] <= 33, "%s: %s" % (name, result["usage"]["pids"]))
            same(result["usage"]["pids"]["limit"], 32, "limit")
            check(result["end"] != "timed-out", "%s did not end" % name)
        with Place() as place:
            place.expect("go")
            running = start(place, ["--pids", "600", "--timeout", "100s"], inside_py(code))
            check(until(lambda: tree_of(running.pid) > 100), "%s makes too few tasks where it may: this test shows nothing" % name)
            write(place.ws + "/go")
            check(running.wait().status != TIMED_OUT, "%s did not end where it may" % name)


@test("DOS-01 root inside does not multiply the limit of processes by its ids")
def _():
    need_roots()
    code = """
        def be(uid):
            os.setresuid(uid, uid, uid)
            for _ in range(20):
                if os.fork() == 0: time.sleep(100); os._exit(0)
            time.sleep(100)
        for uid in range(1, 1 + int(arg[0])):
            if os.fork() == 0: be(uid)
        put("ready"); time.sleep(5 if int(arg[0]) < 3 else 100)
        """
    with Place() as place:
        place.expect("ready")
        flags = ["--json", "--root", "layer", "--pids", "50", "--timeout", "60s"]
        done = run(place, flags, inside_py(code, 8))
        same((done.status, told(done)["limit"]), (OVER_LIMIT, "pids"), done.err)
        same(run(place, flags, inside_py(code, 2)).status, 0, "42 processes of three ids")


@test("DOS-01 a vfork loop that never waits ends in time")
def _():
    with Place() as place:
        result = run_json(place, ["--pids", "32", "--timeout", "2s"], inside_py(r"""
            while True:
                try: os.posix_spawn("/bin/true", ["true"], {})
                except OSError: pass
            """))
        same(result["limit"], "wall", "what ended it")
        check(result["wall_ns"] < 60e9, "it took %.1f s" % (result["wall_ns"] / 1e9))


# ---- memory ---------------------------------------------------------------------------------------------------------

EAT = r"""
def eat(mib):
    import mmap
    x = mmap.mmap(-1, mib << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for i in range(0, len(x), 4096):
        x[i] = 1
    return x
"""

EATERS = {
    "one process": EAT + "x = eat(256); time.sleep(600)",
    "many processes": EAT + r"""
for _ in range(25):  # not all at once: where memory is watched, a burst may be more for a moment
    if os.fork() == 0:
        x = eat(10); time.sleep(600); os._exit(0)
    time.sleep(0.02)
time.sleep(600)
""",
    "an anonymous mapping that is shared": r"""
import mmap
x = mmap.mmap(-1, 256 << 20)
for i in range(0, len(x), 4096): x[i] = 1
time.sleep(600)
""",
    "files in private storage and a process": EAT + r"""
x = eat(40)
put("/dev/shm/x", b"x" * (20 << 20)); put("/tmp/x", b"x" * (20 << 20))
time.sleep(600)
""",
    "a file without a name that nobody maps": r"""
fd = os.memfd_create("x")
for _ in range(256): os.write(fd, b"x" * (1 << 20))
time.sleep(600)
""",
    "a segment that nobody has attached": r"""
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
for _ in range(25):
    where = libc.shmat(libc.shmget(0, 10 << 20, 0o1600), None, 0)
    ctypes.memset(where, 1, 10 << 20)
    libc.shmdt(where)
time.sleep(600)
""",
    "segments behind hundreds of small ones": r"""
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
for _ in range(300): libc.shmget(0, 4096, 0o1600)
for _ in range(25):
    where = libc.shmat(libc.shmget(0, 10 << 20, 0o1600), None, 0)
    ctypes.memset(where, 1, 10 << 20)
    libc.shmdt(where)
time.sleep(600)
""",
}


@test("DOS-02 memory of the whole tree ends the run, by name, with limit and peak")
def _():
    def once(name):
        with Place() as place:
            running = start(place, ["--json", "--memory", "64M", "--timeout", "100s"], inside_py(EATERS[name]))
            highest = watch_host(running, lambda: anonymous_of(running.pid))
            done = running.wait()
            result = told(done)
            same((done.status, result["end"]), (OUT_OF_MEMORY, "out-of-memory"), name)
            return max(highest, ended_by(result, "memory", 64 * MIB)) >> 20
    for name in EATERS:
        at_best(lambda: once(name), 200, "%s: MiB under a limit of 64" % name)
    with Place() as place:
        for name in ("one process", "many processes", "files in private storage and a process"):
            code = EATERS[name].replace("time.sleep(600)", "time.sleep(0.3)")
            same(run(place, ["--memory", "400M"], inside_py(code)).status, 0, "%s within the limit" % name)


@test("DOS-02 a process in hundreds of groups is counted where no control group counts")
def _():
    need_roots()
    hide = ["unshare", "-m", "--propagation", "private", "sh", "-euc", 'mount -n -t tmpfs none /sys/fs/cgroup; exec "$@"', "sh"]
    for name, wanted in ("one process", OUT_OF_MEMORY), ("many processes", OUT_OF_MEMORY):
        with Place() as place:
            code = "os.setgroups([1000] * 3000)\n" + EATERS[name]
            words = [ATOLL, "run", "--direct", "--root", "layer", "--memory", "64M", "--timeout", "100s", "--", *inside_py(code)]
            same(Running(place, hide + words).wait().status, wanted, name)
            words[words.index("64M")] = "400M"
            words[-1] = words[-1].replace("time.sleep(600)", "time.sleep(0.3)")
            same(Running(place, hide + words).wait().status, 0, name + " within the limit")


@test("DOS-02 what people read is one line with limit and peak")
def _():
    with Place() as place:
        result = run(place, ["--memory", "64M"], inside_py(EATERS["one process"]))
        check(re.search(r"^atoll: stopped at the memory limit of 64 MiB \(--memory\); peak [0-9.]+ MiB$", result.err, re.M), result.err)


@test("DOS-02 pages that processes share by fork do not end a run below its limit")
def _():
    with Place() as place:
        code = EAT + r"""
x = eat(60)
for _ in range(6):
    if os.fork() == 0: time.sleep(0.7); os._exit(0)
time.sleep(0.8)
"""
        same(run(place, ["--memory", "160M"], inside_py(code)).status, 0, "60 MiB that seven processes share")


@test("DOS-02 the kernel takes a sandbox before the user's own programs")
def _():
    with Place() as place:
        own = int(read("/proc/self/oom_score_adj"))
        result = run(place, [], ["cat", "/proc/self/oom_score_adj"])
        check(int(result.out) > own, "oom_score_adj is %s inside and %d outside" % (result.out.strip(), own))


# ---- kernel memory --------------------------------------------------------------------------------------------------

@test("DOS-04 pipes, sockets, watches, timers and epoll chains are bounded by descriptors and the user's share")
def _():
    with Place() as place:
        def slab():
            return int(re.search(r"Slab:\s+(\d+)", read("/proc/meminfo").decode())[1]) << 10
        before = slab()
        result = run(place, ["--open-files", "128", "--pids", "16", "--memory", "256M", "--timeout", "100s"], inside_py(r"""
            import select, socket
            def fill(make):
                kept = []
                try:
                    while len(kept) < 2000: kept.append(make())
                except OSError as error:
                    return errno.errorcode[error.errno], len(kept)
                return "none", len(kept)
            def pipe():
                ends = os.pipe2(os.O_NONBLOCK)
                try:
                    while True: os.write(ends[1], b"x" * 65536)
                except BlockingIOError: pass
                return [open(e, closefd=True) for e in ()] or Ends(ends)
            class Ends:
                def __init__(self, ends): self.ends = ends
                def __del__(self): [os.close(e) for e in self.ends]
            def pair():
                pair = socket.socketpair(); pair[0].setblocking(False)
                try:
                    while True: pair[0].send(b"x" * 65536)
                except BlockingIOError: pass
                return pair
            def inotify():
                fd = libc.inotify_init()
                if fd < 0: raise OSError(ctypes.get_errno(), "")
                return Ends([fd])
            for label, make in (("pipes", pipe), ("sockets", pair), ("inotify", inotify), ("epoll", select.epoll)):
                tell(label, "%s %d" % fill(make))
            timers = 0
            timer = ctypes.c_void_p()
            while timers < 20000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: timers += 1
            tell("timers", timers)
            """))
        for label in ("pipes", "sockets", "inotify", "epoll"):
            how, count = result.tries[label].split()
            check(how == "EMFILE" and int(count) <= 128, "%s: %s" % (label, result.tries[label]))
        check(int(result.tries["timers"]) <= 4096, "%s timers" % result.tries["timers"])
        check(until(lambda: slab() < before + (64 << 20)), "%d MiB of kernel memory remain" % ((slab() - before) >> 20))


# ---- disk -----------------------------------------------------------------------------------------------------------

# Each writes 64 MiB, and "on" goes on with the same files: however late somebody looks, there is something to see.
FILLERS = {
    "many files": r"""
        for i in turns(64): put("d%d" % i, b"x" * (1 << 20)); time.sleep(0.002)
        """,
    "many processes": r"""
        for i in range(16):
            if os.fork() == 0:
                for j in turns(4): put("d%d-%d" % (i, j), b"x" * (1 << 20)); time.sleep(0.005)
                os._exit(0)
        for _ in range(16): os.wait()
        """,
    "sparse, then touched": r"""
        import mmap
        for i in turns(16):
            fd = os.open("d%d" % i, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.ftruncate(fd, 4 << 20)
            x = mmap.mmap(fd, 4 << 20)
            for at in range(0, len(x), 4096): x[at] = 1
            os.close(fd); time.sleep(0.01)
        """,
    "past the cache": r"""
        import mmap
        x = mmap.mmap(-1, 1 << 20)
        for i in turns(64):
            fd = os.open("d%d" % i, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
            os.write(fd, x); os.close(fd); time.sleep(0.002)
        """,
    "children that nobody waits for": r"""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for i in turns(64):
            if os.fork() == 0: put("d%d" % i, b"x" * (1 << 20)); os._exit(0)
            time.sleep(0.01)
        try: os.wait()  # which is for the last one then
        except ChildProcessError: pass
        """,
    "a process that shows nobody what it writes": r"""
        libc.prctl(4, 0, 0, 0, 0)
        for i in turns(64): put("d%d" % i, b"x" * (1 << 20)); time.sleep(0.005)
        """,
}
TURNS = r"""
import itertools
def turns(n): return itertools.cycle(range(n)) if arg[0] == "on" else range(n)
"""


def on_disk(place):
    """tmpfs is memory, which another limit counts."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", place.ws], stdout=subprocess.PIPE, text=True).stdout.strip()
    if kind == "tmpfs":
        skip("a workspace on a disk")


@test("DOS-05 what the whole tree writes ends the run, by name, with limit and use")
def _():
    def once(name, code):
        with Place(on_disk=True) as place:
            on_disk(place)
            place.expect("d*")
            done = run(place, ["--json", "--disk", "8M", "--timeout", "100s"], inside_py(code, "on"))
            result = told(done)
            same(done.status, OVER_LIMIT, "%s: %s" % (name, result))
            return max(ended_by(result, "disk", 8 * MIB), used_on_disk(place.ws)) >> 20
    for name, code in FILLERS.items():
        code = TURNS + textwrap.dedent(code)
        at_best(lambda: once(name, code), 40, "%s: MiB under a limit of 8" % name)
        with Place(on_disk=True) as place:
            place.expect("d*")
            done = run(place, ["--json", "--disk", "1G", "--timeout", "100s"], inside_py(code, "once"))
            same(done.status, 0, "%s where it may" % name)
            check(used_on_disk(place.ws) >= 60 * MIB, "%s writes too little: this test shows nothing" % name)
            if "nobody waits" not in name:
                check(told(done)["usage"]["disk"]["used"] >= 50 * MIB, "%s: %s" % (name, told(done)["usage"]["disk"]))


@test("DOS-05 space that is only reserved counts, and is refused at the limit")
def _():
    with Place(on_disk=True) as place:
        on_disk(place)
        place.expect("d*")
        attack = inside_py(r"""
            for i in range(32):
                fd = os.open("d%d" % i, os.O_RDWR | os.O_CREAT)
                attempt("%d" % i, lambda: syscall(285, fd, 0 if i % 2 else 1, 0, 1 << 20))
                os.close(fd)
            """)
        result = run(place, ["--disk", "8704K"], attack)  # directories are written, too
        made = [result.tries[str(i)] for i in range(32)]
        same((made.count("ok"), made.count("ENOSPC")), (8, 24), "reservations")
        check(any("limits.disk" in line for line in result.refusals), "no refusal is told: %s" % result.refusals)
        check(used_on_disk(place.ws) < 16 * MIB, "%d MiB lie there" % (used_on_disk(place.ws) >> 20))
        result = run(place, ["--disk", "1G"], attack)
        same([result.tries[str(i)] for i in range(32)].count("ok"), 32, "reservations where they are allowed")
        check(used_on_disk(place.ws) >= 30 * MIB, "nothing is reserved: this test shows nothing")


@test("DOS-05 private places are bounded in bytes and in files, and that is not the run's death")
def _():
    with Place(on_disk=True) as place:
        attack = inside_py(r"""
            def fill(where):
                for i in range(64): put("%s/%d" % (where, i), b"x" * (1 << 20))
            def many(where):
                for i in range(20000): os.close(os.open("%s/n%d" % (where, i), os.O_CREAT | os.O_WRONLY))
            for where in arg:
                attempt("fill " + where, lambda: fill(where))
                for i in range(64):
                    if os.path.exists("%s/%d" % (where, i)): os.unlink("%s/%d" % (where, i))
            attempt("many", lambda: many("/tmp"))
            """, "/tmp", "/var/tmp", "/dev/shm", place.home)
        result = run(place, ["--disk", "8M", "--files", "100"], attack, timeout=2 * RUN_SECONDS)
        same(result.status, 0, "status")
        result.refused(how=("ENOSPC",))
        result = run(place, ["--disk", "1G", "--files", "100000"], attack, timeout=2 * RUN_SECONDS)
        for label in result.tries:
            same(result.tries[label], "ok", "%s where it is allowed" % label)


@test("DOS-05 a part of the disk stays free")
def _():
    need_root()  # to have a small file system that is this test's alone
    need("mkfs.ext4", "unshare")
    def once():
        with Place() as place:
            return fill_up(place, "direct")
    at_best(once, 1, "the disk was full")


@test("DOS-05 a part of the disk that layers are kept on stays free")
def _():
    need_root()
    need("mkfs.ext4", "unshare")
    def once():
        with Place() as place:
            return fill_up(place, "layer")
    at_best(once, 1, "the disk was full")


def fill_up(place, mode):
    """Fill a small file system, which has the store, too. 1 if it came to be full before anybody looked."""
    image, point = place.tmp + "/image", place.base + "/small"
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    os.mkdir(point)
    script = r'''
        set -e
        mount --make-rprivate /
        mkfs.ext4 -q -m 0 -F "$1"
        mount -o loop "$1" "$2"
        cd "$2"
        set +e
        export XDG_STATE_HOME="$2/state"; mkdir work; cd work
        "$3" run --mode "$4" --json --disk 1G --timeout 100s -- sh -c 'i=0; while :; do head -c 1000000 /dev/zero >d$i; i=$(((i+1)%100)); sleep 0.01; done'
        echo "status $?"; df --output=avail,size -B1 . | tail -n 1
        "$3" run --mode "$4" -- true; echo "again $?"
        "$3" run --mode "$4" --disk unlimited -- true; echo "lifted $?"
        cd /; umount "$2"
    '''
    done = plain(place, ["unshare", "-m", "--", "sh", "-c", script, "sh", image, point, ATOLL, mode], confined=False)
    if "status" not in done.out:
        skip("a loop mount (%s)" % done.err.strip()[-80:])
    lines = done.out.split("\n")
    same(lines[0], "status %d" % OVER_LIMIT, "the run")
    avail, size = map(int, lines[1].split())
    check(avail < size // 20, "%d of %d bytes are free" % (avail, size))
    if not avail:
        return 1
    check("left free" in done.err and '"limit":"disk"' in done.err, done.err)
    same(lines[2], "again %d" % HOST_CANNOT, "a run that starts without room")
    # The floor of the store is not the contract's to lift.
    same(lines[3], "lifted %d" % (0 if mode == "direct" else HOST_CANNOT), "a run without the limit")
    return 0


@test("DOS-05 files: what is too many is refused, and told")
def _():
    with Place() as place:
        place.expect("n*")
        attack = inside_py(r"""
            for i in range(40): attempt("f%d" % i, lambda: put("n%d" % i))
            attempt("dir", lambda: os.mkdir("nd")); attempt("link", lambda: os.symlink("x", "nl")); attempt("hard", lambda: os.link("n0", "nh"))
            """)
        result = run(place, ["--files", "10"], attack)
        same([result.tries["f%d" % i] for i in range(40)].count("ok"), 10, "files made")
        same({result.tries[label] for label in ("dir", "link", "hard")}, {"ENOSPC"}, "other kinds")
        check(any("limits.files" in line for line in result.refusals), "no refusal is told: %s" % result.refusals)
        same(len([n for n in os.listdir(place.ws) if n.startswith("n")]), 10, "files that the host sees")
        result = run_json(place, ["--files", "100"], inside_py("for i in range(40): put('nn%d' % i)"))
        same(result["usage"]["files"], {"used": 40, "limit": 100}, "files where they are allowed")


# ---- output ---------------------------------------------------------------------------------------------------------

@test("DOS-07 floods of output are cut at the limit, without growth of the tool")
def _():
    with Place() as place:
        for where, script in (("stdout", "yes"), ("stderr", "yes >&2"), ("no newline", "cat /dev/zero")):
            running = start(place, ["--json", "--output", "1M", "--timeout", "100s"], script)
            highest = 0

            def memory():
                with contextlib.suppress(OSError, TypeError):  # ended: no file, or nothing in it
                    return int(re.search(r"VmRSS:\s+(\d+)", read("/proc/%d/status" % running.pid).decode())[1])
                return 0
            drain = threading.Thread(target=running.process.stdout.read)
            drain_err, kept = None, []
            drain_err = threading.Thread(target=lambda: kept.append(running.process.stderr.read()))
            drain.start(), drain_err.start()
            highest = watch_host(running, memory)
            drain.join(), drain_err.join()
            result = json.loads(kept[0].decode(errors="replace").strip().splitlines()[-1])
            running._result(b"", kept[0])
            same((result["limit"], result["output_bytes"]), ("output", MIB), where)
            same(result["usage"]["output"], {"used": MIB, "limit": MIB}, where)
            check(highest < 16 << 10, "%s: the tool has grown to %d KiB" % (where, highest))
        result = run_json(place, ["--output", "4M"], "head -c 3000000 /dev/zero")
        same((result["status"], result["output_bytes"]), (0, 3000000), "output within the limit")


@test("DOS-08 a reader that stops holds the command back, and the time-out still fires")
def _():
    with Place() as place:
        running = start(place, ["--timeout", "1s"], "yes")
        check(until(lambda: running.process.poll() is not None), "it goes on while nobody reads")
        same(running.wait().status, TIMED_OUT, "status")


# ---- descriptors, time ----------------------------------------------------------------------------------------------

@test("DOS-10 descriptors stop at their limit, which cannot be raised")
def _():
    with Place() as place:
        attack = inside_py(r"""
            import resource
            def opens():
                kept = []
                try:
                    while len(kept) < 1000: kept.append(os.open("/dev/null", os.O_RDONLY))
                except OSError as error: tell("how", errno.errorcode[error.errno])
                return len(kept)
            tell("opened", opens())
            def lift(): resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
            try: lift(); tell("lift", "ok")
            except (ValueError, OSError): tell("lift", "refused")
            attempt("prlimit 1", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (4096, 4096)))
            """)
        result = run(place, ["--open-files", "64"], attack)
        same((result.tries["how"], result.tries["lift"]), ("EMFILE", "refused"), "the limit")
        check(int(result.tries["opened"]) <= 64, "%s descriptors" % result.tries["opened"])
        check(result.tries["prlimit 1"] != "ok", "the first process's limit was changed")
        same(run(place, ["--open-files", "2000"], attack).tries["opened"], "1000", "descriptors where they are allowed")


@test("CPU time of the whole tree ends the run, also of children that have ended")
def _():
    with Place() as place:
        burn = r"""
            def burn(seconds):
                end = time.process_time() + seconds
                while time.process_time() < end: pass
            for _ in range(int(arg[0])):
                pid = os.fork()
                if pid == 0: burn(0.25); os._exit(0)
                os.waitpid(pid, 0)
            """

        def once():
            result = run_json(place, ["--cpu-time", "1s", "--timeout", "100s"], inside_py(burn, 1000))
            same((result["status"], result["limit"], result["limit_value"]), (OVER_LIMIT, "cpu", 1000), "the end")
            return ended_by(result, "cpu", 1000)
        at_best(once, 2500, "milliseconds under a limit of 1000")
        result = run_json(place, ["--cpu-time", "1m"], inside_py(burn, 12))
        same(result["status"], 0, "status with more time")
        check(result["usage"]["cpu"]["used"] >= 2500, "%s" % result["usage"]["cpu"])


@test("a part of a CPU is a part where a control group holds it")
def _():
    with Place() as place:
        plan = json.loads(atoll(place, "run", "--plan", "--json", "--cpus", "0.1", "--", "true").out)
        line = next(c for c in plan["clauses"] if c["clause"] == "limits.cpus")
        if "cgroup" not in line["mechanism"]:
            same(line["note"], "no writable cgroup here; whole CPUs, so it is rounded up", "what the plan says where there is none")
            skip("a control group for CPUs")
        spin = inside_py("end = time.monotonic() + 2\nwhile time.monotonic() < end: pass")

        def share(flags):
            result = run_json(place, flags, spin)
            return result["cpu_ns"] / result["wall_ns"]
        check(share(["--cpus", "0.1"]) < 0.15, "more than a tenth of a CPU")
        # On a busy machine it may get little without the limit as well, though not each time.
        at_best(lambda: -share([]), -0.15, "of a CPU without the limit: this test shows nothing")


@test("DOS-11 a storm of syncs ends at the limits of disk and time")
def _():
    with Place(on_disk=True) as place:
        on_disk(place)
        place.expect("d")
        storm = inside_py(r"""
            import mmap
            x = mmap.mmap(-1, 4096)
            fd = os.open("d", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
            i = 0
            while True:
                os.pwrite(fd, x, (i * 7919 % 512) * 4096)
                if i % 64 == 0: os.fsync(fd)
                i += 1
            """)
        result = run_json(place, ["--disk", "4M", "--timeout", "20s"], storm)
        among(result["limit"], ("disk", "wall"), "what ended it")
        check(result["wall_ns"] < 100e9, "it took %.1f s" % (result["wall_ns"] / 1e9))


# ---- what the kernel counts for each user ---------------------------------------------------------------------------

@test("DOS-13 the caller keeps a share of what the kernel counts for each user")
def _():
    with Place() as place:
        place.expect("up", "go")
        running = start(place, ["--pids", "64"], inside_py(r"""
            import resource
            libc.inotify_init.restype = ctypes.c_int
            watchers = 0
            while libc.inotify_init() >= 0: watchers += 1
            queued = 0
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
            while queued < 200000 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(0)) == 0: queued += 1
            tell("inotify", watchers); tell("signals", queued); tell("queue bytes", resource.getrlimit(12)[1])
            kids = 0
            try:
                while kids < 200:
                    if os.fork() == 0: time.sleep(600); os._exit(0)
                    kids += 1
            except OSError: pass
            put("up")
            while not os.path.exists("go"): time.sleep(0.02)
            """))
        wait_file(place, "up")
        # Meanwhile the same user works outside.
        libc = ctypes.CDLL(None, use_errno=True)
        kept = [libc.inotify_init() for _ in range(8)]
        check(min(kept) >= 0, "the host's user gets no inotify instance any more")
        for fd in kept:
            os.close(fd)
        same(subprocess.run(["true"]).returncode, 0, "a process of the host's user")
        name = ctypes.c_char_p(("/atoll-test-" + place.token).encode())
        libc.mq_open.restype = ctypes.c_int
        queue = libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)
        check(queue >= 0, "the host's user gets no message queue any more")
        os.close(queue)
        libc.mq_unlink(name)
        write(place.ws + "/go")
        result = running.wait()
        import resource
        own = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
        check(int(result.tries["signals"]) <= min(4096, own // 2), "%s of %d signals" % (result.tries["signals"], own))
        check(int(result.tries["queue bytes"]) <= resource.getrlimit(12)[1] // 2, "%s bytes of queues" % result.tries["queue bytes"])
        most = int(read("/proc/sys/fs/inotify/max_user_instances"))
        check(int(result.tries["inotify"]) <= most // 2, "%s of %d inotify instances" % (result.tries["inotify"], most))


@test("DOS-14 the tool opens nothing that a run packs")
def _():
    # Bombs are for whoever unpacks them. What the tool reads of a workspace are git's own files, which are bounded.
    with Place(on_disk=True) as place:
        place.expect("*.gz", "bomb*", ".git/*.lock")
        result = run(place, ["--disk", "64M"], inside_py(r"""
            import gzip, subprocess
            with gzip.open("bomb.gz", "wb", 9) as file:
                for _ in range(64): file.write(bytes(1 << 20))
            put("bomb.json", b"[" * 1000000)
            fd = os.open(".git/index.lock", os.O_WRONLY | os.O_CREAT)
            os.ftruncate(fd, 40 << 20); os.close(fd)
            attempt("index", lambda: os.rename(".git/index.lock", ".git/index"))
            fd = os.open(".git/config.lock", os.O_WRONLY | os.O_CREAT)
            os.write(fd, b"[a]\n" * 1000000); os.close(fd)
            attempt("config", lambda: os.rename(".git/config.lock", ".git/config"))
            """))
        result.refused("index", "config", how=("EPERM", "EFBIG", "EACCES"))
        done = run(place, ["-f", place.ws + "/bomb.json"], None, starts=False)
        among(done.status, NOT_STARTED, "a job file that is a bomb")


@test("DOS-16 set-up on odd places ends, and can be interrupted")
def _():
    with Place() as place:
        done = run(place, ["--workspace", "/proc", "--chdir", "/proc"], "true", starts=False)
        among(done.status, (*NOT_STARTED, 0), "/proc as workspace")
        os.makedirs(place.ws + "/many")
        for i in range(3000):
            os.mkdir(place.ws + "/many/%d" % i)
        place.expect("many")
        result = run(place, ["--hide", "**/.env"], "true")
        same(result.status, 0, "a pattern over 3000 directories")
        check(result.seconds < 60, "it took %.1f s" % result.seconds)
        running = start(place, ["--hide", "**/.env"], ["sleep", "600"])
        running.process.send_signal(signal.SIGINT)
        check(until(lambda: running.process.poll() is not None), "it cannot be interrupted")
        running.kill()


# ---- control groups -------------------------------------------------------------------------------------------------

def groups():
    """Control groups of runs that this host has now."""
    found = []
    for where, directories, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(where, d) for d in directories if d.startswith("atoll-")]
    return found


@test("groups of runs that were killed are removed by the next, and those in use are not")
def _():
    with Place() as place:
        plan = json.loads(atoll(place, "run", "--plan", "--json", "--", "true").out)
        if not any("cgroup" in clause["mechanism"] for clause in plan["clauses"]):
            skip("a writable control group")
        living, killed = start(place, [], ["sleep", "600"]), start(place, [], ["sleep", "600"])
        mine = {"living": living, "killed": killed}

        def of(name):
            return [g for g in groups() if "/atoll-%d-" % mine[name].pid in g]
        check(until(lambda: of("living") and of("killed")), "no control group, and the plan names one")
        killed.kill()
        same(processes_left(), {}, "processes")
        run(place, [], "true")
        same(of("killed"), [], "groups of the killed run")
        check(of("living"), "the group of a living run was removed")
        living.kill()
        run(place, [], "true")


def own_group():
    """Ours in a hierarchy of version 2 that is where one usually is."""
    with open("/proc/self/mountinfo") as file:
        if not any(" - cgroup2 " in line and line.split()[4] == "/sys/fs/cgroup" for line in file):
            skip("a cgroup v2 hierarchy at /sys/fs/cgroup")
    with open("/proc/self/cgroup") as file:
        return "/sys/fs/cgroup" + re.search("^0::(.*)$", file.read(), re.M)[1]


@test("cgroup v2: what systemd has delegated hands controllers down by our order, and nothing above is used")
def _():
    own = own_group()
    unit = "%s/test-delegated-%d" % (os.path.dirname(own), os.getpid())
    try:
        os.makedirs(unit + "/main")
        os.setxattr(unit, "user.delegate", b"1")
        write(unit + "/main/cgroup.procs", str(os.getpid()))
    except OSError as error:
        shutil.rmtree(unit, ignore_errors=True)
        skip("a group that can be delegated: %s" % error)
    try:
        with Place() as place:
            same(read(unit + "/cgroup.subtree_control").strip(), b"", "before")
            # Somebody in the group itself: the kernel lets it hand nothing down.
            sleeper = subprocess.Popen(["sleep", "600"])
            write(unit + "/cgroup.procs", str(sleeper.pid))
            plan = json.loads(atoll(place, "run", "--plan", "--json", "--", "true").out)
            way = {c["clause"]: c["mechanism"] for c in plan["clauses"]}["limits.memory"]
            sleeper.kill()
            sleeper.wait()
            check("cgroup" not in way, "memory is held above what was delegated: " + way)
            running = start(place, ["--memory", "64M"], ["sleep", "600"])
            check(until(lambda: glob.glob("%s/atoll-%d-*" % (unit, running.pid))), "its group is elsewhere: %s" % groups())
            made = glob.glob("%s/atoll-%d-*" % (unit, running.pid))[0]
            same(read(made + "/memory.max").strip(), b"%d" % (64 * MIB), "memory.max")
            check(until(lambda: read(made + "/cgroup.procs").split()), "nobody is in it")
            running.kill()
            run(place, [], "true")
    finally:
        write(own + "/cgroup.procs", str(os.getpid()))
        for where, _, _ in os.walk(unit, topdown=False):
            check(until(lambda: removed(where)), "%s is left" % where)


def removed(group):
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


@test("cgroup v2: born in a group with memory, processes and CPUs, counted exactly")
def _():
    own_group()
    with Place() as place:
        plan = json.loads(atoll(place, "run", "--plan", "--json", "--cpus", "0.5", "--", "true").out)
        ways = {c["clause"]: c["mechanism"] for c in plan["clauses"]}
        if "cgroup v2" not in ways["limits.memory"]:
            skip("a writable v2 group with memory and pids")
        same(ways["limits.memory"], "cgroup v2 memory.max", "memory")
        same(ways["limits.pids"], "cgroup v2 pids.max", "pids")
        check("cgroup v2 cpu.stat" in ways["limits.cpu"], ways["limits.cpu"])
        result = run_json(place, ["--memory", "64M"], inside_py(EATERS["many processes"]))
        same((result["status"], result["limit"]), (OUT_OF_MEMORY, "memory"), "out of memory")
        check(60 * MIB <= result["usage"]["memory"]["used"] <= 65 * MIB, "%s" % result["usage"]["memory"])
        # Children that nobody waits for are in the kernel's count.
        result = run_json(place, ["--cpu-time", "1s", "--timeout", "100s"], inside_py(r"""
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for _ in range(2000):
                if os.fork() == 0:
                    end = time.process_time() + 0.004
                    while time.process_time() < end: pass
                    os._exit(0)
                time.sleep(0.004)
            """))
        same(result["limit"], "cpu", "CPU time of children that nobody waits for: %s" % result["usage"]["cpu"])


@test("unlimited lifts every limit, and every default is one")
def _():
    with Place() as place:
        flags = ["--timeout", "--cpu-time", "--memory", "--pids", "--disk", "--files", "--open-files", "--output"]
        result = run_json(place, [word for flag in flags for word in (flag, "unlimited")], "true")
        same({u["limit"] for u in result["usage"].values()}, {None}, "limits when all are lifted")
        result = run_json(place, [], "true")
        check(all(u["limit"] for u in result["usage"].values()), "a default without a limit: %s" % result["usage"])


main()
