# SPDX-License-Identifier: Apache-2.0
# check: seconds 98
# check: user only
# check: sanitized
# check: bare
"""
Family K of the escape corpus: policy, approval, jobs (POL), and more of the same kind (POL-X)

later:
  POL-13, POL-14  approvals: nothing asks a person yet; `approval` in a job file is refused as not yet available (POL-X2)
  POL-16          an approved name with another address: comes with network rules
  POL-10          inputs and outputs of a job: it has none yet; its paths are tried
  POL-17          merging of three configuration places: there is one job file and flags, and nothing else is read (POL-04)
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

RAN = {"command": ["/bin/sh", "-c", "echo ran; touch ran"]}


def refuse(place, flags, command=None, how=REFUSED, named=None, **options):
    """atoll says no, in one clean line, and nothing has run."""
    result = run(place, flags, command, starts=False, timeout=options.pop("timeout", 20), **options)
    shown = " ".join(str(f) for f in flags)[:200]
    has_run = "ran" in result.out.split() or os.path.exists(place.ws + "/ran")
    with contextlib.suppress(OSError):
        os.unlink(place.ws + "/ran")
    check(not has_run, "the command ran: %s" % shown)
    among(result.status, how, shown)
    lines = result.err.splitlines()
    same(len(lines), 1, "lines of the message for %s: %r" % (shown, result.err[:500]))
    check(lines[0].startswith("atoll: ") and len(lines[0]) < 1024, "the message for %s: %r" % (shown, lines[0][:300]))
    check(all(c.isprintable() for c in lines[0]), "control characters in the message: %r" % lines[0])
    if named:
        check(named in lines[0], "the message does not name %r: %s" % (named, lines[0]))
    return result


def plan(place, flags, command="true", **options):
    """The plan as {clause: [(subject, origin, strength)]}; and the whole."""
    result = run(place, ["--plan", "--json", *flags], command, **options)
    same(result.status, 0, "status of --plan: %s" % result.err)
    whole = json.loads(result.out)
    clauses = {}
    for line in whole["clauses"]:
        clauses.setdefault(line["clause"], []).append((line["subject"], line["origin"], line["strength"]))
    return clauses, whole


OK_COMMAND = "command: [/bin/sh, -c, 'echo ran; touch ran']\n"
# What is wrong, the file, and the line that the message must name (0: none).
MALFORMED = [
    ("unknown key", OK_COMMAND + "wirte: [x]\n", 2),
    ("unknown key below", OK_COMMAND + "filesystem:\n  wirte: [x]\n", 3),
    ("unknown key, key of another section", OK_COMMAND + "read: [/tmp]\n", 2),
    ("upper case key", OK_COMMAND + "Filesystem: {}\n", 2),
    ("wrong type, text for a list", OK_COMMAND + "filesystem:\n  read: /srv\n", 3),
    ("wrong type, list for text", OK_COMMAND + "identity: [offline]\n", 2),
    ("wrong type, mapping for a list", OK_COMMAND + "filesystem:\n  read: {a: b}\n", 3),
    ("wrong type, number for a list", OK_COMMAND + "filesystem:\n  read: 1\n", 3),
    ("wrong type, list for a mapping", OK_COMMAND + "filesystem: []\n", 2),
    ("wrong type, text for a mapping", OK_COMMAND + "limits: none\n", 2),
    ("nested list", OK_COMMAND + "filesystem:\n  read: [[/srv]]\n", 3),
    ("number in a list of paths", OK_COMMAND + "filesystem:\n  read: [{}]\n", 3),
    ("duplicate key", OK_COMMAND + OK_COMMAND, 2),
    ("duplicate key below", OK_COMMAND + "filesystem:\n  read: [/srv]\n  read: [/opt]\n", 4),
    ("duplicate key in JSON", '{"command": ["true"], "command": ["touch", "ran"]}\n', 1),
    ("two documents", OK_COMMAND + "---\n" + OK_COMMAND, 2),
    ("junk after JSON", '{"command": ["touch", "ran"]} x\n', 1),
    ("junk after the end", OK_COMMAND + "...\njunk\n", 0),
    ("anchor and alias", "command: &a [touch, ran]\nfilesystem:\n  read: *a\n", 1),
    ("merge key", OK_COMMAND + "limits:\n  <<: {pids: 5}\n", 3),
    ("tag", OK_COMMAND + "identity: !!python/object:os.system offline\n", 2),
    ("own tag", OK_COMMAND + "identity: !x offline\n", 2),
    ("directive", "%TAG ! tag:example.com,2000:\n---\n" + OK_COMMAND, 0),
    ("billion laughs", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n" + OK_COMMAND, 1),
    ("deep nesting of lists", OK_COMMAND + "filesystem: " + "[" * 100000 + "]" * 100000 + "\n", 0),
    ("deep nesting, open", OK_COMMAND + "filesystem: " + "[" * 500000, 0),
    ("deep nesting of mappings", OK_COMMAND + "filesystem: " + "{a: " * 5000 + "}" * 5000 + "\n", 0),
    ("deep nesting by indentation", OK_COMMAND + "filesystem:\n" + "".join(" " * i + "a:\n" for i in range(1, 500)), 0),
    ("NUL byte", OK_COMMAND.encode() + b"identity: off\0line\n", 0),
    ("NUL in a path", OK_COMMAND + 'filesystem:\n  write: ["/tmp/a\\0b"]\n', 3),
    ("NUL in the command", 'command: ["touch\\0x", "ran"]\n', 1),
    ("invalid UTF-8", OK_COMMAND.encode() + b"identity: \xff\xfe\n", 0),
    ("UTF-16", OK_COMMAND.encode("utf-16"), 0),
    ("overlong UTF-8", OK_COMMAND.encode() + b"identity: \xc0\xaf\n", 0),
    ("surrogate", OK_COMMAND.encode() + b"identity: \xed\xa0\x80\n", 0),
    ("control character", OK_COMMAND.encode() + b"identity: a\x1b[2Jb\n", 0),
    ("terminal sequence as a key", OK_COMMAND + '"\\e]52;c;ZXZpbA==\\a": 1\n', 2),
    ("newline in a key", OK_COMMAND + '"a\\natoll: approved": 1\n', 2),
    ("very long key", OK_COMMAND + "k" * 100000 + ": 1\n", 2),
    ("long key that is close to one", OK_COMMAND + "filesystem" + "m" * 5000 + ": {}\n", 2),
    ("key that is a list", OK_COMMAND + "? [a, b]\n: c\n", 2),
    ("tab for indentation", OK_COMMAND + "limits:\n\tpids: 5\n", 3),
    ("unclosed quote", OK_COMMAND + 'identity: "offline\n', 0),
    ("unclosed list", OK_COMMAND + "filesystem:\n  read: [/srv\n", 0),
    ("a list at the top", "- " + OK_COMMAND, 1),
    ("a word at the top", "hello\n", 1),
    ("a number at the top", "1\n", 1),
    ("null at the top", "null\n", 0),
    ("empty", "", 0),
    ("blanks only", "\n\n   \n", 0),
    ("comments only", "# nothing\n", 0),
    ("separator only", "---\n", 0),
    ("no command", "identity: offline\n", 0),
    ("command empty list", "command: []\n", 1),
    ("command empty text", 'command: ""\n', 1),
    ("command null", "command: null\n", 1),
    ("command of numbers", "command: {a: 1}\n", 1),
    ("command with an empty program", 'command: [""]\n', 0),
    ("version of the future", "version: 2\n" + OK_COMMAND, 1),
    ("version text", "version: one\n" + OK_COMMAND, 1),
    ("version null", "version:\n" + OK_COMMAND, 1),
    ("identity unknown", OK_COMMAND + "identity: root\n", 2),
    ("identity null", OK_COMMAND + "identity: null\n", 2),
    ("tier unknown", OK_COMMAND + "isolation:\n  tier: none\n", 3),
    ("mode unknown", OK_COMMAND + "workspace:\n  mode: none\n", 3),
    ("weaker unknown", OK_COMMAND + "isolation:\n  accept-weaker: [all]\n", 3),
    ("weaker star", OK_COMMAND + "isolation:\n  accept-weaker: ['*']\n", 3),
    ("network off, with a host", OK_COMMAND + "network:\n  mode: off\n  allow: [example.org]\n", 4),
    ("network yes", OK_COMMAND + "network: yes\n", 2),
    ("network true", OK_COMMAND + "network: true\n", 2),
    ("read null", OK_COMMAND + "filesystem:\n  read: null\n", 3),
    ("read nothing", OK_COMMAND + "filesystem:\n  read:\n", 3),
    ("write null", OK_COMMAND + "filesystem:\n  write: ~\n", 3),
    ("filesystem null", OK_COMMAND + "filesystem:\n", 2),
    ("limits null", OK_COMMAND + "limits:\n", 2),
    ("empty path", OK_COMMAND + "filesystem:\n  write: ['']\n", 3),
    ("null path", OK_COMMAND + "filesystem:\n  write: [null]\n", 3),
    ("star to write", OK_COMMAND + "filesystem:\n  write: ['*']\n", 3),
    ("stars to write", OK_COMMAND + "filesystem:\n  write: ['/**']\n", 3),
    ("star to read", OK_COMMAND + "filesystem:\n  read: ['*']\n", 3),
    ("root to write", OK_COMMAND + "filesystem:\n  write: [/]\n", 3),
    ("root to write, accepted", OK_COMMAND + "filesystem:\n  write: [/]\n  accept-broad: [/]\n", 0),
    ("root by slashes", OK_COMMAND + "filesystem:\n  write: [///]\n", 3),
    ("root by dots", OK_COMMAND + "filesystem:\n  write: [/tmp/..]\n", 3),
    ("root to read", OK_COMMAND + "filesystem:\n  read: [/]\n", 3),
    ("home to write", OK_COMMAND + "filesystem:\n  write: ['~']\n", 3),
    ("home to read, by slash", OK_COMMAND + "filesystem:\n  read: ['~/']\n", 3),
    ("system to write", OK_COMMAND + "filesystem:\n  write: [/etc]\n", 3),
    ("system below to write", OK_COMMAND + "filesystem:\n  write: [/usr/local/bin]\n", 3),
    ("proc to write", OK_COMMAND + "filesystem:\n  write: [/proc]\n", 3),
    ("dev to read", OK_COMMAND + "filesystem:\n  read: [/dev]\n", 3),
    ("climbing path", OK_COMMAND + "filesystem:\n  write: [../x]\n", 3),
    ("climbing inside", OK_COMMAND + "filesystem:\n  write: [a/../../x]\n", 3),
    ("another's home", OK_COMMAND + "filesystem:\n  read: [~root/x]\n", 3),
    ("variable", OK_COMMAND + "filesystem:\n  read: [$HOME/x]\n", 3),
    ("variable in braces", OK_COMMAND + "filesystem:\n  read: ['${HOME}/x']\n", 3),
    ("workspace root", OK_COMMAND + "workspace: /\n", 2),
    ("workspace home", OK_COMMAND + "workspace: '~'\n", 2),
    ("workspace climbs", OK_COMMAND + "workspace: ../..\n", 2),
    ("workspace empty", OK_COMMAND + "workspace: ''\n", 2),
    ("workspace system", OK_COMMAND + "workspace: /etc\n", 2),
    ("cwd outside", OK_COMMAND + "workspace:\n  cwd: /\n", 3),
    ("cwd climbs", OK_COMMAND + "workspace:\n  cwd: ../x\n", 3),
    ("variable name with =", OK_COMMAND + "environment:\n  set: {'A=B': c}\n", 3),
    ("variable name empty", OK_COMMAND + "environment:\n  set: {'': c}\n", 3),
    ("variable name with a blank", OK_COMMAND + "environment:\n  pass: ['A B']\n", 3),
    ("variable star", OK_COMMAND + "environment:\n  pass: ['*']\n", 3),
    ("variable of the loader", OK_COMMAND + "environment:\n  pass: [LD_PRELOAD]\n", 3),
    ("variable of ours", OK_COMMAND + "environment:\n  set: {ATOLL_SANDBOX: '0'}\n", 3),
    ("descriptor 0", OK_COMMAND + "environment:\n  descriptors: [0]\n", 3),
    ("descriptor negative", OK_COMMAND + "environment:\n  descriptors: [-1]\n", 3),
    ("descriptor text", OK_COMMAND + "environment:\n  descriptors: [all]\n", 3),
    ("descriptor huge", OK_COMMAND + "environment:\n  descriptors: [99999999999999999999]\n", 3),
]


@test("POL-01 malformed job files: one line with the place, and nothing runs")
def _():
    with Place() as place:
        wrong = []
        for what, text, line in MALFORMED:
            path = job_file(place, text)
            try:
                refuse(place, ["-f", path], how=REFUSED, named=("job.yaml:%d:" % line) if line else None)
            except Failed as error:
                wrong.append("%s: %s" % (what, error))
        same(wrong, [], "%d of %d" % (len(wrong), len(MALFORMED)))
        path = job_file(place, OK_COMMAND)
        result = run(place, ["-f", path], None)
        same((result.status, result.out), (0, "ran\n"), "a good one")
        place.expect("ran")


@test("POL-01 what is harmless is no error: comments, a BOM, the end of a document")
def _():
    with Place() as place:
        place.expect("ran")
        for text in ("# a comment\n" + OK_COMMAND + "# another\n", "---\n" + OK_COMMAND + "...\n", json.dumps(RAN), json.dumps(RAN, indent=4), OK_COMMAND.replace("\n", "\r\n")):
            result = run(place, ["-f", job_file(place, text)], None)
            same((result.status, result.out), (0, "ran\n"), "%r" % text)
        os.unlink(place.ws + "/ran")
        result = run(place, ["-f", job_file(place, b"\xef\xbb\xbf" + OK_COMMAND.encode())], None, starts=False)
        among(result.status, (0, *REFUSED), "a BOM")


@test("POL-01 job files that are no plain small file")
def _():
    with Place() as place:
        big = place.tmp + "/big.yaml"
        with open(big, "wb") as file:
            file.write(OK_COMMAND.encode())
            file.truncate(100 << 20)
        began = time.monotonic()
        refuse(place, ["-f", big])
        padded = job_file(place, OK_COMMAND + "# " + "x" * (2 << 20) + "\n", "padded.yaml")
        refuse(place, ["-f", padded])
        os.mkfifo(place.tmp + "/fifo.yaml")
        refuse(place, ["-f", place.tmp + "/fifo.yaml"])
        for path in (place.tmp, "/dev/zero", "/dev/null", place.tmp + "/missing.yaml", "", "/proc/self/mem", place.tmp + "/" + "n" * 300, "/dev/full"):
            refuse(place, ["-f", path])
        s = socket.socket(socket.AF_UNIX)
        s.bind(place.tmp + "/sock.yaml")
        refuse(place, ["-f", place.tmp + "/sock.yaml"])
        s.close()
        os.symlink("loop.yaml", place.tmp + "/loop.yaml")
        refuse(place, ["-f", place.tmp + "/loop.yaml"])
        check(time.monotonic() - began < 20, "refusing took %.1f s" % (time.monotonic() - began))
        refuse(place, ["-f", "-"], stdin=b"")
        refuse(place, ["-f", "-"], stdin=b"x" * (3 << 20))
        refuse(place, ["-f", "-"], stdin=b"\0" * 4096)
        good = job_file(place, OK_COMMAND)
        refuse(place, ["-f", good, "-f", good])
        place.expect("ran")
        same(run(place, ["-f", "-"], None, stdin=OK_COMMAND).out, "ran\n", "a job on standard input")


@test("POL-02 missing and empty lists: empty never means all")
def _():
    with Place() as place:
        _, bare = plan(place, [], ["true"])
        for text in ("filesystem: {}", "filesystem:\n  read: []", "filesystem:\n  write: []", "filesystem:\n  hide: []", "filesystem:\n  protect: []", "filesystem:\n  sockets: []",
                     "filesystem:\n  accept-broad: []", "environment: {}", "environment:\n  pass: []", "environment:\n  set: {}", "environment:\n  descriptors: []", "limits: {}",
                     "isolation: {}", "isolation:\n  accept-weaker: []", "network: off"):
            path = job_file(place, 'command: ["true"]\n' + text + "\n")
            _, whole = plan(place, ["-f", path], None)
            same(whole["digest"], bare["digest"], "the contract with %r" % text)


@test("POL-02 broad grants need the same word twice, exactly")
def _():
    with Place() as place:
        command = inside_sh("echo ran; touch ran")
        for path in ("/", place.home, "~", "/home", "/root", "/etc", "/usr", "/var", "/opt", "/tmp", "/run", "/boot"):
            refuse(place, ["--write", path], command)
            refuse(place, ["--write", path, "--accept-broad", path + "x"], command)
            refuse(place, ["--write", path, "--accept-broad", "*"], command)
            refuse(place, ["--write", path, "--accept-broad", "/nowhere"], command)
            refuse(place, ["--workspace", path], command)
        for path in ("/proc", "/sys", "/dev", "/"):
            refuse(place, ["--write", path, "--accept-broad", path], command)
        for path in ("//", "/./", "/../..", place.ws + "/../../../../../../../../..", place.home + "/../home", place.home + "/", place.ws + "/../home/"):
            refuse(place, ["--write", path], command)
            refuse(place, ["--read", path], command)
        os.symlink(place.home, place.tmp + "/innocent")
        os.symlink("/", place.tmp + "/top")
        for path in ("/innocent", "/top", "/top" + place.home, "/innocent/.ssh"):
            refuse(place, ["--read", place.tmp + path], command)
            refuse(place, ["--write", place.tmp + path], command)


def _widening(place):
    """A job that reads what the default contract does not give."""
    return {"command": ["/bin/cat", place.out + "/secret.txt"], "filesystem": {"read": [place.out]}}


@test("POL-04 a policy that lies in the workspace is not looked for")
def _():
    with Place() as place:
        text = json.dumps({"filesystem": {"read": [place.out, place.home], "accept-broad": [place.home]}, "environment": {"pass": ["GITHUB_TOKEN"]}})
        names = ["atoll.yaml", "atoll.yml", "atoll.json", "atoll.toml", ".atoll.yaml", ".atoll", ".atollrc", ".atoll/config.yaml", ".atoll/config", "job.yaml", ".config/atoll/config.yaml", ".env",
                 ".tool-versions", "policy.yaml"]
        _, bare = plan(place, [], ["true"])
        for top in (place.ws, place.base, place.ws + "/src"):
            for name in names:
                if name == ".atoll" or (top == place.base and name == ".env"):
                    continue
                write(os.path.join(top, name), "ATOLL_CONFIG=./evil\n" if name == ".env" else text, 0o644)
        for name in names:
            if name not in (".atoll", ".env") and not name.startswith(".config"):
                write(os.path.join(place.home, name), text, 0o644)
        place.settle()
        for cwd in (place.ws, place.ws + "/src"):
            run(place, [], inside_sh('cat "$1/secret.txt" "$2/.ssh/id"; env; true', place.out, place.home), env={"GITHUB_TOKEN": place.secret}, cwd=cwd)
        _, now = plan(place, [], ["true"])
        same(now["digest"], bare["digest"], "the contract")


@test("POL-04 a job file in the workspace may narrow; to widen it needs recorded trust in its content")
def _():
    with Place() as place:
        path = write(place.ws + "/job.yaml", json.dumps(_widening(place)))
        place.settle()
        place.expect("copy.yaml")
        result = refuse(place, ["-f", "job.yaml"], how=(POLICY,), named="atoll trust")
        check("filesystem.read" in result.err and place.out in result.err, "the message does not name the clause: %s" % result.err)
        # Narrowing is fine.
        write(path, json.dumps({"command": ["/bin/sh", "-c", "echo fine; cat src/a.c"], "filesystem": {"hide": ["src"]}, "limits": {"pids": 50}}))
        result = run(place, ["-f", "job.yaml"], None)
        check("fine\n" in result.out and "int a" not in result.out, "a job that narrows")
        # Recorded trust is in this content, not in the name.
        write(path, json.dumps(_widening(place)))
        same(atoll(place, "trust", path).status, 0, "atoll trust")
        place.settle()
        check(place.secret in run(place, ["-f", "job.yaml"], None, leaks=True).out, "a trusted job")
        widened = _widening(place)
        widened["filesystem"]["read"].append(place.tmp)
        write(path, json.dumps(widened))
        refuse(place, ["-f", "job.yaml"], how=(POLICY,))
        write(path, json.dumps(_widening(place)) + "\n")
        refuse(place, ["-f", "job.yaml"], how=(POLICY,))
        # Outside of what the job can write it speaks for the user.
        check(place.secret in run(place, ["-f", job_file(place, _widening(place))], None, leaks=True).out, "a job file outside")


@test("POL-04 a job file cannot talk itself out of the workspace")
def _():
    # Whether a file needs trust must not depend on what that file says.
    with Place() as place:
        os.makedirs(place.ws + "/other")
        place.settle()
        place.expect("job.yaml", "link.yaml")
        read_out = _widening(place)
        tricks = {
            "a read-only workspace": {**read_out, "workspace": {"mode": "read-only"}},
            "another workspace beneath": {**read_out, "workspace": place.ws + "/other"},
            "another workspace beneath, relative": {**read_out, "workspace": "other"},
            "another workspace": {**read_out, "workspace": place.tmp},
            "itself for reading": {**read_out, "filesystem": {"read": [place.out, place.ws + "/job.yaml"]}},
            "itself for reading, relative": {**read_out, "filesystem": {"read": [place.out, "job.yaml"]}},
            "the workspace for reading": {**read_out, "filesystem": {"read": [place.out, place.ws]}},
            "itself hidden": {**read_out, "filesystem": {"read": [place.out], "hide": [place.ws + "/job.yaml"]}},
            "itself hidden by a pattern": {**read_out, "filesystem": {"read": [place.out], "hide": ["**/*.yaml"]}},
            "itself protected": {**read_out, "filesystem": {"read": [place.out], "protect": ["job.yaml"]}},
            "a workspace next to it": {**read_out, "workspace": place.out, "filesystem": {}},
            "the secret as workspace": {"command": ["/bin/cat", "secret.txt"], "workspace": place.out},
            "a home as workspace": {"command": ["/bin/cat", "public.txt"], "workspace": place.home, "filesystem": {"accept-broad": [place.home]}},
        }
        wrong = []
        for what, job in tricks.items():
            write(place.ws + "/job.yaml", json.dumps(job))
            for path in ("job.yaml", place.ws + "/job.yaml"):
                try:
                    refuse(place, ["-f", path])
                except Failed as error:
                    wrong.append("%s: %s" % (what, str(error)[:150]))
                    break
        # Roads to the same file.
        write(place.ws + "/job.yaml", json.dumps(read_out))
        os.symlink("job.yaml", place.ws + "/link.yaml")
        os.symlink(place.ws, place.tmp + "/ws-link")
        for path in ("link.yaml", "./src/../job.yaml", "/proc/self/cwd/job.yaml", place.tmp + "/ws-link/job.yaml"):
            try:
                refuse(place, ["-f", path])
            except Failed as error:
                wrong.append("-f %s: %s" % (path, str(error)[:150]))
        same(wrong, [], "job files that were believed")


@test("POL-04 every kind of widening in a job file of the workspace needs trust")
def _():
    with Place() as place:
        place.expect("job.yaml", "s.sock")
        os.makedirs(place.ws + "/d")
        s = socket.socket(socket.AF_UNIX)
        s.bind(place.out + "/s.sock")
        place.settle()
        widenings = [
            {"filesystem": {"write": [place.out]}}, {"filesystem": {"read": [place.home + "/public.txt"]}}, {"filesystem": {"read": [place.home + "/.npmrc"]}},
            {"filesystem": {"sockets": [place.out + "/s.sock"]}}, {"filesystem": {"accept-broad": [place.home], "read": [place.home]}},
            {"environment": {"pass": ["GITHUB_TOKEN"]}}, {"environment": {"descriptors": [9]}},
            {"limits": {"memory": "unlimited"}}, {"limits": {"wall": "10h"}}, {"limits": {"pids": "unlimited"}}, {"limits": {"output": "unlimited"}}, {"limits": {"disk": "unlimited"}},
            {"isolation": {"accept-weaker": ["memory"]}},
        ]
        wrong = []
        null = os.open("/dev/null", os.O_RDWR)
        for job in widenings:
            write(place.ws + "/job.yaml", json.dumps({**RAN, **job}))
            try:
                refuse(place, ["-f", "job.yaml"], env={"GITHUB_TOKEN": "x"}, fds={9: null})
            except Failed as error:
                wrong.append("%s: %s" % (json.dumps(job), str(error)[:150]))
        s.close()
        os.close(null)
        same(wrong, [], "clauses that were believed")


@test("POL-04 a write line on a protected name does not open it")
def _():
    for lines in ([".git/hooks"], [".git"], [".git", ".git/hooks"], [".git/config", ".git/hooks/pre-commit.sample"]):
        for by_flag in (True, False):
            with Place() as place:
                place.expect("job.yaml")
                before = snapshot(place.ws + "/.git")
                command = ["/bin/sh", "-c", "(echo evil >.git/hooks/pre-commit); (echo evil >.git/hooks/pre-commit.sample); (echo evil >>.git/config); true"]
                if by_flag:
                    run(place, sum((["--write", line] for line in lines), []), command, starts=False)
                else:
                    write(place.ws + "/job.yaml", json.dumps({"command": command, "filesystem": {"write": lines}}))
                    run(place, ["-f", "job.yaml"], None, starts=False)
                same(difference(before, snapshot(place.ws + "/.git")), "", ".git with write lines on %s" % lines)


@test("POL-05 the run rewrites its own policy, trust and state for next time")
def _():
    with Place() as place:
        os.makedirs(place.home + "/.local/state", exist_ok=True)
        write(place.ws + "/job.yaml", json.dumps({"command": ["/bin/sh", "-c", r"""
            (echo x >job.yaml); (echo x >>job.yaml); mv job.yaml j2; rm -f job.yaml; ln -sf f job.yaml; cp f job.yaml; mkdir n; echo evil >n/job.yaml; mv n/job.yaml job.yaml; ln job.yaml hard; (echo x >hard); true"""]}))
        place.settle()
        place.expect("n", "hard", "j2")
        before = read(place.ws + "/job.yaml")
        run(place, ["-f", "job.yaml"], None)
        same(read(place.ws + "/job.yaml"), before, "the job file")
        check(not os.path.islink(place.ws + "/job.yaml"), "the job file became a link")
        # The trust store and state, even in a home that is granted.
        same(atoll(place, "trust", place.ws + "/job.yaml").status, 0, "atoll trust")
        place.settle()
        broad = ["--write", place.home, "--accept-broad", place.home]
        result = run(place, broad, inside_sh(r"""
            cd "$1" || exit 9
            for d in .config/atoll .local/state/atoll .local/share/atoll; do mkdir -p $d; (echo evil >>$d/trusted); (echo evil >$d/x); rm -rf $d; mv $d moved; rm -rf moved; done
            mv .config c2 && { mkdir -p .config/atoll; echo evil >.config/atoll/trusted; rm -rf .config; mv c2 .config; }; ls -a .config/atoll; cat .config/atoll/trusted; true""", place.home), leaks=True)
        check("cannot" in result.err or "denied" in result.err or "not permitted" in result.err, "nothing was refused: %s" % result.err)
        check("job.yaml" not in result.out, "the trust store can be read")
        # leaving the Place checks that home is unchanged


@test("POL-05 a trust store that the sandbox can write is not believed")
def _():
    with Place() as place:
        place.expect("cfg", "job.yaml")
        write(place.ws + "/job.yaml", json.dumps(_widening(place)))
        digest = hashlib.sha256(read(place.ws + "/job.yaml")).hexdigest()
        for variable, inside in (("XDG_CONFIG_HOME", "cfg"), ("HOME", ".config")):
            env = {variable: place.ws if variable == "HOME" else place.ws + "/cfg"}
            result = run(place, [], inside_sh('mkdir -p "$1/atoll" && echo "$2 x" >"$1/atoll/trusted" && chmod 600 "$1/atoll/trusted"; mkdir y; mv y "$1/atoll"; true', inside, digest), starts=False, env=env)
            place.expect("y", ".config")
            result = run(place, ["-f", "job.yaml"], None, env=env, starts=False)
            among(result.status, REFUSED, "%s in the workspace" % variable)


@test("POL-07 paths are resolved once, against a stated base, and the plan shows the result")
def _():
    with Place() as place:
        os.makedirs(place.ws + "/sub/deep")
        write(place.home + "/mine/x", "x\n", 0o644)
        place.settle()

        def reads(flags, command="true", cwd=None):
            clauses, _ = plan(place, flags, command, cwd=cwd)
            return [subject for subject, origin, _ in clauses.get("filesystem.read", []) if origin != "default"]
        for text, wanted in (("~/mine", place.home + "/mine"), ("~/mine/", place.home + "/mine"), (place.out, place.out), (place.out + "/", place.out), ("../out", place.out),
                             ("./sub/../../out/./", place.out), (place.out + "//", place.out)):
            same(reads(["--read", text]), [wanted], "--read %s" % text)
        same(reads(["--read", "../../out"], cwd=place.ws + "/sub"), [place.out], "--read ../../out from a subdirectory")
        for text in ("~root/x", "~nobody", "$HOME/mine", "${HOME}/mine", "$(pwd)", "`pwd`", "%h"):
            refuse(place, ["--read", text], "touch ran")
        os.mkdir(place.tmp + "/jobs")
        path = job_file(place, {"command": ["true"], "filesystem": {"read": ["~/mine"], "protect": ["sub"]}}, "jobs/job.yaml")
        for cwd in (place.ws, place.ws + "/sub"):
            clauses, _ = plan(place, ["-f", path, "--workspace", place.ws], None, cwd=cwd)
            said = [(s, o) for s, o, _ in clauses["filesystem.read"] if o != "default"]
            same([s for s, _ in said], [place.home + "/mine"], "read in a job file")
            check("job.yaml:1" in said[0][1], "the origin of a line: %s" % said[0][1])
            check(place.ws + "/sub" in [s for s, _, _ in clauses["filesystem.protect"]], "protect in a job file: %s" % clauses.get("filesystem.protect"))


@test("POL-07 HOME that is missing, empty, relative, a link, or somebody else's")
def _():
    with Place() as place:
        os.symlink(place.home, place.base + "/home-link")
        for home in (None, "", "relative", ".", "/", "/nonexistent", place.base + "/home-link", place.home + "/", "//" + place.home, place.home + "/../home", place.ws, place.out, "/etc", "/proc/self", "x" * 5000, "/a\nb"):
            # The record, and the list of places that runs have written, would be kept there.
            result = run(place, ["--record", "off"], inside_sh('echo "$HOME"; cat "$1/.ssh/id" "$1/.npmrc" "$HOME/.ssh/id" ~/.ssh/id "$2/secret.txt"; true', place.home, place.out), env={"HOME": home, "XDG_STATE_HOME": place.tmp + "/state"}, starts=False)
            among(result.status, (0, *REFUSED), "HOME=%r" % (home if home is None else home[:40]))


NUMBERS = {
    "--memory": ["0", "-1", "1e99", "18446744073709551616", "18446744073709551615", "1", "10gg", "g", "", " 1G", "1G ", "1.G", "0x100000", "NaN", "inf", "1G1", "1,5G", "+1G", "99999P", "1_000M", "４G", "010M", "-0"],
    "--timeout": ["0", "0s", "-1s", "1e99", "18446744073709551616", "1y", "1s1h", "1h1h", "", "s", "1 s", "infinity", "400d", "-", "0.0001ms", "1:30"],
    "--cpu-time": ["0", "-1", "1x", "", "18446744073709551616s"],
    "--pids": ["0", "-1", "1", "1.5", "1e3", "4294967296", "18446744073709551620", "", "many", "0x10", "1K"],
    "--cpus": ["0", "-1", "0.0001", "1e1", "99999999", "", "two", "1,5", "-0.5", "NaN"],
    "--disk": ["0", "-1", "1", "18446744073709551616", "", "10gg"],
    "--files": ["0", "-1", "", "1.5", "99999999999"],
    "--open-files": ["0", "3", "-1", "", "99999999999"],
    "--output": ["0", "-1", "", "1e9", "x"],
    "--fd": ["-1", "0", "1", "2", "3x", "", "99999999999", "1000000", "0x9", " 9", "9 ", "all"],
    "--identity": ["root", "", "0", "Offline", "offline "],
    "--accept-weaker": ["all", "*", "", "everything", "Memory"],
    "--env": ["", "=x", "A B=1", "1A=x", "A-B=x", "ATOLL_SANDBOX=0", "ATOLL_X=1", "A\nB=1", "\xff=1"],
}


@test("POL-08 numbers and words out of range")
def _():
    with Place() as place:
        wrong = []
        for flag, values in NUMBERS.items():
            for value in values:
                for flags in ([flag, value], ["%s=%s" % (flag, value)]):
                    try:
                        refuse(place, flags, "echo ran; touch ran", how=(BAD_REQUEST, POLICY))
                    except Failed as error:
                        wrong.append(str(error)[:200])
        same(wrong, [], "%d values" % len(wrong))
        for flags in (["--memory", "512M"], ["--memory", "0.5G"], ["--timeout", "1h30m"], ["--pids", "64"], ["--cpus", "0.5"], ["--output", "64K"], ["--open-files", "64"], ["--memory", "unlimited"]):
            clauses, whole = plan(place, flags)
            check(whole["digest"], "a plan with %s" % flags)


@test("POL-08 flags that do not make sense")
def _():
    with Place() as place:
        command = ["/bin/sh", "-c", "echo ran; touch ran"]
        for flags in (["--wirte", "x"], ["-x"], ["--write"], ["--read="], ["--plan=yes"], ["--quiet=1"], ["-qf", "x"], ["--"], ["--privileged"], ["--no-sandbox"], ["--network", "open"], ["--write\n"], ["--\x1b[2J"], ["-"],
                      ["--hide", "a/../../**/x"], ["--hide", "[a"], ["--chdir", "/"], ["--read", "\x1b]0;x\x07"], ["--tier", "none"]):
            if flags == ["--"]:
                result = Running(place, [ATOLL, "run", "--"], starts=False).wait()
                among(result.status, REFUSED, "no command")
                continue
            if flags == ["-"]:
                result = run(place, flags, command, starts=False)
                check(result.status != 0 and not os.path.exists(place.ws + "/ran"), "'-' as an option")
                continue
            refuse(place, flags, command)
        for args in ([], ["run"], ["frobnicate"], ["run", "--plan"], ["trust"], ["trust", "a", "b"], ["trust", "/nonexistent"], ["doctor", "x"], ["schema", "--x"], ["\x1b[2J"], [""]):
            result = Running(place, [ATOLL, *args], starts=False).wait(20)
            check(result.status in REFUSED or (args == [] and result.status == BAD_REQUEST), "atoll %s: status %d" % (args, result.status))
            check("\x1b" not in result.err, "control characters in the message for %s" % args)


@test("POL-10 paths of a job: workspace, links, glob")
def _():
    with Place() as place:
        os.makedirs(place.tmp + "/jobs")
        os.symlink(place.out, place.tmp + "/wl")
        os.symlink("jobs", place.tmp + "/jobs-link")
        for job in ({"workspace": place.tmp + "/wl"}, {"workspace": place.tmp + "/*"}, {"workspace": "/"}, {"workspace": {"path": place.ws, "cwd": place.out}}, {"workspace": {"path": place.ws, "cwd": "/etc"}},
                    {"filesystem": {"write": [place.tmp + "/wl"]}}, {"filesystem": {"read": [place.tmp + "/wl/canary"]}}, {"filesystem": {"write": ["/etc/cron.d/x"]}}, {"filesystem": {"read": ["../../../etc/passwd"]}},
                    {"filesystem": {"sockets": ["../x"]}}, {"filesystem": {"write": [place.out + "/missing"]}}, {"workspace": place.tmp + "/missing"}, {"workspace": place.out + "/canary"}):
            refuse(place, ["-f", job_file(place, {**RAN, **job})])
        # A job directory that is reached by a link is taken where it really is.
        job_file(place, {**RAN, "filesystem": {"protect": ["src"]}}, "jobs/job.yaml")
        result = run(place, ["-f", place.tmp + "/jobs-link/job.yaml"], None, starts=False)
        among(result.status, (0, *REFUSED), "a job in a linked directory")
        place.expect("ran")


@test("POL-11 arguments: long, many, odd")
def _():
    with Place() as place:
        for argument in ("x" * 100000, "", "new\nline", "\udcff\udcfe", "--", "-x", "$(touch ran)", "`touch ran`", "; touch ran", "'\"\\", "\x1b[2J"):
            result = run(place, [], [PYTHON, "-I", "-c", "import os,sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))", argument])
            same(result.raw_out, os.fsencode(argument), "an argument")
        for count in (4000, 20000):
            result = run(place, [], [PYTHON, "-I", "-c", "import sys; print(len(sys.argv))", *map(str, range(count))], starts=False)
            check(result.out.strip() == str(count + 1) or count > 4000 and result.status in REFUSED and len(result.err.splitlines()) == 1, "%d arguments" % count)
        # 131071 bytes are the most that the kernel takes for one.
        result = run(place, [], [PYTHON, "-I", "-c", "import sys; print(len(sys.argv[1]))", "y" * 131000], starts=False)
        check(result.out.strip() == "131000" or result.status in REFUSED, "a 131000-byte argument: %d %s" % (result.status, result.err[:200]))
        # A large environment of the caller is no matter: it does not arrive.
        result = run(place, [], "env | wc -c", env={"V%d" % i: "z" * 100000 for i in range(15)})
        check(int(result.out) < 4096, "the environment inside has %s bytes" % result.out)
        for flags in (["--env", "BIG=" + "z" * 131000], sum((["--env", "V%d=%s" % (i, "z" * 60000)] for i in range(20)), []), sum((["--env", "V%d=x" % i] for i in range(3000)), [])):
            result = run(place, flags, "true", starts=False)
            among(result.status, (0, *REFUSED), "a large environment")


@test("POL-11 ten thousand lines about files")
def _():
    with Place() as place:
        for i in range(3000):
            os.mkdir(place.tmp + "/g%d" % i)
        for kind, count in (("--read", 3000), ("--hide", 3000), ("--protect", 3000), ("--write", 1500)):
            flags = sum(([kind, place.tmp + "/g%d" % i] for i in range(count)), [])
            result = run(place, flags, "echo fine", starts=False, timeout=60)
            check(result.status == 0 and result.out == "fine\n" or result.status in NOT_STARTED and len(result.err.splitlines()) <= 2,
                  "%d times %s: status %d %s" % (count, kind, result.status, result.err[:300]))
            check(result.seconds < 30, "%d times %s took %.1f s" % (count, kind, result.seconds))


@test("POL-17 variables of the caller do not widen")
def _():
    with Place() as place:
        _, bare = plan(place, [], ["true"])
        names = ["ATOLL", "ATOLL_CONFIG", "ATOLL_READ", "ATOLL_WRITE", "ATOLL_FLAGS", "ATOLL_OPTIONS", "ATOLL_JOB", "ATOLL_FILE", "ATOLL_ACCEPT_WEAKER", "ATOLL_NO_SANDBOX", "ATOLL_DISABLE", "ATOLL_SANDBOX", "ATOLL_DEBUG",
                 "ATOLL_INIT", "ATOLL_LIBEXEC", "ATOLL_TRUST", "ATOLL_STATE", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "POSIXLY_CORRECT", "CLAUDECODE", "CI", "SUDO_UID", "SUDO_USER"]
        for value in ("1", place.out, place.ws + "/job.yaml", "all"):
            env = {name: value for name in names}
            if value.startswith(place.ws + "/"):
                # The store of layers where the command could write it: refused, whatever else is said.
                result = run(place, [], "true", env=env, starts=False)
                same(result.status, POLICY, "a store in the workspace")
                check("XDG_STATE_HOME" in result.err, result.err)
                del env["XDG_STATE_HOME"]
            _, now = plan(place, [], ["true"], env=env)
            same(now["digest"], bare["digest"], "the contract with ATOLL_...=%s" % value)
            run(place, ["--record", "off"], inside_sh('cat "$1/secret.txt"; (echo x >"$1/x"); true', place.out), env=env)
            if value == place.out:  # the store that XDG_STATE_HOME names has the list of places that runs have written
                same(os.listdir(place.out + "/atoll"), ["places"], "the store")
                remove(place.out + "/atoll")


@test("POL-17 a program planted where the caller's PATH looks first is not used")
def _():
    # TH-22 for the tool itself.
    with Place() as place:
        for name in ("git", "mount", "umount", "sh", "bash", "ip", "nft", "newuidmap", "newgidmap", "bwrap", "unshare", "getent", "id", "python3", "atoll-init", "atoll-egress", "true", "rg", "ls"):
            write(place.ws + "/" + name, "#!/bin/sh\ntouch %s\n" % place.mark, 0o755)
        place.settle()
        for path in (".:" + HOST_PATH, place.ws + ":" + HOST_PATH, "", ":" + HOST_PATH):
            for flags in ([], ["--plan"], ["--hide", "**/.env"]):
                among(run(place, flags, ["/bin/true"], env={"PATH": path}, starts=False).status, (0,), "PATH=%s" % path)
            atoll(place, "doctor", env={"PATH": path})
            check(not os.path.exists(place.mark), "a program from the workspace ran on the host with PATH=%s" % path)


@test("POL-19 weak switches name what they void, in the plan, and only from the user")
def _():
    with Place() as place:
        clauses, whole = plan(place, ["--accept-weaker", "memory"])
        check(any("memory" in json.dumps(line) and "accept-weaker" in json.dumps(line) for line in whole["clauses"]) or
              all(line["strength"] != "weaker" for line in whole["clauses"]), "an accepted weakness is not in the plan")
        s = socket.socket(socket.AF_UNIX)
        s.bind(place.tmp + "/s.sock")
        clauses, whole = plan(place, ["--socket", place.tmp + "/s.sock"])
        check(any(place.tmp + "/s.sock" in str(line["subject"]) and line["origin"] == "--socket" for line in whole["clauses"]), "a socket is not in the plan")
        s.close()
        clauses, whole = plan(place, ["--read", place.home, "--accept-broad", place.home])
        check(any(line["origin"] == "--read" and line["subject"] == place.home for line in whole["clauses"]), "a broad grant is not in the plan")


@test("POL-X1 the plan tells the origin of every line that is not a default, and runs nothing")
def _():
    with Place() as place:
        path = job_file(place, {**RAN, "filesystem": {"read": [place.out], "hide": ["src"]}, "limits": {"pids": 100}, "environment": {"set": {"A": "b"}}})
        before = snapshot(place.ws)
        os.mkdir(place.tmp + "/g")
        given = place.tmp + "/g"
        clauses, whole = plan(place, ["-f", path, "--write", given, "--memory", "1G"], None)
        same(difference(before, snapshot(place.ws)), "", "the workspace after --plan")
        origins = {(line["clause"], line["subject"]): line["origin"] for line in whole["clauses"]}
        for key in (("filesystem.read", place.out), ("filesystem.hide", place.ws + "/src")):
            check("job.yaml:1" in origins.get(key, ""), "origin of %s: %s" % (key, origins.get(key)))
        same(origins.get(("filesystem.write", given)), "--write", "origin of a flag")
        check(any(line["clause"] == "limits.memory" and line["origin"] == "--memory" for line in whole["clauses"]), "origin of --memory")
        check(any(line["clause"] == "limits.pids" and "job.yaml" in line["origin"] for line in whole["clauses"]), "origin of pids")
        text = run(place, ["--plan", "-f", path], None)
        check(place.out in text.out and "job.yaml:1" in text.out, "the plan for people")
        # The same contract has the same digest, another one another.
        _, again = plan(place, ["-f", path, "--write", given, "--memory", "1G"], None)
        _, other = plan(place, ["-f", path, "--write", given, "--memory", "2G"], None)
        same(whole["digest"], again["digest"], "digest")
        check(whole["digest"] != other["digest"], "another contract has the same digest")


@test("POL-X2 what is not yet available is refused, never ignored")
def _():
    with Place() as place:
        for job in ({"image": "debian:12"},
                    {"isolation": {"tier": "gvisor"}}, {"isolation": {"tier": "microvm"}}, {"isolation": {"tier": "windows"}}):
            refuse(place, ["-f", job_file(place, {**RAN, **job})], how=NOT_STARTED)
        schema = json.loads(atoll(place, "schema").out)
        for section in ("approval", "audit"):
            if section in schema["properties"]:
                refuse(place, ["-f", job_file(place, {**RAN, section: {"x": "y"}})], how=NOT_STARTED)
        for job in ({"network": {"mode": "off", "allow": ["example.org"]}}, {"network": "rules", "identity": "offline"}):
            refuse(place, ["-f", job_file(place, {**RAN, **job})], how=NOT_STARTED)


main()
