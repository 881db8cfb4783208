#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Where git directories lie, and by which format they are read: what the host's git runs because of that

A checkout on the host writes files of the work tree. It must never write a hook or a config by that, and a git directory that nobody has
looked at must not come into being in parts. Each attack also works where nothing stops it. test_n_git.py has keys, pointers and indexes.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from trust import *  # noqa: E402


def use(place, where="."):
    """What a person does in a directory of the workspace. Did the planted command run?"""
    place.expect("*", ".git/*")
    for args in (["status"], ["checkout", "."], ["checkout", "."]):
        git(os.path.join(place.ws, where), *args, home=place.home)
    return os.path.lexists(place.mark)


def works_and_is_refused(command, where=".", prepare=None, repository=True):
    """The attack, `command(place)`, runs something on the host when it is not in a sandbox, and nothing in one. Returns the refusals."""
    with Place(strict=False, repository=repository) as place:
        place.expect("*", ".git/*")
        if prepare:
            prepare(place)
        plain(place, command(place))
        check(use(place, where), "git does not obey it on this host: the rest shows nothing")
    with Place(repository=repository) as place:
        place.expect("*", ".git/*")
        if prepare:
            prepare(place)
            place.settle()
        result = run(place, [], command(place))
        check(not use(place, where), "what was planted ran on the host: %s" % result.err)
        check(result.refusals, "nothing was refused: %s" % result.err)
        return result.refusals


# ---- a git directory that comes into being in parts ----------------------------------------------------------------------------------

# $1: the mark, $2: a directory of x that git_guard() judges from x on.
NESTED = r'''
    mkdir -p "x/$2/n/objects" && echo 'ref: refs/heads/m' >"x/$2/n/HEAD"
    printf '[core]\nrepositoryformatversion=0\nbare=false\nfsmonitor="touch %s;false"\n' "$1" >"x/$2/n/config"
    mkdir x/objects; mkdir x/refs; mkdir "x/$2/n/refs"; mkdir p; echo "gitdir: ../x/$2/n" >p/.git; sleep 0.2; true
'''


@test("GP-01 no git directory is finished within another one that was made around it")
def _():
    need("git")
    works_and_is_refused(lambda place: inside_sh(NESTED, place.mark, "rebase-merge"), "p", repository=False)
    for part in ("modules", "worktrees", "refs", "info", "hooks", "branches", "remotes", "objects", "logs", "lfs", "rebase-apply"):
        with Place(repository=False) as place:
            place.expect("*")
            run(place, [], inside_sh(NESTED, place.mark, part))
            check(not use(place, "p") and not use(place, "x/%s/n" % part), "%s: what was planted ran on the host" % part)


@test("GP-01 remotes and branches that were there before do not become those of a git directory")
def _():
    need("git")
    for part in ("remotes", "branches"):
        with Place(repository=False) as place:
            place.expect("*")
            result = run(place, [], inside_sh('mkdir -p "x/$1"; echo "URL: /away" >"x/$1/origin"; mkdir x/objects; mkdir x/refs && echo made', part))
            same(result.out, "", "a git directory around %s/origin" % part)
    with Place(repository=False) as place:
        place.expect("*")
        result = run(place, [], inside_sh("git init -q --bare x && git -C x config user.name a && echo made"))
        same(result.out, "made\n", "a new bare repository: %s" % result.err)


# ---- hooks that a checkout writes ----------------------------------------------------------------------------------------------------

COMMIT = r'''
    blob=$(printf '#!/bin/sh\ntouch "%s"\n' "$1" | git hash-object -w --stdin) && git update-index --add --cacheinfo "100755,$blob,$2" &&
    git -c user.name=a -c user.email=b commit -qm x'''


@test("GP-02 a git directory of another name does not lie in its own work tree: a checkout would write its hooks")
def _():
    need("git")
    script = "git init -q --separate-git-dir=meta . && set -- \"$1\" meta/hooks/post-checkout; " + COMMIT + "; true"
    refusals = works_and_is_refused(lambda place: inside_sh(script, place.mark), repository=False)
    check(any("not beneath a .git" in line for line in refusals), "no reason is given: %s" % refusals)
    # Beside the work tree, and then by a link or a move in it.
    for later in ("mv b old; ln -s a b; mv old/meta a/meta", "mv b old; mv a b; mv old/meta b/meta"):
        with Place(repository=False) as place:
            place.expect("*")
            run(place, [], inside_sh("mkdir a b; git init -q --separate-git-dir=b/meta a; cd a; set -- \"$1\" meta/hooks/post-checkout; " + COMMIT + "; cd ..; " + later,
                                     place.mark))
            check(not use(place, "a") and not use(place, "b"), "%s: what was planted ran on the host" % later)


