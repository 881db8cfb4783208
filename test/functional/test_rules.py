# SPDX-License-Identifier: Apache-2.0
# check: seconds 16
# check: user only
"""Built-in rules on real runs: hits and misses, and what follows from a hit."""

import json
import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from terminal import Terminal
from watching import *

CREDENTIALS = "cat /etc/shadow 2>/dev/null"


def flags_of(place, script, *flags, **options):
    result = run(place, list(flags), inside_sh(script), env=state_of(place), **options)
    return result, [(event["by"], event["verdict"]) for event in events(place, "flag")]


@test("reads of credential paths are flagged: in arguments and where they are refused")
def _():
    with Place() as place:
        result, flags = flags_of(place, CREDENTIALS + "; true")
        same(result.status, 0, "status: a flag does not end a run")
        check(flags and set(flags) == {("rule:credentials", "flag")}, "flags: %s" % flags)
        among("rule:credentials: cat is given /etc/shadow", result.err, "the text at the end")
        [about] = [event["about"] for event in events(place, "flag") if "is given" in event["why"]]
        same([event["argv"] for event in events(place) if event["seq"] == about], [["cat", "/etc/shadow"]], "what it is about")


@test("what is fetched and put into a shell is flagged, and what is only fetched is not")
def _():
    need("curl")
    with Place() as place:
        _, flags = flags_of(place, "curl -s -m 5 http://127.0.0.1:1/x | sh; true")
        same(flags, [("rule:download-and-execute", "flag")], "flags")
    with Place() as place:
        _, flags = flags_of(place, "curl -s -m 5 -o x.json http://127.0.0.1:1/x.json; cat x.json; sh -c true; true")
        same(flags, [], "flags")


@test("an encoder before what sends, and a long encoded argument, are flagged")
def _():
    need("curl")
    with Place() as place:
        _, flags = flags_of(place, "base64 README.md | curl -s -m 5 -d @- http://127.0.0.1:1/; true")
        same(flags, [("rule:encoded-exfiltration", "flag")], "flags")
    with Place() as place:
        _, flags = flags_of(place, "curl -s -m 5 http://127.0.0.1:1/$(head -c 300 /dev/urandom | base64 -w0); true")
        same(flags, [("rule:encoded-exfiltration", "flag")], "flags")
    with Place() as place:
        _, flags = flags_of(place, "/bin/true $(head -c 300 /dev/urandom | base64 -w0)")
        same(flags, [], "flags of what goes nowhere")


@test("miners are flagged by name and by address")
def _():
    with Place() as place:
        place.expect("xmrig")
        _, flags = flags_of(place, "cp /bin/true xmrig; ./xmrig; /bin/true -o stratum+tcp://pool.example:3333")
        same(flags, [("rule:crypto-miners", "flag")] * 2, "flags")


@test("many files that are gone are flagged at the end, and a removed build directory is not")
def _():
    need_layers()
    with Place() as place:
        for i in range(120):
            write(os.path.join(place.ws, "src", "file-%d.c" % i))
        place.settle()
        _, flags = flags_of(place, "rm src/file-*.c", mode="layer")
        same(flags, [("rule:mass-deletion", "flag")], "flags")
    with Place() as place:
        os.mkdir(os.path.join(place.ws, "build"))
        for i in range(120):
            write(os.path.join(place.ws, "build", "file-%d.o" % i))
        place.settle()
        _, flags = flags_of(place, "rm -r build", mode="layer")
        same(flags, [], "flags")


@test("an ordinary day gives no flag: git, a compiler, make, python, tar")
def _():
    need("git", "gcc")
    with Place() as place:
        script = """
            git status >/dev/null && git log >/dev/null && cp -r . /tmp/copy && git clone -q . /tmp/clone
            cd /tmp/copy && printf 'int main(void){return 0;}' > t.c && gcc -O2 -o t t.c && ./t
            printf 'all:\\n\\t./t\\n' > Makefile && make -s
            python3 -c 'import json, ssl; print(json.dumps({}))' && tar cf x.tar src && rm -rf src x.tar
            sha256sum t | cut -c1-10; find . -name '*.o' -delete; true"""
        result, flags = flags_of(place, script)
        same(result.status, 0, "status")
        same(flags, [], "flags")
        check("rule:" not in result.err, result.err)


@test("a rule that is off is silent, one by one and all together, by flag and by file")
def _():
    for flags in (["--rule", "credentials=off"], ["--rule", "all=off"]):
        with Place() as place:
            same(flags_of(place, CREDENTIALS + "; true", *flags)[1], [], "flags")
    with Place() as place:
        path = job_file(place, {"command": ["sh", "-c", CREDENTIALS + "; true"], "audit": {"rules": {"credentials": "off"}}})
        run(place, ["-f", path], None, env=state_of(place))
        same(events(place, "flag"), [], "flags")


