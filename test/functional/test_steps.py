#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 120
"""
Sandboxes that live on: atoll create, exec, checkpoint, rollback, fork, history, rm

What is looked at is what the next step sees, and from the host's side what there is: processes, mounts, files of the store.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

import ctypes
import pty
import random
import tempfile
import termios


def store(place):
    return os.path.join(place.home, ".local/state/atoll")


def create(place, *flags, status=0, **options):
    if BARE:
        skip("user namespaces")
    how = [] if any(flag in ("--direct", "--mode", "-f") for flag in flags) else ["--mode", "layer"]
    result = atoll(place, "create", *how, *flags, **options)
    same(result.status, status, "create: %s" % result.err)
    if status == 0:
        check(re.fullmatch("[a-z2-7]{8}\n", result.out), "the id alone is printed: %r" % result.out)
    return result.out.strip() if status == 0 else result


def step(place, id, script, *args, status=0, flags=(), **options):
    """A step; what it printed."""
    command = inside_sh(script, *args) if isinstance(script, str) else script
    result = atoll(place, "exec", id, *flags, "--", *command, **options)
    same(result.status, status, "step %r: %s" % (script, result.err))
    return result.out


def begin(place, id, script, *args, flags=(), **options):
    """A step that is not waited for."""
    return Running(place, [ATOLL, "exec", id, *flags, "--", *inside_sh(script, *args)], starts=False, **options)


def say(place, *args, status=0):
    result = atoll(place, *args)
    same(result.status, status, "%s: %s" % (" ".join(args), result.out + result.err))
    return result.out if status == 0 else result.err


def _random_word():
    return "".join(random.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(32))


def history(place, id, **options):
    result = atoll(place, "history", id, "--json", **options)
    same(result.status, 0, "history: %s" % result.err)
    return json.loads(result.out)


def records(place):
    return {record["id"]: record for record in json.loads(say(place, "ls", "--all", "--json"))}


def holders(place):
    """Holders of this place's sandboxes: {pid}. They are nobody's children, and so ours: this test is a subreaper."""
    return {pid for pid, name in descendants().items() if name == "atoll-hold"}


def parent_of(pid):
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def first_process(place):
    """atoll-init beneath the one holder."""
    for pid, name in descendants().items():
        with contextlib.suppress(OSError):
            if name == "atoll-init" and parent_of(pid) in holders(place):
                return pid
    return None


def has_ended(pid):
    """Whether or not somebody has heard of it."""
    with contextlib.suppress(OSError):
        return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0] in "ZX"
    return True


def layers(place):
    with contextlib.suppress(FileNotFoundError):
        return set(os.listdir(store(place) + "/layers"))
    return set()


def nothing_left(place, killed=False):
    """After the last rm: no process, no record, no layer. What a kill has left half made nobody sees, and it is swept when it is
    an hour old, by a clock that cannot be set."""
    check(until(lambda: not holders(place) and not (reap_orphans() or descendants())), "processes: %s" % descendants())
    left = os.listdir(store(place) + "/records")
    if killed:
        same(json.loads(say(place, "ls", "--all", "--json")), [], "records that are seen")
        left = [id for id in left if os.path.exists("%s/records/%s/meta" % (store(place), id))]
    same(left, [], "records")
    check(killed or not layers(place), "layers: %s" % layers(place))
    same(os.listdir(store(place) + "/trash") if os.path.isdir(store(place) + "/trash") else [], [], "trash")


class Sandbox:
    """A Place with a sandbox in it, which is removed at the end; nothing may be left of it."""

    def __init__(self, *flags, killed=False, on_disk=False):
        self.flags, self.killed, self.on_disk = flags, killed, on_disk

    def __enter__(self):
        self.place = Place(on_disk=self.on_disk)
        self.place.__enter__()
        try:
            self.id = create(self.place, *self.flags)
        except BaseException:
            self.place.__exit__(*sys.exc_info())
            raise
        return self.place, self.id

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                for id, record in records(self.place).items():
                    if record["kind"] == "sandbox":
                        say(self.place, "rm", "--force", id)
                nothing_left(self.place, self.killed)
            else:
                for id in list(os.listdir(store(self.place) + "/records")):
                    atoll(self.place, "rm", "--force", id)
        except BaseException:
            if kind is None:
                self.place.__exit__(*sys.exc_info())
                raise
        return self.place.__exit__(kind, value, trace)


# ---- steps ----------------------------------------------------------------------------------------------------------

@test("a sandbox is a record until its first step, and the host's files do not move")
def _():
    with Sandbox() as (place, id):
        same(holders(place), set(), "holders before the first step")
        same(records(place)[id]["state"], "kept", "state before")
        before = snapshot(place.ws)
        same(step(place, id, "echo hello; cat f"), "hello\none line\n", "output")
        step(place, id, "echo two >>f; mkdir d; echo x >d/y; rm README.md")
        same(step(place, id, "cat f d/y; ls"), "one line\ntwo\nx\nd\nf\nsrc\n", "what the next step sees")
        same(difference(before, snapshot(place.ws)), "", "the host's files")
        same(len(holders(place)), 1, "holders")


@test("state lives on between steps: files in /tmp, processes, environment only where it is given")
def _():
    with Sandbox() as (place, id):
        step(place, id, "echo a >/tmp/x; export LOST=1; cd src")
        same(step(place, id, "cat /tmp/x; echo ${LOST:-none}; pwd"), "a\nnone\n%s\n" % place.ws, "the second step")
        same(step(place, id, 'echo "$V $PWD"; cat a.c', flags=["--env", "V=1", "--chdir", "src"]),
             "1 %s/src\nint a;\n" % place.ws, "with a variable and a directory")
        same(step(place, id, "pwd", flags=["--chdir", "/usr"]), "/usr\n", "another directory")
        say(place, "exec", id, "--chdir", "nowhere", "--", "true", status=BAD_REQUEST)


def listeners(pid):
    """How many of the guard's a process has open."""
    def is_one(fd):
        with contextlib.suppress(OSError):
            return os.readlink("/proc/%d/fd/%s" % (pid, fd)) == "anon_inode:seccomp notify"
        return False
    return sum(map(is_one, os.listdir("/proc/%d/fd" % pid)))


@test("the holder has the listener of every filter that somebody lives under as well, and no others")
def _():
    with Sandbox() as (place, id):
        step(place, id, "true")
        holder = holders(place).pop()
        same(listeners(holder), 1, "of the first template")
        for number in range(20):  # more templates, one after the other, than there is room for
            step(place, id, "echo %d >f" % number)
            say(place, "checkpoint", id, "c%d" % number)
        step(place, id, "true")
        same(listeners(holder), 1, "of the latest one")
        step(place, id, "sleep 600 >/dev/null 2>&1 &")
        step(place, id, "for p in /proc/[0-9]*; do read n <$p/comm; case $n in sleep|sh) ;; *) kill -9 ${p#/proc/};; esac; done; true")
        step(place, id, "true")
        same(listeners(holder), 2, "of the one that was killed, because of who lives on, and of the next")
        say(place, "rollback", id, "c19")
        step(place, id, "true")
        same((listeners(holder), holders(place)), (1, {holder}), "after everything was killed")


