# SPDX-License-Identifier: Apache-2.0
"""
Files that the host obeys by indirection, and the names that it trusts: found at the start, refused in a workspace that is written
directly, marked in a layer

The host sets something up (a hook that is a link, an include, a setting that names a directory); a run writes what that leads to; the
host's git is used afterwards, and `mark` must not exist. Each attack also works where the host has set nothing up, or without atoll.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from trust import *  # noqa: E402

EVIL_SCRIPT = "printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$1\" >$2 && chmod +x $2; true"
EVIL_CONFIG = "printf '[core]\\n\\tfsmonitor = \"touch %s;false\"\\n' \"$1\" >$2; true"


def marks_of(place):
    return {change["path"]: change["mark"] for change in json.loads(atoll(place, "diff", "--json").out)["changes"]}


def commit(place):
    """What a person does on the host; did something planted run?"""
    place.expect("*", ".git/*")
    for args in (["status"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "host"]):
        git(place.ws, *args, home=place.home)
    return os.path.lexists(place.mark)


def obeyed(what, prepare, script, target, mark="obeyed by the host: its own settings or links lead here"):
    """The run writes `target`; after `prepare` that must be refused, and marked in a layer; without it, it is an ordinary file."""
    with Place(strict=False) as place:
        place.expect("*")
        prepare(place)
        os.makedirs(os.path.dirname(os.path.join(place.ws, target)), exist_ok=True)
        plain(place, inside_sh(script, place.mark, target))
        check(commit(place), "%s: the host does not obey it, so nothing is shown" % what)
    with Place(strict=False) as place:
        place.expect("*")
        os.makedirs(os.path.dirname(os.path.join(place.ws, target)), exist_ok=True)
        run(place, [], inside_sh(script, place.mark, target))
        check(os.path.exists(os.path.join(place.ws, target)), "%s: refused without the host's setting, too" % what)
    with Place(strict=False) as place:
        prepare(place)
        os.makedirs(os.path.dirname(os.path.join(place.ws, target)), exist_ok=True)
        place.settle()
        place.expect(target)
        before = read(os.path.join(place.ws, target)) if os.path.exists(os.path.join(place.ws, target)) else None
        result = run(place, [], inside_sh(script, place.mark, target))
        after = read(os.path.join(place.ws, target)) if os.path.exists(os.path.join(place.ws, target)) else None
        same(after, before, "%s: the file" % what)
        check(result.refusals, "%s: no refusal is told" % what)
        check(not commit(place), "%s: what was planted ran on the host" % what)
    with Place(strict=False) as place:
        need_layers()
        place.expect("*", ".git/*")
        prepare(place)
        os.makedirs(os.path.dirname(os.path.join(place.ws, target)), exist_ok=True)
        run(place, [], inside_sh(script, place.mark, target), mode="layer")
        same(marks_of(place).get(target), mark, "%s: the mark" % what)
        atoll(place, "apply")
        check(not commit(place), "%s: what was applied without being named ran on the host" % what)


# ---- what the host's git obeys ---------------------------------------------------------------------------------------------------------

@test("TN-01 a hook that is a link into the workspace")
def _():
    def prepare(place):
        os.makedirs(place.ws + "/scripts")
        write(place.ws + "/scripts/check", "#!/bin/sh\n", 0o755)
        os.symlink("../../scripts/check", place.ws + "/.git/hooks/pre-commit")
    obeyed("a hook by link", prepare, EVIL_SCRIPT, "scripts/check")


@test("TN-01 the directory of hooks is a link into the workspace")
def _():
    def prepare(place):
        shutil.rmtree(place.ws + "/.git/hooks", ignore_errors=True)
        os.makedirs(place.ws + "/team/hooks")
        os.symlink("../team/hooks", place.ws + "/.git/hooks")
    obeyed("hooks by link", prepare, EVIL_SCRIPT, "team/hooks/pre-commit")


@test("TN-02 a config that the repository includes, also in a chain")
def _():
    def prepare(place):
        write(place.ws + "/conf/first", "[include]\n\tpath = second\n")
        git(place.ws, "config", "include.path", "../conf/first")
    obeyed("include.path", prepare, EVIL_CONFIG, "conf/second")


@test("TN-02 a config that the user's settings include on a condition")
def _():
    def prepare(place):
        write(place.home + "/.gitconfig", '[includeIf "gitdir:%s/"]\n\tpath = %s/conf/mine\n' % (place.ws, place.ws))
    obeyed("includeIf", prepare, EVIL_CONFIG, "conf/mine")


@test("TN-02 hooks that settings elsewhere name: XDG, behind a line that the reader does not know")
def _():
    def prepare(place):
        write(place.home + "/.config/git/config", "[old.style]\n\tx = y\n[core]\n\thooksPath = tools/hooks\n")
    obeyed("core.hooksPath in XDG", prepare, EVIL_SCRIPT, "tools/hooks/pre-commit")


@test("TN-02 a relative path in the user's settings counts in every repository, also in one that the run makes")
def _():
    need("git")
    # $1: the mark. A repository of the run's, with a hook and a filter where the user's settings look for them.
    script = r'''
        git init -q deep/new && cd deep/new && mkdir -p tools/hooks bin && printf '#!/bin/sh\ntouch "%s"\n' "$1" >tools/hooks/post-checkout &&
        chmod +x tools/hooks/post-checkout; cp tools/hooks/post-checkout bin/clean; echo 'f filter=mine' >.gitattributes; echo x >f; mkdir other; echo y >other/clean
    '''
    settings = ("[core]\n\thooksPath = tools/hooks\n", '[filter "mine"]\n\tclean = ./bin/clean\n')

    def used(place):
        place.expect("*")
        for args in (["status"], ["add", "f"], ["checkout", "."]):
            git(place.ws + "/deep/new", *args, home=place.home)
        return os.path.lexists(place.mark)
    for text in settings:
        with Place(strict=False) as place:
            place.expect("*")
            write(place.home + "/.gitconfig", text)
            plain(place, inside_sh(script, place.mark))
            check(used(place), "the host does not obey it: %s" % text)
        with Place(strict=False) as place:
            place.expect("*")
            write(place.home + "/.gitconfig", text)
            result = run(place, [], inside_sh(script, place.mark))
            check(not used(place), "written directly: what was planted ran on the host: %s" % result.err)
            check(result.refusals and os.path.exists(place.ws + "/deep/new/other/clean"), "refusals: %s" % result.err)
        need_layers()
        with Place(strict=False) as place:
            place.expect("*")
            write(place.home + "/.gitconfig", text)
            run(place, [], inside_sh(script, place.mark), mode="layer")
            wanted = "deep/new/tools/hooks/post-checkout" if "hooks" in text else "deep/new/bin/clean"
            check("obeyed" in (marks_of(place)[wanted] or ""), "the mark of %s: %s" % (wanted, marks_of(place)))
            atoll(place, "apply")
            check(not used(place), "in a layer: what was planted ran on the host")
    # What is no file of a tree is no reason to refuse a run.
    with Place() as place:
        place.expect("ok")
        write(place.home + "/.gitconfig", "[alias]\n\ta = !git log origin/main..HEAD https://host.invalid/x//y ../up/x [a]/b\n[core]\n\thooksPath = /usr/share/hooks\n\tpager = a/b/\n")
        place.settle()
        same(run(place, [], inside_sh("echo x >ok")).status, 0, "a run")


@test("TN-02 hooks that the system's settings name")
def _():
    with Place(strict=False) as place:
        place.expect("*")
        write(place.tmp + "/system", "[core]\n\thooksPath = tools/hooks\n")
        os.makedirs(place.ws + "/tools/hooks")
        run(place, [], inside_sh(EVIL_SCRIPT, place.mark, "tools/hooks/pre-commit"), env={"GIT_CONFIG_SYSTEM": place.tmp + "/system"})
        check(not os.path.exists(place.ws + "/tools/hooks/pre-commit"), "a hook was planted")


@test("TN-02 hooks of the main repository of a worktree, and of a repository above the workspace")
def _():
    with Place(strict=False) as place:
        main = place.base + "/main"
        make_repository(main)
        shutil.rmtree(place.ws)
        done = git(main, "worktree", "add", "-q", place.ws)
        check(done.returncode == 0, done.stdout)
        git(main, "config", "core.hooksPath", "tools/hooks")
        os.makedirs(place.ws + "/tools/hooks")
        place.expect("*")
        run(place, [], inside_sh(EVIL_SCRIPT, place.mark, "tools/hooks/pre-commit"))
        check(not commit(place), "a hook of the main repository's settings ran")
        check(not os.path.exists(place.ws + "/tools/hooks/pre-commit"), "a hook was planted")
    with Place(strict=False, repository=False) as place:
        make_repository(place.base)
        git(place.base, "config", "core.hooksPath", "ws/hooks")
        os.makedirs(place.ws + "/hooks")
        place.expect("*")
        run(place, [], inside_sh(EVIL_SCRIPT, place.mark, "hooks/pre-commit"))
        check(not os.path.exists(place.ws + "/hooks/pre-commit"), "a hook of the repository above was planted")
        run(place, [], "echo x >hooks.txt; mkdir other; echo y >other/z")
        check(os.path.exists(place.ws + "/other/z"), "other files cannot be written")


@test("TN-02 programs of the workspace that the host's settings run by themselves")
def _():
    def prepare(place):
        write(place.ws + "/tools/clean.sh", "#!/bin/sh\ncat\n", 0o755)
        write(place.ws + "/.gitattributes", "*.dat filter=x\n")
        git(place.ws, "config", "filter.x.clean", "./tools/clean.sh")
        write(place.ws + "/a.dat", "data\n")
    obeyed("a filter", prepare, EVIL_SCRIPT, "tools/clean.sh")


# ---- trusted names that are links ------------------------------------------------------------------------------------------------------

@test("TN-03 trusted names that the host has made links: neither through them nor at their place")
def _():
    with Place() as place:
        write(place.ws + "/conf/vscode/tasks.json", "{}\n")
        write(place.ws + "/conf/env", "true\n")
        write(place.ws + "/conf/flow.yml", "on: push\n")
        write(place.ws + "/conf/hook", "#!/bin/sh\n", 0o755)
        os.symlink("conf/vscode", place.ws + "/.vscode")
        os.symlink("conf/env", place.ws + "/.envrc")
        os.makedirs(place.ws + "/.github")
        os.symlink("../conf", place.ws + "/.github/workflows")
        os.makedirs(place.ws + "/.husky")
        os.symlink("../conf/hook", place.ws + "/.husky/pre-commit")
        place.settle()
        before = snapshot(place.ws + "/conf")
        result = run(place, [], inside(r'''
            for name in ".vscode/tasks.json", ".vscode/new.json", "conf/vscode/tasks.json", "conf/vscode/new.json", ".envrc", "conf/env", \
                        "conf/flow.yml", ".github/workflows/new.yml", ".husky/pre-commit", "conf/hook":
                attempt(name, lambda: put(name, b"evil\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            attempt("move away", lambda: os.rename("conf/vscode", "conf/other"))
            attempt("move above", lambda: os.rename("conf", "conf2"))
            attempt("remove", lambda: os.unlink("conf/env"))
        ''', place.mark))
        result.refused(how=GONE + ("EBUSY",))
        same(difference(before, snapshot(place.ws + "/conf")), "", "what the links lead to")
    with Place() as place:
        need_layers()
        write(place.ws + "/conf/env", "true\n")
        os.symlink("conf/env", place.ws + "/.envrc")
        place.settle()
        run(place, [], "echo evil >conf/env; echo fine >conf/fine", mode="layer")
        marks = marks_of(place)
        check(marks.get("conf/env"), "what .envrc leads to is not marked")
        same(marks.get("conf/fine"), None, "the mark of its neighbour")


@test("TN-04 programs of .venv/bin and node_modules/.bin: only if a trusted file names them")
def _():
    script = "mkdir -p .venv/bin node_modules/.bin; echo x >.venv/bin/python; echo x >node_modules/.bin/eslint; true"
    with Place() as place:
        place.expect(".venv", "node_modules")
        run(place, [], script)
        check(os.path.exists(place.ws + "/.venv/bin/python"), "refused although nothing names it")
    with Place() as place:
        place.expect(".venv", "node_modules")
        write(place.ws + "/.vscode/settings.json", '{"python.defaultInterpreterPath": "${workspaceFolder}/.venv/bin/python"}\n')
        place.settle()
        run(place, [], script)
        check(not os.path.exists(place.ws + "/.venv/bin/python"), "a program that the editor starts was planted")
        check(os.path.exists(place.ws + "/node_modules/.bin/eslint"), "refused although nothing names it")
    with Place() as place:
        need_layers()
        write(place.ws + "/.envrc", "PATH_add node_modules/.bin\n")
        place.settle()
        run(place, [], script, mode="layer")
        marks = marks_of(place)
        check(marks.get("node_modules/.bin/eslint"), "a program that the shell finds is not marked")
        same(marks.get(".venv/bin/python"), None, "the mark of what nothing names")


# ---- names -----------------------------------------------------------------------------------------------------------------------------

PROTECTED = ["mise.toml", "mise.local.toml", ".config/mise/config.toml", "lefthook.toml", "lefthook.json", ".lefthook.toml", "lefthook-local.yml",
             "opencode.jsonc", ".opencode.json", ".hg/hgrc", ".jj/repo/config.toml", ".iex.exs", ".ocamlinit", ".Renviron", ".erlang",
             ".octaverc", ".bazeliskrc", ".yarn/releases/yarn.cjs", ".yarn/plugins/x.cjs", ".lazy.lua", ".project", ".settings/x.prefs",
             ".lfsconfig", ".gitpod.yml", ".direnv/bin/x", ".github/hooks/h.json", ".github/agents/a.md", ".github/prompts/p.md",
             ".github/instructions/i.md", ".lintstagedrc.json", "lint-staged.config.mjs", ".gitlint", ".commitlintrc.yml", "commitlint.config.js",
             ".pre-commit-config.yml", "buildServer.json", ".sourcekit-lsp/config.json", "rust-analyzer.toml", ".factorypath",
             ".ycm_extra_conf.py", ".kateproject.local", ".buildconfig", ".bundle/plugin/index", ".rbenv-vars", ".hgrc", ".jjconfig.toml",
             ".config/jj/config.toml", ".bzr/branch/branch.conf", ".subversion/config", ".mrconfig", ".arcconfig", ".shadowenv.d/x.lisp",
             ".flox/env/manifest.toml", ".config/emacs/init.el", ".config/helix/config.toml", ".oh-my-zsh/x.zsh", ".fzf.bash", ".nvm/nvm.sh",
             ".bun/bin/bun", ".lessfilter", ".vnc/xstartup", ".config/powershell/profile.ps1", ".config/containers/containers.conf",
             ".rpmmacros", ".quiltrc", "jupyter_server_config.py"]
MARKED = {"AGENTS.md": "an agent will follow this", "CLAUDE.md": "an agent will follow this", "GEMINI.md": "an agent will follow this",
          "rust-toolchain.toml": "name programs", ".mvn/jvm.config": "name programs", ".tool-versions": "name programs",
          "bunfig.toml": "name programs", "tools/bazel": "name programs", ".pnp.cjs": "name programs", "pnpm-workspace.yaml": "name programs",
          ".rspec": "name programs", ".rubocop.yml": "name programs", ".pylintrc": "name programs", ".gitmodules": "talk",
          **dict.fromkeys((".bsp/sbt.json", "hie.yaml", ".merlin", ".luarc.json", ".bazelversion", ".sbtopts", ".jvmopts", "nuget.config", "uv.toml",
                           "poetry.toml", ".luarocks/config-5.4.lua", ".rspec-local", ".prototools", ".latexmkrc", ".gitreview",
                           "bin/activate-hermit"), "name programs")}


@test("TN-05 names that tools obey on entering: refused in every way, marked in a layer; wanted edits are marked and work")
def _():
    with Place() as place:
        place.expect("made-*", *[name.split("/")[0] for name in PROTECTED if "/" in name])
        run(place, [], inside(PLANT_NAMES, place.mark, *PROTECTED))
        same(planted_names(place.ws, PROTECTED), [], "planted")
    with Place() as place:
        place.expect(*MARKED, ".mvn", "tools", ".bsp", ".luarocks", "bin")
        script = 'for f; do mkdir -p "$(dirname "$f")"; echo x >"$f" || echo "no $f"; done; true'
        same(run(place, [], inside_sh(script, *MARKED)).out, "", "wanted edits that were refused")
    with Place() as place:
        need_layers()
        run(place, [], inside_sh(script, *MARKED, *PROTECTED, "sub/AGENTS.md", "README2.md"), mode="layer")
        marks = marks_of(place)
        for name, words in {**MARKED, "sub/AGENTS.md": "an agent will follow this"}.items():
            check(words in (marks.get(name) or ""), "the mark of %s: %s" % (name, marks.get(name)))
        same([name for name in PROTECTED if not marks.get(name)], [], "not marked")
        same(marks.get("README2.md"), None, "the mark of an ordinary file")


@test("TN-06 names of the user's own, in a file beside the other settings")
def _():
    with Place() as place:
        place.expect("deep", "other.cfg")
        write(place.home + "/.config/atoll/trusted-names", "# ours\nteam.cfg  read by the deploy tool\nbuild/*.start\n", 0o600)
        place.settle()
        result = run(place, [], inside(r'''
            os.makedirs("deep/er/build")
            attempt("top", lambda: put("team.cfg"))
            attempt("deep", lambda: put("deep/er/team.cfg"))
            attempt("glob", lambda: put("deep/er/build/x.start"))
            put("other.cfg"); put("deep/er/build/x.stop")
            attempt("rename", lambda: os.rename("other.cfg", "team.cfg"))
        ''', place.mark))
        result.refused()
        check(os.path.exists(place.ws + "/deep/er/build/x.stop"), "a neighbour is refused")
    with Place() as place:
        need_layers()
        write(place.home + "/.config/atoll/trusted-names", "team.cfg\n", 0o600)
        place.settle()
        run(place, [], "mkdir a; echo x >a/team.cfg; echo x >a/b", mode="layer")
        marks = marks_of(place)
        check(marks.get("a/team.cfg") and not marks.get("a/b"), "marks: %s" % marks)
    for text, mode, status in (("team.cfg\n", 0o666, POLICY), ("../x\n", 0o600, BAD_REQUEST), ("/etc\n", 0o600, BAD_REQUEST)):
        with Place() as place:
            write(place.home + "/.config/atoll/trusted-names", text, mode)
            place.settle()
            same(run(place, [], ["true"], starts=False).status, status, "status with %r and mode %o" % (text, mode))


@test("TN-07 the table has a source for every name, and the program has every name of the table")
def _():
    root = os.environ.get("ATOLL_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    table = os.path.join(root, "src/spec/trusted-names.txt")
    if not os.path.exists(table):
        skip("the source")
    names = []
    for line in read(table).decode().splitlines():
        if line and line[0] not in "#[":
            name, source = line.split(None, 1)
            check(len(source) > 3, "%s has no source" % name)
            names.append(name)
    check(len(names) > 200, "only %d names" % len(names))
    with Place() as place:
        need_layers()
        said = run(place, [], "cat /run/atoll/contract.json 2>/dev/null || cat $ATOLL_CONTRACT 2>/dev/null", mode="layer").out
        if '"protected_names"' not in said:
            skip("a contract that the command can read")
        known = {name for group in json.loads(said)["protected_names"] for name in group["names"]}
        same(sorted(set(names) - known), [], "names that the program does not know")


@test("TN-08 commands of the host's git: an alias, how a submodule is updated, a program that is named without a slash")
def _():
    need("git")

    def prepare(place):
        write(place.ws + "/.gitattributes", "*.dat filter=x\n")
        write(place.ws + "/clean.sh", "#!/bin/sh\ncat\n", 0o755)
        git(place.ws, "config", "filter.x.clean", "sh clean.sh")
        write(place.ws + "/a.dat", "data\n")
    obeyed("a filter at the top", prepare, EVIL_SCRIPT, "clean.sh")
    need_layers()
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        keys = (("alias.st", "!./tools/a.sh"), ("submodule.x.update", "!sh tools/b.sh"), ("imap.tunnel", "tools/c.sh"), ("sendemail.toCmd", "tools/d.sh"),
                ("alias.lg", "log tools/e.sh"), ("filter.f.clean", '"$(git rev-parse --show-toplevel)/tools/f.sh" %f'))
        for key, value in keys:
            git(place.ws, "config", key, value)
        for name in "abcdef":
            write(place.ws + "/tools/%s.sh" % name, "true\n", 0o755)
        place.settle()
        run(place, [], inside_sh("for f in tools/*.sh; do echo planted >>$f; done"), mode="layer")
        marks = marks_of(place)
        same([name for name in "abcdef" if marks["tools/%s.sh" % name]], list("abcdf"), "what is marked")


@test("TN-09 a directory that a run has filled does not hide the links that are trusted")
def _():
    need_layers()
    names = [".envrc", ".vimrc", ".npmrc", ".bashrc", ".gdbinit", ".exrc", ".curlrc", ".inputrc"]
    with Place(strict=False) as place:
        place.expect("*")
        for name in names:
            write(place.ws + "/scripts/x" + name, "true\n")
            os.symlink("scripts/x" + name, place.ws + "/" + name)
        for i in range(9000):
            os.close(os.open(place.ws + "/f%d" % i, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        place.settle()
        run(place, [], inside_sh("for f in scripts/x.*; do echo planted >>$f; done"), mode="layer")
        marks = marks_of(place)
        same([name for name in names if not marks["scripts/x" + name]], [], "what is not marked")


@test("TN-10 a newline in the path of the workspace does not end a rule about it")
def _():
    need("git")
    need_layers()
    with Place(strict=False) as place:
        place.expect("*")
        top = place.ws + "/a\nb"
        write(top + "/tools/c.sh", "true\n", 0o755)
        git(top, "init", "-q")
        git(top, "config", "filter.x.clean", "./tools/c.sh")
        result = atoll(place, "run", "--", *inside_sh("echo planted >>tools/c.sh; echo x >plain"), mode="layer", cwd=top)
        same(result.status, 0, "the run: %s" % result.err)
        marks = {change["path"]: change["mark"] for change in json.loads(atoll(place, "diff", "--json", cwd=top).out)["changes"]}
        check(marks["tools/c.sh"] and not marks["plain"], "marks: %s" % marks)


# Each way to make a FIFO of that name; a socket keeps nobody waiting, and is refused by the same rule.
FIFOS = """
import ctypes, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, action):
    try:
        action()
        print(name, "made")
    except OSError as error:
        print(name, error.errno)


