#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
"""
The Windows programs under Wine

Wine enforces nothing that the sandbox needs and claims success for most of it. So atoll.exe must refuse there, by the name of the
check, and no switch or variable may change that. The modules for processes, pipes, jobs and files do run: atoll-modules.exe tests
them. The lists of skips, of failed checks and of passes that rest on Wine's stubs are exact: a list that grows or shrinks fails.
A pass here says nothing about containment on Windows.
"""
# check: timeout 240
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import atexit  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import tempfile  # noqa: E402

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
EXE, MODULES = os.path.join(BUILD, "atoll.exe"), os.path.join(BUILD, "atoll-modules.exe")
STUB = re.compile(r"stub|not (yet )?implemented|unsupported", re.I)

SKIPPED = {"token.restricting", "token.write-restricted", "token.privileges", "token.integrity", "job.memory", "job.processes",
           "job.user-interface", "desktop.list", "list.read-back", "label.read-back", "canary.outside"}
# Passes that rest on a probe in which Wine used a stub: they do not count.
TAINTED = {"the token's administrators group only denies", "the token's default list is kept", "the canary child runs",
           "the canary child writes inside"}
# What `doctor` finds broken.
BROKEN = SKIPPED | {"caller.elevated", "job.kill-on-close", "job.cpu-time", "canary.strong-writes"}
ACCEPTED = ["--accept-weaker", "read", "--accept-weaker", "network", "--accept-weaker", "protect"]

_wine = {}


def wine_environment(home, debug="-all"):
    return {"PATH": "/usr/bin:/bin", "HOME": home, "WINEPREFIX": os.path.join(home, "prefix"), "WINEARCH": "win64", "WINEDEBUG": debug,
            "WINEDLLOVERRIDES": "mscoree,mshtml=", "LANG": "C.UTF-8"}


def prefix():
    """One prefix for the file; its server ends with it."""
    once(as_root=False)
    if not os.path.exists(EXE):
        skip("atoll.exe: gcc-mingw-w64-x86-64-win32 is not installed")
    if not shutil.which("wine", path="/usr/bin:/bin"):
        skip("wine")
    if not _wine:
        home = tempfile.mkdtemp(prefix="wine-")
        _wine["home"] = home
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        environment = wine_environment(home)
        subprocess.run(["wineboot", "-i"], env=environment, capture_output=True, timeout=120, check=True)
        subprocess.run(["wine", "winecfg", "-v", "win10"], env=environment, capture_output=True, timeout=60, check=True)
        atexit.register(subprocess.run, ["wineserver", "-k"], env=environment, capture_output=True)
        os.mkdir(os.path.join(home, "work"))
    return _wine["home"]


