#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 54
"""
J. Output, terminal, logs (OUT): what a command prints reaches a person as text, a program byte by byte, and nobody's terminal,
clipboard or descriptors otherwise

Of OUT-11, that each run's log is its own and cannot be forged, is shown by the tests of the record.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from terminal import UP, Terminal, inside, is_in_front, shell, state, wait_inside  # noqa: E402
import termios  # noqa: E402

# What each would do is in src/base/test-vt.c.
ACTS = [b"\033]52;c;ZXZpbA==\a", b"\033]0;evil\a", b"\033]2;evil\033\\", b"\033]8;;http://evil\033\\", b"\033P1$r0m\033\\",
        b"\033_evil\033\\", b"\033^evil\033\\", b"\033Xevil\033\\", b"\033[8;1;1t", b"\033[22;0t", b"\033[5i", b"\033c", b"\033kevil\033\\",
        b"\x9b8;1;1t", b"\xc2\x9b8;1;1t", b"\x9d52;c;ZXZpbA==\x9c", b"\033[3J", b"\033[?3h", b"\033[2h"]
ASKS = [b"\033[6n", b"\033[?6n", b"\033]11;?\a", b"\033P$qm\033\\", b"\033[c", b"\033[>c", b"\033[=c", b"\033[5n", b"\033[x", b"\033[21t",
        b"\033[>0q", b"\033Z", b"\005", b"\033[?1$p", b"\033P+q544e\033\\", b"\033[18t", b"\033[1;1;1;1;1;1*y", b"\x9bc"]
SHAPES = rb"\033\[[0-9;:]*m|\033\[\?(25|7)[hl]|\033[()][0AB]"


def printer(*pieces):
    """Python that writes these bytes to stdout, and again to stderr."""
    return [PYTHON, "-I", "-c", "import os, sys\nfor piece in sys.argv[1:]:\n    for fd in (1, 2): os.write(fd, bytes.fromhex(piece))",
            *[piece.hex() for piece in pieces]]


def no_harm(seen, what):
    """Nothing of what is left out is in these bytes."""
    rest = re.sub(SHAPES, b"", seen)
    check(b"\033" not in rest, "%s: an escape came through: %r" % (what, rest))
    for byte in (b"\x05", b"\x0e", b"\x18", b"\x90", b"\x9b", b"\x9d"):
        check(byte not in rest, "%s: %r came through: %r" % (what, byte, rest))
    # Behind an 8-bit control, which is none any more, the rest is text.
    rest = rest.replace(b"?52;c;ZXZpbA==?", b"")
    check(b"evil" not in rest and b"ZXZpbA" not in rest, "%s: the content came through: %r" % (what, rest))


def reads_all(fd):
    found = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError:
            return found
        if not more:
            return found
        found += more


@test("OUT-01 sequences that act on a terminal are left out on one, and kept exactly elsewhere")
def _():
    whole = b"".join(b"<" + one + b">" for one in ACTS)
    for flags in ([], ["--no-tty"], ["--tty"]):
        with Place() as place:
            with Terminal(place, [*ATOLL_RUN, *flags, "--", *printer(*[b"<" + one + b">" for one in ACTS])]) as terminal:
                same(terminal.wait(), 0, "status")
                no_harm(terminal.seen, str(flags))
                same(terminal.seen.count(b"<"), 2 * len(ACTS), "what stands around them")
            result = run(place, [], printer(whole))
            same((result.raw_out, result.raw_err), (whole, whole), "in pipes")
            with open(place.tmp + "/file", "wb") as file, Terminal(place, [*ATOLL_RUN, "--", *printer(whole)], stdout=file) as terminal:
                terminal.wait()
                no_harm(terminal.seen, "stderr is a terminal, stdout is not")
            same(read(place.tmp + "/file"), whole, "in a file")


@test("OUT-02 no query reaches the terminal, so no answer is typed")
def _():
    for flags in ([], ["--no-tty"]):
        with Place() as place:
            with Terminal(place, [*ATOLL_RUN, *flags, "--", *printer(*ASKS, *[bytes([b]) for one in ASKS for b in one])]) as terminal:
                same(terminal.wait(), 0, "status")
                rest = re.sub(rb"\033\[0m", b"", terminal.seen)
                check(b"\033" not in rest and b"\x05" not in rest and b"\x9b" not in rest, "a query came through: %r" % rest)


@test("OUT-02 two streams on one terminal do not make a sequence of two halves")
def _():
    with Place() as place:
        # A harmless sequence cut where the copy used to cut its pieces, and the other stream's text after it.
        code = """
            import threading
            def one(fd, data):
                for _ in range(300): os.write(fd, data)
            a = threading.Thread(target=one, args=(1, b"x" * 4094 + b"\\033[31m"))
            b = threading.Thread(target=one, args=(2, b"6n8;1;1t"))
            a.start(); b.start(); a.join(); b.join(); os._exit(0)"""
        with Terminal(place, [*ATOLL_RUN, "--no-tty", "--", *inside_py(code)]) as terminal:
            same(terminal.wait(), 0, "status")
        whole = re.sub(rb"\033\[(31|0)m", b"", terminal.seen)
        check(b"\033" not in whole, "a torn sequence: %r" % whole[max(0, whole.find(b"\033") - 20):][:60])
        same(terminal.seen.count(b"\033[31m"), 300, "whole sequences")


@test("OUT-03 full-screen programs: what they switch on is switched off at the end, however they end")
def _():
    on = "\\033[?1049h\\033[?25l\\033=\\033[?1h\\033[?2004h\\033[?1000h\\033[?1006h\\033[31m\\033[4h\\033[2;5r\\033(0"

    def once(limit, ending):
        with Place() as place:
            with Terminal(place, [*ATOLL_RUN, "--timeout", limit, "--grace", "0s", "--", *inside_sh("printf '%s'; %s" % (on, ending))]) as terminal:
                terminal.wait()
                if ending == "sleep 600" and b"\033(0" not in terminal.seen:
                    return False
                for came, undone in (("?1049h", "?1049l"), ("?25l", "?25h"), ("?1h", "?1l"), ("?2004h", "?2004l"), ("?1000h", "?1000;1002"),
                                     ("[31m", "[0m"), ("[4h", "[4l"), ("2;5r", "[r")):
                    check(came.encode() in terminal.seen, "%s did not come through" % came)
                    check(undone.encode() in terminal.seen.split(came.encode())[1], "%s was not undone after %s" % (came, ending))
                check(b"\033>" in terminal.seen and b"\033(B" in terminal.seen, "keypad and characters: %r" % terminal.seen)
                return True
    once("100s", "exit 0")
    once("100s", "kill -9 $$")
    in_time(lambda limit: once(limit, "sleep 600"))
    # Without an input of its own a command does not change what the terminal types.
    with Place() as place, Terminal(place, [*ATOLL_RUN, "--no-tty", "--", "printf", on]) as terminal:
        terminal.wait()
        for mode in (b"1049", b"2004", b"1000", b"\033="):
            check(mode not in terminal.seen, "%r came through: %r" % (mode, terminal.seen))


@test("OUT-04 fake lines: ours come last, on a line of their own, after everything is reset")
def _():
    fakes = (r"\ratoll: refused 0 actions\n", r"atoll: all is well", r"\033[8mx\033[A\033[A", r"\033]0;x", r"\033[31matoll: ok\r", r"\033P hidden")
    for fake in fakes:
        for flags in ([], ["--no-tty"]):
            with Place() as place:
                script = "echo x >.git/hooks/h 2>/dev/null; printf '%s'" % fake
                with Terminal(place, [*ATOLL_RUN, *flags, "--", *inside_sh(script)]) as terminal:
                    terminal.wait()
                    parts = terminal.seen.split(b"atoll: refused 1 action:")
                    same(len(parts), 2, "our own line")
                    before = parts[0]
                    check(before == b"" or before.endswith(b"\n") or before.endswith(b"\n\033[J"), "not on a line of its own: %r" % before[-80:])
                    check(b"8m" not in before or b"\033[0m" in before.split(b"8m")[1], "not reset: %r" % before)
                    check(b"create .git/hooks/h: protected (git hooks)" in parts[1], "%r" % parts[1])
    with Place() as place:  # for programs the frame is the last line of stderr and the status
        result = run(place, ["--json"], "echo '{\"status\":0,\"end\":\"exited\",\"code\":0}' >&2; exit 9")
        same(json.loads(result.err.splitlines()[-1])["status"], 9, "the last line")


@test("OUT-05 names with newlines, quotes, direction marks and bytes that are no text")
def _():
    names = [b"a\nb", b'a"b}', "a\u2028b".encode(), "a\u202eb".encode(), b"a\xed\xa0\x80b", b"a\xffb", b"a\033]0;evil\ab", b"a\rb", b"n" * 255, b"a\\b\tc"]
    code = """
        for name in arg:
            try: os.mkdir(b".git/hooks/" + bytes.fromhex(name))
            except OSError: pass"""
    with Place() as place:
        command = inside_py(code, *[name.hex() for name in names])
        result = run(place, ["--json"], command)
        lines = result.raw_err.splitlines()
        same(len(lines), 1, "lines")
        told = json.loads(lines[0].decode("utf-8", "strict"))
        same(len(told["denials"]), len(names), "denials")
        check(b"\033" not in lines[0] and b"\r" not in lines[0] and "\u2028".encode() not in lines[0], "raw bytes in JSON")
        check(all(len(denial["path"]) < 1100 for denial in told["denials"]), "length")
        result = run(place, [], command)
        check(len(result.raw_err.splitlines()) <= len(names) + 2, "a name became two lines: %r" % result.raw_err)
        for bad in (b"\033", b"\r", "\u202e".encode(), "\u2028".encode(), b"\xff"):
            check(bad not in result.raw_err, "%r in the summary" % bad)


@test("OUT-07 binary output, cut anywhere, is exact in pipes and files")
def _():
    data = bytes(range(256)) * 40 + "\u20ac\U0001f3dd".encode() * 1000 + b"\xe2\x82"
    with Place() as place:
        code = """
            import random
            data, at = bytes.fromhex(get(arg[0]).decode()), 0
            while at < len(data):
                n = random.randint(1, 700); os.write(1, data[at:at + n]); os.write(2, data[at:at + n]); at += n
            os._exit(0)"""
        write(place.ws + "/data", data.hex())
        place.expect("data")
        result = run(place, [], inside_py(code, "data"))
        check(result.raw_out == data and result.raw_err == data, "bytes changed")
        text = "grün \u20ac \U0001f3dd\n".encode()
        with Terminal(place, [*ATOLL_RUN, "--", PYTHON, "-c", "import os,time\nfor b in %r:\n os.write(1, bytes([b])); time.sleep(0.002)" % text]) as terminal:
            terminal.wait()
            same(terminal.seen, text.replace(b"\n", b"\r\n"), "characters that come byte by byte, on a terminal")


@test("OUT-08 the caller's terminal and descriptors are as they were")
def _():
    attack = """
        import fcntl, termios, tty
        for fd in (0, 1, 2):
            attempt("nonblock%d" % fd, lambda: fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND))
            attempt("raw%d" % fd, lambda: tty.setraw(fd))
            attempt("size%d" % fd, lambda: fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 3, 0, 0)))
            attempt("group%d" % fd, lambda: os.tcsetpgrp(fd, os.getpid()))
            attempt("session%d" % fd, lambda: fcntl.ioctl(fd, termios.TIOCSCTTY, 1))
            attempt("type%d" % fd, lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x"))"""
    for flags in ([], ["--no-tty"]):
        for ending in ("", "os.kill(os.getpid(), 9)", "time.sleep(600)"):
            with Place() as place:
                with Terminal(place, [*ATOLL_RUN, "--timeout", "2s", "--grace", "0s", *flags, "--", *inside_py(attack + "\n        " + ending)],
                              rows=30, columns=90) as terminal:
                    terminal.wait()
                    same(terminal.state(), terminal.before, "modes and flags")
                    size = struct.unpack("HHHH", fcntl.ioctl(terminal.slave, termios.TIOCGWINSZ, bytes(8)))
                    same(size[:2], (30, 90), "size")
                    check(b"type0 => ok" not in terminal.seen, "words were put into a terminal")
    with Place() as place:  # pipes and files of the caller
        reads, writes = os.pipe()
        with open(place.tmp + "/file", "wb") as file:
            flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (reads, file.fileno())]
            subprocess.run([*ATOLL_RUN, "--", *inside_py(attack)], cwd=place.ws, env=caller_environment(place), stdin=reads, stdout=file, stderr=file, check=True)
            same([fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (reads, file.fileno())], flags, "flags of a pipe and a file")
        os.close(reads), os.close(writes)


