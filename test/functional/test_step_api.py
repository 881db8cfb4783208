#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 92
# check: user only
"""
Steps that depend on nobody (include/atoll/step.h): a program starts them, is killed, and finds them again

By way of a small program (test/step.c) that uses the library as others would. What is looked at are the bytes that it has written
to files, what it is told, and the host's processes.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

import hashlib

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(os.path.abspath(ATOLL))
STEP = os.path.join(BUILD, "test", "step")


class Sandbox:
    """A Place with a sandbox in it; nothing of it may be left in the end."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        if BARE:
            skip("user namespaces")
        self.place = Place()
        self.place.__enter__()
        try:
            how = [] if "-f" in self.flags else ["--mode", "layer"]
            made = atoll(self.place, "create", *how, *self.flags)
            same(made.status, 0, "create: %s" % made.err)
            self.id = made.out.strip()
        except BaseException:
            self.place.__exit__(*sys.exc_info())
            raise
        return self.place, self.id

    def __exit__(self, kind, value, trace):
        removed = atoll(self.place, "rm", "--force", self.id)
        if kind is None:
            same(removed.status, 0, "rm: %s" % removed.err)
            check(until(lambda: not (reap_orphans() or descendants())), "processes: %s" % descendants())
        self.place.__exit__(kind, value, trace)


def job(place_dir, text):
    """A job file where nothing inside can write."""
    path = os.path.join(tempfile.mkdtemp(prefix="atoll-test-"), "job.yaml")
    write(path, text)
    return path


def begin(place, *args, **options):
    return Running(place, [STEP, *args], starts=False, **options)


def ask(place, *args, status=0, **options):
    result = begin(place, *args, **options).wait()
    same(result.status, status, "step %s: %s" % (" ".join(args), result.out + result.err))
    return result.out


def run_step(place, id, script, *flags, **options):
    """A step to its end: (output, errors, the line of its end)."""
    out, err = (os.path.join(place.tmp, "%s-%s" % (n, secrets_token())) for n in ("out", "err"))
    command = script if isinstance(script, list) else ["/bin/sh", "-c", script]
    said = ask(place, "run", id, *flags, "--out", out, "--err", err, "--", *command, **options)
    return read_bytes(out), read_bytes(err), said.splitlines()[-1]


def secrets_token():
    return os.urandom(6).hex()


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def read_size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def listed(place, id):
    """{number: (pid, state, out, err)}"""
    found = {}
    for line in ask(place, "list", id).splitlines():
        m = re.fullmatch(r"step (\d+) pid (\d+) (\w+) key '(.*)' user '(.*)' out (\d+) err (\d+)", line)
        check(m, "a line of the list: %r" % line)
        found[int(m[1])] = (int(m[2]), m[3], int(m[6]), int(m[7]))
    return found


def moves(path):
    """What is in it after a while that would be enough for many changes."""
    before = read_bytes(path)
    for _ in range(30):
        time.sleep(0.01)
        if read_bytes(path) != before:
            return b"it moves"
    return before


def start_detached(place, id, script, *flags):
    """Its number and pid."""
    said = ask(place, "run", id, "--detach", *flags, "--", "/bin/sh", "-c", script)
    m = re.match(r"step (\d+) pid (\d+) ", said)
    check(m, said)
    return int(m[1]), int(m[2])


def wait_end(place, id, number, *flags):
    """Attach until its end; the last line."""
    return ask(place, "attach", id, str(number), *flags).splitlines()[-1]


@test("output of both streams and the exit status arrive, with nothing added")
def _():
    with Sandbox() as (place, id):
        out, err, end = run_step(place, id, "printf 'a\\0b\\nc'; echo oops >&2; exit 7")
        same(out, b"a\0b\nc", "stdout")
        same(err, b"oops\n", "stderr")
        check(end.startswith("end exited 7 "), end)


@test("the number inside is the one that its own shell has")
def _():
    with Sandbox() as (place, id):
        path = os.path.join(place.tmp, "o")
        said = ask(place, "run", id, "--out", path, "--", "/bin/sh", "-c", "echo $$")
        same(re.match(r"step \d+ pid (\d+) (?:running|ended)", said)[1], read_bytes(path).decode().strip(), "pid")


