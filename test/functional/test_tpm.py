#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: user only
"""Hardware's word in receipts: a TPM's quote (swtpm, checked with tpm2-tools), and an imitation of configfs-tsm."""

import base64
import os
import random
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *


class Tpm:
    """A software TPM on two ports of loopback, ended when left."""

    def __init__(self, place):
        need("swtpm", "tpm2_checkquote")
        self.state = place.tmp + "/tpm"
        os.mkdir(self.state)

    def __enter__(self):
        # Two in a row, and below those that the kernel hands out: of these, other tests leave too many behind.
        below = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
        for _ in range(20):
            self.port = random.randrange(below // 2, below - 1)
            self.process = subprocess.Popen(
                ["swtpm", "socket", "--tpm2", "--tpmstate", "dir=" + self.state, "--server", "type=tcp,port=%d" % self.port,
                 "--ctrl", "type=tcp,port=%d" % (self.port + 1), "--flags", "not-need-init,startup-clear"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if until(lambda: self.process.poll() is not None or self.listens()) and self.process.poll() is None:
                self.tcti = "swtpm:host=127.0.0.1,port=%d" % self.port
                return self
        raise Failed("swtpm does not start: " + self.process.stdout.read().decode())

    def listens(self):
        """Without connecting: it serves one client, and ends with it."""
        want = "0100007F:%04X" % self.port
        return any(want in line and line.split()[3] == "0A" for line in open("/proc/net/tcp").readlines()[1:])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def attested(place, *flags, **options):
    need_layers()
    same(run(place, [], inside_sh("echo x >x"), mode="layer").status, 0, "status of the run")
    path = place.tmp + "/receipt"
    result = atoll(place, "attest", "-o", path, *flags, **options)
    same(result.status, 0, "attest: " + result.err)
    return path


def predicate(path):
    return json.loads(base64.b64decode(json.loads(open(path).read().splitlines()[1])["payload"]))["predicate"]


def check_quote(place, told, note, nonce=None):
    """What tpm2-tools think of it."""
    for name, data in (("m", base64.b64decode(told["quote"])), ("s", base64.b64decode(told["signature"])),
                       ("f", bytes.fromhex(told["value"])), ("u", told["key"])):
        write(place.tmp + "/q." + name, data)
    qualifying = hashlib.sha256(note.encode() + bytes.fromhex(nonce or told["nonce"]) + bytes.fromhex(told["signer"])).hexdigest()
    words = [word for name in "msfu" for word in ("-" + name, place.tmp + "/q." + name)]
    return subprocess.run(["tpm2_checkquote", *words, "-g", "sha256", "-l", "sha256:23", "-q", qualifying],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60).returncode


def verify(place, path, *flags):
    return atoll(place, "verify", "--receipt", path, *flags)


@test("a TPM quotes the log's head: tpm2_checkquote accepts it, and not another head, nonce or value")
def _():
    with Place() as place, Tpm(place) as tpm:
        path = attested(place, "--tpm", tpm.tcti)
        found = predicate(path)
        told, note = found["hardware"]["tpm"], found["log"]["note"]
        same(found["root"], "swtpm", "the root of trust")
        same(check_quote(place, told, note), 0, "tpm2_checkquote")
        check(check_quote(place, told, note.replace("\n", "\r\n", 1)) != 0, "another checkpoint is accepted")
        check(check_quote(place, told, note, "00" * 32) != 0, "another nonce is accepted")
        check(check_quote(place, {**told, "value": "00" * 32}, note) != 0, "another register is accepted")
        quote = bytearray(base64.b64decode(told["quote"]))
        quote[-1] ^= 1
        check(check_quote(place, {**told, "quote": base64.b64encode(quote).decode()}, note) != 0, "a changed quote is accepted")
        # The register holds what it held, and the hash of the head.
        head = hashlib.sha256(note.encode()).digest()
        same(hashlib.sha256(bytes.fromhex(told["before"]) + head).hexdigest(), told["value"], "register 23")
        good = verify(place, path)
        same(good.status, 0, good.err)
        check("hardware: swtpm" in good.out, good.out)


@test("the nonce and the TPM's key can be demanded")
def _():
    with Place() as place, Tpm(place) as tpm:
        nonce = "5a" * 32
        path = attested(place, "--tpm", tpm.tcti, "--nonce", nonce)
        told = predicate(path)["hardware"]["tpm"]
        write(place.tmp + "/tpm.pub", told["key"])
        good = verify(place, path, "--nonce", nonce, "--quote-key", place.tmp + "/tpm.pub")
        same(good.status, 0, good.err)
        same(verify(place, path, "--nonce", "00" * 32).status, 6, "another nonce")
        # The same key each time, another TPM's is another.
        again = place.tmp + "/again"
        same(atoll(place, "attest", "-o", again, "--tpm", tpm.tcti).status, 0, "again")
        same(predicate(again)["hardware"]["tpm"]["key"], told["key"], "its key")
        check(predicate(again)["hardware"]["tpm"]["nonce"] != nonce, "the nonce is not random")
        tpm.__exit__()
        shutil.rmtree(tpm.state)
        with Tpm(place) as second:
            same(atoll(place, "attest", "-o", again, "--tpm", second.tcti).status, 0, "another TPM")
        write(place.tmp + "/other.pub", predicate(again)["hardware"]["tpm"]["key"])
        same(verify(place, path, "--quote-key", place.tmp + "/other.pub").status, 6, "another TPM's key")
        same(verify(place, attested(place), "--nonce", nonce).status, 6, "a receipt without hardware")
        same(atoll(place, "attest", "--nonce", "xyz").status, 240, "a nonce that is none")


@test("a TPM that is not there is said in one line, and nothing is written")
def _():
    need_layers()
    with Place() as place:
        same(run(place, [], ["true"], mode="layer").status, 0, "a run")
        for tcti, status in (("swtpm:host=127.0.0.1,port=1", 242), ("device:/dev/null-tpm", 242), ("cmd:touch " + place.mark, 240)):
            bad = atoll(place, "attest", "-o", place.tmp + "/r", "--tpm", tcti)
            same((bad.status, bad.err.count("\n")), (status, 1), "%s: %s" % (tcti, bad.err))
        check(not os.path.exists(place.tmp + "/r"), "a receipt all the same")


@test("the TPM's libraries are not loaded unless they are asked for")
def _():
    program = os.path.join(os.path.dirname(os.path.abspath(ATOLL)), "atoll-audit")
    if not os.path.exists(program):
        skip("a build tree")
    out = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    check("tss2" not in out, out)


# ---- configfs-tsm ---------------------------------------------------------------------------------------------------

class Tsm(threading.Thread):
    """A directory that behaves as the kernel's: whoever makes a directory in it finds files there. They are fifos, so that
    each reading and writing is noticed; `generation` counts what was written, and `others` more at each report."""

    def __init__(self, place, provider="sev_guest", others=0):
        super().__init__(daemon=True)
        self.top = place.tmp + "/tsm"
        os.mkdir(self.top)
        self.provider, self.others, self.generation, self.inblobs = provider, others, 7, []
        self.failure = None

    def run(self):
        try:
            self.serve()
        except OSError as error:
            self.failure = error

    def serve(self):
        until(lambda: os.listdir(self.top))
        where = os.path.join(self.top, os.listdir(self.top)[0])
        for name in ("generation", "inblob", "outblob"):
            os.mkfifo(where + "/" + name)
        write(where + "/auxblob", b"certificates")
        write(where + "/privlevel_floor", "0\n")
        write(where + "/provider", self.provider + "\n")
        for _ in range(3 if self.others else 1):
            write_fifo(where + "/generation", b"%d\n" % self.generation)
            with open(where + "/inblob", "rb") as file:
                self.inblobs.append(file.read())
            self.generation += 1 + self.others
            write_fifo(where + "/outblob", self.report(self.inblobs[-1]))
            write_fifo(where + "/generation", b"%d\n" % self.generation)

    def report(self, inblob):
        at = {"sev_guest": 0x50, "tdx_guest": 568}[self.provider]
        return b"\1" * at + inblob + b"\2" * 200


def write_fifo(path, data):
    """To one reader; whoever comes next finds a fresh one."""
    with open(path, "wb") as file:
        os.mkfifo(path + "~")
        os.rename(path + "~", path)
        file.write(data)


@test("a confidential machine's report is taken, about head, key and nonce")
def _():
    for provider, root in (("sev_guest", "sev-snp"), ("tdx_guest", "tdx")):
        with Place() as place:
            tsm = Tsm(place, provider)
            tsm.start()
            path = attested(place, "--tsm", env={"ATOLL_TSM": tsm.top})
            tsm.join()
            same(tsm.failure, None, "the imitation")
            found = predicate(path)
            told = found["hardware"]["tsm"]
            same((found["root"], told["provider"], told["generation"]), (root, provider, 8), "what it is")
            keys = glob.glob(place.home + "/.local/state/atoll/keys/*.pub")
            key = base64.b64decode("".join(open(keys[0]).read().splitlines()[1:-1]))[-32:]
            want = hashlib.sha512(found["log"]["note"].encode() + key + bytes.fromhex(told["nonce"])).digest()
            same([blob.hex() for blob in tsm.inblobs], [want.hex()], "what was reported on")
            same(base64.b64decode(told["auxblob"]), b"certificates", "auxblob")
            good = verify(place, path)
            same(good.status, 0, good.err)
            check("hardware: " + root in good.out, good.out)
            same(verify(place, path, "--nonce", "00" * 32).status, 6, "another nonce")


@test("a report that somebody else may have written is not taken")
def _():
    with Place() as place:
        need_layers()
        same(run(place, [], ["true"], mode="layer").status, 0, "a run")
        tsm = Tsm(place, others=1)
        tsm.start()
        bad = atoll(place, "attest", "-o", place.tmp + "/r", env={"ATOLL_TSM": tsm.top})
        tsm.join()
        same(bad.status, 242, bad.err)
        check("generation" in bad.err, bad.err)
        same(len(tsm.inblobs), 3, "tries")


@test("where there is no such machine a receipt says so, and --tsm fails")
def _():
    with Place() as place:
        missing = {"ATOLL_TSM": place.tmp + "/none"}
        same(predicate(attested(place, env=missing))["root"], "none", "root")
        bad = atoll(place, "attest", "--tsm", env=missing)
        same(bad.status, 242, bad.err)


main()
