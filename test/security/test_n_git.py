# SPDX-License-Identifier: Apache-2.0
"""
What a run can leave in a repository for the host's git to follow: whom it talks to, where it looks, what it hides

Every attack is looked at from the host: a real git there, a listener on loopback that nobody may contact, and `mark`, which no planted
command may create. Each also works where nothing stops it. test_c_trust.py has what git executes by its own names.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from trust import *  # noqa: E402

# The tree of HEAD is missing, and a remote of the run's choice promises to have it.
PROMISOR = r'''
    tree=$(git rev-parse 'HEAD^{tree}')
    git config core.repositoryFormatVersion 1; git config extensions.partialClone away
    git config remote.away.promisor true; git config remote.away.url "$1"
    rm -f .git/objects/$(echo "$tree" | cut -c1-2)/$(echo "$tree" | cut -c3-); rm -f .git/objects/pack/*.idx
    git config --list --local | grep away; true
'''
# Keys by which git talks to somebody else, or sends more than before; $1 is a URL.
TALK = ["remote.away.url=URL", "remote.origin.url=URL", "remote.origin.pushurl=URL", "remote.origin.promisor=true",
        "remote.origin.push=refs/heads/*", "remote.origin.mirror=true", "remote.origin.vcs=ext", "remote.origin.uploadpack=sh",
        "remote.origin.receivepack=sh", "remote.origin.proxy=URL", "remote.origin.fetch=+refs/*:refs/*", "remote.pushDefault=away",
        "extensions.partialClone=origin", "branch.main.remote=URL", "branch.main.pushRemote=URL", "branch.main.merge=refs/heads/other",
        "url.URL.insteadOf=https://", "url.URL.pushInsteadOf=https://", "http.proxy=URL", "http.URL.extraHeader=x", "http.cookieFile=x",
        "credential.helper=store", "credential.URL.username=x", "core.gitProxy=x", "core.sshCommand=x", "protocol.allow=always",
        "protocol.ext.allow=always", "submodule.sub.url=URL", "submodule.sub.fetchRecurseSubmodules=true", "submodule.recurse=true",
        "push.default=matching", "push.recurseSubmodules=on-demand", "fetch.recurseSubmodules=true", "fetch.bundleURI=URL",
        "transfer.bundleURI=true", "remotes.all=away", "maintenance.auto=true", "status.showUntrackedFiles=no"]


def with_remote(place):
    """A repository of the host's with a remote, a tracked branch, and a push URL that keeps it from pushing."""
    for key, value in (("remote.origin.url", "https://host.invalid/x.git"), ("remote.origin.pushurl", "DISABLED"),
                       ("branch.main.remote", "origin"), ("branch.main.merge", "refs/heads/main"),
                       ("submodule.sub.url", "https://host.invalid/sub.git"), ("alias.st", "status")):
        done = git(place.ws, "config", key, value)
        check(done.returncode == 0, done.stdout)
    place.settle()


def layered(place, command, flags=()):
    """Run in a layer; {path: mark} of what changed."""
    need_layers()
    run(place, list(flags), command, mode="layer")
    return marks_of(place)


def marks_of(place):
    return {change["path"]: change["mark"] for change in json.loads(atoll(place, "diff", "--json").out)["changes"]}


