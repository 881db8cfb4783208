# SPDX-License-Identifier: Apache-2.0
# check: seconds 26
# check: user only
"""Logs are evidence: what was changed is found, from outside, by atoll verify and by tools that are not ours."""

import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

WRITE = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL), "test", "write-log")
GOOD, OPEN, BROKEN, UNKNOWN = range(4)


class Store:
    """A fresh one. test/tools/write-log.c writes logs into it."""

    def __init__(self):
        if not os.path.exists(WRITE):
            skip("write-log is not built")

    def __enter__(self):
        self.held = tempfile.TemporaryDirectory()
        self.top = self.held.name
        self.path = self.top + "/state/atoll"
        self.env = {"PATH": HOST_PATH, "XDG_STATE_HOME": self.top + "/state", "HOME": self.top}
        return self

    def __exit__(self, *_):
        self.held.cleanup()

    def log(self, name):
        return "%s/log/%s.jsonl" % (self.path, name)

    def write(self, *words, **more):
        done = subprocess.run([WRITE, *map(str, words)], env=self.env, capture_output=True, text=True, timeout=RUN_SECONDS, **more)
        check(done.returncode == 0, "write-log %s: %s" % (words, done.stderr))

    def start(self, *words):
        return subprocess.Popen([WRITE, *map(str, words)], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def atoll(self, *words, **more):
        done = subprocess.run([ATOLL, *map(str, words)], env={**self.env, **more}, capture_output=True, text=True, timeout=RUN_SECONDS)
        return done.returncode, done.stdout, done.stderr

    def verify(self, *words, **more):
        """(status, what it says as a list of objects)"""
        status, out, err = self.atoll("verify", "--json", *words, **more)
        check(status in range(4), "verify %s: status %d: %s" % (words, status, err))
        return status, [json.loads(line) for line in out.splitlines()]

    def expect(self, status, *words, line=None, **more):
        got, told = self.verify(*words, **more)
        same(got, status, "status of verify %s (%s)" % (words, told))
        if line is not None:
            same(told[0]["line"], line, "the line that verify %s names" % (words,))
        return told

    def lines(self, name):
        with open(self.log(name), "rb") as file:
            return file.read().split(b"\n")[:-1]

    def put(self, name, lines):
        with open(self.log(name), "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))


# ---- by others' means

def leaf(line):
    return hashlib.sha256(b"\0" + line).digest()


def root(hashes):
    """RFC 6962, section 2.1, as it is written there."""
    if len(hashes) <= 1:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    k = 1
    while 2 * k < len(hashes):
        k *= 2
    return hashlib.sha256(b"\1" + root(hashes[:k]) + root(hashes[k:])).digest()


def notes(lines):
    """(index, note) of each head."""
    for number, line in enumerate(lines):
        event = json.loads(line)
        if event["kind"] == "head":
            yield number, event["note"]


@test("a log's chain, tree and signatures hold by hashlib and openssl")
def _():
    need("openssl")
    with Store() as store:
        store.write("abcdefgh", 3, "head", 4, "close")
        lines = store.lines("abcdefgh")
        before, hashes = "0" * 64, [leaf(line) for line in lines]
        for number, line in enumerate(lines):
            event = json.loads(line)
            same(list(event)[:4], ["prev", "seq", "time", "run"], "how a line begins")
            same((event["prev"], event["seq"], event["run"]), (before, number, "abcdefgh"), "line %d" % number)
            before = hashes[number].hex()
        with open(store.top + "/pub", "w") as file:
            file.write(store.atoll("key", "show", "--pem")[1])
        found = list(notes(lines))
        same([number for number, _ in found], [4, 9], "where heads stand")
        for number, note in found:
            text, signature = note.split("\n\n")
            text += "\n"
            origin, size, head, *more = text.splitlines()
            check(origin.endswith(" - abcdefgh") and origin.startswith("atoll/"), "the origin %r" % origin)
            same(int(size), number, "the head's size")
            same(base64.b64decode(head), root(hashes[:number]), "the head's root")
            same(more[1:], ["last"] if number == 9 else [], "what it says of the end")
            dash, name, data = signature.split(" ")
            same((dash, name), ("\u2014", origin.split(" ")[0]), "the signature line")
            with open(store.top + "/text", "w") as file:
                file.write(text)
            with open(store.top + "/sig", "wb") as file:
                file.write(base64.b64decode(data)[4:])
            command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", store.top + "/pub", "-rawin", "-in", store.top + "/text",
                       "-sigfile", store.top + "/sig"]
            check(subprocess.run(command, capture_output=True).returncode == 0, "openssl does not take the signature")
            with open(store.top + "/text", "a") as file:
                file.write("x")
            check(subprocess.run(command, capture_output=True).returncode != 0, "openssl takes any text")


@test("the tree of logs holds by hashlib")
def _():
    with Store() as store:
        for number in range(5):
            store.write("abcdefg" + "abcde"[number], 1, "close")
        with open(store.path + "/log/checkpoint") as file:
            text = file.read()
        origin, size, head, edge = text.split("\n\n")[0].splitlines()
        same(int(size), 5, "its size")
        same(base64.b64decode(head), root([leaf(line) for line in store.lines("runs")]), "its root")
        check(origin.startswith("atoll/") and " " not in origin and edge.startswith("edge 5 "), "the checkpoint: %r" % text)


# ---- findings

@test("what was written is good; what is not closed is told from that")
def _():
    with Store() as store:
        store.write("abcdefgh", 3, "close")
        store.expect(GOOD, "abcdefgh")
        store.expect(GOOD, "abc")
        store.expect(GOOD)
        store.write("openlogs", 3, "head", 2, "flush")
        told = store.expect(OPEN, "openlogs")[0]
        same((told["lines"], told["signed"], told["run"]), (7, 5, "openlogs"), "what is told of it")
        check("interrupted" in told["text"], told["text"])
        told = store.expect(OPEN, "--all")
        same(sorted((each["run"] or "", each["finding"]) for each in told), [("", "good"), ("abcdefgh", "good"), ("openlogs", "open")], "all")
        store.expect(UNKNOWN, "nothinga")
        store.expect(UNKNOWN, "./nothing")
        same(store.atoll("verify", "a", "b")[0], BAD_REQUEST, "two words")
        same(store.atoll("verify", "--all", "abcdefgh")[0], BAD_REQUEST, "all and one")
        same(store.atoll("verify", "abcdefgh", XDG_STATE_HOME=store.top + "/none")[0], BAD_REQUEST, "no store")
        same(store.atoll("verify", store.log("abcdefgh"), XDG_STATE_HOME=store.top + "/none")[0], BAD_REQUEST, "no key")


@test("a log that is being written is good as far as it goes")
def _():
    with Store() as store:
        writer = store.start("abcdefgh", 3, "head", 1, "wait", "close")
        try:
            same(writer.stdout.readline(), "ready\n", "the writer")
            told = store.expect(OPEN, "abcdefgh")[0]
            check("being written" in told["text"], told["text"])
        finally:
            writer.communicate()
        store.expect(GOOD, "abcdefgh")


@test("edited, cut, moved, doubled, dropped, replaced, renamed, gone: each is found, at its line")
def _():
    with Store() as store:
        store.write("abcdefgh", 2, "head", 2, "close")
        store.write("otherrun", 2, "head", 2, "close")
        lines, name = store.lines("abcdefgh"), "abcdefgh"
        for number, line in enumerate(lines):
            edited = line.replace(b'"run"', b'"ruN"') if number == 0 else line.replace(b'"seq":%d,"time":"2' % number, b'"seq":%d,"time":"3' % number)
            check(edited != line, "line %d was not edited" % number)
            store.put(name, [*lines[:number], edited, *lines[number + 1:]])
            store.expect(BROKEN, name, line=number + 1)
            store.put(name, lines[:number])
            store.expect(BROKEN, name, line=number + 1)
            store.put(name, [*lines[:number], line, *lines[number:]])
            store.expect(BROKEN, name, line=number + 2)
            if number + 1 < len(lines):
                store.put(name, [*lines[:number], *lines[number + 1:]])
                store.expect(BROKEN, name, line=number + 1)
                store.put(name, [*lines[:number], lines[number + 1], line, *lines[number + 2:]])
                store.expect(BROKEN, name, line=number + 1)
        store.put(name, store.lines("otherrun"))
        check("another run" in store.expect(BROKEN, name, line=1)[0]["text"], "another run's log under this name")
        os.unlink(store.log(name))
        check("gone" in store.expect(BROKEN, name)[0]["text"], "a log that is gone")
        told = store.expect(BROKEN, "--all")
        same([each["run"] for each in told if each["finding"] == "broken"], [name], "what is broken of all")
        store.put(name, lines)
        store.expect(GOOD, "--all")


@test("a log that was made anew, with all its hashes, is not signed")
def _():
    with Store() as store:
        store.write("abcdefgh", 4, "close")
        lines, before = store.lines("abcdefgh"), "0" * 64
        lines[2] = lines[2].replace(b"odd", b"new")
        for number, line in enumerate(lines):
            lines[number] = b'{"prev":"' + before.encode() + line[9 + 64:]
            before = leaf(lines[number]).hex()
        store.put("abcdefgh", lines)
        check("other lines" in store.expect(BROKEN, store.log("abcdefgh"), line=6)[0]["text"], "by the head")


@test("the tree of logs: what a power loss takes is told, what is changed is found")
def _():
    with Store() as store:
        for name in ("abcdefga", "abcdefgb", "abcdefgc"):
            store.write(name, 1, "close")
        lines = store.lines("runs")
        store.put("runs", lines[:2])
        check("gone" in store.expect(BROKEN, "--all")[0]["text"], "a line is gone")
        check("tree of logs" in store.expect(BROKEN, "abcdefga")[0]["text"], "which one log tells as well")
        store.write("abcdefgd", 1, "close")  # a power loss must not stop all that comes after
        told = store.expect(OPEN, "--all")
        check("lost" in told[0]["text"], told[0]["text"])
        same([json.loads(line)["kind"] for line in store.lines("runs")], ["closed", "closed", "lost", "closed"], "what the tree says of it")
        store.put("runs", [lines[1], lines[0], lines[2]])
        store.expect(BROKEN, "--all", line=1)


@test("a tree that was put back is shown by the logs that it does not know")
def _():
    with Store() as store:
        store.write("abcdefga", 1, "close")
        kept = {}
        for name in ("runs.jsonl", "checkpoint"):
            with open("%s/log/%s" % (store.path, name), "rb") as file:
                kept[name] = file.read()
        store.write("abcdefgb", 1, "close")
        store.write("abcdefgc", 1, "close")
        store.expect(GOOD, "--all")
        os.unlink(store.log("abcdefgb"))
        for name, data in kept.items():
            with open("%s/log/%s" % (store.path, name), "wb") as file:
                file.write(data)
        told = store.expect(OPEN, "--all")
        same([each["run"] for each in told if each["finding"] == "open" and "does not know" in each["text"]], ["abcdefgc"], "what it does not know")
        store.expect(GOOD, "abcdefga")


@test("a half line in the tree of logs is cut off")
def _():
    with Store() as store:
        store.write("abcdefga", 1, "close")
        with open(store.log("runs"), "ab") as file:
            file.write(b'{"prev":"')
        store.write("abcdefgb", 1, "close")
        store.expect(GOOD, "--all")
        same(len(store.lines("runs")), 2, "lines of the tree")


# ---- writers

@test("a writer killed at any moment leaves a log that is good up to there, and that goes on")
def _():
    with Store() as store:
        store.write("sandboxa", "sandbox", 1, "head")
        for _ in range(12):
            writer = store.start("sandboxa", "again", "forever")
            size = os.path.getsize(store.log("sandboxa"))
            until(lambda: os.path.getsize(store.log("sandboxa")) > size + random.randrange(100000))
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
            told = store.expect(OPEN, "sandboxa")[0]
            check(told["signed"] > 0, "nothing is signed: %s" % told)
        # A half line, as a power loss or a full disk leaves it; and the place beside the log is behind, or gone.
        with open(store.log("sandboxa"), "ab") as file:
            file.write(b'{"prev":"')
        check("half line" in store.expect(OPEN, "sandboxa")[0]["text"], "a half line")
        store.write("sandboxa", "again", 1, "close")
        store.expect(GOOD, "--all")
        check(b'"kind":"cut","bytes":9}' in b"\n".join(store.lines("sandboxa")), "that it was cut off is not told")


@test("of two writers one waits for the other")
def _():
    with Store() as store:
        store.write("sandboxa", "sandbox", 1, "head")
        first = store.start("sandboxa", "again", 2, "wait", 2, "head")
        same(first.stdout.readline(), "ready\n", "the first writer")
        second = store.start("sandboxa", "again", 3, "close")

        def waits():
            with open("/proc/locks") as file:
                return any("->" in line and " %d " % second.pid in line for line in file)
        check(until(waits), "nobody waits for the lock")
        check(second.poll() is None, "the second did not wait")
        first.communicate()
        second.communicate()
        same((first.returncode, second.returncode), (0, 0), "how they ended")
        told = store.expect(GOOD, "sandboxa")[0]
        same(told["lines"], 3 + 2 + 2 + 1 + 3 + 1, "lines")


@test("several at once go on with one log, and none is lost")
def _():
    with Store() as store:
        store.write("sandboxa", "sandbox", 1, "head")
        writers = [store.start("sandboxa", "again", 10, "head", 5, "close") for _ in range(8)]
        for writer in writers:
            writer.communicate()
            same(writer.returncode, 0, "a writer")
        same(store.expect(GOOD, "sandboxa")[0]["lines"], 3 + 8 * 17, "lines")


@test("1,000 logs from many processes at once are one tree")
def _():
    with Store() as store:
        writers = [store.start("many", 20) for _ in range(50)]
        for writer in writers:
            writer.communicate()
            same(writer.returncode, 0, "a writer")
        same(len(os.listdir(store.path + "/keys")), 2, "a key and its public half, though 50 wanted to make one")
        status, out, _ = store.atoll("verify", "--all")
        same((status, out.splitlines()[-1]), (0, "1001 good, 0 not closed, 0 broken, 0 unknown"), "verify --all")


@test("1,000 runs (as root 200), many at the same time, are one tree, and each log is good")
def _():
    with Place() as place:
        command, env = [*ATOLL_RUN, "--quiet", "--", "true"], caller_environment(place)
        # Entering a control group takes root longer than all of a run.
        count, ended = 200 if IS_ROOT else 1000, []
        numbers = iter(range(count))

        def work():
            for _ in numbers:
                done = subprocess.run(command, cwd=place.ws, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS)
                ended.append((done.returncode, done.stderr))

        threads = [threading.Thread(target=work) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same((len(ended), set(ended)), (count, {(0, "")}), "how they ended")
        result = atoll(place, "verify", "--all")
        same((result.status, result.out.splitlines()[-1]), (0, "%d good, 0 not closed, 0 broken, 0 unknown" % (count + 1)), "verify --all")


FULL_DISK = r"""
set -e
mount -t tmpfs -o size=400k tmpfs "$1"
mkdir -m 700 "$1/state"
dd if=/dev/zero of="$1/filler" bs=1k count=330 2>/dev/null
mkfifo "$1/go"
export XDG_STATE_HOME="$1/state"
"$2" fulldisk 600 retry wait close-retry <"$1/go" | while read -r line; do
    echo "$line"
    case "$line" in ready) dd if=/dev/zero of="$1/filler" bs=1k 2>/dev/null || true;; *) rm -f "$1/filler";; esac
    echo >&3
done 3>"$1/go"
"$3" verify fulldisk
"$3" verify --all
"""


@test("a full disk loses nothing, and writing can be tried again")
def _():
    need("unshare")
    with Store() as store:
        done = subprocess.run(["unshare", *(["-m"] if IS_ROOT else ["-rm"]), "sh", "-c", FULL_DISK, "sh", store.top, WRITE, ATOLL],
                              env=store.env, capture_output=True, text=True)
        if "unshare" in done.stderr:
            skip("a mount namespace")
        said = done.stdout.splitlines()
        check(said and said[0] == "write the event log of run fulldisk: No space left on device", "what the writer said: %r %r" % (said, done.stderr))
        same(said[1], "ready", "after there was space")
        check("No space left on device" in said[2], "when it was closed: %r" % said)
        check(said[-3].startswith("run fulldisk: good, 602 lines"), "what verify says: %r" % said)
        same(said[-1], "2 good, 0 not closed, 0 broken, 0 unknown", "of all")


# ---- real ones

@test("logs of real runs and sandboxes are good, also after what was done with them later")
def _():
    need_layers()
    with Place() as place:
        place.expect("new")
        run(place, ["--apply=never"], inside_sh("echo x >new; ls >/dev/null"), mode="layer")
        same(atoll(place, "verify").status, GOOD, "a run")
        atoll(place, "apply")
        same(atoll(place, "verify").status, GOOD, "a run that was applied")
        ident = atoll(place, "create", "--name", "my.box").out.strip()
        for number in range(3):
            atoll(place, "exec", ident, "--", "/bin/sh", "-c", "echo %d >>/tmp/x" % number)
        among(atoll(place, "verify", "my.box").status, (GOOD, OPEN), "a sandbox by its name")
        atoll(place, "rm", ident)
        result = atoll(place, "verify", "--all")
        check(result.status in (GOOD, OPEN) and " 0 broken" in result.out, "all: %s" % result.out)


# ---- keys

@test("a log that was cut and signed again by what was decided later is found by what the tree knew before")
def _():
    with Place() as place:
        run(place, [], inside_sh("for i in 1 2 3; do echo $i >f$i; done"), mode="layer")
        logs = place.home + "/" + STORE + "/log"
        name = [name for name in os.listdir(logs) if re.fullmatch("[a-z2-7]{8}[.]jsonl", name)][0]
        with open(logs + "/" + name, "rb") as file:
            lines = file.read().splitlines(True)
        with open(logs + "/" + name, "wb") as file:
            file.writelines(lines[:3])
        same(atoll(place, "verify", name[:8]).status, 2, "cut")
        atoll(place, "apply", name[:8])
        place.expect("f1", "f2", "f3")
        result = atoll(place, "verify", name[:8])
        same(result.status, 2, "cut, and signed again")
        same(atoll(place, "verify", "--all").status, 2, "among all")


@test("the tree of logs does not go on from what nobody has signed as if it were good")
def _():
    with Place() as place:
        for _ in range(3):
            run(place, [], inside_sh("true"))
        logs = place.home + "/" + STORE + "/log"
        same(atoll(place, "verify", "--all").status, 0, "before")
        os.unlink(logs + "/checkpoint")
        run(place, [], inside_sh("true"))
        same(atoll(place, "verify", "--all").status, 1, "afterwards, for ever")
        run(place, [], inside_sh("true"))
        same(atoll(place, "verify", "--all").status, 1, "and later")


def sign_note(store, text, note):
    """The note with another text, signed by openssl with the store's key; the hint is that of the note."""
    write(store.top + "/text", text)
    command = ["openssl", "pkeyutl", "-sign", "-inkey", store.path + "/keys/key.pem", "-rawin", "-in", store.top + "/text", "-out", store.top + "/sig"]
    check(subprocess.run(command, capture_output=True).returncode == 0, "openssl does not sign")
    before, _, old = note.splitlines()[-1].rpartition(" ")
    return "%s\n%s %s\n" % (text, before, base64.b64encode(base64.b64decode(old)[:4] + read(store.top + "/sig")).decode())


@test("the store's head is known by its sum, and without one by its signature; a sum that does not fit is none")
def _():
    need("openssl")
    with Store() as store:
        path = store.path + "/log/checkpoint"
        for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
            store.write(name, 1, "close")
        note = read(path).decode()
        text = note.split("\n\n")[0] + "\n"
        plain, _, total = text.rpartition(" ")
        check(re.fullmatch("[0-9a-f]{64}\n", total), "no sum at the end of %r" % text)
        # As one was written before there were sums.
        write(path, sign_note(store, plain + "\n", note))
        store.write("dddddddd", 1, "close")
        check("lost" not in [line["kind"] for line in map(json.loads, store.lines("runs"))], "signed, and not taken")
        store.expect(GOOD, "--all")
        # Neither sum nor signature are of this text.
        note = read(path).decode()
        origin, size, *rest = note.split("\n")
        write(path, "\n".join([origin, str(int(size) - 1), *rest]))
        store.write("eeeeeeee", 1, "close")
        same([line["kind"] for line in map(json.loads, store.lines("runs"))].count("lost"), 1, "lines that say so")


@test("the key is made once, 0600, and other tools read it")
def _():
    need("openssl", "ssh-keygen")
    with Store() as store:
        status, out, _ = store.atoll("key", "show", "--json")
        same(status, 0, "key show")
        told = json.loads(out)
        same(json.loads(store.atoll("key", "show", "--json")[1]), told, "shown twice")
        path = store.path + "/keys/key.pem"
        same(os.stat(path).st_mode & 0o777, 0o600, "its mode")
        public = subprocess.run(["openssl", "pkey", "-in", path, "-pubout"], capture_output=True, text=True, check=True).stdout
        same(public, told["pem"], "the public key by openssl")
        der = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"], capture_output=True, check=True).stdout
        same(hashlib.sha256(der).hexdigest()[:16], told["id"], "its id")
        line = store.atoll("key", "show", "--ssh")[1]
        shown = subprocess.run(["ssh-keygen", "-l", "-f", "-"], input=line, capture_output=True, text=True)
        check("ED25519" in shown.stdout, "ssh-keygen: %s" % shown.stderr)
        name, hint, data = store.atoll("key", "show", "--note")[1].strip().split("+", 2)
        data = base64.b64decode(data)
        same(data, b"\1" + der[-32:], "the verifier key")
        same(hashlib.sha256(name.encode() + b"\n" + data).hexdigest()[:8], hint, "its hint")


@test("any form of the public key checks a copy, anywhere; another key does not")
def _():
    with Store() as store, Store() as other:
        store.write("abcdefgh", 3, "close")
        copy = other.top + "/copy.jsonl"
        with open(copy, "wb") as file:
            file.write(b"\n".join(store.lines("abcdefgh")) + b"\n")
        for form in ("--pem", "--ssh", "--note"):
            with open(other.top + "/key", "w") as file:
                file.write(store.atoll("key", "show", form)[1])
            other.expect(GOOD, copy, "--key", other.top + "/key")
        other.atoll("key", "show")
        check("not trusted" in other.expect(BROKEN, copy, line=5)[0]["text"], "with another key")
        same(other.atoll("verify", copy, "--key", copy)[0], BAD_REQUEST, "a file that is no key")
        same(other.atoll("verify", copy, "--key", "/nothing")[0], BAD_REQUEST, "no file")


@test("a key that others can read, or somebody else's, is refused with the fix")
def _():
    with Store() as store:
        store.write("abcdefgh", 1, "close")
        key = store.path + "/keys/key.pem"
        os.chmod(key, 0o644)
        status, _, err = store.atoll("key", "show")
        same(status, POLICY, "the status")
        check("chmod 600" in err and "key rotate" in err, "what is said: %s" % err)
        check(subprocess.run([WRITE, "otherrun", "1"], env=store.env, capture_output=True).returncode != 0, "a log was written")
        os.chmod(key, 0o600)
        same(store.atoll("key", "show")[0], 0, "after the fix")
        if IS_ROOT:
            os.chown(key, 65534, 65534)
            same(store.atoll("key", "show")[0], POLICY, "somebody else's")


@test("after a rotation both keys vouch for each other, and nobody else's hand-over counts")
def _():
    with Store() as store, Store() as other:
        store.write("abcdefgh", 1, "close")
        store.write("sandboxa", "sandbox", 1, "head")
        with open(store.top + "/old", "w") as file:
            file.write(store.atoll("key", "show", "--pem")[1])
        status, out, _ = store.atoll("key", "rotate", "--json")
        same(status, 0, "key rotate")
        told = json.loads(out)
        check(told["old"]["id"] != told["new"]["id"] and told["old"]["store"] == told["new"]["store"], "the keys: %s" % told)
        store.write("newerrun", 1, "close")
        store.write("sandboxa", "again", 1, "close")
        store.expect(GOOD, "--all")
        store.expect(GOOD, "--all", "--key", store.top + "/old")
        with open(store.top + "/new", "w") as file:
            file.write(told["new"]["pem"])
        # Elsewhere: the new key does not vouch for the old one's logs by itself, but with the hand-over.
        none = {"XDG_STATE_HOME": store.top + "/none"}
        store.expect(BROKEN, store.log("abcdefgh"), "--key", store.top + "/new", **none)
        store.expect(GOOD, store.log("newerrun"), "--key", store.top + "/new", **none)
        store.expect(GOOD, store.log("sandboxa"), "--key", store.top + "/new", **none)  # has it in itself
        with open("%s/keys/%s.handover" % (store.path, told["old"]["id"])) as file:
            note = file.read()
        with open(store.top + "/new", "a") as file:
            file.write(note)
        store.expect(GOOD, store.log("abcdefgh"), "--key", store.top + "/new", **none)
        # One that only one of the two has signed.
        with open(store.top + "/forged", "w") as file:
            file.write(told["new"]["pem"] + "".join(note.splitlines(True)[:-1]))
        store.expect(BROKEN, store.log("abcdefgh"), "--key", store.top + "/forged", **none)


@test("no contract reaches the key, and a run that could is refused")
def _():
    with Place() as place:
        need_layers()
        result = run(place, [], inside_sh("cat $HOME/.local/state/atoll/keys/key.pem $1/.local/state/atoll/keys/key.pem", place.home))
        check("PRIVATE" not in result.out and result.status != 0, "the key: %r" % result.out)
        keys = place.home + "/.local/state/atoll/keys"
        check(os.path.exists(keys + "/key.pem"), "there is no key")
        os.symlink(keys, place.tmp + "/link")
        for flags in (["--read", keys], ["--read", keys + "/key.pem"], ["--write", keys], ["--read", place.tmp + "/link"]):
            result = run(place, flags, ["/bin/cat", keys + "/key.pem", place.tmp + "/link/key.pem"], starts=False)
            check(result.status in NOT_STARTED and "PRIVATE" not in result.out, "%s: %d %s" % (flags, result.status, result.err))
        result = run(place, ["--read", place.home, "--accept-broad", place.home], ["/bin/cat", keys + "/key.pem"], leaks=True)
        check(result.status != 0 and "PRIVATE" not in result.out, "in a home that may be read: %s" % result.err)
        result = plain(place, ["/bin/sh", "-c", "cd %s && %s run -- cat key.pem" % (keys, ATOLL)], confined=False)
        check(result.status in NOT_STARTED and "PRIVATE" not in result.out, "as the workspace: %s" % result.err)


# ---- proofs

@test("a line is proved without the others, and nothing else is")
def _():
    with Store() as store:
        store.write("abcdefgh", 6, "head", 5, "close")
        lines = store.lines("abcdefgh")
        for number in range(len(lines) - 1):
            status, out, err = store.atoll("verify", "--prove", number, "abcdefgh")
            same(status, 0, "prove %d: %s" % (number, err))
            proof = json.loads(out)
            same(proof["line"].encode(), lines[number], "the line in it")
            with open(store.top + "/proof", "w") as file:
                file.write(out)
            told = store.expect(GOOD, "--check", store.top + "/proof")[0]
            check("line %d " % (number + 1) in told["text"], told["text"])
            for forged in (out.replace("odd", "ood").replace('\\"kind\\":\\"head', '\\"kind\\":\\"heat').replace("schema", "schemb"),
                           out.replace('\\"seq\\":%d,' % number, '\\"seq\\":%d,' % (number + 1)), out.replace(" - abcdefgh", " - abcdefgi"),
                           out.replace('"hashes":[', '"hashes":["%s",' % ("A" * 43 + "="))):
                check(forged != out, "nothing was forged")
                with open(store.top + "/proof", "w") as file:
                    file.write(forged)
                store.expect(BROKEN, "--check", store.top + "/proof")
        same(store.atoll("verify", "--prove", len(lines) - 1, "abcdefgh")[0], BAD_REQUEST, "the last head, which nothing stands for")
        same(store.atoll("verify", "--prove", "x", "abcdefgh")[0], BAD_REQUEST, "no number")


@test("a head that was kept is the beginning of what there is now; of what was made anew it is not")
def _():
    with Store() as store:
        store.write("sandboxa", "sandbox", 3, "head", 4, "close")
        kept = next(note for _, note in notes(store.lines("sandboxa")))
        with open(store.top + "/head", "w") as file:
            file.write(kept)
        with open(store.path + "/log/checkpoint") as source, open(store.top + "/checkpoint", "w") as file:
            file.write(source.read())
        store.write("sandboxa", "again", 9, "close")
        store.write("many", 7)
        for head in ("head", "checkpoint"):
            status, out, err = store.atoll("verify", "--consistency", store.top + "/" + head)
            same(status, 0, "consistency of %s: %s" % (head, err))
            with open(store.top + "/proof", "w") as file:
                file.write(out)
            store.expect(GOOD, "--check", store.top + "/proof")
            proof = json.loads(out)
            proof["hashes"][0] = "A" * 43 + "="
            with open(store.top + "/proof", "w") as file:
                json.dump(proof, file, separators=(",", ":"), ensure_ascii=False)
            store.expect(BROKEN, "--check", store.top + "/proof")
        # The whole log away, and another under its name, by somebody who has the key.
        os.unlink(store.log("sandboxa"))
        if os.path.exists(store.path + "/log/sandboxa.edge"):
            os.unlink(store.path + "/log/sandboxa.edge")
        store.write("sandboxa", "sandbox", 30, "close")
        same(store.atoll("verify", "--consistency", store.top + "/head")[0], POLICY, "a head of the log that was replaced")


main()
