# SPDX-License-Identifier: Apache-2.0
# check: seconds 42
# check: sanitized if long
"""`atoll --host URL`: the commands in a daemon elsewhere; src/remote/, src/cli/remote-call.c"""

import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *
from terminal import Terminal, is_in_front


class Remote(V1):
    def env(self, **more):
        return {**self.environment, "ATOLL_KEY": self.key, **more}

    def atoll(self, *words, input=None, host=True, env=None, binary=False):
        """Status, output and errors of `atoll --host URL WORDS`."""
        done = subprocess.run([ATOLL, *(["--host", self.url] if host else []), *words], input=input, capture_output=True,
                              env=env or self.env(), timeout=PATIENCE * SLOW, cwd=self.place,
                              stdin=subprocess.DEVNULL if input is None else None)
        if binary:
            return done.returncode, done.stdout, done.stderr
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def fine(self, *words, **more):
        status, output, errors = self.atoll(*words, **more)
        check(status == 0, f"{words}: {status} {output} {errors}")
        return output

    def exec(self, box, script, *options, **more):
        return self.atoll("exec", box, *options, "--", "sh", "-c", script, **more)


@test("create, ls, exec, rm in a daemon elsewhere; the key by option, variable or not at all")
def _():
    with Remote() as daemon:
        box = daemon.fine("create", "--name", "try", "--label", "a=b", "--env", "E=v", "--timeout", "10m").strip()
        check(box in daemon.fine("ls") and "name=try" in daemon.fine("ls"), "it is listed")
        same(json.loads(daemon.fine("ls", "--json", "--label", "a=b"))[0]["id"], box, "as JSON")
        same(daemon.exec(box, "echo $E $O; pwd; exit 3", "--env", "O=p", "--chdir", "/tmp"), (3, "v p\n/tmp\n", ""), "exec")
        same(daemon.atoll("ls", host=False, env=daemon.env(ATOLL_HOST=daemon.url))[1].count(box), 1, "$ATOLL_HOST")
        status, _, errors = daemon.atoll("ls", env=daemon.env(ATOLL_KEY="nonsense"))
        same((status, "no valid key" in errors and "ATOLL_KEY" in errors), (241, True), errors)
        os.makedirs(daemon.place + "/mine/atoll")
        os.symlink(daemon.state, daemon.place + "/mine/atoll/daemon")
        same(daemon.atoll("ls", env=daemon.env(ATOLL_KEY="", XDG_STATE_HOME=daemon.place + "/mine"))[0], 0, "no key for one's own, which is named")
        same(daemon.atoll("ls", env=daemon.env(ATOLL_KEY=""))[0], 241, "none for somebody else's")
        same(daemon.atoll("--key", daemon.key, "ls", env=daemon.env(ATOLL_KEY=""))[0], 0, "--key behind --host")
        daemon.fine("rm", box)
        same(daemon.atoll("rm", box)[0], 240, "it is gone")
        same(len(daemon.fine("create", "--count", "3", "--label", "x=y").split()), 3, "three")
        same(len(daemon.fine("rm", "--label", "x=y").split()), 3, "all that have the label")
        same(daemon.fine("ls"), "there is no sandbox\n", "none is left")


