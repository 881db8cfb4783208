# SPDX-License-Identifier: Apache-2.0
# check: seconds 34
# check: user only
"""Other programs get the record's lines while a run goes on: fd, unix and exec; slow ones, and those that go away."""

import json
import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from watching import *


def kinds(text):
    return [json.loads(line)["kind"] for line in text.splitlines()]


def check_lines(place, text):
    """What a reader got is the log itself, line by line."""
    lines = [json.loads(line) for line in text.splitlines()]
    same(lines, events(place), "lines of the reader")
    same([line["seq"] for line in lines], list(range(len(lines))), "numbers")


@test("a descriptor gets all lines of the log as they are, from the first to the head")
def _():
    with Place() as place:
        ends = os.pipe()
        running = start(place, ["--events", "fd:9"], inside_sh("true"), fds={9: ends[1]}, env=state_of(place))
        os.close(ends[1])
        with os.fdopen(ends[0]) as file:
            text = file.read()
        same(running.wait().status, 0, "status")
        same((kinds(text)[0], kinds(text)[-1]), ("open", "head"), "first and last")
        among("exec", kinds(text), "kinds")
        check_lines(place, text)


@test("lines come while the command still runs")
def _():
    with Place() as place:
        place.expect("go")
        ends = os.pipe()
        script = "/bin/true marker; until [ -e go ]; do sleep 0.05; done; exit 3"
        running = start(place, ["--events", "fd:9"], inside_sh(script), fds={9: ends[1]}, env=state_of(place))
        os.close(ends[1])
        with os.fdopen(ends[0]) as file:
            for line in file:
                if '"marker"' in line and json.loads(line)["kind"] == "exec":
                    break
            write(os.path.join(place.ws, "go"))
            rest = file.read()
        same(running.wait().status, 3, "status")
        among("end", kinds(rest), "kinds that came later")


@test("a unix socket gets them, and one at which nobody listens is refused before anything runs")
def _():
    with Place() as place:
        path = os.path.join(place.tmp, "s")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            os.chmod(path, 0o777)
            listener.listen()
            running = start(place, ["--events", "unix:" + path], inside_sh("true"), env=state_of(place))
            listener.settimeout(PATIENCE)
            with listener.accept()[0].makefile() as file:
                text = file.read()
            same(running.wait().status, 0, "status")
            check_lines(place, text)
        result = run(place, ["--events", "unix:" + path + "-not"], inside_sh("touch ran"), starts=False, env=state_of(place))
        same(result.status, BAD_REQUEST, "status")
        among("nobody listens at", result.err, "why")


@test("a command gets them on its input, outside and with the caller's rights, and ends with the run")
def _():
    with Place() as place:
        out = os.path.join(place.tmp, "out")
        result = run(place, ["--events", "exec:cat > %s; cat %s/secret.txt > %s.seen" % (out, place.out, out)], inside_sh("true"), env=state_of(place))
        same(result.status, 0, "status")
        check_lines(place, read(out).decode())
        check(read(out + ".seen"), "it could not read what the caller can")
        result = run(place, ["--events", "exec:sleep 1000"], inside_sh("true"), env=state_of(place))
        same(result.status, 0, "status with a command that does not end")
        same(len(processes_left()), 0, "processes left")


@test("a reader that goes away does not end the run, and is told of")
def _():
    with Place() as place:
        script = "for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.1; done; exit 4"
        result = run(place, ["--events", "exec:exit 0"], inside_sh(script), env=state_of(place))
        same(result.status, 4, "status")
        among("events: exec:exit 0 went away", result.err, "note")


@test("a reader that does not read holds the run up for a while only; what it missed is said, and the record is whole")
def _():
    with Place() as place:
        ends = os.pipe()
        # Arguments of 7 KiB make 3 MiB of lines, more than all the buffers on the way.
        script = 'a=$(printf %07000d 0); i=0; while [ $i -lt 450 ]; do /bin/true $a; i=$((i+1)); done; exit 5'
        running = start(place, ["--events", "fd:9"], inside_sh(script), fds={9: ends[1]}, env=state_of(place))
        os.close(ends[1])
        result = running.wait()
        with os.fdopen(ends[0]) as file:
            file.read(1)
        same(result.status, 5, "status")
        same(len([event for event in events(place, "exec") if event["path"].endswith("true")]), 450, "executions in the record")


@test("a reader that wakes up gets a line in the place of what it missed, and so does the record")
def _():
    with Place() as place:
        ends = os.pipe()
        place.expect("full", "go")
        script = 'a=$(printf %07000d 0); i=0; while [ $i -lt 450 ]; do /bin/true $a; i=$((i+1)); done; touch full; until [ -e go ]; do sleep 0.05; done; /bin/true after'
        running = start(place, ["--events", "fd:9"], inside_sh(script), fds={9: ends[1]}, env=state_of(place))
        os.close(ends[1])
        wait_file(place, "full")
        with os.fdopen(ends[0]) as file:
            lines = []
            for line in file:
                lines.append(json.loads(line))
                if len(lines) == 100:
                    write(os.path.join(place.ws, "go"))
        same(running.wait().status, 0, "status")
        lost = [line for line in lines if line["kind"] == "lost"]
        check(lost and "seq" not in lost[0], "nothing was said about what was lost")
        got = [line for line in lines if "seq" in line]
        whole = events(place)
        same(len(got) + sum(line["count"] for line in lost if "seq" not in line), len(whole), "lines got and lost")
        check([line for line in events(place, "lost") if "the reader was slow" in line["why"]], "the record does not say it")


@test("what is no reader is refused, and without a record there is nothing to read")
def _():
    with Place() as place:
        for reader in ("fd:x", "fd:77", "unix:", "exec:", "file"):
            result = run(place, ["--events", reader], inside_sh("true"), starts=False, env=state_of(place))
            same(result.status, BAD_REQUEST, "status for " + reader)
            among("--events: ", result.err, "words")
        result = run(place, [word for _ in range(4) for word in ("--events", "exec:cat")], inside_sh("true"), starts=False, env=state_of(place))
        among("at most 3 readers", result.err, "words")
        result = run(place, ["--record", "off", "--events", "exec:cat"], inside_sh("true"), starts=False, env=state_of(place))
        same(result.status, BAD_REQUEST, "status without a record")
        among("--record off", result.err, "words")


main()