@test("whoever asks the guard while the sandbox is ended waits for that, and hears nothing else")
def _():
    asking = """
        heard = os.open("heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        print("up", flush=True)
        while True:
            try: os.mkdir("f/x")
            except OSError as e:
                if e.errno == errno.ENOSYS:
                    os.write(heard, b"x")
                    os._exit(0)"""
    for _ in range(6):
        with Sandbox("--mode", "direct") as (place, id):
            place.expect("heard")
            running = Running(place, [ATOLL, "exec", id, "--", *inside_py(asking)], starts=False)
            running.process.stdout.readline()
            say(place, "rm", "--force", id)
            running.wait()
            same(read(place.ws + "/heard"), b"", "what was heard")


@test("exit statuses are those of run")
def _():
    with Sandbox() as (place, id):
        step(place, id, "exit 7", status=7)
        step(place, id, "kill -9 $$", status=137)
        step(place, id, ["/nowhere/x"], status=127)
        step(place, id, ["./f"], status=126)
        same(records(place)[id]["status"], 126, "the latest one, in ls")
        say(place, "exec", id, status=BAD_REQUEST)
        say(place, "exec", "--", "true", status=0)
        same(step(place, id[:5], "echo x"), "x\n", "by the beginning of its id")


@test("input, output and errors of a step are its own; large ones are whole")
def _():
    with Sandbox() as (place, id):
        data = os.urandom(3 << 20)
        result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "tee copy; echo err >&2", stdin=data)
        same(result.status, 0, "status")
        same(result.raw_out, data, "output")
        same(result.err, "err\n", "errors")
        same(step(place, id, "wc -c <copy").strip(), str(len(data)), "what was written")
        same(step(place, id, 'echo ${#1}', "x" * 100000), "100000\n", "a long argument")


@test("background processes live on, later steps signal them, and nobody who is gone can hurt them by not reading")
def _():
    with Sandbox() as (place, id):
        began = time.monotonic()
        step(place, id, "(while :; do echo noise; sleep 0.05; echo >>beats; done) & echo $! >/tmp/pid")
        check(time.monotonic() - began < 60, "a step waits for what it left behind")
        step(place, id, 'n=$(wc -l <beats); until [ "$(wc -l <beats)" -gt $((n + 3)) ]; do sleep 0.05; done')
        step(place, id, 'kill -STOP $(cat /tmp/pid); kill -CONT $(cat /tmp/pid); kill $(cat /tmp/pid)')
        step(place, id, 'until ! kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.05; done')


@test("several steps at the same time")
def _():
    with Sandbox() as (place, id):
        running = [begin(place, id, 'echo $1 >/tmp/n$1; until [ -e /tmp/go ]; do sleep 0.02; done; echo $1', n) for n in range(8)]
        step(place, id, 'for n in 0 1 2 3 4 5 6 7; do until [ -e /tmp/n$n ]; do sleep 0.02; done; done; touch /tmp/go')
        same([one.wait().out for one in running], ["%d\n" % n for n in range(8)], "what each printed")


@test("two first steps at the same time start one holder")
def _():
    with Sandbox() as (place, id):
        running = [begin(place, id, 'echo $1', n) for n in range(6)]
        same([one.wait().out for one in running], ["%d\n" % n for n in range(6)], "what each printed")
        same(len(holders(place)), 1, "holders")


@test("a step at a terminal has one of its own, with job control")
def _():
    with Sandbox() as (place, id):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(place.ws)
            os.execve(ATOLL, [ATOLL, "exec", id, "--", "/bin/sh", "-c",
                              "tty; stty size; trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"],
                      caller_environment(place))
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        said = b""

        def heard(text):
            nonlocal said
            with contextlib.suppress(OSError):
                said += os.read(fd, 4096)
            return text in said
        check(until(lambda: heard(b"ready")), "not ready: %r" % said)
        check(b"/dev/pts/" in said, "no terminal: %r" % said)
        os.write(fd, b"\x03")
        check(until(lambda: heard(b"caught")), "Ctrl-C did not arrive: %r" % said)
        same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 9, "status")
        os.close(fd)
        same(step(place, id, "echo on"), "on\n", "the sandbox lives on")


@test("signals reach a step; the time limit ends one step and leaves the rest alone")
def _():
    with Sandbox("--timeout", "3s", "--grace", "500ms") as (place, id):
        step(place, id, "sleep 1000 & echo $! >/tmp/pid")
        running = begin(place, id, "trap 'echo term; exit 3' TERM; touch /tmp/r; while :; do sleep 0.05; done")
        step(place, id, "until [ -e /tmp/r ]; do sleep 0.05; done")
        running.process.send_signal(signal.SIGTERM)
        result = running.wait()
        same((result.out, result.status), ("term\n", 3), "by SIGTERM")
        result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
        same(result.status, TIMED_OUT, "at the time limit: %s" % result.err)
        step(place, id, "kill -0 $(cat /tmp/pid)")


@test("limits of the sandbox end what runs in it, and the next step begins anew on the same files")
def _():
    with Sandbox("--memory", "64M") as (place, id):
        step(place, id, "echo kept >kept")
        result = atoll(place, "exec", id, "--", PYTHON, "-c", "x = b'x' * (400 << 20); import time; time.sleep(60)")
        same(result.status, OUT_OF_MEMORY, "status: %s" % result.err)
        same(step(place, id, "cat kept"), "kept\n", "afterwards")
        # Right behind each other, sooner than the end of the first can be seen.
        script = 'for i in 1 2 3 4 5 6 7 8; do "$1" exec $2 -- "$3" -c "x = b\'x\' * (400 << 20); import time; time.sleep(60)" 2>&-; "$1" exec $2 -- cat kept; done'
        result = Running(place, ["/bin/sh", "-c", script, "sh", ATOLL, id, PYTHON], starts=False).wait()
        same(result.out, "kept\n" * 8, "at once: %s" % result.err)


@test("many steps, each shorter than a look takes to come, do not write more than the limit")
def _():
    def free():
        st = os.statvfs(place.home)
        return st.f_bavail * st.f_frsize
    # On a disk: of memory only the file system's free space tells, which other tests give back, too. What they take counts as the sandbox's
    # only where two looks in a row meet steps that are just being executed.
    with Sandbox("--disk", "20M", on_disk=True) as (place, id):
        before, lost = free(), 0
        for number in range(200):
            result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "head -c 1000000 /dev/zero >f%d" % number)
            lost = max(lost, before - free())
            if result.status != 0:
                break
        same(result.status, OVER_LIMIT, "status of step %d: %s" % (number, result.err))
        check("disk" in result.err, result.err)
        # Sanitizers' processes count for more.
        check(number >= 15 or lost >= 15000000 or IS_SANITIZED, "ended by step %d, and %d bytes are gone" % (number, lost))


