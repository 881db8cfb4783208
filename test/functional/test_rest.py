#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 80
"""
What waits is small: memory that was only used to get somewhere goes back, and everything works as before afterwards

Seen from the host: what /proc tells of the supervisor (or holder) and of the first process. Figures are of pages that they have
written, which do not depend on what else runs on the machine. Bounds lie halfway between a run that rests and one that never did.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

FIRST_KB = 290   # of pid 1: up to 276 were measured; each row of a table with addresses in it is private memory
PAIR_KB = 430    # of it and its supervisor, what they share counted once: up to 396 were measured, and 470 or more without
HELD_KB = 570    # of holder, pid 1 and template: 420 to 545, and 650 or more without


def name_of(pid):
    with contextlib.suppress(OSError):
        return read("/proc/%d/comm" % pid).decode().strip()
    return ""


def first_process(pid):
    return next((child for child in children(pid) if name_of(child) == "atoll-init"), None)


def written_kb(pid):
    """Pages that it has written, shared ones included."""
    found = re.search(r"RssAnon:\s+(\d+)", read("/proc/%d/status" % pid).decode())
    return int(found[1])


def share_kb(*pids):
    """The same of several, by shares: only root may look into the first process."""
    return sum(int(re.search(r"Pss_Anon:\s+(\d+)", read("/proc/%d/smaps_rollup" % pid).decode())[1]) for pid in pids)


def wakes(pid):
    """How often it was woken up."""
    return int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", read("/proc/%d/status" % pid).decode())[1])


def rests(look, bound, what):
    found = []
    # A sanitizer's memory is not ours.
    check(until(lambda: found.append(look()) or found[-1] <= bound, 2 if IS_SANITIZED else 15) or IS_SANITIZED, "%s: %s kB, and at most %d were wanted" % (what, found[-1], bound))
    return found[-1]


WORKER = """
    print("up", flush=True)
    for line in sys.stdin:
        exec(line)
        sys.stdout.flush()
    print("end")
