# SPDX-License-Identifier: Apache-2.0
"""
The event log under attack: its size has a bound, what is beyond is counted and signed, and a full disk neither hangs a run
nor stops later ones
"""

import base64
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

MIB = 1 << 20
UNRECORDED = 248

# Refused calls with long names that all differ, from one process.
FLOOD = """
import os, sys
base = "/usr/" + "x" * 240
for i in range(int(sys.argv[1])):
    try:
        os.open("%s%d" % (base, i), os.O_WRONLY | os.O_CREAT)
    except OSError:
        pass
"""


def flood(n):
    return [PYTHON, "-c", FLOOD, str(n)]


def store(place, env=None):
    return (env or {}).get("XDG_STATE_HOME", place.home + "/.local/state") + "/atoll"


def told(result):
    return json.loads(result.err.splitlines()[-1])


def lines(place, name, env=None):
    with open("%s/log/%s.jsonl" % (store(place, env), name)) as file:
        return [json.loads(line) for line in file]


def size(place, name, env=None):
    return os.path.getsize("%s/log/%s.jsonl" % (store(place, env), name))


def verified(place, name, env=None):
    result = atoll(place, "verify", name, env=env)
    same(result.status, 0, "verify: " + result.err)


@test("13 a log has a size: refusals beyond 16 MiB are counted")
def _():
    with Place() as place:
        # Lines of about 700 bytes: 31 MB with no bound.
        result = run(place, ["--json"], flood(45000))
        name = told(result)["run"]
        check(size(place, name) < 16 * MIB + 256 * 1024, "%.1f MB in the log" % (size(place, name) / 1e6))
        events = lines(place, name)
        denials = [e for e in events if e["kind"] == "denial"]
        lost = [e for e in events if e["kind"] == "lost"]
        check(denials and lost, "%d denials, %d counts" % (len(denials), len(lost)))
        end = [e for e in events if e["kind"] == "end"][0]
        counted = sum(e["count"] for e in lost if e.get("of") == "denial") + sum(e["count"] for e in lost if e.get("of") == "lost" or "of" not in e)
        same(sum(e["count"] for e in denials) + counted, end["denials"] + sum(e["count"] for e in lost if e.get("of") != "denial"),
             "refusals in lines and counts")
        verified(place, name)


