#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: user only
# check: not sanitized
"""
The tools of a developer: in tools/lint-structure, tools/lint-pages and tools/pre-commit every rule fails on what breaks it, and the list of
exceptions can only shrink; a test file runs alone

Each test writes a small tree with a copy of the tools, which read the tree that they lie in.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TOOL = os.path.join(ROOT, "tools", "lint-structure")
CLEAN = {"src/base/str.h": "int str_length(const char *text);\n", "src/base/str.c": '#include "base/str.h"\n\nint str_length(const char *text)\n{\n\treturn *text;\n}\n'}


class Tree:
    def __init__(self, files):
        self.files = dict(CLEAN, **files)

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory(prefix="atoll-test-lint-")
        for path, text in self.files.items():
            self.write(path, text)
        os.makedirs(os.path.join(self.place.name, "tools"))
        shutil.copy(TOOL, os.path.join(self.place.name, "tools"))
        return self

    def __exit__(self, *_):
        self.place.cleanup()

    def write(self, path, text):
        whole = os.path.join(self.place.name, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w") as file:
            file.write(text)

    def lint(self, *arguments):
        done = subprocess.run([PYTHON, os.path.join(self.place.name, "tools", "lint-structure"), *arguments], capture_output=True, text=True, timeout=60)
        broken = [line[len("not ok "):] for line in done.stdout.splitlines() if line.startswith("not ok ")]
        check(done.returncode in (0, 1), f"status {done.returncode}: {done.stderr}")
        same(done.returncode, 1 if broken else 0, "status")
        return broken, done.stdout

    def list(self):
        with open(os.path.join(self.place.name, "tools", "lint-structure.txt")) as file:
            return [line for line in file.read().splitlines() if not line.startswith("#")]


def breaks(rule, files, message):
    """The files break this rule and no other; listed, they pass; and once they are repaired, the list fails until it is shrunk."""
    with Tree(files) as tree:
        broken, said = tree.lint()
        same(broken, [rule], said)
        check(message in said, f"'{message}' is not in {said}")
        same(tree.lint("--shrink")[0], [rule], "--shrink adds nothing")
        same(tree.lint("--adopt")[0], [], "listed")
        same(len(tree.list()), 1, "one line")
        same(tree.lint()[0], [], "listed")
        for path in files:
            os.unlink(os.path.join(tree.place.name, path))
        for path, text in CLEAN.items():
            tree.write(path, text)
        broken, said = tree.lint()
        same(broken, [rule], "a line that is not needed any more")
        check("not needed any more" in said, said)
        same(tree.lint("--shrink")[0], [], "shrunk")
        same(tree.list(), [], "an empty list")


@test("clean code passes every rule")
def _():
    with Tree({}) as tree:
        same(tree.lint()[0], [], "clean")


@test("an include against the direction fails")
def _():
    breaks("direction", {"src/base/up.c": '#include "spec/spec.h"\n', "src/spec/spec.h": "struct spec;\n"}, "base may not use spec")


@test("a component that the tool does not know fails")
def _():
    breaks("direction", {"src/unheard/of.c": "int x;\n"}, "does not know the component 'unheard'")


@test("another component's header that is not named after it fails")
def _():
    breaks("header", {"src/layer/apply.c": '#include "spec/names.h"\n', "src/spec/names.h": "struct names;\n"}, 'spec is used through "spec/spec.h"')


@test("a symbol of a component that may not be used fails, also without an include; a public one passes")
def _():
    need("cc", "nm")
    files = {"src/layer/a.c": "extern int job_number;\nint *layer_use(void)\n{\n\treturn &job_number;\n}\n",
             "src/job/b.c": "int job_number;\nint atoll_number;\n",
             "src/audit/c.c": "extern int atoll_number;\nint *audit_use(void)\n{\n\treturn &atoll_number;\n}\n"}
    with Tree(files) as tree:
        commands = []
        for path in files:
            output = os.path.basename(path) + ".o"
            subprocess.run(["cc", "-c", path, "-o", output], cwd=tree.place.name, check=True)
            commands.append({"directory": tree.place.name, "file": path, "output": output})
        tree.write("compile_commands.json", json.dumps(commands))
        broken, said = tree.lint("--link", tree.place.name)
        same(broken, ["link"], said)
        check("src/layer/a.c: layer may not use job_number of job" in said and "atoll_number" not in said, said)
        tree.lint("--adopt", "--link", tree.place.name)
        same(tree.list(), ["link layer job 1 # older than the rule"], "the list")
        same(tree.lint("--link", tree.place.name)[0], [], "listed")
        same(tree.lint("--shrink")[0], [], "without a build the line stays")
        same(len(tree.list()), 1, "the list")


@test("two files of one name fail")
def _():
    breaks("duplicate", {"src/spec/str.c": "int x;\n"}, "str.c: 2 files")


@test("a function declared in a header that is not named after its file fails")
def _():
    breaks("declared", {"src/layer/apply.c": "int apply_all(void)\n{\n\treturn 0;\n}\n", "src/layer/inner.h": "int apply_all(void);\n"},
           "src/layer/inner.h declares apply_all")


@test("a function declared in the header of its component or in a public one passes")
def _():
    with Tree({"src/layer/apply.c": "int apply_all(void)\n{\n\treturn 0;\n}\n\nint atoll_apply(void)\n{\n\treturn 0;\n}\n",
               "src/layer/layer.h": "int apply_all(void);\n", "include/atoll/atoll.h": "int atoll_apply(void);\n"}) as tree:
        same(tree.lint()[0], [], "allowed")


@test("a file over 600 lines fails, and one of 600 passes")
def _():
    breaks("file", {"src/spec/long.c": "int x;\n" * 601}, "601 lines")
    with Tree({"src/spec/long.c": "int x;\n" * 600}) as tree:
        same(tree.lint()[0], [], "600 lines")


@test("a function over 70 lines fails, and one of 70 passes")
def _():
    for n, broken in ((71, True), (70, False)):
        text = "static void act(void)\n{\n" + "\tact();\n" * n + "}\n"
        if broken:
            breaks("function", {"src/spec/act.c": text}, "act has 71 lines")
        else:
            with Tree({"src/spec/act.c": text}) as tree:
                same(tree.lint()[0], [], "70 lines")


@test("a function with more than six parameters fails; pointers to functions and comments do not count")
def _():
    breaks("parameters", {"src/spec/act.c": "static void act(int a, int b, int c, int d, int e,\n\t\tint f, int g)\n{\n}\n"}, "act has 7 parameters")
    with Tree({"src/spec/act.c": "static void act(int a, int (*b)(int, int, int), int c, int d, /* 1, 2, 3 */ int e,\n\t\tint f)\n{\n}\n"}) as tree:
        same(tree.lint()[0], [], "six parameters")


@test("a word in an identifier fails, but not in a comment, a text, a longer word or the name of a test")
def _():
    breaks("word", {"src/spec/act.c": "static void take_all(void)\n{\n}\n"}, "1 identifiers contain 'take', such as take_all")
    with Tree({"src/spec/act.c": '/* take */\nstatic const char *mistaken = "take_it";\nTEST(one_may_take_all)\n{\n}\n'}) as tree:
        same(tree.lint()[0], [], "no identifier")


@test("a listed number may not grow, and a smaller one has to be written down")
def _():
    two = "static void take_a(void)\n{\n}\n\nstatic void take_b(void)\n{\n}\n"
    with Tree({"src/spec/act.c": two}) as tree:
        tree.lint("--adopt")
        same(tree.list(), ["word take 2 # older than the rule"], "the list")
        tree.write("src/spec/act.c", two + "\nstatic void take_c(void)\n{\n}\n")
        broken, said = tree.lint()
        same(broken, ["word"], "a third")
        check("the list allows 2" in said, said)
        tree.lint("--shrink")
        same(tree.list(), ["word take 2 # older than the rule"], "--shrink raises nothing")
        tree.write("src/spec/act.c", "static void take_a(void)\n{\n}\n")
        same(tree.lint()[0], ["word"], "one less")
        same(tree.lint("--shrink")[0], [], "shrunk")
        same(tree.list(), ["word take 1 # older than the rule"], "the list")


@test("a line without a reason is refused")
def _():
    with Tree({}) as tree:
        tree.write("tools/lint-structure.txt", "word take 2\n")
        done = subprocess.run([PYTHON, os.path.join(tree.place.name, "tools", "lint-structure")], capture_output=True, text=True, timeout=60)
        same(done.returncode, 1, "status")
        check("lint-structure.txt:1: not 'RULE KEY NUMBER # REASON'" in done.stderr, done.stderr)


@test("the git hook refuses code that is not in its form, that breaks a rule, or that is added to the list without a reason")
def _():
    need("git")
    need("clang-format")
    good = "static void act(void)\n{\n}\n"
    with Tree({"src/spec/act.c": good, ".clang-format": "{BasedOnStyle: LLVM, IndentWidth: 8, UseTab: Always, BreakBeforeBraces: Linux, AllowShortFunctionsOnASingleLine: None}\n"}) as tree:
        shutil.copy(os.path.join(ROOT, "tools", "pre-commit"), os.path.join(tree.place.name, "tools"))

        def git(*words):
            environment = {"PATH": HOST_PATH, "HOME": tree.place.name, "GIT_CONFIG_NOSYSTEM": "1"}
            done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=tree.place.name, env=environment,
                                  capture_output=True, text=True, timeout=60)
            return done.returncode, done.stderr

        def commit(text, refusal=None):
            tree.write("src/spec/act.c", text)
            git("add", "-A")
            status, said = git("commit", "-q", "-m", "x")
            same(status, 1 if refusal else 0, said)
            check(not refusal or refusal in said, said)

        git("init", "-q")
        tree.lint("--adopt")
        os.symlink("../../tools/pre-commit", os.path.join(tree.place.name, ".git/hooks/pre-commit"))
        commit(good)
        commit(good.replace("void act", "void  act"), "src/spec/act.c is not in its form")
        bad = good.replace("act", "take_it")
        commit(bad, "1 identifiers contain 'take'")
        tree.write("src/spec/act.c", bad)
        tree.lint("--adopt")
        commit(bad, "state the reason")
        tree.write("tools/lint-structure.txt", "word take 1 # named after a call of the kernel\n")
        commit(bad)
        # What counts is what is committed, not what lies in the work tree.
        tree.write("src/spec/act.c", bad + "\n" + good.replace("act", "take_more"))
        same(git("commit", "-q", "--allow-empty", "-m", "x")[0], 0, "a change that is not committed")


@test("a page with a wrong link, a missing file, a wide line or a long paragraph fails, and --fix wraps it")
def _():
    wide = " ".join(["word"] * 21)  # 104 columns
    good = "# One\n\n[two](doc/two.md#a-part-of-it), `tools/lint-pages`, `src/NAME.c`\n\n| %s |\n\n```\n%s\n```\n" % (wide, wide)
    with Tree({"README.md": good, "doc/two.md": "# Two\n\n## A part, of it\n\n- entry\n- entry\n" + "- entry\n" * 4}) as tree:
        shutil.copy(os.path.join(ROOT, "tools", "lint-pages"), os.path.join(tree.place.name, "tools"))

        def lint(*arguments):
            done = subprocess.run([PYTHON, os.path.join(tree.place.name, "tools", "lint-pages"), *arguments], capture_output=True, text=True, timeout=60)
            return done.returncode, done.stdout.splitlines()[:-1]

        same(lint(), (0, []), "good pages")
        for text, said in (("[x](gone.md)", "link: there is no gone.md"), ("[x](doc/two.md#gone)", "link: no heading for doc/two.md#gone"),
                           ("`src/gone.c`", "file: there is no src/gone.c"), ("a\n" * 6, "long: a paragraph of 6 lines, 5 at most")):
            tree.write("README.md", good + "\n" + text + "\n")
            status, lines = lint()
            same((status, len(lines)), (1, 1), text)
            check(lines[0].endswith(said), f"'{said}' is not in {lines[0]}")
        tree.write("README.md", good + "\n- " + wide + "\n")
        status, lines = lint()
        check(status == 1 and "column: more than 100" in lines[0], f"{status} {lines}")
        same(lint("--fix"), (0, []), "wrapped")
        with open(os.path.join(tree.place.name, "README.md")) as file:
            same(file.read(), good + "\n- " + " ".join(["word"] * 19) + "\n  word word\n", "wrapped page; tables and code stay")


@test("one test runs alone with a relative ATOLL, and a word that no test has in its name is an error")
def _():
    directory = os.path.dirname(os.path.dirname(ATOLL))
    environment = dict(os.environ, ATOLL=os.path.relpath(ATOLL, directory))
    for name in ("ATOLL_BUILD", "ATOLL_ROOT"):
        environment.pop(name, None)

    def alone(word):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_cli.py")
        done = subprocess.run([PYTHON, path, word], cwd=directory, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS)
        return done.returncode, done.stdout
    same(alone("atoll alone"), (0, "ok atoll alone shows help with examples, and is no success\n1 passed, 0 failed, 0 skipped\n"), "one test")
    same(alone("no such test"), (2, "# no test has 'no such test' in its name\n"), "a word that matches nothing")


main()