@test("who starts the commands was killed from inside: the next step's output has an end all the same")
def _():
    with Sandbox() as (place, id):
        for _ in range(2):
            run_step(place, id, "kill -9 -1")
            out, err, end = run_step(place, id, "echo hi")
            same(out, b"hi\n", "stdout")
            check(end.startswith("end exited 0 "), end)


@test("a holder that takes no more connections is not waited for by whoever has others to serve")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "sleep 60")
        holders = [pid for pid, name in descendants().items() if name == "atoll-hold" and id.encode() in
                   read_bytes("/proc/%d/cmdline" % pid)]
        check(holders, "nobody holds it")
        # By way of a descriptor: the path may be longer than an address.
        record = os.open(os.path.join(place.home, ".local/state/atoll/records", id), os.O_PATH)
        path, waiting = "/proc/self/fd/%d/socket" % record, []
        for holder in holders:  # and whom it has forked for a moment
            os.kill(holder, signal.SIGSTOP)
        try:
            with contextlib.suppress(BlockingIOError):
                while len(waiting) < 10000:
                    waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
                    waiting[-1].connect(path)
            for args in (["run", id, "--live", "--", "/bin/true"], ["attach", id, str(number)]):
                refused = begin(place, *args).wait()
                check(refused.status == 1 and "temporarily" in refused.out + refused.err, refused.out + refused.err)
        finally:
            for each in waiting:
                each.close()
            os.close(record)
            for holder in holders:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(holder, signal.SIGCONT)
        # It takes a moment to let all of them go.
        check(until(lambda: begin(place, "run", id, "--live", "--", "/bin/true").wait().status == 0), "nobody gets through afterwards")
        out, err, end = run_step(place, id, "echo hi", "--live")
        same(out, b"hi\n", "afterwards")


@test("long output is whole, through the memory that is shared, also for a slow reader that is waited for")
def _():
    with Sandbox() as (place, id):
        script = "i=0; while [ $i -lt 40 ]; do head -c 1048576 /dev/zero | tr '\\0' $((i % 10)); i=$((i+1)); done"
        path = os.path.join(place.tmp, "big")
        said = ask(place, "run", id, "--need", "--pause", "1", "--out", path, "--", "/bin/sh", "-c", script)
        check("end exited 0" in said, said)
        wanted = hashlib.sha256(b"".join(bytes(str(i % 10), "ascii") * 1048576 for i in range(40))).hexdigest()
        same(hashlib.sha256(read_bytes(path)).hexdigest(), wanted, "40 MiB")


@test("kill -9 of who reads, again and again in 50 MB: whoever goes on misses and repeats nothing")
def _():
    with Sandbox() as (place, id):
        count = 6553600
        number, _ = start_detached(place, id, "seq -f %%07.0f 1 %d" % count, "--timeout", "120000")
        path = os.path.join(place.tmp, "stream")
        kills = 0
        for i in range(200):
            reader = begin(place, "attach", id, str(number), "--need", "--out", path)
            target = os.path.getsize(path) + 3000000 if os.path.exists(path) else 1000000
            until(lambda: reader.process.poll() is not None or (os.path.exists(path) and os.path.getsize(path) >= target))
            if reader.process.poll() is not None:
                said = reader.wait()
                break
            reader.kill()
            kills += 1
        check("end exited 0" in said.out, said.out + said.err)
        check(kills >= 3, "it was killed %d times" % kills)
        data = read_bytes(path)
        same(len(data), count * 8, "bytes")
        same(hashlib.sha256(data).hexdigest(), hashlib.sha256(b"".join(b"%07d\n" % i for i in range(1, count + 1))).hexdigest(), "sum")


@test("two who read are killed, and the faster one is back first: what the other needs is still there")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "until [ -e go ]; do sleep 0.05; done; head -c 60000000 /dev/zero", "--timeout", "120000")
        slow, fast = (os.path.join(place.tmp, name) for name in ("slow", "fast"))
        first = begin(place, "attach", id, str(number), "--need", "--pause", "60000", "--out", slow)
        second = begin(place, "attach", id, str(number), "--need", "--out", fast)
        check(until(lambda: os.path.exists(slow) and os.path.exists(fast)), "both are there")
        run_step(place, id, "touch go")
        check(until(lambda: read_size(fast) > 8 << 20), "the faster one is ahead: %d" % read_size(fast))
        first.kill()
        second.kill()
        second = begin(place, "attach", id, str(number), "--need", "--out", fast)
        until(lambda: second.process.poll() is not None, 1)
        first = begin(place, "attach", id, str(number), "--need", "--out", slow)
        for reader, path in ((first, slow), (second, fast)):
            said = reader.wait()
            check("end exited 0" in said.out, said.out + said.err)
            same(read_size(path), 60000000, path)


