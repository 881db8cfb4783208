# SPDX-License-Identifier: Apache-2.0
"""
Limits and quotas that hold everywhere: files in private places, and all that a sandbox and a tenant keep on the disk
"""

import os
import sqlite3
import sys
import tarfile
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from serving import *  # noqa: E402

MIB = 1 << 20

MAKE = """
import os, sys
made = 0
try:
    for i in range(int(sys.argv[2])):
        os.close(os.open("%s/n%d" % (sys.argv[1], i), os.O_WRONLY | os.O_CREAT, 0o600))
        made += 1
except OSError as error:
    print(error.errno, file=sys.stderr)
print(made)
"""


@test("28 --files holds in private places, to the last one")
def _():
    with Place() as place:
        if BARE:
            skip("a private tmpfs: there is none without user namespaces")
        for n in (1, 100, 3000):
            for where in ("/tmp", "/dev/shm"):
                result = run(place, ["--files", str(n)], [PYTHON, "-c", MAKE, where, str(n + 20000)])
                if "Permission" in result.err:
                    continue
                made = int(result.out.split()[-1])
                check(made <= n, "--files %d: %d were made in %s" % (n, made, where))
                check(made >= n - 1, "--files %d: only %d were made in %s" % (n, made, where))
        # All private places together, also as links and directories.
        result = run(place, ["--files", "100"], inside_py("""
            import itertools
            made = 0
            for i in range(20000):
                for make in (lambda: os.mkdir("/tmp/d%d" % i), lambda: os.symlink("x", "/dev/shm/l%d" % i), lambda: os.mkfifo("/tmp/f%d" % i)):
                    try:
                        make()
                        made += 1
                    except OSError:
                        pass
            print("made", made)
        """))
        made = int(re.search(r"made (\d+)", result.out).group(1))
        check(made <= 100, "%d in all private places" % made)


@test("28 files that others remove meanwhile do not make a run's count wrap")
def _():
    need_layers()
    with Place() as place:
        # A directory that is closed to pid 1 hides how many are in it; then the file system's count stands for it, which others change.
        result = plain(place, [*(["unshare", "-m"] if IS_ROOT else ["unshare", "-Urm"]), "sh", "-ec", """
            mkdir $1/state
            mount -t tmpfs -o size=60m tmpfs $1/state
            export XDG_STATE_HOME=$1/state
            mkdir $1/state/others
            for i in $(seq 300); do : >$1/state/others/$i; done
            cd $1/../ws
            (sleep 1; rm -r $1/state/others) &
            $2 run --mode layer --files 1000 --json -- sh -c 'mkdir shut; chmod 0 shut; i=0; while [ $i -lt 30 ]; do sleep 0.1; i=$((i+1)); done' 2>&1 ||
                echo "status $?"
            """, "sh", place.tmp, ATOLL], confined=False)
        check('"end":"exited"' in result.out, "the run was ended: " + result.out + result.err)
        used = json.loads(result.out.splitlines()[-1])["usage"]["files"]["used"]
        check(used <= 10, "a run that made one directory is said to have made %d" % used)


def disk_of(path):
    """What it takes on the disk, each file once."""
    seen, total = set(), 0
    for where, dirs, files in os.walk(path):
        for name in files + dirs:
            with contextlib.suppress(OSError):
                st = os.lstat(os.path.join(where, name))
                if (st.st_dev, st.st_ino) not in seen:
                    seen.add((st.st_dev, st.st_ino))
                    total += st.st_blocks * 512
    return total


FILL = "dd if=/dev/urandom of=%s bs=1M count=%d 2>/dev/null"


DEEP = """
import os
name = "d" * 250
for i in range(2000):
    os.mkdir(name)
    os.chdir(name)
"""