class Door:
    """A port of loopback that counts who comes and shuts the door on them, so that no git waits for an answer."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.visits = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def _serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            peer.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(PATIENCE)


def use(place, door):
    for args in (["status"], ["diff", "--stat"], ["log", "-1"], ["stash", "list"]):
        git(place.ws, *args, home=place.home)
    return door.visits


# ---- whom git talks to (issue: a run without network makes the host's git carry data out) ------------------------------------------

@test("GT-01 a promised object is not fetched from where a run says: written directly")
def _():
    need("git")
    with Place(strict=False) as place, Door() as door:
        place.expect(".git/*")
        plain(place, inside_sh(PROMISOR, "http://127.0.0.1:%d/stolen" % door.port))
        check(use(place, door), "git does not fetch what is missing on this host: the rest shows nothing")
    with Place() as place, Door() as door:
        place.expect(".git/*")
        result = run(place, [], inside_sh(PROMISOR, "http://127.0.0.1:%d/stolen" % door.port))
        same(use(place, door), 0, "connections of the host's git")
        same(result.out, "", "keys that were set")
        check(any("remote" in line and "talk" in line for line in result.refusals), "no reason is given: %s" % result.refusals)


@test("GT-01 a promised object is not fetched from where a run says: in a layer")
def _():
    need("git")
    with Place() as place, Door() as door:
        place.expect(".git/*")
        marks = layered(place, inside_sh(PROMISOR, "http://127.0.0.1:%d/stolen" % door.port))
        check("talk" in (marks.get(".git/config") or ""), "the mark of .git/config: %s" % marks.get(".git/config"))
        among(atoll(place, "apply").status, (0, POLICY), "apply")
        check(b"away" not in read(place.ws + "/.git/config"), "the config was applied without being named")
        same(use(place, door), 0, "connections of the host's git")
        among(atoll(place, "apply", ".git/config").status, (0,), "apply of the file that is named")
        check(b"away" in read(place.ws + "/.git/config"), "a config that is named is not applied")


@test("GT-02 every key that talks: refused in a repository of the host's, marked in a layer")
def _():
    need("git")
    script = 'u=$1; shift; for p; do k=${p%%=*}; v=${p#*=}; git config "$(echo "$k" | sed "s,URL,$u,")" "$(echo "$v" | sed "s,URL,$u,")" && echo "set $p"; done; true'
    with Place() as place:
        with_remote(place)
        before = read(place.ws + "/.git/config")
        result = run(place, [], inside_sh(script, "https://evil.invalid/x", *TALK))
        same(result.out, "", "keys that were set")
        same(read(place.ws + "/.git/config"), before, "the config")
    with Place() as place:
        with_remote(place)
        need_layers()
        for pair in TALK[::5] if IS_ROOT else TALK[2::5]:
            marks = layered(place, inside_sh(script, "https://evil.invalid/x", pair))
            check(marks.get(".git/config"), "%s is not marked" % pair)


@test("GT-02 what the host has set to keep git from talking stays")
def _():
    need("git")
    for script in ("git config --unset remote.origin.pushurl", "git remote remove origin", "git remote set-url origin /tmp/x",
                   "git config --unset alias.st", "git remote rename origin other", "git config --remove-section remote.origin"):
        with Place() as place:
            with_remote(place)
            place.expect(".git/*")
            run(place, [], script)
            for key, value in (("remote.origin.url", "https://host.invalid/x.git"), ("remote.origin.pushurl", "DISABLED"), ("alias.st", "status")):
                same(git(place.ws, "config", "--get-all", key).stdout, value + "\n", "%s after: %s" % (key, script))
    with Place() as place:
        with_remote(place)
        marks = layered(place, "git config --unset remote.origin.pushurl")
        check(marks.get(".git/config"), "a push URL that is taken away is not marked")


@test("GT-03 daily work goes on: branches, upstreams, clones; and nothing of it is marked that need not be")
def _():
    need("git")
    script = r'''
        set -e; git config user.name Me; git config user.email m@example.org; git commit -q --allow-empty -m x
        git checkout -q -b topic; git config branch.topic.remote origin; git config branch.topic.merge refs/heads/topic
        git branch -q other; git branch -q -u main other; git branch -q -D other; git config pull.rebase true
        git clone -q . clone; git -C clone fetch -q; git -C clone -c user.name=a -c user.email=b commit -q --allow-empty -m y
        git worktree add -q tree; git -C tree commit -q --allow-empty -m z; git worktree move tree tree2; git -C tree2 status >/dev/null
        git worktree remove tree2; git worktree prune; git init -q own; git -C own remote add origin ../clone; git -C own fetch -q
    '''
    with Place() as place:
        with_remote(place)
        place.expect(".git/*", "clone", "own")
        result = run(place, [], inside_sh(script))
        same(result.status, 0, "daily work: %s" % result.err)
        text = read(place.ws + "/.git/config").decode()
        for wanted in ('branch "topic"', "DISABLED", "Me"):
            check(wanted in text, "%r is not in the config" % wanted)
        same(git(place.ws + "/clone", "fsck").returncode, 0, "git fsck of the clone")
    with Place() as place:
        with_remote(place)
        marks = layered(place, "git config user.name Me; git commit -q --allow-empty -m x; git checkout -q -b t; git branch -q -u main t")
        same({path: mark for path, mark in marks.items() if mark}, {}, "marks")


@test("GT-03 a repository of the run's own has the remotes that the run itself may reach")
def _():
    need("git")
    script = 'git init -q own; git -C own remote add a "$1" && echo added; git -C own config remote.a.promisor true && echo promisor; true'
    for flags, url, wanted in (([], "https://good.test/x", ""), ([], "../x", "added"), (["--allow", "good.test"], "https://good.test/x", "added"),
                               (["--allow", "good.test"], "https://bad.test/x", ""), (["--allow", "good.test"], "https://good.test:99/x", "")):
        with Place() as place:
            place.expect("own")
            if BARE and flags:
                continue
            same(run(place, flags, inside_sh(script, url)).out.strip(), wanted, "%s with %s" % (url, flags))


@test("GT-04 every key that is taken for harmless has its reason in the threat model")
def _():
    root = os.environ.get("ATOLL_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    source = os.path.join(root, "src/spec/git-config-rules.c")
    if not os.path.exists(source):
        skip("the source")
    keys = re.findall(r'\{"(\w+)", SUB_(\w+), "([\w*]+)", \w+,\s+\w+\}', read(source).decode())
    check(len(keys) > 60, "only %d keys were found" % len(keys))
    text = read(os.path.join(root, "doc/threat-model.md")).decode().lower()
    text = text[text.index("## lists of harmless things"):]
    missing = ["%s.%s" % (section, key) for section, _, key in keys
               if not re.search(r"`%s\.(name\.)?(\{[\w,]*\b)?%s\b" % (section, re.escape(key) if key != "*" else r"\*"), text)
               and not re.search(r"`%s\.\*`" % section, text)]
    same(missing, [], "keys without a reason")


# ---- where git looks (issue: pointer files) --------------------------------------------------------------------------------------------

def evil_directory(place, where):
    """What a run may have left in atoll's store, or in its private directory: a git directory that nobody has vetted."""
    make_repository(where + "-work")
    if "/.local/state/atoll/" in where:
        os.chmod(place.home + "/.local/state/atoll", 0o700)
    shutil.move(where + "-work/.git", where)
    shutil.rmtree(where + "-work")
    write(where + "/config", '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "touch %s;false"\n' % place.mark)


def store_path(place):
    return place.home + "/.local/state/atoll/records/abcdefgh/top/upper/evil"


def host_status(place):
    """git status wherever a pointer was planted; did something run?"""
    for where, directories, files in os.walk(place.ws):
        if ".git" in directories:
            directories.remove(".git")
        if ".git" in files:
            git(where, "status", home=place.home)
    git(place.ws, "status", home=place.home)
    return os.path.lexists(place.mark)