def wine(program, *args, debug="-all", env=None, merged=False):
    home = prefix()
    done = subprocess.run(["wine", program, *args], env={**wine_environment(home, debug), **(env or {})}, cwd=os.path.join(home, "work"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                          timeout=100)
    done.stdout = done.stdout.decode(errors="replace").replace("\r", "")
    done.stderr = (done.stderr or b"").decode(errors="replace").replace("\r", "")
    return done


def work(*names):
    return os.path.join(prefix(), "work", *names)


@test("modules for processes, pipes, jobs and files work, and the skips are exactly the known ones")
def _():
    done = wine(MODULES, debug="fixme+all", merged=True)
    lines = done.stdout.splitlines()
    start = lines.index("1..29")
    is_probe_tainted = any(STUB.search(line) for line in lines[:start])
    skipped, tainted, passed, stubs = set(), set(), 0, False
    for line in lines[start + 1:]:
        check(not line.startswith("not ok"), line)
        found = re.match(r"ok \d+ - (.*?)( # SKIP (\S+) .*)?$", line)
        if not found:
            stubs = stubs or bool(STUB.search(line))
            continue
        is_promise = found[1].startswith(("the token", "the canary", "the job limits", "the desktop"))
        if found[3]:
            skipped.add(found[3])
        elif stubs or is_promise and is_probe_tainted:
            tainted.add(found[1])
        else:
            passed += 1
        stubs = False
    same(skipped, SKIPPED, "skips")
    same(tainted, TAINTED, "passes that rest on stubs")
    same(passed, 14, "passes")


@test("doctor names every promise that Wine does not keep, and leaves nothing behind")
def _():
    done = wine(EXE, "doctor", "--json")
    same(done.returncode, 78, done.stdout + done.stderr)
    report = json.loads(done.stdout)
    same({probe["name"] for probe in report["checks"] if not probe["holds"]}, BROKEN, "broken promises")
    text = wine(EXE, "self-test")
    same(text.returncode, 78, text.stdout)
    among("1..24\n", text.stdout, "TAP")
    left = [name for top, names, files in os.walk(os.path.join(prefix(), "prefix/drive_c/users")) for name in names + files
            if name.startswith("probe-")]
    same(left, [], "probes left behind")


def contents():
    """Without modes: Wine makes modes of lists, and not the same ones back."""
    return {name: entry[1:] for name, entry in snapshot(work()).items()}


@test("run refuses by the name of the check, starts nothing and changes nothing")
def _():
    write(work("file"), "before\n")
    os.makedirs(work(".git"), exist_ok=True)
    before = contents()
    command = ["cmd.exe", "/c", "echo x> ran"]
    done = wine(EXE, "run", "--direct", *ACCEPTED, "--", *command)
    same(done.returncode, 78, done.stderr)
    among("list.read-back", done.stderr, "the check")
    done = wine(EXE, "run", "--mode", "read-only", *ACCEPTED, "--json", "--", *command)
    same(done.returncode, 78, done.stderr)
    same(json.loads(done.stderr.splitlines()[-1])["check"], "list.read-back", "the check")
    check(not os.path.exists(work("ran")), "the command ran")
    same(contents(), before, "the workspace")


@test("run refuses what Windows cannot keep before anything is tried")
def _():
    done = wine(EXE, "run", "--direct", "--", "cmd.exe")
    same(done.returncode, 77, done.stderr)
    among("--accept-weaker read", done.stderr, "the clause")
    done = wine(EXE, "run", "--direct", "--accept-weaker", "read", "--", "cmd.exe")
    same(done.returncode, 77, done.stderr)
    among("atoll setup", done.stderr, "the clause")
    done = wine(EXE, "run", *ACCEPTED, "--", "cmd.exe")
    among("mode layer is not available", done.stderr, "the default mode")


@test("the plan has the keys of the plan on Linux")
def _():
    done = wine(EXE, "run", "--direct", "--plan", "--json", *ACCEPTED, "--", "cmd.exe", "/c", "dir")
    same(done.returncode, 0, done.stderr)
    plan = json.loads(done.stdout)
    check(plan["enforceable"], "enforceable")
    same(set(plan["clauses"][0]), {"clause", "subject", "strength", "mechanism", "note"}, "keys of a clause")
    same({line["strength"] for line in plan["clauses"]}, {"enforced", "weaker", "note"}, "strengths")
    with Place() as place:
        here = json.loads(atoll(place, "run", "--plan", "--json", "--", "true").out)
    check(set(plan) <= set(here), f"keys {set(plan) - set(here)}")
    check(set(plan["clauses"][0]) <= set(here["clauses"][0]), "keys of a clause")


@test("no switch, variable or string in the program skips attestation")
def _():
    for flag in ("--no-attest", "--skip-attestation", "--force", "--unsafe", "--no-canary", "--trust-platform", "--wine", "--unsandboxed"):
        done = wine(EXE, "run", "--direct", *ACCEPTED, flag, "--", "cmd.exe", "/c", "exit", "0")
        same(done.returncode, 125, f"{flag}: {done.stderr}")
    variables = {name: "1" for name in ("ATOLL_NO_ATTEST", "ATOLL_SKIP", "ATOLL_FORCE", "ATOLL_UNSAFE", "ATOLL_DEBUG", "ATOLL_TEST")}
    done = wine(EXE, "run", "--direct", *ACCEPTED, "--", "cmd.exe", "/c", "exit", "0", env=variables)
    same(done.returncode, 78, done.stderr)
    with open(EXE, "rb") as file:
        image = file.read()
    # Variables that the program reads: wide strings in capitals.
    wide = {found.decode("utf-16le") for found in re.findall(rb"(?:[A-Z_]\0){6,}", image)}
    same(wide & {name for name in wide if name.isupper() and "ATOLL" in name}, set(), "variables of atoll")
    flags = set(re.findall(rb"(?<![\w-])--[a-z][a-z-]+(?=\0)", image))
    same({flag.decode() for flag in flags},
         {"--plan", "--json", "--direct", "--repair", "--uninstall", "--read", "--write", "--hide", "--protect", "--workspace", "--mode",
          "--network", "--allow", "--env", "--accept-weaker", "--timeout", "--cpu-time", "--cpus", "--memory", "--pids", "--disk", "--files",
          "--open-files", "--output", "--grace"}, "options in the program")


main()