@test("who is attached and needs nothing holds nothing up; what is not kept any more is said to be gone")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "head -c 60000000 /dev/zero")
        check(until(lambda: listed(place, id)[number][1] == "ended"), "it ends by itself: %s" % listed(place, id))
        same(listed(place, id)[number][2], 60000000, "all was counted")
        result = begin(place, "attach", id, str(number), "--out", os.path.join(place.tmp, "late")).wait()
        check("gap at 0" in result.out, result.out)


@test("two who are attached at the same time both get all of it")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "while [ ! -e go ]; do sleep 0.02; done; seq 1 200000")
        paths = [os.path.join(place.tmp, n) for n in "ab"]
        others = [begin(place, "attach", id, str(number), "--need", "--out", path) for path in paths]
        check(until(lambda: all(os.path.exists(path) for path in paths)), "both are there")
        run_step(place, id, "touch go")
        for other in others:
            check("end exited 0" in other.wait().out, "its end")
        wanted = b"".join(b"%d\n" % i for i in range(1, 200001))
        for path in paths:
            check(read_bytes(path) == wanted, "%s: %d bytes of %d" % (path, len(read_bytes(path)), len(wanted)))


@test("a step outlives who started it, and its result is there for who asks later")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "read x; echo late; exit 5", "--stdin")
        same(listed(place, id)[number][1], "running", "it runs")
        path = os.path.join(place.tmp, "o")
        end = ask(place, "attach", id, str(number), "--out", path, stdin="x\n").splitlines()[-1]
        check(end.startswith("end exited 5"), end)
        end = wait_end(place, id, number, "--out", os.path.join(place.tmp, "p"))
        check(end.startswith("end exited 5"), "asked again: %s" % end)
        same(read_bytes(os.path.join(place.tmp, "p")), b"late\n", "its output, once more")


@test("a key is executed once, whoever asks and however often")
def _():
    with Sandbox() as (place, id):
        begun = [begin(place, "run", id, "--key", "k1", "--", "/bin/sh", "-c", "echo x >>count; sleep 0.3; exit 3") for _ in range(8)]
        numbers = set()
        for one in begun:
            said = one.wait().out
            check("end exited 3" in said, said)
            numbers.add(said.split()[1])
        same(len(numbers), 1, "numbers: %s" % numbers)
        same(run_step(place, id, "cat count")[0], b"x\n", "how often it ran")
        said = ask(place, "run", id, "--key", "k2", "--", "/bin/sh", "-c", "echo x >>count")
        check(said.split()[1] not in numbers, "another key is another step")
        same(run_step(place, id, "cat count")[0], b"x\nx\n", "and runs")


@test("a key whose step was begun by a holder that was killed is not executed again; another one, or one that was never begun, is")
def _():
    with Sandbox() as (place, id):
        begun = begin(place, "run", id, "--key", "k1", "--", "/bin/sh", "-c", "echo x >>count; touch /tmp/begun; sleep 1000")
        run_step(place, id, "until [ -e /tmp/begun ]; do sleep 0.05; done")
        for pid, name in descendants().items():
            if name == "atoll-hold" and id.encode() in read_bytes("/proc/%d/cmdline" % pid):
                os.kill(pid, signal.SIGKILL)
                # A holder that is being killed closes its connections first, and listens until it is gone.
                check(until(lambda: pid not in descendants()), "the holder does not end")
        check(begun.wait().status != 0, "it is lost")
        for _ in range(2):
            again = begin(place, "run", id, "--key", "k1", "--", "/bin/sh", "-c", "echo x >>count").wait()
            check(again.status != 0 and "has started this step" in again.out + again.err, again.out + again.err)
        same(run_step(place, id, "cat count")[0], b"x\n", "how often it ran")
        ask(place, "run", id, "--key", "k2", "--", "/bin/sh", "-c", "echo y >>count")
        same(run_step(place, id, "cat count")[0], b"x\ny\n", "another key")
        with open(os.path.join(place.home, STORE, "records", id, "number"), "rb") as file:
            keys = file.read()[128:]
        same([keys[at:at + 128].rstrip(b"\0") for at in range(0, len(keys), 128)], [b"k1", b"k2"], "what is written down")


