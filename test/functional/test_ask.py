# SPDX-License-Identifier: Apache-2.0
# check: seconds 48
# check: user only
"""The question about the network at a terminal: what ends it besides an answer, and that the record has each answer. No network is needed for that."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from terminal import Terminal

QUESTION = r"wants to connect to asked\.test, port 80.*\(no in \d+ s\) "


def at_question(place, script, *flags):
    need("curl")
    command = [*ATOLL_RUN, *flags, "--ask", "--", "sh", "-c", script]
    terminal = Terminal(place, command, columns=200, env={"XDG_CONFIG_HOME": place.tmp})
    terminal.expect(QUESTION)
    check(not terminal.is_raw(), "the terminal is raw while a person is asked")
    return terminal


@test("Ctrl-C at the question is a no, and reaches the command")
def _():
    with Place() as place:
        script = 'trap "exit 3" INT; curl -sS -m 20 http://asked.test/; sleep 20; true'
        with at_question(place, script, "--grace", "30s") as terminal:
            terminal.send("\x03")
            terminal.expect("no answer: refused")
            same(terminal.process.wait(PATIENCE), 3, "status")
            check(not terminal.is_raw(), "the terminal is left raw")


@test("the time limit goes on while a person thinks")
def _():
    with Place() as place:
        # Nobody answers, and the question would wait longer than that.
        with at_question(place, "curl -sS -m 300 http://asked.test/; sleep 300", "--timeout", "15s") as terminal:
            terminal.expect("stopped at the time limit")
            same(terminal.process.wait(PATIENCE), TIMED_OUT, "status")


@test("the end of the command is the end of the question")
def _():
    with Place() as place:
        with at_question(place, "curl -sS -m 300 http://asked.test/ & sleep 1; exit 5") as terminal:
            same(terminal.process.wait(PATIENCE), 5, "status")


@test("killing egress cuts the network and nothing else, also while a person is asked")
def _():
    with Place() as place:
        with at_question(place, "curl -sS -m 20 http://asked.test/; echo still here; exit 6") as terminal:
            children = read("/proc/%d/task/%d/children" % (terminal.process.pid, terminal.process.pid)).decode().split()
            egress = [int(pid) for pid in children if read("/proc/%s/comm" % pid).strip() == b"atoll-egress"]
            same(len(egress), 1, "processes of the network")
            os.kill(egress[0], signal.SIGKILL)
            same(terminal.wait(), 6, "status")
            # The command and its supervisor learn of it each by himself, and either may be the first to say something.
            for said in (b"still here", b"the network's process ended (signal 9): connections were cut"):
                check(said in terminal.seen[terminal.at:], "not on the terminal: %r; there is %r" % (said, terminal.seen[terminal.at:]))


@test("each answer is in the record: about what, who gave it, and for how long")
def _():
    for answer, told in (("o", ("yes", "once")), ("r", ("yes", "run")), ("n", ("no", "run")), ("\x03", ("none", "once"))):
        with Place() as place:
            with at_question(place, "trap : INT; curl -sS -m 20 http://asked.test/; exit 4") as terminal:
                terminal.send(answer if answer == "\x03" else answer + "\r")
                same(terminal.process.wait(PATIENCE), 4, "status")
            (log,) = glob.glob(os.path.join(place.home, STORE, "log", "????????.jsonl"))
            found = [line for line in map(json.loads, read(log).splitlines()) if line["kind"] == "approval"]
            same(len(found), 1, "answers in the record after %r" % answer)
            same((found[0]["answer"], found[0]["scope"]), told, "the answer %r" % answer)
            same((found[0]["about"], found[0]["object"], found[0]["who"]["uid"]), ("network", "asked.test:80", os.getuid()), "about what, and who")


main()
