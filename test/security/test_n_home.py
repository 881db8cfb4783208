#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 20
"""
What the host obeys in a workspace because of the caller's home and environment

Links of the home that lead into a workspace (a dotfiles repository), directories of XDG_* and PATH, and files that variables such as
BASH_ENV name. Each test writes such files from inside, directly or by a layer and a plain apply, and looks at what the host then has and
does. Each also shows that the same files are written where nothing leads to them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

MODES = ["direct"] if BARE else ["direct", "layer"]


def fresh(place, name):
    """A directory of the host's beside the workspace."""
    path = os.path.join(place.base, name)
    os.makedirs(path)
    return path


def lands(place, mode, where, names, env=None):
    """Write "evil" to each name from inside; with a layer, apply without a name. Returns which of them the host has, and what was said."""
    script = 'for name; do mkdir -p "$(dirname "$name")"; echo evil >"$name"; chmod +x "$name"; done 2>/dev/null; true'
    said = atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", script, "sh", *names, cwd=where, env=env).err
    if mode == "layer":
        applied = atoll(place, "apply", cwd=where, env=env)
        said += applied.out + applied.err
        atoll(place, "discard", cwd=where, env=env)
    return [name for name in names if os.path.isfile(os.path.join(where, name)) and read(os.path.join(where, name)) == b"evil\n"], said


def both_ways(place, mode, where, names, free, obeyed, env=None):
    """All land where nothing leads to them; once obeyed() has been called, only those in `free` do."""
    same(lands(place, mode, where, names + free)[0], names + free, "%s: the control, before the host obeys them" % mode)
    for name in names + free:
        os.unlink(os.path.join(where, name))
    obeyed()
    place.settle()
    landed, said = lands(place, mode, where, names + free, env=env)
    same(landed, free, "%s: what a run has written: %s" % (mode, said))
    return said


@test("HM-01 files of a workspace to which trusted names of the home are links")
def _():
    for mode in MODES:
        with Place() as place:
            dots, home = fresh(place, "dots"), place.home

            def links():
                for name, to in ((".bashrc", "bashrc"), (".vimrc", "vimrc"), (".config/nvim", "nvim"), (".vim", "not-there"), (".local/share/systemd", "units"),
                                 (".config/autostart/x.desktop", "x.desktop"), (".config/systemd/user/x.service", "x.service"), (".notes", "notes")):
                    os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(home, name))
                    os.symlink(os.path.join(dots, to), os.path.join(home, name))

            names = ["bashrc", "vimrc", "nvim/init.lua", "not-there/vimrc", "units/y.service", "x.desktop", "x.service"]
            both_ways(place, mode, dots, names, ["notes", "readme", "units2/y.service"], links)
            # The host's own shell: what a run wrote to bashrc would be executed.
            write(dots + "/bashrc", "true\n")
            script = 'printf "touch %%s\\n" "%s" >bashrc' % place.mark
            for flags in (["--direct"], ["--mode", mode]):
                atoll(place, "run", *flags, "--", "/bin/sh", "-c", script, cwd=dots)
            if mode == "layer":
                atoll(place, "apply", cwd=dots)
            subprocess.run(["bash", "-ic", "true"], env={"HOME": home, "PATH": HOST_PATH}, stdin=subprocess.DEVNULL, capture_output=True, check=False, start_new_session=True)
            check(not os.path.exists(place.mark), "%s: the host's shell ran what a run wrote" % mode)


@test("HM-01 a directory of the home with trusted names is a link as a whole")
def _():
    for mode in MODES:
        with Place() as place:
            dots, home = fresh(place, "dots"), place.home

            def links():
                if os.path.isdir(home + "/.config"):
                    shutil.rmtree(home + "/.config")
                os.symlink(dots + "/config", home + "/.config")

            both_ways(place, mode, dots, ["config/fish/config.fish", "config/atoll/trusted", "config/starship.toml"], ["config/other/x"], links)


