#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 60
"""
I. Life cycle (LC): an end is an end for everything inside, and every way to end is told apart

LC-06 is `kill -9` of atoll, which LC-07 refers to. Tests without a number are about signals, descriptors and set-up.
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from terminal import UP, Terminal, children, in_namespace, inside, namespace, shell, state, wait_inside  # noqa: E402

DEAF = """
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""


def deaf(code):
    """Python that ignores every signal, and then..."""
    return inside_py(DEAF + textwrap.dedent(code))


def gone(inode):
    check(until(lambda: not in_namespace(inode)), "still there: %s" % in_namespace(inode))
    same(processes_left(), {}, "processes")


def taken(pid, number):
    """Wait until a process has taken a signal, which it may keep blocked and read: two that are pending are one, or swap places."""
    def is_taken():
        pending = re.findall(r"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)", read("/proc/%d/status" % pid).decode(), re.M)
        return not any(int(one, 16) >> (number - 1) & 1 for one in pending)
    check(until(is_taken), "it does not take %s" % number.name)


def host_sh(place, script, *args, **options):
    options["env"] = {"A": ATOLL, **options.get("env", {})}
    return plain(place, inside_sh(script, *args), confined=False, **options)


# ---- the end --------------------------------------------------------------------------------------------------------

@test("LC-01 time-out: SIGTERM first, then SIGKILL after the grace period; the time is the sum")
def _():
    def asked(limit):
        with Place() as place:
            place.expect("*term", "*ready")
            result = run(place, ["--timeout", limit, "--grace", "60s"], inside_py("""
                pid = os.fork()
                name = "child-" if pid == 0 else ""
                def end(*_):
                    put(name + "term")
                    while not os.path.exists("child-term"): time.sleep(0.01)  # the command's end is everybody's
                    os._exit(0)
                signal.signal(signal.SIGTERM, end)
                put(name + "ready")
                while True: time.sleep(10)"""), timeout=2 * RUN_SECONDS)
            if not {"ready", "child-ready"} <= set(os.listdir(place.ws)):
                return False
            same(result.status, TIMED_OUT, "status of what ends by itself when asked")
            check(result.seconds < 60, "it was killed after %.1f s" % result.seconds)
            wait_file(place, "term")
            wait_file(place, "child-term")
            return True
    in_time(asked, "400ms", "4s", "30s")

    def killed(timeout, grace):
        with Place() as place:
            result = run(place, ["--timeout", "%dms" % timeout, "--grace", "%dms" % grace], deaf("""
                for _ in range(3): os.fork()
                print("up", flush=True)
                while True: time.sleep(10)"""))
            same(result.status, TIMED_OUT, "status")
            same(processes_left(), {}, "processes")
            if "up" not in result.out:
                return False
            check(result.seconds * 1000 > timeout + grace - 50, "%.2f s instead of %d + %d ms" % (result.seconds, timeout, grace))
            return result.seconds * 1000 < timeout + 1900  # the usual grace period is two seconds
    for grace in (700, 0):
        in_time(lambda timeout: killed(timeout, grace), 400, 400, 1000, 5000, 25000)


@test("LC-02 daemons of every kind end with the command")
def _():
    with Place() as place:
        place.expect("alive-*")
        running = start(place, [], inside_py("""
            import subprocess
            def daemon(name, *steps):
                if os.fork(): return
                for step in steps: step()
                put("alive-" + name)
                while True: time.sleep(60)
            def fork_on():
                if os.fork(): os._exit(0)
            daemon("setsid", os.setsid)
            daemon("double", os.setsid, fork_on)
            daemon("reaper", lambda: libc.prctl(36, 1, 0, 0, 0), os.setsid, fork_on)
            daemon("cleared", lambda: libc.prctl(1, 0, 0, 0, 0), os.setsid, fork_on)
            daemon("deaf", lambda: [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 15)], os.setsid)
            subprocess.Popen(["sh", "-c", "setsid nohup sleep 999 >/dev/null 2>&1 & (exec setsid sleep 999 &)&"])
            for name in ("setsid", "double", "reaper", "cleared", "deaf"):
                while not os.path.exists("alive-" + name): time.sleep(0.01)
            print("up", flush=True)
            sys.stdin.read()"""), stdin=(pipe := os.pipe())[0])
        os.close(pipe[0])
        wait_file(place, "alive-deaf")
        check(until(lambda: list(inside(running.pid).values()).count("sleep") == 2), "not all daemons came up: %s" % inside(running.pid))
        inode = namespace(wait_inside(running.pid, "sleep"))
        os.close(pipe[1])
        same(running.wait().status, 0, "status")
        gone(inode)