@test("a key whose step could not be begun for want of memory is not taken for one that was")
def _():
    if IS_SANITIZED:
        skip("a build without sanitizers, which reserve more than can be bounded")
    with Sandbox("--record", "off") as (place, id):  # or mapping what is recorded fails first
        def holder():
            return next(pid for pid, name in descendants().items() if name == "atoll-hold")

        def slots():
            with open(os.path.join(place.home, STORE, "records", id, "number"), "rb") as file:
                keys = file.read()[128:]
            return [keys[at:at + 128].rstrip(b"\0").decode() for at in range(0, len(keys), 128)]

        def bounded(key, size):
            """A step of which so many bytes are noted, while the holder has no more memory than it has."""
            result = begin(place, "run", id, "--key", key, "--", "/bin/sh", "-c", "echo %s >>count" % key, "x" * size).wait()
            if result.status == 0:
                return True
            check("memory" in result.out + result.err, result.out + result.err)
            check(key not in slots(), "%s is still noted: %s" % (key, slots()))
            failed.append(key)
            return False

        failed = []
        run_step(place, id, "true", "--key", "first")
        free = resource.prlimit(holder(), resource.RLIMIT_AS)
        used = int(re.search(r"VmSize:\s*(\d+) kB", read("/proc/%d/status" % holder()).decode())[1]) << 10
        resource.prlimit(holder(), resource.RLIMIT_AS, (used, free[1]))
        for size in (40000, 10000, 3000, 500):  # what lies free in it goes, in ever smaller pieces
            for number in range(15):
                if not bounded("k%d-%d" % (size, number), size):
                    break
        before = len(slots())
        check(not bounded("large", 46000), "there is memory left")
        same(slots()[before:], [""], "it was noted, and forgotten")
        resource.prlimit(holder(), resource.RLIMIT_AS, free)
        os.kill(holder(), signal.SIGKILL)
        check(until(lambda: reap_orphans() or "atoll-hold" not in descendants().values()), "the holder goes on")
        for key in failed:
            ask(place, "run", id, "--key", key, "--", "/bin/sh", "-c", "echo %s >>count" % key)
        done = run_step(place, id, "cat count")[0].decode().split()
        same((len(done), set(failed) <= set(done)), (len(set(done)), True), "each once")


@test("standard input: passed on, closed, and /dev/null where none was asked for")
def _():
    with Sandbox() as (place, id):
        data = os.urandom(300000).hex()
        out, _, end = run_step(place, id, "cat", "--stdin", stdin=data)
        check(out.decode() == data and "end exited 0" in end, "%d bytes of %d, %s" % (len(out), len(data), end))
        same(run_step(place, id, "cat; readlink /proc/self/fd/0")[0], b"/dev/null\n", "without")


@test("a terminal: size, line discipline, one stream, its end")
def _():
    with Sandbox() as (place, id):
        path = os.path.join(place.tmp, "t")
        said = ask(place, "run", id, "--tty", "--columns", "99", "--rows", "33", "--out", path, "--", "/bin/sh", "-c",
                   "stty size; tty; [ -t 2 ] && echo yes >&2; read x; echo got $x; exit 4", stdin="hello\n")
        check("end exited 4" in said, said)
        text = read_bytes(path).decode()
        check("33 99\r\n" in text and "/dev/pts/" in text and "yes\r\n" in text and "got hello\r\n" in text, "%r" % text)


@test("signals: to the command, to all of it; grandchildren that hold its output are not waited for then")
def _():
    with Sandbox() as (place, id):
        for number, wanted in ((signal.SIGTERM, "end signaled 15"), (signal.SIGKILL, "end signaled 9")):
            said = ask(place, "run", id, "--signal", str(int(number)), "--", "sleep", "100")
            check(wanted in said, said)
        said = ask(place, "run", id, "--signal", "9", "--", "/bin/sh", "-c", "setsid sleep 100 & sleep 100")
        check("end signaled 9" in said, said)
        said = ask(place, "run", id, "--signal", "10", "--", "/bin/sh", "-c", "trap 'exit 9' USR1; kill -0 $$; while :; do sleep 0.05; done")
        check("end exited 9" in said or "end signaled 10" in said, said)