@test("what others write on the same disk is not the sandbox's")
def _():
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        step(place, id, "true")
        with tempfile.TemporaryFile(dir=place.home) as others:
            os.posix_fallocate(others.fileno(), 0, 256 << 20)
            # Longer than looks are apart, while nothing but this and what is ours is inside.
            same(step(place, id, "sleep 2; echo here"), "here\n", "while they write")
        result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "head -c 200000000 /dev/zero >f; sleep 5")
        same(result.status, OVER_LIMIT, "status of what it writes itself: %s" % result.err)


def template_process(place):
    """The child of the first process that has the number 2 inside."""
    for pid in children(first_process(place)):
        with contextlib.suppress(OSError):
            if read("/proc/%d/status" % pid).decode().split("NSpid:")[1].split("\n")[0].split()[-1] == "2":
                return pid
    return None


class Others:
    """Somebody else who writes 256 MiB on the place's disk."""

    def __init__(self, place):
        self.file = tempfile.TemporaryFile(dir=place.home)
        os.posix_fallocate(self.file.fileno(), 0, 256 << 20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@test("what others write is not the sandbox's either while a step has a terminal, whose leader nobody can look into")
def _():
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        step(place, id, "true")
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(place.ws)
            os.execve(ATOLL, [ATOLL, "exec", id, "--", "/bin/sh", "-c", "echo ready; sleep 3; echo here"], caller_environment(place))
        said = b""

        def heard(text):
            nonlocal said
            with contextlib.suppress(OSError):
                said += os.read(fd, 4096)
            return text in said
        check(until(lambda: heard(b"ready")), "not ready: %r" % said)
        with Others(place):
            check(until(lambda: heard(b"here"), 20), "the step was ended: %r" % said)
            same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of the step with a terminal: %r" % said)
        os.close(fd)


@test("what others write is not the sandbox's either while steps are stopped before they execute")
def _():
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        step(place, id, "true")
        first, template = first_process(place), template_process(place)
        with Others(place):
            for n in range(6):
                running, stopped, end = begin(place, id, "echo here"), set(), time.monotonic() + 1
                # As soon as it is forked, as a machine with much to do would.
                while time.monotonic() < end:
                    for pid in set(children(first)) - {template} - stopped:
                        with contextlib.suppress(OSError):
                            os.kill(pid, signal.SIGSTOP)
                            stopped.add(pid)
                for pid in stopped:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGCONT)
                result = running.wait()
                same((result.status, result.out), (0, "here\n"), "step %d: %s" % (n, result.err))


@test("a step that is forked late is still ended at its disk limit")
def _():
    if not IS_ROOT:
        skip("root, to hold the process that forks")
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        for _ in range(5):  # looks come often at first
            step(place, id, "sleep 0.2")
        # The template gets no time to fork for a while, as on a machine with much to do: the sandbox looks empty. A tracer's stop is the
        # only one that pid 1 does not end.
        template, libc = template_process(place), ctypes.CDLL(None, use_errno=True)
        for request in 0x4206, 0x4207:  # PTRACE_SEIZE, PTRACE_INTERRUPT
            same(libc.ptrace(request, template, None, None), 0, "hold the template: %s" % os.strerror(ctypes.get_errno()))
        os.waitpid(template, 0x40000000)  # __WALL
        running = begin(place, id, "head -c 200000000 /dev/zero >f; sleep 10")
        time.sleep(1)
        same(libc.ptrace(17, template, None, None), 0, "let the template go")  # PTRACE_DETACH
        result = running.wait()
        same(result.status, OVER_LIMIT, "status: %s" % result.err)


@test("what processes have written counts also when they have ended and nobody waits for them, and what others write then does not")
def _():
    # Since Linux 6.18.44 an ordinary user cannot read the count of such a process.
    script = """
        import os, sys, time
        for i in range(int(sys.argv[1])):
            if os.fork() == 0:
                with open("f%d" % i, "wb") as file:
                    for _ in range(20):
                        file.write(bytes(1 << 20))
                        time.sleep(float(sys.argv[2]))
                os._exit(0)
            time.sleep(0.5)
        print("ready", flush=True)
        time.sleep(4)
        print("here")
        """
    for pause in "0.02", "0":
        with Sandbox("--disk", "64M", on_disk=True) as (place, id):
            result = atoll(place, "exec", id, "--", *inside_py(script, "5", pause))
            same(result.status, OVER_LIMIT, "5 times 20 MiB, with pauses of %s s: %s" % (pause, result.err))
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        running = Running(place, [ATOLL, "exec", id, "--", *inside_py(script, "1", "0.02")], starts=False)
        check(until(lambda: glob.glob(store(place) + "/records/*/top/upper/f0")), "the step does not begin")
        time.sleep(2)
        with Others(place):
            result = running.wait()
        check(result.status == 0 and "here" in result.out, "20 MiB, and others' 256: %s" % result.err)


@test("what many short processes have written counts once")
def _():
    # Each hands its count over to its parent when it ends, perhaps in the middle of a look.
    script = "for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5; do /bin/sh -c 'head -c 1000000 /dev/zero >$0' f$i$j; done & done; wait; echo here"
    with Sandbox("--disk", "64M", on_disk=True) as (place, id):
        same(step(place, id, script), "here\n", "40 MB of 64")
        for _ in range(20):
            step(place, id, "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/sh -c 'true'; done")
        used = json.loads(atoll(place, "exec", "--json", id, "--", "/bin/true").err.splitlines()[-1])["usage"]["disk"]["used"]
        check(40000000 <= used < 50000000, "%d bytes are counted of 40 MB" % used)


@test("a step has the sandbox's namespaces and none of the host's, also behind a template that was killed from inside")
def _():
    kinds = ("net", "ipc", "uts", "pid", "mnt", "user")
    look = "readlink %s; cat /proc/2/comm; hostname" % " ".join("/proc/self/ns/" + kind for kind in kinds)
    with Sandbox() as (place, id):
        first = step(place, id, look)
        same(first.splitlines()[-2:], ["atoll-init", "atoll"], "names")
        for line, kind in zip(first.splitlines(), kinds):
            check(line != os.readlink("/proc/self/ns/" + kind), "of the host's: %s" % line)
        same(os.readlink("/proc/%d/ns/net" % first_process(place)) if IS_ROOT else first.splitlines()[0], first.splitlines()[0], "the first process's")
        step(place, id, "kill -9 2; until ! kill -0 2 2>/dev/null; do sleep 0.01; done")
        same(step(place, id, "readlink %s" % " ".join("/proc/self/ns/" + kind for kind in kinds)).splitlines(), first.splitlines()[:6], "afterwards")


@test("steps leave nothing in the template that they shared memory with, whether they could execute or not")
def _():
    with Sandbox() as (place, id):
        def a_few():
            for _ in range(8):
                same(step(place, id, ["/bin/echo", "a" * 5000]), "a" * 5000 + "\n", "what it prints")
                step(place, id, ["/nowhere/at/all"], status=127)
                step(place, id, ["/etc/passwd"], status=126)
                say(place, "exec", "--cwd", "/nowhere", id, "--", "/bin/true", status=BAD_REQUEST)
                same(step(place, id, 'kill -TERM $$; echo no', status=143), "", "one that ends of a signal")
        a_few()
        if IS_ROOT:  # nobody else may look into it
            first = first_process(place)
            template = next(pid for pid in children(first) if read("/proc/%d/status" % pid).decode().split("NSpid:")[1].split("\n")[0].split()[-1] == "2")
            before = read("/proc/%d/maps" % template)
            a_few()
            same(read("/proc/%d/maps" % template), before, "what is mapped in the template")
            check("Threads:\t1\n" in read("/proc/%d/status" % template).decode(), "threads of the template")
        # Whoever works inside cannot look into a step before it executes, nor into the template.
        same(step(place, id, "cat /proc/2/maps >/dev/null 2>&1 || echo no; cat /proc/2/environ >/dev/null 2>&1 || echo no"), "no\nno\n", "the template")