# $1: the mark. The name of the link is one that git init uses for a link of its own.
LINKED = r'''
    git init -q carrier && git init -q --bare evil && git -C evil config core.bare false && export GIT_DIR=evil GIT_WORK_TREE=. &&
    set -- "$1" evil/hooks/post-checkout && %s; unset GIT_DIR GIT_WORK_TREE
    echo "gitdir: carrier/.git/tabcdef" >.git; sleep 0.2; ln -s ../../evil carrier/.git/tabcdef; true
''' % COMMIT


@test("GP-02 a link in a git directory is git init's own, which leads nowhere: another would be a git directory elsewhere")
def _():
    need("git")
    refusals = works_and_is_refused(lambda place: inside_sh(LINKED, place.mark), repository=False)
    check(any("symbolic link in the git directory" in line for line in refusals), "no reason is given: %s" % refusals)
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh("""
            mkdir -p .git/modules/a evil x; ln -s testing .git/tabcdef && echo own; rm .git/tabcdef; ln -s testing x/tabcdef
            ln -s ../evil .git/tabcdef && echo top; ln -s ../../../evil .git/modules/a/tabcdef && echo module
            ln -s $PWD/evil .git/tabcdeg && echo absolute; mv x/tabcdef .git/tabcdef && echo moved; ln x/tabcdef .git/tabcdef && echo linked
            echo "gitdir: ../.git/none/x" >x/.git; git init -q y && git -C y config core.symlinks
        """))
        same(result.out, "own\n", "links in a git directory: %s" % result.err)
        same(read(place.ws + "/x/.git"), b"", "a pointer into a directory that does not exist")


# $1: the mark. The host's git makes refs/heads/x/objects for the branch: then refs/heads/x is a whole git directory.
COMPLETED = r'''
    commit=$(git rev-parse HEAD); x=.git/refs/heads/x; mkdir -p $x/refs lib && echo "ref: refs/heads/main" >$x/HEAD
    printf '[core]\nrepositoryformatversion=0\nbare=false\nfsmonitor="touch %s;false"\n' "$1" >$x/config
    printf '%s refs/heads/x/objects/y\n' $commit >.git/packed-refs.lock; mv .git/packed-refs.lock .git/packed-refs
    echo "ref: refs/heads/x/objects/y" >.git/refs/heads/main; echo "gitdir: ../.git/refs/heads/x" >lib/.git; sleep 0.2; true
'''


@test("GP-02 a pointer leads to where git keeps git directories: in refs and logs the host's git could finish one")
def _():
    need("git")
    for is_plain in (True, False):
        with Place(strict=not is_plain) as place:
            place.expect("*", ".git/*")
            if is_plain:
                plain(place, inside_sh(COMPLETED, place.mark))
            else:
                result = run(place, [], inside_sh(COMPLETED, place.mark))
                check(any("not beneath a .git" in line for line in result.refusals), "no reason is given: %s" % result.err)
            git(place.ws, "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "host", home=place.home)
            check(os.path.isdir(place.ws + "/.git/refs/heads/x/objects"), "git does not make the directory: the rest shows nothing")
            same(use(place, "lib"), is_plain, "what was planted ran")
    with Place() as place:
        place.expect("*", ".git/*")
        script = "mkdir -p .git/modules/a/b .git/worktrees/w/modules/c d; for to in $@; do echo \"gitdir: ../.git/$to\" >d/.git; sleep 0.1; [ -s d/.git ] && echo $to; rm d/.git; done; true"
        result = run(place, [], inside_sh(script, "logs/x", "objects/x", "info/x", "rebase-merge/x", "modules/a/refs/x", "worktrees/w/logs/x", "lfs/x",
                                          "modules/a/b", "worktrees/w/modules/c"))
        same(result.out, "modules/a/b\nworktrees/w/modules/c\n", "places that a pointer may name: %s" % result.err)


@test("GP-02 in a layer every link in a git directory is marked")
def _():
    need("git")
    need_layers()
    with Place() as place:
        place.expect("*", ".git/*")
        link = ".git/modules/a/tabcdef"
        run(place, [], inside_sh("mkdir -p .git/modules/a && ln -s ../../../evil $1 && ln -s f ordinary", link), mode="layer")
        changes = json.loads(atoll(place, "diff", "--json").out)["changes"]
        same({change["path"]: change["mark"] for change in changes if change["mark"]}, {link: "symbolic link in the git directory"}, "what is marked")
        atoll(place, "apply")
        check(os.path.islink(place.ws + "/ordinary"), "the control: a link elsewhere is applied")
        check(not os.path.lexists(os.path.join(place.ws, link)), "the link was applied without being named")
        atoll(place, "apply", link)
        check(os.path.islink(os.path.join(place.ws, link)), "the control: the link is applied if it is named")


@test("GP-02 pointers that git makes for submodules and worktrees work")
def _():
    need("git")
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh("""
            git init -q lib && git -C lib -c user.name=a -c user.email=b commit -q --allow-empty -m x && git init -q super && cd super &&
            git -c protocol.file.allow=always submodule --quiet add ../lib deep/sub && git -C deep/sub log --format=%s && cd .. &&
            git worktree add -q tree && git -C tree status --porcelain && git -C super mv deep/sub other && git -C super/other log --format=%s
        """))
        same((result.status, result.out), (0, "x\nx\n"), "inside: %s" % result.err)
        same(git(place.ws + "/super/other", "log", "--format=%s").stdout, "x\n", "the host's git in the submodule")
        same(git(place.ws + "/tree", "status", "--porcelain").returncode, 0, "the host's git in the worktree")