@test("28 a deep tree costs atoll itself no more memory than the paths that it lists at a time")
def _():
    need_layers()
    with Place() as place:
        def peak(*args):
            """The most memory that atoll or a program that it waited for had, in MiB."""
            process = subprocess.Popen([ATOLL, *args], cwd=place.ws, env=caller_environment(place), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_maxrss >> 10, process.returncode, said
        # The sum of all its paths is 500 MB.
        peaks = {"run": peak("run", "--mode", "layer", "--", PYTHON, "-c", DEEP), "diff": peak("diff")}
        # Before anything is checked: nobody else can remove such a tree.
        peaks["discard"] = peak("discard", *os.listdir(place.home + "/.local/state/atoll/records"))
        for what, (most, status, said) in peaks.items():
            check(most < 400 or IS_SANITIZED, "%s: %d MiB" % (what, most))
            check(status == 0 or (what == "diff" and "longer than" in said), "%s: status %d, %s" % (what, status, said))


@test("14 checkpoints count to a sandbox's disk limit")
def _():
    need_layers()
    with Place() as place:
        name = atoll(place, "create", "--disk", "64M").out.strip()
        try:
            # Something runs on, so that each checkpoint is a copy.
            atoll(place, "exec", name, "--", *inside_sh("sleep 600 >/dev/null 2>&1 & " + FILL % ("data", 25)))
            same(atoll(place, "checkpoint", name).status, 0, "the first checkpoint")
            refused = [atoll(place, "checkpoint", name) for _ in range(3)][-1]
            held = disk_of(place.home + "/.local/state/atoll")
            check(held < 70 * MIB, "a sandbox of 64 MB holds %d MB" % (held / 1e6))
            same(refused.status, POLICY, "a checkpoint beyond the limit: " + refused.err)
            check("limits.disk" in refused.err, refused.err)
        finally:
            atoll(place, "rm", "--force", name)


@test("14 what a sandbox has written counts in its next life as well")
def _():
    need_layers()
    with Place() as place:
        name = atoll(place, "create", "--disk", "64M").out.strip()
        state = place.home + "/.local/state/atoll"
        try:
            statuses = []
            for i in range(4):
                statuses.append(atoll(place, "exec", name, "--", *inside_sh((FILL % ("data%d" % i, 30)) + "; sleep 1")).status)
                # A checkpoint of a sandbox in which nothing runs ends its life.
                atoll(place, "checkpoint", name)
                for pid in holders(state):
                    os.kill(pid, signal.SIGKILL)
                until(lambda: not holders(state))
            held = disk_of(state)
            check(held < 100 * MIB, "a sandbox of 64 MB holds %d MB, statuses %s" % (held / 1e6, statuses))
            check(OVER_LIMIT in statuses, "statuses: %s" % statuses)
            same(statuses[0], 0, "the first step")
        finally:
            atoll(place, "rm", "--force", name)


def holders(state):
    """Of our own sandboxes: processes of atoll that have the store open."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if not os.readlink("/proc/%s/exe" % pid).startswith(os.path.dirname(ATOLL)):
                continue
            for fd in os.listdir("/proc/%s/fd" % pid):
                with contextlib.suppress(OSError):
                    if os.readlink("/proc/%s/fd/%s" % (pid, fd)).startswith(state + "/records/"):
                        found.append(int(pid))
                        break
    return found


SMALL = "base: {disk: 64M, record: steps}\npool: {least: 0, most: 0}\ntenants:\n  small: {disk: 200M}\n  other: {disk: 200M}\n"


@test("14 snapshots and logs count to their tenant, also when the sandbox is gone")
def _():
    need_layers()
    with Daemon(config=SMALL) as daemon:
        small, other = (daemon.serve("key", "new", "--tenant", name)[1].strip() for name in ("small", "other"))
        answers = []
        for i in range(9):
            status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)
            answers.append(status)
            if status != 201:
                break
            daemon.run(box, FILL % ("data", 28))
            status, _, _ = daemon.call("POST", "/sandboxes/%s/snapshots" % box["sandboxID"], {}, key=small)
            answers.append(status)
            daemon.call("DELETE", "/sandboxes/%s" % box["sandboxID"], key=small)
            until(lambda: not daemon.holders())
        time.sleep(3)  # until what has gone is measured
        held = disk_of(daemon.state)
        check(held < 240 * MIB, "a tenant of 200 MB holds %d MB: %s" % (held / 1e6, answers))
        check(answers[-1] in (402, 403, 429, 507), "nothing was refused: %s" % answers)
        # Another tenant has its own.
        status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=other)
        same(status, 201, "another tenant: %s" % box)
        daemon.call("DELETE", "/sandboxes/%s" % box["sandboxID"], key=other)


@test("14 files that are sent for templates count to their tenant")
def _():
    need_layers()
    with Daemon(config=SMALL) as daemon:
        small, other = (daemon.serve("key", "new", "--tenant", name)[1].strip() for name in ("small", "other"))

        def send(key, i, size):
            _, answer, _ = daemon.call("GET", "/templates/walls/files/%064x" % i, key=key)
            place = urllib.parse.urlsplit(answer["url"])
            return daemon.call("PUT", place.path + "?" + place.query, data=bytes(size), key=None)[0]

        answers = [send(small, i, 60 * MIB) for i in range(5)]
        held = disk_of(daemon.state)
        check(held < 240 * MIB, "a tenant of 200 MB holds %d MB: %s" % (held / 1e6, answers))
        check(answers[:2] == [200, 200] and answers[-1] == 507, "answers: %s" % answers)
        time.sleep(4)  # until it is measured
        same(send(small, 9, 100 * MIB), 507, "more, when it was measured")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)[0], 429, "a sandbox beside it")
        same(send(other, 1, 60 * MIB), 200, "another tenant")


@test("14 volumes count to their tenant, whether they are written from outside or from inside")
def _():
    need_layers()
    with Daemon(config=SMALL) as daemon:
        small, other = (daemon.serve("key", "new", "--tenant", name)[1].strip() for name in ("small", "other"))

        def make(key, name):
            status, volume, _ = daemon.call("POST", "/volumes", {"name": name}, key=key)
            same(status, 201, volume)
            return volume

        def send(volume, name, size):
            return daemon.call("PUT", f"/volumecontent/{volume['volumeID']}/file?path={name}", data=bytes(size), key=None,
                               headers={"Authorization": "Bearer " + volume["token"]})[0]

        volume = make(small, "one")
        answers = [send(volume, f"f{i}", 60 * MIB) for i in range(5)]
        held = disk_of(daemon.state)
        check(held < 240 * MIB, "a tenant of 200 MB holds %d MB: %s" % (held / 1e6, answers))
        check(answers[:2] == [201, 201] and answers[-1] == 507, "answers: %s" % answers)
        time.sleep(4)  # until it is measured
        same(send(volume, "more", 100 * MIB), 507, "more, when it was measured")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)[0], 429, "a sandbox beside it")
        same(daemon.call("DELETE", "/volumes/" + volume["volumeID"], key=small)[0], 204, "removed")
        check(until(lambda: daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)[0] == 201),
              "there is no room when it was removed")
        # What cannot be counted counts as too much.
        deep = make(small, "deep")
        os.makedirs(os.path.join(daemon.state, "volumes", deep["volumeID"], "data", *["d"] * 210))
        same(send(deep, "f", 1), 201, "a file, so that it is measured")
        check(until(lambda: send(deep, os.urandom(8).hex(), 1) == 507), "a tree that is too deep counts as nothing")
        same(daemon.call("DELETE", "/volumes/" + deep["volumeID"], key=small)[0], 204, "removed")
        check(until(lambda: daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=small)[0] == 201), "it stays too much")
        # From inside: as much as a sandbox may write, and again by the next one.
        make(other, "two")
        statuses = []
        for i in range(5):
            status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "two", "path": "/data"}]},
                                         key=other)
            statuses.append(status)
            if status != 201:
                break
            daemon.run(box, FILL % (f"/data/f{i}", 56))
            daemon.call("DELETE", "/sandboxes/%s" % box["sandboxID"], key=other)
            time.sleep(4)  # until it is measured
        same((statuses[0], statuses[-1]), (201, 429), "sandboxes that write to a volume: %s" % statuses)


def end_job(daemon, key):
    """A job that has ended, and whose result is written: its id."""
    status, job, _ = daemon.call("POST", "/v1/jobs", {"command": ["true"], "keep": 0}, key=key)
    same(status, 201, job)
    check(until(lambda: daemon.call("GET", "/v1/jobs/" + job["id"], key=key)[1]["state"] == "ended"), "the job does not end")
    check(until(lambda: daemon.call("GET", "/v1/sandboxes/" + job["id"], key=key)[0] == 404), "its sandbox stays")
    return job["id"]


@test("14 one tenant's jobs, however many, do not push out another's results")
def _():
    need_layers()
    with Daemon() as daemon:
        other = daemon.make_key("other")
        theirs = end_job(daemon, other)
        daemon.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "state.db"))) as db:
            mine = db.execute("SELECT id FROM tenants WHERE name = 'default'").fetchone()[0]
        now = int(time.time() * 1000) + 60_000
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "results.db"))) as db:
            db.executemany("INSERT INTO steps(box, number, key, tenant, is_job, start_ms, end_ms, view, sandbox, out, out_size, err, err_size)"
                           " VALUES(?, 1, ?, ?, 1, ?, ?, '{}', '', x'', 0, x'', 0)",
                           [(f"i{i:020}", "atoll.job", mine, now + i, now + i) for i in range(20_010)])
            db.commit()
        daemon.start()
        end_job(daemon, daemon.key)
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "results.db"))) as db:
            counts = dict(db.execute("SELECT tenant = ?, COUNT(*) FROM steps WHERE is_job GROUP BY 1", (mine,)).fetchall())
        check(counts[1] <= 20_001, f"{counts[1]} results of one tenant")
        same(daemon.call("GET", "/v1/jobs/" + theirs, key=other)[0], 200, "the other tenant's result")


@test("14 results of steps count to their tenant's disk")
def _():
    need_layers()
    with Daemon(config=SMALL) as daemon:
        key = daemon.serve("key", "new", "--tenant", "small")[1].strip()
        status, box, _ = daemon.call("POST", "/v1/sandboxes", {}, key=key)
        same(status, 201, box)
        daemon.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "state.db"))) as db:
            mine = db.execute("SELECT id FROM tenants WHERE name = 'small'").fetchone()[0]
        # As many as a sandbox keeps, with all that is kept of each: 125 MiB.
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "results.db"))) as db:
            db.executemany("INSERT INTO steps(box, number, key, tenant, is_job, start_ms, end_ms, view, sandbox, out, out_size, err, err_size)"
                           " VALUES(?, ?, '', ?, 0, 1, 1, '{}', '', ?, 65536, ?, 65536)",
                           [(box["id"], i, mine, bytes(65536), bytes(65536)) for i in range(1, 1001)])
            db.commit()
        daemon.start()
        time.sleep(4)  # until it is measured
        same(daemon.call("POST", "/v1/sandboxes", {}, key=key)[0], 429, "a second sandbox of 64 MB beside 125 MB of results")


def zeros(gib):
    """An archive of a file of zeros, packed: a two-hundredth of its size."""
    block, head = bytes(1 << 20), tarfile.TarInfo("zero")
    head.size = gib << 30
    packer = zlib.compressobj(1, wbits=31)
    return (packer.compress(head.tobuf()) + b"".join(packer.compress(block) for _ in range(gib << 10)) +
            packer.compress(bytes(1024)) + packer.flush())


def build(daemon, name, steps):
    """How the build of a template ended."""
    status, made, _ = daemon.call("POST", "/v3/templates", {"name": name})
    same(status, 202, made)
    place = f"/templates/{made['templateID']}/builds/{made['buildID']}"
    same(daemon.call("POST", "/v2" + place, {"fromTemplate": "base", "steps": steps})[0], 202, "begun")
    check(until(lambda: daemon.call("GET", place + "/status")[1]["status"] in ("ready", "error")), "the build does not end")
    return daemon.call("GET", place + "/status")[1]


@test("14 an archive for a template is unpacked no further than its sandbox has disk, and a killed daemon leaves nothing of it")
def _():
    need_layers()
    with Daemon(config="base: {disk: 64M}\n") as daemon:
        digest = "%064x" % 1
        place = urllib.parse.urlsplit(daemon.call("GET", "/templates/bomb/files/" + digest)[1]["url"])
        same(daemon.call("PUT", place.path + "?" + place.query, data=zeros(1), key=None)[0], 200, "the upload")
        most, end = [0], threading.Event()

        def look():
            while not end.wait(0.01):
                most.append(disk_of(os.path.join(daemon.state, "templates")))
        thread = threading.Thread(target=look)
        thread.start()
        status = build(daemon, "bomb", [{"type": "COPY", "args": [".", "/home/user/"], "filesHash": digest}])
        end.set()
        thread.join()
        same(status["status"], "error", "the build")
        check(max(most) < 128 * MIB, f"{max(most) >> 20} MiB were unpacked")
        check(daemon.state not in json.dumps(status), f"the tenant learns where the daemon keeps things: {status}")
        # What was being sent and unpacked when the daemon was killed.
        daemon.crash()
        left = os.path.join(daemon.state, "templates")
        os.makedirs(os.path.join(left, "t-x.tar-0-0.trial", "deep"))
        for name in ("t-x.tar.y.part", ".atoll-z", "t-x.tar-0-0.trial/deep/f"):
            with open(os.path.join(left, name), "w") as file:
                file.write("x")
        kept = [name for name in os.listdir(left) if name.endswith(".tar")]
        daemon.start()
        check(until(lambda: os.listdir(left) == kept), f"left: {os.listdir(left)}")


@test("14 what a template's sandboxes begin with is bounded, and so is the number of its tags")
def _():
    need_layers()
    with Daemon() as daemon:
        status = build(daemon, "large", [{"type": "ENV", "args": ["A", "x" * 40_000]}])
        same(status["status"], "error", "an environment of 40 kB")
        same(build(daemon, "small", [{"type": "ENV", "args": ["A", "x" * 20_000]}])["status"], "ready", "one of 20 kB")
        same(daemon.call("POST", "/templates/tags", {"target": "small:default", "tags": ["one"]})[0], 201, "a tag")
        daemon.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "state.db"))) as db:
            db.executemany("INSERT INTO snapshots(id, tenant, name, box, made_ms, sandbox, template, shape) "
                           "SELECT ?, tenant, ?, '', made_ms, sandbox, template, shape FROM snapshots WHERE id = 'small'",
                           [(f"small:t{i}", f"small:t{i}") for i in range(10_000)])
            db.commit()
        daemon.start()
        same(daemon.call("POST", "/templates/tags", {"target": "small:default", "tags": ["two"]})[0], 429, "one tag too many")


@test("14 one tenant's logs do not push out another's")
def _():
    need_layers()
    with Daemon(config=SMALL.replace("200M", "400M")) as daemon:
        keys = {name: daemon.serve("key", "new", "--tenant", name)[1].strip() for name in ("small", "other")}
        logs = daemon.state + "/atoll/log"
        made = {}
        for name, n in (("other", 1), ("small", 4)):
            for i in range(n):
                before = set(glob.glob(logs + "/????????.jsonl"))
                status, box, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"}, key=keys[name])
                same(status, 201, "create: %s" % box)
                daemon.run(box, "true")
                log = until(lambda: set(glob.glob(logs + "/????????.jsonl")) - before).pop()
                daemon.call("DELETE", "/sandboxes/%s" % box["sandboxID"], key=keys[name])
                made.setdefault(name, []).append(log)
        until(lambda: not daemon.holders())
        # As if each had been filled: 45 MB, a quarter of a quota is 100 MB. The other tenant's is the oldest.
        for age, log in enumerate(made["other"] + made["small"]):
            with open(log, "ab") as file:
                os.posix_fallocate(file.fileno(), os.path.getsize(log), 45 * MIB)
            os.utime(log, (time.time() - 86400 + age, time.time() - 86400 + age))
        daemon.stop()
        daemon.start()
        try:
            check(until(lambda: sum(map(os.path.exists, made["small"])) <= 2, 15), "a tenant of 400 MB keeps 4 logs of 45 MB")
            check(all(map(os.path.exists, made["other"])), "another tenant's log has gone")
            check(all(map(os.path.exists, made["small"][2:])), "the latest logs have gone: %s" % made)
        finally:
            for log in made["other"] + made["small"]:
                with contextlib.suppress(OSError):
                    os.unlink(log)


# The longest answer with N logs while they are measured and a sandbox is removed, before the event loop's thread had no longer to wait: 2.5 s.
N_LOGS = 60000


@test("14 the logs of one tenant's past, however many, keep nobody waiting while they are measured")
def _():
    with Daemon() as daemon:
        daemon.call("DELETE", "/sandboxes/%s" % daemon.create()["sandboxID"])
        with open(until(lambda: glob.glob(daemon.state + "/logs")).pop(), "r+") as file:
            tenant = until(lambda: file.read().split())[1]
            os.makedirs(daemon.state + "/atoll/log", exist_ok=True)
            for i in range(N_LOGS):
                os.close(os.open("%s/atoll/log/z%07d.jsonl" % (daemon.state, i), os.O_WRONLY | os.O_CREAT, 0o600))
            file.write("".join("z%07d %s\n" % (i, tenant) for i in range(N_LOGS)))
        worst, is_over = [0], threading.Event()

        def look():
            while not is_over.wait(0.005):
                begun = time.monotonic()
                same(daemon.call("GET", "/healthz", key="")[0] < 300, True, "health")
                worst[0] = max(worst[0], time.monotonic() - begun)

        thread = threading.Thread(target=look)
        thread.start()
        end = time.monotonic() + 8
        while time.monotonic() < end:
            daemon.call("DELETE", "/sandboxes/%s" % daemon.create()["sandboxID"])
        is_over.set()
        thread.join()
        check(worst[0] < 1 * SLOW, "a request waited for %.2f s" % worst[0])
        with open(daemon.state + "/logs") as file:
            lines = file.read().split("\n")
        check(len(lines) >= N_LOGS and len(set(lines)) == len(lines), "the list has lost lines: %d" % len(lines))


main()
