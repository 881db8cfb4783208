#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 40
"""
What `atoll run` does, seen by whoever uses it: every flag with an effect, streams byte by byte, every way to end, nothing left
behind, trust, doctor, and what the command finds inside
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

TEN_MB = 10 * 1000 * 1000


def shell(place, script, *args, **options):
    """A script of the host's own, with atoll as $A."""
    options["env"] = {"A": ATOLL, **options.get("env", {})}
    return plain(place, inside_sh(script, *args), confined=False, **options)


def one_line(result, status, *words):
    same(result.status, status, "status")
    check(result.err.startswith("atoll: ") and result.err.count("\n") == 1, "not one line: %r" % result.err[:500])
    for word in words:
        check(word in result.err, "no %r in %r" % (word, result.err))


# ---- flags ----------------------------------------------------------------------------------------------------------

@test("--read shows a file and a directory, and no more")
def _():
    with Place() as place:
        path = place.out + "/canary"
        for flags in (["--read", path], ["--read=" + path], ["--read", place.out], ["--read=../out"]):
            result = run(place, flags, inside_sh('cmp "$1" "$1" && wc -c <"$1"; echo x >"$1" || echo not written', path))
            same(result.out, "4096\nnot written\n", str(flags))
        same(run(place, [], inside_sh('test -e "$1"', path)).status, 1, "status without it")


@test("--write lets a file and a directory be written")
def _():
    with Place(strict=False) as place:
        run(place, ["--write", place.out], inside_sh('echo dir >"$1/new"; echo file >>"$1/secret.txt"', place.out))
        same(read(place.out + "/new"), b"dir\n", "a new file")
        check(read(place.out + "/secret.txt").endswith(b"file\n"), "nothing was appended")
        result = run(place, ["--write", place.out + "/new"], inside_sh('echo more >>"$1/new"; echo x >"$1/newer"; ls -A "$1"', place.out))
        same(read(place.out + "/new"), b"dir\nmore\n", "the file")
        check(not os.path.exists(place.out + "/newer") and "canary" not in result.out, "more than the file")
        for name in ("new", "secret.txt"):
            same(os.stat(os.path.join(place.out, name)).st_uid, os.stat(place.out).st_uid, "owner")


@test("--hide and --protect")
def _():
    with Place() as place:
        result = run(place, ["--hide", "src", "--hide", "**/README*"], "ls src; cat README.md src/a.c; true")
        check("a workspace" not in result.out and "int a" not in result.out, "hidden things were read")
        result = run(place, ["--protect=f"], "cat f; echo x >f || echo no; echo y >src/a.c && echo yes")
        same(result.out, "one line\nno\nyes\n", "protect")
        check(any("f: protected" in line for line in result.refusals), result.err)
        same(read(place.ws + "/f"), b"one line\n", "f")


@test("--workspace, -C and --chdir")
def _():
    with Place() as place:
        where = place.ws + "/src"
        for flags in (["-C", "src"], ["-Csrc"], ["--workspace", where], ["--workspace=src"], ["--chdir", "src"], ["--chdir=" + where]):
            same(run(place, flags, "pwd").out, where + "\n", str(flags))
        same(run(place, ["-C", "src"], "ls .. | wc -l").out, "1\n", "what is beside the workspace")


@test("--env sets, passes and does not invent")
def _():
    with Place() as place:
        result = run(place, ["--env", "A=1", "--env=B=x=y", "--env", "C", "--env", "D", "--env", "A=2", "--env", "E="], ["env"],
                     env={"C": "mine", "F": "not passed"})
        lines = result.out.splitlines()
        for wanted in ("A=2", "B=x=y", "C=mine", "E="):
            check(wanted in lines, "no %s" % wanted)
        check(not [line for line in lines if line.startswith(("D=", "F="))], "too much: %s" % lines)


@test("--fd passes a descriptor")
def _():
    with Place() as place:
        reads, writes = os.pipe()
        result = run(place, ["--fd", "9"], "echo through >&9; ls /proc/self/fd | tr '\\n' ' '", fds={9: writes})
        os.close(writes)
        same(os.read(reads, 100), b"through\n", "what came")
        os.close(reads)
        same(result.out.split(), ["0", "1", "2", "3", "9"], "descriptors (3 is ls's own)")