@test("OUT-08 signals and failures leave the terminal as it was")
def _():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
        with Place() as place, Terminal(place, [*ATOLL_RUN, "--grace", "0s", "--", "sleep", "600"]) as terminal:
            wait_inside(terminal.process.pid, "sleep")
            check(until(terminal.is_raw), "not in raw mode")
            terminal.process.send_signal(number)
            same(terminal.wait(), -number, "status")
            same(terminal.state(), terminal.before, "modes after %s" % number.name)
    with Place() as place:
        for command in (["no-such-program"], ["/usr"]):
            with Terminal(place, [*ATOLL_RUN, "--", *command]) as terminal:
                among(terminal.wait(), (126, 127), "status")
                same(terminal.state(), terminal.before, "modes")
                check(re.match(rb"atoll: run '[^\n]*\r\n$", terminal.seen), "not one line: %r" % terminal.seen)


@test("OUT-10 what was refused is reported: a write, a unix connect, a limit")
def _():
    with Place() as place, Sink(place) as sink:
        result = run(place, ["--json", "--read", place.out], inside_py("""
            import socket
            attempt("write", lambda: put(".git/hooks/h"))
            attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect(arg[0]))""", sink.path))
        told = json.loads(result.err.splitlines()[-1])
        same([denial["action"] for denial in told["denials"]], ["create", "connect"], "actions")
        for denial in told["denials"]:
            check(denial["rule"] and denial["path"] and denial["program"] and denial["pid"] > 1, "incomplete: %s" % denial)
        told = json.loads(run(place, ["--json", "--output", "100"], "yes").err.splitlines()[-1])
        same((told["end"], told["limit"], told["limit_value"]), ("over-limit", "output", 100), "the limit")