@test("steps that are stopped from inside, also before they execute, keep no other from starting")
def _():
    stopper = """
        import os, signal, time
        while not os.path.exists("/tmp/go"):
            time.sleep(0.01)
        time.sleep(0.5)
        own, until = os.getpid(), time.monotonic() + 2
        while time.monotonic() < until:
            for pid in range(own + 1, own + 200):
                try:
                    os.kill(pid, signal.SIGSTOP)
                except OSError:
                    pass
        """
    with Sandbox() as (place, id):
        stopping = Running(place, [ATOLL, "exec", id, "--", *inside_py(stopper)], starts=False)
        step(place, id, "touch /tmp/go")
        time.sleep(0.5)
        waiting = [begin(place, id, "true") for _ in range(8)]
        same(stopping.wait().status, 0, "the one that stops others")
        same(step(place, id, "echo free"), "free\n", "a step when nobody is stopped any more")
        say(place, "rm", "--force", id)
        for one in waiting:
            one.wait()


@test("a command and a step have every CPU that there is, or as many as the contract says")
def _():
    count = ("--", PYTHON, "-c", "import os; print(len(os.sched_getaffinity(0)))")
    all = len(os.sched_getaffinity(0))
    for flags, expected in ((), all), (("--cpus", "1"), 1):
        with Sandbox(*flags) as (place, id):
            for _ in range(5):
                same(say(place, "run", "--direct", *flags, *count), "%d\n" % expected, "a run")
                same(say(place, "exec", id, *count), "%d\n" % expected, "a step")


@test("output beyond its limit ends the step alone")
def _():
    with Sandbox("--output", "100K") as (place, id):
        step(place, id, "sleep 1000 >/dev/null 2>&1 & echo $! >/tmp/pid")
        result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "yes")
        same(result.status, OVER_LIMIT, "status: %s" % result.err[-300:])
        step(place, id, "kill -0 $(cat /tmp/pid); until ! pgrep -x yes; do sleep 0.05; done")


@test("what is refused is told to the step that did it, and the JSON result is that of run")
def _():
    with Sandbox() as (place, id):
        result = atoll(place, "exec", id, "--json", "--", "/bin/sh", "-c", "exit 4")
        last = json.loads(result.err.splitlines()[-1])
        same((last["end"] if "end" in last else None, result.status), ("exited", 4), "result: %s" % result.err)


# ---- checkpoints ----------------------------------------------------------------------------------------------------

CHANGE = "echo $1 >>f; echo $1 >n$1; rm -f n$(($1 - 1)); mkdir -p d; echo $1 >d/$1; [ $1 != 3 ] || { rm -r src; mkdir src; echo z >src/z; }"
LOOK = "find . -path ./.git -prune -o -type f -print | sort | while read n; do echo == $n; cat $n; done"


def walk(place, id, around=lambda n: None):
    """Three states with a checkpoint each: what each looked like."""
    seen = {}
    for n in (1, 2, 3):
        step(place, id, CHANGE, n)
        around(n)
        same(say(place, "checkpoint", id, "c%d" % n), "c%d\n" % n, "name")
        seen["c%d" % n] = step(place, id, LOOK)
    return seen


@test("every checkpoint can be returned to, in any order, and gone on from")
def _():
    with Sandbox() as (place, id):
        base = step(place, id, LOOK)
        say(place, "checkpoint", id, "base")
        seen = walk(place, id)
        seen["base"] = base
        for name in ("c1", "c3", "base", "c2", "c2", "c3", "c1", "base"):
            say(place, "rollback", id, name)
            same(step(place, id, LOOK), seen[name], "after rollback to %s" % name)
            same([point["name"] for point in history(place, id) if point["current"]], [name], "where it stands")
            step(place, id, "echo lost >>f; rm -rf d; touch lost")
        say(place, "rollback", id, "c2")
        step(place, id, "echo other >other")
        say(place, "checkpoint", id, "branch")
        other = step(place, id, LOOK)
        say(place, "rollback", id, "c3")
        say(place, "rollback", id, "branch")
        same(step(place, id, LOOK), other, "the branch")
        same(holders(place) and len(holders(place)), 1, "holders")


@test("the same without a holder: pure files")
def _():
    with Sandbox() as (place, id):
        seen = walk(place, id)
        for name in ("c1", "c3", "c2"):
            os.kill(holders(place).pop(), signal.SIGTERM)
            check(until(lambda: reap_orphans() or not holders(place)), "the holder does not end")
            say(place, "rollback", id, name)
            same(say(place, "checkpoint", id, "again-" + name), "again-%s\n" % name, "name")
            same(holders(place), set(), "holders")
            same(step(place, id, LOOK), seen[name], "after rollback to %s" % name)


@test("with processes that live: a checkpoint leaves them alone, a rollback ends them and says so")
def _():
    with Sandbox() as (place, id):
        step(place, id, "(while :; do echo >>beats; sleep 0.02; done) >/dev/null 2>&1 & echo $! >/tmp/pid; sleep 1000 &")

        def busy(n):
            step(place, id, 'kill -0 $(cat /tmp/pid)')
        for n in (1, 2, 3):
            step(place, id, CHANGE, n)
            say(place, "checkpoint", id, "c%d" % n)
            busy(n)
        step(place, id, "rm n3 d/1")
        step(place, id, 'n=$(wc -l <beats); until [ "$(wc -l <beats)" -gt $((n + 3)) ]; do sleep 0.02; done')
        result = atoll(place, "rollback", id, "c2")
        same(result.status, 0, "rollback: %s" % result.err)
        check(re.match(r"atoll: [2-9] processes were ended", result.err), "it says how many: %r" % result.err)
        same(step(place, id, "ls d; ls n*; n=$(wc -l <beats); sleep 0.3; [ $n = $(wc -l <beats) ] && echo still"),
             "1\n2\nn2\nstill\n", "after it")
        say(place, "rollback", id, "c3")
        same(step(place, id, "ls d; ls n*"), "1\n2\n3\nn3\n", "another one")


@test("what is deleted after a checkpoint with live processes stays deleted in the next one")
def _():
    with Sandbox() as (place, id):
        step(place, id, "echo a >gone; echo b >stays; sleep 1000 >/dev/null 2>&1 &")
        say(place, "checkpoint", id, "one")
        step(place, id, "rm gone; pkill sleep; until ! pgrep sleep; do sleep 0.02; done", status=0)
        say(place, "checkpoint", id, "two")
        same(step(place, id, "ls gone stays 2>/dev/null", status=2), "stays\n", "live")
        say(place, "rollback", id, "one")
        same(step(place, id, "ls gone stays"), "gone\nstays\n", "one")
        say(place, "rollback", id, "two")
        same(step(place, id, "ls gone stays 2>/dev/null", status=2), "stays\n", "two")


