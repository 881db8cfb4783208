# SPDX-License-Identifier: Apache-2.0
# check: seconds 106
# check: not sanitized
"""
Tools that people and agents use, inside the sandbox under the default contract

Each works in a workspace of its own without network; what it made is looked at from the host, and what it may leave there is named by
place.expect(). A tool that the host does not have is skipped: `tools/setup --tests` installs them all.
"""
import os
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402


def tool(name, *needs, leaves=(), flags=(), files=None):
    """A test: the function gets a Place and go(script, args...), which runs a shell script inside (set -e) and must succeed."""
    def keep(function):
        @test(name)
        def _():
            need(*needs)
            with Place() as place:
                place.expect(*leaves)
                for path, text in (files or {}).items():
                    write(os.path.join(place.ws, path), text)
                if files:
                    place.settle()

                def go(script, *args, **options):
                    result = run(place, [*flags, "--timeout", "100s"], inside_sh("set -e\n" + script, *args), **options)
                    same(result.status, 0, "the status of the script")
                    return result
                function(place, go)
        return function
    return keep


def made(place, name):
    path = os.path.join(place.ws, name)
    check(os.path.lexists(path), "%s was not made" % name)
    return read(path).decode("utf-8", "replace")


# ---- shells and small tools -----------------------------------------------------------------------------------------

@tool("sh: redirections to /dev/stdout, /dev/stderr, /dev/fd and /dev/null")
def _(place, go):
    result = go("echo one >/dev/stdout; echo two >/dev/stderr; echo three >/dev/fd/1; echo four >/dev/null; echo five | cat /dev/stdin; echo six >>/dev/stderr")
    same((result.out, "two" in result.err and "six" in result.err), ("one\nthree\nfive\n", True), "output")


@tool("bash: jobs, traps, process substitution, here documents, coprocesses", "bash", leaves=("log", "p"))
def _(place, go):
    result = run(place, [], ["/bin/bash", "-c", r"""
        set -e -m
        trap 'echo trapped >>log' USR1
        sleep 0.1 & first=$!
        (exit 7) & wait $! || echo "status $?"
        wait $first; kill -USR1 $$
        diff <(printf 'a\nb\n') <(printf 'a\nc\n') || true
        coproc cat; echo through >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line"; exec {COPROC[1]}>&-
        cat <<<"here"; mkfifo p; (echo fifo >p) & cat p; wait; ulimit -n
        """])
    same(result.status, 0, "its status")
    for word in ("status 7", "> c", "through", "here", "fifo"):
        check(word in result.out, "%s is missing in %r" % (word, result.out))
    same(made(place, "log"), "trapped\n", "the trap")


@tool("coreutils: cp -a, mv, ln, install, touch, chmod, mktemp, sort, dd, timeout", leaves=("tree", "copy", "h", "s", "i", "big*"))
def _(place, go):
    go(r"""
        mkdir -p tree/a/b; echo x >tree/a/b/f; chmod 750 tree/a/b/f; touch -d '2020-01-02 03:04:05' tree/a/b/f; ln -s f tree/a/b/l; mkfifo tree/p
        cp -a tree copy; ln tree/a/b/f h; ln -s tree s; install -m 755 tree/a/b/f i; mv tree/a tree/c
        d=$(mktemp -d); echo y >"$d/y"; mv "$d/y" tree/y; rmdir "$d"; dd if=/dev/zero of=big bs=1M count=20 status=none; truncate -s 1G big2; rm big2
        test "$(seq 200000 | sort -rn -S 1M | sed -n 1p)" = 200000; du -s . >/dev/null; df . >/dev/null; stat -c %a i | grep -qx 755; sync; nproc >/dev/null
        id >/dev/null; date >/dev/null; uname -a >/dev/null; timeout 0.2 sleep 9 || [ $? = 124 ]; nice true; nohup true 2>/dev/null; env -i /bin/true; tty >/dev/null || true
        find . -name f -newermt 2019-01-01 | xargs ls -l >/dev/null; head -c 1000 /dev/urandom | sha256sum >/dev/null; test "$(realpath s/c)" = "$PWD/tree/c" """)
    st = os.stat(place.ws + "/copy/a/b/f")
    same((st.st_mode & 0o777, time.gmtime(st.st_mtime)[:3]), (0o750, (2020, 1, 2)), "mode and time of a copy")
    same((os.readlink(place.ws + "/copy/a/b/l"), os.stat(place.ws + "/h").st_nlink, os.path.getsize(place.ws + "/big")), ("f", 2, 20 << 20), "links, size")