def recorded(place):
    """The lines of the log that was written last."""
    log = max(glob.glob(os.path.join(place.home, STORE, "log", "????????.jsonl")), key=os.path.getmtime)
    return [json.loads(line) for line in read(log).decode("utf-8", "surrogatepass").splitlines()]


@test("OUT-10 every denied action is in the log: a write, a read, a connect, a unix connect, a system call, a limit")
def _():
    for mode in ("direct",) if BARE else ("direct", "layer", "read-only"):
        with Place() as place, Sink(place) as sink:
            result = run(place, ["--json", "--output", "2000"], inside_py("""
                import socket
                attempt("write", lambda: put("/etc/x"))
                attempt("read", lambda: get(arg[1]))
                attempt("connect", lambda: socket.socket(socket.AF_INET).connect(("192.0.2.1", 443)))
                attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect(arg[0]))
                attempt("call", lambda: syscall(165 if os.uname().machine == "x86_64" else 40, b"a", b"/", b"tmpfs", 0, 0))
                sys.stdout.write("x" * 5000)""", sink.path, place.out + "/secret.txt"), mode=mode)
            lines = recorded(place)
            found = {line["action"] + " " + line["rule"]: line for line in lines if line["kind"] == "denial"}
            wanted = {"create read-only", "read not granted", "connect network", "connect sockets", "call system calls"}
            check(wanted <= set(found), "mode %s: %s" % (mode, sorted(found)))
            for what in wanted:
                line = found[what]
                check(line["time"] and line["pid"] > 1 and line["program"] and line["object"] and line["count"] >= 1, "incomplete: %s" % line)
                check(line["allow"] or what == "call system calls", "nothing to act on: %s" % line)
            limits = [line for line in lines if line["kind"] == "limit"]
            same([(line["limit"], line["value"]) for line in limits], [("output", 2000)], "the limit")
            told = json.loads(result.err.splitlines()[-1])
            check(wanted <= {denial["action"] + " " + denial["rule"] for denial in told["denials"]}, "the result: %s" % told["denials"])