@test("--socket lets one socket be reached")
def _():
    code = """
        import socket
        s = socket.socket(socket.AF_UNIX)
        attempt("connect", lambda: (s.connect(arg[0]), s.send(b"hello")))
        """
    with Place() as place, Sink(place) as sink:
        same(run(place, ["--socket", sink.path], inside_py(code, sink.path)).tries["connect"], "ok", "connect")
        check(until(lambda: ("unix", b"hello") in sink.log), "nothing arrived")
        result = run(place, ["--read", place.out], inside_py(code, sink.path))
        check(result.tries["connect"] != "ok", "reached without being named")


@test("--accept-broad is asked for, and enough")
def _():
    with Place() as place:
        refused = run(place, ["--read", place.home], "true", starts=False)
        one_line(refused, POLICY, "--accept-broad")
        result = run(place, ["--read", place.home, "--accept-broad", place.home], inside_sh('cat "$1/public.txt"', place.home))
        same(result.out, "nothing secret\n", "the home")


@test("--identity, --accept-weaker, --direct and --quiet are accepted")
def _():
    with Place() as place:
        place.expect("made")
        result = run(place, ["--identity", "offline", "--accept-weaker=memory", "--direct", "--quiet"], "echo x >made; echo x >.git/hooks/h")
        same(read(place.ws + "/made"), b"x\n", "made")
        check("atoll:" not in result.err, "not quiet: %s" % result.err)
        same(run(place, ["--identity", "online"], "true").status, 0, "--identity online")


@test("--cpus, --open-files, --pids, --files and --disk are felt")
def _():
    with Place(on_disk=True) as place:
        place.expect("n*", "big")
        same(run(place, ["--cpus", "1"], ["nproc"]).out, "1\n", "--cpus")
        same(run(place, ["--open-files", "77"], "ulimit -n; ulimit -Hn").out, "77\n77\n", "--open-files")
        result = run(place, ["--pids", "8"], inside_py("""
            made = 0
            try:
                for _ in range(20):
                    if os.fork() == 0: time.sleep(600); os._exit(0)
                    made += 1
            except OSError as error: tell("fork", errno.errorcode[error.errno])
            tell("made", made)"""))
        same(result.tries.get("fork"), "EAGAIN", "a process too many")
        check(4 <= int(result.tries["made"]) <= 8, "%s processes of 8" % result.tries["made"])
        result = run(place, ["--files", "5"], inside_py("for i in range(9): attempt('n%d' % i, lambda: put('n%d' % i))"))
        same([result.tries["n%d" % i] for i in range(9)].count("ok"), 5, "files made")
        run(place, ["--disk", "1M"], inside_py("""
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            attempt("workspace", lambda: put("big", b"x" * 2000000))"""))
        result = run(place, ["--disk", "1M"], inside_py("""
            def private():
                for i in range(20): put("/tmp/%d" % i, b"x" * 100000)
            attempt("private", private)"""))
        check(os.path.getsize(place.ws + "/big") <= 1 << 20, "a file of %d bytes" % os.path.getsize(place.ws + "/big"))
        same(result.tries["private"], "ENOSPC", "the private storage")
        result = run(place, ["--disk", "1M"], ["dd", "if=/dev/zero", "of=big", "bs=100k", "count=20"])
        same((result.status, "disk limit of 1 MiB" in result.err), (OVER_LIMIT, True), "one file that reaches the limit: %s" % result.err)


@test("a job file from a path, from standard input, and overridden by flags")
def _():
    with Place() as place:
        job = {"command": ["sh", "-c", "echo $X; ulimit -n"], "environment": {"set": {"X": "file"}}, "limits": {"open-files": 100}}
        path = job_file(place, job)
        for flags in (["-f", path], ["-f" + path], ["--file", path], ["--file=" + path]):
            same(run(place, flags, None).out, "file\n100\n", str(flags))
        same(run(place, ["-f", "-"], None, stdin=json.dumps(job)).out, "file\n100\n", "-f -")
        same(run(place, ["--env", "X=flag", "-f", path, "--open-files", "50"], None).out, "flag\n50\n", "flags win")
        same(run(place, ["-f", path], ["echo", "mine"]).out, "mine\n", "the command line's command")
        yaml = "# a comment\ncommand: echo $((1+1)) | cat\nworkspace: src\n"
        same(run(place, ["-f", job_file(place, yaml)], None).out, "2\n", "a command for the shell")


