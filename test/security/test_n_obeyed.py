#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 20
"""
What the host's git obeys in other places than the workspace's own repository, and at other times than the start of a run

Each test plants a hook or a config from inside, lets the host's git do what a person does, and looks for `mark`, which only the planted
text makes. Each also shows that the planted file works where no rule is in its way.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402


class Host:
    """A directory of the host's with repositories, a home, and a mark that no run may cause."""

    def __init__(self, place):
        self.place, self.top, self.mark = place, place.base + "/host", place.mark
        os.mkdir(self.top)

    def git(self, where, *words, fails=False):
        env = {"PATH": "/usr/bin:/bin", "HOME": self.place.home, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b@c", "-c", "protocol.file.allow=always", "-C", where, *words],
                              env=env, capture_output=True, text=True)
        check(fails or done.returncode == 0, "git %s: %s" % (words, done.stderr))

    def repository(self, name):
        where = os.path.join(self.top, name)
        os.makedirs(where)
        self.git(where, "init", "-q", "-b", "main")
        write(where + "/f", "x\n")
        self.git(where, "add", "f")
        self.git(where, "commit", "-q", "-m", "x")
        return where

    def linked_hook(self, repository):
        os.mkdir(repository + "/scripts")
        write(repository + "/scripts/check", "#!/bin/sh\n", 0o755)
        os.makedirs(repository + "/.git/hooks", exist_ok=True)
        os.symlink("../../scripts/check", repository + "/.git/hooks/pre-commit")

    @property
    def evil(self):
        return "#!/bin/sh\ntouch %s\n" % self.mark

    def plants(self, where, flags, script, *words):
        """Run a script in a directory; its input is the evil hook."""
        return atoll(self.place, "run", *flags, "--", "/bin/sh", "-c", script, "sh", *words, cwd=where, stdin=self.evil.encode())

    def commit_runs(self, where):
        """Does a commit run what was planted?"""
        self.git(where, "commit", "-q", "--allow-empty", "-m", "y", fails=True)
        ran = os.path.exists(self.mark)
        if ran:
            os.unlink(self.mark)
        return ran


@test("OB-01 a repository in another writable root: its hook links and includes are protected, in every mode of the workspace")
def _():
    for mode in ("direct", "layer"):
        if mode == "layer" and BARE:
            continue
        with Place() as place:
            host = Host(place)
            workspace, other = host.repository("ws"), host.repository("other")
            flags = ["--mode", mode, "--write", other]
            os.mkdir(other + "/scripts")
            write(other + "/scripts/check", "#!/bin/sh\n", 0o755)
            # Nothing obeys the file yet: it may be written, and then the hook that the host makes of it runs.
            same(host.plants(workspace, flags, 'cat >"$1"', other + "/scripts/check").status, 0, "a file that nothing obeys")
            os.symlink("../../scripts/check", other + "/.git/hooks/pre-commit")
            check(host.commit_runs(other), "the control: the planted hook works")
            write(other + "/scripts/check", "#!/bin/sh\n", 0o755)
            host.plants(workspace, flags, 'cat >"$1"', other + "/scripts/check")
            check(not host.commit_runs(other), "%s: a hook that is a link was written" % mode)
            os.mkdir(other + "/conf")
            write(other + "/conf/inc", "")
            host.git(other, "config", "include.path", "../conf/inc")
            host.plants(workspace, flags, "printf '[core]\\n\\tfsmonitor = \"touch %s;false\"\\n' \"$2\" >\"$1\"", other + "/conf/inc", host.mark)
            same(read(other + "/conf/inc"), b"", "%s: a config that is included" % mode)


@test("OB-02 the settings of a submodule are followed, also of one whose name has a slash")
def _():
    with Place() as place:
        host = Host(place)
        library, top = host.repository("lib"), host.repository("sup")
        for name in ("s", "deep/s"):
            host.git(top, "submodule", "--quiet", "add", "--name", name, library, name)
        host.git(top, "commit", "-q", "-m", "s")
        for name in ("s", "deep/s"):
            os.mkdir("%s/%s/hk" % (top, name))
            hook = "%s/hk/pre-commit" % name
            same(host.plants(top, ["--direct"], 'cat >"$1"; chmod +x "$1"', hook).status, 0, "a file that nothing obeys")
            host.git(top, "config", "-f", ".git/modules/%s/config" % name, "core.hooksPath", "hk")
            check(host.commit_runs("%s/%s" % (top, name)), "the control: the planted hook works")
            os.unlink("%s/%s" % (top, hook))
            host.plants(top, ["--direct"], 'cat >"$1"; chmod +x "$1"', hook)
            check(not os.path.exists("%s/%s" % (top, hook)), "a hook of submodule %s was written" % name)
            check(not host.commit_runs("%s/%s" % (top, name)), "a hook of submodule %s ran" % name)
            # A run could make a work tree of it anywhere: the path is protected at any depth, in the other submodule as well.
            host.git(top, "config", "-f", ".git/modules/%s/config" % name, "--unset", "core.hooksPath")