@test("HM-02 XDG_CONFIG_HOME in a workspace: atoll's own list of trust, and settings of others")
def _():
    for mode in MODES:
        with Place(strict=False, repository=False) as place:
            xdg, other = fresh(place, "xdg"), fresh(place, "other")
            env = {"XDG_CONFIG_HOME": xdg}
            names = ["atoll/trusted", "atoll/answers", "git/config", "fish/config.fish", "systemd/user/x.service"]
            both_ways(place, mode, xdg, names, ["own/config", "readme"], lambda: None, env=env)
            env = {"XDG_DATA_HOME": xdg + "/data"}
            same(lands(place, mode, xdg, ["data/systemd/user/x.service", "data/own/x"], env=env)[0], ["data/own/x"], "%s: XDG_DATA_HOME" % mode)
        with Place(strict=False, repository=False) as place:
            # A list that a run has forged, from a shell without the variable.
            xdg, other = fresh(place, "xdg"), fresh(place, "other")
            write(xdg + "/job.yaml", json.dumps({"command": ["cat", place.out + "/secret.txt"], "filesystem": {"read": [place.out]}}))
            digest = hashlib.sha256(read(xdg + "/job.yaml")).hexdigest()
            forge = 'mkdir atoll; echo "$1" >atoll/trusted; chmod 600 atoll/trusted'
            atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", forge, "sh", "%s %s/job.yaml" % (digest, xdg), cwd=xdg)
            if mode == "layer":
                atoll(place, "apply", cwd=xdg)
            check(os.path.exists(xdg + "/atoll/trusted"), "the control: without the variable the file is any file")
            result = run(place, ["-f", xdg + "/job.yaml"], None, cwd=other, env={"XDG_CONFIG_HOME": xdg}, leaks=True, starts=False)
            check(place.secret not in result.out and result.status == POLICY, "%s: a forged list of trust counted: %s" % (mode, result.describe()))
            check("XDG_CONFIG_HOME" in result.err, "the message: " + result.err)
            # The user's own list counts, also when runs have the home as their workspace.
            said = atoll(place, "trust", xdg + "/job.yaml", cwd=other)
            run(place, ["--accept-broad", place.home], ["true"], mode=mode, cwd=place.home, starts=False)
            result = run(place, ["-f", xdg + "/job.yaml"], None, cwd=other, leaks=True, starts=False)
            check(place.secret in result.out, "%s: the user's own list: %s %s" % (mode, said.err, result.describe()))


@test("HM-03 directories of the caller's PATH, and files that variables name")
def _():
    for mode in MODES:
        with Place() as place:
            where, home = fresh(place, "w"), place.home
            fresh(place, "linked")
            os.symlink(where + "/tools", place.base + "/linked/tools")
            env = {"PATH": ":".join([where + "/bin", where + "/.venv/bin", where + "/my env/bin", place.base + "/linked/tools", "./scripts", HOST_PATH]),
                   "VIRTUAL_ENV": where + "/my env", "BASH_ENV": where + "/benv", "ENV": "$HOME/../w/shrc", "PYTHONSTARTUP": where + "/a b/start.py",
                   "LESSOPEN": "| %s/filter %%s" % where, "NODE_OPTIONS": "--require=%s/hook.js" % where, "EDITOR": where + "/edit --wait",
                   "GIT_SSH_COMMAND": "ssh -F %s/sshconf" % where, "KUBECONFIG": "%s/k1:%s/k2" % (where, where)}
            env.update({"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "x", "GIT_CONFIG_KEY_1": "core.hooksPath",
                        "GIT_CONFIG_VALUE_1": where + "/my hooks"})
            names = ["my hooks/pre-commit", "bin/git", "tools/ls", "scripts/x", "benv", "shrc", "a b/start.py", "filter", "hook.js", "edit", "sshconf", "k1", "k2"]
            said = both_ways(place, mode, where, names, ["binary/git", "src/x", "a b/other"], lambda: None, env=env)
            if mode == "layer":
                check("environment" in said, "the reason of the mark: " + said)
            # What was there is not changed either, nor taken away; nor comes the directory from elsewhere.
            write(where + "/bin/tool", "good\n", 0o755)
            script = "echo evil >bin/tool; rm -f bin/tool; mkdir new; echo evil >new/git; mv bin old; mv new bin; ln -s new scripts; true"
            atoll(place, "run", "--mode", mode, "--", "/bin/sh", "-c", script, cwd=where, env=env)
            if mode == "layer":
                atoll(place, "apply", cwd=where, env=env)
                atoll(place, "discard", cwd=where, env=env)
            same(read(where + "/bin/tool"), b"good\n", "%s: a program of the host's" % mode)
            check(not os.path.exists(where + "/bin/git") and not os.path.islink(where + "/scripts"), "%s: a directory of PATH was replaced" % mode)
            # Where installations put programs: written directly, marked in a layer.
            landed, said = lands(place, mode, where, [".venv/bin/tool", "my env/bin/tool"], env=env)
            same(landed, [".venv/bin/tool", "my env/bin/tool"] if mode == "direct" else [], "%s: an activated environment: %s" % (mode, said))


@test("HM-03 a file inside does not make a directory of PATH one that installations write")
def _():
    with Place() as place:
        where = fresh(place, "w")
        env = {"PATH": where + "/bin:" + HOST_PATH}
        same(lands(place, "direct", where, ["pyvenv.cfg"], env=env)[0], ["pyvenv.cfg"], "the control")
        same(lands(place, "direct", where, ["bin/git"], env=env)[0], [], "in the next run")


@test("HM-04 trusted names in a grant that is seen at another place are the host's")
def _():
    if BARE:
        skip("user namespaces")
    with Place(strict=False) as place:
        config = fresh(place, "host/.config")
        names = ["git/config", "fish/config.fish", "nvim/init.lua", "own/x"]
        script = 'cd "$1"; shift; for name; do mkdir -p "$(dirname "$name")"; echo evil >"$name"; done 2>/dev/null; mkfifo fish2; mkfifo mise.toml 2>/dev/null; true'
        for flags, at in ((["--write", config], config), (["--write-at", "/data=" + config], "/data")):
            run(place, flags, inside_sh(script, at, *names))
            same([name for name in names if os.path.exists(os.path.join(config, name))], ["own/x"], "written at " + at)
            check(os.path.exists(config + "/fish2") and not os.path.exists(config + "/mise.toml"), "a FIFO at " + at)
            shutil.rmtree(config)
            os.makedirs(config)