# $1: the mark, $2: core.worktree, $3: before that.
WORKTREE = r'''
    mkdir -p .git/modules sub && git init -q --bare .git/modules/m && cd .git/modules/m && git config core.bare false &&
    GIT_DIR=. GIT_WORK_TREE=../../.. sh -c '%s' sh "$1" post-checkout; cd ../../..; eval "$3"
    git config -f .git/modules/m/config core.worktree "$2" && echo accepted; echo "gitdir: ../.git/modules/m" >sub/.git; sleep 0.2; true
''' % COMMIT.replace("'", "'\\''")


@test("GP-03 a submodule's work tree is in no git directory: a checkout would write hooks")
def _():
    need("git")
    for way in ("../m/hooks", "../../modules/m/hooks"):
        refusals = works_and_is_refused(lambda place: inside_sh(WORKTREE, place.mark, way, ""), "sub")
        check(any("core.worktree" in line for line in refusals), "no reason is given: %s" % refusals)
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh(WORKTREE, place.mark, "../../hooks", ""))
        check("accepted" not in result.out, "the repository's own hooks as a work tree")
        result = run(place, [], inside_sh("git config -f .git/modules/m/config core.worktree ../../../sub && echo accepted"))
        same(result.out, "accepted\n", "the usual work tree: %s" % result.err)


@test("GP-03 nor is it reached through a link, made before or afterwards")
def _():
    need("git")
    before = "ln -s .git/modules/m/hooks link"
    works_and_is_refused(lambda place: inside_sh(WORKTREE, place.mark, "../../../link", before), "sub")
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh(WORKTREE + "ln -s .git/modules/m/hooks link; ln -s .git l2; mkdir q; ln -s ../.git/modules/m/hooks q/l; mv q/l link; true",
                                          place.mark, "../../../link", ""))
        check("accepted" in result.out and not os.path.lexists(place.ws + "/link") and not os.path.lexists(place.ws + "/l2"), "links: %s" % result.err)
        check(not use(place, "sub"), "what was planted ran on the host")
    # A link of the host's that was there.
    with Place() as place:
        place.expect("*", ".git/*")
        os.symlink(".git/modules/m/hooks", place.ws + "/link")
        place.settle()
        result = run(place, [], inside_sh(WORKTREE, place.mark, "../../../link", ""))
        check("accepted" not in result.out, "a work tree through a link of the host's")
    # Links of git-annex.
    with Place() as place:
        place.expect("*", ".git/*")
        result = run(place, [], inside_sh("ln -s .git/annex/objects/x/y file && mkdir d && ln -s ../.git/annex/objects/x/y d/file && echo made"))
        same(result.out, "made\n", "links of git-annex: %s" % result.err)


@test("GP-03 in a layer such a work tree is marked, also of a submodule that the host has")
def _():
    need("git")
    need_layers()
    with Place(strict=False) as place:
        with_submodule(place)
        place.expect("*", ".git/*", "sub/*")
        script = "cd sub; " + COMMIT + "; git config core.worktree ../sub/hooks; git config --get core.worktree"
        result = run(place, [], inside_sh(script, place.mark, "post-checkout"), mode="layer")
        check("hooks" in result.out, "the attack failed inside: %s" % result.err)
        changes = json.loads(atoll(place, "diff", "--json").out)["changes"]
        same({change["path"] for change in changes if change["mark"]}, {".git/modules/sub/config"}, "what is marked")
        atoll(place, "apply")
        check(not use(place, "sub"), "what was planted ran on the host")


