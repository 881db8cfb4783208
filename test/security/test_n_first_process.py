# SPDX-License-Identifier: Apache-2.0
"""
The first process: its filter of system calls and its capabilities, as the host sees them

What the filter refuses is tried by src/isolate/ns/test-first.c, as nobody inside can make pid 1 do a call of their choice. Here: that every
pid 1 has one, also after its templates were killed, and that steps which inherit it can do what they could.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from lib import *
from v1 import V1
from watching import *

CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SYS_PTRACE, CAP_SYS_ADMIN = 2, 5, 19, 21


def status_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def below(pid):
    found = [pid]
    for child in children(pid):
        found += below(child)
    return found


def first_of(pid):
    """Pid 1 of the sandbox beneath a process of the host; status is readable for everybody."""
    depth = len(status_of(os.getpid())["NSpid"].split())
    for process in below(pid):
        with contextlib.suppress(OSError):
            numbers = status_of(process)["NSpid"].split()
            if len(numbers) > depth and numbers[-1] == "1":
                return process
    return None


def named(top, name):
    for pid in below(top):
        with contextlib.suppress(OSError):
            if read("/proc/%d/comm" % pid).strip() == name:
                return pid
    return None


def need_namespaces():
    if BARE:
        skip("namespaces")


def check_first(pid, capabilities=None):
    check(until(lambda: status_of(pid)["Seccomp"] == "2", 5), "pid 1 has no filter: Seccomp %s" % status_of(pid)["Seccomp"])
    same(status_of(pid)["NoNewPrivs"], "1", "no_new_privs of pid 1")
    if capabilities is not None:
        same(int(status_of(pid)["CapEff"], 16), capabilities, "capabilities of pid 1")
    same(int(status_of(pid)["CapBnd"], 16) & 1 << CAP_SYS_ADMIN, 0, "CAP_SYS_ADMIN can come back")


@test("bare: the guard has a filter and no capability")
def _():
    if not BARE:
        skip("a host without user namespaces")
    with Place() as place:
        job = start(place, [], "sleep 1000")
        try:
            check(until(lambda: named(job.pid, b"sleep") and named(job.pid, b"atoll-init")), "the command does not run")
            guard = named(job.pid, b"atoll-init")
            check(until(lambda: status_of(guard)["Seccomp"] == "2", 5), "the guard has no filter")
            same(int(status_of(guard)["CapEff"], 16), 0, "capabilities of the guard")
            warden = named(job.pid, b"atoll-warden")
            check(until(lambda: status_of(warden)["Seccomp"] == "2", 5), "the warden has no filter")
        finally:
            job.kill()


@test("run: pid 1 has a filter and one capability, in every mode")
def _():
    need_namespaces()
    for mode in ("direct", "layer", "read-only"):
        with Place() as place:
            job = start(place, ["--hide", "**/*.pem"], "sleep 1000", mode=mode)
            try:
                check(until(lambda: first_of(job.pid) and named(job.pid, b"sleep")), "the command does not run")
                check_first(first_of(job.pid), 1 << CAP_SYS_PTRACE)
                keeper = named(job.pid, b"atoll-keeper")
                if keeper:
                    check(until(lambda: status_of(keeper)["Seccomp"] == "2", 5), "the keeper of hidden names has no filter")
                    same(int(status_of(keeper)["CapEff"], 16) & ~(1 << CAP_SYS_ADMIN | 1 << CAP_DAC_READ_SEARCH), 0, "capabilities of the keeper")
            finally:
                job.kill()


@test("run on a terminal: pid 1 has a filter")
def _():
    need_namespaces()
    with Place() as place:
        master, slave = os.openpty()
        job = start(place, ["--tty"], "sleep 1000", stdin=slave)
        try:
            check(until(lambda: first_of(job.pid) and named(job.pid, b"sleep")), "the command does not run")
            check_first(first_of(job.pid), 1 << CAP_SYS_PTRACE)
        finally:
            job.kill()
            os.close(master)
            os.close(slave)


@test("hidden names that appear later are hidden by a keeper with a filter and two capabilities")
def _():
    need_namespaces()
    with Place() as place:
        job = start(place, ["--hide", "**/*.pem"], "until test -e go; do sleep 0.01; done; for i in $(seq 100); do cat late.pem deep/er/b.pem >/dev/null 2>&1 || break; sleep 0.05; done; "
                    "cat late.pem deep/er/b.pem; ls")
        check(until(lambda: named(job.pid, b"sh") or named(job.pid, b"sleep")), "the command does not run")
        write(os.path.join(place.ws, "late.pem"), "SECRET-ONE\n")
        os.makedirs(os.path.join(place.ws, "deep/er"))
        write(os.path.join(place.ws, "deep/er/b.pem"), "SECRET-TWO\n")
        write(os.path.join(place.ws, "go"))
        result = job.wait()
        check("SECRET" not in result.out, "a hidden file was read: %s" % result.out)
        place.expect("late.pem", "deep", "go")


@test("a keeper that somebody stops ends the run: what is hidden would not stay so")
def _():
    # From inside it can be stopped where Landlock does not keep signals inside (before Linux 6.12); from outside everywhere.
    need_namespaces()
    with Place() as place:
        place.expect("go")
        flags = ["--hide", "**/*.pem"]
        job = start(place, flags, "until test -e go; do sleep 0.01; done; echo went on", starts=False)
        check(until(lambda: named(job.pid, b"atoll-keeper") and named(job.pid, b"sleep")), "the command does not run")
        keeper = named(job.pid, b"atoll-keeper")
        os.kill(keeper, signal.SIGSTOP)
        result = job.wait()
        check(result.status and "keeper of hidden names was stopped" in result.err, "it goes on: %s" % result.err)
        # Stopped by order the rest stands still, and the keeper does not.
        job = start(place, flags, "until test -e go; do sleep 0.01; done; cat a.pem; echo went on")
        check(until(lambda: named(job.pid, b"atoll-keeper") and named(job.pid, b"sh")), "the command does not run")
        shell, keeper = named(job.pid, b"sh"), named(job.pid, b"atoll-keeper")
        for _ in range(3):
            check(until(lambda: int(status_of(job.pid)["SigBlk"], 16) >> signal.SIGTSTP - 1 & 1), "signals are not passed on")
            os.kill(job.pid, signal.SIGTSTP)
            check(until(lambda: status_of(shell)["State"][0] == "T"), "the command is not stopped")
            check(status_of(keeper)["State"][0] in "RS", "the keeper is stopped")
            os.kill(job.pid, signal.SIGCONT)
            check(until(lambda: status_of(shell)["State"][0] != "T"), "the command is still stopped")
        write(os.path.join(place.ws, "go"))
        same(job.wait().out.strip(), "went on", "the output")


def holder_below(place):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if read("/proc/%s/comm" % pid).strip() == b"atoll-hold" and os.stat("/proc/" + pid).st_uid in (0, os.getuid()):
                if first_of(int(pid)) and any(read("/proc/%d/cmdline" % step).split(b"\0")[:2] == [b"sleep", b"4242"] for step in below(int(pid))):
                    return int(pid)
    return None


@test("create and exec: pid 1 keeps its filter, and steps of later templates can do and are refused what those of the first are")
def _():
    need_layers()
    for flags in ([], ["--record", "full"]):
        with Place() as place:
            same(atoll(place, "create", "--name", "one", *flags).status, 0, "create")
            try:
                def step(*words):
                    return atoll(place, "exec", "one", "--", *words)
                step("sh", "-c", "sleep 4242 >/dev/null 2>&1 </dev/null &")
                check(until(lambda: holder_below(place)), "the sandbox does not run")
                check_first(first_of(holder_below(place)))
                results = []
                for which in ("first", "next"):
                    result = step(PYTHON, "-c", TRIES)
                    same(result.status, 0, "a step by the %s template: %s" % (which, result.err))
                    results.append(result.out)
                    filters = step("grep", "Seccomp_filters", "/proc/self/status").out.split()[-1]
                    same(filters, "1" if which == "first" else "2", "filters of a step by the %s template" % which)
                    step("sh", "-c", "kill -9 2")
                same(results[1], results[0], "what a step of a later template can do (%s)" % flags)
                among("unshare EPERM", results[0], "a namespace")
                among("traced ok", results[0], "a debugger")
                check_first(first_of(holder_below(place)))
            finally:
                same(atoll(place, "rm", "--force", "one").status, 0, "rm")


# Calls with each kind of answer.
TRIES = r"""
import ctypes, errno, os, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)