@tool("tar, gzip, xz: pack and unpack", "tar", "gzip", leaves=("d", "a.t*", "u*"))
def _(place, go):
    go(r"""
        mkdir d; for i in $(seq 300); do echo $i >d/$i; done; ln -s 1 d/link; ln d/1 d/hard; chmod 700 d/2
        tar czf a.tgz d; mkdir u; tar xzpf a.tgz -C u; tar cf - d | (mkdir u2; cd u2; tar xf -); if command -v xz >/dev/null; then tar cJf a.txz d; fi; diff -r d u/d; diff -r d u2/d """)
    same((len(os.listdir(place.ws + "/u/d")), os.stat(place.ws + "/u/d/2").st_mode & 0o777), (302, 0o700), "what was unpacked")


@tool("rsync: a copy, then a difference", "rsync", leaves=("d", "e"))
def _(place, go):
    go("mkdir d; for i in $(seq 50); do echo $i >d/$i; done; rsync -a d/ e/; echo new >d/7; rm d/8; rsync -a --delete --inplace d/ e/; rsync -ac --delete d/ e/; diff -r d e")
    same((made(place, "e/7"), os.path.exists(place.ws + "/e/8")), ("new\n", False), "the copy")


@tool("perl, awk, sed", "perl", leaves=("out",))
def _(place, go):
    go(r"""
        perl -pi -e 's/one/two/' f; sed -i 's/line/word/' f; awk '{print $2}' f >out
        perl -MIO::Socket::INET -MSocket -e 'my $s=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1") or die; IO::Socket::INET->new(PeerAddr=>"127.0.0.1",PeerPort=>$s->sockport) or die; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die; fork or exit 0; wait' """)
    same((made(place, "f"), made(place, "out")), ("two word\n", "word\n"), "the file")


@tool("sqlite3: transactions, the write-ahead log, locks between processes", "sqlite3", leaves=("db*",))
def _(place, go):
    result = go(r"""
        sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2),(3);'
        for i in 1 2 3 4; do sqlite3 -cmd '.timeout 60000' db "begin immediate; insert into t values($i+10); commit;" & done; wait
        sqlite3 db 'select sum(a), count(*) from t; pragma integrity_check; vacuum;' """)
    check("56|7" in result.out and "ok" in result.out, result.out)


@tool("vim -es: edit a file with a swap file and a backup", "vim", leaves=("f~", ".f*"))
def _(place, go):
    go("vim -es -u NONE -c 'set swapfile backup' -c '%s/one/seven/' -c 'wq' f </dev/null")
    same(made(place, "f"), "seven line\n", "the file")


@tool("tmux: a server of its own, in private places", "tmux", leaves=("typed",))
def _(place, go):
    go(r"""
        tmux -f /dev/null new-session -d -x 80 -y 24 sh; tmux send-keys 'echo typed >typed' Enter
        for i in $(seq 600); do [ -s typed ] && break; sleep 0.05; done; tmux kill-server; ls typed """)
    same(made(place, "typed"), "typed\n", "what was typed")


@tool("script: a terminal of one's own", "script", leaves=("typescript",))
def _(place, go):
    result = go("script -qec 'test -t 0 && test -t 1 && stty -a >/dev/null && echo on a terminal' typescript </dev/null")
    check("on a terminal" in result.out, result.out)


# ---- git ------------------------------------------------------------------------------------------------------------