for name in (".gitignore", ".gitattributes", ".gitmodules", ".mailmap", ".ignore", ".editorconfig", "AGENTS.md", ".envrc", ".GitIgnore"):
    os.makedirs("d-" + name, exist_ok=True)
    at = "d-%s/%s" % (name, name)
    attempt(at + " mkfifo", lambda: os.mkfifo(at))
    attempt(at + " mknod", lambda: os.mknod(at, stat.S_IFIFO | 0o644))
    os.mkfifo("pipe")
    attempt(at + " rename", lambda: os.rename("pipe", at))
    if not os.path.exists("pipe"):
        os.mkfifo("pipe")
    attempt(at + " link", lambda: os.link("pipe", at))
    if not name.startswith(".env") and not os.path.lexists(at):
        open(at, "w").close()
        if libc.renameat2(-100, b"pipe", -100, at.encode(), 2):
            print(at, "exchange", ctypes.get_errno())
        else:
            print(at, "exchange made")
        os.unlink(at)
    attempt(at + " bind", lambda: socket.socket(socket.AF_UNIX).bind(at))
    if os.path.lexists("pipe"):
        os.unlink("pipe")
# Where git looks, in a repository that was there and in one that comes to be.
attempt("of .git", lambda: os.mkfifo(".git/refs/heads/pipe"))
attempt("of .git", lambda: os.mkfifo(".git/MERGE_HEAD"))
os.makedirs("bare/refs/heads")
attempt("of a bare one: allowed before, made", lambda: os.mkfifo("bare/packed-refs"))
attempt("of a bare one", lambda: os.mkdir("bare/objects"))
# And what nobody minds.
os.mkfifo("plain-pipe")
socket.socket(socket.AF_UNIX).bind("plain-socket")
open(".gitignore", "w").write("*.o\\n")
print("done")
"""


@test("a FIFO or a link called HEAD, at which the host's git would wait in every directory, is refused")
def _():
    need("git")
    with Place(strict=False) as place:
        place.expect("*")
        os.mkdir(place.ws + "/sub")
        os.mkfifo(place.ws + "/sub/HEAD")
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["git", "-C", place.ws + "/sub", "status"], env={**os.environ, "HOME": place.home}, capture_output=True, timeout=3 * SLOW)
            check(False, "git does not wait at a FIFO: nothing is shown")
        os.unlink(place.ws + "/sub/HEAD")
        result = run(place, [], inside_sh("mkfifo sub/HEAD && echo fifo; mkfifo sub/f; ln -s f sub/HEAD && echo link; ln -s f sub/head && ln -s f sub/other && mkfifo sub/pipe && echo rest; true"))
        same(result.out, "rest\n", "what was made: %s" % result.err)
        git(place.ws + "/sub", "status", home=place.home)  # with a time limit


@test("names of a grant at another place (`at`) are the host's")
def _():
    if BARE:
        skip("user namespaces: without them nothing is shown at another place")
    files = ["git/config", "fish/config.fish", "nvim/init.lua", "mine/config"]
    for at in (None, "/data"):
        with Place(strict=False) as place:
            granted = place.home + "/.config"
            for name in files:
                os.makedirs(os.path.dirname(os.path.join(granted, name)), exist_ok=True)
            script = "cd %s; for name in %s; do echo evil >$name && echo $name; done; true" % (at or granted, " ".join(files))
            grant = {"path": granted, "at": at} if at else granted
            write(place.tmp + "/job.json", json.dumps({"command": ["sh", "-c", script], "filesystem": {"write": [grant]}}))
            result = run(place, ["-f", place.tmp + "/job.json"], None, leaks=True)
            same(result.out, "mine/config\n", "written at %s: %s" % (at, result.err))


@test("no FIFO takes the place of a file that the host's git reads, and the host's git waits for nothing")
def _():
    need("git")
    with Place(strict=False) as place:
        place.expect("*", ".git/*")
        # Without atoll git does wait.
        os.mkfifo(place.ws + "/.gitignore")
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["git", "-C", place.ws, "status"], env={**os.environ, "HOME": place.home}, capture_output=True, timeout=3 * SLOW)
            check(False, "git does not wait at a FIFO: nothing is shown")
        os.unlink(place.ws + "/.gitignore")
        result = run(place, [], [PYTHON, "-c", FIFOS])
        check(result.out.endswith("done\n"), "the attempts: %s %s" % (result.out, result.err))
        made = [line for line in result.out.splitlines() if line.endswith("made") and "allowed before" not in line]
        same(made, [], "made")
        check("of a bare one %d" % errno.EPERM in result.out, "a directory with a FIFO becomes a git directory: %s" % result.out)
        check(result.refusals, "no refusal is told")
        left = [os.path.join(where, name) for where, _, names in os.walk(place.ws) for name in names if stat.S_ISFIFO(os.lstat(os.path.join(where, name)).st_mode)]
        same(sorted(os.path.basename(path) for path in left), ["packed-refs", "plain-pipe"], "FIFOs that are left")
        check(stat.S_ISSOCK(os.lstat(place.ws + "/plain-socket").st_mode) and read(place.ws + "/.gitignore") == b"*.o\n", "what is allowed")
        for args in (["status"], ["log", "-1"], ["add", "-A", "-n"], ["submodule", "status"]):
            git(place.ws, *args, home=place.home)  # with a time limit
    with Place(strict=False) as place:
        need_layers()
        place.expect("*", ".git/*")
        run(place, [], inside_sh("mkfifo .gitignore; echo text >harmless"), mode="layer")
        same(marks_of(place)[".gitignore"], "special file", "the mark in a layer")
        result = atoll(place, "apply")
        check(not os.path.lexists(place.ws + "/.gitignore"), "apply has made the FIFO: %s" % result.err)
        check(os.path.exists(place.ws + "/harmless"), "apply has left the rest: %s" % (result.out + result.err))


main()