# Names that nobody allows, from many threads.
ASK = """
import socket, sys, threading
def go(t):
    for i in range(int(sys.argv[1])):
        try:
            socket.create_connection(("n%d-%d.%s.example" % (t, i, "x" * 60), 80), timeout=5).recv(1)
        except OSError:
            pass
threads = [threading.Thread(target=go, args=(t,)) for t in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@test("13 names that nobody is there to allow (--ask) are counted beyond the log's size, too")
def _():
    with Place() as place:
        if BARE:
            skip("a network by names: there is none without user namespaces")
        # No terminal: setsid. Lines of about 350 bytes: 280 KB of approvals with no bound.
        result = plain(place, ["setsid", "-w", ATOLL, "run", "--direct", "--ask", "--allow", "example.org", "--log-size", "64K", "--json", "--",
                               PYTHON, "-c", ASK, "100"], confined=False)
        name = told(result)["run"]
        events = lines(place, name)
        approvals = [e for e in events if e["kind"] == "approval"]
        lost = [e for e in events if e["kind"] == "lost" and e.get("of") == "approval"]
        check(approvals, "nothing was asked: %s" % result.err[-500:])
        check(size(place, name) < 96 * 1024, "%d bytes in a log of 64 KiB, %d approvals" % (size(place, name), len(approvals)))
        counted = sum(e["count"] for e in lost)
        # Some names are asked for twice, by either family of addresses, and a question whose asker has gone is not answered.
        check(len(approvals) + counted > 700 and counted > 500, "approvals: %d lines, %d counted" % (len(approvals), counted))
        same({e["rule"] for e in lost}, {"none"}, "the answers that were counted")
        verified(place, name)


@test("13 what is counted is counted by kind and rule, with how many were different")
def _():
    with Place() as place:
        result = run(place, ["--json", "--log-size", "64K"], inside_py("""
            import os
            for i in range(600):
                for path in ("/usr/same", "/usr/other%d" % i, "/usr/few%d" % (i % 7)):
                    try:
                        os.open(path, os.O_WRONLY | os.O_CREAT)
                    except OSError:
                        pass
            os.system("true; " * 300)
        """))
        name = told(result)["run"]
        check(size(place, name) < 160 * 1024, "%d bytes" % size(place, name))
        events = lines(place, name)
        lost = [e for e in events if e["kind"] == "lost" and e.get("of") == "denial"]
        check(lost, "no counts: %s" % [e["kind"] for e in events][-5:])
        for line in lost:
            check(line["rule"] and line["count"] > 0 and 0 < line["distinct"] <= 1024, "a count: %s" % line)
        check(max(e["distinct"] for e in lost) > 400, "different objects: %s" % lost)
        # All of it is signed.
        same(events[-1]["kind"], "head", "the last line")
        verified(place, name)
        # The bound is part of the contract, and the plan says so.
        shown = atoll(place, "run", "--plan", "--log-size", "64K", "--", "true").out
        check(re.search(r"audit\.size.*64", shown), "the plan: " + shown[-2000:])
        for bad in ("1K", "x", "2T", "unlimited"):
            same(atoll(place, "run", "--log-size", bad, "--", "true").status, BAD_REQUEST, "--log-size " + bad)


@test("13 a log that is full hides nothing from rules, and keeps room for changes and the end")
def _():
    with Place() as place:
        place.expect("made")
        flags = ["--json", "--log-size", "64K"]
        noise = "i=0; while test $i -lt 400; do echo >/usr/x$i; i=$((i+1)); done 2>/dev/null; "
        result = run(place, flags, inside_sh(noise + "echo x >made; echo end"))
        same((result.status, result.out), (0, "end\n"), "the run")
        events = lines(place, told(result)["run"])
        check([e for e in events if e["kind"] == "lost" and e.get("of") == "denial"], "the log was not full")
        same([os.path.basename(e["path"]) for e in events if e["kind"] == "change"], ["made"], "changes")
        same([e["kind"] for e in events][-2:], ["end", "head"], "the end")
        # A rule still sees what is only counted.
        miner = run(place, [*flags, "--rule", "crypto-miners=kill"], inside_sh(noise + "/bin/true stratum+tcp://pool.example:3333; sleep 60"))
        same(miner.status, 247, "a miner behind the noise: " + miner.err)


@test("13 a job file in the workspace cannot choose the log's size unseen")
def _():
    with Place() as place:
        place.expect("job.yaml")
        for value in ("64K", "1T"):
            write(place.ws + "/job.yaml", "command: ['true']\naudit: {size: %s}\n" % value)
            result = run(place, ["-f", "job.yaml"], None, starts=False)
            same(result.status, POLICY, "audit.size: " + value)
            check("audit.size" in result.err, result.err)


@contextlib.contextmanager
def small_disk(place, kib):
    """A file system of so many KiB for the store, gone with the block."""
    need_root()  # mounting one; what the log does there is the same for all
    leave_mounts()
    where = place.base + "/disk"
    os.mkdir(where, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk,mode=700" % kib, "atoll-test", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def fill(where, kib):
    """All but so many KiB."""
    with open(where + "/filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    os.truncate(where + "/filler", os.path.getsize(where + "/filler") - kib * 1024)


def free(where):
    st = os.statvfs(where)
    return st.f_bavail * st.f_frsize


@test("13 a log leaves the disk's floor free, the wait has an end with a cause of its own, and later runs work")
def _():
    with Place() as place:
        with small_disk(place, 8192) as where:
            env = {"XDG_STATE_HOME": where}
            run(place, [], ["true"], env=env)
            fill(where, 512)  # 5 % of it, the floor, are 409 KiB
            began = time.monotonic()
            result = run(place, ["--json"], inside_sh('"$@"; sleep 600', *flood(4000)), env=env, timeout=90)
            took = time.monotonic() - began
            same(result.status, UNRECORDED, "status: " + result.err)
            same(told(result)["end"], "unrecorded", "the end")
            check(25 < took < 75, "it took %.0f s" % took)
            check(free(where) > 200 * 1024, "%d bytes are left" % free(where))
            name = told(result)["run"]
            events = lines(place, name, env)
            same([e["end"] for e in events if e["kind"] == "end"], ["unrecorded"], "the end in the log")
            same([e["limit"] for e in events if e["kind"] == "limit"], ["record"], "the limit in the log")
            verified(place, name, env)
            # What runs next is recorded from start to end.
            later = run(place, ["--json"], ["true"], env=env)
            same(later.status, 0, "a later run: " + later.err)
            verified(place, told(later)["run"], env)


@test("13 a disk that is full to the last byte ends a run, too")
def _():
    with Place() as place:
        with small_disk(place, 2048) as where:
            env = {"XDG_STATE_HOME": where}
            run(place, [], ["true"], env=env)
            before = set(glob.glob(where + "/atoll/log/*.jsonl"))
            fill(where, 100)
            reader, writer = os.pipe()
            running = start(place, ["--json"], inside_sh("read x; echo done"), env=env, stdin=reader)
            os.close(reader)
            until(lambda: any(b'"start"' in read(name) for name in set(glob.glob(where + "/atoll/log/*.jsonl")) - before))
            with open(where + "/filler2", "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 512)
            began = time.monotonic()
            os.close(writer)
            result = running.wait(90)
            check(time.monotonic() - began < 75, "it took too long")
            same(result.status, UNRECORDED, "status: " + result.err)


@test("names with characters of which nothing is seen are shown by their bytes: in the summary, the log, the tree and the report")
def _():
    hidden = ("\u3164", "\u115f", "\u034f", "\u180e", "\u17b4", "\ufe0f", "\U0001d173", "\U000e0100", "\u200b", "\u202e")
    with Place() as place:
        result = run(place, [], [PYTHON, "-c", """
