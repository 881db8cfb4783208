#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 66
# check: user only
"""
Receipts: made from a log that verifies, and checked with tools that are not ours

openssl checks the signature over the bytes that DSSE says are signed, ssh-keygen a signature of its own form, and sigstore's
library from npm a bundle with its proof. Each has to refuse what one byte was changed of. Then our own `atoll verify
--receipt`, the digest of a workspace, and `atoll replay`.
"""

import base64
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from image import image
from packages import npm_packages

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SCRIPT = "echo built >out.txt; mkdir d; printf 'a\\0b' >d/data; rm README.md; echo said; echo loud >&2"
DIGESTS = {name: hashlib.sha256(data).hexdigest() for name, data in
           (("out.txt", b"built\n"), ("d/data", b"a\0b"), ("/dev/stdout", b"said\n"), ("/dev/stderr", b"loud\n"))}


def store(place):
    return os.path.join(place.home, ".local/state/atoll")


def public_key(place):
    """The store's, as PEM; and its 32 bytes."""
    names = [name for name in os.listdir(store(place) + "/keys") if name.endswith(".pub")]
    same(len(names), 1, "public keys")
    path = "%s/keys/%s" % (store(place), names[0])
    return path, base64.b64decode("".join(open(path).read().splitlines()[1:-1]))[-32:]


def receipted(place, script=SCRIPT, flags=(), status=0):
    """A run with a receipt: its path."""
    need_layers()
    path = place.tmp + "/receipt"
    result = run(place, ["--receipt", path, *flags], inside_sh(script), mode="layer")
    same(result.status, status, "status of the run: " + result.err)
    check(os.path.exists(path), "no receipt: " + result.err)
    return path


def statements(path):
    """What is signed in it, provenance first; and the envelopes."""
    envelopes = [json.loads(line) for line in open(path, encoding="utf-8")]
    return [json.loads(base64.b64decode(envelope["payload"])) for envelope in envelopes], envelopes


def subjects(statement):
    return {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}


def verify(place, path, *flags):
    return atoll(place, "verify", "--receipt", path, *flags)