@test("OUT-10 what is allowed leaves no denial")
def _():
    with Place(strict=False) as place, Sink(place) as sink:
        run(place, ["--write", place.out, "--socket", sink.path], inside_py("""
            import socket
            attempt("write", lambda: put(arg[1] + "/x"))
            attempt("read", lambda: get(arg[1] + "/canary"))
            attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect(arg[0]))""", sink.path, place.out)).allowed("write", "read", "unix")
        same([line for line in recorded(place) if line["kind"] == "denial"], [], "denials")


@test("OUT-11 the channel of reports cannot be reached from inside")
def _():
    for flags in ([], ["--tty"]):
        with Place() as place:
            result = run(place, [*flags, "--json"], inside_py("""
                tell("fds", sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
                attempt("list", lambda: os.listdir("/proc/1/fd"))
                attempt("open", lambda: os.open("/proc/1/fd/3", os.O_RDWR))
                attempt("memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
                attempt("pidfd", lambda: syscall(438, syscall(434, 1, 0), 3, 0))
                attempt("trace", lambda: syscall(101, 16, 1, 0, 0))
                attempt("kill", lambda: os.kill(1, 9))
                attempt("stop", lambda: os.kill(1, signal.SIGSTOP))
                for n in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGTSTP):
                    attempt("signal %d" % n, lambda: os.kill(1, n))
                attempt("all", lambda: os.kill(-1, signal.SIGCONT))"""))
            same(result.status, 0, "status")
            same(result.tries["fds"], "[0, 1, 2]", "descriptors")
            for label in ("list", "open", "memory", "pidfd", "trace"):
                among(result.tries[label], ("EACCES", "EPERM"), label)
            same(json.loads(result.raw_err.splitlines()[-1] if not flags else result.err.splitlines()[-1])["n_denials"], 0, "forged denials")


