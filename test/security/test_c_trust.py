# SPDX-License-Identifier: Apache-2.0
# check: seconds 82
# check: bare
"""
Family C of the escape corpus: files that the host later executes or trusts (TH), and more of the same kind (TH-X)

Here the workspace is written directly, and the harm itself is refused. What is held back, marked and told instead, in a layer, is in
test_m_archives.py under the same ids.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from trust import *  # noqa: E402


def ran(place, _result):
    return use_git(place)


# ---- hooks and config ------------------------------------------------------------------------------------------------

@test("TH-01 git hooks")
def _():
    def attack(place):
        return inside_sh(r'''
            for hook in %s; do printf '#!/bin/sh\ntouch "%%s"\n' "$1" >.git/hooks/$hook && chmod +x .git/hooks/$hook; done; true
        ''' % " ".join(HOOKS), place.mark)
    refused = both(attack, ran)
    check(any("git hooks" in line for line in refused.refusals), "the refusal is not explained")


@test("TH-01 git hooks, by every way to put a file there")
def _():
    with Place() as place:
        place.expect("evil", "d", "linked", "sub", "h2")
        write(place.ws + "/.git/hooks/update.sample", "#!/bin/sh\n", 0o755)
        os.symlink(".git/hooks", place.ws + "/l")
        os.symlink(".git/hooks/pre-commit", place.ws + "/dangling")
        place.settle()
        before = git_state(place)
        inode = os.stat(place.ws + "/.git/hooks").st_ino
        result = run(place, [], inside(r'''
            H = ".git/hooks/"
            put("evil", HOOK, mode=0o755)
            os.mkdir("d"); put("d/pre-commit", HOOK, mode=0o755)
            attempt("open", lambda: put(H + "pre-commit", HOOK))
            attempt("O_EXCL", lambda: put(H + "pre-commit", HOOK, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            attempt("creat", lambda: syscall(85, os.fsencode(H + "pre-commit"), 0o755))
            attempt("openat2", lambda: syscall(437, AT_FDCWD, os.fsencode(H + "pre-commit"), struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 0), 24))
            hooks = os.open(".git/hooks", os.O_RDONLY)
            attempt("openat", lambda: put("pre-commit", HOOK, dir_fd=hooks))
            attempt("/proc/self/fd", lambda: put("/proc/self/fd/%d/pre-commit" % hooks, HOOK))
            attempt("/proc/self/cwd", lambda: put("/proc/self/cwd/.git/hooks/pre-commit", HOOK))
            attempt("/proc/thread-self/root", lambda: put("/proc/thread-self/root" + os.getcwd() + "/.git/hooks/pre-commit", HOOK))
            attempt("openat2, in root", lambda: syscall(437, hooks, b"/pre-commit", struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 0x10), 24))
            attempt("openat2, beneath", lambda: syscall(437, hooks, b"pre-commit", struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o755, 0x08), 24))
            attempt("a link there", lambda: os.symlink(".git/hooks", "l2"))
            attempt("through a link", lambda: put("l/pre-commit", HOOK))
            attempt("a dangling link", lambda: put("dangling", HOOK))
            attempt("dots", lambda: put("./src/../.git/./hooks//pre-commit", HOOK))
            attempt("rename", lambda: os.rename("evil", H + "pre-commit"))
            attempt("rename over a sample", lambda: os.rename("evil", H + "update.sample"))
            attempt("a sample becomes a hook", lambda: os.rename(H + "update.sample", H + "update"))
            attempt("a sample gets a second name", lambda: os.link(H + "update.sample", H + "update"))
            attempt("a sample is written", lambda: put(H + "update.sample", HOOK))
            attempt("a sample is truncated", lambda: os.truncate(H + "update.sample", 0))
            attempt("a sample's mode", lambda: os.chmod(H + "update.sample", 0o777))
            attempt("exchange", lambda: rename2("evil", H + "update.sample", 2))
            attempt("link", lambda: os.link("evil", H + "pre-commit"))
            attempt("symlink", lambda: os.symlink("../../evil", H + "pre-commit"))
            fd = os.open(".", O_TMPFILE | os.O_RDWR, 0o755); os.write(fd, HOOK)
            attempt("O_TMPFILE and linkat", lambda: link_fd(fd, H + "pre-commit"))
            attempt("O_TMPFILE there", lambda: os.open(".git/hooks", O_TMPFILE | os.O_RDWR, 0o755))
            link_fd(fd, "linked")
            attempt("rename of what was linked", lambda: os.rename("linked", H + "pre-commit"))
            attempt("mkdir", lambda: os.mkdir(H + "pre-commit"))
            attempt("mkfifo", lambda: os.mkfifo(H + "pre-commit"))
            attempt("mknod", lambda: os.mknod(H + "pre-commit", 0o755 | stat.S_IFREG))
            attempt("bind", lambda: socket.socket(socket.AF_UNIX).bind(H + "pre-commit"))
            attempt("hooks away", lambda: os.rename(".git/hooks", "h2"))
            attempt("hooks exchanged", lambda: rename2("d", ".git/hooks", 2))
            attempt("a directory over hooks", lambda: os.rename("d", ".git/hooks"))
            attempt("hooks' mode", lambda: os.chmod(".git/hooks", 0o777))
            attempt(".git away", lambda: os.rename(".git", "h2"))
            attempt(".git exchanged", lambda: rename2("d", ".git", 2))
            attempt("folded", lambda: put(".GIT/HOOKS/pre-commit", HOOK))
            attempt("NTFS", lambda: put(".git/hooks /pre-commit", HOOK))
        ''', place.mark))
        result.refused()
        unchanged(place, before)
        same(os.stat(place.ws + "/.git/hooks").st_ino, inode, "the inode of hooks")
        check(not use_git(place), "a hook ran")


@test("TH-X hooks by another path: no directory on the way to the workspace can be moved, others can")
def _():
    if BARE:
        skip("a private /tmp: without user namespaces there is none")
    with Place(where="/tmp") as place:  # beneath a directory that is private inside
        before = git_state(place)
        result = run(place, [], inside(r'''
            way, other = os.path.dirname(os.getcwd()), "/tmp/other-%d" % os.getpid()
            os.mkdir(other); put(other + "/file", b"x")
            attempt("another", lambda: os.rename(other, other + "-2"))
            attempt("back, by exchange", lambda: (os.mkdir(other), rename2(other, other + "-2", 2)))
            attempt("its content", lambda: put(other + "/file", b"y"))
            attempt("write beside the workspace", lambda: put(way + "/beside", b"x"))
            def move(to):
                quiet(lambda: put(to + "/ws/.git/hooks/pre-commit", HOOK, mode=0o755))
                quiet(lambda: put("/proc/self/cwd/.git/hooks/pre-commit", HOOK, mode=0o755))
            attempt("mv", lambda: os.rename(way, way + "-x")); move(way + "-x")
            attempt("into another", lambda: os.rename(way, other + "/x")); move(other + "/x")
            d = os.open("/tmp", os.O_RDONLY)
            attempt("by descriptor", lambda: os.rename(os.path.basename(way), "y", src_dir_fd=d, dst_dir_fd=d)); move("/tmp/y")
            attempt("no replace", lambda: rename2(way, "/tmp/z", 1)); move("/tmp/z")
            attempt("exchange", lambda: rename2(way, other, 2)); move(other)
            attempt("exchange, the other side", lambda: rename2(other, way, 2)); move(other)
            attempt("the workspace itself", lambda: os.rename(os.getcwd(), way + "/ws2")); move(way)
        ''', place.mark))
        result.allowed("another", "back, by exchange", "its content", "write beside the workspace")
        result.refused("mv", "into another", "by descriptor", "no replace", "exchange", "exchange, the other side", "the workspace itself", how=("EBUSY",))
        check(any("the way to a grant" in line for line in result.refusals), "the refusal is not explained: %s" % result.refusals)
        same(git_state(place), before, "the repository")
        check(not os.path.lexists(place.ws + "/.git/hooks/pre-commit"), "a hook")


@test("TH-02 git config keys that run programs")
def _():
    value = "!touch"

    def attack(place):
        return inside_sh('m=$1; shift; for k; do git config "$k" "!touch $m" || echo "no $k"; done', place.mark, *KEYS)

    def planted(place, _result):
        text = read(place.ws + "/.git/config").decode()
        return sum(value in line for line in text.splitlines())

    refused = both(attack, planted)
    same(len(re.findall("^no ", refused.out, re.M)), len(KEYS), "keys refused")
    check(any("git config key" in line for line in refused.refusals), "the refusal is not explained")
    with Place() as place:  # core.fsmonitor alone, because it runs at once
        before = git_state(place)
        run(place, [], inside_sh('git config core.fsmonitor "touch $1;false"; git config --add core.fsmonitor "touch $1;false"',
                                 place.mark))
        unchanged(place, before)
        hostgit(place)
    with Place(strict=False) as place:
        plain(place, inside_sh('git config core.fsmonitor "touch $1;false"', place.mark))
        check(use_git(place), "core.fsmonitor does not run on this host: these tests show nothing")


@test("TH-02 harmless keys can be set, and stay the user's own")
def _():
    with Place() as place:
        place.expect(".git/refs/heads/topic")
        git(place.ws, "config", "core.editor", "my-editor")
        result = run(place, [], r'''
            git config user.name Somebody && git config user.email s@example.org &&
            git branch topic && git branch --set-upstream-to=main topic && git config pull.rebase true
        ''')
        same(result.status, 0, "harmless settings")
        text = read(place.ws + "/.git/config").decode()
        for wanted in ("Somebody", "my-editor", 'branch "topic"'):
            check(wanted in text, "%s is not in the config" % wanted)
        same(run(place, [], "git config core.editor other-editor").status != 0, True, "another editor")
        same(run(place, [], "git config core.pager less").status != 0, True, "a pager")
        check("my-editor" in read(place.ws + "/.git/config").decode(), "the user's own key is gone")


@test("TH-02 git config, by editing the file")
def _():
    with Place() as place:
        place.expect("evil", "evil2", "hard", "l", "lock2", ".git/config.lock", ".git/config.worktree*")
        before = git_state(place)
        result = run(place, [], inside(r'''
            C = ".git/config"
            def fresh(): put("evil", EVIL, os.O_WRONLY | os.O_CREAT | os.O_TRUNC); return "evil"
            attempt("append", lambda: put(C, EVIL, os.O_WRONLY | os.O_APPEND))
            attempt("write", lambda: put(C, EVIL))
            attempt("truncate at open", lambda: put(C, EVIL, os.O_WRONLY | os.O_TRUNC))
            attempt("O_RDONLY|O_TRUNC", lambda: os.open(C, os.O_RDONLY | os.O_TRUNC))
            attempt("truncate", lambda: os.truncate(C, 3))
            fd = os.open(C, os.O_RDONLY)
            attempt("reopen", lambda: put("/proc/self/fd/%d" % fd, EVIL))
            attempt("ftruncate", lambda: os.ftruncate(fd, 0))
            attempt("shared mapping", lambda: mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
            path = os.open(C, O_PATH)
            attempt("reopen a path", lambda: put("/proc/self/fd/%d" % path, EVIL))
            attempt("rename", lambda: os.rename(fresh(), C))
            attempt("exchange", lambda: rename2(fresh(), C, 2))
            attempt("link over", lambda: os.link(fresh(), C))
            attempt("second name", lambda: os.link(C, "hard"))
            attempt("second name by descriptor", lambda: link_fd(fd, "hard"))
            attempt("unlink", lambda: os.unlink(C))
            attempt("rename away", lambda: os.rename(C, "evil2"))
            attempt("symlink over", lambda: (os.unlink(C), os.symlink("../evil", C)))
            def by_lock(text):
                put(C + ".lock", text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.rename(C + ".lock", C)
            attempt("config.lock", lambda: by_lock(EVIL))
            attempt("a lock that is a link", lambda: (quiet(lambda: os.unlink(C + ".lock")), os.symlink("../evil", C + ".lock"), os.rename(C + ".lock", C)))
            quiet(lambda: os.unlink(C + ".lock"))
            attempt("a lock that is a fifo", lambda: (os.mkfifo(C + ".lock"), os.rename(C + ".lock", C)))
            quiet(lambda: os.unlink(C + ".lock"))
            attempt("a lock linked in", lambda: (os.link(fresh(), C + ".lock"), os.rename(C + ".lock", C)))
            quiet(lambda: os.unlink(C + ".lock"))
            attempt("case", lambda: by_lock(EVIL.replace(b"core", b"CoRe").replace(b"fsmonitor", b"FSMonitor")))
            attempt("one line", lambda: by_lock(b'[core]fsmonitor="touch %s;false"\n' % MARK.encode()))
            attempt("continued", lambda: by_lock(b'[core]\n\tfs\\\nmonitor = x\n'))
            attempt("behind a comment", lambda: by_lock(b'; \\\n[core]\n\tfsmonitor = touch\n'))
            attempt("byte order mark", lambda: by_lock(b'\xef\xbb\xbf' + EVIL))
            attempt("carriage returns", lambda: by_lock(EVIL.replace(b"\n", b"\r\n")))
            attempt("NUL", lambda: by_lock(b"[user]\n\tname = x\0\n" + EVIL))
            attempt("too large", lambda: by_lock(b"# \n" * 30000 + EVIL))
            attempt("no end of line", lambda: by_lock(EVIL[:-1]))
            attempt("include", lambda: by_lock(b"[include]\n\tpath = ../evil\n"))
            attempt("subsection trick", lambda: by_lock(b'[remote "]\n[core]\n\tfsmonitor = x"]\n\turl = y\n'))
            attempt("alias in url", lambda: by_lock(b'[remote "o"]\n\turl = ext::sh -c touch%% x\n'))
            attempt("option as url", lambda: by_lock(b'[remote "o"]\n\turl = --upload-pack=touch\n'))
        ''', place.mark))
        result.refused(how=GONE + ("EEXIST", "EINVAL", "EFBIG"))
        unchanged(place, before)
        hostgit(place)


@test("TH-02 a config.lock that is still open when it becomes the config")
def _():
    with Place() as place:
        place.expect("hard", ".git/config.lock")
        result = run(place, [], inside(r'''
            nice = get(".git/config") + b"[user]\n\tname = Other\n"
            fd = os.open(".git/config.lock", os.O_RDWR | os.O_CREAT, 0o644)
            os.write(fd, nice)
            shared = mmap.mmap(fd, len(nice))
            os.link(".git/config.lock", "hard")
            attempt("install", lambda: os.rename(".git/config.lock", ".git/config"))
            os.pwrite(fd, EVIL, 0); shared[:10] = b"[core]\nxxx"; put("hard", EVIL)
            attempt("reopen", lambda: put("/proc/self/fd/%d" % fd, EVIL))
        ''', place.mark))
        result.allowed("install")
        text = read(place.ws + "/.git/config")
        check(b"fsmonitor" not in text and b"Other" in text and b"xxx" not in text, "the config in place is not what was checked: %r" % text)
        hostgit(place)


@test("TH-02 GIT_CONFIG and its like do not arrive, and global settings stay inside")
def _():
    with Place() as place:
        write(place.tmp + "/g", '[alias]\n\tst = !touch %s\n' % place.mark)
        env = {"GIT_CONFIG": place.tmp + "/g", "GIT_CONFIG_GLOBAL": place.tmp + "/g", "GIT_CONFIG_COUNT": "1",
               "GIT_CONFIG_KEY_0": "alias.st", "GIT_CONFIG_VALUE_0": "!touch x", "GIT_DIR": place.tmp, "GIT_EXTERNAL_DIFF": "touch",
               "GIT_SSH_COMMAND": "touch", "GIT_EDITOR": "touch", "GIT_PAGER": "touch", "GIT_EXEC_PATH": place.tmp}
        result = run(place, [], "env | grep ^GIT_; git config --global core.pager evil; git config --system core.pager evil; "
                     "git st; git log -1 --format=%s", env=env)
        same(result.out.strip(), "first", "what git says")
        check(not os.path.exists(place.home + "/.gitconfig"), "a global setting came out")
        hostgit(place)


# ---- other parts of a git directory ----------------------------------------------------------------------------------

@test("TH-04 .git/commondir")
def _():
    def attack(place):
        return inside_sh(r'''
            mkdir -p evil/objects evil/refs; cp -r .git/objects .git/refs evil
            printf '[core]\nrepositoryformatversion=0\nbare=false\nfsmonitor="touch %s;false"\n' "$1" >evil/config
            echo ../evil >.git/commondir; true
        ''', place.mark)
    both(attack, ran, expect=("evil",))


@test("TH-04 .git/commondir, by every way to put a file there")
def _():
    with Place() as place:
        place.expect("c", "evil")
        before = git_state(place)
        result = run(place, [], inside(r'''
            put("c", b"../evil\n")
            D = ".git/commondir"
            attempt("rename", lambda: os.rename("c", D))
            attempt("link", lambda: os.link("c", D))
            attempt("symlink", lambda: os.symlink("../c", D))
            attempt("folded", lambda: os.rename("c", ".git/CommonDir"))
            attempt("O_EXCL", lambda: put(D, b"../evil\n", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            fd = os.open(".", O_TMPFILE | os.O_RDWR); os.write(fd, b"../evil\n")
            attempt("linkat", lambda: link_fd(fd, D))
            attempt("bind", lambda: socket.socket(socket.AF_UNIX).bind(D))
        ''', place.mark))
        result.refused()
        unchanged(place, before)
        hostgit(place)


@test("TH-05 worktree config")
def _():
    def attack(place):
        return inside_sh(r'''git config extensions.worktreeConfig true
            printf '[core]\n\tfsmonitor=touch %s;false\n' "$1" >.git/config.worktree; true''', place.mark)
    both(attack, lambda place, result: os.path.lexists(place.ws + "/.git/config.worktree") or ran(place, result))

    def on_already(place):  # the user has switched it on, and has linked worktrees
        git(place.ws, "config", "extensions.worktreeConfig", "true")
        git(place.ws, "worktree", "add", "-q", "wt")
        place.settle()

    def attack_wt(place):
        return inside_sh(r'''for d in .git .git/worktrees/wt; do
            printf '[core]\n\tfsmonitor="touch %s;false"\n' "$1" >c; mv c $d/config.worktree; cp c $d/config.worktree; done
            cd wt; git config --worktree core.fsmonitor "touch $1;false"; true''', place.mark)
    both(attack_wt, ran, prepare=on_already, expect=("c", "*.lock"))


@test("TH-07 submodule directories")
def _():
    def attack(place):
        return inside_sh(r'''
            git config -f .git/modules/sub/config core.fsmonitor "touch $1;false"
            printf '#!/bin/sh\ntouch "%s"\n' "$1" >.git/modules/sub/hooks/pre-commit && chmod +x .git/modules/sub/hooks/pre-commit
            cd sub && git config core.fsmonitor "touch $1;false"; true
        ''', place.mark)
    both(attack, ran, prepare=with_submodule, expect=("*.lock",))


@test("TH-07 submodules: other names, nested ones, their worktree and commondir")
def _():
    with Place() as place:
        with_submodule(place)
        place.expect("x", "e", ".git/modules/*")
        before = git_state(place, ".git/modules/sub")
        result = run(place, [], inside(r'''
            M = ".git/modules/"
            put("e", EVIL)
            attempt("hook", lambda: put(M + "sub/hooks/pre-commit", HOOK))
            attempt("config", lambda: os.rename("e", M + "sub/config"))
            attempt("commondir", lambda: put(M + "sub/commondir", b"../../../x\n"))
            attempt("config.worktree", lambda: put(M + "sub/config.worktree", EVIL))
            attempt("alternates", lambda: put(M + "sub/objects/info/alternates", b"/\n"))
            attempt("away", lambda: os.rename(M + "sub", "x"))
            attempt("a link to a module", lambda: os.symlink("../../x", M + "new"))
            os.mkdir("x")
            attempt("a module moved in", lambda: os.rename("x", M + "new"))
            os.mkdir(M + "a"); os.mkdir(M + "a/b")
            attempt("a new one's hook", lambda: (os.mkdir(M + "a/b/hooks"), put(M + "a/b/hooks/pre-commit", HOOK)))
            attempt("a new one's config", lambda: put(M + "a/b/config", EVIL))
            attempt("a new one's config by lock", lambda: (put(M + "a/b/config.lock", EVIL), os.rename(M + "a/b/config.lock", M + "a/b/config")))
            def worktree(to):
                put(M + "sub/config.lock", get(M + "sub/config").replace(b"../../../sub", to), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.rename(M + "sub/config.lock", M + "sub/config")
            attempt("work tree outside", lambda: worktree(b"../../../../out"))
            attempt("work tree in .git", lambda: worktree(b"../../../.git/hooks"))
            attempt("work tree in .vscode", lambda: worktree(b"../../../.vscode"))
            attempt("work tree absolute", lambda: worktree(b"/tmp"))
        ''', place.mark))
        result.refused()
        unchanged(place, before, ".git/modules/sub")
        check(not use_git(place), "something ran")


@test("TH-08 .git pointer files")
def _():
    def prepare(place):
        with_submodule(place)
        git(place.ws, "worktree", "add", "-q", "wt")
        place.settle()

    def attack(place):
        return inside_sh(r'''
            mkdir -p evil/objects evil/refs/heads; echo "ref: refs/heads/main" >evil/HEAD
            printf '[core]\nrepositoryformatversion=0\nbare=false\nfsmonitor="touch %s;false"\n' "$1" >evil/config
            for d in sub wt; do echo "gitdir: ../evil" >$d/.git; rm -f $d/.git; ln -sf ../evil $d/.git; mv evil $d/.git
                mkdir $d/n; echo "gitdir: ../../evil" >$d/n/.git; done; true
        ''', place.mark)
    both(attack, ran, prepare=prepare, expect=("evil", "sub/n", "wt/n"))


@test("TH-10 embedded bare repository")
def _():
    both(lambda place: inside_sh(BARE_REPOSITORY, place.mark), ran, expect=("vendor", "c", "h"))


@test("TH-11 workspace root turned into a repository")
def _():
    def attack(place):
        return inside_sh(r'''
            cp -r .git/objects .git/refs .git/HEAD .; rm -rf .git/HEAD .git/objects
            printf '[core]\nbare=false\nworktree=.\nfsmonitor="touch %s;false"\n' "$1" >config
            mkdir -p hooks; for h in pre-commit reference-transaction; do
                printf '#!/bin/sh\ntouch "%s"\n' "$1" >hooks/$h && chmod +x hooks/$h; done; true
        ''', place.mark)
    both(attack, ran, expect=("objects", "refs", "HEAD", "config", "hooks"))
    with Place() as place:  # first the config, and .git made invalid by what may be written
        place.expect("objects", "refs", "HEAD", "config", "hooks")
        run(place, [], inside_sh(r'''
            printf '[core]\nbare=false\nworktree=.\nfsmonitor="touch %s;false"\n' "$1" >config
            echo garbage >.git/HEAD; cp -r .git/refs .; cp -r .git/objects .; echo "ref: refs/heads/main" >HEAD''', place.mark))
        hostgit(place)


@test("TH-13 repositories deeper than a scan")
def _():
    deep = "a/b/c/d/e/f/g/h/i/j/k/l"

    def prepare(place):
        make_repository(place.ws + "/" + deep)
        place.settle()

    def attack(place):
        return inside_sh(r'''cd "$2"; git config core.fsmonitor "touch $1;false"
            printf '#!/bin/sh\ntouch "%s"\n' "$1" >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit; true''', place.mark, deep)
    both(attack, ran, prepare=prepare)


@test("TH-14 new repository where there was none")
def _():
    def attack(place):
        return inside_sh(r'''git init -q && git config user.name x || exit 3; git config core.fsmonitor "touch $1;false"
            printf '[core]\n\tfsmonitor="touch %s;false"\n' "$1" >>.git/config
            printf '#!/bin/sh\ntouch "%s"\n' "$1" >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit; true''', place.mark)
    refused = both(attack, ran, repository=False, expect=(".git",))
    same(refused.status, 0, "git init")


@test("TH-16 alternates and grafts")
def _():
    def prepare(place):
        make_repository(place.home + "/secret-repo")
        place.settle()

    def attack(place):
        return inside_sh(r'''echo "$1/.git/objects" >.git/objects/info/alternates; echo x >.git/info/grafts
            echo "* filter=x" >.git/info/attributes; echo "$1/.git/objects" >a; mv a .git/objects/info/alternates
            ln -s /x .git/objects/info/http-alternates; git cat-file -p "$2" || echo unreadable''',
                         place.home + "/secret-repo", git(place.home + "/secret-repo", "rev-parse", "HEAD").stdout.strip())

    def planted(place, _result):
        return any(os.path.lexists(place.ws + "/.git/" + n) for n in ("objects/info/alternates", "objects/info/http-alternates",
                                                                      "info/grafts", "info/attributes"))
    refused = both(attack, planted, prepare=prepare, expect=("a",))
    check("unreadable" in refused.out, "the other repository's objects can be read")


# ---- names that are trusted ------------------------------------------------------------------------------------------


@test("TH-17 editor, agent and CI folders that are missing, also in subfolders")
def _():
    with Place() as place:
        place.expect("made-*", ".github", ".cargo", ".config", "src/made-*", "src/.github", "src/.cargo")
        result = run(place, ["--chdir", "."], inside(PLANT_NAMES + "\n    os.chdir('src')\n" + PLANT_NAMES.replace('"%s %s"', '"src %s %s"'),
                                                     place.mark, *EDITORS))
        result.refused()
        same(planted_names(place.ws, EDITORS) + planted_names(place.ws + "/src", EDITORS), [], "planted")
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside(PLANT_NAMES, place.mark, *EDITORS))
        same(planted_names(place.ws, EDITORS), EDITORS, "planted without atoll: otherwise this shows nothing")


@test("TH-17 editor, agent and CI folders that exist")
def _():
    with Place() as place:
        place.expect("away*", "new*")
        for name in EDITORS:
            write(os.path.join(place.ws, name), "the user's\n")
        place.settle()
        result = run(place, [], inside(r'''
            for i, name in enumerate(arg[1:]):
                top = name.split("/")[0]
                attempt("write " + name, lambda: put(name))
                attempt("append " + name, lambda: put(name, flags=os.O_WRONLY | os.O_APPEND))
                attempt("truncate " + name, lambda: os.truncate(name, 0))
                attempt("unlink " + name, lambda: os.unlink(name))
                attempt("away " + name, lambda: os.rename(name, "away"))
                attempt("hard " + name, lambda: os.link(name, "away"))
                attempt("chmod " + name, lambda: os.chmod(name, 0o777))
                attempt("reopen " + name, lambda: put("/proc/self/fd/%d" % os.open(name, os.O_RDONLY)))
                def over():
                    put("new", b"x"); os.rename("new", name)
                attempt("over " + name, over)
                def exchange():
                    put("new", b"x"); rename2("new", name, 2)
                attempt("exchange " + name, exchange)
        ''', place.mark, *EDITORS))
        result.refused()
        for name in EDITORS:
            same(read(os.path.join(place.ws, name)), b"the user's\n", name)


def grants_home(place):
    return ["--write", place.home, "--accept-broad", place.home]


def home_names(names):
    """Refused in a home that is granted for writing; written without atoll."""
    code = r'''
        os.chdir(arg[1])
        for name in arg[2:]:
            def make():
                os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
                put(name, b"planted\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            attempt(name, make)
        attempt("allowed", lambda: put("notes.txt"))
    '''
    with Place(strict=False) as place:
        before = snapshot(place.home)
        result = run(place, grants_home(place), inside(code, place.mark, place.home, *names), leaks=True)
        result.refused(*names)
        result.allowed("allowed")
        after = snapshot(place.home)
        for name in names:
            same(after.get(name), before.get(name), name)
    with Place(strict=False) as place:
        plain(place, inside(code, place.mark, place.home, *names))
        same([name for name in names if read(place.home + "/" + name) != b"planted\n"], [], "not planted without atoll")


@test("TH-19 shell and login files in a writable home")
def _():
    home_names(HOME_FILES)


@test("TH-20 persistence elsewhere in home")
def _():
    home_names(PERSISTENCE)


@test("TH-20 crontab and at have no spool")
def _():
    with Place() as place:
        name = "atoll-test-" + place.token
        result = run(place, [], inside(r'''
            for d in ("/var/spool/cron/crontabs", "/var/spool/cron", "/var/spool/cron/atjobs", "/var/spool/at", "/etc/cron.d", "/etc/cron.daily",
                      "/etc/systemd/system", "/etc/profile.d", "/usr/local/bin", "/usr/lib/systemd/system", "/var/lib/systemd/linger"):
                attempt(d, lambda: put(d + "/" + arg[1]))
        ''', place.mark, name))
        result.refused()
        for where in ("/var/spool/cron/crontabs", "/var/spool/cron", "/etc/cron.d", "/etc/cron.daily", "/etc/systemd/system", "/etc/profile.d"):
            check(not os.path.lexists(os.path.join(where, name)), "planted in %s" % where)


@test("TH-22 PATH planting against the tool")
def _():
    tools = ["git", "bwrap", "newuidmap", "newgidmap", "sh", "mount", "ip", "rg", "id", "true", "atoll-init", "systemd-run", "ls"]
    with Place() as place:
        for where in ("", "bin/"):
            for tool in tools:
                write(place.ws + "/" + where + tool, "#!/bin/sh\necho planted; touch '%s'\n" % place.mark, 0o755)
        place.settle()
        env = {"PATH": ".:%s:%s:%s" % (place.ws, place.ws + "/bin", HOST_PATH)}
        for args in (["doctor"], ["run", "--plan", "--", "/bin/true"], ["run", "--", "/bin/true"], ["run", "--", "git", "--version"],
                     ["run", "--hide", "**/.env", "--", "/bin/true"], ["version"]):
            atoll(place, *args, env=env)
            check(not os.path.lexists(place.mark), "atoll %s ran a planted program on the host" % " ".join(args))
    with Place(strict=False) as place:
        write(place.ws + "/git", "#!/bin/sh\ntouch '%s'\n" % place.mark, 0o755)
        place.settle()
        plain(place, ["/bin/sh", "-c", "git"], env={"PATH": "." + ":" + HOST_PATH})
        check(os.path.lexists(place.mark), "the planted program does not work: this test shows nothing")


@test("TH-23 the tool reads no workspace file as its own settings")
def _():
    with Place() as place:
        def plan(**env):
            text = atoll(place, "run", "--plan", "--json", "--", "/bin/true", env=env).out
            check(text.strip(), "no plan")
            return text
        before = plan()
        wide = "version: 1\ncommand: [/bin/true]\nfilesystem:\n  write: [%s]\n" % place.out
        for name in ("atoll.toml", "atoll.yaml", "atoll.yml", "atoll.json", ".atollrc", ".atoll.yaml", ".atoll/config", ".atoll/job.yaml", "job.yaml",
                     ".tool-versions", ".config/atoll/config", ".config/atoll/config.yaml", "policy.yaml"):
            write(os.path.join(place.ws, name), wide)
        write(place.ws + "/.env", "ATOLL_CONFIG=./atoll.yaml\nATOLL_WRITE=%s\n" % place.out)
        place.settle()
        same(plan(), before, "the plan with settings in the workspace")
        same(plan(ATOLL_CONFIG="./atoll.yaml", ATOLL_WRITE=place.out, ATOLL_POLICY="./policy.yaml", XDG_CONFIG_HOME=place.ws + "/.config"), before,
             "the plan with variables that point there")
        result = run(place, [], inside("attempt('write', lambda: put(arg[1] + '/x'))", place.mark, place.out))
        result.refused("write")
        check("write" in plan() and place.out not in plan(), "the planted grant is in the plan")
        # The same grant where it is asked for works, so the file would have been understood.
        write(place.tmp + "/job.yaml", wide.replace("/bin/true", "/bin/sh, -c, 'echo x >%s/asked'" % place.out))
        run(place, ["-f", place.tmp + "/job.yaml"], None)
        check(os.path.exists(place.out + "/asked"), "the grant does not work when asked for")
        os.unlink(place.out + "/asked")


@test("TH-25 special files left behind do not stop the next start")
def _():
    # It is read for the record: once is enough of more than 32 bits can tell.
    large = 256 << 20 if IS_SANITIZED or IS_ROOT or BARE else (10 if os.environ.get("ATOLL_LONG") else 5) << 30
    with Place() as place:
        place.expect("fifo", "README.md", "sock", "sparse", "many", "x", ".env", "d", "loop")
        result = run(place, ["--disk", "20G"], inside(r'''
            os.unlink("README.md"); os.mkfifo("README.md"); os.mkfifo(".env"); os.mkdir("d"); os.mkfifo("d/.env")
            socket.socket(socket.AF_UNIX).bind("sock")
            def sparse():
                put("sparse"); os.truncate("sparse", int(arg[1]))
            attempt("sparse", sparse)
            os.mkdir("many")
            for i in range(1000): os.mknod("many/%d" % i)
            put("x"); quiet(lambda: os.setxattr("x", "user.big", b"x" * 60000))
            os.symlink("loop", "loop")
        ''', place.mark, large))
        same(result.tries["end"], "ok", "leaving things behind")
        for flags in ([], ["--hide", "**/.env"], ["--protect", "README.md"], ["--hide", "README.md"], ["--protect", "sock"], ["--hide", "d/.env"]):
            again = run(place, flags, ["/bin/true"])
            same(again.status, 0, "the next start with %s: %s" % (flags, again.err))
        atoll(place, "run", "--plan", "--", "/bin/true")


@test("TH-26 link bait: never followed for somebody else")
def _():
    with Place() as place:
        place.expect("report.txt", "site", "key")
        run(place, [], inside_sh('ln -s "$1/.ssh/id" report.txt; ln -s / site; ln -s "$1" key', place.home))
        for name, target in (("report.txt", place.home + "/.ssh/id"), ("site", "/"), ("key", place.home)):
            check(not os.path.lexists(os.path.join(place.ws, name)), "a run has left a link out of the workspace: %s" % name)
            os.symlink(target, os.path.join(place.ws, name))  # as one that somebody else has left
        result = run(place, [], "cat report.txt key/.ssh/id site/%s/secret.txt; true" % place.out)
        check(place.secret not in result.out, "the target's content")
        for flags in (["--read", "report.txt"], ["--write", "site"], ["--read", "key"], ["--chdir", "site"], ["-C", "site"], ["-C", "key"]):
            refused = run(place, flags, ["/bin/cat", "report.txt"], starts=False)
            check(refused.status in REFUSED or place.secret not in refused.out, "a grant followed a link: %s" % flags)
            among(refused.status, REFUSED, "status with %s" % flags)


# ---- git still works -------------------------------------------------------------------------------------------------

GIT_AT_WORK = r'''
    t() { label=$1; shift; if said=$("$@" 2>&1); then echo "try $label => ok"; else echo "try $label => $(echo "$said" | tail -n 4 | tr '\n' '|')"; fi; }
    up=$1; file="-c protocol.file.allow=always"
    echo 1 >n1; t add git add n1; t commit git commit -qm second; echo 2 >>n1; t amend git commit -qa --amend -m second2
    t branch git branch topic; t switch git switch -q topic; echo 3 >n3; git add n3; t "commit on a branch" git commit -qm third
    t checkout git checkout -q main; echo 4 >n4; git add n4; git commit -qm fourth; t merge git merge -q --no-edit topic
    git switch -q -c reb HEAD~1; echo 5 >n5; git add n5; git commit -qm fifth; t rebase git rebase -q main
    t "rebase -i" env GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2
    git switch -q main; t cherry-pick git cherry-pick reb
    echo 6 >>n1; t stash git stash -q; t "stash pop" git stash pop -q; t "stash again" git stash -q; t "stash drop" git stash drop -q
    t tag git tag v1; t "annotated tag" git tag -a v2 -m two; t notes git notes add -m note
    t revert git revert --no-edit HEAD; t reset git reset -q --hard HEAD~1
    t bisect sh -c 'git bisect start -q HEAD HEAD~2 && git bisect run true; git bisect reset'
    t gc git gc -q; t repack git repack -adq; t prune git prune; t fsck git fsck; t reflog git reflog expire --expire=now --all
    t "commit graph" git commit-graph write --reachable; t maintenance git maintenance run --task=gc
    t "worktree add" git worktree add -q wt topic; (cd wt; echo 7 >n7; git add n7; t "worktree commit" git commit -qm seventh)
    t "worktree lock" git worktree lock wt; t "worktree unlock" git worktree unlock wt; t "worktree remove" git worktree remove --force wt
    t "worktree keep" git worktree add -q wt2 -b w2; (cd wt2; echo 8 >n8; git add n8; git commit -qm eighth); t "worktree prune" git worktree prune
    t "submodule update" git $file submodule update --init
    (cd sub; echo s >s; git add s; t "submodule commit" git -c user.name=a -c user.email=b commit -qm insub; t "submodule gc" git gc -q)
    t "submodule add" git $file submodule add -q "$up" lib/sub2; t "submodule noted" git commit -qam "sub2"
    t "submodule update all" git $file submodule update --init --recursive; t "submodule sync" git submodule sync
    t clone git clone -q "$up" cl; (cd cl; t "commit in a clone" git -c user.name=a -c user.email=b commit --allow-empty -qm x)
    t "clone of the workspace" git clone -q . cl2; t "bare clone" git clone -q --bare "$up" bare.git; t "mirror" git clone -q --mirror "$up" mirror.git
    t fetch git -C cl fetch -q; t pull git -C cl pull -q --rebase; t push git -C cl push -q ../bare.git HEAD:refs/heads/new
    t "init in a subdirectory" git init -q ini; (cd ini; git config user.name me; t "commit there" git -c user.email=b commit -qm x --allow-empty
        t "remote add" git remote add origin ../cl)
    t "init --bare" git init -q --bare ib.git
    t "remove a bare repository" rm -rf mirror.git
    t "remove a clone" rm -rf cl2; t "move a clone" mv cl cl9; t "remove a new repository" rm -rf ini
    t shallow git clone -q --depth 1 "file://$up" sh; t "branch -D" git branch -D reb
    t "git mv" git mv n4 n4b; t "git rm" git rm -q n3; t "commit at the end" git commit -qm last
'''


@test("TH-X git works inside: add to gc, worktrees, submodules, clones; the host sees sound repositories")
def _():
    with Place() as place:
        with_submodule(place)
        os.chmod(place.tmp, 0o755)
        place.expect("*", ".git/*", "sub/*")
        result = run(place, ["--read", place.tmp + "/upstream"], inside_sh(GIT_AT_WORK, place.tmp + "/upstream"))
        failed = {label: said for label, said in result.tries.items() if said != "ok"}
        check(not failed, "git failed inside: %s" % failed)
        check(len(result.tries) > 60, "only %d steps were tried" % len(result.tries))
        for where in ("", "/sub", "/wt2", "/lib/sub2", "/cl9", "/bare.git", "/sh"):
            done = git(place.ws + where, "fsck", "--full")
            same(done.returncode, 0, "git fsck in %s: %s" % (where or "the workspace", done.stdout))
        log = git(place.ws, "log", "--format=%s", "main").stdout
        for subject in ("second2", "third", "fourth", "fifth", "sub2", "last", "first"):
            check(subject in log.splitlines(), "the host does not see %r" % subject)
        check("eighth" in git(place.ws + "/wt2", "log", "--format=%s").stdout, "the worktree's commit")
        check("insub" in git(place.ws + "/sub", "log", "--format=%s", "--all").stdout, "the submodule's commit")
        same(git(place.ws, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules").stdout, "", "git status on the host")
        check(not use_git(place), "something ran")


@test("TH-X a repository of the user's hooks and settings goes on working")
def _():
    with Place(strict=False) as place:
        place.expect(".git/hooks/pre-commit", ".git/logs/*", ".git/COMMIT_EDITMSG")
        write(place.ws + "/.git/hooks/pre-commit", "#!/bin/sh\ntouch '%s'\n" % place.mark, 0o755)
        git(place.ws, "config", "alias.mine", "log -1")
        git(place.ws, "config", "core.hooksPath", ".git/hooks")
        before = git_state(place)
        same(run(place, [], "echo x >f; git config user.name Me; git commit -qam x; git mine >/dev/null").status, 0, "git inside")
        check(before["hooks"] == git_state(place)["hooks"], "the hooks have changed")
        check(b"mine" in read(place.ws + "/.git/config"), "the alias is gone")
        git(place.ws, "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "y")
        check(os.path.exists(place.mark), "the user's own hook does not run any more on the host")


# ---- git directories of other names ----------------------------------------------------------------------------------

def complete_repositories(place):
    """Directories that git takes for a repository, by its own rule."""
    for where, directories, files in os.walk(place.ws):
        if "/.git/" in where + "/":
            continue
        names = set(directories + files)
        if "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names):
            yield where


def no_evil(place):
    """No repository of the workspace runs anything, by looking and by trying."""
    for where in complete_repositories(place):
        config = os.path.join(where, "config")
        text = read(config) if os.path.isfile(config) else b""
        check(b"touch" not in text, "%s has a planted config" % where)
        hooks = os.path.join(where, "hooks")
        check(not os.path.lexists(hooks) or not [n for n in os.listdir(hooks) if not n.endswith(".sample")], "%s has hooks" % where)
        for name in ("commondir", "config.worktree", "objects/info/alternates"):
            check(not os.path.lexists(os.path.join(where, name)), "%s has %s" % (where, name))
    check(not use_git(place), "a planted command ran on the host")


@test("TH-X a bare repository completed in every order")
def _():
    code = r'''
        parts = {
            "HEAD": lambda d: put(d + "/HEAD", HEAD), "objects": lambda d: os.mkdir(d + "/objects"), "refs": lambda d: os.mkdir(d + "/refs"),
            "config": lambda d: put(d + "/config", EVIL), "hooks": lambda d: (os.mkdir(d + "/hooks"), put(d + "/hooks/pre-commit", HOOK, mode=0o755)),
        }
        for n, order in enumerate(itertools.permutations(parts)):
            d = "r%d" % n
            os.mkdir(d)
            for part in order:
                quiet(lambda: parts[part](d))
        pointer("p", "../r0"); pointer("q", "../r119")
    '''
    with Place() as place:
        place.expect("r*", "p", "q")
        run(place, [], inside(code, place.mark))
        no_evil(place)
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside(code, place.mark))
        check(len(list(complete_repositories(place))) == 120 and use_git(place, 200), "this does not make repositories: it shows nothing")


WAYS = r'''
    os.mkdir("parts")
    def part(name, kind):
        "Something to move or link into place."
        p = "parts/%d" % len(os.listdir("parts"))
        if kind == "dir": os.mkdir(p)
        else: put(p, EVIL if name == "config" else HEAD if name == "HEAD" else b"../common\n")
        return p
    def tmpfile(data, to):
        fd = os.open("parts", O_TMPFILE | os.O_RDWR); os.write(fd, data); link_fd(fd, to)
    def over(name, to, kind):
        "Exchange with what is there already."
        os.mkdir(to) if kind == "dir" else put(to, b"x")
        rename2(part(name, kind), to, 2)
    DIRS = {
        "mkdir": lambda to: os.mkdir(to), "rename": lambda to: os.rename(part("d", "dir"), to), "symlink": lambda to: os.symlink("../parts", to),
        "file": lambda to: put(to, b"", mode=0o755), "fifo": lambda to: os.mkfifo(to), "bind": lambda to: socket.socket(socket.AF_UNIX).bind(to),
        "exchange": lambda to: over("d", to, "dir"), "dirfd": lambda to: os.mkdir(os.path.basename(to), dir_fd=os.open(os.path.dirname(to), os.O_RDONLY)),
        "proc": lambda to: os.mkdir("/proc/self/cwd/" + to), "slash": lambda to: os.mkdir(to + "//"),
    }
    FILES = {
        "open": lambda to, data: put(to, data), "rename": lambda to, data: os.rename(part(os.path.basename(to), "file"), to),
        "link": lambda to, data: os.link(part(os.path.basename(to), "file"), to), "tmpfile": lambda to, data: tmpfile(data, to),
        "exchange": lambda to, data: over(os.path.basename(to), to, "file"),
        "link to a link": lambda to, data: os.symlink("../" + part(os.path.basename(to), "file"), to),
    }
    n = 0
    for objects in DIRS:
        for refs in DIRS:
            for config in FILES:
                for order in ("orc", "cor", "ocr"):
                    if n % 5 and objects != refs: n += 1; continue  # one in five of the mixed ones
                    d = "w%d" % n; n += 1
                    os.mkdir(d); put(d + "/HEAD", HEAD)
                    for letter in order:
                        if letter == "o": quiet(lambda: DIRS[objects](d + "/objects"))
                        if letter == "r": quiet(lambda: DIRS[refs](d + "/refs"))
                        if letter == "c": quiet(lambda: FILES[config](d + "/config", EVIL))
'''


@test("TH-X a bare repository put together by every kind of call")
def _():
    with Place() as place:
        place.expect("w*", "parts")
        run(place, [], inside(WAYS, place.mark))
        check(len(os.listdir(place.ws)) > 400, "the attack did not come to its end")
        for where in complete_repositories(place):
            config = os.path.join(where, "config")
            check(not os.path.lexists(config) or b"touch" not in read(config), "%s has a planted config" % where)


@test("TH-X commondir: every order, every way, and a pointer to it")
def _():
    code = r'''
        os.mkdir("common"); put("common/config", EVIL); os.mkdir("common/objects"); quiet(lambda: os.mkdir("common/refs"))
        put("config", EVIL)  # what "../.." leads to
        parts = {"HEAD": lambda d: put(d + "/HEAD", HEAD), "commondir": lambda d: put(d + "/commondir", b"../common\n"),
                 "config.worktree": lambda d: put(d + "/config.worktree", EVIL), "gitdir": lambda d: put(d + "/gitdir", b"x\n")}
        for n, order in enumerate(itertools.permutations(parts)):
            d = "g%d" % n
            os.mkdir(d)
            for part in order: quiet(lambda: parts[part](d))
            quiet(lambda: pointer("p%d" % n, "../" + d))
        os.mkdir("m"); put("m/commondir", b"../common\n"); put("h", HEAD)
        for n, way in enumerate((lambda: os.rename("h", "m/HEAD"), lambda: os.link("h", "m/HEAD"), lambda: os.symlink("../h", "m/HEAD"),
                                 lambda: os.rename("m", ".git/worktrees/m"), lambda: os.mkdir("m/HEAD"))):
            quiet(way)
        pointer("pm", "../m")
    '''
    with Place() as place:
        place.expect("*", ".git/worktrees")
        run(place, [], inside(code, place.mark))
        no_evil(place)
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside(code, place.mark))
        check(use_git(place, 200), "this does not run anything without atoll: it shows nothing")


@test("TH-X a git directory that waits inside another for its last part")
def _():
    code = r'''
        for kind in ("refs/y", "modules/y", "modules/a/y", "worktrees/y", "refs/heads/a/b/y", "objects/y", "info/y", "hooks/y", "logs/y", "lfs/y"):
            for last in ("refs", "objects", "HEAD", "config"):
                x = "x-%s-%s" % (kind.replace("/", "_"), last); y = x + "/" + kind
                os.makedirs(y)
                if last != "objects": os.mkdir(y + "/objects")
                if last != "refs": quiet(lambda: os.mkdir(y + "/refs"))
                if last != "config": quiet(lambda: put(y + "/config", EVIL))
                if last != "HEAD": put(y + "/HEAD", HEAD)
                quiet(lambda: os.mkdir(x + "/refs")); quiet(lambda: os.mkdir(x + "/objects"))
                if last in ("refs", "objects"): quiet(lambda: os.mkdir(y + "/" + last))
                if last == "HEAD": quiet(lambda: put(y + "/HEAD", HEAD))
                if last == "config":
                    quiet(lambda: put(y + "/config", EVIL)); put("c", EVIL); quiet(lambda: os.rename("c", y + "/config"))
                quiet(lambda: (os.mkdir(y + "/hooks"), put(y + "/hooks/pre-commit", HOOK, mode=0o755)))
                pointer("p" + x, "../" + y)
    '''
    with Place() as place:
        place.expect("*")
        run(place, [], inside(code, place.mark))
        check(len(os.listdir(place.ws)) > 80, "the attack did not come to its end")
        no_evil(place)
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside(code, place.mark))
        check(use_git(place, 200), "this does not run anything without atoll: it shows nothing")


@test("TH-X a git directory beneath one that cannot be searched")
def _():
    code = r'''
        os.makedirs("a/x/refs"); put("a/x/config", EVIL); put("a/x/HEAD", HEAD)
        x = os.open("a/x", os.O_RDONLY)
        os.chmod("a", 0)
        attempt("objects", lambda: os.mkdir("objects", dir_fd=x))
        attempt("hook", lambda: os.mkdir("hooks", dir_fd=x))
        os.chmod("a", 0o755)
        os.makedirs("b/x/refs"); put("b/x/HEAD", HEAD); put("b/x/config", EVIL)
        x = os.open("b/x", O_PATH); os.chmod("b/x", 0o300)
        quiet(lambda: os.mkdir("objects", dir_fd=x))
        os.chmod("b/x", 0o755)
        os.makedirs("c/objects/info"); put("c/objects/info/alternates", b"/\n"); os.chmod("c/objects", 0)
        attempt("refs beside a closed directory", lambda: os.mkdir("c/refs"))
        os.chmod("c/objects", 0o755); put("c/HEAD", HEAD)
        os.mkdir("o"); os.mkdir("d"); os.symlink("../o", "d/objects"); put("d/HEAD", HEAD)
        attempt("refs beside a link", lambda: os.mkdir("d/refs"))
        os.mkdir("o/info"); put("o/info/alternates", b"/\n")
        os.mkdir("e"); os.mkdir("e/objects"); os.symlink("../o", "e/info"); put("e/HEAD", HEAD); quiet(lambda: os.mkdir("e/refs"))
        for t in "abcde": pointer("p" + t, "../%s/x" % t if t in "ab" else "../" + t)
    '''
    with Place() as place:
        place.expect("*")
        result = run(place, [], inside(code, place.mark))
        result.refused("objects", "refs beside a closed directory", "refs beside a link")
        no_evil(place)
    with Place(strict=False) as place:
        place.expect("*")
        plain(place, inside(code, place.mark))
        check(use_git(place), "this does not run anything without atoll: it shows nothing")


@test("TH-X the guard's own limits cannot be lowered until it no longer looks")
def _():
    with Place() as place:
        place.expect("a", "p")
        result = run(place, [], inside(r'''
            import resource
            os.makedirs("a/x/refs"); put("a/x/config", EVIL); put("a/x/HEAD", HEAD); pointer("p", "../a/x")
            x = os.open("a/x", os.O_RDONLY)
            def tight():
                hard = resource.prlimit(1, resource.RLIMIT_NOFILE)[1]
                for n in range(6, 90):
                    resource.prlimit(1, resource.RLIMIT_NOFILE, (n, hard))
                    for make in (lambda: os.mkdir("objects", dir_fd=x), lambda: os.mkdir("a/x/objects")):
                        try:
                            make()
                        except OSError as error:
                            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.EAGAIN): raise
                        else: return
            attempt("objects", tight)
            attempt("own limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))
        ''', place.mark))
        result.refused("objects")
        result.allowed("own limit")
        no_evil(place)


@test("TH-X descriptors kept from before a directory became a git directory")
def _():
    with Place() as place:
        place.expect("*")
        result = run(place, ["--timeout", "100s"], inside(r'''
            def begin(d):
                os.makedirs(d + "/refs"); put(d + "/HEAD", HEAD)
            def finish(d):
                os.mkdir(d + "/objects"); pointer("p" + d, "../" + d)
            # the config, open, mapped, and under a second name
            begin("a"); put("a/config", NICE)
            fd = os.open("a/config", os.O_RDWR); shared = mmap.mmap(fd, len(NICE)); os.link("a/config", "second")
            finish("a")
            attempt("a: finished", lambda: os.stat("a/objects"))
            os.pwrite(fd, EVIL, 0); shared[:12] = b"[x]\ntouch=1\n"; put("second", EVIL); quiet(lambda: put("/proc/self/fd/%d" % fd, EVIL))
            # a directory descriptor, and the directory as somebody's working directory
            begin("b"); d = os.open("b", os.O_RDONLY); finish("b")
            attempt("b: openat", lambda: put("config", EVIL, dir_fd=d))
            attempt("b: rename", lambda: (put("c", EVIL), os.rename("c", "config", dst_dir_fd=d)))
            os.chdir("b"); attempt("b: cwd", lambda: put("config", EVIL)); attempt("b: hooks", lambda: (os.mkdir("hooks"), put("hooks/pre-commit", HOOK))); os.chdir("..")
            # the hooks directory, open and empty
            begin("c2"); os.mkdir("c2/hooks"); h = os.open("c2/hooks", os.O_RDONLY); finish("c2")
            attempt("c2: openat", lambda: put("pre-commit", HOOK, dir_fd=h))
            # an unnamed file
            begin("d"); t = os.open("d", O_TMPFILE | os.O_RDWR); os.write(t, EVIL); finish("d")
            attempt("d: linkat", lambda: link_fd(t, "d/config"))
            attempt("d: linkat empty", lambda: syscall(265, t, b"", AT_FDCWD, b"d/config", AT_EMPTY_PATH))
            # a fifo in the config's place: its opener waits, and must not get what is there later
            begin("e"); os.mkfifo("e/config")
            def wait(name):
                quiet(lambda: os.write(os.open(name, os.O_WRONLY), EVIL))
            threading.Thread(target=wait, args=("e/config",), daemon=True).start()
            # a lease on the config: the same
            begin("g"); put("g/config", NICE); lease = os.open("g/config", os.O_RDONLY)
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            quiet(lambda: fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_RDLCK))
            threading.Thread(target=wait, args=("g/config",), daemon=True).start()
            time.sleep(0.3)
            os.unlink("e/config"); put("e/config", NICE); finish("e")
            quiet(lambda: finish("g"))
            quiet(lambda: fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)); os.close(lease)
            time.sleep(0.3)
        ''', place.mark))
        result.allowed("a: finished")
        result.refused("b: openat", "b: rename", "b: cwd", "b: hooks", "c2: openat", "d: linkat", "d: linkat empty")
        for name in "ae":
            same(read(place.ws + "/" + name + "/config"), b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n", name + "/config")
        no_evil(place)


@test("TH-X a repository of its own may be taken apart, and not be put together again with something in it")
def _():
    with Place() as place:
        place.expect("*")
        result = run(place, [], inside(r'''
            def must(*command): return os.spawnvp(os.P_WAIT, command[0], command) == 0 or sys.exit("failed: %s" % (command,))
            must("git", "init", "-q", "--bare", "x"); must("git", "init", "-q", "y")
            attempt("objects away", lambda: os.rename("x/objects", "o"))
            put("c", EVIL); os.rename("c", "x/config"); put("x/hooks/pre-commit", HOOK, mode=0o755)
            attempt("objects back", lambda: os.rename("o", "x/objects"))
            attempt("objects anew", lambda: os.mkdir("x/objects"))
            attempt(".git renamed", lambda: os.rename("y/.git", "z"))
            attempt("its config", lambda: put("z/config", EVIL)); attempt("its hook", lambda: put("z/hooks/pre-commit", HOOK))
            attempt("back", lambda: os.rename("z", "y/.git")); attempt("exchanged", lambda: (os.mkdir("y/.git"), rename2("z", "y/.git", 2)))
            quiet(lambda: os.rmdir("y/.git"))
            put("y/.git", b"gitdir: ../z\n"); os.unlink("y/.git"); put("y/.git", b"gitdir: ../x\n")
            # a git directory moved into another's trees
            must("git", "init", "-q", "--bare", "v"); must("git", "init", "-q", "--bare", "w")
            for to in ("v/refs/w", "v/modules/w", "v/worktrees/w", ".git/refs/w", ".git/modules/w", ".git/worktrees/w", ".git/logs/w"):
                quiet(lambda: os.makedirs(os.path.dirname(to)))
                attempt("into " + to, lambda: os.rename("w", to))
            # a worktree's directory taken out, where its commondir means another place
            must("git", "worktree", "add", "-q", "wt")
            os.makedirs("q/r"); put("q/config", EVIL); quiet(lambda: os.rename(".git/worktrees/wt", "q/r/s"))
            quiet(lambda: os.mkdir("q/objects")); quiet(lambda: os.mkdir("q/refs")); pointer("pq", "../q/r/s")
        ''', place.mark))
        result.allowed("objects away", ".git renamed")
        result.refused("objects back", "objects anew", "its config", "its hook", "back", "exchanged", "into v/refs/w", "into v/modules/w",
                       "into v/worktrees/w", "into .git/refs/w", "into .git/modules/w", "into .git/worktrees/w", "into .git/logs/w")
        hostgit(place)


@test("TH-X two runs in one workspace do not make the halves of a git directory")
def _():
    count = 300
    code = r'''
        begin = float(arg[1]); other = arg[2]
        for i in range(int(arg[3])):
            d = "r%d/" % i
            while time.monotonic() < begin + i * 0.001: os.sched_yield()
            if other == "config":
                quiet(lambda: put(d + "config", EVIL))
            else:
                quiet(lambda: os.mkdir(d + other))
    '''
    for one, two in (("objects", "refs"), ("config", "refs")):
        with Place() as place:
            place.expect("r*")
            for i in range(count):
                os.mkdir(place.ws + "/r%d" % i)
                if one == "objects":
                    write(place.ws + "/r%d/config" % i, '[core]\n\tfsmonitor = "touch %s;false"\n' % place.mark)
                else:
                    os.mkdir(place.ws + "/r%d/objects" % i)
            place.settle()
            begin = time.monotonic() + 0.3
            runs = [start(place, [], inside(code, place.mark, begin, part, count)) for part in (one, two)]
            for running in runs:
                running.wait()
            for i in range(count):
                d = place.ws + "/r%d/" % i
                if os.path.exists(d + "objects") and os.path.exists(d + "refs"):
                    check(not os.path.exists(d + "config") or b"touch" not in read(d + "config"), "r%d is a git directory with a planted config" % i)


# ---- names that are nearly the same ----------------------------------------------------------------------------------


@test("TH-X names that some file system takes for a trusted one")
def _():
    names = [odd + rest for odd in ODD for rest in ("/hooks/pre-commit", "/config")]
    names += [".BASHRC", ".VsCode/tasks.json", ".vscode./tasks.json", ".vscode /tasks.json", ".vscode::$INDEX_ALLOCATION/tasks.json", "VSCODE~1/tasks.json",
              ".v\u017fcode/tasks.json", ".vscode\u200b/tasks.json", ".GitHub/Workflows/x.yml", ".github./workflows./x.yml", ".ENVRC", ".envrc:x",
              ".Gitlab-CI.yml", "JENKINSFILE", ".NPMRC", ".ba\u017fhrc", ".\u212ashrc", "X.CODE-WORKSPACE", ".bashrc" + "\u200c" * 80]
    with Place() as place:
        place.expect("*")
        result = run(place, [], inside(r'''
            for i, name in enumerate(arg[1:]):
                def make():
                    os.makedirs(os.path.dirname(name) or ".", exist_ok=True); put(name, b"planted\n")
                attempt(str(i), make)
                quiet(lambda: put("m", b"planted\n")); attempt("rename %d" % i, lambda: os.rename("m", name))
        ''', place.mark, *names), env={"LC_ALL": "C.UTF-8"})
        result.refused()
        same([name for name in names if os.path.lexists(os.path.join(place.ws, name))], [], "made")


@test("TH-X long names, names that are no text, and deep places")
def _():
    with Place() as place:
        place.expect("*")
        result = run(place, [], inside(r'''
            attempt("long", lambda: put("x" * 255)); attempt("too long", lambda: put("y" * 256))
            attempt("no text", lambda: put(b"\xff\xfe")); attempt("newline", lambda: put(b"a\nb")); attempt("control", lambda: put(b"\x1b]0;x\x07"))
            attempt("half", lambda: put(b".git\xcc")); attempt("surrogate", lambda: put(b"\xed\xa0\x80"))
            attempt("no text in .git", lambda: put(b".git/hooks/\xff"))
            attempt("no text before", lambda: put(b".git/hooks\xff/x"))
            attempt("path of 4096", lambda: put(b"./" * 2048 + b"z")); attempt("path of 4094", lambda: put(b"./" * 2046 + b".git/hooks/x"[:2] + b"z"))
            attempt("hooks by a long path", lambda: put(b"./" * 2000 + b".git/hooks/pre-commit", HOOK))
            top = os.getcwd()
            for i in range(18):
                os.mkdir("d" * 200); os.chdir("d" * 200)
            attempt("deeper than a path", lambda: [(os.mkdir("e" * 250), os.chdir("e" * 250)) for i in range(4)])
            os.chdir(top + "/" + "/".join(["d" * 200] * 18)); e = "e" * 250; quiet(lambda: os.rmdir(e + "/" + e)); quiet(lambda: os.rmdir(e))
            attempt("deep", lambda: put("ok"))
            attempt("deep git", lambda: (os.mkdir(".git"), os.mkdir(".git/hooks"), put(".git/hooks/pre-commit", HOOK)))
            attempt("deep vscode", lambda: (os.mkdir(".vscode"), put(".vscode/tasks.json")))
            def bare():
                os.mkdir("b"); put("b/config", EVIL); put("b/HEAD", HEAD); os.mkdir("b/objects"); os.mkdir("b/refs")
            attempt("deep bare", bare)
        ''', place.mark))
        result.allowed("long", "no text", "newline", "control", "half")
        same(result.tries["too long"], "ENAMETOOLONG", "a name of 256 bytes")
        result.refused("no text in .git", "hooks by a long path", "deeper than a path", "deep git", "deep vscode", "deep bare",
                       how=GONE + ("ENAMETOOLONG",))
        result.allowed("deep")
        found = []
        for where, directories, files in os.walk(place.ws):
            found += [n for n in directories + files if n in (".vscode", "tasks.json", "pre-commit") and "/.git" != where[-5:]]
        same(found, [], "planted")
        check(not os.path.exists(place.ws + "/" + "/".join(["d" * 200] * 18) + "/b/refs"), "a bare repository")


FORGED_INDEX = r"""
import hashlib, os, subprocess
d = open(".git/index", "rb").read()[:-20]
for old, new in ((b"XX/evil", b"../evil"), (b".giX/hooks", b".git/hooks")):
    d = d.replace(old, new)