@test("flags come before the command, and the command's are its own")
def _():
    with Place() as place:
        same(run(place, [], ["echo", "--timeout", "--", "-f"]).out, "--timeout -- -f\n", "with --")
        same(atoll(place, "run", "--timeout=9s", "echo", "--json").out, "--json\n", "without --")


# ---- trust ----------------------------------------------------------------------------------------------------------

@test("a job file in the workspace may narrow; to widen it needs trust, for exactly its content")
def _():
    with Place(strict=False) as place:
        place.expect("job.yaml")
        job = place.ws + "/job.yaml"
        write(job, "command: [cat, %s/canary]\nfilesystem:\n  read: [%s]\n" % (place.out, place.out))
        refused = run(place, ["-f", "job.yaml"], None, starts=False)
        one_line(refused, POLICY, "atoll trust", "filesystem.read", "job.yaml:3")
        check(not os.path.exists(place.home + "/.config/atoll/trusted"), "a refusal left something in the home")
        trusted = atoll(place, "trust", "job.yaml")
        same(trusted.status, 0, "atoll trust")
        check(re.search(r"sha256 [0-9a-f]{64}", trusted.out), trusted.out)
        same(os.stat(place.home + "/.config/atoll/trusted").st_mode & 0o777, 0o600, "mode of the list")
        result = run(place, ["-f", "job.yaml"], None)
        same(result.raw_out, read(place.out + "/canary"), "what the trusted job read")
        same(atoll(place, "trust", "job.yaml").status, 0, "trusting twice")
        same(len(read(place.home + "/.config/atoll/trusted").splitlines()), 1, "lines in the list")
        write(job, read(job) + b"\n")
        one_line(run(place, ["-f", "job.yaml"], None, starts=False), POLICY, "atoll trust")
        # Where it lies counts, not how it is named.
        os.symlink(job, place.tmp + "/link.yaml")
        one_line(run(place, ["-f", place.tmp + "/link.yaml"], None, starts=False), POLICY, "atoll trust")
        one_line(run(place, ["-f", "job.yaml", "--plan"], None, starts=False), POLICY, "atoll trust")
        # Narrowing needs nothing.
        write(job, "command: [echo, narrow]\nlimits: {pids: 50}\nfilesystem: {hide: [src]}\n")
        same(run(place, ["-f", "job.yaml"], None).out, "narrow\n", "a job that only narrows")
        # Outside of what jobs write, neither.
        outside = job_file(place, "command: [cat, %s/canary]\nfilesystem:\n  read: [%s]\n" % (place.out, place.out))
        same(run(place, ["-f", outside], None).raw_out, read(place.out + "/canary"), "a job file elsewhere")


@test("the list of trusted files is not taken from others, and a job cannot write it")
def _():
    with Place(strict=False) as place:
        place.expect("job.yaml")
        write(place.ws + "/job.yaml", "command: ['true']\nfilesystem:\n  read: [%s]\n" % place.out)
        same(atoll(place, "trust", "job.yaml").status, 0, "atoll trust")
        os.chmod(place.home + "/.config/atoll/trusted", 0o666)
        one_line(run(place, ["-f", "job.yaml"], None, starts=False), POLICY, "trusted")
        os.chmod(place.home + "/.config/atoll/trusted", 0o600)
        run(place, ["--write", place.home, "--accept-broad", place.home],
            inside_sh('rm -rf "$1/.config/atoll"; mkdir -p "$1/.config/atoll"; echo x >"$1/.config/atoll/trusted"', place.home))
        same(run(place, ["-f", "job.yaml"], None).status, 0, "after an attack on the list")
        for odd in ("absent", ".", "/dev/null"):
            one_line(atoll(place, "trust", odd), BAD_REQUEST, odd)


# ---- how it ends ----------------------------------------------------------------------------------------------------

@test("exit statuses")
def _():
    with Place() as place:
        for status in (0, 1, 2, 125, 255):
            same(run(place, [], "exit %d" % status).status, status, "exit %d" % status)
        for number in (1, 2, 9, 11, 15):
            same(run(place, [], "kill -%d $$" % number).status, 128 + number, "signal %d" % number)
        same(run(place, [], ["no-such-program"]).status, 127, "not found")
        same(run(place, [], ["./f"]).status, 126, "not executable")
        same(run(place, [], ["/usr"]).status, 126, "a directory")
        same(run(place, ["--timeout", "300ms"], ["sleep", "600"]).status, TIMED_OUT, "time")
        same(run(place, ["--cpu-time", "200ms"], "while :; do :; done").status, OVER_LIMIT, "CPU time")
        same(run(place, ["--output", "10K"], ["cat", "/dev/zero"]).status, OVER_LIMIT, "output")