@test("GP-03 a submodule's work tree is in no git directory of another name, nor where the host obeys something")
def _():
    need("git")
    for mode in ["direct"] if BARE else ["direct", "layer"]:
        for target, obeyed in (("mirror.git", False), ("mirror.git/hooks", False), ("link", False), ("tools", True), ("elsewhere", False)):
            with Place(strict=False) as place:
                with_submodule(place)
                place.expect("*", ".git/*", "sub/*")
                git(place.ws, "init", "-q", "--bare", "mirror.git")
                os.mkdir(place.ws + "/tools")
                os.symlink("mirror.git", place.ws + "/link")
                if obeyed:
                    git(place.ws, "config", "core.hooksPath", "tools/hooks")
                place.settle()
                value = "../../../" + target
                run(place, [], inside_sh("git config -f .git/modules/sub/config core.worktree $1", value), mode=mode)
                if mode == "layer":
                    atoll(place, "apply")
                got = git(place.ws, "config", "-f", ".git/modules/sub/config", "core.worktree").stdout.strip()
                is_taken = mode == "direct" and target == "elsewhere"
                same(got == value, is_taken, "%s: core.worktree of the host's submodule is %s" % (mode, got))
    with Place(repository=False) as place:
        place.expect("*")
        git(place.ws, "init", "-q", "--bare", "mirror.git")
        os.mkdir(place.ws + "/other")
        place.settle()
        result = run(place, [], inside_sh("for to in mirror.git mirror.git/hooks other other/x; do ln -s $to link && echo $to && rm link; done; true"))
        same(result.out, "other\nother/x\n", "links into a git directory: %s" % result.err)


@test("GP-04 no worktree or submodule is moved out of a git directory, not even of one that the run has made")
def _():
    need("git")
    with Place(repository=False) as place:
        place.expect("*")
        result = run(place, [], inside_sh("""
            git init -q a && git -C a -c user.name=a -c user.email=b commit -q --allow-empty -m x && git -C a worktree add -q ../t &&
            git init -q --bare b && mkdir -p b/worktrees/w b/modules/m
            for d in a/.git/worktrees/t a/.git/worktrees a/.git b/worktrees b/modules/m b/modules; do mv $d moved && echo $d && mv moved $d; done; mv a c && git -C c log --format=%s
        """))
        same(result.out, "x\n", "what was moved: %s" % result.err)


# ---- an index that is read by another format -----------------------------------------------------------------------------------------

# argv: the git directory, the mark, then steps. As SHA-256's the index has harmless paths, as SHA-1's a hook.
TWO_FACED = r'''
import hashlib, os, struct, sys, zlib
G, MARK, steps = sys.argv[1], sys.argv[2], sys.argv[3:]
EVIL = b".git/hooks/post-checkout"
def loose():
    text = b"#!/bin/sh\ntouch '%s'\n" % MARK.encode()
    data = b"blob %d\0" % len(text) + text
    name = hashlib.sha1(data).hexdigest()
    os.makedirs(G + "/objects/" + name[:2], exist_ok=True)
    if not os.path.exists(G + "/objects/" + name[:2] + "/" + name[2:]):
        with open(G + "/objects/" + name[:2] + "/" + name[2:], "wb") as f: f.write(zlib.compress(data))
    return bytes.fromhex(name)
def put(name, data):
    with open(G + "/" + name + ".lock", "wb") as f: f.write(data)
    os.rename(G + "/" + name + ".lock", G + "/" + name)
def index():
    d, oid = bytearray(288), loose()
    d[0:12] = b"DIRC" + struct.pack(">II", 2, 2)
    for at, name in ((12, b"a"), (92, b"b")):
        d[at + 24:at + 28], d[at + 72:at + 75] = struct.pack(">I", 0o100644), struct.pack(">H", 1) + name
    d[172:180] = b"ZZZZ" + struct.pack(">I", 96)
    d[52:72], d[72:76] = oid, struct.pack(">H", 106) + b"zz"
    d[212:216], d[228:248] = struct.pack(">I", 0o100755), oid
    d[248:250], d[250:274] = struct.pack(">H", len(EVIL)), EVIL
    d[276:284] = b"ZZZZ" + struct.pack(">I", 4)
    return bytes(d) + hashlib.sha1(bytes(d)).digest()
for step in steps:
    try:
        if step == "index": put("index", index())
        elif step == "version": put("config", "".join(line for line in open(G + "/config") if "formatversion" not in line.lower()).encode())
        elif step == "config": put("config", b"[core]\n\tfilemode = true\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n")
    except PermissionError as error: print(step, "refused")
'''


