#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What doc/windows.md claims

The matrix of features is made here, of the lists that test_win_wine.py compares with Wine; the page must have exactly that text.

    test_win_docs.py --write     put the matrix into doc/windows.md
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("ATOLL_ROOT") or os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(ROOT, "doc", "windows.md")
MARKS = "<!-- matrix -->\n", "<!-- /matrix -->\n"

# Feature, the test of the model, the checks that Wine must keep for it ("-": runs there without a check; "": not there).
FEATURES = [
    ("write only in the roots", "test-nt-world, test-engine", "token.restricting token.write-restricted list.read-back canary.outside"),
    ("integrity level and labels", "test-nt-token, test-nt-world", "token.integrity label.read-back"),
    ("protected paths", "test-nt-world, test-engine", "list.read-back canary.strong-writes"),
    ("no privileges", "test-nt-token", "token.privileges"),
    ("administrators only deny", "test-nt-token", "tainted"),
    ("default list of new objects", "test-nt-token", "tainted"),
    ("job: memory and processes", "test-engine", "job.memory job.processes"),
    ("job: user interface", "test-engine", "job.user-interface"),
    ("job: all processes end", "test-engine", "-"),
    ("private desktop", "test-engine", "desktop.list"),
    ("canary child", "test-engine", "tainted"),
    ("launch, pipes, handle list, exit status", "test-engine", "-"),
    ("command line, environment block", "test-command-line, test-environment-block", "-"),
    ("ledger, lock, repair", "test-nt-ledger, test-engine", "-"),
    ("job files, plan, clauses", "test-job-text, test-job-tree, test-nt-job", "-"),
    ("accounts, firewall rules, filters", "test-nt-setup-plan", ""),
    ("mode layer, ConPTY, event log, receipts, MXC", "", ""),
]


def wine_sets():
    with open(os.path.join(HERE, "test_win_wine.py")) as file:
        text = file.read()
    broken = re.search(r"^SKIPPED = \{(.*?)\}", text, re.M | re.S)[1] + re.search(r"^BROKEN = SKIPPED \| \{(.*?)\}", text, re.M | re.S)[1]
    return set(re.findall(r'"([^"]+)"', broken))


def matrix():
    broken = wine_sets()
    lines = ["| feature | model | Wine | real Windows |", "|---|---|---|---|"]
    for feature, model, needs in FEATURES:
        failed = [name for name in needs.split() if name in broken]
        if needs == "-":
            wine = "works"
        elif needs == "tainted":
            wine = "rests on stubs: does not count"
        elif failed:
            wine = "refused: " + ", ".join(f"`{name}`" for name in failed)
        else:
            wine = "not there" if not needs else "works"
        lines.append(f"| {feature} | {'tested (' + model + ')' if model else 'not there'} | {wine} | not verified |")
    return "\n".join(lines) + "\n"


def split(text):
    before, rest = text.split(MARKS[0])
    inside, after = rest.split(MARKS[1])
    return before, inside, after


def rewrite():
    with open(PAGE) as file:
        before, _, after = split(file.read())
    with open(PAGE, "w") as file:
        file.write(before + MARKS[0] + matrix() + MARKS[1] + after)


if sys.argv[1:] == ["--write"]:
    rewrite()
    sys.exit(0)

from lib import *  # noqa: E402


@test("the matrix is the one that the tests give")
def _():
    once(as_root=False)
    same(split(read(PAGE).decode())[1], matrix(), "the matrix")


@test("every check that Wine breaks is in the matrix or about the caller")
def _():
    once(as_root=False)
    named = {name for _, _, needs in FEATURES for name in needs.split()}
    same(wine_sets() - named, {"caller.elevated", "job.kill-on-close", "job.cpu-time"}, "checks without a feature")


@test("the page says that Windows was never seen, and nothing else")
def _():
    once(as_root=False)
    text = read(PAGE).decode()
    among("never run on Windows by us", " ".join(text.replace("**", "").split()), "the words")
    check("verified on Windows" not in text and "tested on Windows" not in text, "a claim about Windows")


@test("the lies that no check can see are those of the test of the engine")
def _():
    once(as_root=False)
    source = os.path.join(ROOT, "src", "win", "test-engine.c")
    if not os.path.exists(source):
        skip("the sources of the unit tests")
    listed = re.search(r"unseen\[\] = \{(.*?)\};", read(source).decode(), re.S)[1]
    table = read(PAGE).decode().split("Lies that no check can see")[1]
    same(re.findall(r"^\| `(\w+)` \|", table, re.M), re.findall(r'"(\w+)"', listed), "calls")


main()
