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


main()