def records(place):
    return place.home + "/" + STORE + "/records"


@test("OB-03 what the host obeys is looked up when a layer is applied: layers of older builds, and links that the host makes later")
def _():
    need_layers()
    for is_older in (True, False):
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            if is_older:
                host.linked_hook(workspace)
            else:
                os.mkdir(workspace + "/scripts")
                write(workspace + "/scripts/check", "#!/bin/sh\n", 0o755)
            same(host.plants(workspace, ["--mode", "layer"], "cat >scripts/check").status, 0, "the run")
            if is_older:
                for name in os.listdir(records(place)):
                    meta = "%s/%s/meta" % (records(place), name)
                    lines = read(meta).split(b"\n")
                    kept = [line for line in lines if not line.startswith(b"obeyed=")]
                    check(len(kept) < len(lines), "the record has no list")
                    write(meta, b"\n".join(kept))
            else:
                os.symlink("../../scripts/check", workspace + "/.git/hooks/pre-commit")
            applied = atoll(place, "apply", cwd=workspace)
            check(not host.commit_runs(workspace), "a hook was applied without being named: " + applied.out + applied.err)
            among("scripts/check", applied.out + applied.err, "what is held back")
            same(atoll(place, "apply", "scripts/check", cwd=workspace).status, 0, "an apply that names the file")
            check(host.commit_runs(workspace), "the control: the planted hook works")


@test("OB-04 an import holds back what the user's settings make the host obey")
def _():
    with Place() as place:
        host = Host(place)
        source = host.repository("source")
        os.makedirs(source + "/tools/hooks")
        write(source + "/tools/hooks/pre-commit", host.evil, 0o755)
        write(source + "/own-name", "x")
        shutil.rmtree(source + "/.git")
        archive = host.top + "/a.tar"
        subprocess.run(["tar", "-C", source, "-cf", archive, "."], check=True)
        same(atoll(place, "import", archive, "--to", host.top + "/plain").status, 0, "without settings")
        check(os.path.exists(host.top + "/plain/tools/hooks/pre-commit"), "the control: it is imported where nothing obeys it")
        host.git(host.top, "config", "--global", "core.hooksPath", "tools/hooks")
        os.makedirs(place.home + "/.config/atoll", exist_ok=True)
        write(place.home + "/.config/atoll/trusted-names", "own-name\n")
        place.settle()
        said = atoll(place, "import", archive, "--to", host.top + "/new")
        check(not os.path.exists(host.top + "/new/tools/hooks/pre-commit"), "a hook was imported: " + said.out + said.err)
        check(not os.path.exists(host.top + "/new/own-name"), "a name of the user's own was imported: " + said.out + said.err)
        check(os.path.exists(host.top + "/new/f"), "the other files are imported")


def lands(host, mode, workspace, script, *named):
    """Run a script in a workspace, and apply what it did without a name, or what is `named`. Returns all that atoll printed."""
    done = host.plants(workspace, ["--mode", mode], script)
    if mode == "layer":
        applied = atoll(host.place, "apply", *named, cwd=workspace)
        return done.err + applied.out + applied.err
    return done.err


MODES = ["direct"] if BARE else ["direct", "layer"]