@test("LC the end: a child that keeps the output open does not hold the run up")
def _():
    with Place() as place:
        result = run(place, [], "sleep 600 & echo done")
        same((result.status, result.out), (0, "done\n"), "status and output")
        result = run(place, [], deaf("""
            if os.fork() == 0:
                os.setsid()
                while True: time.sleep(60)
            print("done")"""))
        same(result.status, 0, "status with a child that is deaf")


@test("LC-04 zombies: orphans are reaped by pid 1, and the count of processes falls")
def _():
    with Place() as place:
        result = run(place, ["--pids", "64"], inside_py("""
            def orphan():
                pid = os.fork()
                if pid == 0:
                    if os.fork() == 0: os._exit(0)
                    os._exit(0)
                os.waitpid(pid, 0)
            def many():
                for _ in range(1000):
                    for again in range(3000):
                        try: orphan(); break
                        except BlockingIOError: time.sleep(0.01)
                    else: raise OSError(errno.EAGAIN, "no room")
            attempt("orphans", many)
            def left():
                return [p for p in os.listdir("/proc") if p.isdigit() and p not in ("1", str(os.getpid()))]
            until(lambda: not left())
            tell("left", len(left()))"""))
        same((result.tries["orphans"], result.tries["left"]), ("ok", "0"), "orphans")
    with Place() as place:
        result = run(place, [], inside_py("""
            for _ in range(800):
                if os.fork() == 0: os._exit(0)"""))
        same(result.status, 0, "children that nobody waits for")
        same(processes_left(), {}, "processes")


@test("LC-05 stopped and traced tasks, and a parent stuck in vfork, are gone")
def _():
    code = """
        if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
        traced = os.fork()
        if traced == 0:
            libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)
        os.waitpid(traced, os.WUNTRACED)
        stuck = os.fork()
        if stuck == 0:
            if syscall(58) == 0:
                time.sleep(600)
            os._exit(0)
        put("up")
    """

    def once(limit, ends):
        with Place() as place:
            place.expect("up")
            result = run(place, ["--timeout", limit, "--grace", "200ms"], inside_py(code + "    " + ends))
            same(processes_left(), {}, "processes")
            if not os.path.exists(place.ws + "/up"):
                return False
            same(result.status, TIMED_OUT if ends else 0, "status")
            return True
    check(once("100s", ""), "it did not get there")
    in_time(lambda limit: once(limit, "time.sleep(600)"), "1500ms", "6s", "30s")
    with Place() as place:
        place.expect("up")
        running = start(place, [], inside_py("put('up')\nos.kill(os.getpid(), signal.SIGSTOP)"))
        wait_file(place, "up")
        command = wait_inside(running.pid, "python3")
        check(until(lambda: state(command) == "T"), "the command did not stop")
        running.process.send_signal(signal.SIGTERM)
        same(running.wait().status, -signal.SIGTERM, "a stopped command is asked to end")


# ---- the supervisor dies --------------------------------------------------------------------------------------------

@test("LC-06 kill -9 of atoll at any moment: all dead within a second, and the next run is clean")
def _():
    with Place() as place:
        place.expect("n*")
        took = []
        for i in range(40):
            running = start(place, ["--hide", "**/.env", "--read", place.out], inside_py("""
                if os.fork() == 0: os.setsid(); os.fork()
                time.sleep(600)"""))
            time.sleep(i * 0.0015)  # any moment is what is meant: from before the clone to a running command
            running.process.kill()
            began = time.monotonic()
            running.kill()
            same(processes_left(), {}, "processes, killed after %.1f ms" % (i * 1.5))
            took.append(time.monotonic() - began)
        check(sorted(took)[20] < 1, "half of them took %.1f s and more" % sorted(took)[20])  # single ones may, when all stands still
        running = start(place, [], ["sleep", "600"])
        inode = namespace(wait_inside(running.pid, "sleep"))
        running.kill()
        gone(inode)
        same(run(place, [], "echo >n1").status, 0, "the next run")