POINTERS = r'''
    def plant(name, how):
        os.makedirs(name)
        attempt(name, how)
    line = b"gitdir: %s\n" % os.fsencode(arg[1])
    up = b"gitdir: " + b"../" * (os.getcwd().count("/") + 1) + os.fsencode(arg[1])[1:]
    plant("a", lambda: put("a/.git", line))
    def pieces():
        fd = os.open("b/.git", os.O_WRONLY | os.O_CREAT)
        for i in range(len(line)): os.write(fd, line[i:i + 1])
        os.close(fd)
    plant("b", pieces)
    plant("c", lambda: (put("c/.git", b"gitdir: ../.git\n"), time.sleep(0.2), put("c/.git", line, os.O_WRONLY | os.O_TRUNC)))
    plant("d", lambda: (put("d/.git", b"gitdir: ../.git\n"), time.sleep(0.2), put("d/.git", line, os.O_WRONLY | os.O_APPEND)))
    def linked():
        put("e/.git", b"gitdir: ../.git\n"); time.sleep(0.2); os.link("e/.git", "e/second"); put("e/second", line, os.O_WRONLY | os.O_TRUNC)
    plant("e", linked)
    def reopened():
        put("f/.git", b"gitdir: ../.git\n"); time.sleep(0.2)
        fd = os.open("f/.git", os.O_RDONLY); put("/proc/self/fd/%d" % fd, line, os.O_WRONLY | os.O_TRUNC)
    plant("f", reopened)
    plant("g", lambda: (put("g/x", line), os.rename("g/x", "g/.git")))
    plant("h", lambda: (put("h/x", line), os.link("h/x", "h/.git")))
    plant("i", lambda: (put("i/x", line), os.symlink("x", "i/.git")))
    def unnamed():
        fd = os.open("j", O_TMPFILE | os.O_RDWR, 0o644); os.write(fd, line); link_fd(fd, "j/.git")
    plant("j", unnamed)
    plant("k", lambda: put("k/.git", up))
    quiet(lambda: os.symlink(os.path.dirname(arg[1]), "way"))
    plant("l", lambda: put("l/.git", b"gitdir: ../way/evil\n"))
    plant("m/n/o/p", lambda: (put("m/n/o/p/.git", b"gitdir: ../../../../" + os.fsencode(os.path.relpath(arg[1], os.path.dirname(os.getcwd()))) + b"\n"),
                              time.sleep(0.2), os.rename("m/n/o/p", "p")))
    fd = os.open("kept", os.O_WRONLY | os.O_CREAT); os.mkdir("q")
    attempt("q", lambda: (os.rename("kept", "q/.git"), os.write(fd, line)))
    time.sleep(0.3)
'''


@test("GT-05 a pointer file never leads into atoll's store, by whatever way it is written")
def _():
    need("git")
    names = ["%s" % c for c in "abcdefghijklmpq"] + ["way", "kept"]
    with Place(strict=False) as place:
        place.expect("*")
        evil_directory(place, store_path(place))
        plain(place, inside("time.sleep(0); os.mkdir('a'); put('a/.git', b'gitdir: %s\\n' % os.fsencode(arg[1]))", place.mark, store_path(place)), confined=False)
        check(host_status(place), "git does not follow a pointer on this host: the rest shows nothing")
    with Place() as place:
        place.expect(*names)
        evil_directory(place, store_path(place))
        place.settle()
        result = run(place, [], inside("import time\n" + textwrap.dedent(POINTERS), place.mark, store_path(place)))
        check(not host_status(place), "a pointer led git to a directory of the store")
        check(any("git pointer" in line for line in result.refusals), "no refusal is told: %s" % result.refusals)


@test("GT-05 in a layer a pointer is marked, and one into the store has its own words")
def _():
    need("git")
    with Place() as place:
        marks = layered(place, inside_sh('mkdir a b; echo "gitdir: $1" >a/.git; echo "gitdir: ../.git" >b/.git', store_path(place)))
        check("store" in (marks.get("a/.git") or ""), "the mark of a/.git: %s" % marks.get("a/.git"))
        same(marks.get("b/.git"), "git pointer file", "the mark of b/.git")


@test("GT-05 pointers out of the root, to another repository of the host's, and through links that change")
def _():
    need("git")
    with Place() as place:
        place.expect("a", "b", "c", "d", "link", "in")
        evil_directory(place, place.out + "/evil")
        place.settle()
        run(place, ["--read", place.out], inside(r'''
            import time
            out = os.fsencode(arg[1])
            for name, text in ("a", out), ("b", b"../../out/evil"), ("c", b"../link/evil"):
                os.mkdir(name); quiet(lambda: put(name + "/.git", b"gitdir: " + text + b"\n"))
            os.mkdir("link"); os.mkdir("in"); os.mkdir("d")
            quiet(lambda: put("d/.git", b"gitdir: ../link/evil\n")); time.sleep(0.2)
            quiet(lambda: os.rmdir("link")); quiet(lambda: os.symlink(os.path.dirname(out), "link"))
            time.sleep(0.2)
        ''', place.mark, place.out + "/evil"))
        if os.path.islink(place.ws + "/link"):
            os.unlink(place.ws + "/link")  # links out of the workspace are another test's
        check(not host_status(place), "a pointer led git out of the workspace")


# Two texts that are harmless; the first bytes of one and the rest of the other lead into the store. k = 5 attempts of 20 writers (measured on 42b4327).
WRITERS = r'''
    def attempt_open(path):
        try:
            return os.open(path, os.O_WRONLY)
        except BlockingIOError:
            return None
    os.makedirs("m/n/o/p"); place = "m/n/o/p/.git"
    short = b"gitdir: ../../../../.local/state/ato"
    long = b"gitdir: " + b"y" * (len(short) - 8) + b"ll/records/abcdefgh/top/upper/evil\n"
    put(place, b""); end = time.monotonic() + 6; n = 0; mixed = set()
    while time.monotonic() < end and n < 500:
        n += 1; fds = []
        for i in range(20):
            fds.append(until(lambda: attempt_open(place))); os.write(fds[-1], long if i % 2 else short)
        os.closerange(min(fds), max(fds) + 1)
        until(lambda: get(place), 0.2); time.sleep(0.005)
        mixed |= {get(place)} - {short, long, b""}
    print("attempts %d mixed %s" % (n, sorted(mixed)))
'''


