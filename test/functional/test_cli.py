# SPDX-License-Identifier: Apache-2.0
# check: seconds 17
# check: user only
"""The command line: help, mistakes, exit statuses, what is said after a run."""

import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# What 'atoll help' lists, so that a new command is not forgotten here.
COMMANDS = tuple(re.findall(r"^  ([a-z]+) ", subprocess.run([ATOLL, "help"], stdout=subprocess.PIPE, text=True).stdout.split("Commands:\n")[1].split("\n\n")[0],
                            re.M))
WITHOUT_PAGE = ("help", "version")
STATUSES = {"240": BAD_REQUEST, "241": POLICY, "242": HOST_CANNOT, "243": TIMED_OUT, "244": OUT_OF_MEMORY, "245": OVER_LIMIT,
            "246": INTERNAL}


def last_json(result):
    return json.loads(result.err.splitlines()[-1])


@test("atoll alone shows help with examples, and is no success")
def _():
    with Place() as place:
        result = atoll(place)
        same(result.status, BAD_REQUEST, "status")
        for word in COMMANDS + ("atoll run -- ",):
            check(word in result.out, "no %r in the help" % word)


@test("every command helps, in three ways that agree")
def _():
    with Place() as place:
        for name in COMMANDS:
            by_help = atoll(place, "help", name)
            same(by_help.status, 0, "atoll help %s" % name)
            check(by_help.out.startswith("usage: atoll %s" % name), by_help.out)
            for flag in ("--help", "-h"):
                result = atoll(place, name, flag)
                same((result.status, result.out), (0, by_help.out), "%s %s" % (name, flag))
            check(max(map(len, by_help.out.splitlines())) <= 80, "a line of the help is too long")
        same(atoll(place, "--help").out, atoll(place, "help").out, "--help")


@test("the help of run names every exit status and every flag is understood")
def _():
    with Place() as place:
        text = atoll(place, "run", "--help").out
        for status in STATUSES:
            check(status in text, "status %s is not explained" % status)
        flags = re.findall(r"^ +(?:-\w, )?--([a-z-]+)( [A-Z])?", text, re.M)
        check(len(flags) > 20, "only %d flags" % len(flags))
        for name, has_value in flags:
            result = atoll(place, "run", "--" + name if has_value else "--%s=x" % name)
            same(result.status, BAD_REQUEST, "--" + name)
            check("needs a value" in result.err if has_value else "takes no value" in result.err, result.err)


@test("manual pages are well-formed and say what the help says")
def _():
    with Place() as place:
        pages = os.path.join(ROOT, "doc/man/meson.build")
        if os.path.exists(pages):
            listed = re.findall(r"'([a-z]+)'", re.search(r"man_commands = \[(.*?)\]", read(pages).decode(), re.S)[1])
            same(sorted(listed), sorted(set(COMMANDS) - set(WITHOUT_PAGE)), "pages that the build makes")
        for name in COMMANDS:
            if name in WITHOUT_PAGE:
                continue
            page = atoll(place, "help", "--man", name)
            same(page.status, 0, name)
            check(page.out.startswith(".\\\"") and "\n.TH ATOLL-%s 1 " % name.upper() in page.out, "no .TH")
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"):
                check("\n.SH %s\n" % section in page.out, "%s lacks %s" % (name, section))
            for flag in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", atoll(place, name, "--help").out, re.M):
                check(flag.replace("-", "\\-") in page.out, "%s lacks --%s" % (name, flag))
        check("\n.TH ATOLL 1 " in atoll(place, "help", "--man").out, "no atoll(1)")


@test("the version is one line")
def _():
    with Place() as place:
        for args in (["--version"], ["-V"], ["version"]):
            result = atoll(place, *args)
            check(result.status == 0 and re.fullmatch(r"atoll \d+\.\d+\.\d+\n", result.out), repr(result.out))


@test("a mistake is one line with a remedy, and status 240")
def _():
    with Place() as place:
        for args, wanted in (
                (["rnu"], "did you mean 'run'?"),
                (["npm", "test"], "atoll run -- npm"),
                (["diff"], "no run is kept yet"),
                (["dif"], "did you mean 'diff'?"),
                (["run"], "no command"),
                (["run", "--"], "no command"),
                (["run", "--wirte", "x", "--", "true"], "did you mean '--write'?"),
                (["run", "--timeuot=3", "true"], "did you mean '--timeout'?"),
                (["run", "-z", "true"], "unknown option '-z'"),
                (["run", "--read"], "needs a value"),
                (["run", "--read", "--", "true"], "needs a value"),
                (["run", "--plan=yes", "true"], "takes no value"),
                (["run", "-f", "a", "-f", "b"], "two job files"),
                (["run", "--wirte\x1b[2J", "true"], "\\x1b[2J"),
                (["doctor", "x"], "unexpected argument"),
                (["schema", "--jsno"], "unknown option"),
                (["trust"], "missing"),
                (["help", "nothing"], "unknown command"),
        ):
            result = atoll(place, *args)
            same(result.status, BAD_REQUEST, str(args))
            check(result.err.startswith("atoll: ") and result.err.count("\n") == 1, repr(result.err))
            check(wanted in result.err, "%s: %r" % (args, result.err))
            check("\x1b" not in result.err, "a control character reached the terminal")
            same(result.out, "", "stdout of %s" % args)


