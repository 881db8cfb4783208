#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
README.md, followed to the letter; and that it, doc/reference.md and doc/promises.md name what exists

The `console` blocks are one session of bash, from the first to the last, in a fresh home:
  $ COMMAND     is run; it has to end with 0, unless `$ echo $?` follows and shows another status
  other lines   have to occur in what that command printed, in any order; "..." stands for any text, alone in a line for any lines
A `yaml` block that begins with `# NAME` is written to that file, in the directory in which the session is by then.
Other blocks are not run.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
README = os.path.join(ROOT, "README.md")
REFERENCE = os.path.join(ROOT, "doc", "reference.md")
# The private key in the home (scratch_home()), and the value of the README's example of --secret.
SECRETS = ("SECRET-of-the-readme", "sk-0123456789abcdef")


class Step:
    def __init__(self, command, line):
        self.command, self.line, self.shown = command, line, []
        self.status, self.output = None, None


def blocks(text):
    """(kind, line number, lines) of every fenced block."""
    kind, start, lines = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, start, lines = line[3:].strip() or "text", number, []
        else:
            yield kind, start, lines
            kind = None
    check(kind is None, "README.md:%d: a block without an end" % start)


def steps_of(text):
    steps = []
    for kind, start, lines in blocks(text):
        if kind == "yaml" and lines and lines[0].startswith("# "):
            body = "\n".join(lines)
            steps.append(Step("cat >%s <<'END-OF-BLOCK'\n%s\nEND-OF-BLOCK" % (lines[0][2:].strip(), body), start))
        if kind != "console":
            continue
        for number, line in enumerate(lines, start + 1):
            if line.startswith("$ "):
                steps.append(Step(line[2:], number))
            else:
                check(steps and line.strip(), "README.md:%d: output without a command" % number)
                steps[-1].shown.append(line)
    return steps


def play(steps, home):
    """One shell for all; a marker behind each command carries its status and leaves $? as it was."""
    marker = "end-of-step-" + os.urandom(8).hex()
    script = "".join("%s\ns=$?; printf '\\n%s %%d\\n' $s; (exit $s)\n" % (step.command, marker) for step in steps)
    tools = os.path.join(home, "..", "bin")
    os.mkdir(tools)
    os.symlink(ATOLL, os.path.join(tools, "atoll"))
    env = {"HOME": home, "PATH": os.path.realpath(tools) + ":" + HOST_PATH, "LANG": "C.UTF-8", "TERM": "dumb"}
    env.update((name, os.environ[name]) for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ)
    done = subprocess.run(["/bin/bash", "-c", script], cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=2 * RUN_SECONDS, text=True, errors="replace")
    parts = re.split(r"\n?%s (\d+)\n" % marker, done.stdout)
    check(len(parts) == 2 * len(steps) + 1, "the session ended early: %s" % done.stdout[-300:])
    for i, step in enumerate(steps):
        step.output, step.status = parts[2 * i], int(parts[2 * i + 1])


def matches(shown, line):
    return re.fullmatch(".*".join(re.escape(part) for part in shown.split("...")), line) is not None


def wrong_lines(step):
    printed = [line.rstrip() for line in step.output.splitlines()]
    for shown in step.shown:
        if shown.strip() != "..." and not any(matches(shown.rstrip(), line) for line in printed):
            yield "README.md:%d: %r is not in the output of %r, which is %r" % (step.line, shown, step.command, step.output[:2000])
    if printed and not step.shown:
        yield "README.md:%d: %r prints %r, and nothing is shown" % (step.line, step.command, step.output[:2000])


def wrong_status(step, following):
    wanted = 0
    if following is not None and following.command == "echo $?":
        wanted = int(following.shown[0])
    if step.status != wanted:
        yield "README.md:%d: %r ended with %d, not %d" % (step.line, step.command, step.status, wanted)


def scratch_home():
    base = tempfile.mkdtemp(prefix="atoll-test-")
    os.chmod(base, 0o755)
    home = os.path.join(os.path.realpath(base), "home")
    write(os.path.join(home, ".ssh", "id_ed25519"), "SECRET-of-the-readme\n")
    return base, home


@test("the commands in the README do what it shows")
def _():
    need("git")
    if not os.path.exists(README):
        skip("README.md in this tree")
    with open(README, encoding="utf-8") as file:
        steps = steps_of(file.read())
    check(len(steps) > 15, "only %d commands found" % len(steps))
    base, home = scratch_home()
    try:
        play(steps, home)
        wrong = []
        for i, step in enumerate(steps):
            wrong += wrong_lines(step)
            wrong += wrong_status(step, steps[i + 1] if i + 1 < len(steps) else None)
            for secret in SECRETS:
                check(secret not in step.output, "README.md:%d: a secret came out" % step.line)
        check(not wrong, "\n".join(wrong))
    finally:
        remove(base)


@test("the README names what exists")
def _():
    if not os.path.exists(README):
        skip("README.md in this tree")
    with open(README, encoding="utf-8") as file:
        text = file.read()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        path = os.path.join(ROOT, target)
        # A copy for a second user has only what the tests need.
        if os.path.exists(os.path.join(ROOT, "src/base")) or target.startswith(("doc/", "examples/")):
            check(os.path.exists(path), "README.md: there is no %s" % target)


@test("the reference's exit statuses are those of the help")
def _():
    with open(REFERENCE, encoding="utf-8") as file:
        section = file.read().split("## Exit status")[1].split("\n## ")[0]
    told = subprocess.run([ATOLL, "help", "run"], stdout=subprocess.PIPE, text=True, check=True).stdout
    told = told.split("Exit status:")[1].split("\n\n")[0]
    wanted = set(re.findall(r"^  (\d{3}|128\+N|N) ", told, re.M))
    shown = set()
    for row in re.findall(r"^\| ([^|]+) \|", section, re.M):
        shown.update(word.strip() for word in row.split(","))
    same(shown - {"status"}, wanted, "statuses in doc/reference.md")


@test("the reference's default limits are those of the plan")
def _():
    with open(REFERENCE, encoding="utf-8") as file:
        row = re.search(r"^\| limits \| (.*) \|$", file.read(), re.M)[1].replace(",", "")
    with Place(repository=False) as place:
        plan = json.loads(atoll(place, "run", "--plan", "--json", "--", "true").out)
    limits = {c["clause"]: c["subject"] for c in plan["clauses"] if c["clause"].startswith("limits.")}
    check(len(limits) >= 9, "only %d limits in the plan" % len(limits))
    for clause, value in limits.items():
        check(value in ("unlimited", "none") or re.search(r"(^| )%s\b" % re.escape(value), row), "%s is %s" % (clause, value))


@test("the promises name tests that exist")
def _():
    page = os.path.join(ROOT, "doc", "promises.md")
    if not os.path.exists(page):
        skip("doc/promises.md in this tree")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    names = []
    for kind in ("security", "functional"):
        where = os.path.join(ROOT, "test", kind)
        for name in os.listdir(where):
            if name.startswith("test_") and name.endswith(".py"):
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    names += re.findall(r'^@test\("(\S+)', file.read(), re.M)
    for told in sorted(set(re.findall(r"\b(?:FS-[WR]X?|KS-|IPC-|POL-X?|TH-|PR-)\d+\b", text))):
        check(told in names, "doc/promises.md: no test is called %s" % told)
    for told in re.findall(r"`(test/\w+/test_\w+\.py)`", text):
        check(os.path.exists(os.path.join(ROOT, told)), "doc/promises.md: there is no %s" % told)


main()