@test("GT-05 of several writers of a pointer file one counts, and as a whole")
def _():
    need("git")
    with Place() as place:
        place.expect("m", "p")
        result = run(place, [], inside(WRITERS, place.mark))
        check("mixed []" in result.out, "a text that nobody has vetted: %s" % result.out + result.err)


@test("GT-05 a directory that moves takes no pointer and no work tree of git's out of the root")
def _():
    need("git")
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside(r'''
            import subprocess
            def sh(script):
                return subprocess.run(script, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            os.makedirs("a/b/c"); os.makedirs("d/e/f"); os.makedirs("g/h/i"); os.mkdir("elsewhere")
            put("a/b/c/.git", b"gitdir: ../../../elsewhere/.git\n"); until(lambda: get("a/b/c/.git"))
            attempt("pointer", lambda: os.rename("a/b/c", "moved1"))
            fd = os.open("d/e/f/.git", os.O_WRONLY | os.O_CREAT); os.write(fd, b"gitdir: ../../../elsewhere/.git\n")
            os.rename("d/e/f", "moved2"); os.close(fd); time.sleep(0.2)
            print(sh("""cd g/h/i && git init -q lib && git -C lib -c user.name=a -c user.email=b commit -q --allow-empty -m x && git init -q super &&
                git -C super -c protocol.file.allow=always submodule --quiet add ../lib sub && git config -f super/.git/modules/sub/config core.worktree ../../../../../../x"""))
            attempt("work tree", lambda: os.rename("g/h/i/super", "moved3"))
            attempt("in place", lambda: os.rename("g/h/i/super", "g/h/i/other"))
            attempt("deeper", lambda: (os.mkdir("g/h/i/j"), os.rename("g/h/i/other", "g/h/i/j/other")))
        ''', place.mark))
        same(result.tries["pointer"], "EPERM", "a pointer that moves: %s" % result.out)
        same(result.tries["work tree"], "EPERM", "a submodule's work tree that moves: %s" % result.out)
        same((result.tries["in place"], result.tries["deeper"]), ("ok", "ok"), "moves that lead nowhere else: %s" % result.err)
        same(read(place.ws + "/moved2/.git"), b"", "a pointer that was written after its directory had moved")
        among(read(place.ws + "/a/b/c/.git"), (b"gitdir: ../../../elsewhere/.git\n",), "the pointer that stayed")


@test("GT-10 of two runs in one directory none has the config open that the other's guard puts in place")
def _():
    need("git")
    # k = 25 attempts to open the lock file until it was the config (measured on 42b4327), so 2500 of them.
    writes = r'''
        text = get(".git/config"); end = time.monotonic() + 20
        while time.monotonic() < end and not os.path.exists("enough"):
            try:
                put(".git/config.lock", text, os.O_WRONLY | os.O_CREAT | os.O_EXCL); os.rename(".git/config.lock", ".git/config")
            except OSError:
                quiet(lambda: os.unlink(".git/config.lock"))
    '''
    opens = r'''
        n = hits = 0; end = time.monotonic() + 10
        while n < 2500 and not hits and time.monotonic() < end:
            try:
                fd = os.open(".git/config.lock", os.O_WRONLY)
            except OSError:
                continue
            n += 1
            for i in range(20):
                if not hits and quiet(lambda: os.fstat(fd).st_ino == os.stat(".git/config").st_ino):
                    os.ftruncate(fd, 0); os.write(fd, b"[core]\n\tfsmonitor = x\n"); hits += 1
            os.close(fd)
        put("enough"); print("opened %d hits %d" % (n, hits))
    '''
    with Place() as place:
        place.expect("*", ".git/*")
        before = read(place.ws + "/.git/config")
        other = start(place, [], inside(writes, place.mark))
        result = run(place, [], inside(opens, place.mark))
        other.wait()
        check("hits 0" in result.out and "opened 0 " not in result.out, result.out + result.err)
        same(read(place.ws + "/.git/config"), before, "the config")
        check(not [name for name in os.listdir(place.ws + "/.git") if name.startswith(".atoll-")], "a file of the guard's was left")


@test("GT-05 a pointer that leads to a place of the workspace works, with git and without")
def _():
    need("git")
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], r'''
            git init -q work && git -C work -c user.name=a -c user.email=b commit -q --allow-empty -m x &&
            git worktree add -q tree && mkdir again && echo "gitdir: ../work/.git" >again/.git && sleep 0.2 && git -C again log -1 --format=%s
        ''')
        same((result.status, result.out.strip()), (0, "x"), "pointers inside: %s" % result.err)
        same(git(place.ws + "/again", "log", "-1", "--format=%s").stdout.strip(), "x", "the host's git")
        same(git(place.ws + "/tree", "status", "--porcelain").returncode, 0, "git status in the worktree")


@test("GT-06 an index, remotes and branches of a git directory with another name are judged like those of .git")
def _():
    need("git")
    with Place() as place:
        done = git(place.ws, "init", "-q", "--separate-git-dir=" + place.ws + "/sep", "work")
        check(done.returncode == 0, done.stdout)
        place.settle()
        result = run(place, [], inside(r'''
            attempt("index", lambda: put("sep/index", b"DIRC"))
            attempt("remotes", lambda: os.mkdir("sep/remotes"))
            attempt("branches", lambda: put("sep/branches/x", b"https://evil.invalid\n"))
            attempt("exclude", lambda: put("sep/info/exclude", b"*\n", os.O_WRONLY | os.O_TRUNC))
        ''', place.mark))
        result.refused(how=GONE)


