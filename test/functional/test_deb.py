#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
"""
The Debian package (tools/deb): installed into a throw-away root, used from there, removed

The root is this machine's file system beneath an empty layer in memory, seen only by the test's processes: dpkg installs
with this machine's list of packages, so a dependency that is wrong fails, and nothing of it arrives on the machine. tools/check makes
the package; `make deb` does it for a run by hand.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
ENVIRONMENT = {"PATH": HOST_PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}

# $1: the directory for the layer; $2: the package, seen as /tmp/atoll.deb. In a mount namespace of its own.
ROOT_SCRIPT = r"""
set -eu
mount -t tmpfs -o mode=755 throw-away "$1"
mkdir "$1/upper" "$1/work" "$1/root"
if ! mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" throw-away "$1/root"; then
    echo "NO OVERLAY"
    exit 0
fi
cd "$1/root"
mount --bind /proc proc
mount --rbind /sys sys
mount --rbind /dev dev
for name in tmp run root var/tmp; do mount -t tmpfs -o mode=1777 throw-away "$name"; done
cp "$2" tmp/atoll.deb
# Not chroot: a process in one may not make user namespaces.
mkdir -p mnt/old
pivot_root . mnt/old
umount -l /mnt/old
cd /
exec /bin/sh -eu -c "$3"
"""

USE_SCRIPT = r"""
step() { echo "== $1"; }
if dpkg-query -W atoll >/dev/null 2>&1; then dpkg -r atoll >/dev/null; fi
step install
dpkg --no-triggers -i /tmp/atoll.deb
step verify
dpkg -V atoll
step files
dpkg -L atoll
step run
mkdir /tmp/work
cd /tmp/work
/usr/bin/atoll run --quiet -- sh -c 'echo from inside >made'
/usr/bin/atoll diff --name-only
step log
/usr/bin/atoll log --json
step doctor
/usr/bin/atoll doctor
step libraries
for program in /usr/bin/atoll /usr/libexec/atoll/*; do ldd "$program" 2>&1 | grep 'not found' && exit 1; done
step remove
dpkg --no-triggers -r atoll
test ! -e /usr/bin/atoll
test ! -e /usr/libexec/atoll
step end
"""


def package():
    found = glob.glob(os.path.join(BUILD, "atoll_*.deb"))
    if not found:
        skip("a package; make deb makes one")
    return found[0]


def field(name):
    return subprocess.run(["dpkg-deb", "--field", package(), name], check=True, capture_output=True, text=True).stdout.strip()


def unpack(directory):
    subprocess.run(["dpkg-deb", "-x", package(), directory], check=True, env=ENVIRONMENT, timeout=60)


@test("the package is installed into a throw-away root, runs a command there, and is removed without a trace")
def _():
    need_root()
    need("dpkg", "unshare", "pivot_root")
    with tempfile.TemporaryDirectory(prefix="atoll-test-deb-", dir="/var/tmp") as place:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", ROOT_SCRIPT, "sh", place, package(), USE_SCRIPT],
                              env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    if "NO OVERLAY" in done.stdout:
        skip("an overlay over this machine's root")
    same(done.returncode, 0, done.stdout[-3000:])
    parts = dict(part.partition("\n")[::2] for part in ("\n" + done.stdout).split("\n== ")[1:])
    same(parts["verify"].strip(), "", "dpkg -V")
    same(parts["run"].strip(), "made", "what the run has changed")
    check("The default contract holds on this host" in parts["doctor"], parts["doctor"])
    kinds = [json.loads(line)["kind"] for line in parts["log"].splitlines()]
    check("exec" in kinds, f"atoll log, which needs atoll-audit: {kinds}")
    check("end" in parts, "all steps")
    for path in ("/usr/libexec/atoll/atoll-daemon", "/usr/libexec/atoll/kernel.py", "/usr/share/man/man1/atoll-run.1.gz",
                 "/usr/share/man/man5/atoll-job.5.gz", "/usr/share/bash-completion/completions/atoll",
                 "/usr/share/zsh/vendor-completions/_atoll", "/usr/share/fish/vendor_completions.d/atoll.fish",
                 "/usr/lib/systemd/system/atoll.service", "/usr/lib/systemd/system/atoll.socket", "/usr/share/doc/atoll/copyright"):
        check(path in parts["files"].splitlines(), f"{path} is not in the package")
    check(not os.path.exists("/usr/share/doc/atoll/copyright"), "the package came onto the machine itself")


@test("the package depends on what its programs load, and on nothing else")
def _():
    need("dpkg-deb", "ldd", "dpkg-query")
    stated = {re.split(r"[ (]", part.strip())[0] for part in field("Depends").split(",")}
    with tempfile.TemporaryDirectory(prefix="atoll-test-deb-") as place:
        unpack(place)
        loaded = set()
        for path in [*glob.glob(f"{place}/usr/bin/*"), *glob.glob(f"{place}/usr/libexec/atoll/*")]:
            said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
            wanted = re.findall(r"NEEDED.*\[(.*)\]", said)
            said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout if wanted else ""
            for name in wanted:
                library = re.search(rf"^\s*{re.escape(name)} => (\S+)", said, re.M)
                if library:
                    loaded.add(os.path.realpath(library[1]))
    check(len(loaded) > 5, f"libraries: {loaded}")
    owners = set()
    for library in loaded:
        # The list of files may name a library by the path before /lib became a link.
        for path in (library, library.removeprefix("/usr")):
            said = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
            if said.returncode == 0:
                owners.add(said.stdout.split(":")[0])
    same(stated, owners, "Depends")


@test("unpacked anywhere, the program finds its helper programs")
def _():
    with Place() as place:
        directory = os.path.join(place.tmp, "unpacked")
        os.mkdir(directory)
        os.chmod(place.tmp, 0o755)
        unpack(directory)
        check(b"\nExecStart=/usr/bin/atoll serve " in read(os.path.join(directory, "usr/lib/systemd/system/atoll.service")), "the unit's program")
        program = os.path.join(directory, "usr/bin/atoll")
        environment = caller_environment(place)
        done = subprocess.run([program, "run", "--quiet", "--", "/bin/sh", "-c", "echo inside"], cwd=place.ws, env=environment, capture_output=True, text=True, timeout=120)
        same((done.returncode, done.stdout), (0, "inside\n"), done.stderr)
        done = subprocess.run([program, "log", "--json"], cwd=place.ws, env=environment, capture_output=True, text=True, timeout=120)
        same(done.returncode, 0, done.stderr)
        check("exec" in [json.loads(line)["kind"] for line in done.stdout.splitlines()], done.stdout[:300])


main()