@test("a full disk: a checkpoint and a rollback that find no room change nothing, and rm makes some")
def _():
    need_root()
    with Place() as place:
        place.expect("*")
        leave_mounts()
        disk = place.base + "/disk"
        os.mkdir(disk, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "atoll-test", disk], check=True)
        env = {"XDG_STATE_HOME": disk}
        here = lambda *args, status=0: same_status(atoll(place, *args, env=env), status)
        limit = lambda inodes: subprocess.run(["mount", "-o", "remount,nr_inodes=%d" % inodes, disk], check=True)
        seen = lambda: step(place, id, "cat one two three 2>/dev/null; true", env=env)
        layers = lambda: sorted(os.listdir(disk + "/atoll/layers"))
        failed = {"checkpoint": 0, "rollback": 0, "live": 0}

        def attempt(what, free, *args):
            """With room for so many more files; has it worked?"""
            limit(used_inodes(disk) + free)
            result = atoll(place, *args, env=env)
            if result.status:
                failed[what] += 1
                check("No space left" in result.err, result.err)
                here("diff", id)
            limit(100000)
            return result.status == 0
        try:
            id = create(place, env=env)
            step(place, id, "echo one >one", env=env)
            here("checkpoint", id, "first")
            step(place, id, "echo two >two", env=env)
            here("checkpoint", id, "second")
            for free in range(8):
                step(place, id, "echo three >three", env=env)
                was = len(history(place, id, env=env))
                worked = attempt("checkpoint", free, "checkpoint", id)
                same(len(history(place, id, env=env)), was + worked, "checkpoints")
                same(seen(), "one\ntwo\nthree\n", "after a checkpoint with room for %d" % free)
                worked = attempt("rollback", free, "rollback", id, "first")
                same(seen(), "one\n" if worked else "one\ntwo\nthree\n", "after a rollback with room for %d" % free)
                here("rollback", id, "second")
            for free in range(8):
                step(place, id, "echo three >three; sleep 1000 >/dev/null 2>&1 &", env=env)
                was = layers()
                if not attempt("live", free, "checkpoint", id):
                    same(layers(), was, "copies that nobody needs, with room for %d" % free)
            check(all(failed.values()), "it never failed: %s" % failed)
            limit(used_inodes(disk))
            here("rm", id)
            same(os.listdir(disk + "/atoll/records") + layers(), [], "what is left")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def used_inodes(path):
    st = os.statvfs(path)
    return st.f_files - st.f_ffree


def same_status(result, status):
    same(result.status, status, "status: %s" % (result.out + result.err))
    return result.out if status == 0 else result.err


@test("a step that runs is ended by a rollback, and told so")
def _():
    with Sandbox() as (place, id):
        step(place, id, "echo 1 >a")
        say(place, "checkpoint", id, "one")
        running = begin(place, id, "touch /tmp/r; echo 2 >a; sleep 1000")
        step(place, id, "until [ -e /tmp/r ]; do sleep 0.02; done")
        say(place, "rollback", id, "one")
        same(running.wait().status, 137, "status of what ran")
        same(step(place, id, "cat a"), "1\n", "after it")


@test("a checkpoint after each step, if the contract says so")
def _():
    with Sandbox("--checkpoints", "every-step") as (place, id):
        for n in (1, 2, 3):
            step(place, id, "echo $1 >>log; exit $1", n, status=n)
        points = history(place, id)
        same([(point["name"], point["status"]) for point in points], [("step-1", 1), ("step-2", 2), ("step-3", 3)], "history")
        check("echo $1 >>log" in points[0]["command"], "command: %r" % points[0]["command"])
        say(place, "rollback", id, "step-1")
        same(step(place, id, "cat log"), "1\n", "after rollback")
        same([point["name"] for point in history(place, id) if point["current"]], ["step-4"], "where it stands")


@test("more steps than layers can be stacked")
def _():
    with Sandbox("--checkpoints", "every-step") as (place, id):
        for n in range(110):
            step(place, id, "echo $1 >>log; echo $1 >f$1; rm -f f$(($1 - 3)); [ $1 != 60 ] || rm -r src", n)
        same(step(place, id, "wc -l <log; ls f[0-9]*"), "110\nf107\nf108\nf109\n", "at the end")
        for n in (0, 47, 50, 70, 109):
            say(place, "rollback", id, "step-%d" % (n + 1))
            same(step(place, id, "wc -l <log; tail -n1 log; ls -d src 2>/dev/null || echo none"),
                 "%d\n%d\n%s\n" % (n + 1, n, "src" if n < 60 else "none"), "step %d" % n)


@test("names of checkpoints: which there can be, and that there is one of each")
def _():
    with Sandbox() as (place, id):
        same(say(place, "checkpoint", id), "step-1\n", "without a name")
        for name in ("a", "A.b_c-1", "x" * 63):
            say(place, "checkpoint", id, name)
        for name in ("", "x" * 64, "a/b", "..\n", "a b", "é", "step-9"):
            said = say(place, "checkpoint", id, name, status=BAD_REQUEST)
            check("checkpoint" in said, "what is wrong: %r" % said)
        check("already" in say(place, "checkpoint", id, "a", status=BAD_REQUEST), "the same twice")
        step(place, id, "sleep 1000 & echo x >kept")
        check("step-2" not in say(place, "rollback", id, "nope", status=BAD_REQUEST), "an unknown one")
        step(place, id, "pgrep sleep; cat kept")  # a wrong name has cost nobody anything
        check("already" in say(place, "checkpoint", id, "a", status=BAD_REQUEST), "also while it lives")
        same([point["name"] for point in history(place, id)], ["step-1", "a", "A.b_c-1", "x" * 63], "history")


# ---- forks ----------------------------------------------------------------------------------------------------------

@test("a fork begins where its parent stands, and both go their own ways")
def _():
    with Sandbox() as (place, id):
        seen = walk(place, id)
        step(place, id, "echo more >more; sleep 1000 >/dev/null 2>&1 &")
        now = step(place, id, LOOK)
        fork = say(place, "fork", id).strip()
        old = say(place, "fork", id, "c1").strip()
        same(records(place)[fork]["parent"], id, "parent")
        same(step(place, fork, LOOK), now, "as it stood")
        same(step(place, old, LOOK), seen["c1"], "from a checkpoint")
        same(step(place, fork, "pgrep sleep || echo none"), "none\n", "processes are not forked")
        step(place, id, "pgrep sleep >/dev/null; rm more")
        step(place, fork, "echo fork >>f")
        same(step(place, id, LOOK), now.replace("== ./more\nmore\n", ""), "the parent")
        again = say(place, "fork", fork).strip()
        same(step(place, again, "tail -n1 f"), "fork\n", "a fork of a fork")
        say(place, "rm", id)
        same(step(place, again, "tail -n1 f; cat more"), "fork\nmore\n", "without its ancestors")
        say(place, "rm", fork, old, again)


