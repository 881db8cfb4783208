# SPDX-License-Identifier: Apache-2.0
# check: seconds 114
# check: not sanitized
# check: timeout 480
"""
Family G: a person who is asked about whom no rule names. Once, this run, always, no; time-out, floods, and tricks with the question

The person sits at a terminal of the test's (terminal.py). An unlisted name gets an address inside, and the connection is held: until
somebody said yes nothing may have left the host, not even a lookup.
"""
import os
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, inside  # noqa: E402
from terminal import Terminal  # noqa: E402

rig = net.enter()
QUESTION = r"wants to connect to %s, port %d.*\[o\]nce.*\[N\]o\?[^\n]*\) "


def at_terminal(place, flags, command, env=None):
    """A person's terminal, with the answers kept in a place of the test's own."""
    config = {"XDG_CONFIG_HOME": place.tmp + "/config"}
    os.makedirs(place.tmp + "/config", exist_ok=True)
    return Terminal(place, [ATOLL, "run", "--direct", *bare_flags(flags), *flags, "--", *command], columns=200, env={**config, **(env or {})})


def patient(code):
    """A client that waits for a person, also on a busy machine."""
    return inside("patience = 25\n" + textwrap.dedent(code))


def bare_flags(flags):
    import bare
    return bare.flags(flags)


def answer(terminal, word):
    """Type it, and again if it was not taken: what comes at the same moment as the question is thrown away with what was typed before."""
    before = len(re.findall(rb"atoll: (?:allowed|refused)\r\n", terminal.seen))
    for _ in range(5):
        terminal.send(word + "\r")
        deadline, has_ended = time.monotonic() + 2, False
        while time.monotonic() < deadline and not has_ended:
            has_ended = terminal.process.poll() is not None  # what it printed before is read below
            terminal.pump(0.02)
            if len(re.findall(rb"atoll: (?:allowed|refused)\r\n", terminal.seen)) > before:
                return
    raise Failed("the answer was not taken (%s): %r" % ("atoll runs" if terminal.process.poll() is None else "atoll ended with %s" % terminal.process.poll(), terminal.seen[-600:]))


def tries(terminal):
    found = {}
    for line in terminal.seen.decode("utf-8", "replace").replace("\r", "\n").splitlines():
        if line.startswith("try ") and " => " in line:
            label, said = line[4:].split(" => ", 1)
            found[label] = said.strip()
    return found


def answers_file(place):
    return place.tmp + "/config/atoll/answers"


@test("ask: nothing leaves before the answer; no is no for the rest of the run, and listed names are not asked about")
def _():
    with Place() as place:
        rig.clear()
        code = 'talk("listed", "good.test", 80)\ntalk("asked", "evil.test", 80)\ntalk("again", "evil.test", 80)\n'
        with at_terminal(place, ["--ask", "--allow", "good.test"], patient(code)) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            same({one["host"] for one in rig.requests(1)}, {"good.test"}, "requests before the answer")
            check(not [one for one in rig.queries() if "evil" in one], "looked up before the answer: %s" % rig.queries())
            answer(terminal, "n")
            same(terminal.wait(), 0, "the status")
            said = tries(terminal)
        same(said.get("listed"), "ok", "listed")
        among(said.get("asked"), NO_WAY, "asked")
        among(said.get("again"), NO_WAY, "again")
        same(terminal.seen.count(b"wants to connect to"), 1, "questions")
        same({one["host"] for one in rig.requests()}, {"good.test"}, "requests")
        rig.silence("evil.test")
        check(not os.path.exists(answers_file(place)), "a no was written")


@test("ask: once is for what waits, this run is for all of it; another port is another question")
def _():
    with Place() as place:
        code = 'talk("first", "evil.test", 80)\ntalk("second", "evil.test", 80)\ntalk("third", "evil.test", 80)\ntalk("port", "evil.test", 7000, b"x\\n")\n'
        rig.clear()
        with at_terminal(place, ["--ask"], patient(code)) as terminal:
            for word, port in (("o", 80), ("r", 80), ("n", 7000)):
                terminal.expect(QUESTION % ("evil.test", port))
                answer(terminal, word)
            same(terminal.wait(), 0, "the status")
            said = tries(terminal)
        same((said.get("first"), said.get("second"), said.get("third")), ("ok", "ok", "ok"), "once, this run, and the rest")
        among(said.get("port"), NO_WAY, "another port")
        same(len(rig.requests(3)), 3, "requests")
        same(terminal.seen.count(b"wants to connect to"), 3, "questions")
        check(not os.path.exists(answers_file(place)), "something was written")
        # Nothing of it is left for the next run.
        rig.clear()
        with at_terminal(place, ["--ask"], patient('talk("next", "evil.test", 80)')) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            answer(terminal, "")
            terminal.wait()
            among(tries(terminal).get("next"), NO_WAY, "the next run")
        same(rig.requests(), [], "requests")