import os, subprocess, sys
for one in sys.argv[1].split():
    subprocess.run(["/bin/true", "shown" + one])
    try: os.open("/etc/shown" + one, os.O_WRONLY | os.O_CREAT)
    except OSError: pass
""", " ".join(hidden)])
        page = place.tmp + "/report.html"
        same(atoll(place, "report", "--html", page).status, 0, "report")
        for what, text in (("summary", result.err), ("log", atoll(place, "log").out), ("tree", atoll(place, "log", "--tree").out), ("report", read(page).decode())):
            same([hex(ord(one)) for one in hidden if one in text], [], "characters in the %s" % what)
            check("shown\\\\xe3" in text or "shown\\xe3" in text, "the %s has no such name" % what)


@test("16 the halves of two receipts of one sandbox do not make a third")
def _():
    need_layers()
    with Place() as place:
        name = atoll(place, "create").out.strip()
        try:
            for word in ("one", "two"):
                same(atoll(place, "exec", name, "--", "true", word).status, 0, "step " + word)
        finally:
            atoll(place, "rm", "--force", name)
        receipts = []
        for step in ("1", "2"):
            path = place.tmp + "/r" + step
            made = atoll(place, "attest", "--step", step, "-o", path, name)
            same(made.status, 0, "attest: " + made.err)
            receipts.append(read(path).splitlines(keepends=True))
            for flags in ((), ("--log", name)):
                good = atoll(place, "verify", "--receipt", path, *flags)
                same(good.status, 0, "the receipt of step %s: %s" % (step, good.err))
        for what, lines_of in (("1 and 2", (receipts[0][0], receipts[1][1])), ("2 and 1", (receipts[1][0], receipts[0][1])),
                               ("2 and 1, the other way round", (receipts[0][1], receipts[1][0]))):
            path = write(place.tmp + "/mixed", b"".join(lines_of))
            mixed = atoll(place, "verify", "--receipt", path)
            check(mixed.status != 0, "halves %s were taken for one receipt: %s" % (what, mixed.out))
            check("different steps or commands" in mixed.err, mixed.err)


# ---- keys ------------------------------------------------------------------------------------------------------------

@test("keys: rotations at once and killed ones leave one key, every log verifies, and no other private key stays")
def _():
    with Place() as place:
        run(place, [], ["true"])
        keys = store(place) + "/keys"
        stray = write(keys + "/.0123456789abcdef.pem", "a private key\n", 0o600)
        same(atoll(place, "key", "rotate").status, 0, "rotate")
        check(not os.path.exists(stray), "the private key of a rotation that was killed stays")
        environment = {"PATH": HOST_PATH, "HOME": place.home}
        # A run goes on meanwhile, and is signed by what is the key at its end.
        reader, writer = os.pipe()
        running = start(place, ["--json"], inside_sh("read x; echo end"), stdin=reader)
        os.close(reader)
        for _ in range(3):
            many = [subprocess.Popen([ATOLL, "key", "rotate"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
            for one in many:
                _, err = one.communicate()
                same(one.returncode, 0, "one of four rotations: %s" % err)
        for i in range(25):
            one = subprocess.Popen([ATOLL, "key", "rotate"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(i * 0.0004)
            one.kill()
            one.wait()
        os.close(writer)
        result = running.wait()
        same(result.status, 0, "the run: " + result.err)
        same(atoll(place, "key", "rotate").status, 0, "a rotation after all of them")
        private = [name for name in os.listdir(keys) if name.endswith(".pem")]
        same(private, ["key.pem"], "private keys")
        for name in os.listdir(keys):
            check(os.stat(keys + "/" + name).st_mode & 0o077 == 0, "%s is open to others" % name)
        for name in glob.glob(store(place) + "/log/????????.jsonl"):
            verified(place, os.path.basename(name)[:8])
        same(atoll(place, "verify").status, 0, "the store")


@test("keys: a key that is a link, of mode 0644 or damaged signs nothing, and no other is made in its place")
def _():
    with Place() as place:
        run(place, [], ["true"])
        key = store(place) + "/keys/key.pem"
        good = read(key)

        def refused(what):
            before = sorted(os.listdir(store(place) + "/keys"))
            result = run(place, [], ["true"], starts=False)
            among(result.status, (POLICY, HOST_CANNOT), "%s: %s" % (what, result.err))
            same(atoll(place, "key", "rotate").status != 0, True, "%s: rotate" % what)
            same(sorted(os.listdir(store(place) + "/keys")), before, "%s: files" % what)
        os.chmod(key, 0o644)
        refused("mode 0644")
        os.chmod(key, 0o600)
        os.rename(key, place.tmp + "/key")
        os.symlink(place.tmp + "/key", key)
        refused("a link")
        os.unlink(key)
        write(key, good[:-30] + b"x" * 30, 0o600)
        refused("damaged")
        write(key, good, 0o600)
        same(run(place, [], ["true"]).status, 0, "the key as it was")


def signed_again(place, path, key):
    """The same statements, signed by another key: what anybody can do."""
    lines_of = []
    for line in read(path).splitlines():
        envelope = json.loads(line)
        body = base64.b64decode(envelope["payload"])
        kind = envelope["payloadType"].encode()
        message = write(place.tmp + "/message", b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body))
        subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", message, "-out", place.tmp + "/sig"], check=True)
        envelope["signatures"] = [{"keyid": "", "sig": base64.b64encode(read(place.tmp + "/sig")).decode()}]
        lines_of.append(json.dumps(envelope))
    return write(place.tmp + "/again", "\n".join(lines_of) + "\n")


@test("TPM: a quote is for the receipt of one key: in another's about the same head it is refused")
def _():
    need_layers()
    need("swtpm", "openssl")
    with Place() as place, Tpm(place) as tpm:
        run(place, [], inside_sh("echo x >x"), mode="layer")
        path = place.tmp + "/receipt"
        made = atoll(place, "attest", "-o", path, "--tpm", tpm.tcti)
        if made.status != 0 and "libtss2" in made.err:
            skip("the TPM libraries")
        same(made.status, 0, "attest: " + made.err)
        good = atoll(place, "verify", "--receipt", path)
        same(good.status, 0, good.err)
        public = [name for name in glob.glob(store(place) + "/keys/*.pub")][0]
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", place.tmp + "/own"], check=True)
        subprocess.run(["openssl", "pkey", "-in", place.tmp + "/own", "-pubout", "-out", place.tmp + "/own.pub"], check=True)
        again = atoll(place, "verify", "--receipt", signed_again(place, path, place.tmp + "/own"), "--key", place.tmp + "/own.pub", "--log-key", public)
        check("signature: good" in again.out, "the other signature: %s %s" % (again.out, again.err))
        check(again.status != 0 and "another key" in again.err, "a quote in another's receipt: %s %s" % (again.out, again.err))


class Tpm:
    """A software TPM on two ports of loopback, ended when left."""

    def __init__(self, place):
        self.state = place.tmp + "/tpm"
        os.mkdir(self.state)

    def __enter__(self):
        below = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
        for _ in range(20):
            port = below // 2 + int.from_bytes(os.urandom(4), "big") % (below // 2 - 2)
            self.process = subprocess.Popen(
                ["swtpm", "socket", "--tpm2", "--tpmstate", "dir=" + self.state, "--server", "type=tcp,port=%d" % port,
                 "--ctrl", "type=tcp,port=%d" % (port + 1), "--flags", "not-need-init,startup-clear"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            want = "0100007F:%04X" % port
            if until(lambda: self.process.poll() is not None or any(
                    want in line and line.split()[3] == "0A" for line in open("/proc/net/tcp").readlines()[1:])) and self.process.poll() is None:
                self.tcti = "swtpm:host=127.0.0.1,port=%d" % port
                return self
        raise Failed("swtpm does not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


main()