@test("output that was cut is never a success, however early the command ended")
def _():
    with Place() as place:
        for _ in range(15):
            result = run(place, ["--output", "5"], ["echo", "1234567"])
            same((result.status, result.out), (OVER_LIMIT, "12345"), "status and output")
        for _ in range(5):
            same(run(place, ["--output", "8"], ["echo", "1234567"]).status, 0, "output that just fits")


@test("the memory limit ends a run, also when the use is spread over processes")
def _():
    with Place() as place:
        eat = "x = bytearray(%d << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(600)"
        result = run(place, ["--memory", "64M"], inside_py(eat % 200))
        same(result.status, OUT_OF_MEMORY, "status")
        check("memory limit of 64 MiB (--memory)" in result.err, result.err)
        result = run(place, ["--memory", "96M"], inside_py("for _ in range(6):\n    if os.fork() == 0:\n        " +
                                                           (eat % 40).replace("\n", "\n        ") + "\ntime.sleep(600)"))
        same(result.status, OUT_OF_MEMORY, "six processes")
        same(run(place, ["--memory", "256M"], inside_py("x = bytearray(40 << 20)")).status, 0, "within the limit")


@test("a time-out also ends children that ignore every signal")
def _():
    with Place() as place:
        result = run(place, ["--timeout", "500ms", "--grace", "300ms"], inside_py("""
            for _ in range(3):
                if os.fork() == 0: break
            for n in range(1, 65):
                try: signal.signal(n, signal.SIG_IGN)
                except (OSError, ValueError): pass
            os.setsid() if os.getpid() != os.getsid(0) else None
            while True: time.sleep(10)"""))
        same(result.status, TIMED_OUT, "status")
        same(processes_left(), {}, "processes")


@test("a daemon ends with the command")
def _():
    with Place() as place:
        place.expect("alive")
        result = run(place, [], inside_py("""
            if os.fork() == 0:
                os.setsid()
                if os.fork(): os._exit(0)
                put("alive")
                time.sleep(600)
            while not os.path.exists("alive"): time.sleep(0.01)"""))
        same(result.status, 0, "status")
        check(os.path.exists(place.ws + "/alive"), "the daemon never lived")
        same(processes_left(), {}, "processes")


@test("a program that goes on writing after its reader has left does not hold anything")
def _():
    with Place() as place:
        result = shell(place, '"$A" run --direct -- yes | head -n 1')
        same(result.out, "y\n", "output")
        result = shell(place, '"$A" run --direct --plan -- true | true; "$A" help | true; echo done')
        same(result.out, "done\n", "output")


@test("killing atoll ends everything at once and leaves nothing")
def _():
    with Place() as place:
        running = start(place, ["--hide", "**/.env", "--read", place.out], inside_py("""
            if os.fork() == 0:
                os.setsid(); os.fork()
            put("/tmp/x"); print("up", flush=True)
            time.sleep(600)"""))
        check(until(lambda: len(descendants_of(running.pid)) >= 4), "it did not start")
        check(cgroups_of(running.pid) or "cgroup" not in atoll(place, "run", "--plan", "--", "true").out.split("limits.memory")[1][:60],
              "no control group, and the plan names one")
        running.kill()
        same(processes_left(), {}, "processes")
        run(place, [], "true")
        same(cgroups_of(running.pid), [], "control groups after the next run")
    with Place() as place:
        running = start(place, [], ["sleep", "600"])
        check(until(lambda: descendants_of(running.pid)), "it did not start")
        running.kill(signal.SIGTERM)
        same(processes_left(), {}, "processes after SIGTERM")
        run(place, [], "true")


def descendants_of(pid):
    found, again = {pid}, True
    while again:
        again = False
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in found:
                with contextlib.suppress(OSError, IndexError):
                    text = read("/proc/%s/stat" % entry).decode(errors="replace")
                    if int(text[text.rindex(")") + 2:].split()[1]) in found:
                        found.add(int(entry))
                        again = True
    return found - {pid}