@test("LC-06 kill -9 during the end: within the grace period, and while output is being passed on")
def _():
    with Place() as place:
        running = start(place, ["--grace", "30s"], deaf("print('up', flush=True)\nwhile True: time.sleep(9)"))
        command = wait_inside(running.pid, "python3")
        inode = namespace(command)
        running.process.stdout.readline()
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        check(in_namespace(inode), "it did not wait for the command")
        running.kill()
        gone(inode)
    with Place() as place:
        running = start(place, [], "yes | head -c 3000000")
        check(until(lambda: not children(running.pid) or state(children(running.pid)[0]) in "ZS"), "no start")
        running.kill()
        same(processes_left(), {}, "processes")


@test("LC-07 the supervisor crashes or its terminal is lost")
def _():
    # Sanitizers have handlers of their own for the others.
    mine = (signal.SIGSYS, signal.SIGXCPU) if "ASAN_OPTIONS" in os.environ else \
        (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGSYS, signal.SIGXCPU)
    for number in mine:
        with Place() as place:
            running = start(place, [], deaf("while True: time.sleep(9)"))
            inode = namespace(wait_inside(running.pid, "python3"))
            running.process.send_signal(number)
            gone(inode)
            same(running.wait().status, -number, "status")
    with Place() as place:
        place.expect("hup")
        with Terminal(place, [*ATOLL_RUN, "--", *inside_sh("trap 'echo >hup; exit 0' HUP; echo up; while :; do sleep 0.05; done")]) as terminal:
            terminal.expect(UP)
            inode = namespace(wait_inside(terminal.process.pid, "sh"))
            os.close(terminal.slave)
            os.close(terminal.master)
            terminal.process.wait(RUN_SECONDS)
            gone(inode)
            terminal.master, terminal.slave = os.openpty()
        wait_file(place, "hup")


@test("LC-07 SIGTSTP stops everything inside, SIGCONT lets it go on")
def _():
    for tty in (False, True):
        with Place() as place:
            place.expect("up")
            command = inside_py("""
                if os.fork() == 0: os.setsid()
                put("up")
                while True: time.sleep(0.01)""")
            with contextlib.ExitStack() as stack:
                if tty:
                    terminal = stack.enter_context(Terminal(place, [*ATOLL_RUN, "--", *command]))
                    pid = terminal.process.pid
                else:
                    running = start(place, [], command)
                    pid = running.pid
                wait_file(place, "up")
                check(until(lambda: list(inside(pid).values()).count("python3") == 2), "two processes")
                # Before it has heard of the start it has the usual ways: nobody could let one that leads a session go on, and the kernel does not stop it.
                check(until(lambda: int(re.search(r"SigBlk:\t(\w+)", read("/proc/%d/status" % pid).decode())[1], 16) >> signal.SIGTSTP - 1 & 1), "signals are passed on")
                both = [one for one, name in inside(pid).items() if name == "python3"]
                for _ in range(2):
                    os.kill(pid, signal.SIGTSTP)
                    check(until(lambda: state(pid) == "T"), "atoll did not stop: it is %r" % state(pid))
                    check(until(lambda: all(state(one) == "T" for one in both)), "it goes on inside")
                    os.kill(pid, signal.SIGCONT)
                    check(until(lambda: all(state(one) in "SR" for one in both)), "it does not go on inside")
                if not tty:
                    os.kill(pid, signal.SIGKILL)
                    running.kill()


@test("LC-07 closed standard descriptors, and a stopped atoll that is killed")
def _():
    with Place() as place:
        place.expect("n*")
        for number, closed in enumerate(("<&-", ">&-", "2>&-", "<&- >&- 2>&-")):
            host_sh(place, '"$A" run --direct -- sh -c "echo out; echo err >&2; echo >n%d" %s' % (number, closed))
            wait_file(place, "n%d" % number)
        running = start(place, [], ["sleep", "600"])
        inode = namespace(wait_inside(running.pid, "sleep"))
        os.kill(running.pid, signal.SIGSTOP)
        running.kill()
        gone(inode)