@tool("git: commit, branch, merge, stash, rebase, clone, push, init, gc, as seen from the host", "git", leaves=("n", "m", "new", "clone", ".git"))
def _(place, go):
    go(r"""
        echo x >n; git add n; git commit -qm second; git checkout -qb side HEAD~1; echo y >m; git add m; git commit -qm third
        git checkout -q main; git merge -q --no-edit side; test "$(git rev-list --count HEAD)" = 4
        echo z >>n; git stash -q; git stash pop -q; git commit -qam fourth; git tag t1; git rebase -q HEAD~1; git diff HEAD~1 --stat >/dev/null
        git clone -q . clone; (cd clone; echo c >c; git add c; git -c user.name=c -c user.email=c@x commit -qm c; git push -q origin HEAD:refs/heads/pushed)
        git init -q new; (cd new; echo a >a; git add a; git -c user.name=c -c user.email=c@x commit -qm a)
        git fsck --no-progress; git gc -q; git archive HEAD | tar tf - >/dev/null; git reset -q --hard HEAD~1; git reset -q --hard t1; git status --porcelain | grep -q clone """)
    same(git(place.ws, "rev-list", "--count", "HEAD").stdout.strip(), "5", "commits, seen from the host")
    check("pushed" in git(place.ws, "branch").stdout, "the push did not arrive")
    same(git(place.ws, "fsck").returncode, 0, "git fsck on the host")
    hostgit(place)


# ---- python ---------------------------------------------------------------------------------------------------------

PYTHON_PROGRAM = r"""
import asyncio, concurrent.futures, multiprocessing as mp, multiprocessing.shared_memory as sm, os, socket, sqlite3, ssl, subprocess, tempfile

def square(n):
    return n * n

async def network():
    async def serve(reader, writer):
        writer.write(await reader.readline()); await writer.drain(); writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    for path in (tempfile.mkdtemp() + "/s", "s.sock"):
        unix = await asyncio.start_unix_server(serve, path)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"unix\n")
        assert await reader.readline() == b"unix\n"
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await process.communicate(b"child"))[0] == b"child"

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with mp.get_context(method).Pool(3) as pool:
            assert sum(pool.map(square, range(20))) == 2470
    with mp.Manager() as manager:
        manager.dict()["a"] = 1
    queue = mp.Queue(); process = mp.Process(target=queue.put, args=(5,)); process.start(); assert queue.get(timeout=60) == 5; process.join()
    lock = mp.Lock()
    with lock: pass
    memory = sm.SharedMemory(create=True, size=4096); memory.buf[0] = 7; memory.close(); memory.unlink()
    with concurrent.futures.ProcessPoolExecutor(2) as ex: assert list(ex.map(square, [1, 2])) == [1, 4]
    with concurrent.futures.ThreadPoolExecutor(30) as ex: assert sum(ex.map(square, range(100))) == 328350
    asyncio.run(network())
    db = sqlite3.connect("db"); db.execute("create table t(a)"); db.execute("insert into t values (1)"); db.commit()
    ssl.create_default_context(); assert socket.gethostname()
    with tempfile.TemporaryFile() as f, tempfile.TemporaryFile(dir=".") as g, tempfile.NamedTemporaryFile(dir=".") as h: f.write(b"x"); g.write(b"y"); h.write(b"z")
    assert subprocess.run(["sh", "-c", "exit 3"]).returncode == 3
    assert os.cpu_count() and len(os.sched_getaffinity(0)) >= 1
    print("all of it")
"""


@tool("python3: multiprocessing, threads, asyncio, sqlite3, ssl, tempfile, shared memory", leaves=("db", "s.sock", "__pycache__"), files={"mod.py": PYTHON_PROGRAM})
def _(place, go):
    check("all of it" in go("/usr/bin/python3 mod.py").out, "it did not come to its end")


@tool("python3 -m venv, and pip install of a local package without an index", leaves=("v", "pkg"), files={
    "pkg/setup.py": "from setuptools import setup\nsetup(name='island', version='1.2', py_modules=['island'], entry_points={'console_scripts': ['island=island:main']})\n",
    "pkg/island.py": "def main():\n    print('installed')\n"})