# ---- the terminal inside --------------------------------------------------------------------------------------------

@test("terminal: a private one, with the caller's size and kind, under its own name")
def _():
    with Place() as place:
        script = "tty; stty size; echo $TERM $COLUMNS; test -t 0 && test -t 1 && test -t 2 && echo three; echo tty >/dev/tty; ls -l /proc/self/fd/0; ls -1 /dev/pts; echo err >/dev/stderr"
        with Terminal(place, [*ATOLL_RUN, "--", *inside_sh(script)], rows=33, columns=101, env={"TERM": "xterm-256color", "COLUMNS": "7"}) as terminal:
            same(terminal.wait(), 0, "status")
            lines = terminal.seen.decode().replace("\r", "").splitlines()
            same(lines[:5], ["/dev/pts/0", "33 101", "xterm-256color", "three", "tty"], "lines")
            same(lines[6:], ["0", "ptmx", "err"], "its names")
        for term in (None, "../../x", "a b", "\033[6n"):
            with Terminal(place, [*ATOLL_RUN, "--", "sh", "-c", "echo $TERM"], env={"TERM": term}) as terminal:
                terminal.wait()
                same(terminal.seen, b"xterm\r\n", "TERM=%s" % term)
        same(run(place, [], "test -t 0 || test -t 1 || test -t 2 || echo none").out, "none\n", "without a terminal")
        result = run(place, ["--tty"], "test -t 0 && test -t 1 && ! test -t 2 && stty size")
        same(result.out, "24 80\r\n", "--tty without a terminal outside")
        result = run(place, ["--tty"], ["cat"], stdin=b"one\ntwo")
        same(result.status, 0, "an input that ends")
        check("one\r\n" in result.out and "two" in result.out, result.out)
        with Terminal(place, [*ATOLL_RUN, "--no-tty", "--", "sh", "-c", "test -t 0 || test -t 1 || echo pipes"]) as terminal:
            terminal.wait()
            same(terminal.seen, b"pipes\r\n", "--no-tty")
        reads, writes = os.pipe()
        with Terminal(place, [*ATOLL_RUN, "--", "sh", "-c", "test -t 2 || echo pipe >&2; echo out"], stderr=writes) as terminal:
            terminal.wait()
            os.close(writes)
            same((terminal.seen, reads_all(reads)), (b"out\r\n", b"pipe\n"), "stderr alone elsewhere")
        os.close(reads)