@test("a hundred forks share what is sealed")
def _():
    with Sandbox() as (place, id):
        step(place, id, "dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; for i in 1 2 3 4 5; do echo $i >s$i; done")
        ids = say(place, "fork", id, "--count", "100").split()
        same(len(set(ids)), 100, "ids")
        same(len(holders(place)), 1, "holders: none but the parent's")
        used = int(subprocess.run(["du", "-sk", store(place)], stdout=subprocess.PIPE, text=True).stdout.split()[0])
        check(used < 8 * 1024 + 100 * 64, "%d KiB in the store" % used)
        same(len(layers(place)), 1, "layers")
        for fork in (ids[0], ids[57], ids[99]):
            same(step(place, fork, "wc -c <big; cat s5; echo mine >s5; cat s5"), "8388608\n5\nmine\n", "a fork")
        same(step(place, ids[1], "cat s5"), "5\n", "another one")
        say(place, "rm", *ids[:50])
        same(step(place, ids[99], "cat s5"), "mine\n", "those that are left")
        for bad in ("0", "-1", "x", "100001"):
            say(place, "fork", id, "--count", bad, status=BAD_REQUEST)


# ---- the end --------------------------------------------------------------------------------------------------------

@test("ls of another process sees a sandbox live, and at rest again")
def _():
    with Sandbox("--name", "tester") as (place, id):
        step(place, id, "sleep 1000 &")
        record = records(place)[id]
        same((record["state"], record["name"], record["kind"]), ("live", "tester", "sandbox"), "ls")
        same(step(place, "tester", "echo by name"), "by name\n", "by name")
        os.kill(holders(place).pop(), signal.SIGTERM)
        check(until(lambda: reap_orphans() or not descendants()), "left: %s" % descendants())
        same(records(place)[id]["state"], "kept", "after the holder")
        check("tester" in create(place, "--name", "tester", status=BAD_REQUEST).err, "a name twice")


@test("a sandbox in which nothing runs goes to rest, and one in which something does stays")
def _():
    with Sandbox() as (place, id):
        step(place, id, "echo x >kept; sleep 4 >/dev/null 2>&1 &", env={"ATOLL_IDLE_SECONDS": "1"})
        step(place, id, "sleep 2")
        same(len(holders(place)), 1, "holders while something runs")
        check(until(lambda: reap_orphans() or not holders(place)), "it does not go to rest")
        same(step(place, id, "cat kept"), "x\n", "the next step")


def firsts():
    """Processes of sandboxes that are atoll's own: the first one, and the one that is kept ready for the next step."""
    return [pid for pid, name in descendants().items() if name == "atoll-init"]


@test("what is kept ready for the next step ends after a while, and stays if something lives that a later step may signal")
def _():
    rest = {"ATOLL_REST_SECONDS": "1"}
    with Sandbox() as (place, id):
        step(place, id, "echo x >kept", env=rest)
        check(until(lambda: len(firsts()) == 1), "it does not end: %r" % firsts())
        same(step(place, id, "cat kept"), "x\n", "the next step")
        step(place, id, "sleep 600 </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid")
        time.sleep(2.5)
        same(len(firsts()), 2, "with a process that lives")
        step(place, id, 'kill -STOP $(cat /tmp/pid); kill -CONT $(cat /tmp/pid); kill $(cat /tmp/pid)')
        step(place, id, 'until ! kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.05; done')
        check(until(lambda: len(firsts()) == 1), "it does not end afterwards: %r" % firsts())
        say(place, "checkpoint", id, "rested")
        same(step(place, id, "cat kept; echo y >>kept"), "x\n", "after a checkpoint")
        check(until(lambda: len(firsts()) == 1), "it does not end once more: %r" % firsts())
        say(place, "rollback", id, "rested")
        same(step(place, id, "cat kept"), "x\n", "after a rollback")


@test("rm ends everything inside; a running step only with --force")
def _():
    with Sandbox() as (place, id):
        running = begin(place, id, "touch /tmp/r; sleep 1000")
        until(lambda: holders(place))
        step(place, id, "until [ -e /tmp/r ]; do sleep 0.02; done; sleep 1000 >/dev/null 2>&1 &")
        check("running" in say(place, "rm", id, status=POLICY), "it says why not")
        step(place, id, "pgrep -c sleep")
        say(place, "rm", "--force", id)
        check(running.wait().status != 0, "the step goes on")
        nothing_left(place)
        check(id in say(place, "exec", id, "--", "true", status=BAD_REQUEST), "it is gone")
        say(place, "rm", id, status=BAD_REQUEST)


@test("a holder that does not answer is killed by force")
def _():
    with Sandbox() as (place, id):
        step(place, id, "sleep 1000 >/dev/null 2>&1 &")
        os.kill(holders(place).pop(), signal.SIGSTOP)
        say(place, "rm", "--force", id)
        nothing_left(place)


@test("a client that is killed takes its step with it, and nothing else")
def _():
    with Sandbox("--grace", "300ms") as (place, id):
        step(place, id, "sleep 1111 >/dev/null 2>&1 & echo >/tmp/x")
        for how in ("(trap '' TERM; exec sleep 2222) & sleep 2222", "sleep 2222", "trap '' TERM; sleep 2222; sleep 2222", "sleep 2222 & sleep 2222"):
            running = begin(place, id, "touch /tmp/r; %s; touch late" % how)
            step(place, id, "until [ -e /tmp/r ]; do sleep 0.02; done; rm /tmp/r")
            running.kill()
            step(place, id, "until ! pgrep -f '[s]leep 2222'; do sleep 0.05; done >/dev/null; pgrep -f '[s]leep 1111' >/dev/null")
        step(place, id, "test ! -e late")


@test("a holder that is killed takes all inside with it; files stay, and the next step goes on")
def _():
    with Sandbox() as (place, id):
        step(place, id, "echo a >kept")
        say(place, "checkpoint", id, "one")
        for n in range(3):
            running = begin(place, id, "echo $1 >>kept; touch /tmp/r; sleep 1000", n)
            step(place, id, "until [ -e /tmp/r ]; do sleep 0.02; done; sleep 1000 >/dev/null 2>&1 &")
            os.kill(holders(place).pop(), signal.SIGKILL)
            result = running.wait()
            same(result.status, HOST_CANNOT, "the step: %s" % result.err)
            check(until(lambda: reap_orphans() or not descendants()), "left: %s" % descendants())
            same(records(place)[id]["state"], "kept", "state")
        same(step(place, id, "cat kept"), "a\n0\n1\n2\n", "afterwards")
        say(place, "rollback", id, "one")
        same(step(place, id, "cat kept"), "a\n", "the checkpoint")


@test("a first process that is killed: the holder stays, and the next step goes on")
def _():
    with Sandbox() as (place, id):
        running = begin(place, id, "echo a >kept; touch /tmp/r; sleep 1000")
        check(until(lambda: first_process(place)), "no first process")
        step(place, id, "until [ -e /tmp/r ]; do sleep 0.02; done")
        os.kill(first_process(place), signal.SIGKILL)
        same(running.wait().status, HOST_CANNOT, "the step")
        same(step(place, id, "cat kept"), "a\n", "afterwards")