@test("LC-08 supervisor and pid 1 killed together; the next run is clean")
def _():
    with Place() as place:
        place.expect("n", "after")
        running = start(place, ["--hide", "**/.env"], "echo >n; sleep 600")
        sleeping = wait_inside(running.pid, "sleep")
        first, inode = children(running.pid)[0], namespace(sleeping)
        for pid in (first, running.pid):
            os.kill(pid, signal.SIGKILL)
        running.kill()
        gone(inode)
        same(run(place, [], "echo >after").status, 0, "the next run")
        same(git(place.ws, "status", "--porcelain", "-uno").stdout, "", "the project")


@test("LC-08 pid 1 killed alone is an error of its own")
def _():
    with Place() as place:
        running = start(place, [], ["sleep", "600"], starts=False)
        wait_inside(running.pid, "sleep")
        os.kill(children(running.pid)[0], signal.SIGKILL)
        running.process.wait(RUN_SECONDS)
        same(running.process.returncode, HOST_CANNOT, "status")
        same(processes_left(), {}, "processes")


# Processes that ask the guard all the time and hear nothing else, and what they would hear once it is gone: that there is no such
# call. "f" is a file, so nothing is ever made. They tell by a descriptor that was opened before, which needs no guard.
ASKING = DEAF + """
heard = os.open("heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
def ask():
    while True:
        try: os.mkdir("f/x")
        except OSError as e:
            if e.errno == errno.ENOSYS:
                os.write(heard, b"x")
                os._exit(0)
for _ in range(2):
    if os.fork() == 0: ask()
print("up", flush=True)
"""


def listeners(pid):
    """How many of the guard's a process has open."""
    found = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            found += os.readlink("/proc/%d/fd/%s" % (pid, fd)) == "anon_inode:seccomp notify"
    return found


@test("LC the end: whoever asks the guard while everything is ended waits for that, and hears nothing else")
def _():
    def twice(running):
        running.process.send_signal(signal.SIGTERM)
        taken(running.pid, signal.SIGTERM)
        running.process.send_signal(signal.SIGTERM)

    def first(running):
        os.kill(children(running.pid)[0], signal.SIGKILL)

    waiting, ending = "ask()", "time.sleep(0.1); os._exit(0)"
    ends = [("a second signal", [], waiting, twice),
            ("the grace period", ["--grace", "50ms"], waiting, lambda running: running.process.send_signal(signal.SIGTERM)),
            ("a limit", ["--output", "1M"], "while True: os.write(1, bytes(65536))", None),
            ("its own, without a record", ["--record", "off"], ending, None),
            ("its own", [], ending, None),
            ("kill -9 of the first process", [], waiting, first)]
    if not BARE:
        ends.append(("a second signal, on a terminal", ["--tty"], waiting, twice))
    for name, flags, code, how in ends:
        for _ in range(4):
            with Place() as place:
                place.expect("heard")
                running = start(place, flags, inside_py(ASKING + code), mode="direct", starts=how is not first)
                running.process.stdout.readline()
                if how:
                    how(running)
                running.process.communicate(timeout=RUN_SECONDS)
                same(read(place.ws + "/heard"), b"", "what was heard at the end by %s" % name)


@test("LC the end: the supervisor has the guard's listener as well, from the first moment to the last")
def _():
    for flags in ([], ["--record", "off"], *([] if BARE else [["--tty"]])):
        with Place() as place:
            running = start(place, flags, "echo up; exec sleep 600", mode="direct")
            running.process.stdout.readline()
            same(listeners(running.pid), 1, "listeners with %s" % flags)
            running.kill(signal.SIGTERM)


# ---- signals --------------------------------------------------------------------------------------------------------

