#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 50
# check: bare apparmor container
"""
Without user namespaces: what holds all the same, what does not and is said, and the end of everything

The other families run there, too: `tools/check "security, bare"`. Here is what only that way of running has.
"""

import os
import sys

os.environ.setdefault("ATOLL_BARE", "1")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from terminal import Terminal, state

HELPER = os.path.join(os.path.dirname(os.path.abspath(bare.__file__)), "bare.py")


def private_dirs():
    found = set()
    for path in _glob("/tmp/atoll-bare-*") + _glob("/var/tmp/atoll-bare-*"):
        with contextlib.suppress(FileNotFoundError):  # another test's, which has ended
            if os.stat(path).st_uid == os.geteuid():
                found.add(path)
    return found


def _glob(pattern):
    import glob
    return glob.glob(pattern)


def ours(run, wanted):
    """The warden ("atoll-warden") or the guard ("atoll-init") of a run, as pid."""
    def find():
        return [pid for pid, name in descendants_of(run.pid).items() if name == wanted]
    found = until(find)
    check(found, "no %s in %s" % (wanted, descendants_of(run.pid)))
    return found[0]


def descendants_of(top):
    parent, name = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                with open("/proc/%s/stat" % entry, errors="replace") as file:
                    text = file.read()
                parent[int(entry)] = int(text[text.rindex(")") + 2:].split()[1])
                name[int(entry)] = text[text.index("(") + 1:text.rindex(")")]
    found = {top}
    while True:
        more = {pid for pid, above in parent.items() if above in found} - found
        if not more:
            return {pid: name[pid] for pid in found - {top}}
        found |= more


@contextlib.contextmanager
def bystander(*argv):
    """A process of the same user's that has nothing to do with a run."""
    process = subprocess.Popen(argv)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@test("BARE-01 refused in one line that names the fix and every word, until each is accepted")
def _():
    with Place() as place:
        result = Running(place, [ATOLL, "run", "--direct", "--", "true"], starts=False).wait()
        same(result.status, HOST_CANNOT, "status")
        same(len(result.err.strip().splitlines()), 1, "lines")
        # Under AppArmor namespaces can be made, and mount(2) in them is what is refused.
        fix = ("mount(2)", "AppArmor") if bare.KIND == "apparmor" else ("user namespaces", "max_user_namespaces")
        check(all(word in result.err for word in fix), result.err)
        for word in bare.WORDS:
            check("--accept-weaker %s" % word in result.err, "%s is not named" % word)
        for left in bare.WORDS:
            some = [part for word in bare.WORDS if word != left for part in ("--accept-weaker", word)]
            result = Running(place, [ATOLL, "run", "--direct", *some, "--", "true"], starts=False).wait()
            same(result.status, HOST_CANNOT, "status without %s" % left)
            check("--accept-weaker %s" % left in result.err and "--accept-weaker %s" % some[1] not in result.err, result.err)
        same(run(place, [], "true").status, 0, "with all of them")


@test("BARE-02 the plan marks what is weaker, and the doctor says how to mend it")
def _():
    for statement in (bare.SEEN, bare.PROC, bare.PROCESSES, bare.PIDS, bare.PRIVATE, bare.NETWORK, bare.CALLS, bare.DEVICES,
                      ("filesystem.hide", "that it is there is not", "weaker")):
        wrong = bare.says(statement)
        check(not wrong, wrong)
    with Place() as place:
        told = atoll(place, "doctor")
        same(told.status, HOST_CANNOT, "status")
        fix = "AppArmor" if bare.KIND == "apparmor" else "sysctl"
        check("accept-weaker hide, processes, pids." in told.out and fix in told.out, told.out)


@test("BARE-03 where AppArmor takes the rights, and where a container's filter refuses")
def _():
    # On top of what we are in already; `tools/check` runs this whole file in each kind of host as well.
    for kind in ("apparmor", "container"):
        with Place() as place:
            place.expect("made")
            result = Running(place, [PYTHON, HELPER, kind, *ATOLL_RUN, "--", "/bin/sh", "-c",
                                     "echo x >made; cat made; cat %s/canary | wc -c" % place.out]).wait()
            same((result.status, result.out.split()), (0, ["x", "0"]), kind)