@test("exec passes everything exactly: streams, input, status, signals, limits")
def _():
    with Remote() as daemon:
        box = daemon.fine("create").strip()
        data = os.urandom(300000)
        same(daemon.atoll("exec", box, "--", "cat", input=data, binary=True), (0, data, b""), "any bytes, both ways")
        same(daemon.exec(box, "echo out; echo err >&2; kill -9 $$"), (137, "out\n", "err\n"), "a signal")
        same(daemon.exec(box, "sleep 100", "--timeout", "0.3")[0], 243, "the time limit")
        same(daemon.exec(box, "sleep 100", "--timeout", "1s")[0], 243, "the time limit, as create takes it")
        for wrong in ("inf", "nan", "-1", "0", "1x", ""):
            status, _, errors = daemon.exec(box, "true", "--timeout", wrong)
            same((status, "'%s' is" % wrong in errors), (240, True), "a time limit of '%s': %s" % (wrong, errors))
        status, _, errors = daemon.atoll("exec", box, "--", "/no/such/program")
        same((status, "no such file" in errors.lower()), (127, True), errors)
        same(daemon.atoll("exec", box, "--", "/etc/passwd")[0], 126, "no program")
        same(daemon.exec(box, "seq 200000 | sha256sum; seq 200000")[1].split("\n", 1)[1],
             "".join(f"{i}\n" for i in range(1, 200001)), "much output")
        last = daemon.exec(box, "true", "--json")[2].splitlines()[-1]
        same(json.loads(last)["result"]["exitCode"], 0, "--json")
        process = subprocess.Popen([ATOLL, "--host", daemon.url, "exec", box, "--", "sh", "-c",
                                    "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done"],
                                   stdout=subprocess.PIPE, env=daemon.env(), stdin=subprocess.DEVNULL)
        same(process.stdout.readline(), b"ready\n", "it runs")
        process.send_signal(signal.SIGTERM)
        same((process.stdout.read(), process.wait(PATIENCE * SLOW)), (b"got\n", 5), "a signal is passed on")
        process.stdout.close()
        process = subprocess.Popen([ATOLL, "--host", daemon.url, "exec", box, "--", "sleep", "1000"], env=daemon.env(),
                                   stdin=subprocess.DEVNULL)
        until(lambda: daemon.want(200, "GET", f"/v1/sandboxes/{box}/steps?state=running")["items"])
        process.send_signal(signal.SIGINT)
        same(process.wait(PATIENCE * SLOW), -signal.SIGINT, "and ends us, if it ends the command")