@test("LC signals: a signal reaches the command, and how it ends is how we end")
def _():
    with Place() as place:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            running = start(place, [], inside_py("""
                signal.signal(int(arg[0]), lambda *_: os._exit(7))
                print("up", flush=True)
                while True: time.sleep(9)""", int(number)))
            running.process.stdout.readline()
            running.process.send_signal(number)
            same(running.wait().status, 7, "status of a command that handles %s" % number.name)
            running = start(place, [], "echo up; exec sleep 600")
            running.process.stdout.readline()
            wait_inside(running.pid, "sleep")
            running.process.send_signal(number)
            same(running.wait().status, -number, "status of a command that dies of %s" % number.name)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            running = start(place, [], inside_py("""
                signal.signal(int(arg[0]), lambda *_: (os.write(1, b"got it\\n"), os._exit(3)))
                if os.fork() == 0:
                    signal.signal(int(arg[0]), signal.SIG_DFL)
                    while True: time.sleep(9)
                os.write(1, b"up\\n")
                while True: time.sleep(9)""", int(number)))
            running.process.stdout.readline()
            running.process.send_signal(number)
            result = running.wait()
            same((result.status, result.out), (3, "got it\n"), number.name)


@test("LC signals: the whole group hears of Ctrl-C, and a shell's loop outside ends as well")
def _():
    with Place() as place:
        running = start(place, [], "sleep 600 | sleep 601")
        wait_inside(running.pid, "sleep")
        check(until(lambda: list(inside(running.pid).values()).count("sleep") == 2), "two of them")
        running.process.send_signal(signal.SIGINT)
        same(running.wait().status, -signal.SIGINT, "status")
    with Place() as place, shell(place) as terminal:
        terminal.expect("% ")
        terminal.send('for i in 1 2 3; do "$A" run --direct --no-tty -- sh -c "echo u\'\'p; sleep 600"; done; echo "end"$?\r')
        terminal.expect(r"\nup\r")
        terminal.send("\3")
        terminal.expect(r"% $")
        check(b"end" not in terminal.seen.replace(b'echo "end"', b""), "the loop went on: %r" % terminal.seen)


@test("LC signals: after the grace period, or at a second signal, it is killed")
def _():
    command = deaf("print('up', flush=True)\nwhile True: time.sleep(9)")
    with Place() as place:
        def asked(number):
            running = start(place, ["--grace", "300ms"], command)
            running.process.stdout.readline()
            began = time.monotonic()
            running.process.send_signal(number)
            same(running.wait().status, -number, "status")
            took = time.monotonic() - began
            check(took > 0.28, "%.2f s" % took)
            return took
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            at_best(lambda: asked(number), 1.9, "seconds instead of 0.3")  # the usual grace is 2
        for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM)):
            running = start(place, ["--grace", "60s", "--json"], command)
            running.process.stdout.readline()
            inode = namespace(wait_inside(running.pid, "python3"))
            running.process.send_signal(first)
            taken(running.pid, first)
            time.sleep(0.1)
            check(in_namespace(inode), "one signal killed it")
            running.process.send_signal(second)
            result = running.wait()
            check(result.seconds < 60, "the second signal did nothing")
            same(result.status, -first, "status after %s, %s" % (first.name, second.name))
            told = json.loads(result.err.splitlines()[-1])
            same((told["end"], told["code"], told["status"]), ("signaled", first, 128 + first), "what is told")
            gone(inode)


@test("LC signals: ignored and blocked signals of the caller")
def _():
    with Place() as place:
        # nohup: SIGHUP stays ignored; ignored SIGCHLD does no harm; inside all is as usual.
        result = host_sh(place, """trap '' HUP CHLD PIPE; "$A" run --direct -- sh -c 'kill -HUP $$; echo not reached' & pid=$!
            wait $pid; echo $?""")
        same(result.out, "129\n", "a command whose caller ignores SIGHUP dies of its own")
        running = plain_start(place, ["/usr/bin/nohup", *ATOLL_RUN, "--", "sh", "-c", "echo up; read x; echo still"])
        running.process.stdout.readline()
        running.process.send_signal(signal.SIGHUP)
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        same(running.process.stdout.readline(), b"still\n", "after SIGHUP under nohup")
        running.process.stdin.close()
        same(running.process.wait(RUN_SECONDS), 0, "status")
        running.done()
        # All blocked, as some callers leave them: they count all the same.
        running = plain_start(place, [*ATOLL_RUN, "--", "sh", "-c", "grep SigBlk /proc/self/status; exec sleep 600"],
                              preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)))
        same(running.process.stdout.readline().split()[1].strip(b"0"), b"", "blocked inside")
        wait_inside(running.process.pid, "sleep")
        running.process.send_signal(signal.SIGTERM)
        same(running.process.wait(RUN_SECONDS), -signal.SIGTERM, "status")
        running.done()