@test("OB-05 of a chain of links that the host obeys every link is protected, not only its end")
def _():
    for mode in MODES:
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            script = "rm scripts; mkdir scripts; cat >scripts/check; chmod +x scripts/check; rm env/current; echo evil >env/current; echo evil >tools/dots/starship.toml; true"

            def prepare():
                for name in ("scripts", "env", "tools"):
                    if os.path.islink(workspace + "/" + name):
                        os.unlink(workspace + "/" + name)
                    else:
                        shutil.rmtree(workspace + "/" + name, ignore_errors=True)
                write(workspace + "/tools/scripts/check", "#!/bin/sh\n", 0o755)
                write(workspace + "/tools/dots/other", "")
                os.symlink("tools/scripts", workspace + "/scripts")
                write(workspace + "/env/v1", "good\n")
                os.symlink("v1", workspace + "/env/current")

            prepare()
            lands(host, mode, workspace, script)
            for name, to in ((".git/hooks/pre-commit", "../../scripts/check"), (".envrc", "env/current"), (".config", "tools/dots")):
                os.symlink(to, os.path.join(workspace, name))
            check(host.commit_runs(workspace) and read(workspace + "/.envrc") == b"evil\n", "the control: where nothing obeys the links they are replaced")
            prepare()
            said = lands(host, mode, workspace, script)
            check(not host.commit_runs(workspace), "%s: a hook through a link that was replaced: %s" % (mode, said))
            same(read(workspace + "/.envrc"), b"good\n", "%s: a link in the middle" % mode)
            check(not os.path.exists(workspace + "/.config/starship.toml"), "%s: a trusted name in a directory that is a link" % mode)
            lands(host, mode, workspace, "echo x >tools/scripts/another; echo x >tools/dots/another; echo x >env/another")
            for name in ("scripts", "dots", "../env"):
                check(os.path.exists(workspace + "/tools/" + name + "/another"), "%s: %s/another, which nothing obeys, was refused" % (mode, name))


@test("OB-06 a link that the host obeys is protected where it ends, also while nothing is there")
def _():
    for mode in MODES:
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            for name, to in ((".envrc", "env/local"), (".git/hooks/pre-commit", "../../gone/dir/hook"), (".vscode", "none/deep"), ("notes", "env/notes")):
                os.symlink(to, os.path.join(workspace, name))
            os.mkdir(workspace + "/env")
            for script in ("mkdir -p gone/dir none/deep; tee env/local none/deep/tasks.json gone/dir/hook; chmod +x gone/dir/hook; echo x >env/notes",
                           "mkdir -p a/dir b/deep; tee a/dir/hook b/deep/tasks.json >/dev/null; chmod +x a/dir/hook; mv a gone; mv b none",
                           "mkdir -p a/dir b/deep; tee a/dir/hook b/deep/tasks.json >/dev/null; chmod +x a/dir/hook; ln -s a gone; ln -s b none"):
                said = lands(host, mode, workspace, script)
                check(not host.commit_runs(workspace), "%s: the hook was made: %s" % (mode, said))
                for name in ("env/local", "none/deep/tasks.json", "gone/dir/hook"):
                    check(not os.path.exists(os.path.join(workspace, name)), "%s: %s was made: %s" % (mode, name, said))
                for name in ("gone", "none", "a", "b"):
                    path = os.path.join(workspace, name)
                    if os.path.islink(path):
                        os.unlink(path)
                    else:
                        shutil.rmtree(path, ignore_errors=True)
            check(os.path.exists(workspace + "/env/notes"), "%s: the control: the end of a link that nobody obeys" % mode)


@test("OB-07 a config of git's that the caller's environment names is protected")
def _():
    for variable, name in (("GIT_CONFIG_GLOBAL", "conf/global"), ("XDG_CONFIG_HOME", "conf/git/config")):
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            os.makedirs(workspace + "/conf/git")
            value = workspace + ("/conf" if variable == "XDG_CONFIG_HOME" else "/" + name)
            for env in ({}, {variable: value}):
                atoll(place, "run", "--direct", "--", "/bin/sh", "-c", 'echo "[user]" >"$1"', "sh", name, cwd=workspace, env=env)
                same(os.path.exists(os.path.join(workspace, name)), not env, "%s: written with %s" % (name, env))
                if not env:
                    os.unlink(os.path.join(workspace, name))