@test("BARE-04 signals reach nobody outside, however they are sent")
def _():
    with Place() as place:
        other = subprocess.Popen(["sleep", "600"])
        try:
            result = run(place, [], inside_py("""
                outside = int(arg[0])
                attempt("kill", lambda: os.kill(outside, 9))
                attempt("kill 0", lambda: os.kill(outside, 0))
                attempt("tgkill", lambda: syscall(234, outside, outside, 9))
                attempt("group", lambda: os.kill(-outside, 9))
                attempt("queue", lambda: syscall(129, outside, 9, ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1), 128)))
                attempt("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(outside), 9))
                attempt("parent", lambda: os.kill(os.getppid(), 9))
                r, w = os.pipe()
                import fcntl
                def owner():
                    fcntl.fcntl(r, fcntl.F_SETOWN, outside); fcntl.fcntl(r, 10, 9)
                    fcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | os.O_ASYNC); os.write(w, b"x")
                    raise PermissionError(errno.EPERM, "sent, perhaps")
                attempt("F_SETOWN", owner)
                attempt("ptrace", lambda: syscall(101, 16, outside, 0, 0))
                attempt("renice", lambda: os.setpriority(os.PRIO_PROCESS, outside, 19))
                attempt("renice all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
                attempt("affinity", lambda: os.sched_setaffinity(outside, [0]))
                attempt("policy", lambda: os.sched_setscheduler(outside, os.SCHED_IDLE, os.sched_param(0)))
                attempt("ioprio", lambda: syscall(251, 1, outside, 3 << 13))
            """, other.pid))
            result.refused(how=("EPERM", "EACCES", "ESRCH"))
            result = run(place, [], inside_sh("sleep 600 & kill -9 -1; echo survived"))
            check(other.poll() is None, "the other process was killed")
            same(os.getpriority(os.PRIO_PROCESS, other.pid), os.getpriority(os.PRIO_PROCESS, 0), "its priority")
        finally:
            other.kill()
            other.wait()


@test("BARE-05 the user's other processes: not their command lines, environment, memory, files or sockets")
def _():
    with Place() as place:
        other = subprocess.Popen(["sleep", "600", place.secret][:2], env={"TOKEN": place.secret}, cwd=place.out)
        named = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(600)", place.secret])
        try:
            result = run(place, [], inside_py("""
                for pid in arg:
                    for name in ("cmdline", "environ", "maps", "mem", "stat", "status", "auxv", "fd", "root/etc/passwd", "cwd/canary",
                                 "exe", "task/%s/cmdline" % pid, "io", "wchan", "cgroup", "net/tcp"):
                        attempt("%s %s" % (pid, name), lambda: sys.stdout.buffer.write(get("/proc/%s/%s" % (pid, name))))
                attempt("own network", lambda: get("/proc/self/net/unix"))
                attempt("net", lambda: get("/proc/net/tcp"))
                for name in ("keys", "interrupts", "timer_list"):
                    if os.path.exists("/proc/" + name): attempt(name, lambda: get("/proc/" + name))
            """, other.pid, named.pid, 1))
            result.refused(how=GONE + ("ESRCH", "EIO", "EINVAL"))
            result = run(place, [], inside_py("""
                attempt("own", lambda: get("/proc/self/cmdline") or 1/0)
                attempt("machine", lambda: get("/proc/meminfo") or 1/0)
                attempt("child", lambda: os.listdir("/proc/%d/fd" % os.getpid()) or 1/0)
            """))
            result.allowed("own", "machine", "child")
        finally:
            for process in (other, named):
                process.kill()
                process.wait()