def flipped(place, path, at=None, name="flipped"):
    """A copy with one bit changed, in the middle or where it is said."""
    data = bytearray(open(path, "rb").read())
    data[len(data) // 2 if at is None else at] ^= 1
    write(place.tmp + "/" + name, bytes(data))
    return place.tmp + "/" + name


def tool(*words, stdin=None):
    return subprocess.run(words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)


# ---- what is in it --------------------------------------------------------------------------------------------------

@test("a receipt names what a run left, by hash, and how it was run")
def _():
    with Place() as place:
        (provenance, own), _ = statements(receipted(place))
        for statement in (provenance, own):
            same(statement["_type"], "https://in-toto.io/Statement/v1", "type")
            same(subjects(statement), DIGESTS, "subjects")
        same(provenance["predicateType"], "https://slsa.dev/provenance/v1", "predicate")
        build, details = provenance["predicate"]["buildDefinition"], provenance["predicate"]["runDetails"]
        same(build["externalParameters"]["steps"][0]["command"][:2], ["/bin/sh", "-c"], "command")
        check(re.fullmatch("[0-9a-f]{64}", build["externalParameters"]["contract"]["sha256"]), "contract")
        check(build["internalParameters"]["mechanisms"], "no mechanisms")
        same(details["builder"]["id"], "https://atoll.dev/atoll", "builder")
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", details["metadata"]["startedOn"]), "startedOn")
        same(own["predicateType"], "https://atoll.dev/receipt/v1", "predicate of our own")
        same(own["predicate"]["root"], "none", "root of trust")
        same(own["predicate"]["steps"][0]["ended"]["status"], 0, "status")
        check(own["predicate"]["steps"][0]["ended"]["usage"], "no usage")
        gone = [change["path"] for change in own["predicate"]["changes"] if change["change"] == "deleted"]
        same(gone, ["README.md"], "what is gone")
        note = own["predicate"]["log"]["note"]
        same(base64.b64decode(details["byproducts"][0]["content"]).decode(), note, "the checkpoint")
        check(note.startswith("atoll/%s - %s\n%d\n" % tuple(own["predicate"]["log"][key] for key in ("store", "run", "size"))),
              "the note: %r" % note)


@test("what was refused is in the receipt, with its rule")
def _():
    with Place() as place:
        (_, own), _ = statements(receipted(place, "echo x 2>/dev/null >%s/new; true" % place.out,
                                           ["--read", place.out]))
        denials = own["predicate"]["denials"]
        check(any(place.out in denial["object"] for denial in denials), "denials: %r" % denials)


@test("a run without effects has its log's head as its subject")
def _():
    with Place() as place:
        (_, own), _ = statements(receipted(place, "true"))
        names = [subject["name"] for subject in own["subject"]]
        check(names and set(names) <= {"log checkpoint", "/dev/stdout", "/dev/stderr"}, "subjects: %r" % names)
        same(verify(place, place.tmp + "/receipt").status, 0, "verify")
        # As a log it is not broken, but the wrong thing to ask about.
        result = atoll(place, "verify", place.tmp + "/receipt")
        same(result.status, BAD_REQUEST, "verify of a receipt as a log")
        check("atoll verify --receipt" in result.err, "the message does not say what to do: " + result.err)


@test("names that are no text keep their bytes, and hostile ones change nothing")
def _():
    with Place() as place:
        path = receipted(place, r"""printf x >"$(printf 'b\377d')"; printf x >'q"u\o'; printf x >"$(printf 'l\ni')" """)
        (_, own), _ = statements(path)
        by_bytes = {base64.b64decode(subject["annotations"]["path_base64"])
                    for subject in own["subject"] if "path_base64" in subject.get("annotations", {})}
        same(by_bytes, {b"b\xffd"}, "names that are no text")
        check({'q"u\\o', "l\ni"} <= set(subjects(own)), "names: %r" % list(subjects(own)))
        for name in (b"b\xffd", b'q"u\\o', b"l\ni"):
            with open(os.path.join(os.fsencode(place.tmp), name), "wb") as file:
                file.write(b"x")
        same(verify(place, path, "--root", place.tmp).status, 0, "verify with the files")


@test("nothing is paid and nothing noted where no receipt is asked for; one can be made later all the same")
def _():
    need_layers()
    with Place() as place:
        same(run(place, [], inside_sh(SCRIPT), mode="layer").status, 0, "status")
        logs = [name for name in os.listdir(store(place) + "/log") if re.fullmatch("[a-z2-7]{8}.jsonl", name)]
        events = [json.loads(line) for line in open(store(place) + "/log/" + logs[0])]
        start = next(event for event in events if event["kind"] == "start")
        check("input" not in start, "an input digest: %r" % start)
        check(not any(event["kind"] == "recipe" for event in events), "a recipe")
        result = atoll(place, "attest", "-o", place.tmp + "/later")
        same(result.status, 0, "attest: " + result.err)
        (provenance, _), _ = statements(place.tmp + "/later")
        same(subjects(provenance), DIGESTS, "subjects")
        same(verify(place, place.tmp + "/later").status, 0, "verify")
        refused = atoll(place, "replay", place.tmp + "/later")
        same(refused.status, 240, "replay of what was not noted: " + refused.err)


@test("there is no receipt of a log that does not verify, of none, and of one without a record")
def _():
    with Place() as place:
        receipted(place)
        log = next(path for path in glob.glob(store(place) + "/log/????????.jsonl"))
        lines = open(log, "rb").read().splitlines(keepends=True)
        write(log, b"".join(lines[:2] + [lines[2].replace(b'"seq":2', b'"seq":2 ')] + lines[3:]))
        refused = atoll(place, "attest", "-o", place.tmp + "/no")
        check(refused.status != 0 and "does not verify" in refused.err, "attested: %d %s" % (refused.status, refused.err))
        check(not os.path.exists(place.tmp + "/no"), "a receipt all the same")
        same(atoll(place, "attest", "zzzzzzzz").status, 240, "of a run that never was")
        off = run(place, ["--record", "off", "--receipt", place.tmp + "/no"], ["true"], mode="layer", starts=False)
        same(off.status, 240, "without a record: " + off.err)


@test("each step of a sandbox has its receipt, and all together have one")
def _():
    need_layers()
    with Place() as place:
        created = atoll(place, "create")
        same(created.status, 0, "create: " + created.err)
        box = created.out.strip()
        same(atoll(place, "exec", box, "--", "sh", "-c", "echo 1 >one; echo first").status, 0, "step 1")
        same(atoll(place, "exec", box, "--", "sh", "-c", "echo 2 >two; echo second").status, 0, "step 2")
        for flags, names in ((["--step", "1"], {"one", "/dev/stdout"}), (["--step", "2"], {"two", "/dev/stdout"}),
                             ([], {"one", "two", "/dev/stdout#1", "/dev/stdout#2"})):
            result = atoll(place, "attest", box, "-o", place.tmp + "/r", *flags)
            same(result.status, 0, "attest %s: %s" % (flags, result.err))
            (provenance, _), _ = statements(place.tmp + "/r")
            check(names <= set(subjects(provenance)), "%s: %r" % (flags, list(subjects(provenance))))
            same(verify(place, place.tmp + "/r").status, 0, "verify")
        same(atoll(place, "attest", box, "--step", "9").status, 240, "a step that never was")
        atoll(place, "rm", "--force", box)


# ---- with tools that are not ours -----------------------------------------------------------------------------------

def pae(envelope):
    body = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


@test("openssl alone checks both signatures, and refuses one changed byte")
def _():
    need("openssl")
    with Place() as place:
        _, envelopes = statements(receipted(place))
        key, _ = public_key(place)
        same(len(envelopes), 2, "envelopes")
        for envelope in envelopes:
            write(place.tmp + "/sig", base64.b64decode(envelope["signatures"][0]["sig"]))
            write(place.tmp + "/pae", pae(envelope))
            words = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", key, "-sigfile"]
            good = tool(*words, place.tmp + "/sig", "-in", place.tmp + "/pae")
            same(good.returncode, 0, good.stdout)
            for sig, data in ((place.tmp + "/sig", flipped(place, place.tmp + "/pae")),
                              (flipped(place, place.tmp + "/sig", 5, "badsig"), place.tmp + "/pae")):
                check(tool(*words, sig, "-in", data).returncode != 0, "openssl accepts a changed byte")


@test("ssh-keygen checks the receipt as a file, and refuses one changed byte")
def _():
    need("ssh-keygen")
    with Place() as place:
        receipted(place)
        path, signature = place.tmp + "/r", place.tmp + "/r.sig"
        same(atoll(place, "attest", "-o", path, "--ssh-sig", signature).status, 0, "attest")
        field = lambda data: struct.pack(">I", len(data)) + data
        line = base64.b64encode(field(b"ssh-ed25519") + field(public_key(place)[1])).decode()
        write(place.tmp + "/allowed", "me ssh-ed25519 %s\n" % line)
        words = ["ssh-keygen", "-Y", "verify", "-f", place.tmp + "/allowed", "-I", "me", "-n"]
        good = tool(*words, "atoll-receipt", "-s", signature, stdin=open(path, "rb").read())
        same(good.returncode, 0, good.stdout)
        bad = open(flipped(place, path), "rb").read()
        check(tool(*words, "atoll-receipt", "-s", signature, stdin=bad).returncode != 0, "ssh-keygen accepts a changed byte")
        other = tool(*words, "git", "-s", signature, stdin=open(path, "rb").read())
        check(other.returncode != 0, "it counts for another purpose, too")


@test("sigstore's own library accepts the bundle with its proof, and refuses what was changed")
def _():
    packages = npm_packages(ROOT + "/test/npm")
    with Place() as place:
        receipted(place)
        bundle, root, key = place.tmp + "/b.json", place.tmp + "/root.json", public_key(place)[0]
        words = lambda path: ("node", packages + "/check-bundle.mjs", path, root, key)
        # Several entries, so that a proof has something to prove.
        for name in ("x", "y", "z"):
            same(run(place, [], inside_sh("echo $1 >$1", name), mode="layer").status, 0, "a run")
            result = atoll(place, "attest", "-o", place.tmp + "/r", "--bundle", bundle, "--trusted-root", root)
            same(result.status, 0, "attest: " + result.err)
            good = tool(*words(bundle))
            same((good.returncode, b'"%s"' % name.encode() in good.stdout), (0, True), good.stdout)
        # A writer that was killed has left half an entry: it is cut off.
        with open(store(place) + "/receipts/entries", "a") as file:
            file.write('{"apiVersion":"0.0')
        same(atoll(place, "attest", "-o", place.tmp + "/r", "--bundle", bundle).status, 0, "after half an entry")
        same(tool(*words(bundle)).returncode, 0, "the bundle after half an entry")
        whole = json.load(open(bundle))
        entry = whole["verificationMaterial"]["tlogEntries"][0]
        same(entry["inclusionProof"]["treeSize"], "3", "the tree's size")
        check(entry["inclusionProof"]["hashes"], "no proof")
        body = lambda text: base64.b64encode(bytes([base64.b64decode(text)[0] ^ 1]) + base64.b64decode(text)[1:]).decode()

        def change(path):
            copy = json.loads(json.dumps(whole))
            at = copy
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = body(at[path[-1]])
            write(place.tmp + "/bad.json", json.dumps(copy))
            return tool(*words(place.tmp + "/bad.json"))
        entry_path = ("verificationMaterial", "tlogEntries", 0)
        for path in (("dsseEnvelope", "payload"), ("dsseEnvelope", "signatures", 0, "sig"),
                     (*entry_path, "canonicalizedBody"), (*entry_path, "inclusionProof", "rootHash"),
                     (*entry_path, "inclusionProof", "hashes", 0), (*entry_path, "inclusionPromise", "signedEntryTimestamp")):
            bad = change(path)
            check(bad.returncode != 0 and b"refused" in bad.stdout, "accepted with another %s: %s" % (path[-1], bad.stdout))
        # A log that nobody trusts: another store's.
        with Place() as other:
            receipted(other)
            same(atoll(other, "attest", "-o", other.tmp + "/r", "--trusted-root", other.tmp + "/root").status, 0, "other root")
            bad = tool("node", packages + "/check-bundle.mjs", bundle, other.tmp + "/root", key)
            check(bad.returncode != 0, "another store's log is trusted")
    same([line for line in open(ROOT + "/test/npm/package-lock.json") if "resolved" in line or "http" in line], [],
         "hosts in the lock file")


# ---- atoll verify --receipt -----------------------------------------------------------------------------------------

@test("verify says yes to a receipt, its log and its files; and of each what is wrong, with a status of its own")
def _():
    with Place() as place:
        path = receipted(place)
        log = glob.glob(store(place) + "/log/????????.jsonl")[0]
        write(place.tmp + "/f/out.txt", "built\n")
        write(place.tmp + "/f/d/data", b"a\0b")
        flags = ["--root", place.tmp + "/f", "--log", log]
        good = verify(place, path, *flags)
        same(good.status, 0, "verify: " + good.err)
        check("2 of 2" in good.out and "it tells the same" in good.out, good.out)
        same(verify(place, path, "--key", public_key(place)[0]).status, 0, "with the public key alone")

        def refused(status, words, receipt=path, *more):
            bad = verify(place, receipt, *more)
            same((bad.status, words in bad.err), (status, True), "%s: %s" % (words, bad.err))
            same(bad.err.count("\n"), 1, "lines: " + bad.err)
        # 2: the signature. A bit in either payload.
        first = open(path).readline()
        for at in (first.index('"payload":"') + 400, len(first) + first.index('"payload":"') + 400):
            refused(2, "changed since", flipped(place, path, at))
        # Half of one; and 3: none.
        write(place.tmp + "/half", first)
        refused(2, "is missing", place.tmp + "/half")
        write(place.tmp + "/none", "{}\n")
        refused(3, "no DSSE envelope", place.tmp + "/none")
        # 4: files.
        write(place.tmp + "/f/out.txt", "other\n")
        refused(4, "out.txt' is not what the run has left", path, "--root", place.tmp + "/f")
        os.remove(place.tmp + "/f/out.txt")
        refused(4, "out.txt' is missing", path, "--root", place.tmp + "/f")
        os.symlink("/dev/zero", place.tmp + "/f/out.txt")
        same(verify(place, path, "--root", place.tmp + "/f").status, 4, "a link in its place")
        # 5: the log, changed, cut, or another's.
        lines = open(log, "rb").read().splitlines(keepends=True)
        write(place.tmp + "/cut.jsonl", b"".join(lines[:-1]))
        same(verify(place, path, "--log", place.tmp + "/cut.jsonl").status, 5, "a log without its end")
        write(place.tmp + "/changed.jsonl", b"".join(lines).replace(b"out.txt", b"out.txu"))
        same(verify(place, path, "--log", place.tmp + "/changed.jsonl").status, 5, "a changed log")
        same(run(place, [], ["true"], mode="layer").status, 0, "another run")
        another = [name for name in glob.glob(store(place) + "/log/????????.jsonl") if name != log][0]
        same(verify(place, path, "--log", another).status, 5, "another run's log")


@test("two receipts' halves do not make one")
def _():
    with Place() as place:
        one = open(receipted(place)).read().splitlines(keepends=True)
        two = open(receipted(place, "echo other >out.txt")).read().splitlines(keepends=True)
        write(place.tmp + "/mixed", one[0] + two[1])
        bad = verify(place, place.tmp + "/mixed")
        same(bad.status, 2, bad.err)


@test("a stranger's receipt is no good without his key, and good with it; --key signs with another")
def _():
    need("openssl")
    with Place() as his, Place() as mine:
        path = receipted(his)
        receipted(mine)
        bad = verify(mine, path)
        same(bad.status, 2, "without his key: " + bad.err)
        same(verify(mine, path, "--key", public_key(his)[0]).status, 0, "with his key")
        key = mine.tmp + "/key.pem"
        same(tool("openssl", "genpkey", "-algorithm", "ed25519", "-out", key).returncode, 0, "genpkey")
        same(tool("openssl", "pkey", "-in", key, "-pubout", "-out", key + ".pub").returncode, 0, "pubout")
        same(atoll(mine, "attest", "-o", mine.tmp + "/r", "--key", key).status, 0, "attest --key")
        same(verify(mine, mine.tmp + "/r").status, 2, "with the store's key")
        good = verify(mine, mine.tmp + "/r", "--key", key + ".pub", "--log-key", public_key(mine)[0])
        same(good.status, 0, "with both: " + good.err)
        same(tool("openssl", "genrsa", "-out", key).returncode, 0, "genrsa")
        same(atoll(mine, "attest", "--key", key).status, 240, "with an RSA key")


@test("a receipt outlives its key: hand-overs tie the new one to it")
def _():
    with Place() as place:
        path = receipted(place)
        rotated = atoll(place, "key", "rotate")
        same(rotated.status, 0, rotated.err)
        good = verify(place, path)
        same(good.status, 0, "after a rotation: " + good.err)
        later = atoll(place, "attest", "-o", place.tmp + "/later")
        same(later.status, 0, "a receipt of the old log: " + later.err)
        keys = [statements(one)[1][0]["signatures"][0]["keyid"] for one in (path, place.tmp + "/later")]
        check(keys[0] != keys[1], "the same key: %s" % keys)
        same(verify(place, place.tmp + "/later").status, 0, "and it is good")


@test("no byte of a receipt can be changed unseen")
def _():
    with Place() as place:
        path = receipted(place, "echo x >x")
        data = open(path, "rb").read()
        accepted = []
        for at in range(0, len(data), max(1, len(data) // 25)):
            # What stands outside the signature is the hint which key it was, and base64 has bits that mean nothing.
            bad = verify(place, flipped(place, path, at))
            if bad.status == 0:
                accepted.append(data[max(0, at - 30):at + 5])
        check(all(b"keyid" in place_ for place_ in accepted), "accepted with a change at %r" % accepted)


# ---- the workspace's digest, and replay -----------------------------------------------------------------------------

def tree_digest(top, left_out=(b".git",)):
    """As doc/record.md says, written again."""
    entries = []
    for directory, names, files in os.walk(os.fsencode(top)):
        for name in names + files:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, os.fsencode(top))
            if any(part in left_out for part in relative.split(b"/")):
                continue
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                head = "l - " + hashlib.sha256(os.readlink(path)).hexdigest()
            elif stat.S_ISDIR(st.st_mode):
                head = "d %o -" % (st.st_mode & 0o7777)
            elif stat.S_ISREG(st.st_mode):
                head = "f %o %s" % (st.st_mode & 0o7777, hashlib.sha256(open(path, "rb").read()).hexdigest())
            else:
                head = "o - -"
            entries.append((relative, head.encode() + b" " + relative + b"\0"))
    return hashlib.sha256(b"".join(text for _, text in sorted(entries))).hexdigest()


@test("the digest of the workspace is what anybody computes; hidden files and .git are not in it")
def _():
    with Place() as place:
        os.symlink("f", place.ws + "/link")
        os.mkfifo(place.ws + "/fifo")
        write(os.fsencode(place.ws) + b"/b\xff", "x")
        write(place.ws + "/src/deep/er/x.sh", "#!/bin/sh\n", 0o755)
        place.settle()
        want = tree_digest(place.ws)
        write(place.ws + "/.env", "KEY=%s\n" % place.secret)
        place.settle()
        (provenance, _), _ = statements(receipted(place, "true", ["--hide", place.ws + "/.env"]))
        found = {one["name"]: one["digest"] for one in
                 provenance["predicate"]["buildDefinition"]["resolvedDependencies"]}
        same(found["workspace"], {"sha256": want}, "workspace")
        same(found["git HEAD"], {"gitCommit": git(place.ws, "rev-parse", "HEAD").stdout.strip()}, "HEAD")


@test("a replay of what is deterministic comes out the same, and leaves nothing behind")
def _():
    with Place() as place:
        path = receipted(place)
        before = snapshot(place.ws)
        records = atoll(place, "ls", "--json", "--all").out
        again = atoll(place, "replay", path)
        same(again.status, 0, "replay: %s%s" % (again.out, again.err))
        check("same: 4 of 4" in again.out, again.out)
        same(difference(before, snapshot(place.ws)), "", "the workspace")
        same(atoll(place, "ls", "--json", "--all").out, records, "records")


@test("a replay tells what differs, what is missing and what is new")
def _():
    with Place() as place:
        script = "if [ -e %s/flag ]; then echo y >a; echo n >new; else echo x >a; echo m >gone; fi; echo s >same" % place.out
        path = receipted(place, script, ["--read", place.out])
        write(place.out + "/flag", "")
        place.settle()
        again = atoll(place, "replay", path)
        same(again.status, 1, "status: %s%s" % (again.out, again.err))
        check("differs: a\n" in again.out and "missing: gone\n" in again.out and "new: new\n" in again.out, again.out)
        told = json.loads(atoll(place, "replay", path, "--json").out)
        same({key: [entry["name"] for entry in told[key]] for key in ("differs", "missing", "new")},
             {"differs": ["a"], "missing": ["gone"], "new": ["new"]}, "as JSON")
        same(told["input"], "same", "input")


@test("a replay on other files says so first, and runs only if told to")
def _():
    with Place() as place:
        path = receipted(place, "cat f >copy")
        write(place.ws + "/f", "other\n")
        place.settle()
        refused = atoll(place, "replay", path)
        same(refused.status, 2, "status: " + refused.err)
        check("is not what the run began with" in refused.err, refused.err)
        same(refused.out, "", "what it says it compared")
        anyway = atoll(place, "replay", path, "--anyway")
        same(anyway.status, 1, "anyway: %s%s" % (anyway.out, anyway.err))
        check("differs: copy" in anyway.out, anyway.out)


@test("the digest of the image is what anybody computes, and another one is told before a replay")
def _():
    with Place() as place:
        root = image(place)
        write(root + "/opt/.git/config", "of the image, too\n")
        os.symlink("nowhere", root + "/opt/link")
        place.settle()
        job = job_file(place, {"command": ["/bin/sh", "-c", "cat /etc/here >copy"], "image": {"root": root}})
        path = place.tmp + "/receipt"

        def told():
            need_layers()
            result = run(place, ["-f", job, "--receipt", path], None, mode="layer")
            same(result.status, 0, "the run: " + result.err)
            (provenance, _), _ = statements(path)
            return {one["name"]: one["digest"] for one in provenance["predicate"]["buildDefinition"]["resolvedDependencies"]}
        same(told()["image"], {"sha256": tree_digest(root, ())}, "the image's digest")
        same(verify(place, path).status, 0, "verify")
        again = atoll(place, "replay", path, "--json")
        same((again.status, json.loads(again.out)["image"]), (0, "same"), "replay: " + again.err)

        def changes(how, what):
            first = tree_digest(root, ())
            how()
            place.settle()
            check(tree_digest(root, ()) != first, "our own digest does not see it")
            refused = atoll(place, "replay", path)
            same((refused.status, refused.out), (2, ""), "%s: %s" % (what, refused.err))
            check("the image '%s' is not what the run had" % root in refused.err and "nothing was run" in refused.err, refused.err)
            same(json.loads(atoll(place, "replay", path, "--json").out)["image"], "differs", what)
            same(told()["image"], {"sha256": tree_digest(root, ())}, what + ": the new digest")
        changes(lambda: os.chmod(root + "/usr/bin/id", 0o700), "a mode")
        changes(lambda: write(root + "/opt/.git/config", "other\n"), "a file")
        changes(lambda: (os.unlink(root + "/opt/link"), os.symlink("elsewhere", root + "/opt/link")), "a link")
        write(root + "/etc/here", "of another\n")
        place.settle()
        anyway = atoll(place, "replay", path, "--anyway")
        same(anyway.status, 1, "anyway: %s%s" % (anyway.out, anyway.err))
        check("differs: copy" in anyway.out, anyway.out)
        (provenance, _), _ = statements(receipted(place, "true"))
        check("image" not in [one["name"] for one in provenance["predicate"]["buildDefinition"]["resolvedDependencies"]], "an image without one")


@test("a run that wrote directly has the same names, and is replayed in a layer; other writable places only if told to")
def _():
    with Place() as place:
        place.expect("made")
        path = place.tmp + "/receipt"
        result = run(place, ["--receipt", path], inside_sh("echo y >made; echo z >>f"), mode="direct")
        same(result.status, 0, result.err)
        check({"made", "f"} <= set(subjects(statements(path)[0][0])), "subjects: %r" % subjects(statements(path)[0][0]))
        same(verify(place, path, "--root", place.ws).status, 0, "verify with the files")
        same(atoll(place, "replay", path).status, 2, "replay on what it has changed itself")
        os.remove(place.ws + "/made")
        git(place.ws, "checkout", "-q", "f")
        if not BARE:
            again = atoll(place, "replay", path)
            same((again.status, os.path.exists(place.ws + "/made")), (0, False), again.out + again.err)
        result = run(place, ["--receipt", path, "--write", place.out], ["true"], mode="direct")
        same(result.status, 0, result.err)
        refused = atoll(place, "replay", path)
        check(refused.status == 241 and "--anyway" in refused.err, "with another writable place: " + refused.err)


@test("a replay runs nothing that a stranger has signed, or that was changed")
def _():
    with Place() as his, Place() as mine:
        path = receipted(his, "echo x >x")
        receipted(mine)
        refused = atoll(mine, "replay", path)
        check(refused.status in (240, 241) and "not signed" in refused.err, "a stranger's: %d %s" % (refused.status, refused.err))
        refused = atoll(his, "replay", flipped(his, path))
        check(refused.status in (240, 241), "a changed one: %d %s" % (refused.status, refused.err))


@test("secrets on the command line are not in the receipt, and then there is no replay")
def _():
    with Place() as place:
        token = "ghp_" + "a1B2" * 9
        path = place.tmp + "/receipt"
        result = run(place, ["--receipt", path, "--env", "API_TOKEN=" + token], ["sh", "-c", "true", token], mode="layer")
        same(result.status, 0, result.err)
        payloads = json.dumps(statements(path)[0])
        check(token not in payloads, "the token is in the receipt")
        refused = atoll(place, "replay", path)
        same(refused.status, 240, refused.err)
        check("secret" in refused.err, refused.err)


main()