@test("exec goes on although the daemon is killed: no byte is missing, none comes twice")
def _():
    with Remote() as daemon:
        box = daemon.fine("create", "--timeout", "600").strip()
        process = subprocess.Popen(
            [ATOLL, "--host", daemon.url, "exec", box, "--", "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; "
             "i=$((i+1)); [ $((i % 200)) = 0 ] && sleep 0.2; done; exit 9"],
            stdout=subprocess.PIPE, env=daemon.env(), stdin=subprocess.DEVNULL)
        first = process.stdout.readline()
        daemon.again()
        data = first + process.stdout.read()
        process.stdout.close()
        same((data, process.wait()), (b"".join(b"line %d\n" % i for i in range(2000)), 9), "all of it")
        data = b"".join(b"%07d\n" % i for i in range(200000))
        process = subprocess.Popen([ATOLL, "--host", daemon.url, "exec", box, "--", "sh", "-c", "cat >got; wc -c <got"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=daemon.env())
        process.stdin.write(data[:800000])
        process.stdin.flush()
        daemon.again()
        same((process.communicate(data[800000:])[0].strip(), process.returncode), (b"1600000", 0), "as much as was given")
        check(daemon.want(200, "GET", f"/v1/sandboxes/{box}/files?path=got") == data, "input, each byte once")


@test("apply and undo where the daemon grants the workspace")
def _():
    place = os.path.realpath(tempfile.mkdtemp(prefix="atoll-test-remote-"))
    try:
        with Remote(config="tenants: {default: {workspaces: [%s]}}\n" % place) as daemon:
            job = os.path.join(daemon.place, "job.yaml")
            with open(job, "w") as file:
                file.write("workspace: %s\n" % place)
            box = daemon.fine("create", "-f", job).strip()
            daemon.exec(box, "echo new >f")
            check("applied" in daemon.fine("apply", box) and os.path.exists(place + "/f"), "applied")
            with open(place + "/f", "w") as file:
                file.write("the host's")
            same(daemon.atoll("undo", box)[0], 241, "a conflict")
            check("Undid the last apply" in daemon.fine("undo", box, "--force") and not os.path.exists(place + "/f"), "undone")
    finally:
        shutil.rmtree(place)


@test("at a terminal: one of its own, with its size, changes of it, keys; ours is as before afterwards")
def _():
    with Place() as place, Remote() as daemon:
        box = daemon.fine("create").strip()
        with Terminal(place, [ATOLL, "--host", daemon.url, "exec", box, "--", "sh"], rows=20, columns=70,
                      env={"ATOLL_KEY": daemon.key}) as terminal:
            terminal.expect(rb"[#$] ")
            check(terminal.is_raw(), "our terminal is not raw")
            terminal.send("stty size; tty\r")
            terminal.expect(rb"20 70\r\n/dev/pts/")
            terminal.resize(33, 101)
            os.kill(terminal.process.pid, signal.SIGWINCH)
            # The size comes a moment later.
            terminal.send("until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done; echo si''zed\r")
            terminal.expect(rb"sized")
            terminal.send("sleep 1000\r")
            # A Ctrl-C that comes before it is in front would be the shell's, which then waits for it all the same.
            check(until(lambda: any(name == "sleep" and is_in_front(pid) for pid, name in descendants().items())), "it does not sleep")
            terminal.send("\x03")
            terminal.expect(rb"[#$] ")
            terminal.send("printf 'a\\033]0;title\\007b'; exit 7\r")
            terminal.expect(rb"ab")
            same(terminal.process.wait(PATIENCE * SLOW), 7, "its status")
            terminal.pump(0.1)
            check(b"title" not in terminal.seen.split(b"exit 7")[-1], "what a terminal would obey came through")
            same(terminal.modes(), terminal.before[0], "our terminal is as it was")


@test("checkpoint, rollback, fork, history, diff, export, pause, log: as the local ones")
def _():
    with Remote() as daemon:
        box = daemon.fine("create").strip()
        daemon.exec(box, "echo one >f")
        same(daemon.fine("checkpoint", box, "first"), "first\n", "its name")
        daemon.exec(box, "echo two >f; echo new >g")
        check("+two" in daemon.fine("diff", box), "the text")
        same(daemon.fine("diff", box, "--name-only"), "f\ng\n", "the names")
        among("g", [c["path"] for c in json.loads(daemon.fine("diff", box, "--json"))["changes"]], "as JSON")
        check("+1" in daemon.fine("diff", box, "--stat").replace(" ", ""), "counted")
        forks = daemon.fine("fork", box, "--count", "2").split()
        same(daemon.exec(forks[1], "cat f g"), (0, "two\nnew\n", ""), "a fork")
        same(daemon.atoll("fork", box, "first")[0], 240, "not from a checkpoint")
        daemon.fine("rollback", box, "first", "-q")
        same(daemon.exec(box, "cat f; ls"), (0, "one\nf\n", ""), "rolled back")
        check("* first" in daemon.fine("history", box), "history")
        same(json.loads(daemon.fine("history", box, "--json"))[0]["name"], "first", "as JSON")
        check("+++ b/f" in daemon.fine("export", box, "--format", "patch"), "a patch")
        same(daemon.atoll("apply", box)[0], 241, "apply has nowhere to go")
        daemon.fine("pause", box)
        same(daemon.exec(box, "true")[0], 240, "it is paused")
        daemon.fine("resume", box)
        same(daemon.exec(box, "true")[0], 0, "it goes on")
        status, _, errors = daemon.atoll("log", box)
        same((status, "record: off" in errors), (240, True), errors)


@test("what has no meaning elsewhere is refused; without --host nothing goes there")
def _():
    with Remote() as daemon:
        for command in ("run", "doctor", "setup", "discard", "gc", "trust", "serve"):
            status, _, errors = daemon.atoll(command)
            same((status, "has no meaning" in errors), (240, True), f"{command}: {errors}")
        same(daemon.atoll("exec", "--", "true")[0], 240, "an id has to be said")
        same(daemon.atoll()[0], 240, "no command")
        same(daemon.atoll("create", "--memory", "1G")[0], 240, "clauses stand in a job file")
        status, _, errors = daemon.atoll("ls", env=daemon.env(), host=False)
        same(status, 0, f"the local ls: {errors}")
        status, _, errors = daemon.atoll("--host", "http://127.0.0.1:1", "exec", "x", "--", "true", host=False)
        same((status, "cannot be reached" in errors), (242, True), errors)
        same(daemon.atoll("--host", "ftp://x", "ls", host=False)[0], 240, "no place")
        check("--tty" in daemon.fine("exec", "--help"), "help")
        path = os.path.join(daemon.place, "job.yaml")
        with open(path, "w") as file:
            file.write("limits: {pids: 50}\n")
        box = daemon.fine("create", "-f", path).strip()
        same(daemon.exec(box, "echo ok")[1], "ok\n", "with a job file")


main()