@test("terminal: a new size arrives, with its signal")
def _():
    with Place() as place:
        script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"
        with Terminal(place, [*ATOLL_RUN, "--", *inside_sh(script)]) as terminal:
            terminal.expect(UP)
            for rows, columns in ((50, 132), (10, 20)):
                terminal.resize(rows, columns)
                terminal.expect("%d %d\r" % (rows, columns))


@test("terminal: keys, echo, Ctrl-C, Ctrl-D and Ctrl-\\ work as on any")
def _():
    with Place() as place:
        with Terminal(place, [*ATOLL_RUN, "--", "cat"]) as terminal:
            wait_inside(terminal.process.pid, "cat")
            terminal.send("hello\r")
            terminal.expect("hello\r\nhello\r\n")
            terminal.send("a\x7fb\r")
            terminal.expect("b\r\n")
            terminal.send("\4")
            same(terminal.wait(), 0, "status after Ctrl-D")
        for key, number in (("\3", signal.SIGINT), ("\x1c", signal.SIGQUIT)):
            with Terminal(place, [*ATOLL_RUN, "--", "sleep", "600"]) as terminal:
                wait_inside(terminal.process.pid, "sleep")
                check(until(terminal.is_raw), "not in raw mode")
                terminal.send(key)
                same(terminal.wait(), 128 + number, "status")


@test("terminal: a shell inside has job control")
def _():
    need("bash")
    with Place() as place:
        with Terminal(place, [*ATOLL_RUN, "--env", "PS1=in> ", "--", "bash", "--norc", "-i"], env={"TERM": "dumb"}) as terminal:
            terminal.expect("in> ")
            check(b"no job control" not in terminal.seen and b"cannot set terminal" not in terminal.seen, "%r" % terminal.seen)
            terminal.send("sleep 600\r")
            job = wait_inside(terminal.process.pid, "sleep")
            terminal.send("\x1a")
            terminal.expect("Stopped")
            same(state(job), "T", "the inner job")
            check(state(terminal.process.pid) not in "Tt", "we stopped as well")  # under load it may be in any other
            terminal.expect("in> ")
            terminal.send("bg\r")
            terminal.expect("in> ")
            check(until(lambda: state(job) in "SR"), "bg did not let it go on")
            terminal.send("fg\r")
            terminal.expect("sleep 600\r\n")
            check(until(lambda: is_in_front(job)), "fg did not bring it to the front")  # the line comes before that
            terminal.send("\3")
            terminal.expect("in> ")
            check(until(lambda: not state(job)), "Ctrl-C did not end it")
            terminal.send("stty size; exit 5\r")
            terminal.expect("24 80")
            same(terminal.wait(), 5, "status")


@test("terminal: Ctrl-Z at a command that is no shell stops us like any program, and fg goes on")
def _():
    need("bash")
    with Place() as place, shell(place) as terminal:
        terminal.expect("% ")
        for _ in range(2):
            terminal.send('"$A" run --direct -- cat\r')
            cat = wait_inside(terminal.process.pid, "cat")
            check(until(terminal.is_raw), "not in raw mode")
            terminal.send("\x1a")
            terminal.expect("Stopped")
            terminal.expect("% ")
            same(state(cat), "T", "the command")
            check(not terminal.is_raw(), "the shell's terminal is raw")
            terminal.send("fg\r")
            terminal.expect("run --direct -- cat\r\n")
            check(until(lambda: state(cat) in "SR"), "fg did not let it go on")
            check(until(terminal.is_raw), "not in raw mode again")
            terminal.send("again\r")
            terminal.expect("again\r\nagain\r\n")
            terminal.send("\4")
            terminal.expect("% ")
            check(until(lambda: not terminal.is_raw()), "raw after the end")