@test("a background process that holds the output delays the end, until it lets go")
def _():
    with Sandbox() as (place, id):
        out, _, end = run_step(place, id, "(sleep 0.5; echo last) & echo first")
        same(out, b"first\nlast\n", "both are in it")
        check("end exited 0" in end, end)


@test("the time-out is the holder's: it ends a step that nobody is attached to")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "sleep 100", "--timeout", "400")
        check(until(lambda: listed(place, id)[number][1] == "ended"), "%s" % listed(place, id))
        end = wait_end(place, id, number)
        check(end.startswith("end timed-out") and "'wall'" in end, end)


@test("what cannot be started is told with its reason, and is no failure of the sandbox")
def _():
    with Sandbox() as (place, id):
        for flags, command, wanted in (((), ["/no/such"], "end not-started 127"), ((), ["/etc/passwd"], "end not-started 126"),
                                       (("--cwd", "/no/such"), ["true"], "enter '/no/such'")):
            said = ask(place, "run", id, *flags, "--", *command)
            check(wanted in said, said)
        said = ask(place, "run", id, "--user", "nobody-here", "--", "true", status=1)
        check("there is no user" in said, said)
        said = ask(place, "attach", id, "12345", status=1)
        check("(2)" in said, "no such step: %s" % said)
        check("end exited 0" in ask(place, "run", id, "--", "true"), "and others run")


@test("the environment: the contract's, then the caller's; the directory; what it was started with can be asked for")
def _():
    with Sandbox("--env", "A=1", "--env", "B=2") as (place, id):
        out, _, _ = run_step(place, id, "echo $A $B $C $ATOLL_SANDBOX; pwd; echo $PWD", "--env", "B=3", "--env", "C=4", "--env",
                             "ATOLL_SANDBOX=no", "--cwd", "/usr")
        same(out.decode().splitlines(), ["1 3 4 1", "/usr", "/usr"], "as said")
        number, _ = start_detached(place, id, "read x", "--stdin", "--env", "C=4", "--cwd", "/usr")
        same(ask(place, "words", id, str(number)).splitlines(), ["cwd /usr", "argv /bin/sh", "argv -c", "argv read x", "env C=4"], "words")
        ask(place, "attach", id, str(number), stdin="x\n")


@test("frozen is frozen: nothing runs, no step starts, time-outs stand still; also when whoever asked is gone")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "i=0; while :; do i=$((i+1)); echo $i >n; sleep 0.01; done", "--timeout", "60000")
        top = os.path.join(place.home, ".local/state/atoll/records", id, "top/upper/n")
        check(until(lambda: read_bytes(top).strip()), "it counts")
        ask(place, "freeze", id)
        before = read_bytes(top)
        same(moves(top), before, "nothing moves")
        check("frozen" in ask(place, "run", id, "--", "true", status=1), "no step starts")
        check("frozen" in atoll(place, "exec", id, "--", "true").err, "nor one of a caller's own")
        check(json.loads(ask(place, "usage", id))["frozen"] == 1, "usage says so")
        check(atoll(place, "checkpoint", id, "c").status == 0, "a checkpoint can be made")
        same(moves(top), before, "and it stands still as before")
        ask(place, "thaw", id)
        check(until(lambda: read_bytes(top) not in (before, b"")), "it goes on")
        said = ask(place, "attach", id, str(number), "--signal", "9", "--all")
        check("end signaled 9" in said, said)