@test("BARE-06 no attribute of the host's files changes, by any call")
def _():
    with Place() as place:
        before = os.stat(place.out + "/canary")
        result = run(place, ["--read", place.out], inside_py("""
            path = arg[0] + "/canary"; fd = os.open(path, os.O_RDONLY); where = os.open(path, O_PATH)
            attempt("utime", lambda: os.utime(path, (1, 1)))
            attempt("utime by fd", lambda: os.utime(fd, (1, 1)))
            attempt("utime by path fd", lambda: os.utime("/proc/self/fd/%d" % where, (1, 1)))
            attempt("utimes", lambda: syscall(235, path.encode(), 0))
            attempt("utime, old", lambda: syscall(132, path.encode(), 0))
            attempt("futimesat", lambda: syscall(261, AT_FDCWD, path.encode(), 0))
            attempt("chown", lambda: os.chown(path, -1, os.getgid()))
            attempt("fchown", lambda: os.chown(fd, -1, os.getgid()))
            attempt("lchown", lambda: os.lchown(path, -1, os.getgid()))
            attempt("chmod", lambda: os.chmod(path, 0o600))
            attempt("fchmod", lambda: os.chmod(fd, 0o600))
            attempt("fchmodat2", lambda: syscall(452, where, b"", 0o600, AT_EMPTY_PATH))
            attempt("truncate", lambda: os.truncate(path, 0))
            attempt("setxattr", lambda: os.setxattr(path, "user.x", b"x"))
            attempt("fsetxattr", lambda: os.setxattr(fd, "user.x", b"x"))
            attempt("home", lambda: os.utime(arg[1], (1, 1)))
            attempt("the workspace's name", lambda: os.rename(os.getcwd(), os.getcwd() + "-moved"))
            attempt("the workspace itself", lambda: os.rmdir(os.getcwd()))
        """, place.out, place.home))
        result.refused(how=GONE + ("ENOSYS", "EBUSY"))
        after = os.stat(place.out + "/canary")
        same((after.st_mtime_ns, after.st_ctime_ns, after.st_mode, after.st_size), (before.st_mtime_ns, before.st_ctime_ns, before.st_mode, before.st_size),
             "the canary")
        place.expect("mine")
        result = run(place, [], inside_py("""
            put("mine"); attempt("own times", lambda: os.utime("mine", (1, 1))); attempt("own owner", lambda: os.chown("mine", -1, os.getgid()))
            temp = os.environ["TMPDIR"] + "/t"; put(temp)
            attempt("private times", lambda: os.utime(temp, (1, 1))); attempt("private mode", lambda: os.chmod(temp, 0o600))
            attempt("private length", lambda: os.truncate(temp, 0))
        """))
        result.allowed("own times", "own owner", "private times", "private mode", "private length")
        same(int(os.stat(place.ws + "/mine").st_mtime), 1, "times in the workspace")


@test("BARE-07 everything ends, whichever of atoll's processes is killed")
def _():
    daemon = r"""
        for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' & done
        mkdir -p $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b; touch ready; sleep 600"""
    for victim in ("supervisor", "atoll-warden", "atoll-init"):
        with Place() as place:
            place.expect("ready")
            before = private_dirs()
            running = start(place, [], daemon)
            wait_file(place, "ready")
            made = private_dirs() - before
            check(made, "no private directory")
            everybody = set(descendants_of(running.pid))
            check(len(everybody) >= 6, "processes: %s" % everybody)
            if victim == "supervisor":
                running.kill()
            else:
                os.kill(ours(running, victim), signal.SIGKILL)
                running.process.wait(RUN_SECONDS)
            check(until(lambda: not processes_left(0)), "after the %s was killed: %s" % (victim, processes_left()))
            check(until(lambda: not any(map(os.path.exists, made))), "the private directory is left after the %s" % victim)


@test("BARE-08 a fork bomb ends at once and whole")
def _():
    with Place() as place:
        place.expect("bomb", "full")
        program = build_c(place, "bomb", r"""
            #include <fcntl.h>
            #include <signal.h>
            #include <unistd.h>
            int main(void) {
                signal(SIGTERM, SIG_IGN);
                for (;;) { int pid = fork(); if (pid < 0) creat("full", 0644); if (pid == 0) { setsid(); } else if (fork() == 0) _exit(0); } }""")

        def once(limit):
            result = run(place, ["--pids", "200", "--timeout", limit], [program])
            same(result.status, TIMED_OUT, "status")
            same(processes_left(), {}, "left")
            return os.path.exists(place.ws + "/full")
        in_time(once, "300ms", "1s", "5s")