class plain_start:
    """A program of the host's, with pipes, that a test talks to."""

    def __init__(self, place, argv, **options):
        self.process = subprocess.Popen(argv, cwd=place.ws, env=caller_environment(place), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def done(self):
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


@test("LC signals: a reader that goes away: the command gets SIGPIPE, as in a pipeline")
def _():
    with Place() as place:
        result = host_sh(place, """("$A" run --direct -- sh -c 'yes; echo status $? >&2'; echo "ours $?" >&2) | head -n 1""")
        check("status 141" in result.err, "the command did not get SIGPIPE: %s" % result.err)
        same(host_sh(place, '("$A" run --direct --json -- true; echo $? >&3) 2>&1 >/dev/null 3>&1 | true; echo done').out[-5:], "done\n",
             "nobody reads the summary")


# ---- statuses -------------------------------------------------------------------------------------------------------

@test("LC-10 exit statuses are distinct")
def _():
    with Place() as place:
        write(place.ws + "/not-a-program", "#!/no/such/interpreter\n", 0o755)
        write(place.ws + "/plain", "x", 0o644)
        place.settle()
        for status in (0, 1, 125, 126, 127, 128, 200, 239, 255):
            same(run(place, [], "exit %d" % status).status, status, "exit %d" % status)
        for number in (1, 2, 6, 9, 11, 13, 15, 31):
            result = run(place, ["--json"], inside_sh("kill -%d $$" % number))
            same(result.status, 128 + number, "signal %d" % number)
            same(json.loads(result.err.splitlines()[-1])["end"], "signaled", "what is told")
        for command, status in ((["no-such"], 127), (["./plain"], 126), (["/usr"], 126), (["./not-a-program"], 127)):
            result = run(place, ["--json"], command)
            same(result.status, status, str(command))
            same(json.loads(result.err.splitlines()[-1])["end"], "not-started", "what is told")
            check(result.err.startswith("atoll: run "), "no reason: %s" % result.err)
        for flags, status in ((["--frob"], BAD_REQUEST), (["--grace", "unlimited"], BAD_REQUEST), (["--grace", "11m"], BAD_REQUEST),
                              (["-f", "/no/such"], BAD_REQUEST), (["--read", place.home], POLICY), (["-f", job_file(place, {"image": "debian:12"})], HOST_CANNOT)):
            result = run(place, flags, "echo ran", starts=False)
            same((result.status, result.out), (status, ""), str(flags))
        for flags, script, status in ((["--timeout", "200ms", "--grace", "0s"], "sleep 20", TIMED_OUT),
                                      (["--cpu-time", "200ms"], "while :; do :; done", OVER_LIMIT),
                                      (["--output", "1K"], "yes", OVER_LIMIT)):
            same(run(place, flags, script).status, status, script)
        same(run(place, ["--memory", "64M"], inside_py("x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1")).status,
             OUT_OF_MEMORY, "memory")
        same(run(place, ["--timeout", "1ms", "--grace", "1ms"], "sleep 20").status, TIMED_OUT, "a time-out before it has begun")


@test("LC-11 fifty runs at once, in one workspace and in separate ones")
def _():
    with Place() as place:
        place.expect("n*")
        many = [start(place, [], 'echo %d; echo %d >/tmp/x; cat /tmp/x; echo >n%d; ls /tmp | grep -v atoll' % (i, i, i)) for i in range(50)]
        for i, running in enumerate(many):
            result = running.wait()
            same((result.status, result.out), (0, "%d\n%d\nx\n" % (i, i)), "run %d" % i)
        same(len([name for name in os.listdir(place.ws) if name.startswith("n")]), 50, "files")
    with Place() as place:
        for i in range(50):
            os.mkdir(place.tmp + "/%d" % i)
        many = [start(place, ["-C", place.tmp + "/%d" % i], 'pwd; echo %d >f; ls' % i, cwd=place.tmp) for i in range(50)]
        for i, running in enumerate(many):
            same(running.wait().out, "%s/%d\nf\n" % (place.tmp, i), "run %d" % i)
            same(read(place.tmp + "/%d/f" % i), b"%d\n" % i, "file")


@test("LC-13 the clock is set forward and back during a run")
def _():
    if "ASAN_OPTIONS" in os.environ:
        skip("a build that takes a preloaded library")
    with Place() as place:
        # The machine's own clock is not ours to set: what atoll is told about it jumps by a year, to and fro.
        build_c(place, "jump.so", """
            #include <dlfcn.h>
            #include <time.h>
            #include <sys/time.h>
            static int n;
            static long jump(void) { return (n++ % 2 ? 1 : -1) * 31536000L; }
            int clock_gettime(clockid_t id, struct timespec *t) {
                int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
                int r = real(id, t);
                if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += jump();
                return r;
            }
            time_t time(time_t *t) { struct timespec now; clock_gettime(CLOCK_REALTIME, &now); if (t) *t = now.tv_sec; return now.tv_sec; }
            int gettimeofday(struct timeval *t, void *z) { t->tv_sec = time(0); t->tv_usec = 0; return 0; }
            """, "-shared", "-fPIC", "-ldl")
        env = {"LD_PRELOAD": place.ws + "/jump.so"}
        result = run(place, ["--timeout", "1s", "--grace", "0s"], ["sleep", "600"], env=env)
        same(result.status, TIMED_OUT, "status")
        check(result.seconds > 0.95, "it took %.1f s" % result.seconds)
        same(run(place, ["--timeout", "100s"], ["sleep", "0.3"], env=env).status, 0, "a run that is in time")


@test("LC-14 a caller that ignores SIGCHLD: ended by descriptor, not by a number that is somebody else's")
def _():
    with Place() as place:
        for _ in range(20):
            running = plain_start(place, [*ATOLL_RUN, "--json", "--", "sh", "-c", "echo out; exit 5"],
                                  preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            out, err = running.process.communicate(timeout=RUN_SECONDS)
            same((running.process.returncode, out), (5, b"out\n"), "status and output")
            check(json.loads(err)["cpu_ns"] > 0, "no usage")


# ---- set-up ---------------------------------------------------------------------------------------------------------

@test("LC set-up: a set-up that hangs: it is talked about on a terminal, and Ctrl-C and SIGTERM end it")
def _():
    need_root()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("/dev/fuse")
    with Place() as place:
        # In a mount namespace of its own, a file system whose server never answers, for as long as atoll lives.
        helper = write(place.tmp + "/helper.py", """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(r):
    if r: raise OSError(ctypes.get_errno(), "mount")
call(libc.unshare(0x20000))
call(libc.mount(None, b"/", None, 0x44000, None))
fd = os.open("/dev/fuse", os.O_RDWR)
call(libc.mount(b"dead", sys.argv[1].encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd))
if os.fork() == 0:
    os.setsid()
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    while True: signal.pause()
os.execv(sys.argv[2], sys.argv[2:])
""")
        dead = place.tmp + "/dead"
        os.mkdir(dead)
        for number in (signal.SIGINT, signal.SIGTERM):
            with Terminal(place, [PYTHON, helper, dead, *ATOLL_RUN, "--read", dead + "/x", "--", "true"]) as terminal:
                terminal.expect(r"atoll: setting up \([a-z ]+\) \.\.\.")
                if number == signal.SIGINT:
                    terminal.send("\3")
                else:
                    terminal.process.send_signal(number)
                same(terminal.wait(), -number, "status")
            same(processes_left(), {}, "processes")


@test("LC set-up: a set-up that is quick says nothing, and a gone directory is an error in one line")
def _():
    with Place() as place:
        def hello():
            with Terminal(place, [*ATOLL_RUN, "--", "echo", "hello"]) as terminal:
                same(terminal.wait(), 0, "status")
                same(terminal.seen, b"hello\r\n", "all that was printed")
                return terminal.was_slow
        at_best(hello, True, "it told that it sets up")
        result = host_sh(place, 'mkdir gone; cd gone; rmdir ../gone; exec "$A" run --direct -- true')
        same(result.status, BAD_REQUEST, "status")
        check(result.err.count("\n") == 1 and "current directory" in result.err, result.err)


main()