def cgroups_of(pid):
    """Control groups that this run of atoll has made."""
    return [os.path.join(where, name) for where, directories, _ in os.walk("/sys/fs/cgroup") for name in directories
            if name.startswith("atoll-%d-" % pid)]


# ---- streams --------------------------------------------------------------------------------------------------------

@test("output comes out byte by byte as it went in, on both streams")
def _():
    with Place() as place:
        result = run(place, [], inside_py("""
            os.write(1, bytes(range(256)) * 3); os.write(2, bytes(reversed(range(256))) * 3); os._exit(0)"""))
        same(result.raw_out, bytes(range(256)) * 3, "stdout")
        same(result.raw_err, bytes(reversed(range(256))) * 3, "stderr")
        result = run(place, [], inside_sh("printf 'no newline'; printf 'nor here' >&2"))
        same((result.out, result.err), ("no newline", "nor here"), "the last line")


@test("ten megabytes each way")
def _():
    with Place() as place:
        data = os.urandom(1000 * 1000) * 10
        result = run(place, [], ["cat"], stdin=data)
        check(result.raw_out == data, "%d bytes of %d came back" % (len(result.raw_out), len(data)))
        result = run(place, [], ["sha256sum"], stdin=data)
        same(result.out.split()[0], hashlib.sha256(data).hexdigest(), "what the command read")
        result = run(place, [], inside_py("""
            block = bytes(range(250)) * 4000
            for _ in range(10): os.write(1, block[:500000]); os.write(1, block[500000:]); os.write(2, b"e" * 1000)
            os._exit(0)"""))
        check(result.raw_out == bytes(range(250)) * 4000 * 10, "%d bytes came" % len(result.raw_out))
        same(result.raw_err, b"e" * 10000, "stderr")
        # To a file, and with a slow reader.
        shell(place, '"$A" run --direct -- head -c 10000000 /dev/zero >"$1"; "$A" run --direct -- head -c 300000 /dev/zero | (sleep 0.3; wc -c >"$2")',
              place.tmp + "/file", place.tmp + "/count")
        same(os.path.getsize(place.tmp + "/file"), TEN_MB, "bytes in a file")
        same(read(place.tmp + "/count").strip(), b"300000", "bytes for a slow reader")


@test("input: an end is seen, and a command that does not read is no harm")
def _():
    with Place() as place:
        same(run(place, [], ["wc", "-c"], stdin=b"").out.strip(), "0", "empty input")
        same(run(place, [], ["true"], stdin=b"x" * TEN_MB).status, 0, "input that nobody reads")
        result = shell(place, 'yes | "$A" run --direct -- head -n 2; (echo a; sleep 0.2; echo b) | "$A" run --direct -- cat')
        same(result.out, "y\ny\na\nb\n", "input that does not end, and one that comes slowly")
        reads, writes = os.pipe()
        try:
            same(run(place, [], ["echo", "done"], stdin=reads).out, "done\n", "an input that stays open")
        finally:
            os.close(reads)
            os.close(writes)


@test("closed standard descriptors")
def _():
    with Place() as place:
        place.expect("n*")
        for number, closed in enumerate(("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-", ">&- 2>&-")):
            result = shell(place, '"$A" run --direct -- sh -c "cat; echo out; echo err >&2; echo file >n%d" %s; echo $? >&2' % (number, closed))
            if "2>&-" not in closed:
                same(result.err, "err\n0\n", closed)
            same(result.out, "" if ">&-" in closed.replace("2>&-", "") else "out\n", closed)
            same(read(place.ws + "/n%d" % number), b"file\n", closed)
        result = shell(place, '"$A" run --direct --frob <&- >&- 2>&-; echo $?; "$A" help >/dev/full; echo $?')
        same(result.out, "240\n242\n", "statuses")


@test("a current directory that is gone")
def _():
    with Place() as place:
        result = shell(place, 'mkdir gone; cd gone; rmdir ../gone; exec "$A" run --direct -- true')
        one_line(result, BAD_REQUEST, "current directory")


