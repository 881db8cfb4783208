#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 36
# check: user only
"""
What the first process sees and tells: programs that are executed, refusals of every kind, changes in direct mode

Each is shown both ways: what is refused is told of with its rule and what would allow it, and with that it is neither refused nor
told of. What a program misses that is nowhere is no refusal.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

MODES = ("direct",) if BARE else ("direct", "layer", "read-only")


def log_of(place):
    """The log that was written last."""
    logs = glob.glob(os.path.join(place.home, STORE, "log", "????????.jsonl"))
    return max(logs, key=os.path.getmtime)


def events(place, kind, log=None):
    with open(log or log_of(place), "rb") as file:
        lines = [json.loads(line) for line in file.read().decode("utf-8", "surrogatepass").splitlines()]
    # A program whose hash is still being found out is written down later than others that came after it.
    return sorted((line for line in lines if line["kind"] == kind), key=lambda line: line["time"])


def denials(place, log=None):
    return {(line["action"], line["object"]): line for line in events(place, "denial", log)}


def paths(place):
    return [line["path"] for line in events(place, "exec")]


# ---- programs ----

@test("every program is told of, with its arguments, its parent and the hash of its file")
def _():
    with Place() as place:
        run(place, [], "/usr/bin/env sh -c 'ls -d /; true'; cat /dev/null")
        told = events(place, "exec")
        names = [os.path.basename(line["path"]) for line in told]
        check(len(told) == 5, "there are %s" % names)
        check(names[1] == "env" and names[3:] == ["ls", "cat"], "there are %s" % names)
        same(told[1]["argv"], ["/usr/bin/env", "sh", "-c", "ls -d /; true"], "arguments")
        same(told[3]["argv"], ["ls", "-d", "/"], "arguments")
        same(told[3]["parent"], told[2]["pid"], "parent")
        same(told[3]["program"], os.path.basename(told[2]["argv"][0]), "the caller's name")
        same((told[1]["pid"], told[1]["path"]), (told[2]["pid"], "/usr/bin/env"), "one after the other")
        for line in told:
            same(line["hash"], "sha256:" + hashlib.sha256(read(line["path"])).hexdigest(), line["path"])


@test("a search along PATH that finds nothing is not told of; nor is what cannot be executed")
def _():
    with Place() as place:
        write(place.ws + "/plain", "#!/bin/sh\n", 0o644)
        place.expect("plain")
        run(place, ["--env", "PATH=/nowhere:/usr/bin:/bin"], "nothing-of-this-name; ./plain; ./src; true | cat")
        same([os.path.basename(path) for path in paths(place)][1:], ["cat"], "programs")


@test("a program that is reached through /proc, however that is spelled, is told of under its own path")
def _():
    with Place() as place:
        write(place.ws + "/mine", "#!/bin/sh\nexit 0\n", 0o755)
        os.symlink("/proc/self/cwd/mine", place.ws + "/through")
        place.expect("mine", "through")
        run(place, [], "/proc/self/cwd/mine; //proc/self/cwd/mine; /proc/./self/cwd/mine; /proc/self/../self/cwd/mine; ./through; true")
        same(paths(place).count(place.ws + "/mine"), 5, "executions among %s" % paths(place))


@test("scripts, relative names, links, memory and /proc/self/exe: each under the path of its file")
def _():
    with Place() as place:
        write(place.ws + "/script", "#!/bin/sh\nexit 0\n", 0o755)
        os.symlink("script", place.ws + "/link")
        place.expect("script", "link")
        run(place, [], inside_py("""
            def execute(*args, **more):
                pid = os.fork()
                if pid == 0:
                    try: os.execve(*args, **more)
                    finally: os._exit(1)
                os.waitpid(pid, 0)
            execute("./link", ["link", "a"], {})
            os.chdir("/usr/bin"); execute("env", ["env"], {}); os.chdir("..")
            memory = os.memfd_create("mine"); os.write(memory, get("/bin/true")); execute(memory, ["from memory"], {})
            execute(os.open("/bin/true", os.O_RDONLY), ["from a descriptor"], {})
            os.execv("/proc/self/exe", ["python3", "-I", "-c", "pass"])
        """))
        told = events(place, "exec")[1:]
        same([line["argv"][0] for line in told], ["link", "env", "from memory", "from a descriptor", "python3"], "arguments")
        same(told[0]["path"], place.ws + "/script", "through a link")
        check(told[0].get("script") is True, "a script: %r" % told[0])
        same(told[1]["path"], "/usr/bin/env", "relative")
        check("memfd:mine" in told[2]["path"], "memory: %r" % told[2])
        same(told[3]["path"], os.path.realpath("/bin/true"), "a descriptor")
        same(told[4]["path"], os.path.realpath(PYTHON), "/proc/self/exe")
        same(told[2]["hash"], told[3]["hash"], "the same content")


@test("by vfork, by a thread, by a child of a child: each has its own number and parent")
def _():
    with Place() as place:
        run(place, [], inside_py("""
            import subprocess, threading
            subprocess.run(["/bin/true", "vfork"])
            pid = os.fork()
            if pid == 0:
                if os.fork() == 0:
                    os.execv("/bin/true", ["true", "grandchild"])
                os.wait(); os._exit(0)
            os.waitpid(pid, 0)
            threading.Thread(target=lambda: os.execv("/bin/true", ["true", "thread"])).start()
            time.sleep(60)
        """))
        told = {line["argv"][-1]: line for line in events(place, "exec")}
        first = events(place, "exec")[0]
        same(told["vfork"]["parent"], first["pid"], "vfork")
        check(told["grandchild"]["parent"] not in (first["pid"], told["grandchild"]["pid"]), "grandchild")
        same(told["thread"]["pid"], first["pid"], "a thread's program is the process's")


@test("hostile arguments: newlines, bytes that are no text, empty ones, too many and too long ones")
def _():
    with Place() as place:
        run(place, [], inside_py(r"""
            import subprocess
            subprocess.run([b"/bin/true", b"a\nb", b"", b"\xff\xfe\"}", b"\xe2\x80\xa8", b"end"])
            subprocess.run(["/bin/true"] + ["x" * 30000] + ["y"])
            subprocess.run(["/bin/true"] + [str(i) for i in range(20000)])
        """))
        one, long, many = events(place, "exec")[1:]
        same(len(one["argv"]), 6, "arguments")
        same((one["argv"][1], one["argv"][2], one["argv"][5]), ("a\nb", "", "end"), "arguments")
        check(not one.get("cut"), "nothing is cut")
        same((long["argc"], long["cut"]), (3, True), "a long one")
        check(len(long["argv"][1]) > 4000, "as much as there is room for")
        same((many["argc"], many["cut"], many["argv"][:3]), (20001, True, ["/bin/true", "0", "1"]), "many")


@test("a path that another thread changes meanwhile neither stops nor breaks anything")
def _():
    with Place() as place:
        build_c(place, "racer", r"""
            #include <pthread.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/wait.h>
            #include <unistd.h>
            static char path[64] = "/bin/true";
            static char *volatile argv[4] = {path, "a", "b", NULL};
            static void *change(void *data) {
                for (;;) { strcpy(path, "/bin/false"); argv[1] = (char *)1; strcpy(path, "/bin/true"); argv[1] = "a"; argv[3] = "c"; argv[3] = NULL; }
                return data;
            }
            int main(void) {
                pthread_t thread;
                pthread_create(&thread, NULL, change, NULL);
                for (int i = 0; i < 100; i++) {
                    if (vfork() == 0) { execv(path, (char **)argv); _exit(1); }
                    while (wait(NULL) < 0);
                }
                exit(0);
            }
        """, "-pthread")
        place.expect("racer")
        same(run(place, [], ["./racer"]).status, 0, "the end")
        check(len(events(place, "exec")) > 2, "nothing was told")


@test("hundreds of programs, many at the same time: each is told of once")
def _():
    with Place() as place:
        run(place, [], "for i in 1 2 3 4; do (for j in $(seq 100); do /bin/true $i $j; done) & done; wait")
        told = [tuple(line["argv"][1:]) for line in events(place, "exec") if os.path.basename(line["path"]) == "true"]
        same(len(told), 400, "programs")
        same(len(set(told)), 400, "each once")
        check(not events(place, "lost"), "something was lost")


@test("what a process does that ends at once, and what happens just before everything is killed, is told")
def _():
    with Place() as place:
        run(place, [], "exec /bin/true at the end")
        same(events(place, "exec")[-1]["argv"], ["/bin/true", "at", "the", "end"], "the last one")
        result = run(place, ["--timeout", "1s", "--grace", "0s"], "trap '' TERM; while :; do /bin/true; i=$((i+1)); echo $i; done")
        same(result.status, TIMED_OUT, "the end")
        n = len([path for path in paths(place) if os.path.basename(path) == "true"])
        done = int(result.out.split()[-1])
        check(done <= n <= done + 1, "%d were executed, and %d told of" % (done, n))


@test("with --record steps and off no program is told of, and what the guard refuses is reported all the same")
def _():
    with Place() as place:
        for record in ("steps", "off"):
            result = run(place, ["--record", record, "--json", "--protect", "f"], "ls >/dev/null; echo x >f; echo y >/etc/x")
            found = json.loads(result.err.splitlines()[-1])["denials"]
            same([denial["rule"] for denial in found], ["protect"], record)
        same(events(place, "exec"), [], "programs")


# ---- refusals ----

TRIES = """
    attempt("write", lambda: put("/etc/hostname", flags=os.O_WRONLY))
    attempt("create", lambda: put("/usr/new"))
    attempt("mkdir", lambda: os.mkdir("/usr/new-dir"))
    attempt("remove", lambda: os.unlink("/etc/hostname"))
    attempt("rename", lambda: os.rename("/etc/hostname", "/etc/other"))
    attempt("link", lambda: os.link("/etc/hostname", "/etc/linked"))
    attempt("symlink", lambda: os.symlink("x", "/etc/pointer"))
    attempt("truncate", lambda: os.truncate("/etc/hostname", 0))
    attempt("chmod", lambda: os.chmod("/etc/hostname", 0o600))