@test("BARE-09 both killed in one instant: still locked in, and ended by the supervisor, or by the next run")
def _():
    def once(survives):
        with Place() as place:
            place.expect("ready", "go")
            before = private_dirs()
            running = start(place, [], "touch ready; (until [ -e go ]; do sleep 0.1; done; echo x >late; echo x >%s/canary) & sleep 600" % place.out)
            wait_file(place, "ready")
            made = private_dirs() - before
            both = [ours(running, name) for name in ("atoll-warden", "atoll-init")]
            for number in (signal.SIGSTOP, signal.SIGKILL):
                if not survives:
                    os.kill(running.pid, number)
                for pid in both:
                    os.kill(pid, number)
            write(place.ws + "/go")
            running.process.wait(RUN_SECONDS)
            left = processes_left(0.1) if not survives else {}
            if left:
                time.sleep(1.5)
            if not survives:
                run(place, [], "true")
            check(not os.path.exists(place.ws + "/late"), "it wrote without the guard")
            same(processes_left(), {}, "left")
            check(until(lambda: not any(map(os.path.exists, made))), "the private directory is left")
            return left
    once(True)
    # The next run may be one of another test's.
    at_best(lambda: not once(False), True, "nothing is left: this shows nothing")


@test("BARE-10 hidden names in what is shown: content never, also by patterns, and what is beside them works")
def _():
    with Place() as place:
        write(place.ws + "/deep/.env", place.secret + "\n")
        write(place.ws + "/deep/open", "fine\n")
        write(place.ws + "/keys/one", place.secret + "\n")
        place.settle()
        place.expect("later", "later/*", "deep/new")
        result = run(place, ["--hide", place.ws + "/keys", "--hide", "**/.env"], inside_py("""
            for name in ("deep/.env", "keys/one", "keys", "./deep/../deep/.env", "/proc/self/cwd/deep/.env"):
                attempt(name, lambda: print(os.listdir(name) if os.path.isdir(name) else get(name)))
            path = os.open("deep/.env", O_PATH)
            attempt("reopened", lambda: get("/proc/self/fd/%d" % path))
            attempt("mapped", lambda: syscall(59, b"deep/.env", 0, 0))
            attempt("linked", lambda: os.link("deep/.env", "x"))
            attempt("moved", lambda: os.rename("deep/.env", "x"))
            attempt("watched", lambda: syscall(254, libc.inotify_init(), b"keys", 0xfff))
        """))
        result.refused()
        result = run(place, ["--hide", place.ws + "/keys", "--hide", "**/.env"],
                     "cat deep/open; echo n >deep/new; cat deep/new; ls deep; mkdir later; echo y >later/f; cat later/f; git status --short | head -3")
        same(result.status, 0, "beside them")
        check("fine" in result.out and "n\n" in result.out and "y" in result.out, result.out)


@test("BARE-10 what a pattern hides is not read while its directory is elsewhere")
def _():
    with Place() as place:
        place.expect("*")
        write(place.ws + "/a/secret.txt", place.secret)
        place.settle()
        attack = inside_py(r"""
            os.mkdir("deep")
            attempt("in place", lambda: get("a/secret.txt"))
            attempt("moved", lambda: os.rename("a", "deep/a")); attempt("read", lambda: print(get("deep/a/secret.txt")))
            attempt("exchanged", lambda: (os.makedirs("x/y"), syscall(316, AT_FDCWD, b"a", AT_FDCWD, b"x/y", 2))); attempt("read", lambda: print(get("x/y/secret.txt")))
        """)
        result = run(place, ["--hide", "*/secret.txt"], attack)
        result.refused("in place", "moved", "exchanged")
        check(place.secret not in result.out, "the hidden file was read")