@test("--json: the result is the last line of stderr, whatever the command wrote")
def _():
    with Place() as place:
        for flags, script, wanted in (
                ([], "echo o; printf e >&2; exit 3", {"status": 3, "end": "exited", "code": 3, "limit": None, "output_bytes": 3}),
                ([], "kill -9 $$", {"status": 137, "end": "signaled", "code": 9}),
                (["--timeout", "200ms"], "sleep 600", {"status": 243, "end": "timed-out", "limit": "wall", "limit_value": 200}),
                (["--output", "5"], "echo 1234567", {"status": 245, "end": "over-limit", "limit": "output", "output_bytes": 5}),
                ([], "exec /no/such", {"status": 127})):
            result = run(place, ["--json", *flags], script)
            told = json.loads(result.err.splitlines()[-1][len("e") if result.err.startswith("e{") else 0:])
            for key, value in wanted.items():
                same(told.get(key), value, "%s of %s" % (key, script))
            same(told["status"], result.status, "status")
            same(told["contract"], json.loads(atoll(place, "run", "--plan", "--json", *flags, "--", *inside_sh(script)).out)["digest"], "digest")


# ---- the host -------------------------------------------------------------------------------------------------------

@test("doctor: what the default contract needs holds here")
def _():
    with Place() as place:
        told = json.loads(atoll(place, "doctor", "--json").out)
        same(told["ready"], True, "ready")
        for finding in told["findings"]:
            check(finding["what"] and finding["result"], str(finding))
            check(finding["holds"] or not finding["needed"], "missing: %s" % finding)
            check(finding["holds"] or finding["fix"], "no fix: %s" % finding)
        result = atoll(place, "doctor")
        same((result.status, result.err), (0, ""), "status and stderr")
        check("MISSING" not in result.out and "The default contract holds" in result.out, result.out)
        for finding in told["findings"]:
            check(finding["what"] in result.out, "not in the text: %s" % finding)


@test("doctor and run where user namespaces are switched off")
def _():
    need("unshare")
    switched_off = 'exec unshare -Ur sh -c \'echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$A" "$@"\' sh "$@"'
    with Place() as place:
        result = shell(place, switched_off, "doctor")
        if result.status in (99, 1):
            skip("a user namespace with its own switches")
        same(result.status, HOST_CANNOT, "status")
        check(re.search("MISSING +user namespaces", result.out) and "max_user_namespaces" in result.out, result.out)
        told = json.loads(shell(place, switched_off, "doctor", "--json").out)
        same(told["ready"], False, "ready")
        for finding in told["findings"]:
            check(finding["holds"] or finding["fix"], "no fix: %s" % finding)
        one_line(shell(place, switched_off, "run", "--direct", "--", "true"), HOST_CANNOT, "namespaces", "atoll doctor")


@test("a sandbox inside a sandbox is refused in one line")
def _():
    with Place() as place:
        result = run(place, ["--quiet", "--read", ATOLL], inside_sh('"$1" run -- touch made; echo "status $?"', ATOLL))
        same(result.out, "status 242\n", "status inside")
        line = [row for row in result.err.splitlines() if row.startswith("atoll: ") and not row.startswith("atoll: refused ")]
        check(len(line) == 1 and "sandbox" in line[0], "not one clear line: %r" % result.err)


# ---- inside ---------------------------------------------------------------------------------------------------------

@test("the environment is an allow-list")
def _():
    with Place() as place:
        given = {"LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/x", "SSH_AUTH_SOCK": "/x", "AWS_SECRET_ACCESS_KEY": place.secret,
                 "GIT_DIR": "/x", "GIT_CONFIG_GLOBAL": "/x", "DBUS_SESSION_BUS_ADDRESS": "x", "DISPLAY": ":0", "BASH_ENV": "/x", "ENV": "/x",
                 "PYTHONPATH": "/x", "NODE_OPTIONS": "--require /x", "XDG_RUNTIME_DIR": "/run/user/0", "http_proxy": "http://x",
                 "ANTHROPIC_API_KEY": place.secret, "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "99", "EDITOR": "x", "FOO": "bar",
                 "PATH": "relative:/no/such/place:%s:/usr/bin:/bin:." % place.out}
        result = run(place, [], ["env"], env=given)
        told = dict(line.split("=", 1) for line in result.out.splitlines())
        same(set(told) - {"USER", "LOGNAME"},
             {"TERM", "LANG", "LC_ALL", "TZ", "COLUMNS", "PATH", "HOME", "TMPDIR", "SHELL", "PWD", "ATOLL_SANDBOX"}, "names")
        same(told["PATH"], "/usr/bin:/bin", "PATH")
        same((told["ATOLL_SANDBOX"], told["HOME"], told["TMPDIR"], told["PWD"]), ("1", place.home, "/tmp", place.ws), "values")
        bare = run(place, [], ["env"], env={name: None for name in ("PATH", "LANG", "TERM", "USER", "SHELL")})
        told = dict(line.split("=", 1) for line in bare.out.splitlines())
        check("/usr/bin" in told["PATH"] and told["LANG"] == "C.UTF-8", "from nothing: %s" % told)