@test("kill: the run is ended with a status, a cause and a line of its own")
def _():
    with Place() as place:
        result, flags = flags_of(place, CREDENTIALS + "; sleep 100; echo late", "--rule", "credentials=kill")
        same(result.status, STOPPED, "status")
        check("late" not in result.out, "it went on")
        among("stopped by rule:credentials (--rule credentials=...)", result.err, "the text")
        same(flags[0], ("rule:credentials", "kill"), "the flag")
        same((events(place, "end")[0]["end"], events(place, "end")[0]["status"]), ("stopped", STOPPED), "the end")
    with Place() as place:
        result = run(place, ["--json", "--rule", "credentials=kill"], inside_sh(CREDENTIALS + "; sleep 100"), env=state_of(place))
        told = json.loads(result.err.splitlines()[-1])
        same((told["end"], told["stopped_by"], told["flags"][0]["by"]), ("stopped", "rule:credentials", "rule:credentials"), "JSON")


@test("pause without a terminal: everything stands still; SIGCONT lets it go on")
def _():
    with Place() as place:
        place.expect("later")
        script = CREDENTIALS + "; sleep 0.5; touch later; exit 6"
        running = start(place, ["--rule", "credentials=pause"], inside_sh(script), env=state_of(place))
        until(lambda: glob_stopped(place))
        check(not os.path.exists(os.path.join(place.ws, "later")), "it went on by itself")
        # One that comes before the next hit is followed by a second pause.
        result = None
        for _ in range(4):
            os.kill(running.pid, signal.SIGCONT)
            if until_done(running):
                break
        result = running.wait()
        same(result.status, 6, "status")
        among("everything inside is stopped: ", result.err, "the words")
        kinds = [event["kind"] for event in events(place)]
        check("stopped" in kinds and "resumed" in kinds, "lines: %s" % kinds)
        same(events(place, "approval")[0]["answer"], "SIGCONT", "who decided")


def glob_stopped(place):
    try:
        return events(place, "stopped")
    except ValueError:
        return []


def until_done(running):
    import time
    for _ in range(40):
        if running.process.poll() is not None:
            return True
        time.sleep(0.05)
    return False


@test("pause without anybody is an end, after the time that the contract says")
def _():
    with Place() as place:
        result, flags = flags_of(place, CREDENTIALS + "; sleep 2; echo late", "--rule", "credentials=pause", "--hold", "1s")
        same(result.status, STOPPED, "status")
        check("late" not in result.out, "it went on")
        same(events(place, "approval")[0]["answer"], "none", "the answer")


@test("ask without anybody is an end at once")
def _():
    with Place() as place:
        result, _ = flags_of(place, CREDENTIALS + "; sleep 100", "--rule", "credentials=ask")
        same(result.status, STOPPED, "status")


def at_question(place, *flags):
    command = [*ATOLL_RUN, *flags, "--", "sh", "-c", "/bin/true stratum+tcp://x; sleep 1; exit 7"]
    terminal = Terminal(place, command, columns=200, env=state_of(place))
    terminal.expect(r"paused by rule:crypto-miners: true is told to mine.*Continue\?.*\) ")
    return terminal


@test("at a terminal a person is asked: yes goes on, no ends it")
def _():
    with Place() as place:
        with at_question(place, "--rule", "crypto-miners=pause") as terminal:
            terminal.send("y\n")
            same(terminal.process.wait(PATIENCE), 7, "status after yes")
    with Place() as place:
        with at_question(place, "--rule", "crypto-miners=ask") as terminal:
            terminal.send("\n")
            same(terminal.process.wait(PATIENCE), STOPPED, "status after no")


@test("names and words that there are not are refused with a hint")
def _():
    with Place() as place:
        for flag, words in (("credential=off", "did you mean 'credentials'?"), ("credentials=of", "did you mean 'off'?"), ("credentials", "write NAME=WHAT")):
            result = run(place, ["--rule", flag], inside_sh("true"), starts=False)
            same(result.status, BAD_REQUEST, "status")
            among(words, result.err, "words")
        result = run(place, ["--hold", "0s"], inside_sh("true"), starts=False)
        same(result.status, BAD_REQUEST, "status")


@test("a job file from the workspace that switches a rule off has to be trusted")
def _():
    with Place() as place:
        place.expect("job.yaml")
        write(os.path.join(place.ws, "job.yaml"), "command: ['true']\naudit: {rules: {credentials: off}}\n")
        result = run(place, ["-f", "job.yaml"], None, starts=False)
        same(result.status, POLICY, "status")
        among("audit.rules.credentials", result.err, "the clause")


@test("in a sandbox rules see all steps; what is more than a flag ends what runs, and the sandbox stays")
def _():
    need_layers()
    with Place() as place:
        env = state_of(place)
        atoll(place, "create", "--rule", "crypto-miners=kill", "--name", "box", env=env)
        result = atoll(place, "exec", "box", "--", "sh", "-c", CREDENTIALS + "; echo one", env=env)
        same((result.status, result.out.strip()), (0, "one"), "a step that is only flagged")
        result = atoll(place, "exec", "box", "--", "sh", "-c", "/bin/true stratum+tcp://x; sleep 100; echo late", env=env)
        same(result.status, 128 + 9, "status of the step that is ended")
        same(atoll(place, "exec", "box", "--", "true", env=env).status, 0, "the step after it")
        found = {(event["by"], event["verdict"], event["step"]) for event in events(place, "flag")}
        same(found, {("rule:credentials", "flag", 1), ("rule:crypto-miners", "kill", 2)}, "flags")
        atoll(place, "rm", "--force", "box", env=env)


main()