@test("HM-05 trusted names in a directory of the workspace that is a link")
def _():
    for mode in MODES:
        with Place() as place:
            where = fresh(place, "w")

            def links():
                for name, to in ((".github", "gh"), (".cargo", "cargo"), (".config", "cfg/now"), (".vscode", "not-there")):
                    os.symlink(to, os.path.join(where, name))
                os.rename(where + "/cfg/now", where + "/cfg/v1")
                os.symlink("v1", where + "/cfg/now")

            names = ["gh/workflows/x.yml", "cargo/config.toml", "cargo/config", "cfg/now/starship.toml", "not-there/tasks.json"]
            both_ways(place, mode, where, names, ["gh/readme", "cargo/src/x", "cfg/now/other"], links)
            for flags in (["--mode", mode],):
                atoll(place, "run", *flags, "--", "/bin/sh", "-c", "rm cfg/now; mkdir cfg/now; echo evil >cfg/now/starship.toml; true", cwd=where)
            if mode == "layer":
                atoll(place, "apply", cwd=where)
            check(os.path.islink(where + "/cfg/now") and not os.path.exists(where + "/.config/starship.toml"), "%s: a link on the way" % mode)


@test("HM-06 directories in .git/modules do not keep later runs from starting")
def _():
    for mode in MODES:
        with Place() as place:
            place.expect("made", ".git/modules*")
            script = "mkdir -p .git/modules; i=0; while [ $i -lt 1100 ]; do echo .git/modules/$i; i=$((i+1)); done | xargs mkdir; echo made >made"
            run(place, [], inside_sh(script), mode=mode)
            if mode == "layer":
                atoll(place, "apply")
            check(len(os.listdir(place.ws + "/.git/modules")) >= 1100 and os.path.exists(place.ws + "/made"), "%s: the directories" % mode)
            result = run(place, [], inside_sh("echo on"), mode=mode)
            same(result.out, "on\n", "%s: the next run: %s" % (mode, result.err))


@test("HM-07 secrets of the home that are links into a place that is shown: not read, unless that very place is granted")
def _():
    with Place() as place:
        home, dots, proj = place.home, fresh(place, "dots"), fresh(place, "proj")
        for name in ("ssh/id_rsa", "netrc", "config/gh/hosts.yml"):
            write(os.path.join(dots, name), "KEY-%s\n" % name)
        write(dots + "/readme", "readme\n")
        remove(home + "/.ssh")
        os.unlink(home + "/.netrc")
        remove(home + "/.config")
        script = "cat %s/readme; cat %s/ssh/id_rsa %s/netrc %s/config/gh/hosts.yml 2>/dev/null; true" % ((dots,) * 4)
        keys = "KEY-ssh/id_rsa\nKEY-netrc\nKEY-config/gh/hosts.yml\n"

        def shown(where, *flags):
            place.settle()
            result = run(place, list(flags), inside_sh(script), cwd=where, mode=None if flags[:1] == ("--mode",) else "direct")
            same(result.status, 0, "status of a run in %s with %s: %s" % (where, flags, result.err))
            return result.out

        ways = [(proj, "--read", dots)] + [(dots, "--mode", mode) for mode in [*MODES, "read-only"]]
        for where, *flags in ways:
            same(shown(where, *flags), "readme\n" + keys, "the control, without links, %s" % flags)
        for name, to in ((".ssh", "ssh"), (".netrc", "netrc"), (".config", "config")):
            os.symlink(os.path.join(dots, to), os.path.join(home, name))
        for where, *flags in ways:
            same(shown(where, *flags), "readme\n", "with links, %s" % flags)
        same(shown(proj, "--read", dots, "--read", dots + "/ssh"), "readme\nKEY-ssh/id_rsa\n", "a flag that names one of them")
        same(read(dots + "/ssh/id_rsa"), b"KEY-ssh/id_rsa\n", "the host's own")


@test("HM-08 a default grant of the home that is a link is left out, and the run starts")
def _():
    with Place() as place:
        tools = fresh(place, "tools")
        write(tools + "/tool", "tool\n")
        os.makedirs(place.home + "/.local", exist_ok=True)
        os.symlink(tools, place.home + "/.local/bin")
        place.settle()
        result = run(place, [], inside_sh("cat %s/tool %s/.local/bin/tool 2>/dev/null; echo on" % (tools, place.home)))
        same(result.out, "on\n", result.err)
        same(run(place, ["--read", tools], inside_sh("cat %s/tool" % tools)).out, "tool\n", "the control: a grant of the real place")
        same(run(place, ["--read", place.home + "/.local/bin"], ["true"], starts=False).status, POLICY, "a grant that somebody wrote")


main()
