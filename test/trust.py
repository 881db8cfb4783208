# SPDX-License-Identifier: Apache-2.0
"""
What the host would execute or trust, and using it: for the tests of a workspace that is written directly and of one in a layer

Names that are trusted (EDITORS, HOME_FILES, PERSISTENCE, ODD), git's own (HOOKS, KEYS), code for inside that plants them (inside() puts
PLANT in front; its first argument is place.mark), and the host's side: use_git() does what a person does and says whether something
planted ran.
"""
import textwrap

from lib import *  # noqa: F403

HOOKS = ["pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman", "post-index-change", "post-commit"]
KEYS = ["core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy",
        "core.attributesFile", "core.worktree", "core.alternateRefsCommand", "diff.external", "alias.st", "filter.x.clean",
        "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command", "merge.x.driver", "gpg.program",
        "gpg.ssh.program", "credential.helper", "include.path", "includeIf.gitdir:/.path", "uploadpack.packObjectsHook",
        "remote.o.uploadpack", "remote.o.receivepack", "remote.o.vcs", "remote.o.proxy", "log.showSignature", "pager.log",
        "sequence.editor", "interactive.diffFilter", "difftool.x.cmd", "mergetool.x.cmd", "browser.x.cmd", "web.browser",
        "gc.recentObjectsHook", "submodule.x.update", "trailer.x.command", "tar.x.command", "init.templateDir",
        "commit.template", "http.proxy", "http.sslVerify", "url.ext::sh.insteadOf", "protocol.ext.allow", "safe.directory",
        "sendemail.smtpServer", "extensions.worktreeConfig", "core.someThingNew", "unheard.of"]
EDITORS = [".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", "x.code-workspace", ".devcontainer/devcontainer.json",
           ".devcontainer.json", ".exrc", ".nvim.lua", ".dir-locals.el", ".zed/settings.json", ".vimrc", ".vs/x", ".fleet/run.json",
           ".claude/settings.json", ".cursor/mcp.json", ".mcp.json", ".codex/config.toml", ".gemini/settings.json", ".cursorrules",
           ".github/workflows/ci.yml", ".github/actions/a/action.yml", ".github/copilot-instructions.md", ".gitlab-ci.yml",
           ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml", ".husky/pre-commit", ".pre-commit-config.yaml", ".envrc",
           ".githooks/pre-commit", "lefthook.yml", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", ".cargo/config.toml", "pip.conf",
           ".bazelrc", ".gdbinit", ".lldbinit", ".vim/plugin/x.vim"]
HOME_FILES = [".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshenv", ".zshrc", ".zprofile", ".zlogin",
              ".inputrc", ".config/fish/config.fish", ".xprofile", ".xsession", ".xinitrc", ".pam_environment"]
PERSISTENCE = [".ssh/authorized_keys", ".ssh/config", ".ssh/rc", ".config/systemd/user/x.service", ".config/autostart/x.desktop",
               ".config/environment.d/x.conf", ".local/bin/git", ".local/share/applications/x.desktop", ".local/share/systemd/user/x.service",
               ".gitconfig", ".config/git/config", ".npmrc", ".config/pip/pip.conf", ".cargo/config.toml", ".cargo/bin/cargo", ".cargo/env",
               ".gnupg/gpg.conf", ".aws/config", ".docker/config.json", ".kube/config", ".netrc", ".vimrc", ".vim/plugin/x.vim",
               ".config/nvim/init.lua", ".emacs.d/init.el", ".claude/settings.json", ".codex/config.toml", ".config/atoll/config",
               ".local/state/atoll/x", ".local/share/atoll/trust", ".tmux.conf", ".gdbinit", ".pythonrc",
               ".local/lib/python3.11/site-packages/usercustomize.py"]
ODD = [".GIT", ".Git", ".git.", ".git ", ".git...", ".git::$INDEX_ALLOCATION", ".git:x", "git~1", "GIT~2", ".g\u200cit", ".gi\u200dt", "\ufeff.git",
       ".g\u0131t", ".gi\u2060t", ".\u2064git"]


