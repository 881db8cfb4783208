# SPDX-License-Identifier: Apache-2.0
"""
Packages of others' from npm, as a lock file names them: fetched once for a build, and skipped where there is no registry
"""

import atexit
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile

from lib import *  # noqa: F401,F403

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(os.path.abspath(ATOLL))


def npm_packages(source):
    """A directory with the packages beside our own few lines in `source`."""
    need("node", "npm")
    names = sorted(name for name in os.listdir(source) if not name.startswith("node_modules"))
    token = hashlib.sha256(b"".join(open(source + "/" + name, "rb").read() for name in names if name.endswith(".json"))).hexdigest()[:16]
    ready = next((path for path in (where + "/npm-" + token for where in places()) if is_ready(path)), None) or fetch(source, token)
    # What is ours may have changed since; what is theirs has not.
    copy = tempfile.mkdtemp(prefix="atoll-test-npm-")
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    os.chmod(copy, 0o755)
    for name in names:
        shutil.copy(source + "/" + name, copy)
    os.symlink(ready + "/node_modules", copy + "/node_modules")
    return copy


def places():
    """Where they may lie: beside what was built, for everybody; or, for whoever cannot write there, where temporary files are."""
    return BUILD, tempfile.gettempdir()


def is_ready(path):
    """Nobody else's in a directory where everybody can write."""
    return os.path.isdir(path + "/node_modules") and os.lstat(path).st_uid in (os.stat(BUILD).st_uid, os.geteuid())


@functools.lru_cache(None)
def fetch(source, token):
    parent = BUILD if os.access(BUILD, os.W_OK) else tempfile.gettempdir()
    ready = "%s/npm-%s" % (parent, token)
    fresh = tempfile.mkdtemp(prefix="atoll-test-npm-", dir=parent)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source + "/" + name, fresh)
    got = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", fresh + "/cache"], cwd=fresh,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
    if got.returncode != 0:
        shutil.rmtree(fresh)
        if re.search("ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ECONNRESET|E403|E407|network", got.stdout):
            skip("the npm registry cannot be reached")
        raise Failed("npm ci: " + got.stdout[-600:])
    shutil.rmtree(fresh + "/cache", ignore_errors=True)
    os.chmod(fresh, 0o755)
    try:
        os.rename(fresh, ready)
    except OSError:
        if not is_ready(ready):
            return fresh
        shutil.rmtree(fresh)
    return ready


def e2b_script(daemon, name):
    """One of test/e2b/*.mjs against a daemon; all that it tries has to succeed."""
    packages = npm_packages(os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2b"))
    try:
        done = subprocess.run(["node", name], cwd=packages, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120 * SLOW, env={"PATH": HOST_PATH, "HOME": packages, "E2B_API_URL": daemon.url,
                                                                  "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": daemon.key})
    finally:
        shutil.rmtree(packages, ignore_errors=True)
    check(done.returncode == 0 and "not ok" not in done.stdout, done.stdout[-6000:] + daemon.stderr()[-1000:])
    check(done.stdout.count("ok ") > 3, "nothing was tried: " + done.stdout)