how = %r
text = d + hashlib.sha1(d).digest()
if how == "rename":
    open(".git/index.lock", "wb").write(text)
    os.rename(".git/index.lock", ".git/index")
elif how == "write":
    open(".git/index", "wb").write(text)
elif how == "late":
    # A descriptor that is kept open while git's own index is put in place.
    f = open(".git/index.lock", "wb")
    f.write(open(".git/index", "rb").read()); f.flush()
    os.rename(".git/index.lock", ".git/index")
    f.seek(0); f.write(text); f.truncate(); f.flush()
elif how == "link":
    open("mine", "wb").write(text)
    os.unlink(".git/index"); os.link("mine", ".git/index")
"""


@test("TH-X an index whose paths lead outside, for the host to check out")
def _():
    prepare = ("mkdir -p XX .giX/hooks; echo evil >XX/evil; printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$1\" >.giX/hooks/post-checkout; "
               "chmod +x .giX/hooks/post-checkout; git add -A && git commit -qm x; ")
    for how in ("rename", "write", "late", "link"):
        with Place(strict=False) as place:
            place.expect("*")
            script = prepare.replace("%s", "$1") + "/usr/bin/python3 -c \"$2\"; rm -rf XX .giX; true"
            run(place, [], inside_sh(script, place.mark, FORGED_INDEX % how))
            subprocess.run(["git", "-C", place.ws, "checkout", "-q", "."], env=caller_environment(place), capture_output=True)
            check(not os.path.lexists(os.path.join(os.path.dirname(place.ws), "evil")), "%s: git on the host wrote outside" % how)
            check(not os.path.lexists(place.ws + "/.git/hooks/post-checkout"), "%s: git on the host made a hook" % how)
            check(not os.path.lexists(place.mark), "%s: a planted hook ran" % how)
    # Without the guard the same index does it: this test can fail.
    with Place(strict=False) as place:
        place.expect("*")
        script = prepare.replace("%s", "$1") + "/usr/bin/python3 -c \"$2\"; rm -rf XX .giX; git checkout -q ."
        plain(place, inside_sh(script, place.mark, FORGED_INDEX % "rename"))
        check(os.path.lexists(place.ws + "/.git/hooks/post-checkout"), "git itself refuses such an index: nothing is shown here")


@test("TH-X hooks in a directory of the workspace that the user's own settings name")
def _():
    plant = "mkdir -p tools/hooks; printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$1\" >tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit; ls tools"
    for where in ("repository", "user"):
        with Place(strict=False) as place:
            place.expect("tools*")
            if where == "repository":
                git(place.ws, "config", "core.hooksPath", "tools/hooks")
            else:
                write(place.home + "/.gitconfig", "[user]\n\tname = x\n[core]\n\thooksPath = tools/hooks\n")
            run(place, [], inside_sh(plant.replace("%s", "$1"), place.mark))
            check(not os.path.lexists(place.ws + "/tools/hooks/pre-commit"), "%s: a hook was planted" % where)
    with Place(strict=False) as place:
        place.expect("tools*")
        run(place, [], inside_sh(plant.replace("%s", "$1"), place.mark))
        check(os.path.lexists(place.ws + "/tools/hooks/pre-commit"), "refused without the setting, too: nothing is shown here")


main()
