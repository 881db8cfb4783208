#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 102
# check: user only
"""
Bad jobs and flags, on the real program: bad-jobs.jsonl is refused case by case, with one line that says what is wrong and
where, and with the right status; good-jobs.jsonl is not. The first line of each file explains it.

Programs called `true`, `a`, `true-program` and so on come first in PATH and would leave a file where they run, so that a case in
which something ran is seen.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("true", "a", "b", "x", "true-program", "sh")
# Where it is only about another way to the same reader, the sanitizers have seen each case already.
SOME = slice(None, None, 4 if IS_SANITIZED else 1)


def cases(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    check("about" in found[0], "%s does not explain itself" % name)
    return found[1:]


def content(case):
    """The text of job.yaml, or None."""
    if "file_hex" in case:
        return bytes.fromhex(case["file_hex"])
    text = case.get("file")
    if isinstance(text, list):
        text = "".join(part if isinstance(part, str) else part[0] * part[1] for part in text)
    return None if text is None else text.encode("utf-8", "surrogatepass")


def expected(case, place):
    """/var is refused as a system directory, or as one that holds a home, if that is where the tests have theirs."""
    if case["name"] == "write /var" and place.home.startswith("/var/"):
        return "would open"
    return case["expect"]


class Bench:
    """A directory beneath a home, in which nothing may appear but job.yaml."""

    def __init__(self, place):
        self.place = place
        self.ws = os.path.join(place.home, "project")
        os.mkdir(self.ws)
        bin_dir = os.path.join(place.home, ".local/bin")
        for name in PROGRAMS:
            write(os.path.join(bin_dir, name), "#!/bin/dash\n: >>ran-%s\n" % name, 0o755)
        os.chmod(bin_dir, 0o755)
        self.env = {"PATH": bin_dir + ":/usr/bin:/bin"}
        place.settle()

    def run(self, *args, stdin=None):
        return atoll(self.place, "run", *args, cwd=self.ws, env=self.env, stdin=stdin)

    def names(self):
        return [name for name in os.listdir(self.ws) if name != "job.yaml"]

    def wrong(self, result, status, expect):
        """What is wrong with a refusal, or None."""
        lines = result.err.split("\n")
        if result.status != status:
            return "status %d, expected %d: %s" % (result.status, status, result.err.strip()[:200])
        if len(lines) != 2 or lines[1] != "":
            return "%d lines on stderr: %r" % (len(lines) - 1, result.err[:300])
        if not lines[0].startswith("atoll: ") or expect not in lines[0]:
            return "said %r, expected %r" % (lines[0][:300], expect)
        if re.search("[\x00-\x1f\x7f]", lines[0]):
            return "a control character: %r" % lines[0]
        if result.out:
            return "stdout: %r" % result.out[:100]
        if self.names():
            for name in self.names():
                os.unlink(os.path.join(self.ws, name))
            return "something ran"
        return None


def every(bad):
    """Fails with all that is wrong, one line per case."""
    for line in bad:
        print("# " + line.encode("ascii", "backslashreplace").decode())
    check(not bad, "%d cases are wrong" % len(bad))


@test("what would run if a job were accepted is seen")
def _():
    with Place(strict=False) as place:
        bench = Bench(place)
        same(bench.run("--", "true-program").status, 0, "status")
        same(bench.names(), ["ran-true-program"], "what ran")


@test("bad job files and flags are refused in one line")
def _():
    with Place() as place:
        bench, bad = Bench(place), []
        job = os.path.join(bench.ws, "job.yaml")
        listed = cases("bad-jobs.jsonl")
        check(len(listed) >= 100, "only %d cases" % len(listed))
        for case in listed:
            text = content(case)
            if text is not None:
                write(job, text)
            wrong = bench.wrong(bench.run(*(["-f", "job.yaml"] if text is not None else []), *case.get("args", [])),
                                case["status"], expected(case, place))
            if wrong:
                bad.append("%s: %s" % (case["name"], wrong))
        os.unlink(job)
        os.rmdir(bench.ws)
        os.mkdir(bench.ws)
        every(bad)


@test("bad job files are refused on standard input, too")
def _():
    with Place() as place:
        bench, bad = Bench(place), []
        for case in cases("bad-jobs.jsonl")[SOME]:
            text = content(case)
            if text is None or "args" in case:
                continue
            expect = expected(case, place) if "job.yaml" not in case["expect"] else "standard input"
            wrong = bench.wrong(bench.run("-f", "-", stdin=text), case["status"], expect)
            if wrong:
                bad.append("%s: %s" % (case["name"], wrong))
        every(bad)


@test("the same job as JSON is refused alike")
def _():
    with Place() as place:
        bench, bad = Bench(place), []
        for case in cases("bad-jobs.jsonl")[SOME]:
            if "data" not in case or "args" in case:
                continue
            wrong = bench.wrong(bench.run("-f", "-", stdin=json.dumps(case["data"])), case["status"], "")
            if wrong:
                bad.append("%s: %s" % (case["name"], wrong))
        every(bad)


@test("--json tells a refusal to a program")
def _():
    with Place() as place:
        bench, bad = Bench(place), []
        for case in cases("bad-jobs.jsonl"):
            if "args" not in case or "file" in case:
                continue
            result = bench.run("--json", *case["args"])
            try:
                said = json.loads(result.err)
                if said["status"] != case["status"] or result.status != case["status"] or not said["error"]["text"]:
                    bad.append("%s: %s" % (case["name"], result.err))
            except (ValueError, KeyError):
                # Options that cannot be read at all: nobody knows yet that JSON was wanted.
                if not result.err.startswith("atoll: "):
                    bad.append("%s: %r" % (case["name"], result.err))
        every(bad)


@test("good job files are accepted")
def _():
    with Place() as place:
        bench, bad = Bench(place), []
        os.makedirs(bench.ws + "/sub/x/y")
        place.settle()
        for case in cases("good-jobs.jsonl"):
            job = job_file(place, case["data"])
            result = atoll(place, "run", "--plan", "-f", job, cwd=bench.ws, env=bench.env, fds={1023: 2})
            # Places that this host does not have are the one thing that may be wrong with them.
            if result.status != 0 and not (result.status == 240 and "No such file or directory" in result.err):
                bad.append("%s: status %d, %s" % (case["name"], result.status, result.err.strip()))
        every(bad)


@test("odd command lines are refused in one line")
def _():
    odd = [
        ([], "no command"), (["--"], "no command"), (["--frobnicate", "--", "true"], "unknown option '--frobnicate'"),
        (["--memroy", "1G", "--", "true"], "did you mean '--memory'"), (["-z", "--", "true"], "unknown option '-z'"),
        (["-qf", "x"], "unknown option '-qf'"), (["--memory"], "needs a value"), (["--memory", "--", "true"], "needs a value"),
        (["--plan=yes", "--", "true"], "takes no value"), (["-f", "absent.yaml"], "No such file or directory"),
        (["-f", ".", "--", "true"], "not a plain file"), (["-f", "/dev/zero", "--", "true"], "not a plain file"),
        (["-f", "-", "-f", "-"], "two job files"), (["--fd", "2", "--", "true"], "3 to 1023"), (["--fd", "x", "--", "true"], "3 to 1023"),
        (["--fd", "99", "--", "true"], "descriptor 99"), (["--", ""], ""), (["--identity", "nobody", "--", "true"], "offline"),
        (["--accept-weaker", "all", "--", "true"], "accept-weaker"), (["--read", "/no/such/place", "--", "true"], "No such file or directory"),
        (["--socket", "/etc/passwd", "--", "true"], "not a socket"), (["--workspace", "/no/such", "--", "true"], "/no/such"),
        (["--chdir", "nowhere", "--", "true"], "nowhere"), (["--memory=", "--", "true"], "memory"), (["-f", ""], "job file"),
    ]
    with Place() as place:
        bench, bad = Bench(place), []
        for args, expect in odd:
            wrong = bench.wrong(bench.run(*args), 240, expect)
            if wrong:
                bad.append("%s: %s" % (args, wrong))
        every(bad)


@test("a fifo or a link as job file does not make it wait")
def _():
    with Place() as place:
        bench = Bench(place)
        os.mkfifo(place.tmp + "/fifo")
        result = bench.run("-f", place.tmp + "/fifo")
        same(bench.wrong(result, 240, "not a plain file"), None, "fifo")


main()