@test("a caller without HOME, with a wrong one, or with one that is not there")
def _():
    with Place() as place:
        for home in (None, "", "relative", "/no/such/home"):
            result = run(place, [], 'touch "$HOME/x" && echo ok', env={"HOME": home, "XDG_STATE_HOME": place.base + "/state"})
            same(result.out, "ok\n", "HOME=%s" % home)
        result = atoll(place, "run", "--", "touch", "made", env={"HOME": None})
        same(result.status, 242, "status without a place for the record")
        check("--record off" in result.err, "not said what to do: " + result.err)


@test("the home and all temporary directories can be written, and are gone afterwards")
def _():
    with Place() as place:
        script = 'for d in "$HOME" "$TMPDIR" /var/tmp /dev/shm; do mkdir "$d/%s" && echo ok; done' % ("atoll-" + place.token)
        for _ in range(2):
            same(run(place, [], script).out, "ok\n" * 4, "directories")
        same(run(place, [], 'mktemp >/dev/null && ls -d ~ && cd ~ && pwd').out, "%s\n%s\n" % (place.home, place.home), "home")


@test("the contract is there to be read, and tells no secret")
def _():
    with Place() as place:
        write(place.home + "/.ssh/very-own-name")
        write(place.ws + "/hidden-by-name", place.secret)
        place.settle()
        flags = ["--env", "TOKEN=" + place.secret, "--read", place.out, "--hide", "hidden-by-name", "--hide", "**/secret-pattern-*",
                 "--hide", place.out + "/secret.txt", "--pids", "99"]
        result = run(place, flags, "cat /run/atoll/contract.json")
        told = json.loads(result.out)
        text = run(place, flags, "cat /run/atoll/contract.md; ls -la /run/atoll; echo x >/run/atoll/contract.md || echo not written").out
        same(told["digest"], json.loads(atoll(place, "run", "--plan", "--json", *flags, "--", *inside_sh("cat /run/atoll/contract.json")).out)["digest"], "digest")
        same((told["workspace"], told["network"], told["limits"]["pids"]["value"]), (place.ws, "off", 99), "content")
        check(place.out in [rule["path"] for rule in told["read"]] and place.out in text, "what may be read is not told")
        check("TOKEN" in told["variables"], "the variable's name")
        check("not written" in text and "--write" in text, text)
        for name in ("hidden-by-name", "secret-pattern", "secret.txt", ".ssh/", "/etc/shadow", place.secret):
            check(name not in result.out, "contract.json says %s" % name)
            check(name not in text, "contract.md says %s" % name)


@test("a repository above or beside the workspace: git sees none, one line says where it is, and what that offers works")
def _():
    need("git")
    with Place() as place:
        place.expect("*")
        sub, tree = place.ws + "/a part", place.base + "/tree"
        write(sub + "/file", "x\n")
        git(place.ws, "worktree", "add", "-q", tree)
        common = os.path.join(place.ws, ".git")

        def hint(flags, command, cwd):
            result = run(place, flags, command, cwd=cwd, mode="direct")
            return result.status, [line for line in result.err.splitlines() if "the git repository" in line]
        same(hint([], "git status", sub), (128, ["atoll: the git repository is above the workspace, so the sandbox does not contain it; include it: atoll run -C %s --chdir '%s' ..."
                                                  % (place.ws, sub)]), "above")
        same(hint(["-C", place.ws, "--chdir", sub], "git status", sub), (0, []), "above, as it was told")
        same(hint([], "git status", tree), (128, ["atoll: the git repository is outside of the workspace, so the sandbox does not contain it; read it with --read %s, "
                                                   "change it with --direct --write %s" % (common, common)]), "a work tree")
        same(hint(["--read", common], "git status", tree), (0, []), "a work tree, to look at")
        same(hint(["--write", common], "echo new >new && git add new && git commit -qm second", tree), (0, []), "a work tree, to change")
        same(git(tree, "log", "-1", "--format=%s").stdout, "second\n", "the host's view")
        # Nobody is bothered who asked for nothing of the kind.
        same(hint([], "exit 3", sub), (3, []), "another failure")
        same(hint([], "git --version", sub), (0, []), "no failure")
        same(hint(["--quiet"], "git status", sub), (128, []), "quiet")
        same(hint([], "git nonsense", place.ws), (1, []), "a repository that is there")