@test("GT-06 what a run has made around a repository of the host's does not make that one the run's own")
def _():
    need("git")
    with Place() as place:
        with_remote(place)
        write(place.ws + "/.git/hooks/pre-push", "#!/bin/sh\nexit 1\n", 0o755)
        place.settle()
        before = git_state(place)
        place.expect("HEAD", "objects", "refs", "x")
        run(place, [], inside(r'''
            import subprocess
            put("HEAD", HEAD); os.mkdir("objects"); os.mkdir("refs")  # the workspace itself is a git directory now
            os.mkdir("x"); put("x/.git", b"gitdir: ../.git\n")
            for words in (["remote", "add", "away", "https://evil.invalid/x"], ["config", "--unset", "remote.origin.pushurl"]):
                subprocess.run(["git", "--git-dir=.git", *words])
            quiet(lambda: os.unlink(".git/hooks/pre-push")); quiet(lambda: os.unlink(".git/config")); quiet(lambda: os.rename(".git", "x/g"))
            quiet(lambda: put(".git/info/exclude", b"*\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            quiet(lambda: os.truncate("x/.git", 12))
        ''', place.mark))
        unchanged(place, before)
        among(read(place.ws + "/x/.git"), (b"gitdir: ../.git\n", b""), "the pointer")


# ---- what git hides ------------------------------------------------------------------------------------------------------------------

@test("GT-07 the exclude list of the host's repository cannot hide what a run has planted")
def _():
    need("git")
    script = r'''
        echo planted >planted.sh; echo 'planted.sh' >>.git/info/exclude; echo x >x; mv x .git/info/exclude; rm -f .git/info/exclude
        mkdir -p .git/info; echo '*' >.git/info/exclude; ln -sf ../../f .git/info/exclude; git config status.showUntrackedFiles no; rm -f x; true
    '''
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside_sh(script))
        check("planted.sh" not in git(place.ws, "status", "--porcelain").stdout, "nothing is hidden on this host: the rest shows nothing")
    with Place() as place:
        write(place.ws + "/.git/info/exclude", "*.o\n")
        place.settle()
        place.expect("planted.sh")
        run(place, [], inside_sh(script))
        check("planted.sh" in git(place.ws, "status", "--porcelain").stdout, "the planted file is hidden from git status")
        same(read(place.ws + "/.git/info/exclude"), b"*.o\n", "the exclude list")
    with Place() as place:
        marks = layered(place, "mkdir -p .git/info; echo '*' >>.git/info/exclude; git init -q new")
        same(marks.get(".git/info/exclude"), "git exclude list", "the mark")
        same(marks.get("new/.git/info/exclude"), None, "the mark of a new repository's")


# ---- a linked worktree -------------------------------------------------------------------------------------------------------------

def with_worktree(place):
    """A repository in place.out, and the workspace as a linked work tree of it."""
    main = place.base + "/main"
    make_repository(main)
    shutil.rmtree(place.ws)
    done = git(main, "worktree", "add", "-q", place.ws)
    check(done.returncode == 0, done.stdout)
    place.settle()
    return main


@test("GT-08 a linked worktree with the grant that the hint names: commits work, other worktrees and submodules are out of reach")
def _():
    need("git")
    with Place() as place:
        main = with_worktree(place)
        git(main, "worktree", "add", "-q", place.tmp + "/other")
        admin = {name: read("%s/.git/worktrees/%s/gitdir" % (main, name)) for name in os.listdir(main + "/.git/worktrees")}
        place.expect("*")
        result = run(place, ["--write", main + "/.git"], inside(r'''
            import subprocess
            G = arg[1] + "/.git/"
            def sh(text): return subprocess.run(["sh", "-c", text], capture_output=True).returncode
            tell("commit", "ok" if sh("echo n >n && git add n && git -c user.name=a -c user.email=b commit -qm inside") == 0 else "failed")
            for name in os.listdir(G + "worktrees"):
                W = G + "worktrees/" + name
                attempt("rewrite gitdir " + name, lambda: put(W + "/gitdir", b"/home/.git\n", os.O_WRONLY | os.O_TRUNC))
                attempt("replace gitdir " + name, lambda: (put(G + "index.lock", b"/x/.git\n"), os.rename(G + "index.lock", W + "/gitdir")))
                quiet(lambda: os.unlink(G + "index.lock"))
                attempt("remove gitdir " + name, lambda: os.unlink(W + "/gitdir"))
                attempt("move it " + name, lambda: os.rename(W, G + "worktrees/moved"))
                attempt("commondir " + name, lambda: put(W + "/commondir", b"/x\n", os.O_WRONLY | os.O_TRUNC))
            attempt("move worktrees", lambda: os.rename(G + "worktrees", G + "logs/w"))
            attempt("move worktrees out", lambda: os.rename(G + "worktrees", "w"))
            attempt("modules", lambda: os.mkdir(G + "modules"))
            attempt("hooks", lambda: put(G + "hooks/pre-commit", HOOK, mode=0o755))
            attempt("index", lambda: put(G + "index", b"DIRC", os.O_WRONLY | os.O_TRUNC))
            attempt("exclude", lambda: put(G + "info/exclude", b"*\n"))
            attempt("unknown", lambda: put(G + "remotes", b"x"))
            attempt("config", lambda: put(G + "config", EVIL))
        ''', place.mark, main))
        same(result.tries.pop("commit"), "ok", "a commit in the worktree: %s" % result.err)
        result.refused(how=GONE + ("EBUSY", "EINVAL"))
        for name, text in admin.items():
            same(read("%s/.git/worktrees/%s/gitdir" % (main, name)), text, "the worktree " + name)
        same(git(main, "worktree", "list").returncode, 0, "git worktree list on the host")
        same(git(place.ws, "log", "-1", "--format=%s").stdout.strip(), "inside", "the commit, seen by the host")