@test("OB-08 every link by which atoll itself was called is protected")
def _():
    if BARE:
        skip("user namespaces: the copy is called without the flags that stand for a host without them")
    with Place() as place:
        host = Host(place)
        workspace = host.top + "/ws"
        for name in ("out", "bin", "mid"):
            os.makedirs(workspace + "/" + name)
        shutil.copy(ATOLL, workspace + "/out/atoll-copy")
        os.symlink("../mid/atoll", workspace + "/bin/atoll")
        os.symlink("../out/atoll-copy", workspace + "/mid/atoll")
        script = "for name in bin/atoll mid/atoll out/atoll-copy mid/other; do rm -f $name; echo evil >$name; done; true"
        for called in (workspace + "/bin/atoll", "bin/atoll"):
            said = Running(place, [called, "run", "--direct", "--", "/bin/sh", "-c", script], starts=False, cwd=workspace).wait(RUN_SECONDS)
            for name in ("bin/atoll", "mid/atoll", "out/atoll-copy"):
                check(os.path.getsize(os.path.join(workspace, name)) > 100000, "%s was replaced: %s" % (name, said.err))
            same(read(workspace + "/mid/other"), b"evil\n", "the control: another file beside")
            os.unlink(workspace + "/mid/other")


# What a repository's own config names by a relative path: $1 is the mark, in the work tree where it is called.
WORKTREE = r'''
    [ -d "$2" ] || git worktree add -q "$2"
    mkdir -p "$2/tools/hooks"; mkdir -p "$2/own"; for name in tools/clean tools/hooks/pre-commit own/pre-commit tools/other; do
        printf '#!/bin/sh\ntouch %s; cat\n' "$1" >"$2/$name" && chmod +x "$2/$name"; done; echo x >"$2/f"; true
'''


@test("OB-09 relative paths of a repository's config are protected in each of its work trees, also in one that a run makes")
def _():
    need("git")
    for mode, is_hosts in [("direct", False), ("direct", True)] + ([] if BARE else [("layer", True)]):
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            write(workspace + "/.gitattributes", "f filter=x\n")
            host.git(workspace, "add", ".gitattributes")
            host.git(workspace, "commit", "-q", "-m", "attributes")

            def attempt():
                run_in = atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", WORKTREE, "sh", host.mark, "wt", cwd=workspace)
                applied = atoll(place, "apply", cwd=workspace) if mode == "layer" else run_in
                return run_in.err + applied.out + applied.err

            def remove():
                shutil.rmtree(workspace + "/wt", ignore_errors=True)
                host.git(workspace, "worktree", "prune")
                host.git(workspace, "branch", "-q", "-D", "wt", fails=True)

            def runs():
                host.git(workspace + "/wt", "status", fails=True)
                host.git(workspace + "/wt", "-c", "filter.x.clean=", "commit", "-q", "--allow-empty", "-m", "y", fails=True)
                ran = os.path.exists(host.mark)
                if ran:
                    os.unlink(host.mark)
                return ran

            def configure(worktree):
                for key, value in (("core.hooksPath", "tools/hooks"), ("filter.x.clean", "tools/clean")):
                    host.git(workspace, "config", key, value)
                if worktree:
                    host.git(workspace, "config", "extensions.worktreeConfig", "true")
                    host.git(workspace + "/wt", "config", "--worktree", "core.hooksPath", "own")

            if is_hosts:
                host.git(workspace, "worktree", "add", "-q", "wt")
            attempt()
            configure(False)
            check(runs(), "the control: what nothing obeyed while it was written runs")
            remove()
            if is_hosts:
                host.git(workspace, "worktree", "add", "-q", "wt")
                configure(True)
            said = attempt()
            check(not runs(), "%s: the host's git runs what was planted in a work tree: %s" % (mode, said))
            for name in ("tools/clean", "tools/hooks/pre-commit", "own/pre-commit")[:3 if is_hosts else 2]:
                check(not os.path.exists(workspace + "/wt/" + name), "%s: %s was written: %s" % (mode, name, said))
            check(os.path.exists(workspace + "/wt/tools/other"), "%s: a file that nothing obeys was not written: %s" % (mode, said))