# For code that runs inside. arg[0] is the marker that no planted command may create.
PLANT = r"""
import fcntl, itertools, mmap, socket, threading
MARK = arg[0]
HOOK = ("#!/bin/sh\ntouch '%s'\n" % MARK).encode()
EVIL = ('[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tfsmonitor = "touch %s;false"\n' % MARK).encode()
NICE = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
HEAD = b"ref: refs/heads/main\n"
def rename2(a, b, flags):
    syscall(316, AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), flags)
def link_fd(fd, to):
    syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, os.fsencode(to), AT_SYMLINK_FOLLOW)
def quiet(action):
    "What may fail; the host looks at the result."
    try:
        return action()
    except OSError:
        return None
def pointer(where, to):
    os.mkdir(where)
    put(where + "/.git", b"gitdir: %s\n" % os.fsencode(to))
"""


def inside(code, *args):
    return inside_py(PLANT + textwrap.dedent(code), *args)


PLANT_NAMES = r'''
    for i, name in enumerate(arg[1:]):
        tmp = "made-%d" % i
        def make():
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            put(name, b"planted\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        def moved():
            "The whole directory, or the file, made elsewhere first."
            top = name.split("/")[0]
            if top != name:
                os.makedirs(os.path.dirname(tmp + "/" + name[len(top) + 1:]), exist_ok=True)
                put(tmp + "/" + name[len(top) + 1:], b"planted\n")
            else:
                put(tmp, b"planted\n")
            os.rename(tmp, top)
        def linked():
            quiet(lambda: put(tmp + "l", b"planted\n")); os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            os.link(tmp + "l", name)
        def symlinked():
            top = name.split("/")[0]
            os.mkdir(tmp + "s"); os.symlink(tmp + "s", top); os.makedirs(os.path.dirname(tmp + "s/" + name[len(top) + 1:]), exist_ok=True)
        def fifo():
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True); os.mkfifo(name)
        for how in (make, moved, linked, symlinked, fifo):
            attempt("%s %s" % (how.__name__, name), how)
'''


def planted_names(top, names):
    return [name for name in names if os.path.lexists(os.path.join(top, name))]


BARE_REPOSITORY = r'''
    git init -q --bare vendor/x
    git config -f vendor/x/config core.fsmonitor "touch $1;false"; git config -f vendor/x/config core.bare false
    printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=..\nfsmonitor="touch %s;false"\n' "$1" >c; cp c vendor/x/config; mv c vendor/x/config
    printf '#!/bin/sh\ntouch "%s"\n' "$1" >h; chmod +x h; cp h vendor/x/hooks/post-index-change; mv h vendor/x/hooks/pre-commit; true
'''


def with_submodule(place):
    make_repository(place.tmp + "/upstream")
    for args in (["-c", "protocol.file.allow=always", "submodule", "add", "-q", place.tmp + "/upstream", "sub"], ["commit", "-qm", "sub"]):
        done = git(place.ws, *args)
        check(done.returncode == 0, done.stdout)
    place.settle()


def use_git(place, most=24):
    """What a person does on the host after a run, in the repositories there are. True if a planted command ran."""
    if place.strict:
        wrong = place._check_workspace()  # before it is our own git that leaves things there
        check(not wrong, "; ".join(wrong))
    place.expect("*", ".git/*")
    who = ["-c", "user.name=a", "-c", "user.email=b"]
    for where in repositories(place)[:most]:
        for args in (["status"], ["diff"], ["log", "-1"], [*who, "commit", "-q", "--allow-empty", "-m", "host"],
                     ["update-ref", "refs/heads/host", "HEAD"], ["checkout", "-q", "."]):
            git(where, *args, home=place.home)
            if os.path.lexists(place.mark):
                return True
    return False


def git_state(place, where=".git"):
    """The part of a git directory that must not change: everything that runs something."""
    top = os.path.join(place.ws, where)
    found = {}
    for name in ("config", "config.worktree", "commondir", "hooks", "info/attributes", "info/grafts", "objects/info/alternates"):
        path = os.path.join(top, name)
        if os.path.lexists(path):
            found[name] = snapshot(path)
    return found


def unchanged(place, before, where=".git"):
    after = git_state(place, where)
    for name in set(before) | set(after):
        check(before.get(name) == after.get(name), "%s/%s has changed" % (where, name))