@test("GT-09 the hint about a repository elsewhere does not repeat what a planted pointer says")
def _():
    need("git")

    def hint(place):
        result = run(place, [], ["git", "status"], leaks=True)
        return [line for line in result.err.splitlines() if "git repository" in line]
    for text in ("gitdir: %(home)s/.ssh", "gitdir: %(other)s/.git", "gitdir: %(other)s/.git/worktrees/x", "gitdir: ../home/.ssh"):
        with Place(repository=False) as place:
            make_repository(place.tmp + "/other")
            write(place.ws + "/.git", text % {"home": place.home, "other": place.tmp + "/other"} + "\n")
            place.settle()
            lines = hint(place)
            check(lines, "no hint at all")
            check(not any("--read" in line or "--write" in line for line in lines), "advice from a planted pointer: %s" % lines)
    with Place() as place:
        main = with_worktree(place)
        check(any("--read " + main in line for line in hint(place)), "no advice for a worktree that git has made: %s" % hint(place))


# ---- an index that is two (the length of hashes decides which paths it has) ---------------------------------------------------------

# argv: the git directory, where the planted hook leaves its mark, then steps. The index has harmless paths as SHA-1's, and a hook as
# SHA-256's.
TWO_FACED = r'''
import hashlib, os, struct, sys, zlib
G, MARK, steps = sys.argv[1], sys.argv[2], sys.argv[3:]
EVIL = b".git/hooks/post-checkout"
def loose(kind):
    text = b"#!/bin/sh\ntouch '%s'\n" % MARK.encode()
    data = b"blob %d\0" % len(text) + text
    name = hashlib.new(kind, data).hexdigest()
    os.makedirs(G + "/objects/" + name[:2], exist_ok=True)
    try:
        with open(G + "/objects/" + name[:2] + "/" + name[2:], "xb") as f: f.write(zlib.compress(data))
    except FileExistsError: pass
    return bytes.fromhex(name)
def entry(d, at, size, name, oid=b"", mode=0o100644):
    d[at + 24:at + 28] = struct.pack(">I", mode)
    d[at + 40:at + 40 + len(oid)] = oid
    d[at + 40 + size:at + 42 + size] = struct.pack(">H", len(name))
    d[at + 42 + size:at + 42 + size + len(name)] = name
    return at + ((42 + size + len(name) + 8) & ~7)
def two_faced():
    d = bytearray(252)
    d[0:12] = b"DIRC" + struct.pack(">II", 2, 2)
    entry(d, entry(d, 12, 20, b"a"), 20, b"b")
    end = entry(d, entry(d, 12, 32, b"x" * 24), 32, EVIL, loose("sha256"), 0o100755)
    d[72:76], d[136:140] = struct.pack(">H", 1) + b"a\0", struct.pack(">H", 1) + b"b\0"
    d[144:148] = struct.pack(">I", end + 32 - 20 - 148)
    return bytes(d[:end]) + hashlib.sha256(bytes(d[:end])).digest()
def put(name, data):
    with open(G + "/" + name + ".lock", "wb") as f: f.write(data)
    os.rename(G + "/" + name + ".lock", G + "/" + name)
def config(*lines):
    text = open(G + "/config").read().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
    put("config", (text + "[extensions]\n" + "".join("\tobjectformat = %s\n" % line for line in lines)).encode())
for step in steps:
    try:
        if step == "index": put("index", two_faced())
        elif step == "config": config("sha256")
        elif step == "both": config("sha1", "sha256")
    except PermissionError as error: print(step, "refused")
'''


def checks_out(place, where=""):
    """What a person does in the repository; did the planted hook run?"""
    place.expect("*", ".git/*")
    for _ in range(2):
        git(os.path.join(place.ws, where), "checkout", ".", home=place.home)
    return os.path.lexists(place.mark)


@test("GT-10 an index that has other paths under another length of hashes: written directly")
def _():
    need("git")
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        plain(place, ["python3", "-c", TWO_FACED, ".git", place.mark, "index", "both"])
        check(checks_out(place), "git does not obey such an index on this host: the rest shows nothing")
    for steps in (["index", "both"], ["index", "config"], ["both", "index"]):
        with Place(strict=False) as place:
            place.expect("*", ".git/*")
            result = run(place, [], ["python3", "-c", TWO_FACED, ".git", place.mark, *steps])
            check("refused" in result.out, "%s: nothing is refused: %s" % (steps, result.err))
            check(not checks_out(place), "%s: what was planted ran on the host" % steps)
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        for step in ("index", "config"):
            run(place, [], ["python3", "-c", TWO_FACED, ".git", place.mark, step])
        check(not checks_out(place), "in two runs: what was planted ran on the host")
    with Place(strict=False) as place:
        place.expect("*")
        run(place, [], inside_sh("git init -q new; python3 -c \"$1\" new/.git \"$2\" index config", TWO_FACED, place.mark))
        check(not checks_out(place, "new"), "a repository of the run's own: what was planted ran on the host")


@test("GT-10 the same in a layer, in one apply and in two")
def _():
    need("git")
    need_layers()
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        marks = layered(place, ["python3", "-c", TWO_FACED, ".git", place.mark, "index", "both"])
        check(marks[".git/config"] and marks[".git/index"], "not marked: %s" % marks)
        atoll(place, "apply")
        check(not checks_out(place), "what was planted ran on the host")
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        for step in ("index", "config"):
            layered(place, ["python3", "-c", TWO_FACED, ".git", place.mark, step])
            atoll(place, "apply")
        check(not checks_out(place), "in two applies: what was planted ran on the host")