def tell(name, result):
    print(name, "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()])

tell("unshare", libc.unshare(0x10000000))
tell("mount", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
tell("setns", libc.setns(0, 0))
tell("io_uring", libc.syscall(425, 1, None))
tell("bpf", libc.syscall(321, 0, None, 0))
tell("memfd", libc.memfd_create(b"x", 0))
tell("mkdir", libc.mkdir(b"made", 0o755))
tell("setid", libc.chmod(b"made", 0o4755))
tell("rmdir", libc.rmdir(b"made"))
tell("personality", libc.personality(0xffffffff))
tell("shmget", libc.shmget(0, 4096, 0o1600))
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    print("raw ok")
except OSError as error:
    print("raw", errno.errorcode[error.errno])
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None)
    os.execv("/bin/true", ["true"])
os.waitpid(child, 0)
tell("traced", libc.ptrace(7, child, None, None))
os.waitpid(child, 0)
print(subprocess.run(["/bin/echo", "executed"], capture_output=True).stdout)
"""


LOOK_AT_TEMPLATES = """
def is_template(pid):
    try:
        return "atoll" in os.readlink("/proc/%s/exe" % pid)
    except PermissionError:
        # A step within execve() has the memory of its program, not yet dumpable, whose files belong to the root of the user namespace:
        # in a sandbox of root's that is the command's id. It has the program's name a moment later; a template keeps its own.
        time.sleep(0.02)
        with open("/proc/%s/comm" % pid) as file:
            return file.read().startswith("atoll")
seen, end = set(), time.monotonic() + 60
put("looking")
while not os.path.exists("stop") and time.monotonic() < end:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                if file.read().startswith("atoll"):
                    uid = os.stat("/proc/%s/fd" % pid).st_uid
                    # A step has the template's name until execve() is over: its program tells them apart.
                    if uid != os.getuid() or is_template(pid):
                        seen.add((int(pid), uid))
        except OSError:
            pass
tell("templates", len({pid for pid, uid in seen if pid > 1}))
tell("open", [pid for pid, uid in seen if uid == os.getuid()])
"""


@test("a template that is made beside commands is never dumpable, and its steps are preferred for killing like others")
def _():
    need_namespaces()
    with Place() as place:
        place.expect("looking", "stop")
        same(atoll(place, "create", "--name", "one", "--direct").status, 0, "create")
        try:
            looking = Running(place, [ATOLL, "exec", "one", "--", *inside_py(LOOK_AT_TEMPLATES)])
            wait_file(place, "looking")
            for _ in range(8):
                atoll(place, "exec", "one", "--", "sh", "-c",
                      'for p in /proc/[0-9]*; do read c <$p/comm; [ "$c" = atoll-init ] && kill -9 ${p#/proc/}; done; true')
                same(atoll(place, "exec", "one", "--", "cat", "/proc/self/oom_score_adj").out.strip(), "500", "oom_score_adj")
            write(place.ws + "/stop")
            result = looking.wait()
            check(int(result.tries["templates"]) >= 4, "templates were not made anew: %s" % result.tries)
            same(result.tries["open"], "[]", "templates whose files are the command's")
        finally:
            atoll(place, "rm", "one")


@test("a daemon's boxes, parked ones and forks: pid 1 has a filter")
def _():
    need_layers()
    with V1() as daemon:
        box = daemon.box()
        daemon.start_step(box, "sleep", "1000")
        daemon.want(201, "POST", "/v1/sandboxes/%s/fork" % box, {})
        check(until(lambda: len([h for h in daemon_holders(daemon) if first_of(h)]) >= 2), "no boxes")
        for holder in daemon_holders(daemon):
            first = first_of(holder)
            if first:
                check_first(first)


def daemon_holders(daemon):
    """Also for a user, who cannot look into undumpable processes but owns the holders."""
    return [pid for pid in below(daemon.pid) if read("/proc/%d/comm" % pid).strip() == b"atoll-hold"] or daemon.holders()


@test("the plan lists the capabilities of the first process")
def _():
    with Place() as place:
        plain_plan = atoll(place, "run", "--plan", "--", "true").out
        if BARE:
            among("the guard: a seccomp filter", plain_plan, "the plan")
            return
        among("pid 1: a seccomp filter", plain_plan, "the plan")
        among("sys_ptrace", plain_plan, "the plan")
        if IS_ROOT:
            job = job_file(place, {"command": ["sleep", "1000"], "workspace": {"mode": "layer"}, "root": "layer"})
            plan = atoll(place, "run", "--plan", "-f", job).out
            running = start(place, ["-f", job], None)
            try:
                check(until(lambda: first_of(running.pid) and named(running.pid, b"sleep")), "the command does not run")
                held = int(status_of(first_of(running.pid))["CapEff"], 16)
                for number, name in CAPABILITIES.items():
                    same(bool(held & 1 << number), name in first_line(plan), "%s in the plan of a root with layers, and in pid 1" % name)
            finally:
                running.kill()


CAPABILITIES = {0: "chown", 1: "dac_override", 3: "fowner", 4: "fsetid", 5: "kill", 6: "setgid", 7: "setuid", 19: "sys_ptrace", 21: "sys_admin"}


def first_line(plan):
    lines = plan.splitlines()
    return " ".join(line for line in lines if "pid 1" in line)


main()