@test("GP-05 without a format version git reads SHA-1, whatever the object format says")
def _():
    need("git")

    def sha256(place):
        git(place.ws, "init", "-q", "--object-format=sha256", ".")
    works_and_is_refused(lambda place: ["python3", "-c", TWO_FACED, ".git", place.mark, "config", "index"], prepare=sha256, repository=False)
    works_and_is_refused(lambda place: ["python3", "-c", TWO_FACED, ".git", place.mark, "index", "version"], prepare=sha256, repository=False)
    works_and_is_refused(lambda place: inside_sh('git init -q .; python3 -c "$1" .git "$2" config index', TWO_FACED, place.mark), repository=False)
    for own in (False, True):
        with Place(strict=False, repository=False) as place:
            need_layers()
            place.expect("*", ".git/*")
            if not own:
                sha256(place)
                place.settle()
            run(place, [], inside_sh('[ -d .git ] || git init -q .; python3 -c "$1" .git "$2" config index', TWO_FACED, place.mark), mode="layer")
            marks = {change["path"]: change["mark"] for change in json.loads(atoll(place, "diff", "--json").out)["changes"]}
            check(marks[".git/config"] and marks[".git/index"], "not marked: %s" % marks)
            atoll(place, "apply")
            check(not use(place), "in a layer, %s: what was planted ran on the host" % ("own" if own else "the host's"))


@test("GP-05 a run cannot make the host's extensions count for nothing")
def _():
    need("git")
    edits = ("sed '/repositoryformatversion/d' .git/config", "cat .git/config; printf '[extensions]\\n\\tworktreeConfig = false\\n'")
    for edit in edits:
        for mode in ("direct", "layer"):
            if mode == "layer":
                need_layers()
            with Place() as place:
                for args in (["extensions.worktreeConfig", "true"], ["--worktree", "protocol.allow", "never"]):
                    same(git(place.ws, "config", *args).returncode, 0, "prepare %s" % args)
                place.settle()
                place.expect(".git/*")
                run(place, [], inside_sh("(%s) >.git/config.lock; mv .git/config.lock .git/config; true" % edit), mode=mode)
                if mode == "layer":
                    atoll(place, "apply")
                same(git(place.ws, "config", "--get", "protocol.allow").stdout.strip(), "never", "%s, %s: the host's setting" % (edit, mode))


@test("GP-06 a config of the host's that is not understood, large or a link is not replaced by one without its entries")
def _():
    need("git")
    kept = "[remote \"origin\"]\n\tpushurl = DISABLED\n"
    plain_config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
    for name, text in (("a line", plain_config + "[old.style]\n\tx = 1\n" + kept), ("size", plain_config + "#" * 70000 + "\n" + kept), ("link", plain_config + kept)):
        for mode in ("direct", "layer"):
            if mode == "layer":
                need_layers()
            with Place() as place:
                place.expect(".git/*", "real-config")
                write(place.ws + "/.git/config", text)
                if name == "link":
                    os.rename(place.ws + "/.git/config", place.ws + "/real-config")
                    os.symlink("../real-config", place.ws + "/.git/config")
                place.settle()
                run(place, [], inside_sh('printf "%s" "$1" >.git/config.lock; mv .git/config.lock .git/config; true', plain_config), mode=mode)
                if mode == "layer":
                    atoll(place, "apply")
                same(git(place.ws, "config", "--get", "remote.origin.pushurl").stdout.strip(), "DISABLED", "%s, %s: the host's entry" % (name, mode))


@test("GP-06 in a repository of the host's with a large config commits work")
def _():
    need("git")
    with Place() as place:
        place.expect("*", ".git/*")
        with open(place.ws + "/.git/config", "a") as file:
            file.writelines('[branch "topic-%d"]\n\tremote = origin\n\tmerge = refs/heads/topic-%d\n' % (i, i) for i in range(1500))
        place.settle()
        result = run(place, [], inside_sh("echo x >f; git add f && git -c user.name=a -c user.email=b commit -qm new && git log -1 --format=%s"))
        same(result.out, "new\n", "a commit: %s" % result.err)


main()