@test("git commit with nothing but a name in ~/.gitconfig")
def _():
    need("git")
    with Place() as place:
        for key in ("user.name", "user.email"):
            git(place.ws, "config", "--unset", key)
        write(place.home + "/.gitconfig", "[user]\n\tname = Ada Tester\n\temail = ada@example.org\n[credential]\n\thelper = store\n"
              "[core]\n\tpager = touch %s\n\teditor = %s\n" % (place.mark, place.secret))
        place.settle()
        place.expect("new", ".git/*")
        result = run(place, [], "echo new >new && git add new && git commit -qm second && git log -1 --format='%an %ae' && cat ~/.gitconfig && git status --short")
        same(result.status, 0, "status: %s" % result.err)
        check(result.out.startswith("Ada Tester ada@example.org\n"), result.out)
        check("credential" not in result.out and "pager" not in result.out, "too much of ~/.gitconfig")
        same(git(place.ws, "log", "-1", "--format=%an %s").stdout, "Ada Tester second\n", "the host's view")
        hostgit(place)


@test("files belong to the workspace's owner and have the mode that the umask leaves")
def _():
    owners = [(os.getuid(), os.getgid())] + ([(1, 1), (54321, 54321)] if IS_ROOT else [])
    for owner in owners:
        with Place() as place:
            if IS_ROOT:
                for where, directories, files in os.walk(place.ws):
                    for name in [".", *directories, *files]:
                        os.chown(os.path.join(where, name), *owner, follow_symlinks=False)
            place.expect("n*")
            for mask in ("022", "027", "077", "000"):
                script = 'umask %s; exec "$A" run --direct -- sh -c "umask; touch n%s; mkdir n%sd; ln -s x n%sl; mknod n%sp p; id -u"' % ((mask,) * 5)
                result = shell(place, script)
                same(result.out, "0%s\n%d\n" % (mask, owner[0]), "umask and id inside, %s" % result.err)
                bits = 0o777 & ~int(mask, 8)
                for name, mode in (("n%s", 0o100666 & (bits | 0o100000)), ("n%sd", 0o40000 | bits), ("n%sl", 0o120777), ("n%sp", 0o10000 | (bits & 0o666))):
                    st = os.lstat(os.path.join(place.ws, name % mask))
                    same((oct(st.st_mode), st.st_uid, st.st_gid), (oct(mode), *owner), name % mask)


@test("set-id bits do not reach the host")
def _():
    with Place() as place:
        place.expect("n*", "d")
        run(place, [], inside_py("""
            put("n1"); attempt("chmod", lambda: os.chmod("n1", 0o6755))
            attempt("create", lambda: put("n2", mode=0o4755))
            attempt("mkdir", lambda: os.mkdir("d", 0o2755))"""))
        for name in ("n1", "n2"):
            if os.path.exists(place.ws + "/" + name):
                same(os.stat(place.ws + "/" + name).st_mode & 0o6000, 0, name)


@test("ordinary work: pipes, a shell's jobs, temporary files, a pseudo terminal")
def _():
    with Place() as place:
        place.expect("sorted")
        result = run(place, [], """
            seq 1000 | sort -r | head -1; (sleep 0.05; echo late) & wait; t=$(mktemp) && echo x >$t && cat $t
            mkfifo /tmp/p && (echo fifo >/tmp/p &) && cat /tmp/p; sort README.md >sorted; test -c /dev/null && echo dev
            [ "$(cat /proc/self/comm)" = cat ] && echo proc; cat /proc/1/environ 2>/dev/null | wc -c; hostname""")
        same(result.out, "999\nlate\nx\nfifo\ndev\nproc\n0\natoll\n", "output")
        result = run(place, [], inside_py("""
            import pty
            pid, fd = pty.fork()
            if pid == 0:
                os.execv("/bin/sh", ["sh", "-c", "test -t 0 && echo terminal"])
            print(os.read(fd, 100).decode().strip())"""))
        check("terminal" in result.out, "no pseudo terminal: %s" % result.out)


main()