@test("what starts steps can be killed from inside, and comes again")
def _():
    with Sandbox() as (place, id):
        step(place, id, "sleep 1000 >/dev/null 2>&1 &")
        step(place, id, "kill -9 -1; exit 5", status=5)
        same(step(place, id, "echo on; pgrep sleep || echo none"), "on\nnone\n", "afterwards")
        for n in range(20):
            step(place, id, "trap '' STOP TERM; for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -9 $p; done",
                 status=0)
        step(place, id, "kill -STOP -1")
        same(step(place, id, "echo on"), "on\n", "afterwards")


@test("killed at random moments, somebody goes on with what was kept")
def _():
    seed = int(os.environ.get("ATOLL_SEED") or random.randrange(1 << 30))
    chance = random.Random(seed)
    with Sandbox("--checkpoints", "every-step", killed=True) as (place, id):
        step(place, id, "echo 0 >count; echo 0 >twin")
        for n in range(12):
            jobs = [begin(place, id, "read c <count; echo $((c + 1)) >new; cp new t; mv new count; mv t twin"),
                    Running(place, [ATOLL, "checkpoint", id, "k%d" % n], starts=False),
                    Running(place, [ATOLL, "fork", id, "step-1"], starts=False)]
            time.sleep(chance.random() * 0.05)
            who = chance.choice(["client", "holder", "first", "fork", "checkpoint"])
            victim = {"client": lambda: jobs[0].pid, "checkpoint": lambda: jobs[1].pid, "fork": lambda: jobs[2].pid,
                      "holder": lambda: next(iter(holders(place)), None), "first": lambda: first_process(place)}[who]()
            with contextlib.suppress(OSError):
                if victim:
                    os.kill(victim, signal.SIGKILL)
                    # A step that begins while it dies is told so: here the next one is meant.
                    check(until(lambda: has_ended(victim)), "seed %d, %s lives on" % (seed, who))
            for job in jobs:
                with contextlib.suppress(Failed):  # an internal error is one: checked below by what is kept
                    result = job.wait()
                    check(result.status != INTERNAL, "seed %d, %s: %s" % (seed, who, result.err))
            out = step(place, id, "cat count twin")
            check(re.fullmatch(r"(\d+)\n(\d+)\n", out), "seed %d, %s: %r" % (seed, who, out))
            points = history(place, id)
            same(len({point["name"] for point in points}), len(points), "seed %d, %s: names of checkpoints" % (seed, who))
        say(place, "rollback", id, "step-1")
        same(step(place, id, "cat count twin"), "0\n0\n", "seed %d: the first checkpoint" % seed)
        for fork in [one for one, record in records(place).items() if record["parent"] == id]:
            same(step(place, fork, "cat count twin"), "0\n0\n", "seed %d: a fork" % seed)


@test("commands at the same time are done one after the other or refused, and nothing is corrupt")
def _():
    with Sandbox() as (place, id):
        walk(place, id)
        made = iter(range(1000))

        def slowest():
            jobs, results = [], []
            for n in range(6):
                jobs += [Running(place, [ATOLL, "checkpoint", id, "p%d" % next(made)], starts=False),
                         Running(place, [ATOLL, "rollback", id, "c%d" % (n % 3 + 1)], starts=False),
                         Running(place, [ATOLL, "fork", id, "c2", "--count", "2"], starts=False),
                         begin(place, id, "echo $1 >>f", n)]
            for job in jobs:
                results.append(job.wait())
                among(results[-1].status, (0, POLICY, 137), "%s: %s" % (results[-1].argv[1], results[-1].err))
            return max(result.seconds for result in results)
        # Whoever has the record may need the holder, who waits ten seconds for the record.
        at_best(slowest, 10 * SLOW, "seconds of the slowest", tries=3)
        for name, last in (("c1", "1"), ("c2", "2"), ("c3", "3")):
            say(place, "rollback", id, name)
            same(step(place, id, "tail -n1 f; ls n?"), "%s\nn%s\n" % (last, last), name)
        for record in records(place).values():
            if record["parent"] == id:
                same(step(place, record["id"], "tail -n1 f"), "2\n", "a fork")
                say(place, "rm", record["id"])


@test("diff, apply and undo of a sandbox: over all its layers, live and at rest")
def _():
    with Sandbox() as (place, id):
        place.expect("n3", "d", "src/z", "later")
        walk(place, id)
        before = snapshot(place.ws)
        wanted = step(place, id, LOOK)
        names = "d/1 d/2 d/3 f n3 src/a.c src/z".split()
        same(sorted(set(say(place, "diff", id, "--name-only").split()) - {"d", "src"}), names, "diff")
        step(place, id, "sleep 1000 >/dev/null 2>&1 &")
        say(place, "apply", id)
        same(subprocess.run(["sh", "-c", LOOK], cwd=place.ws, stdout=subprocess.PIPE, text=True).stdout, wanted, "on the host")
        same(step(place, id, LOOK), wanted, "inside")
        say(place, "undo", id)
        same(difference(before, snapshot(place.ws)), "", "after undo")
        same(step(place, id, LOOK), wanted, "inside")
        say(place, "rollback", id, "c1")
        same(sorted(set(say(place, "diff", id, "--name-only").split()) - {"d"}), ["d/1", "f", "n1"], "diff of an earlier state")
        step(place, id, "echo later >later")
        os.kill(holders(place).pop(), signal.SIGTERM)
        check(until(lambda: reap_orphans() or not holders(place)), "the holder does not end")
        say(place, "apply", id, "later")
        same(read(place.ws + "/later"), b"later\n", "one file, at rest")


@test("apply and undo beside checkpoints of a live sandbox: nobody waits for who waits for him, and none is refused")
def _():
    with Sandbox() as (place, id):
        place.expect("n3", "d", "src/z")
        walk(place, id)
        made = iter(range(1000))

        def slowest():
            jobs = []
            for _ in range(4):
                jobs += [Running(place, [ATOLL, "checkpoint", id, "p%d" % next(made)], starts=False),
                         Running(place, [ATOLL, "apply", id], starts=False),
                         Running(place, [ATOLL, "undo", id], starts=False),
                         Running(place, [ATOLL, "apply", id, "--dry-run"], starts=False)]
            results = [job.wait() for job in jobs]
            for result in results:
                # An undo finds nothing to undo, if no apply came before it.
                wanted = (0, BAD_REQUEST) if result.argv[1] == "undo" else (0,)
                among(result.status, wanted, "%s: %s" % (result.argv[1], result.err))
            return max(result.seconds for result in results)
        # Whoever has the record may need the holder, who waits ten seconds for the record.
        at_best(slowest, 10 * SLOW, "seconds of the slowest", tries=3)
        while atoll(place, "undo", id).status == 0:
            pass
        say(place, "apply", id)
        same(subprocess.run(["sh", "-c", LOOK], cwd=place.ws, stdout=subprocess.PIPE, text=True).stdout, step(place, id, LOOK), "on the host")


