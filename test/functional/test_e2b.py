#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 44
# check: sanitized if long
"""
E2B's own packages, as they are in the registry, against the daemon

What is tried is in test/e2b/*.mjs; each script has its own daemon, and each of its tests a line in what it prints.
"""

import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from packages import npm_packages  # noqa: E402
from serving import Daemon  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2b")
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(SOURCE)), "examples")
SECONDS = 120


def script(name, says="ok ", count=3, **options):
    need_layers()
    packages = npm_packages(SOURCE)
    if os.path.exists(os.path.join(EXAMPLES, name)):
        shutil.copy(os.path.join(EXAMPLES, name), packages)
    try:
        with Daemon(**options) as daemon:
            environment = {"PATH": HOST_PATH, "HOME": packages, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url,
                           "E2B_API_KEY": daemon.key, "E2B_VOLUME_API_URL": daemon.url}
            try:
                got = subprocess.run(["node", name], cwd=packages, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, timeout=SECONDS * SLOW)
            except subprocess.TimeoutExpired as late:
                raise Failed("%s is not done after %d seconds; it said:\n%s" % (name, SECONDS * SLOW, (late.stdout or b"").decode()[-2000:]))
            check(daemon.process.poll() is None, "the daemon has ended: " + daemon.stderr()[-2000:])
            check(got.returncode == 0 and "not ok" not in got.stdout, got.stdout[-6000:] + daemon.stderr()[-1000:])
            check(got.stdout.count(says) >= count, "nothing was tried: " + got.stdout)
    finally:
        shutil.rmtree(packages, ignore_errors=True)


@test("the life of sandboxes: create, list, time-outs, pause, fork, snapshots, kill")
def _():
    script("life.mjs")


@test("files: write, read, list, move, watch, signed URLs")
def _():
    script("files.mjs")


@test("commands and terminals")
def _():
    script("commands.mjs")


@test("what is refused, by the classes that programs catch; network rules")
def _():
    script("errors.mjs")


@test("volumes, and sandboxes that share one")
def _():
    script("volumes.mjs")


@test("the example")
def _():
    script("e2b-agent.mjs", says="[2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]\nexit code 0", count=1)


@test("the lock file names no host")
def _():
    same([line for line in open(SOURCE + "/package-lock.json") if "resolved" in line or "http" in line], [], "hosts in the lock file")


main()