def _(place, go):
    once(as_root=True)
    if subprocess.run([PYTHON, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL).returncode:
        skip("no python3-venv on this host")
    go("/usr/bin/python3 -m venv v; v/bin/python -c 'import sys; assert sys.prefix.endswith(\"/v\")'; v/bin/pip --version >/dev/null")
    result = run(place, [], inside_sh("v/bin/pip -q --disable-pip-version-check install --no-index --no-build-isolation --no-deps ./pkg && v/bin/island"))
    if result.status and "setuptools" in result.err and "No module named" in result.err + result.out:
        skip("pip here has no setuptools (the environment itself works)")
    same((result.status, result.out.splitlines()[-1:]), (0, ["installed"]), "pip: %s" % result.err[-300:])


# ---- compilers ------------------------------------------------------------------------------------------------------

C = {"main.c": '#include <stdio.h>\nint answer(void);\nint main(void) { printf("%d\\n", answer()); return 0; }\n', "answer.c": "int answer(void) { return 42; }\n",
     "Makefile": "CFLAGS = -O2 -g\nprog: main.o answer.o\n\t$(CC) -o $@ $^\nmain.o answer.o: Makefile\n"}


@tool("gcc and make -j: shared, static, with a sanitizer", "gcc", "make", leaves=("*.o", "prog*"), files=C)
def _(place, go):
    result = go("make -s -j4; ./prog; gcc -static -o prog-static main.c answer.c; ./prog-static; gcc -shared -fPIC -o prog.so answer.c; gcc -fsanitize=undefined -o prog-u main.c answer.c; ./prog-u")
    same(result.out.split(), ["42"] * 3, "what they print")
    same(plain(place, ["./prog"]).out, "42\n", "the program on the host")


@tool("gcc with the address sanitizer", "gcc", leaves=("a.out",), files={
    "over.c": '#include <stdlib.h>\nint main(int n, char **v) { (void)v; char *p = malloc(10); if (n > 1) return p[n + 9]; free(p); return 0; }\n'})
def _(place, go):
    if subprocess.run(["gcc", "-fsanitize=address", "-o", place.tmp + "/a", place.ws + "/over.c"], stderr=subprocess.DEVNULL).returncode:
        skip("no libasan on this host")
    result = go("gcc -g -fsanitize=address over.c; ./a.out; if ./a.out x; then exit 3; fi")
    check("heap-buffer-overflow" in result.err, result.err)


@tool("cmake: configure, build, test", "cmake", "gcc", "make", leaves=("b",), files={
    **C, "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\nadd_executable(prog main.c answer.c)\nadd_test(NAME t COMMAND prog)\n"})
def _(place, go):
    go("cmake -S . -B b >/dev/null; cmake --build b -j2 >/dev/null; cd b; ctest >/dev/null; ./prog | grep -qx 42")
    check(os.access(place.ws + "/b/prog", os.X_OK), "no program")


# Building what net/http consists of takes ten times as long as all the rest: as the user.
GO_HTTP = r"""
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
)

func main() {
	var w sync.WaitGroup
	for i := 0; i < 100; i++ {
		w.Add(1)
		go func() { w.Done() }()
	}
	w.Wait()
	s := httptest.NewServer(http.NotFoundHandler())
	r, err := http.Get(s.URL)
	out, _ := exec.Command("echo", "child").Output()
	fmt.Println(r.StatusCode, err, string(out))
}
"""


GO_SHORT = r"""
package main

import (
	"os"
	"os/exec"
	"sync"
)

func main() {
	var w sync.WaitGroup
	for i := 0; i < 100; i++ {
		w.Add(1)
		go func() { w.Done() }()
	}
	w.Wait()
	out, err := exec.Command("echo", "child").Output()
	os.Stdout.Write(out)
	if err != nil {
		os.Exit(1)
	}
}
"""
GO_PROGRAM = GO_SHORT if IS_ROOT and not os.environ.get("ATOLL_LONG") else GO_HTTP


@tool("go: build, run, vet and test without network", "go", leaves=("prog",), flags=("--env", "GOFLAGS=-mod=mod"), files={
    "go.mod": "module m\n\ngo 1.19\n", "main.go": GO_PROGRAM,
    "main_test.go": 'package main\n\nimport "testing"\n\nfunc TestX(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fail()\n\t}\n}\n'})
def _(place, go):
    result = go("go build -o prog .; ./prog; go vet .; go test .")
    check("child" in result.out and ("404 <nil> child" in result.out or GO_PROGRAM == GO_SHORT) and "ok" in result.out, result.out)
    check(os.access(place.ws + "/prog", os.X_OK), "no program")


RUST_PROGRAM = r"""
use std::{net::*, thread};
fn main() {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(l.local_addr().unwrap()).unwrap();
    let n: i32 = (0..8).map(|i| thread::spawn(move || i)).map(|t| t.join().unwrap()).sum();
    println!("{}", n);
}
#[test]
fn t() {
    assert_eq!(1 + 1, 2);
}
"""


@tool("cargo: build, run and test of a crate without dependencies", "cargo", "rustc", leaves=("Cargo.lock", "target"), files={
    "Cargo.toml": '[package]\nname = "island"\nversion = "0.1.0"\nedition = "2018"\n', "src/main.rs": RUST_PROGRAM})
def _(place, go):
    result = go("cargo build -q --offline; target/debug/island; cargo test -q --offline")
    check("28\n" in result.out and "1 passed" in result.out, result.out)
    check(os.access(place.ws + "/target/debug/island", os.X_OK), "no program")


JAVA_PROGRAM = r"""
import java.net.*;
import java.nio.file.*;
public class M {
  public static void main(String[] a) throws Exception {
    ServerSocket s = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
    new Socket(s.getInetAddress(), s.getLocalPort());
    Thread t = new Thread(() -> System.out.println("answer " + 6 * 7));
    t.start();
    t.join();
    Files.write(Files.createTempFile("x", "y"), new byte[10]);
    System.out.println(new ProcessBuilder("echo", "child").start().waitFor());
  }
}
"""


@tool("javac and java: threads, sockets, a child, a jar", "javac", "java", leaves=("*.class", "m.jar"), files={"M.java": JAVA_PROGRAM})
def _(place, go):
    result = go("javac M.java; java -Xmx256m M; if command -v jar >/dev/null; then jar cfe m.jar M M*.class; java -jar m.jar; fi")
    check(result.out.startswith("answer 42\n0\n"), result.out)
    check(os.path.exists(place.ws + "/M.class"), "no class")


# ---- node -----------------------------------------------------------------------------------------------------------

NODE_PROGRAM = r"""
const fs = require('fs'), http = require('http'), net = require('net'), cp = require('child_process'), os = require('os');
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (!isMainThread)
  parentPort.postMessage(6 * 7);
else if (process.argv[2] === 'child')
  process.send('forked');
else (async () => {
  const say = [], event = (from, name) => new Promise(r => from.on(name, r));
  say.push(await event(new Worker(__filename), 'message'));
  say.push(cp.execFileSync('echo', ['child']).toString().trim(), await event(cp.fork(__filename, ['child']), 'message'));
  const server = http.createServer((_, res) => res.end('web')).listen(0, '127.0.0.1');
  await event(server, 'listening');
  say.push(await new Promise(r => http.get({ port: server.address().port, host: '127.0.0.1' }, res => res.on('data', d => r(d.toString())))));
  const unix = net.createServer(c => c.end('unix')).listen('s.sock');
  await event(unix, 'listening');
  say.push((await event(net.connect('s.sock'), 'data')).toString());
  const seen = new Promise(r => fs.watch('.', (_, name) => name === 'out.txt' && r('watched')));
  await fs.promises.writeFile('out.txt', 'x');
  say.push(await seen, os.cpus().length > 0, fs.mkdtempSync(os.tmpdir() + '/x').length > 0);
  await fs.promises.writeFile('out.txt', say.join(' '));
  process.exit(0);
})();
"""


@tool("node: files, workers, children, http, unix sockets, watching", "node", leaves=("out.txt", "s.sock"), files={"t.js": NODE_PROGRAM})
def _(place, go):
    go("node t.js")
    same(made(place, "out.txt"), "42 child forked web unix watched true true", "what it did")


@tool("npm: init, run, test, and install of a local package", "node", "npm", leaves=("package*.json", "node_modules", "ran"),
      flags=("--env", "npm_config_update_notifier=false"), files={
          "lib/package.json": '{"name": "island", "version": "1.0.0", "main": "index.js", "bin": {"island": "index.js"}}\n', "lib/index.js": "#!/usr/bin/env node\nconsole.log('the island');\n"})
def _(place, go):
    result = go(r"""
        npm init -y >/dev/null; npm pkg set scripts.test="echo tested" scripts.build="node -e \"require('fs').writeFileSync('ran', 'yes')\""
        npm install --offline --no-audit --no-fund ./lib >/dev/null; npm run -s build; npm test -s; node -e "require('island')"; npx --offline --no island """)
    same((made(place, "ran"), result.out.split("\n")[:3]), ("yes", ["tested", "the island", "the island"]), "npm")
    check(os.path.exists(place.ws + "/node_modules/island/index.js"), "the package is not installed")


@tool("npm and pip: what needs the network fails soon", "npm", leaves=("package*.json", "node_modules"))
def _(place, go):
    # A network that swallows packets instead would keep them waiting for minutes.
    result = run(place, ["--timeout", "100s"], inside_sh("npm init -y >/dev/null; npm install --fetch-retries 0 --no-audit --no-fund left-pad"))
    check(result.status not in (0, TIMED_OUT), "npm: status %d" % result.status)
    result = run(place, ["--timeout", "100s"], inside_sh("/usr/bin/python3 -m pip --retries 0 download --no-deps six"))
    check(result.status not in (0, TIMED_OUT), "pip: status %d" % result.status)


# ---- debuggers ------------------------------------------------------------------------------------------------------

@tool("gdb on its own child: breakpoint, backtrace, memory", "gdb", "gcc", leaves=("prog",), files=C)
def _(place, go):
    result = go("gcc -g -O0 -o prog main.c answer.c; gdb -q -nx -batch -ex 'break answer' -ex run -ex bt -ex 'print 6*7' -ex finish -ex 'info proc' -ex kill ./prog </dev/null 2>&1")
    for words in ("Breakpoint 1, answer", "#1 ", "$1 = 42", "Value returned"):
        check(words in result.out, "no %r in %s" % (words, result.out))


@tool("gdb -p: attach to a child that runs", "gdb")
def _(place, go):
    result = go("sleep 600 & p=$!; sleep 0.2; gdb -q -nx -batch -p $p -ex 'info registers' -ex detach </dev/null 2>&1; kill $p")
    check(re.search("^[rp][is]?[pc] ", result.out, re.M) and "Operation not permitted" not in result.out, result.out)


@tool("strace -f on its own children", "strace", leaves=("trace", "x"))
def _(place, go):
    go("strace -f -o trace sh -c 'echo x >x; cat x >/dev/null; (exit 3)' || [ $? = 3 ]; strace -c -o /dev/null true; sleep 600 & p=$!; timeout -s INT 1 strace -q -o /dev/null -p $p || true; kill $p")
    text = made(place, "trace")
    check("execve(" in text and "+++ exited with 3 +++" in text and 'openat(AT_FDCWD, "x"' in text, "the trace lacks something")


# ---- a browser ------------------------------------------------------------------------------------------------------

def picture_colours(path):
    """The distinct colours of an 8-bit RGB or RGBA picture: enough of PNG to see that something was drawn."""
    data = read(path)
    same(data[:8], b"\x89PNG\r\n\x1a\n", "the picture's first bytes")
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, _depth, colour = struct.unpack_from(">IIBB", data, at + 8)
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    step = {2: 3, 6: 4}[colour]
    line = width * step + 1
    raw, colours, above = zlib.decompress(packed), set(), bytes(width * step)
    for y in range(height):
        how, row = raw[y * line], bytearray(raw[y * line + 1:(y + 1) * line])
        for x in range(len(row)):
            left, up, corner = row[x - step] if x >= step else 0, above[x], above[x - step] if x >= step else 0
            guess = min((left, up, corner), key=lambda v: abs(left + up - corner - v)) if how == 4 else 0
            row[x] = (row[x] + (0, left, up, (left + up) // 2, guess)[how]) & 255
        colours |= {bytes(row[x:x + 3]) for x in range(0, len(row), step)}
        above = row
    return colours


@tool("chromium: a picture of a local page, and its scripts", "chromium", leaves=("shot.png",), files={
    "page.html": "<html><body style='background:#123456;margin:0'><script>document.body.style.background='rgb(' + [6 * 7, 200, 10] + ')'</script></body></html>\n"})
def _(place, go):
    # --no-sandbox: its own needs namespaces, which are refused inside; atoll is the sandbox.
    go('chromium --headless --no-sandbox --disable-gpu --window-size=200,100 --screenshot="$PWD/shot.png" "file://$PWD/page.html" 2>/dev/null')
    check(bytes((42, 200, 10)) in picture_colours(place.ws + "/shot.png"), "the page was not drawn")


main()