@test("options end at the command, whose own options are not ours")
def _():
    with Place() as place:
        for flags in (["echo", "--plan", "-f", "--"], ["--", "echo", "--plan", "-f", "--"]):
            result = atoll(place, "run", *flags)
            same((result.status, result.out), (0, "--plan -f --\n"), str(flags))


@test("exit statuses: the command's own, 126, 127, 128+N")
def _():
    with Place() as place:
        write(place.ws + "/plain", "text\n", 0o644)
        place.expect("plain")
        for command, status in ((["sh", "-c", "exit 0"], 0), (["sh", "-c", "exit 77"], 77), (["./plain"], 126), (["/etc"], 126),
                                (["no-such-command"], 127), (["./no/such"], 127), (["sh", "-c", "kill -TERM $$"], 143),
                                (["sh", "-c", "kill -KILL $$"], 137)):
            same(run(place, [], command).status, status, str(command))


@test("a limit that ends the run is named with its value")
def _():
    with Place() as place:
        late = run(place, ["--timeout", "500ms"], ["sleep", "600"])
        same(late.status, TIMED_OUT, "status")
        same(late.err.splitlines()[0], "atoll: stopped at the time limit of 500 ms (--timeout)", "message")
        much = run(place, ["--output", "1K"], ["sh", "-c", "while :; do echo yyyyyyyyyyyyyyyy; done"])
        same(much.status, OVER_LIMIT, "status")
        same(len(much.raw_out), 1024, "bytes that came out")
        check("output limit of 1 KiB (--output)" in much.err, much.err)


@test("what was refused is summed up, unless --quiet")
def _():
    with Place() as place:
        script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo x >.git/hooks/h$i; done 2>/dev/null; exit 3"
        result = run(place, [], script)
        same(result.status, 3, "status")
        lines = result.err.splitlines()
        same(lines[0], "atoll: refused 12 actions:", "first line")
        same(lines[1], "  create .git/hooks/h1: protected (git hooks)", "second line")
        same(lines[-2], "  and 2 more", "last line but one")
        check(re.fullmatch(r"atoll: recorded as ([a-z2-7]{8}) \(atoll log \1\)", lines[-1]), "last line: " + lines[-1])
        same(len(lines), 13, "lines")
        for flag in ("--quiet", "-q"):
            quiet = run(place, [flag], script)
            same((quiet.status, quiet.err), (3, ""), flag)


@test("a refused name cannot speak to the terminal")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r"attempt('x', lambda: put('.git/hooks/a\n\x1b[31mb\u202e'))"))
        check("\\n\\x1b[31mb\\xe2\\x80\\xae" in result.err, ascii(result.err))
        check("\x1b" not in result.err and "\u202e" not in result.err, "came through")
        same(len(result.err.splitlines()), 3, "lines")


@test("--json gives the result as the last line of stderr")
def _():
    with Place() as place:
        result = run(place, ["--json"], "echo out; echo err >&2; echo x >.git/hooks/h; exit 5")
        same((result.status, result.out), (5, "out\n"), "the command's own")
        check(result.err.startswith("err\n"), result.err)
        told = last_json(result)
        same((told["status"], told["end"], told["code"], told["limit"]), (5, "exited", 5, None), "result")
        same((told["n_denials"], told["denials"][0]["action"], told["denials"][0]["rule"]), (1, "create", "git hooks"), "denial")
        same(told["denials"][0]["path"], place.ws + "/.git/hooks/h", "path")
        check(told["wall_ns"] > 0 and re.fullmatch("[0-9a-f]{64}", told["contract"]), str(told))
        late = last_json(run(place, ["--json", "--timeout", "300ms"], ["sleep", "600"]))
        same((late["status"], late["end"], late["limit"], late["limit_value"]), (TIMED_OUT, "timed-out", "wall", 300), "time-out")
        bad = atoll(place, "run", "--json", "--memory", "much", "true")
        told = last_json(bad)
        same((bad.status, told["status"], told["error"]["fault"]), (BAD_REQUEST, BAD_REQUEST, "request"), "a bad request")
        check("memory" in told["error"]["text"], str(told))


@test("standard descriptors that are closed stay harmless")
def _():
    with Place() as place:
        result = plain(place, inside_sh('"$1" run --direct -- sh -c "echo hi; ls -l /proc/self/fd" <&- 2>&-', ATOLL), confined=False)
        same(result.status, 0, "status")
        check("hi\n" in result.out, result.out)
        result = plain(place, inside_sh('"$1" help >/dev/full', ATOLL), confined=False)
        check(result.status not in (0, INTERNAL) and "No space left" in result.err, result.err)


@test("the examples are valid, and the schema is JSON")
def _():
    with Place() as place:
        os.makedirs(place.home + "/.cache/ccache")
        place.before["home"] = snapshot(place.home)
        os.mkdir(place.ws + "/out")
        place.expect("out")
        for name in sorted(name for name in os.listdir(ROOT + "/examples") if name.endswith(".yaml")):
            # Copied, as one does: in a git tree they would have to be trusted first.
            copy = write(place.tmp + "/" + name, read(os.path.join(ROOT, "examples", name)))
            result = atoll(place, "run", "--plan", "--json", "-f", copy, mode="default")
            same(result.status, 0, "%s: %s" % (name, result.err))
            json.loads(result.out)
        json.loads(atoll(place, "schema").out)


main()