@test("GT-10 the config two levels up counts for worktrees only")
def _():
    need("git")
    with Place(strict=False) as place:
        place.expect("*")
        result = run(place, [], inside_sh("""
            printf '[extensions]\\n\\tobjectformat = sha256\\n' >config; git init -q new; rm new/.git/config
            python3 -c "$1" new/.git "$2" index; cd new && git ls-files
        """, TWO_FACED, place.mark))
        check("refused" not in result.out, "an index of SHA-1 was read as one of SHA-256: %s" % result.err)


@test("GT-10 repositories of SHA-256 work: made inside, with a worktree, directly and in a layer")
def _():
    need("git")
    work = """
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
        git init -q --object-format=sha256 new && cd new && echo x >f && git add f && git commit -q -m one && git worktree add -q ../tree &&
        cd ../tree && echo y >>f && git commit -q -a -m two && git config user.name b && git log --format=%s
    """
    with Place(strict=False) as place:
        place.expect("*")
        result = run(place, [], inside_sh(work))
        same(result.out.split(), ["two", "one"], "the log inside: %s" % result.err)
        same(sorted(git(place.ws + "/new", "log", "--format=%s", "--all").stdout.split()), ["one", "two"], "the log on the host")
    need_layers()
    with Place(strict=False) as place:
        place.expect("*")
        marks = layered(place, inside_sh(work.replace("&& git worktree add -q ../tree &&\n        cd ../tree", "")))
        same({path for path, mark in marks.items() if mark}, set(), "marks")


# ---- the tree of a sandbox that runs -------------------------------------------------------------------------------------------------

@test("GT-11 a new repository has no remote in the tree of a process: pushing there would run its hooks")
def _():
    need("git")
    ways = ["/proc/1/root/tmp/x.git", "file:///proc/self/cwd/x.git", "/proc/sys/../4/root/x.git", "../../../../../proc/7/cwd/x", "/dev/fd/3/x"]
    with Place(strict=False) as place:
        place.expect("*")
        script = 'git init -q new; cd new; for u; do git remote add r$((i+=1)) "$u" && echo "$u"; done; git remote add fine ../other; git remote'
        result = run(place, [], ["/bin/bash", "-c", script, "sh", *ways])
        same(result.out.split(), ["fine"], "remotes: %s" % result.err)
    need_layers()
    for url in [ways[0], "../other"]:
        with Place(strict=False) as place:
            place.expect("*")
            marks = layered(place, inside_sh('git init -q new; cd new; git remote add away "$1"', url))
            same(bool(marks["new/.git/config"]), url == ways[0], "the mark of a config with %s" % url)


@test("GT-12 the exec lines of a planted rebase are marked in a git directory of any name")
def _():
    need("git")
    need_layers()
    with Place(strict=False, repository=False) as place:
        place.expect("*")
        git(place.ws, "init", "-q", "--separate-git-dir=meta", ".")
        place.settle()
        marks = layered(place, inside_sh("mkdir -p meta/rebase-merge x/rebase-merge; for d in meta x; do echo 'exec true' >$d/rebase-merge/git-rebase-todo; done"))
        same({path for path, mark in marks.items() if mark}, {"meta/rebase-merge/git-rebase-todo"}, "what is marked")


# A cherry-pick of the host's that waits for its conflict to be resolved: two commits, the second of which is still to be picked.
PICK = r'''
    g() { git -c user.name=a -c user.email=b "$@"; }
    echo 1 >f; git add f; g commit -qm 1; git checkout -q -b other; echo 2 >f; g commit -qam 2; echo 3 >new; git add new; g commit -qm 3
    git checkout -q -; echo 9 >f; g commit -qam 9; g cherry-pick other~1 other; [ -f .git/sequencer/todo ]
'''
# What resolves it, and adds a strategy: git-merge-x/y is a program at the top of the work tree. $1: the mark.
STRATEGY = r'''
    mkdir git-merge-x; printf '#!/bin/sh\ntouch "%s"\n' "$1" >git-merge-x/y; chmod +x git-merge-x/y
    printf '[options]\n\tstrategy = x/y\n' >.git/sequencer/opts; echo 29 >f; git add f
'''


@test("GT-13 a merge strategy that a run adds to a cherry-pick of the host's is marked in a layer")
def _():
    need("git")
    need_layers()
    for is_layer in (False, True):
        with Place(strict=False) as place:
            place.expect("*", ".git/*")
            done = plain(place, inside_sh(PICK))
            same(done.status, 0, "a cherry-pick that stops: %s" % done.out)
            place.settle()
            if is_layer:
                marks = layered(place, inside_sh(STRATEGY, place.mark))
                same({path for path, mark in marks.items() if mark}, {".git/sequencer/opts"}, "what is marked")
                atoll(place, "apply")
            else:
                plain(place, inside_sh(STRATEGY, place.mark))
            git(place.ws, "-c", "user.name=a", "-c", "user.email=b", "-c", "core.editor=true", "cherry-pick", "--continue", home=place.home)
            same(os.path.lexists(place.mark), not is_layer, "did the strategy run, %s a layer" % ("in" if is_layer else "without"))
    with Place(strict=False, repository=False) as place:
        place.expect("*")
        git(place.ws, "init", "-q", "--separate-git-dir=meta", ".")
        place.settle()
        marks = layered(place, inside_sh("mkdir -p meta/sequencer meta/rebase-merge; echo x >meta/sequencer/opts; echo x >meta/rebase-merge/strategy; echo x >meta/sequencer/todo"))
        same({path for path, mark in marks.items() if mark}, {"meta/sequencer/opts", "meta/rebase-merge/strategy"}, "marks in a git directory of another name")


