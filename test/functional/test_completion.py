#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: user only
# check: not sanitized
"""
The completions of bash, zsh and fish, each asked in that shell what it proposes for a line

bash and fish can be asked directly; zsh proposes only at a terminal, so it gets one, with TAB typed into it.
"""

import os
import pty
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
FOLDER = os.path.join(BUILD, "doc", "completion")
ENVIRONMENT = {"PATH": HOST_PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", "TERM": "dumb"}


def ask_bash(line, directory):
    """bash splits a line at "=", too."""
    words = [word for part in line.split(" ") for word in re.split(r"(=)", part) if word or not part]
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _atoll; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", script, "bash", os.path.join(FOLDER, "atoll"), *words],
                          cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    same((done.returncode, done.stderr), (0, ""), "bash")
    return set(done.stdout.split())


def ask_fish(line, directory):
    with tempfile.TemporaryDirectory() as home:
        script = f"source {FOLDER}/atoll.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], cwd=directory, env=dict(ENVIRONMENT, HOME=home), capture_output=True,
                              text=True, timeout=60)
    same((done.returncode, done.stderr), (0, ""), "fish")
    # WORD TAB DESCRIPTION; behind "--name=" fish repeats that.
    return {found.split("\t")[0].split("=")[-1] for found in done.stdout.splitlines()}


def ask_zsh(line, directory):
    """What zsh lists below the line; the echo of the line itself is left out."""
    with tempfile.TemporaryDirectory() as home:
        write(os.path.join(home, ".zshrc"), f"fpath=({FOLDER} $fpath); autoload -U compinit; compinit -u -D; LISTMAX=0; setopt no_list_beep\n"
              "zstyle ':completion:*' verbose no; zstyle ':completion:*' list-prompt ''; unset zle_bracketed_paste\n"
              "stty columns 400 rows 2000; PROMPT='READY> '\n")
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(directory)
            os.execvpe("zsh", ["zsh", "-d", "-i"], dict(ENVIRONMENT, HOME=home, ZDOTDIR=home))
        try:
            hear(terminal, lambda text: "READY> " in text)
            os.write(terminal, line.encode() + b"\x04")  # ^D: list, and insert nothing
            # The line once more behind the list.
            said = hear(terminal, lambda text: text.count(line) >= 2 and text.rstrip("\x08 ").endswith(line.rstrip()), seconds=15)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(terminal)
    return set(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", said).replace(line, " ").split())


def hear(terminal, is_enough, seconds=30):
    said = ""
    deadline = time.monotonic() + seconds * SLOW
    while not is_enough(said) and time.monotonic() < deadline:
        ready = selectors.DefaultSelector()
        ready.register(terminal, selectors.EVENT_READ)
        if ready.select(0.5):
            said += os.read(terminal, 65536).decode("utf-8", "replace")
        ready.close()
    return said


def ask_all(ask):
    """The same questions for every shell."""
    with tempfile.TemporaryDirectory(prefix="atoll-test-completion-") as directory:
        for name in ("alpha.yaml", "beta.yaml"):
            write(os.path.join(directory, name), "")

        def has(line, wanted, unwanted=()):
            found = ask(line, directory)
            check(set(wanted) <= found, f"'{line}': {sorted(set(wanted) - found)} are not proposed: {sorted(found)[:40]}")
            check(not set(unwanted) & found, f"'{line}': {sorted(set(unwanted) & found)} are proposed")

        has("atoll ", ["run", "create", "diff", "help"], ["alpha.yaml"])
        has("atoll ex", ["exec", "export"], ["run"])
        has("atoll run --me", ["--memory"], ["--read"])
        has("atoll run --", ["--read", "--memory", "--direct"], ["--force"])
        has("atoll rm --", ["--force"], ["--memory"])
        has("atoll run --mode ", ["layer", "direct", "read-only"], ["alpha.yaml"])
        has("atoll run --mode=", ["layer", "direct", "read-only"], ["alpha.yaml"])
        has("atoll export --format ", ["patch", "tar", "oci"], ["alpha.yaml"])
        has("atoll run -f ", ["alpha.yaml", "beta.yaml"], ["layer"])
        has("atoll run -- bas", ["bash"], ["--memory"])
        has("atoll run --memory 1G -- cat al", ["alpha.yaml"], ["--memory", "beta.yaml"])
        has("atoll --host http://x ls --", ["--all", "--json"], ["--memory"])
        has("atoll help ", ["run", "doctor"], ["alpha.yaml"])
        has("atoll trust ", ["alpha.yaml"], ["run"])
        # A word behind "--" is not taken for the command.
        has("atoll run -- git diff --", [], ["--memory", "--direct"])


@test("bash proposes commands, options, words and files")
def _():
    need("bash")
    ask_all(ask_bash)


@test("zsh proposes commands, options, words and files")
def _():
    need("zsh")
    ask_all(ask_zsh)


@test("fish proposes commands, options, words and files")
def _():
    need("fish")
    ask_all(ask_fish)


@test("every command and every option of the tables is proposed")
def _():
    need("bash")
    table = subprocess.run([ATOLL, "help", "--table"], check=True, capture_output=True, text=True).stdout.splitlines()
    options = {}
    for line in table:
        kind, name, *_rest = line.split("\t")
        if kind == "command":
            options[name] = set()
            last = options[name]
        else:
            last.add("--" + name)
    check(len(options) > 20 and len(options["run"]) > 30, f"tables: {len(options)} commands")
    with tempfile.TemporaryDirectory() as directory:
        check(set(options) <= ask_bash("atoll ", directory), "commands")
        for command, wanted in options.items():
            same(wanted - ask_bash(f"atoll {command} --", directory), set(), command)


main()