@test("OB-10 trusted names of the home that are links into a writable root")
def _():
    links = {".bashrc": "bashrc", ".ssh": "ssh", ".config/nvim": "nvim", ".config/fish/config.fish": "fish", ".config/systemd/user/x.service": "unit", ".vimrc": "later"}
    files = ["bashrc", "ssh/config", "nvim/init.lua", "fish", "unit", "later", "other"]
    script = "mkdir -p ssh nvim; for name in %s; do echo evil >>$name; done; true" % " ".join(files)
    for mode in MODES:
        for is_linked in (False, True):
            with Place() as place:
                host = Host(place)
                workspace = host.repository("dotfiles")
                for name, to in links.items() if is_linked else ():
                    path = os.path.join(place.home, name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    if os.path.isdir(path):
                        shutil.rmtree(path)
                    elif os.path.lexists(path):
                        os.unlink(path)
                    os.symlink(os.path.join(workspace, to), path)
                place.settle()
                said = lands(host, mode, workspace, script)
                made = [name for name in files if os.path.exists(os.path.join(workspace, name))]
                same(made, ["other"] if is_linked else files, "%s: written: %s" % (mode, said))


@test("OB-11 where XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME lead, the same names are trusted")
def _():
    files = ["git/config", "fish/config.fish", "atoll/trusted", "applications/x.desktop", "other/config"]
    script = "for name in %s; do mkdir -p $(dirname $name); echo evil >$name; done; true" % " ".join(files)
    for variable, trusted in (("XDG_CONFIG_HOME", files[:3]), ("XDG_DATA_HOME", files[2:4]), ("XDG_STATE_HOME", files[2:3])):
        for mode in MODES:
            for is_set in (False, True):
                with Place() as place:
                    host = Host(place)
                    workspace = host.repository("xdg")
                    env = {variable: workspace} if is_set else {}
                    if variable == "XDG_STATE_HOME" and is_set:
                        continue  # atoll's own store would lie in the workspace, which is refused as such
                    atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", script, cwd=workspace, env=env)
                    if mode == "layer":
                        atoll(place, "apply", cwd=workspace, env=env)
                    made = [name for name in files if os.path.exists(os.path.join(workspace, name))]
                    same(made, [name for name in files if not is_set or name not in trusted], "%s, %s: written" % (variable, mode))


@test("OB-12 directories of the caller's PATH and files that the environment names")
def _():
    files = ["bin/git", "benv", "start.py", "edit/me", ".venv/bin/git", "other"]
    script = "mkdir -p bin edit .venv/bin; for name in %s; do echo evil >$name; done; true" % " ".join(files)
    for mode in MODES:
        for is_set in (False, True):
            with Place() as place:
                host = Host(place)
                workspace = host.repository("ws")
                env = {"PATH": "%s/bin:%s/.venv/bin:%s" % (workspace, workspace, HOST_PATH), "BASH_ENV": workspace + "/benv", "PYTHONSTARTUP": workspace + "/start.py",
                       "EDITOR": "env X=1 %s/edit/me -w" % workspace} if is_set else {}
                atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", script, cwd=workspace, env=env)
                if mode == "layer":
                    atoll(place, "apply", cwd=workspace, env=env)
                made = [name for name in files if os.path.exists(os.path.join(workspace, name))]
                # An activated environment is written by every installation: refusing that helps nobody, a layer marks it.
                wanted = [".venv/bin/git", "other"] if mode == "direct" else ["other"]
                same(made, wanted if is_set else files, "%s: written" % mode)


@test("OB-13 empty directories in .git/modules do not make later runs fail")
def _():
    with Place() as place:
        host = Host(place)
        workspace = host.repository("ws")
        os.mkdir(workspace + "/.git/modules")
        for i in range(1100):
            os.mkdir("%s/.git/modules/%d" % (workspace, i))
        same(host.plants(workspace, ["--direct"], "true").status, 0, "a run beside 1100 empty directories")


@test("OB-14 words of a command: behind an option's letter, a module of Python's, behind cd")
def _():
    files = ["tools/cfg", "lib/x.rb", "tools/flt.py", "pkg/__main__.py", "scripts/up.sh", "tools/other"]
    script = "mkdir -p tools lib pkg scripts; for name in %s; do echo evil >$name; done; true" % " ".join(files)
    for is_set in (False, True):
        with Place() as place:
            host = Host(place)
            workspace = host.repository("ws")
            for key, value in (("core.sshCommand", "ssh -Ftools/cfg"), ("filter.a.clean", "ruby -r./lib/x.rb x"), ("filter.b.clean", "python3 -m tools.flt"),
                               ("filter.c.clean", "python3 -m pkg"), ("alias.up", "!cd scripts && ./up.sh")) if is_set else ():
                host.git(workspace, "config", key, value)
            host.plants(workspace, ["--direct"], script)
            made = [name for name in files if os.path.exists(os.path.join(workspace, name))]
            same(made, ["tools/other"] if is_set else files, "written")


main()