"""


class Worker:
    """A run that does what it is told, line by line."""

    def __init__(self, place, flags=(), **options):
        self.ours, self.theirs = os.pipe()
        self.running = start(place, list(flags), inside_py(WORKER), stdin=self.ours, **options)
        os.close(self.ours)
        self.out = self.running.process.stdout
        same(self.out.readline(), b"up\n", "its first words")
        self.first = first_process(self.running.pid)
        check(self.first, "there is no first process")

    def do(self, line):
        os.write(self.theirs, line.encode() + b"\n")
        return self.out.readline().decode().strip()

    def end(self):
        os.close(self.theirs)
        return self.running.wait()


def log_of(place):
    logs = glob.glob(os.path.join(place.home, STORE, "log", "????????.jsonl"))
    return [json.loads(line) for line in read(max(logs, key=os.path.getmtime)).decode().splitlines()]


@test("a run that waits gives back what it took to get there, and works on")
def _():
    with Place() as place:
        place.expect("f", "g")
        worker = Worker(place, ["--protect", "README.md"])
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process")
        if os.getuid() == 0:
            rests(lambda: share_kb(worker.running.pid, worker.first), PAIR_KB, "supervisor and first process")
        # What the guard does in its stead and refuses, programs, much output.
        same(worker.do("open('f', 'w').write('x'); print(open('f').read())"), "x", "a file")
        same(worker.do("print(os.system('echo x 2>/dev/null >README.md') != 0)"), "True", "that a protected file is refused")
        same(worker.do("print(os.popen('/usr/bin/env echo words').read().strip())"), "words", "a program")
        same(worker.do("print('z' * 200000)"), "z" * 200000, "much output")
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process, once more")
        same(worker.do("open('g', 'w').write('y'); print(open('g').read())"), "y", "a file, once more")
        result = worker.end()
        same((result.status, result.out[:4]), (0, "end\n"), "its end")
        told = log_of(place)
        check([line for line in told if line["kind"] == "exec" and line["argv"] == ["/usr/bin/env", "echo", "words"]], "the program is not recorded")
        check([line for line in told if line["kind"] == "denial" and line["object"].endswith("/README.md")], "the refusal is not recorded")


@test("nothing wakes up who rests more often than the looks at limits do")
def _():
    with Place() as place:
        worker = Worker(place)
        both = worker.running.pid, worker.first
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process")
        before = [wakes(pid) for pid in both]
        time.sleep(4)
        after = [wakes(pid) - was for pid, was in zip(both, before)]
        check(after[0] <= 4 * 2 + 3 and after[1] <= 4 * 10 + 3, "in four seconds supervisor and first process were woken up %s times" % after)
        same(worker.end().status, 0, "its end")


@test("limits and signals are felt by a run that has rested")
def _():
    with Place() as place:
        worker = Worker(place, ["--memory", "128M"])
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process")
        os.write(worker.theirs, b"x = b'x' * (512 << 20); time.sleep(60)\n")
        check("memory" in worker.running.wait().err, "the memory limit is not felt")
        os.close(worker.theirs)
        worker = Worker(place, ["--timeout", "3s"])
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process")
        check("3" in worker.running.wait().err, "the time limit is not told of")
        os.close(worker.theirs)
        worker = Worker(place)
        same(worker.do("signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True)); print('ready')"), "ready", "a handler")
        rests(lambda: written_kb(worker.first), FIRST_KB, "the first process")
        worker.running.process.send_signal(signal.SIGINT)
        same(worker.out.readline(), b"heard\n", "a signal")
        worker.running.process.send_signal(signal.SIGTERM)
        check(worker.running.wait().status != 0, "it was not ended")
        os.close(worker.theirs)
        same(processes_left(), {}, "processes")


@test("who has read programs for their hashes ends with the work, and there is another one for the next")
def _():
    with Place() as place:
        place.expect("one", "two")
        for name in ("one", "two"):
            write(place.ws + "/" + name, "#!/bin/sh\necho %s %s\n" % (name, os.urandom(8).hex()), 0o755)
        worker = Worker(place)
        readers = lambda: [pid for pid in children(worker.running.pid) if name_of(pid) == "atoll-hash"]
        for name in ("one", "two"):
            check(worker.do("print(os.popen('./%s').read().strip())" % name).startswith(name), "it ran")
            check(until(lambda: not readers(), 15), "a reader stays")
        same(worker.end().status, 0, "its end")
        told = {os.path.basename(line["path"]): line.get("hash") for line in log_of(place) if line["kind"] == "exec"}
        for name in ("one", "two"):
            same(told.get(name), "sha256:" + hashlib.sha256(read(place.ws + "/" + name)).hexdigest(), "the hash of " + name)


@test("a sandbox with a process in it that waits is small, and its next steps are as ever")
def _():
    if BARE:
        skip("user namespaces")
    with Place() as place:
        said = atoll(place, "create", "--mode", "layer", env={"ATOLL_REST_SECONDS": "1"})
        id = said.out.strip()
        same(said.status, 0, "create: " + said.err)
        step = lambda script: atoll(place, "exec", id, "--", *inside_sh(script), env={"ATOLL_REST_SECONDS": "1"}).out
        try:
            for turn in range(2):
                step("echo %d >>kept; sleep 600 </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid" % turn)
                ours = [pid for pid, name in descendants().items() if name in ("atoll-hold", "atoll-init")]
                same(len(ours), 3, "holder, first process and template")
                if os.getuid() == 0:
                    rests(lambda: share_kb(*ours), HELD_KB, "all three")
                else:
                    rests(lambda: max(map(written_kb, ours[1:])), FIRST_KB + 50, "first process and template")
                # The template's filter, its domain and its words are what they were.
                same(step("cat kept; ls /root/nothing 2>/dev/null; grep -c Seccomp:.2 /proc/self/status"),
                     "".join("%d\n" % i for i in range(turn + 1)) + "1\n", "a step")
                same(step("kill $(cat /tmp/pid) && echo killed"), "killed\n", "an earlier step's process")
        finally:
            same(atoll(place, "rm", "--force", id).status, 0, "rm")
        same(processes_left(), {}, "processes")


main()