# The commit of HEAD is taken for another one, with another file; loose, packed by git, and packed by hand.
REPLACE = r'''
    blob=$(echo evil | git hash-object -w --stdin); tree=$(printf '100644 blob %s\tfile.txt\n' "$blob" | git mktree); old=$(git rev-parse HEAD)
    new=$(git -c user.name=a -c user.email=b commit-tree -m x "$tree")
    case $1 in
    loose) git replace "$old" "$new";;
    packed) { echo "# pack-refs with: peeled fully-peeled sorted "; echo "$old refs/heads/packed"; echo "$new refs/replace/$old"; } >.git/packed-refs.lock
        mv .git/packed-refs.lock .git/packed-refs;;
    written) echo "$new refs/replace/$old" >.git/packed-refs;;
    esac; true
'''


@test("GT-14 a run does not have the host's git take one commit for another")
def _():
    need("git")
    need_layers()
    for how in ("loose", "packed", "written"):
        for mode in (None, "direct", "layer"):
            with Place(strict=False) as place:
                place.expect("*", ".git/*")
                write(place.ws + "/file.txt", "good\n")
                for args in (["add", "file.txt"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "good"]):
                    same(git(place.ws, *args).returncode, 0, "prepare")
                place.settle()
                command = inside_sh(REPLACE, how)
                if mode is None:
                    plain(place, command)
                else:
                    run(place, [], command, mode=mode)
                if mode == "layer":
                    marks = marks_of(place)
                    check(any("replace" in (mark or "") for mark in marks.values()), "%s: not marked: %s" % (how, marks))
                    atoll(place, "apply")
                same(git(place.ws, "show", "HEAD:file.txt").stdout, "evil\n" if mode is None else "good\n", "%s, %s: what the commit has" % (how, mode))
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh("git branch other && git tag v1 && git pack-refs --all && git branch -D other && git init -q own && cd own && "
                                          "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git replace HEAD $(git -c user.name=a -c user.email=b commit-tree -m y HEAD^{tree}) && "
                                          "git pack-refs --all && git log --format=%s"))
        same(result.out.splitlines()[-1:], ["y"], "references are packed, and a repository of the run's own has replacements: %s" % result.err)


# Other content under the name of a blob of the commit before HEAD; and a commit-graph that names another tree for that commit.
OTHER_CONTENT = """
import os, subprocess, zlib
name = subprocess.check_output(["git", "rev-parse", "HEAD~1:file.txt"], text=True).strip()
path = ".git/objects/%s/%s" % (name[:2], name[2:])
os.unlink(path)
with open(path, "wb") as file:
    file.write(zlib.compress(b"blob 5\\0evil\\n"))
"""
OTHER_TREE = """
import hashlib, os, subprocess
def git(*args, data=b""):
    return subprocess.check_output(["git", *args], input=data).strip().decode()
good = git("rev-parse", "HEAD~1^{tree}")
blob = git("hash-object", "-w", "--stdin", data=b"evil\\n")
evil = git("mktree", data=("100644 blob %s\\tfile.txt\\n" % blob).encode())
git("commit-graph", "write", "--reachable")
path = ".git/objects/info/commit-graph"
with open(path, "rb") as file:
    data = file.read()[:-20].replace(bytes.fromhex(good), bytes.fromhex(evil))
with open(path + ".lock", "wb") as file:
    file.write(data + hashlib.sha1(data).digest())
os.rename(path + ".lock", path)
"""


@test("GT-15 a layer does not have the host's git show other content under a commit that the host has")
def _():
    need("git")
    need_layers()
    for what, script in (("an object", OTHER_CONTENT), ("a commit-graph", OTHER_TREE)):
        for is_inside in (False, True):
            with Place(strict=False) as place:
                place.expect("*", ".git/*")
                for text in ("good", "newer"):
                    write(place.ws + "/file.txt", text + "\n")
                    for args in (["add", "file.txt"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", text]):
                        same(git(place.ws, *args).returncode, 0, "prepare")
                place.settle()
                if not is_inside:
                    plain(place, inside_py(script))
                else:
                    result = run(place, [], inside_py(script), mode="layer")
                    same(result.status, 0, "%s: the run: %s" % (what, result.err))
                    marks = marks_of(place)
                    check(any(".git/objects/" in path and mark for path, mark in marks.items()), "%s: not marked: %s" % (what, marks))
                    atoll(place, "apply")
                shown = git(place.ws, "log", "-p", "--format=%s").stdout.splitlines()
                same([line for line in ("+good", "+evil") if line in shown], ["+good" if is_inside else "+evil"], "%s, in a layer %s: the commit" % (what, is_inside))


@test("GT-15 commits and gc in a layer are applied without a name, and the repository is whole")
def _():
    need("git")
    need_layers()
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh("git config user.name a; git config user.email b; i=0; while [ $i -lt 120 ]; do echo $i >f$i; i=$((i+1)); done; "
                                          "git add . && git commit -qm many && git gc -q && echo more >more && git add more && git commit -qm more"), mode="layer")
        same(result.status, 0, "the run: %s" % result.err)
        marks = marks_of(place)
        wrong = {path: mark for path, mark in marks.items() if ".git/" in path and mark and "cache" not in mark}
        same(wrong, {}, "marked")
        check(any(path.endswith(".pack") for path in marks), "no pack was made")
        atoll(place, "apply")
        same((git(place.ws, "fsck", "--full", "--strict").returncode, git(place.ws, "log", "-1", "--format=%s").stdout), (0, "more\n"), "the repository on the host")


main()