"""


@test("a change outside is told of, whatever it is, in every mode")
def _():
    for mode in MODES:
        with Place() as place:
            result = run(place, [], inside_py(TRIES), mode=mode)
            result.refused("write", "create", "mkdir", "remove", "rename", "link", "symlink", "truncate", "chmod")
            found = denials(place)
            for wanted in (("write", "/etc/hostname"), ("create", "/usr/new"), ("create", "/usr/new-dir"), ("remove", "/etc/hostname"),
                           ("rename", "/etc/hostname"), ("link", "/etc/linked"), ("create", "/etc/pointer"), ("chmod", "/etc/hostname")):
                check(wanted in found, "mode %s: %s is not among %s" % (mode, wanted, sorted(found)))
                same(found[wanted]["rule"], "read-only", "rule")
            same(found["write", "/etc/hostname"]["allow"], "--write /etc/hostname", "what would allow it")
            same(found["write", "/etc/hostname"]["count"], 1, "count")
            same(found["create", "/usr/new"]["allow"], "--write /usr", "what would allow it")
            check(all(line["pid"] and line["program"] for line in found.values()), "who it was: %r" % found)


@test("a file of the host's that is not granted: told of, and with the grant neither refused nor told of")
def _():
    for mode in MODES:
        with Place() as place:
            write(place.out + "/data", "x\n")
            place.settle()
            attack = inside_py("attempt('read', lambda: get(arg[0])); attempt('make', lambda: put(arg[1] + '/new'))",
                               place.out + "/data", place.out)
            run(place, [], attack, mode=mode).refused("read", "make")
            found = denials(place)
            same(found["read", place.out + "/data"]["allow"], "--read " + place.out + "/data", "what would allow it")
            same(found["create", place.out + "/new"]["allow"], "--write " + place.out, "what would allow it")
            run(place, ["--read", place.out + "/data"], attack, mode=mode).allowed("read")
            check(("read", place.out + "/data") not in denials(place), "told of although it was granted")
        with Place(strict=False) as place:
            write(place.out + "/data", "x\n")
            run(place, ["--write", place.out], inside_py("attempt('make', lambda: put(arg[0] + '/new'))", place.out), mode=mode).allowed("make")
            same(denials(place), {}, "mode %s, with --write" % mode)


@test("in a layer, what belongs to another group: refused by the kernel, told of with the reason; what can be done all the same is not")
def _():
    need_layers()
    others = [group for group in os.getgroups() + ([4242] if os.geteuid() == 0 else []) if group != os.getegid()]
    if not others:
        skip("a user with a second group")
    for mode, is_refused in (("layer", True), ("direct", False)):
        with Place(strict=False) as place:
            ours, theirs = place.ws + "/ours", place.ws + "/theirs"
            os.mkdir(theirs)
            write(ours, "x\n")
            for name in ("/file", "/theirs/file", "/gone", "/replaced", "/new", "/theirs/own"):
                write(place.ws + name, "x\n")
            os.symlink("file", place.ws + "/link")
            for name in ("/file", "/theirs", "/theirs/file", "/gone", "/replaced"):
                os.chown(place.ws + name, -1, others[0])
            place.settle()
            result = run(place, [], inside_py("""