@test("terminal: in the background nothing is taken from the shell, and it comes back with fg")
def _():
    need("bash")
    for flags in ("", "--no-tty"):
        with Place() as place, shell(place) as terminal:
            terminal.expect("% ")
            terminal.send('"$A" run --direct %s -- cat &\r' % flags)
            terminal.expect("% ")
            wait_inside(terminal.process.pid, "cat")
            for i in range(5):
                terminal.send("echo mine$((%d+1))\r" % i)
                terminal.expect("mine%d\r" % (i + 1))
            check(b"Stopped" not in terminal.seen, "it was stopped: %r" % terminal.seen)
            terminal.expect("% ")
            terminal.send("fg\r")
            terminal.expect("-- cat\r\n")
            if not flags:
                check(until(terminal.is_raw), "not in raw mode")
            terminal.send("to cat\r")
            terminal.expect("to cat\r\n.*to cat\r\n")
            terminal.send("\4")
            terminal.expect("% ")


@test("terminal: full-screen and line-editing programs run in it")
def _():
    with Place() as place:
        with Terminal(place, [*ATOLL_RUN, "--", PYTHON, "-I", "-q"]) as terminal:
            terminal.expect(">>> ")
            terminal.send("print(6*7)\r")
            terminal.expect("42\r\n")
            terminal.send("\4")
            same(terminal.wait(), 0, "python")
        if shutil.which("less", path="/usr/bin:/bin"):
            write(place.ws + "/long", "".join("line %d\n" % i for i in range(200)))
            place.expect("long", ".less*")
            with Terminal(place, [*ATOLL_RUN, "--", "less", "long"]) as terminal:
                terminal.expect("line 10")
                terminal.send("G")
                terminal.expect("line 199")
                terminal.send("q")
                same(terminal.wait(), 0, "less")
        if shutil.which("vi", path="/usr/bin:/bin"):
            place.expect("note", ".note*")
            with Terminal(place, [*ATOLL_RUN, "--", "vi", "note"]) as terminal:
                terminal.expect("note")
                terminal.send("ihello\033:wq\r")
                same(terminal.wait(), 0, "vi")
            same(read(place.ws + "/note"), b"hello\n", "what vi wrote")
        if shutil.which("tmux", path="/usr/bin:/bin"):
            with Terminal(place, [*ATOLL_RUN, "--", "tmux", "-f", "/dev/null", "new", "echo in $((20+1)); sleep 0.5"]) as terminal:
                terminal.expect("in 21")
                same(terminal.wait(), 0, "tmux")


@test("terminal: a stopped one (Ctrl-S) does not keep the time limit from being kept")
def _():
    def once(limit, flags):
        with Place() as place:
            script = "echo up; until [ -e go ]; do sleep 0.01; done; exec yes"
            place.expect("go")
            with Terminal(place, [*ATOLL_RUN, *flags, "--timeout", limit, "--grace", "0s", "--", "sh", "-c", script]) as terminal:
                def is_over():
                    return terminal.process.poll() is not None
                until(lambda: terminal.pump(0.01) and b"up" in terminal.seen or is_over())
                termios.tcflow(terminal.slave, termios.TCOOFF)
                write(place.ws + "/go")
                inner = until(lambda: [pid for pid, name in inside(terminal.process.pid).items() if name == "yes"] or is_over())
                if not inner or is_over():
                    return False
                check(until(lambda: not state(inner[0]), 2 * PATIENCE), "it goes on after the time limit")
                termios.tcflow(terminal.slave, termios.TCOON)
                same(terminal.wait(), TIMED_OUT, "status")
                return True
    for flags in ([], ["--no-tty"]):
        in_time(lambda limit: once(limit, flags))


main()
