# SPDX-License-Identifier: Apache-2.0
"""
A volume of the daemon is guarded like every writable root: the races of test_n_guard.py, in a sandbox of a tenant
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: F401,F403
from truncating import K_OPEN, K_OPENAT2, TRUNCATE


def data_of(daemon, volume):
    for place, _, _ in os.walk(daemon.state):
        if os.path.basename(place) == volume["volumeID"]:
            return os.path.join(place, "data")
    raise Failed("where is the volume?")


def compile_into(place, name):
    need("gcc")
    write(name + ".c", TRUNCATE)
    done = subprocess.run(["gcc", "-O2", "-w", "-D_GNU_SOURCE", "-pthread", "-o", os.path.join(place, "truncate"), name + ".c"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.unlink(name + ".c")
    check(done.returncode == 0, "cannot compile: %s" % done.stdout)


@test("GUARD-13 in a volume, no race truncates what is protected")
def _():
    with Daemon() as daemon:
        status, volume, _ = daemon.call("POST", "/volumes", {"name": "raced"})
        same(status, 201, "create a volume: %s" % volume)
        data = data_of(daemon, volume)
        compile_into(data, os.path.join(daemon.place, "truncate"))
        names = ["d%d/.envrc" % i for i in range(3)]
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(data, name)))
            write(os.path.join(data, name), "kept\n", 0o755)
        status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "raced", "path": "/mnt/data"}]})
        same(status, 201, "create a sandbox: %s" % box)
        for user in ("user", "root"):
            for call, k in (("openat2", K_OPENAT2), ("open", K_OPEN)):
                calls = os.environ.get("ATOLL_RACE_CALLS") or str(int(100 * k / 6 / 2) + 1)
                got = daemon.run(box, "/mnt/data/truncate %s %s %s" % (call, calls, " ".join("/mnt/data/" + name for name in names)), user=user)
                print("# %s, %s: %s" % (user, call, got.out.decode().strip()))
                check(b"emptied" in got.out, "the race did not run: %s %s" % (got.out, got.err))
                for name in names:
                    check(os.path.getsize(os.path.join(data, name)), "emptied by a race as %s (%s): %s" % (user, call, name))
                daemon.run(box, "rm -rf /dev/shm/race /tmp/Xa /tmp/Xb /tmp/good", user=user)
        daemon.kill(box)


main()