@test("ask: always is for this contract alone, in a file of the user's; POL-16: addresses are judged all the same")
def _():
    with Place() as place:
        code = patient('talk("x", "evil.test", 80)')
        with at_terminal(place, ["--ask"], code) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            answer(terminal, "a")
            terminal.wait()
            same(tries(terminal).get("x"), "ok", "always")
        path = answers_file(place)
        text = read(path).decode()
        check(re.search(r"^[0-9a-f]{64} evil\.test:80 ", text, re.M), "the file of answers: %r" % text)
        same(os.stat(path).st_mode & 0o022, 0, "who may write it")
        rig.clear()
        with at_terminal(place, ["--ask"], code) as terminal:
            terminal.wait()
            same((tries(terminal).get("x"), terminal.seen.count(b"wants to talk")), ("ok", 0), "a later run of the same contract")
        same(len(rig.requests(1)), 1, "requests")
        # Another contract has another digest.
        with at_terminal(place, ["--ask", "--allow", "good.test"], code) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            answer(terminal, "n")
            terminal.wait()
            among(tries(terminal).get("x"), NO_WAY, "another contract")
        # A file that others may write says nothing.
        os.chmod(path, 0o666)
        with at_terminal(place, ["--ask"], code) as terminal:
            status = terminal.wait()
            check(status in NOT_STARTED or tries(terminal).get("x") in NO_WAY, "status %s, %s" % (status, tries(terminal)))
        os.chmod(path, 0o600)
        rig.clear()
        code = patient('talk("private", "private.test", 80)\ntalk("loop", "loop.test", 80)\ntalk("metadata", "169.254.169.254", 80)\n')
        with at_terminal(place, ["--ask"], code) as terminal:
            seen = 0
            deadline = time.monotonic() + 20
            while terminal.process.poll() is None and time.monotonic() < deadline:
                terminal.pump(0.05)
                if terminal.seen.count(b"[N]o?") > seen:
                    seen += 1
                    answer(terminal, "r")
            terminal.wait()
            for label in ("private", "loop", "metadata"):
                among(tries(terminal).get(label), (*NO_WAY, "http 502"), label)
        same((rig.attempts(), rig.canaries()), ([], []), "what left after a yes to an odd address")


@test("ask: without a terminal it is no, at once; also for a job that has one and is in the background")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--ask"], patient('talk("x", "evil.test", 80)'), env={"XDG_CONFIG_HOME": place.tmp})
        result.refused("x", how=NO_WAY)
        check(result.seconds < 5 * SLOW, "it took %.1f s" % result.seconds)
        rig.silence()


@test("ask: the question cannot be forged, and the command cannot answer it")
def _():
    with Place() as place:
        rig.clear()
        code = r"""
            import fcntl, termios
            for name in ("x.evil.test\x1b[2J", "evil.test\r\natoll: allowed", "a" * 63 + ".evil.test", "good.test\x08\x08"):
                outcome("odd", lambda: dns(name.split(".")[0]) and None) if False else None
                try: socket.getaddrinfo(name.encode("latin-1"), 80)
                except OSError: pass
            os.write(1, b"o\r\n"); os.write(2, b"a\r\n")
            for fd in (0, 1, 2):
                try: fcntl.ioctl(fd, termios.TIOCSTI, b"o")
                except OSError: pass
            try:
                tty = os.open("/dev/tty", os.O_RDWR); os.write(tty, b"o\r")
                fcntl.ioctl(tty, termios.TIOCSTI, b"o")
            except OSError: pass
            talk("x", "evil.test", 80)
            """
        with at_terminal(place, ["--ask"], patient(code)) as terminal:
            terminal.send("o\r")  # typed ahead: no answer to what was not yet asked
            terminal.expect(QUESTION % ("evil.test", 80))
            time.sleep(0.5)
            same(rig.requests(), [], "requests before the answer")
            answer(terminal, "n")
            terminal.wait()
            among(tries(terminal).get("x"), NO_WAY, "x")
        same(rig.requests(), [], "requests")
        rig.silence("evil.test")


@test("ask: a flood is coalesced: one question for a name and port, and after some noes none")
def _():
    with Place() as place:
        rig.clear()
        code = r"""
            import threading
            def one(): outcome("same", lambda: reach("evil.test", 80))
            all = [threading.Thread(target=one) for _ in range(50)]
            [t.start() for t in all]; [t.join() for t in all]
            for n in range(30): talk("n%d" % n, "n%d.evil.test" % n, 80)
            """
        with at_terminal(place, ["--ask"], patient(code)) as terminal:
            answered = 0
            deadline = time.monotonic() + 40
            while terminal.process.poll() is None and time.monotonic() < deadline:
                terminal.pump(0.02)
                if terminal.seen.count(b"[N]o?") > answered:
                    answered += 1
                    answer(terminal, "n")
            terminal.wait()
            said = tries(terminal)
        among(said.get("same"), NO_WAY, "the same name fifty times")
        check(all(said.get("n%d" % n) in NO_WAY for n in range(30)), "the rest: %s" % said)
        check(1 <= answered <= 10, "%d questions" % answered)
        rig.silence("evil.test")


@test("ask: held connections hold up nobody else")
def _():
    with Place() as place:
        rig.clear()
        code = r"""
            import threading
            t = threading.Thread(target=lambda: talk("held", "evil.test", 80)); t.start()
            time.sleep(0.3)
            for n in range(5): talk("other %d" % n, "good.test", 80)
            print("done", "others", flush=True)
            t.join()
            """
        with at_terminal(place, ["--ask", "--allow", "good.test"], patient(code)) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            check(len(rig.requests(5, 5)) == 5, "others were held up: %s" % rig.requests())
            answer(terminal, "o")
            terminal.wait()
            said = tries(terminal)
        same({said.get("other %d" % n) for n in range(5)}, {"ok"}, "others")
        same(said.get("held"), "ok", "the one that was held")


@test("ask: no answer means no")
def _():
    need_user()  # takes a minute of waiting: once is enough
    with Place() as place:
        rig.clear()
        with at_terminal(place, ["--ask"], patient(r"""
            try:
                with socket.create_connection(("evil.test", 80), 30) as s:
                    s.settimeout(90); s.sendall(request("evil.test")); tell("x", s.recv(10).decode() or "end")
            except OSError as error: tell("x", errno.errorcode.get(error.errno, "?"))
            """)) as terminal:
            terminal.expect(QUESTION % ("evil.test", 80))
            terminal.wait(90)
            among(tries(terminal).get("x"), (*NO_WAY, "HTTP/1.1 4"), "x")
        rig.silence("evil.test")


main()