attempt('write', lambda: put('file')); attempt('make', lambda: put('theirs/new')); attempt('remove', lambda: os.unlink('theirs/file'))
attempt('ours', lambda: put('ours')); attempt('there', lambda: os.makedirs('theirs', exist_ok=True)); attempt('gone', lambda: os.unlink('gone'))
attempt('replace', lambda: os.rename('new', 'replaced')); attempt('inner', lambda: put('theirs/own')); attempt('link', lambda: os.unlink('link'))
"""), mode=mode)
            result.allowed("ours", "there", "link")
            if os.geteuid() != 0:
                result.allowed("gone", "replace")
            elif is_refused:
                result.refused("gone", "replace", how=("EOVERFLOW",))
            if not is_refused and os.geteuid() != 0:
                result.allowed("write", "make", "remove", "inner")
                same(denials(place), {}, "mode %s" % mode)
            if not is_refused:
                place.settle()
                continue
            result.refused("write", "make", "remove", "inner", how=("EOVERFLOW", "EACCES"))
            told = {("create", place.ws + "/file"), ("create", theirs + "/new"), ("remove", theirs + "/file"), ("create", theirs + "/own")}
            if os.geteuid() == 0:  # whose trees have ids of their own: no mode helps, and nothing of theirs can go
                told |= {("remove", place.ws + "/gone"), ("rename", place.ws + "/replaced")}
            same({key: (line["rule"], line["allow"]) for key, line in denials(place).items()},
                 {key: ("owner", None if os.geteuid() == 0 else "--direct") for key in told}, "what was told")


@test("what is hidden: by a line, by a pattern, by default; what is nowhere is no refusal")
def _():
    for mode in MODES:
        with Place() as place:
            write(place.ws + "/sub/.env", "x\n")
            write(place.ws + "/secrets/key", "x\n")
            place.settle()
            attack = inside_py("""
                attempt('pattern', lambda: get('sub/.env'))
                attempt('line', lambda: get(arg[0] + '/secrets/key'))
                attempt('default', lambda: get(arg[1] + '/.ssh/id'))
                attempt('nowhere', lambda: get(arg[1] + '/.inputrc'))
                attempt('nowhere 2', lambda: get('/srv/nothing/here'))
                attempt('nowhere 3', lambda: get('nothing/here'))
            """, place.ws, place.home)
            result = run(place, ["--hide", "**/.env", "--hide", "secrets"], attack, mode=mode)
            result.refused("pattern", "line", "default")
            found = denials(place)
            if not BARE:  # there HOME is elsewhere
                same(found["read", place.home + "/.ssh/id"]["allow"], "--read ~/.ssh", "the line to overrule")
            same({what for what in found if "nothing" in what[1] or "inputrc" in what[1]}, set(), "what is nowhere")
            same(found["read", place.ws + "/sub/.env"]["rule"], "hide", "by a pattern, mode %s" % mode)
            same(found["read", place.ws + "/secrets/key"]["allow"], "--read " + found_path(place, "secrets"), "the line to overrule")


def found_path(place, name):
    path = place.ws + "/" + name
    return "~" + path[len(place.home):] if path.startswith(place.home + "/") else path


@test("a relative path, a long one and one that is no text are told of as they are")
def _():
    with Place() as place:
        name = "n" * 200
        run(place, [], inside_py(r"""
            os.chdir("/etc")
            attempt('relative', lambda: put('../etc/./x y'))
            attempt('newline', lambda: put(b'/etc/a\nb"}'))
            attempt('bytes', lambda: put(b'/etc/\xff\xfe'))
            attempt('long', lambda: put('/etc/' + arg[0]))
            attempt('longer', lambda: put('/usr/' + '/'.join([arg[0]] * 19)))
            attempt('too long', lambda: put('/usr/' + '/'.join([arg[0]] * 30)))
        """, name)).refused("relative", "newline", "bytes", "long")
        found = denials(place)
        same(found["create", "/etc/x y"]["allow"], "--write /etc", "relative")
        check(("create", '/etc/a\nb"}') in found, "a newline: %r" % sorted(found))
        check(("create", "/etc/" + name) in found, "a long one")
        check(any(what[1].startswith("/etc/") and len(what[1]) == 7 and ord(what[1][5]) >= 0xdc80 for what in found), "bytes: %r" % sorted(found))


@test("a name for a shell is quoted, and one that cannot be copied is not offered")
def _():
    with Place() as place:
        os.mkdir(place.out + "/a b'c")
        os.mkdir(place.out + "/a\nb")
        for name in ("a b'c", "a\nb"):
            write(place.out + "/" + name + "/f", "x\n")
        place.settle()
        run(place, [], inside_py("for name in arg: attempt('read', lambda: get(name))", place.out + "/a b'c/f", place.out + "/a\nb/f"))
        found = denials(place)
        same(found["read", place.out + "/a b'c/f"]["allow"], "--read '%s'" % (place.out + "/a b'\\''c/f"), "quoted")
        check(not found["read", place.out + "/a\nb/f"]["allow"], "not offered")


@test("connections without a network, to an address and by a name; and to a socket of the host's")
def _():
    with Place() as place, Sink(place) as sink:
        run(place, [], inside_py("""
            import socket
            def connect(address, family=socket.AF_INET):
                with socket.socket(family, socket.SOCK_STREAM) as s: s.connect(address)
            attempt('inet', lambda: connect(('192.0.2.1', 443)))
            attempt('loopback', lambda: connect(('127.0.0.1', 9)))
            attempt('unix', lambda: connect(arg[0], socket.AF_UNIX))
            def send():
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b'x', ('192.0.2.2', 99))
            attempt('datagram', send)
        """, sink.path))
        found = denials(place)
        same((found["connect", sink.path]["rule"], found["connect", sink.path]["allow"]), ("sockets", "--socket " + sink.path), "unix")
        if BARE:
            check(any(line["rule"] == "network" and line["allow"].startswith("--allow") for line in found.values()), "inet")
            return
        same((found["connect", "192.0.2.1:443"]["rule"], found["connect", "192.0.2.1:443"]["allow"]), ("network", "--allow 192.0.2.1:443"), "inet")
        same(found["connect", "192.0.2.2:99"]["allow"], "--allow 192.0.2.2:99", "a datagram")
        check(not any("127.0.0.1" in what[1] for what in found), "the sandbox's own loopback")
        run(place, ["--socket", sink.path], inside_py("""
            import socket
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s: attempt('unix', lambda: s.connect(arg[0]))
        """, sink.path)).allowed("unix")
        same(denials(place), {}, "with --socket")


@test("system calls that are refused are told of by name, and get the same answer as without a record")
def _():
    attack = inside_py("""
        attempt('mount', lambda: syscall(165, b'a', b'/', b'tmpfs', 0, 0))
        attempt('chroot', lambda: syscall(161, b'/'))
        attempt('unshare', lambda: syscall(272, 0x10000000))
        attempt('bpf', lambda: syscall(321, 0, 0, 0))
        attempt('setns', lambda: syscall(308, 0, 0))
        attempt('personality', lambda: syscall(135, 0x40000))
        attempt('sticky', lambda: os.chmod('f', 0o4755))
        attempt('clone3', lambda: syscall(435, 0, 0))
        attempt('none', lambda: syscall(462 + 500, 0))
    """)
    if os.uname().machine != "x86_64":
        skip("the numbers are x86-64's")
    for mode in MODES:
        with Place() as place:
            full = run(place, [], attack, mode=mode)
            found = {what[1] for what in denials(place) if what[0] == "call"}
            same(found, {"mount", "chroot", "unshare(0x10000000)", "bpf", "setns", "personality(0x40000)"}, "what was told of")
            same(run(place, ["--record", "off"], attack, mode=mode).tries, full.tries, "without a record")
            same(full.tries["mount"], "EPERM", "mount")


@test("a program that insists is told of now and then, and the count is right")
def _():
    with Place() as place:
        result = run(place, ["--json"], inside_py("""
            for i in range(3000):
                try: os.open('/etc/insists', os.O_WRONLY | os.O_CREAT)
                except OSError: pass
        """))
        lines = [line for line in events(place, "denial") if line["object"] == "/etc/insists"]
        check(len(lines) < 60, "%d lines" % len(lines))
        same(sum(line["count"] for line in lines), 3000, "the count")
        found = [denial for denial in json.loads(result.err.splitlines()[-1])["denials"] if denial["path"] == "/etc/insists"]
        same([denial["count"] for denial in found], [3000], "in the result")


@test("a flood of different refusals: none is lost")
def _():
    with Place() as place:
        run(place, [], inside_py("""
            for i in range(3000):
                try: os.mkdir('/etc/flood-%d' % i)
                except OSError: pass
        """))
        found = [line["object"] for line in events(place, "denial") if "flood" in line["object"]]
        lost = sum(line["count"] for line in events(place, "lost"))
        same(len(set(found)) + lost, 3000, "all of them")


@test("a supervisor that is killed while notices wait takes everything with it")
def _():
    with Place() as place:
        running = start(place, [], "echo up; while :; do /bin/true; : >/etc/x; done 2>/dev/null")
        same(running.process.stdout.readline(), b"up\n", "the command")
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(0.3)  # the socket may fill up meanwhile
        running.kill(signal.SIGKILL)
        check(not processes_left(), "processes are left")


@test("a supervisor that does not read holds up whoever is watched, and nothing is lost when it goes on")
def _():
    with Place() as place:
        running = start(place, [], "echo up; for i in $(seq 1500); do /bin/true $i; done; echo done")
        same(running.process.stdout.readline(), b"up\n", "the command")
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(running.pid, signal.SIGCONT)
        running.wait()
        told = [line["argv"][1] for line in events(place, "exec") if os.path.basename(line["path"]) == "true"]
        same(told, [str(i) for i in range(1, 1501)], "all of them, in order")


# ---- steps ----

@test("in a sandbox each step's programs and refusals have its number, also what it leaves behind")
def _():
    need_layers()
    with Place() as place:
        name = atoll(place, "create").out.strip()
        atoll(place, "exec", name, "--", "sh", "-c", "/bin/true one; : >/etc/one")
        atoll(place, "exec", name, "--", "sh", "-c", "/bin/true two; (sleep 1; /bin/true late) & : >/etc/two")
        three = atoll(place, "exec", name, "--", "sh", "-c", "sleep 2; : >/etc/three")
        check("/etc/three" in three.err and "/etc/two" not in three.err, "whose refusals: %s" % three.err)
        atoll(place, "rm", name)
        log = os.path.join(place.home, STORE, "log", name + ".jsonl")
        if not os.path.exists(log):
            skip("a sandbox has no log yet")
        steps = {line["argv"][-1]: line["step"] for line in events(place, "exec", log) if line["argv"][0] == "/bin/true"}
        same(steps, {"one": 1, "two": 2, "late": 2}, "programs")
        same({line["object"]: line["step"] for line in events(place, "denial", log)}, {"/etc/one": 1, "/etc/two": 2, "/etc/three": 3}, "refusals")


# ---- changes ----

@test("in direct mode what is changed is told of, with what was there before")
def _():
    with Place() as place:
        before = {name: "sha256:" + hashlib.sha256(read(place.ws + "/" + name)).hexdigest() for name in ("f", "README.md", "src/a.c")}
        place.expect("*")
        run(place, [], "echo more >>f; echo again >>f; echo new >made; mkdir d; mv README.md d/moved; rm src/a.c")
        found = {line["path"]: line for line in events(place, "change")}
        def at(name):
            matches = [line for path, line in found.items() if path == place.ws + "/" + name or path == name]
            check(len(matches) == 1, "%s is not among %s" % (name, sorted(found)))
            return matches[0]
        same((at("f")["change"], at("f")["before"]), ("changed", before["f"]), "f")
        same(at("f")["after"], "sha256:" + hashlib.sha256(read(place.ws + "/f")).hexdigest(), "f afterwards")
        same((at("made")["change"], at("made")["before"]), ("added", None), "made")
        same((at("src/a.c")["change"], at("src/a.c")["before"]), ("deleted", before["src/a.c"]), "src/a.c")


main()