@test("what is written directly cannot be returned to, and the rest works")
def _():
    with Sandbox("--direct") as (place, id):
        place.expect("direct")
        step(place, id, "echo x >direct")
        same(read(place.ws + "/direct"), b"x\n", "on the host")
        check("directly" in say(place, "checkpoint", id, status=BAD_REQUEST), "checkpoint")
        check("directly" in say(place, "fork", id, status=BAD_REQUEST), "fork")
        result = atoll(place, "exec", id, "--", "/bin/sh", "-c", "echo x >.git/hooks/post-commit")
        check(result.status != 0 and result.refusals, "the guard holds: %r" % result.err)


@test("the network is the sandbox's: steps share it, each is told whom it talked to, a server in the background is reached")
def _():
    sink = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                with sink.accept()[0] as one:
                    one.recv(4096)
                    one.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    threading.Thread(target=serve, daemon=True).start()
    where = "127.0.0.1:%d" % sink.getsockname()[1]
    # 127.0.0.1 is the sandbox's own inside, so the proxy is asked for the host's.
    fetch = [PYTHON, "-c", "import os, socket; one = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].rsplit(':')[-1])))\n"
             "one.sendall(b'GET http://%s/ HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n')\n"
             "said = b''\n"
             "while not said.endswith(b'hello'): said += one.recv(4096) or exit('cut off: %%r' %% said)" % (where, where)]
    with Sandbox("--allow", where, "--listen", "8080") as (place, id):
        step(place, id, [PYTHON, "-c", "import os, socket\n"
                         "server = socket.create_server(('127.0.0.1', 8080))\n"
                         "if os.fork(): os._exit(0)\n"
                         "while True: server.accept()[0].sendall(b'from inside')"])
        for n in range(2):
            result = atoll(place, "exec", id, "--json", "--", *fetch)
            same(result.status, 0, "step %d: %s" % (n, result.err[-500:]))
        last = json.loads(result.err.splitlines()[-1])
        said = json.dumps(last)
        check(where.split(":")[1] in said, "whom it talked to: %s" % said[:600])
        result = atoll(place, "exec", id, "--", "true")
        port = int(re.search(r"port 8080 is at http://127.0.0.1:(\d+)/", result.err)[1])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as one:
            same(one.recv(100), b"from inside", "a server of an earlier step")
        result = atoll(place, "exec", id, "--", *inside_py("""
            import socket
            attempt("elsewhere", lambda: socket.create_connection(("192.0.2.1", 80), 5))
            """))
        check(result.tries["elsewhere"] != "ok", "another address: %s" % result.tries)
    sink.close()


@test("a secret is read once, when the sandbox starts, and is never inside")
def _():
    with Sandbox("--allow", "api.example.com", "--secret", "API_KEY=api.example.com") as (place, id):
        value = "sk-" + _random_word()
        shown = step(place, id, "echo $API_KEY", env={"API_KEY": value})
        check(shown.startswith("sk-") and shown.strip() != value, "a placeholder: %r" % shown)
        same(step(place, id, "echo $API_KEY"), shown, "the same for the next step, whose caller has none")
        same(step(place, id, "echo $API_KEY", flags=["--env", "API_KEY=mine"]), shown, "also if one is given")
        step(place, id, "! grep -s \"$1\" /proc/*/environ /proc/*/cmdline", value[3:])


@test("the contract is the one of the beginning")
def _():
    with Place() as place:
        write(place.tmp + "/d/data", "data\n")
        job = job_file(place, {"filesystem": {"read": [place.tmp + "/d"]}, "workspace": {"mode": "layer"}, "command": ["false"],
                               "limits": {"pids": 50}}, "job.yaml")
        id = create(place, "-f", job, "--env", "K=v")
        remove(job)
        same(step(place, id, 'cat $1; echo $K', place.tmp + "/d/data"), "data\nv\n", "without its file")
        try:
            path = os.path.join(store(place), "records", id, "job")
            text = read(path)
            os.kill(holders(place).pop(), signal.SIGTERM)
            until(lambda: reap_orphans() or not holders(place))
            write(path, text + b"set\0timeout\x0077s\0")
            check("contract" in say(place, "exec", id, "--", "true", status=POLICY), "another contract")
            write(path, b"nonsense")
            say(place, "exec", id, "--", "true", status=HOST_CANNOT)
        finally:
            say(place, "rm", id)
        create(place, "--mode", "layer", "--", "true", status=BAD_REQUEST)
        create(place, "--mode", "layer", "--write", "/", status=POLICY)


@test("where layers of steps cannot be kept it is said at once, with what to do")
def _():
    need_root()
    with Place() as place:
        for name in "lumw":
            os.mkdir(os.path.join(place.tmp, name))
        script = "mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m || exit 77; cd $2; XDG_STATE_HOME=$3/m exec $1 create --mode layer"
        done = plain(place, ["unshare", "-m", "sh", "-c", "cd $3; " + script, "sh", ATOLL, place.ws, place.tmp], confined=False)
        if done.status == 77:
            skip("an overlay of one's own")
        same(done.status, HOST_CANNOT, "create: %s" % done.err)
        check("XDG_STATE_HOME" in done.err, "what to do: %r" % done.err)
        check(place.tmp + "/m/atoll" in done.err, "where: %r" % done.err)


@test("a step is as locked in as a run: no way to the store, the holder, or other steps' sandboxes")
def _():
    with Sandbox() as (place, id):
        other = create(place)
        step(place, other, "echo secret >/tmp/s; sleep 1000 >/dev/null 2>&1 &")
        out = step(place, id, "ls $1 2>/dev/null; ls /proc | grep -c '^[0-9]'; cat /tmp/s 2>/dev/null; pgrep sleep; echo end",
                   store(place))
        check("end\n" in out and "records" not in out and "secret" not in out, "%r" % out)
        result = atoll(place, "exec", id, "--", *inside_py("""
            attempt("mount", lambda: syscall(165, b"none", b"/tmp", b"tmpfs", 0, 0))
            attempt("ptrace 1", lambda: syscall(101, 16, 1, 0, 0))
            attempt("memory of the template", lambda: get("/proc/2/mem"))
            attempt("maps of the first", lambda: get("/proc/1/maps"))
            attempt("write outside", lambda: put(arg[0] + "/canary"))
            """, place.out))
        result.refused()
        say(place, "rm", other)


@test("an ordinary user's sandboxes share one kernel keyring, which is not the caller's: he may have two hundred")
def _():
    if os.geteuid() == 0:
        skip("an ordinary user")
    if not os.path.exists("/proc/keys"):
        skip("/proc/keys")
    with Place() as place:
        boxes = [create(place) for _ in range(3)]
        for box in boxes:
            step(place, box, ["true"])
        found = [line.split() for line in open("/proc/keys") if " atoll-%d:" % os.geteuid() in line]
        same(len(found), 1, "keyrings of sandboxes")
        # Each has a holder and a first process.
        check(int(found[0][2]) >= 6, "users of the keyring: %s" % found[0])
        for box in boxes:
            say(place, "rm", box)


main()