@test("BARE-11 the contract can be read inside, and not changed")
def _():
    with Place() as place:
        result = run(place, [], 'cat "$ATOLL_CONTRACT"; cd "${ATOLL_CONTRACT%/*}"; ls; (echo x >contract.md); rm -f contract.md contract.json; '
                                'mv tmp home/; mkdir x; cd; pwd; git config user.name; python3 -c "import tempfile; print(tempfile.gettempdir())"')
        check("no namespaces" in result.out and "$TMPDIR" in result.out, result.out)
        check("contract.json\ncontract.md\nhome\ntmp\n" in result.out, result.out)
        among(result.err.count("Permission denied") >= 5, (True,), result.err)
        check(re.search("^(/var)?/tmp/atoll-bare-[^/]*/home$", result.out, re.M) and re.search("^(/var)?/tmp/atoll-bare-[^/]*/tmp$", result.out, re.M), result.out)


MIB = 1 << 20


@test("BARE-12 memory, CPU time and what is written are bounded for the whole tree, private places included")
def _():
    def fill(where):
        return """
            for i in range(8):
                if os.fork() == 0:
                    while True:
                        for j in range(8):
                            put("%%s/d%%d-%%d" %% (%s, i, j), bytes(1 << 20)); time.sleep(0.02)
            try:
                while True: os.wait()
            except ChildProcessError: pass""" % where

    def once(what, limit, value, end, code):
        with Place() as place:
            place.expect("d*")
            given = "%ds" % (value // 1000) if limit == "cpu" else str(value)
            # Of a user who does other things meanwhile: only the sandbox is counted.
            with bystander(PYTHON, "-c", "import time; kept = bytearray(200 << 20)\nwhile True: time.sleep(600)"):
                idle = run(place, ["--json", "--memory", str(64 * MIB)], "sleep 0.5")
                same(idle.status, 0, "a small one beside a large one")
                result = run(place, ["--json", "--" + {"cpu": "cpu-time"}.get(limit, limit), given, "--timeout", "100s"], inside_py(code))
            same(result.status, end, "%s: %s" % (what, result.err[-300:]))
            told = json.loads(result.err.strip().splitlines()[-1])
            same((told["limit"], told["limit_value"]), (limit, value), "the limit that ended it: " + what)
            check(value <= told["limit_used"], "%s: %d of %d" % (what, told["limit_used"], value))
            same(processes_left(), {}, "left")
            return told["limit_used"] / value
    for case in (
            ("disk", "disk", 8 * MIB, OVER_LIMIT, fill("'.'")),
            ("disk in private", "disk", 8 * MIB, OVER_LIMIT, fill("os.environ['TMPDIR']")),
            ("memory", "memory", 64 * MIB, OUT_OF_MEMORY, """
                for i in range(8):
                    if os.fork() == 0:
                        kept = bytearray(os.urandom(1 << 20) * 20); time.sleep(600); os._exit(0)
                time.sleep(600)"""),
            ("cpu", "cpu", 1000, OVER_LIMIT, """
                for i in range(2):
                    if os.fork() == 0:
                        while True: pass
                time.sleep(600)""")):
        at_best(lambda: once(*case), 8, "%s: times the limit" % case[0])


@test("BARE-13 stopping and asking to end reach the sandbox alone, and a stopped one ends as well")
def _():
    command = inside_py("""
        signal.signal(signal.SIGTERM, lambda *_: (put("asked"), os._exit(7)))
        if os.fork() == 0:
            os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else: put("up")
        while True: time.sleep(0.01)""")
    for victim in ("", "supervisor", "atoll-warden", "atoll-init"):
        with Place() as place, bystander("sleep", "600") as other:
            place.expect("up", "asked")
            before = private_dirs()
            running = start(place, [], command)
            wait_file(place, "up")
            made = private_dirs() - before
            keepers = [ours(running, name) for name in ("atoll-warden", "atoll-init")]
            inside = [pid for pid in descendants_of(keepers[0]) if pid not in keepers]  # atoll has a child more, which reads programs for their hash
            for _ in range(2):
                os.kill(running.pid, signal.SIGTSTP)
                check(until(lambda: state(running.pid) == "T"), "atoll did not stop")
                check(until(lambda: all(state(pid) == "T" for pid in inside)), "it goes on inside")
                check(all(state(pid) not in "Tt" for pid in [*keepers, other.pid]), "somebody else was stopped")
                if victim:
                    break
                os.kill(running.pid, signal.SIGCONT)
                check(until(lambda: all(state(pid) in "SR" for pid in inside)), "it does not go on inside")
            if not victim:
                os.kill(running.pid, signal.SIGTERM)
                same(running.wait().status, 7, "status of a command that was asked to end")
            elif victim == "supervisor":
                running.kill()
            else:
                os.kill(ours(running, victim), signal.SIGKILL)
                check(until(lambda: not any(state(pid) for pid in inside)), "it lives on after the %s" % victim)
                os.kill(running.pid, signal.SIGCONT)
                running.process.wait(RUN_SECONDS)
            check(until(lambda: set(processes_left(0)) == {other.pid}), "after the %s: %s" % (victim or "end", processes_left(0)))
            check(until(lambda: not any(map(os.path.exists, made))), "the private directory is left after the %s" % (victim or "end"))

    def too_late(limit):
        with Place() as place, bystander("sleep", "600") as other:
            place.expect("up", "asked")
            result = run(place, ["--timeout", limit, "--grace", "10s"], command)
            same(result.status, TIMED_OUT, "status")
            if not os.path.exists(place.ws + "/up"):
                return False
            check(os.path.exists(place.ws + "/asked"), "nobody was asked")
            check(other.poll() is None and state(other.pid) not in "Tt", "the other process heard of it")
            return True
    in_time(too_late)


@test("BARE-14 on a terminal the command gets pipes, and is refused if it must have one")
def _():
    with Place() as place:
        with Terminal(place, [*ATOLL_RUN, "--", "/bin/sh", "-c", "test -t 0 || test -t 1 || echo no term''inal; cat"]) as terminal:
            terminal.expect("no terminal")
            terminal.send("through\r\x04")
            terminal.expect("through")
            terminal.expect("through")
            same(terminal.process.wait(RUN_SECONDS), 0, "status")
        result = Running(place, [*ATOLL_RUN, "--tty", "--", "true"], starts=False).wait()
        same(result.status, HOST_CANNOT, "status with --tty")
        check("terminal" in result.err, result.err)


def accepted(*more):
    return [part for word in (*bare.WORDS, *more) for part in ("--accept-weaker", word)]


def network_job(place, network, name="job.yaml"):
    return ["-f", job_file(place, {"network": network}, name)]


@test("BARE-15 a network is one proxy, to be accepted by name, and nothing can be published")
def _():
    with Place() as place:
        job = network_job(place, {"allow": ["good.test"]})
        result = Running(place, [ATOLL, "run", "--direct", *accepted(), *job, "--", "true"], starts=False).wait()
        same(result.status, HOST_CANNOT, "status")
        check("--accept-weaker network" in result.err and "--accept-weaker hide" not in result.err, result.err)
        told = Running(place, [ATOLL, "run", "--direct", "--plan", "--json", *accepted("network"), *job, "--", "true"], starts=False).wait()
        lines = {line["clause"]: line for line in json.loads(told.out)["clauses"]}
        same(lines["network"]["strength"], "weaker", "the plan")
        check("no proxy" in lines["network"]["note"], lines["network"])
        same(lines["network.allow"]["subject"], "good.test", "the rule")
        result = Running(place, [ATOLL, "run", "--direct", *accepted("network"), *network_job(place, {"listen": [8080]}, "listen.yaml"), "--", "true"],
                         starts=False).wait()
        same(result.status, HOST_CANNOT, "status of a published port")
        check("published" in result.err, result.err)


@test("BARE-16 with a network nothing but the proxy is connected to, and nothing listens on the host")
def _():
    with Place() as place, Sink(place) as sink:
        place.expect("own.sock")
        code = r"""
            import socket as s, threading, urllib.parse
            at = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
            def dial(host, port, family=s.AF_INET, kind=s.SOCK_STREAM):
                c = s.socket(family, kind); c.settimeout(5); c.connect((host, port)); return c
            attempt("the proxy", lambda: dial(at.hostname, at.port))
            attempt("the proxy, mapped", lambda: dial("::ffff:127.0.0.1", at.port, s.AF_INET6))
            def own():
                a = s.socket(s.AF_UNIX); a.bind("own.sock"); a.listen(); b = s.socket(s.AF_UNIX); b.connect("own.sock"); a.accept()
            attempt("a server by path", own)
            print("token", bool(at.password), flush=True)
            for host, port in (("127.0.0.1", int(arg[0])), ("127.0.0.2", at.port), ("0.0.0.0", at.port), ("1.1.1.1", at.port), ("1.1.1.1", 443),
                               ("127.0.0.1", at.port + 1), ("10.0.0.1", 80)):
                attempt("no %s %d" % (host, port != at.port), lambda: dial(host, port))
            attempt("no ::1", lambda: dial("::1", at.port, s.AF_INET6))
            if arg[1] != "None":
                attempt("no sink6", lambda: dial("::1", int(arg[1]), s.AF_INET6))
            attempt("no UDP", lambda: dial("127.0.0.1", int(arg[2]), kind=s.SOCK_DGRAM))
            attempt("no bind", lambda: s.socket().bind(("127.0.0.1", 0)))
            attempt("no bind6", lambda: s.socket(s.AF_INET6).bind(("::", 0)))
            attempt("no listen", lambda: s.socket().listen())
            attempt("no listen6", lambda: s.socket(s.AF_INET6).listen())
            attempt("no raw", lambda: s.socket(s.AF_INET, s.SOCK_RAW, 1))
            attempt("no fast open", lambda: s.socket().sendto(b"x", 0x20000000, ("127.0.0.1", int(arg[0]))))
            # A descriptor that changes meanwhile: the address is read once, and the socket asked what it is.
            one, two = s.socket(s.AF_UNIX), s.socket()
            stop = []
            def flip():
                while not stop: os.dup2(one.fileno(), 77); os.dup2(two.fileno(), 77)
            os.dup2(one.fileno(), 77)
            t = threading.Thread(target=flip); t.start()
            for _ in range(300):
                try: syscall(50, 77, 5)
                except OSError: pass
            stop.append(1); t.join()
            tell("no listening", "ok" if two.getsockopt(s.SOL_SOCKET, s.SO_ACCEPTCONN) else "EPERM")
            """
        result = run(place, [*accepted("network"), *network_job(place, {"allow": ["good.test"]})],
                     inside_py(code, sink.tcp4, sink.tcp6, sink.udp4))
        result.allowed("the proxy", "the proxy, mapped", "a server by path")
        check("token True" in result.out, result.out)
        result.refused(*[name for name in result.tries if name.startswith("no ")],
                       how=("ECONNREFUSED", "EPERM", "EACCES", "EAFNOSUPPORT", "EOPNOTSUPP"))
        same(sink.log, [], "what arrived")
        check("connect 1.1.1.1:443: not allowed (network)" in result.err, result.err)


@test("BARE-17 the run's authority is in the private directory, and variables name it there")
def _():
    with Place() as place:
        job = network_job(place, {"allow": [{"host": "good.test", "paths": ["/**"]}]})
        result = run(place, [*accepted("network"), *job], 'cd "${ATOLL_CONTRACT%/*}"; ls; grep -c BEGIN ca.pem; (echo x >ca.pem); '
                     'test "$SSL_CERT_FILE" = "$PWD/ca-bundle.pem" && grep -q CERT "$SSL_CERT_FILE" && echo named')
        check("ca-bundle.pem\nca.pem\n" in result.out and "\n1\n" in result.out and "named" in result.out, result.out)
        check("ermission denied" in result.err, result.err)


main()