@test("what it uses is counted")
def _():
    with Sandbox() as (place, id):
        result = begin(place, "usage", id).wait()
        check(result.status == 1 and "nothing runs" in result.out, "before the first step: %s" % result.out)
        run_step(place, id, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 3000000 /dev/zero >f")
        number, _ = start_detached(place, id, "read x", "--stdin")
        usage = json.loads(ask(place, "usage", id))
        check(usage["cpu_ms"] > 50 and usage["steps"] == 2 and usage["frozen"] == 0, "%s" % usage)
        check(until(lambda: json.loads(ask(place, "usage", id))["processes"] >= 1), "%s" % ask(place, "usage", id))
        check(until(lambda: json.loads(ask(place, "usage", id))["memory"] > 100000), "%s" % ask(place, "usage", id))
        ask(place, "attach", id, str(number), stdin="x\n")


@test("a hundred at once, each with its own output; one more than there may be is refused")
def _():
    with Sandbox() as (place, id):
        begun = [start_detached(place, id, "read x; echo %d" % i, "--stdin") for i in range(100)]
        same(len({number for number, _ in begun}), 100, "numbers")
        same(len({pid for _, pid in begun}), 100, "pids")
        more = 0
        while more < 60:
            result = begin(place, "run", id, "--detach", "--stdin", "--", "cat").wait()
            if result.status:
                break
            more += 1
        check(more < 60 and "(16)" in result.out, "refused at last: %s" % result.out)
        for i, (number, _) in enumerate(begun):
            path = os.path.join(place.tmp, "n%d" % i)
            check("end exited 0" in ask(place, "attach", id, str(number), "--out", path, stdin="x\n"), "end")
            same(read_bytes(path), b"%d\n" % i, "its own")


@test("the death of the holder, and stopping it, ends the steps and is told; the next one is another step")
def _():
    with Sandbox() as (place, id):
        for kill in (True, False):
            waiting = begin(place, "run", id, "--", "sleep", "100")
            check(until(lambda: BY_NAME("sleep")), "it runs")
            if kill:
                [os.kill(pid, signal.SIGKILL) for pid in BY_NAME("atoll-hold")]
            else:
                ask(place, "stop", id)
            result = waiting.wait()
            check("lost" in result.out, "the %s: %s" % ("kill" if kill else "stop", result.out))
            check(until(lambda: not BY_NAME("sleep")), "nothing is left")
        first = int(result.out.split()[1])
        said = ask(place, "run", id, "--", "true")
        check("end exited 0" in said and int(said.split()[1]) > first, "a new number: %s" % said)


def BY_NAME(name):
    reap_orphans()
    return [pid for pid, found in descendants().items() if found == name]


@test("rolled back means lost")
def _():
    with Sandbox() as (place, id):
        ask(place, "run", id, "--", "true")
        same(atoll(place, "checkpoint", id, "here").status, 0, "checkpoint")
        waiting = begin(place, "run", id, "--", "sleep", "100")
        check(until(lambda: BY_NAME("sleep")), "it runs")
        same(atoll(place, "rollback", id, "here").status, 0, "rollback")
        check(" lost " in waiting.wait().out, "told")


@test("the record has start, end and the hash of the output, though nobody was there to report them")
def _():
    with Sandbox() as (place, id):
        number, _ = start_detached(place, id, "echo hello; exit 3")
        check(until(lambda: listed(place, id)[number][1] == "ended"), "it ends")
        log = os.path.join(place.home, ".local/state/atoll/log", id + ".jsonl")
        check(until(lambda: b'"kind":"end"' in read_bytes(log)), "the end is in the log")
        events = [json.loads(line) for line in read_bytes(log).splitlines()]
        kinds = [event["kind"] for event in events]
        check("start" in kinds and "output" in kinds, "%s" % kinds)
        output = next(event for event in events if event["kind"] == "output")
        check(hashlib.sha256(b"hello\n").hexdigest() in json.dumps(output) and '"bytes": 6' in json.dumps(output), "%s" % output)
        end = next(event for event in events if event["kind"] == "end")
        check("3" in json.dumps(end) and "caller" not in json.dumps(end), "%s" % end)


@test("limits of the contract end a step, and are named")
def _():
    with Sandbox("--output", "100K") as (place, id):
        path = os.path.join(place.tmp, "o")
        said = ask(place, "run", id, "--out", path, "--", "/bin/sh", "-c", "yes | head -c 200000; sleep 100")
        check("end over-limit" in said and "'output'" in said, said)
        check(os.path.getsize(path) == 102400, "what came before is there: %d" % os.path.getsize(path))


@test("users: each has his home and his name; as root also his id")
def _():
    text = "users:\n  - {name: user, uid: 1000, gid: 1000, home: /home/user}\n  - {name: root, uid: 0, gid: 0, home: /root}\n"
    path = job(None, "root: layer\nworkspace:\n  mode: layer\n" + text)
    try:
        with Sandbox("-f", path) as (place, id):
            script = "echo $USER $LOGNAME $HOME; id -u"
            for flags, name, home, uid in (((), "user", "/home/user", "1000"), (("--user", "root"), "root", "/root", "0")):
                out = run_step(place, id, script, *flags, "--cwd", "/")[0].decode().split()
                same(out[:3], [name, name, home], "variables")
                if os.geteuid() == 0:
                    same(out[3], uid, "id")
    finally:
        shutil.rmtree(os.path.dirname(path))


main()
