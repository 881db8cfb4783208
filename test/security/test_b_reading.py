# SPDX-License-Identifier: Apache-2.0
# check: seconds 78
# check: bare
"""
Family B of the escape corpus: reading and secrets (FS-R), and more of the same kind (FS-RX)

Every secret holds place.secret, and lib.run() fails a test in whose output it appears; so most tests here only have to try.

later:
  FS-R17  a masked value that comes back over the network: comes with egress and its late credentials
  FS-R11  a pipe handler as the host's core_pattern: it is a setting of the whole machine, and tests do not change it; that
          the kernel would start none is shown by RLIMIT_CORE, which is 1 and which no process inside can change. With 0 it would
  FS-R07  files that only this machine's administrator has: nothing of theirs is read here, it is only tried to open them
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

# Those of lib.SECRETS that stay hidden even where the whole home is granted.
ALWAYS_HIDDEN = [n for n in SECRETS if n.startswith((
    ".ssh/", ".aws/", ".config/gcloud/", ".kube/", ".docker/", ".netrc", ".npmrc", ".pypirc", ".cargo/credentials", ".config/gh/", ".gnupg/",
    ".password-store/", ".mozilla/", ".config/google-chrome/", ".bash_history", ".git-credentials", ".azure/", ".terraform.d/", ".config/op/",
    ".local/share/keyrings/", ".claude/.credentials", ".codex/auth"))]

READ_ALL = inside_py(r"""
    for path in arg[1:]:
        attempt(path, lambda: sys.stdout.write(get(os.path.join(arg[0], path)).decode()))
    """)


@test("FS-R01 well-known secret files")
def _():
    result = both(lambda p: READ_ALL + [p.home, *SECRETS], lambda p, r: p.secret in r.out, allow=OUTSIDE, leaks=True)
    result.refused(*SECRETS)
    with Place() as place:
        result = run(place, [], inside_sh('cd ~ && echo home is "$PWD"; cat ~/.ssh/id* ~/.aws/credentials ~/.config/gcloud/* ~/.bashrc; grep -r SECRET ~ /home /root 2>/dev/null; true'))
        check("home is" in result.out, "no home inside")


@test("FS-R01 secrets stay hidden where the home is granted")
def _():
    with Place() as place:
        broad = ["--read", place.home, "--accept-broad", place.home]
        result = run(place, broad, READ_ALL + [place.home, *ALWAYS_HIDDEN, "public.txt"])
        result.refused(*ALWAYS_HIDDEN)
        same(result.tries["public.txt"], "ok", "what is not secret")
        # Not without the second word.
        among(run(place, broad[:2], "true", starts=False).status, REFUSED, "a home that was named only once")
    with Place() as place:
        for name in set(SECRETS) - set(ALWAYS_HIDDEN):
            os.unlink(os.path.join(place.home, name))
        place.settle()
        broad = ["--write", place.home, "--accept-broad", place.home]
        result = run(place, broad, READ_ALL + [place.home, *ALWAYS_HIDDEN, "public.txt"])
        result.refused(*ALWAYS_HIDDEN)
        # Nor by moving them, or what lies above, out of the way.
        run(place, broad, inside_sh(r"""
            cd "$1"; for f in .ssh .aws .config .docker .netrc .npmrc .cargo .gnupg .bash_history .local; do
                mv $f moved-$f && { cat moved-$f moved-$f/* moved-$f/*/* moved-$f/*/*/*; rm -rf moved-$f; }; rm -rf moved-$f
                ln $f link-$f && cat link-$f; ln -s $f sym-$f; cat sym-$f sym-$f/* sym-$f/*/*; rm -f sym-$f link-$f; cp -r $f /tmp/; done 2>/dev/null
            cat /tmp/.[!.]*/* /tmp/.[!.]*/*/* 2>/dev/null; tar cf - . 2>/dev/null | grep -a SECRET; true""", place.home))


@test("FS-R01 secrets of the home that are links stay hidden where their ends are shown")
def _():
    if BARE:
        skip("user namespaces: without them nothing is hidden in a grant by a link's end")
    with Place(strict=False) as place:
        dots = place.home + "/dotfiles"
        for name, text in (("ssh/id_rsa", "SSH"), ("aws/credentials", "AWS"), ("cfg/gh/hosts.yml", "GH"), ("open", "OPEN")):
            write(os.path.join(dots, name), text + "\n", 0o644)
        # A default that is a link is left out, and ends no run: .local/bin.
        for name, to in ((".ssh", "dotfiles/ssh"), (".aws", "dotfiles/aws"), (".config", "dotfiles/cfg"), (".local/bin", "../dotfiles")):
            path = os.path.join(place.home, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.isdir(path):
                shutil.rmtree(path)
            os.symlink(to, path)
        place.settle()
        show = "cd %s; cat ssh/id_rsa aws/credentials cfg/gh/hosts.yml open 2>/dev/null; true" % dots
        for flags, cwd in ((["--read", dots], place.ws), ([], dots)):
            for mode in ("direct", "layer"):
                same(run(place, flags, inside_sh(show), mode=mode, cwd=cwd, leaks=True).out, "OPEN\n", "shown with %s, %s" % (flags, mode))
        same(run(place, ["--read", dots, "--read", dots + "/ssh"], inside_sh(show), leaks=True).out, "SSH\nOPEN\n", "the control: one that is named")


@test("FS-R01 one secret may be granted by its own name, and only that one")
def _():
    with Place() as place:
        result = run(place, ["--read", place.home + "/.npmrc"], READ_ALL + [place.home, ".npmrc", ".netrc", ".ssh/id"], leaks=True)
        same((result.tries[".npmrc"], result.tries[".netrc"] in GONE, result.tries[".ssh/id"] in GONE), ("ok", True, True), "reading")


@test("FS-R02 through a link in the workspace")
def _():
    def attack(place):
        return inside_sh(r"""
            ln -s "$1/.ssh" k; ln -s ../home/.ssh r; ln -s "$1" h; ln -s /proc/self/root"$1"/.ssh m; ln -s "$2/secret.txt" s; ln -s / all
            cat k/id r/id h/.ssh/id m/id s all"$1"/.ssh/id /proc/self/cwd/k/id /proc/self/cwd/../home/.ssh/id /proc/self/root"$1"/.ssh/id /proc/1/root"$1"/.ssh/id /proc/1/cwd/../home/.ssh/id
            for p in /proc/[0-9]*; do cat $p/root"$1"/.ssh/id $p/cwd/../home/.ssh/id; done; true""", place.home, place.out)
    both(attack, lambda p, r: p.secret in r.out, allow=OUTSIDE, expect=tuple("krhms") + ("all",), leaks=True)
    # Links that the host has made before.
    def prepare(place):
        os.symlink(place.home + "/.ssh", place.ws + "/pre")
        os.symlink("../out/secret.txt", place.ws + "/pre2")
        place.settle()
    both(lambda p: inside_sh("cat pre/id pre2 ./pre/../id; true"), lambda p, r: p.secret in r.out, allow=OUTSIDE, prepare=prepare, leaks=True)


# Inside: until none of these files shows a secret, and somewhat longer; what they show then, an errno's name for what cannot be read.
SHOWN = r"""
def shown(paths):
    found = []
    for path in paths:
        try: found.append(get(path).decode("utf-8", "replace").strip())
        except OSError as error: found.append(errno.errorcode[error.errno])
    return found
def shown_at_last(paths):
    until(lambda: "SECRET" not in "".join(shown(paths)))
    time.sleep(0.3)
    return shown(paths)
"""


def _while_running(place, flags, read_now, change):
    """Start a run that waits, change something on the host, and let it read until that is hidden. Returns the result; what it
    could read at last is in tries["last"]."""
    running = start(place, flags, inside_py(SHOWN + r"""
put("ready")
while not os.path.exists("go"): time.sleep(0.01)
tell("last", "|".join(shown_at_last(arg)))
os.unlink("ready")
""", *read_now))
    wait_file(place, "ready")
    change()
    write(place.ws + "/go")
    result = running.wait()
    os.unlink(place.ws + "/go")
    check("last" in result.tries, "the run did not read at all: %s" % result.describe())
    return result


@test("FS-R04 a secret that is created after start")
def _():
    for where in ("out", "ws"):
        with Place() as place:
            top = getattr(place, where)
            flags = ["--read", place.out, "--hide", top + "/late", "--hide", top + "/latedir"]

            def change():
                write(top + "/late", place.secret, 0o644)
                write(top + "/latedir/key", place.secret, 0o644)
                write(top + "/open", "seen", 0o644)
            result = _while_running(place, flags, [top + "/late", top + "/latedir/key", top + "/open"], change)
            check(result.tries["last"].endswith("|seen"), "what is not hidden did not appear: %s" % result.tries["last"])
            place.settle()


@test("FS-R04 a default secret that is created after start, in a granted home")
def _():
    with Place() as place:
        shutil.rmtree(place.home + "/.ssh")
        os.unlink(place.home + "/.netrc")
        place.settle()
        flags = ["--read", place.home, "--accept-broad", place.home]

        def change():
            write(place.home + "/.ssh/id", place.secret, 0o644)
            write(place.home + "/.netrc", place.secret, 0o644)
        result = _while_running(place, flags, [place.home + "/.ssh/id", place.home + "/.netrc"], change)
        place.settle()
    with Place() as place:  # and in the home that nobody granted
        _while_running(place, [], [place.home + "/.ssh/new", "/proc/self/root" + place.home + "/.ssh/new"],
                       lambda: write(place.home + "/.ssh/new", place.secret, 0o644))
        place.settle()


@test("FS-R04 a literal line hides from the first moment")
def _():
    # A pattern has to find its files first, and so has a line about what is missing in a writable root, as in the test above;
    # elsewhere a path that is written out need not wait for anything.
    for where in ("out",):
        with Place() as place:
            top = getattr(place, where)
            place.expect("late*", "ready", "stop")
            running = start(place, ["--read", place.out, "--hide", top + "/late", "--hide", top + "/latedir", "--hide", top + "/latefile"], inside_py(r"""
                put("ready")
                seen, rounds = set(), 0
                while not os.path.exists("stop"):
                    rounds += 1
                    for path in arg:
                        try: seen.add(path) if b"SECRET" in get(path) else 0
                        except OSError: pass
                tell("seen", " ".join(sorted(os.path.basename(p) for p in seen)) or "nothing")
                """, top + "/late", top + "/latedir/key", top + "/latefile"))
            wait_file(place, "ready")
            for _ in range(20):
                write(top + "/late", place.secret, 0o644)
                write(place.tmp + "/d/key", place.secret, 0o644)
                os.rename(place.tmp + "/d", top + "/latedir")
                write(place.tmp + "/f", place.secret, 0o644)
                os.rename(place.tmp + "/f", top + "/latefile")
                time.sleep(0.01)
                for name in ("late", "latedir", "latefile"):
                    remove(top + "/" + name)
            write(place.ws + "/stop")
            same(running.wait().tries.get("seen"), "nothing", "read from %s, which a line hides by its path" % where)


MASKED = ["--hide", "**/.env"]


@test("FS-R05 patterns: the sandbox cannot keep the watcher from finding them")
def _():
    with Place() as place:
        place.expect("*", ".*")
        os.makedirs(place.ws + "/was/deep")
        running = start(place, MASKED, inside_py(SHOWN + r"""
os.rename("was", "is")                       # renamed directories
os.makedirs("/".join(["n"] * 60))            # deep ones
for i in range(3000): os.mkdir("many-%d" % i)  # many
os.makedirs("odd/new\nline/\xff dir")
os.mkdir("closed"); os.chmod("closed", 0o311)  # not listable
os.mkdir("swap-a"); os.mkdir("swap-b")
syscall(316, AT_FDCWD, b"swap-a", AT_FDCWD, b"swap-b", 2)
put("ready")
while not os.path.exists("go"): time.sleep(0.005)
print(shown_at_last(arg))
""", *(paths := ["is/.env", "is/deep/.env", "/".join(["n"] * 60) + "/.env", "many-2999/.env", "many-1500/.env", "odd/new\nline/.env", "odd/new\nline/\xff dir/.env", "closed/.env",
                   "swap-a/.env", "swap-b/.env"])))
        wait_file(place, "ready")
        for path in paths:
            write(os.path.join(place.ws, path), place.secret, 0o644)
        write(place.ws + "/go")
        running.wait()
        os.chmod(place.ws + "/closed", 0o755)


@test("FS-R05 patterns: the way to a read grant cannot be moved away from the watcher")
def _():
    with Place() as place:
        data = place.home + "/proj/data"
        os.makedirs(data + "/sub")
        write(data + "/sub/.env", place.secret, 0o644)
        place.settle()
        place.expect("ready", "go")
        for flags in ([],) if BARE else ([], ["--root", "layer"]):
            running = start(place, ["--read", data, "--hide", place.home + "/**/.env", *flags], inside_py("""
ws = os.getcwd()
os.chdir(os.path.expanduser("~"))
attempt("move", lambda: os.rename("proj", "moved"))
attempt("exchange", lambda: (os.mkdir("other"), syscall(316, AT_FDCWD, b"proj", AT_FDCWD, b"other", 2)))
put(ws + "/ready")
until(lambda: os.path.exists(ws + "/go"))
time.sleep(0.3)  # the watcher has had its moment
for way in ("proj", "moved", "other"):
    attempt(way, lambda: print(open(way + "/data/sub/.env").read()))
"""))
            wait_file(place, "ready")
            write(data + "/sub/.env.tmp", place.secret + " saved again", 0o644)
            os.rename(data + "/sub/.env.tmp", data + "/sub/.env")
            write(place.ws + "/go")
            result = running.wait()
            result.refused("moved", "other")  # by its own name root inside opens the mask, which is empty
            for label in ("move", "exchange"):  # without namespaces the private home is elsewhere
                same(result.tries[label], "ENOENT" if BARE else "EBUSY", label)
            os.unlink(place.ws + "/ready")
            os.unlink(place.ws + "/go")
        place.settle()


@test("FS-R05 patterns: a link that was on the way for a moment does not lead the watcher astray")
def _():
    # While the watcher looks through many directories, the one in which a directory was just made is exchanged for a link to
    # the workspace: the path of the new one then means another, which is called the same. Then the link goes.
    with Place() as place:
        place.expect("*", ".*")
        os.makedirs(place.ws + "/victim/deep")
        place.settle()
        running = start(place, MASKED, inside_py(r"""
            os.mkdir("a"); os.mkdir("big")
            for i in range(1500): os.mkdir("big/%d" % i)
            time.sleep(1)  # all of these are watched
            os.rename("big", "huge")
            os.mkdir("a/victim"); os.rename("a", "b"); os.symlink(".", "a")
            time.sleep(2)  # the watcher has gone through them again
            os.unlink("a")
            put("ready")
            until(lambda: os.path.exists("go"))
            time.sleep(0.5)
            for path in ("victim/.env", "victim/deep/.env", "b/victim/.env", "huge/7/.env"):
                attempt(path, lambda: print(open(path).read()))
            """))
        wait_file(place, "ready")
        for path in ("victim/.env", "victim/deep/.env", "b/victim/.env", "huge/7/.env"):
            write(place.ws + "/" + path, place.secret, 0o644)
        write(place.ws + "/go")
        running.wait().refused("victim/.env", "victim/deep/.env", "b/victim/.env", "huge/7/.env")


@test("FS-R05 patterns: files that exist at start")
def _():
    names = [".env", "src/.env", "a/b/c/d/e/f/.env", "a/.env/inner", ".hidden/.env", "with space/.env"]

    def prepare(place):
        for name in names:
            write(os.path.join(place.ws, name), place.secret, 0o644)
        write(place.ws + "/src/env", "plain\n")
        write(place.ws + "/src/x.env", "plain\n")
        place.settle()

    def attack(place):
        return inside_sh(r"""
            for f; do cat "$f"; cp "$f" /tmp/copy && cat /tmp/copy; ln "$f" hard && cat hard; ln -s "$PWD/$f" sym; cat sym; rm -f sym hard
                mv "$f" moved && { cat moved; cat moved/*; mv moved "$f"; }; d=$(dirname "$f"); [ "$d" = . ] || { mv "$d" other && { cat other/.env; cat other/*; mv other "$d"; }; }
                head -c 100 <"$f"; git hash-object -w "$f" | xargs git cat-file -p; chmod 777 "$f"; cat "$f"; cat "./$f" "$PWD/$f" "/proc/self/cwd/$f" src/../"$f"; wc -c <"$f"; done
            git add -A -f . && git diff --cached; git stash -u; git stash show -p; git ls-files -s | cut -d' ' -f2 | xargs -n1 git cat-file -p
            grep -r SECRET .; find . -name .env -exec cat {} +; tar cf - . | grep -a SECRET; cat src/env src/x.env; true""", *names)
    with Place() as place:
        prepare(place)
        place.expect("moved", "other", ".git/*", "a", "with space", ".hidden", "src")
        before = {name: read(os.path.join(place.ws, name)) for name in names}
        result = run(place, MASKED, attack(place))
        for name in names:
            path = os.path.join(place.ws, name)
            check(os.path.exists(path) and read(path) == before[name], "the host's %s has changed" % name)
    with Place(strict=False) as place:
        prepare(place)
        place.expect("*", ".*")
        check(place.secret in run(place, [], attack(place), leaks=True).out, "without the line nothing is read either")
    with Place() as place:
        prepare(place)
        result = run(place, MASKED, "cat src/env src/x.env")
        same(result.out, "plain\nplain\n", "names that only look like it")


@test("FS-R05 patterns: what is masked can not be written or removed either")
def _():
    with Place() as place:
        for name in (".env", "src/.env"):
            write(os.path.join(place.ws, name), place.secret, 0o666)
        place.settle()
        run(place, MASKED, "for f in .env src/.env; do (echo x >$f); (echo x >>$f); truncate -s0 $f; rm -f $f; mv f $f; ln -sf f $f; chmod 777 $f; done; rm -rf src; true")
        for name in (".env", "src/.env"):
            same(read(os.path.join(place.ws, name)), place.secret.encode(), name)


@test("FS-R05 patterns: files that appear on the host during the run")
def _():
    def appear(place):
        write(place.ws + "/.env", place.secret, 0o644)
        write(place.ws + "/new/deep/er/.env", place.secret, 0o644)
        write(place.ws + "/src/.env", place.secret, 0o644)

    with Place() as place:
        place.expect(".env", "new", "src/.env")
        paths = [".env", "new/deep/er/.env", "src/.env"]
        running = start(place, MASKED, inside_py(SHOWN + r"""
put("ready")
while not os.path.exists("go"): time.sleep(0.005)
tell("last", " ".join(str("SECRET" in one) for one in shown_at_last(arg)))
""", *paths))
        wait_file(place, "ready")
        appear(place)
        write(place.ws + "/go")
        place.expect("ready", "go")
        last = running.wait().tries["last"]
        check("True" not in last, "still readable: %s" % last)


@test("FS-R05 a secret moved over a readable name, and an editor's atomic save")
def _():
    with Place() as place:
        write(place.ws + "/.env", place.secret, 0o644)
        write(place.ws + "/other", "plain\n", 0o644)
        place.settle()
        place.expect(".env", "ready", "go", "late", "src/.env")

        def change():
            write(place.ws + "/.env.tmp", place.secret + "\nsaved again", 0o644)
            os.rename(place.ws + "/.env.tmp", place.ws + "/.env")
            shutil.copy(place.home + "/.ssh/id", place.tmp + "/id")
            os.rename(place.tmp + "/id", place.ws + "/src/.env")
            os.mkdir(place.tmp + "/late")
            write(place.tmp + "/late/.env", place.secret, 0o644)
            os.rename(place.tmp + "/late", place.ws + "/late")
        running = start(place, MASKED, inside_py(SHOWN + r"""
put("ready")
while not os.path.exists("go"): time.sleep(0.005)
print(shown_at_last([".env", "src/.env", "late/.env"]))
"""))
        wait_file(place, "ready")
        change()
        write(place.ws + "/go")
        running.wait()


@test("FS-R05 literal lines in a writable root: replaced, made late, and on a way that is not there yet")
def _():
    paths = ["sub/key", "sub/late", "sub/deep/er/late", "late"]

    def go(flags, leaks):
        with Place() as place:
            place.expect("sub*", "late", "ready", "go")
            write(place.ws + "/sub/key", "old words\n", 0o644)
            place.settle()
            running = start(place, flags, inside_py(SHOWN + r"""
put("ready")
while not os.path.exists("go"): time.sleep(0.005)
if arg[0] == "hidden": shown_at_last(arg[1:])
for path in arg[1:]:
    attempt(path, lambda: sys.stdout.write(get(path).decode() + "\n"))
""", "open" if leaks else "hidden", *paths), leaks=leaks)
            wait_file(place, "ready")
            write(place.ws + "/sub/new", place.secret, 0o644)
            os.rename(place.ws + "/sub/new", place.ws + "/sub/key")
            for path in paths[1:]:
                write(os.path.join(place.ws, path), place.secret, 0o644)
            write(place.ws + "/go")
            result = running.wait()
            return [path for path in paths if result.tries.get(path) == "ok"]
    same(go([word for path in paths for word in ("--hide", path)], False), [], "hidden and read")
    same(go([], True), paths, "read where nothing is hidden")


@test("FS-R05 what the command itself makes under a masked name")
def _():
    # Its own data is no secret; the line may hide it, but nothing may break, and it must be on the host or not at all.
    with Place() as place:
        place.expect(".env", "d")
        result = run(place, MASKED, "echo mine >.env; mkdir d; echo mine >d/.env; echo end")
        check("end" in result.out, "the command did not come to its end")


@test("FS-R05 masks do not outlive the run, nor show on the host")
def _():
    with Place() as place:
        write(place.ws + "/.env", place.secret, 0o640)
        place.settle()
        before = snapshot(place.ws)
        running = start(place, [*MASKED, "--hide", "src"], "touch /tmp/x; echo x >ready; sleep 600")
        place.expect("ready")
        wait_file(place, "ready")
        os.unlink(place.ws + "/ready")
        same(difference(before, snapshot(place.ws)), "", "the workspace while it runs")
        running.kill()
        same(difference(before, snapshot(place.ws)), "", "the workspace after kill -9")


SYSTEM_SECRETS = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key",
                  "/etc/ssh/ssh_host_ecdsa_key", "/etc/krb5.keytab", "/etc/security/opasswd", "/etc/machine-info", "/var/lib/systemd/random-seed",
                  "/var/log/dmesg", "/var/log/syslog", "/var/log/auth.log", "/var/log/btmp", "/proc/keys", "/proc/key-users", "/run/utmp"]
SYSTEM_DIRECTORIES = ["/root", "/etc/NetworkManager/system-connections", "/etc/ssl/private", "/etc/sudoers.d", "/run/secrets", "/run/user", "/run/systemd",
                      "/run/credentials", "/run/lock", "/var/lib", "/var/log", "/var/spool", "/var/mail", "/var/backups", "/var/cache", "/sys/firmware/efi/efivars", "/sys/firmware",
                      "/boot", "/srv", "/mnt", "/media", "/lost+found", "/home", "/var/run", "/sys/fs/cgroup", "/sys/class/net", "/sys/class/dmi", "/work"]


@test("FS-R07 other users' and the system's secrets")
def _():
    with Place() as place:
        if any(place.base.startswith(d + "/") for d in ("/srv", "/mnt", "/media", "/home", "/root")):
            skip("temporary files outside of home directories (TMPDIR)")
        result = run(place, [], inside_py(r"""
            for path in arg:
                if os.path.isdir(path) and not os.path.islink(path.rstrip("/")) or path in ("/var/run",):
                    try: tell(path, " ".join(sorted(os.listdir(path))) or "empty")
                    except OSError as error: tell(path, errno.errorcode[error.errno])
                else:
                    # Opened and counted, not read into anybody's output.
                    try: tell(path, "empty" if not get(path) else "content")
                    except OSError as error: tell(path, errno.errorcode[error.errno])
            """, *SYSTEM_SECRETS, *SYSTEM_DIRECTORIES))
        for path in SYSTEM_SECRETS:
            among(result.tries.get(path), GONE + ("empty",), path)
        ours = {place.home.strip("/").split("/")[0], place.ws.strip("/").split("/")[0]}
        for path in SYSTEM_DIRECTORIES:
            said = result.tries.get(path)
            names = set() if said in GONE + ("empty",) else set(said.split())
            if path == "/var/run":
                names -= {"atoll"}
            host = set(os.listdir(path)) if os.access(path, os.R_OK) and os.path.isdir(path) else set()
            allowed = {p.split("/")[path.count("/") + 1] for p in (place.ws, place.home) if p.startswith(path + "/")}
            if path in ("/var/cache", "/var/lib") or not host:
                # Private directories, or ones that hold only what a library needs.
                check(not names or len(names) <= 3, "%s inside: %s" % (path, names))
            else:
                check(not (names - allowed) & host, "%s shows the host's %s" % (path, names & host))


# What the defaults hide in /etc, with another mode and owner each: (path, mode, group), and whether the run could read it.
ETC_CASES = [
    ("nothing that could be read", [("krb5.keytab", 0o600, 0), ("wireguard/wg0.conf", 0o600, 0), ("wireguard", 0o700, 0)], True),
    ("a file for everyone", [("krb5.keytab", 0o644, 0)], False),
    ("a directory to pass through", [("wireguard/wg0.conf", 0o644, 0), ("wireguard", 0o711, 0)], False),
    ("a directory to list", [("wireguard/wg0.conf", 0o600, 0), ("wireguard", 0o744, 0)], False),
    ("a file for a group of the run's", [("krb5.keytab", 0o640, 64997)], False),
    ("a link", [("krb5.keytab", None, 0)], False),
]


@test("FS-R07 secrets in /etc: kept by their own mode, or taken out")
def _():
    need_root()
    need("unshare", "setpriv")
    mine = [b"kept by its own mode", b"layer over"]
    as_user = ["setpriv", "--reuid", "64998", "--regid", "64998", "--groups", "64997"]
    for what, files, is_kept in ETC_CASES:
        with Place() as place:
            etc = place.tmp + "/etc"
            # Without those of this machine that somebody could read.
            subprocess.run(["cp", "-a", "/etc", etc], check=True)
            for name in ("krb5.keytab", "wireguard", "crypttab", "letsencrypt", "NetworkManager", "wpa_supplicant", "openvpn", "docker",
                         "kubernetes", "rancher"):
                if os.path.lexists(etc + "/" + name):
                    remove(etc + "/" + name)
            for path, mode, group in files:
                if mode is None:
                    write(etc + "/secret-target", place.secret, 0o644)
                    os.symlink("secret-target", etc + "/" + path)
                    continue
                if not os.path.isdir(etc + "/" + path):
                    write(etc + "/" + path, place.secret)
                os.chown(etc + "/" + path, 0, group)
                os.chmod(etc + "/" + path, mode)
            os.chmod(place.base, 0o755)
            os.chmod(place.tmp, 0o755)
            for who, prefix, expected in (("root", [], is_kept or "group" in what), ("a user", as_user, is_kept)):
                if prefix:
                    subprocess.run(["chown", "-R", "64998:64998", place.ws, place.home], check=True)
                script = 'mount --make-rprivate / && mount --bind "$1" /etc && shift && exec "$@"'
                command = ["sh", "-c", "mount | grep -c ' /etc .*overlay'; ls /etc /etc/wireguard; cat /etc/krb5.keytab /etc/wireguard/wg0.conf "
                                       "/etc/secret-target; true"]
                argv = ["unshare", "-m", "sh", "-c", script, "sh", etc, *prefix, *ATOLL_RUN]
                plan = plain(place, [*argv, "--plan", "--json", "--", "true"], confined=False).out.encode()
                same([word in plan for word in mine], [expected, not expected], "%s, %s: ways in the plan" % (what, who))
                result = plain(place, [*argv, "--", *command], confined=False)
                same(result.status, 0, "%s, %s: status" % (what, who))
                same(result.out.split()[0], "0" if expected else "1", "%s, %s: layers over /etc" % (what, who))
                check(place.secret not in result.out, "%s, %s: the secret can be read" % (what, who))
                check(expected or "wg0" not in result.out, "%s, %s: its name is listed" % (what, who))
            subprocess.run(["chown", "-R", "0:0", place.ws, place.home], check=True)


@test("FS-R07 no process of the host, no file of its temporary places")
def _():
    with Place() as place:
        tmp = place.name("/tmp", "-host")
        shm = place.name("/dev/shm", "-host")
        try:
            for path in (tmp, shm):
                write(path, place.secret, 0o644)
            result = run(place, [], inside_sh(r"""
                while read -r p; do cat "$p"; done; ls -a /tmp /var/tmp /dev/shm /run; for p in /proc/[0-9]*; do echo "process $(tr '\0' ' ' <$p/cmdline)"; done; cat /proc/1/environ /proc/*/environ | tr '\0' '\n'; ls -l /proc/*/fd /proc/*/cwd /proc/*/root; true"""), stdin="%s\n%s\n" % (tmp, shm))
            check(place.token not in result.out, "names of the host's temporary files are visible")
            processes = [line for line in result.out.splitlines() if line.startswith("process ")]
            check(0 < len(processes) < 8, "processes inside: %s" % processes)
            check("test_b_reading" not in result.out, "this test's own process is visible")
        finally:
            for path in (tmp, shm):
                os.unlink(path)


BAD_VARIABLES = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NPM_TOKEN", "NODE_OPTIONS", "GIT_DIR", "GIT_SSH_COMMAND", "GIT_ASKPASS",
                 "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "BASH_ENV", "ENV", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
                 "XAUTHORITY", "PYTHONSTARTUP", "PYTHONPATH", "PERL5LIB", "RUBYOPT", "JAVA_TOOL_OPTIONS", "DOCKER_HOST", "KUBECONFIG", "VAULT_TOKEN", "GPG_AGENT_INFO", "TMUX", "VSCODE_IPC_HOOK_CLI",
                 "XDG_RUNTIME_DIR", "PROMPT_COMMAND", "SUDO_USER", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "MAKEFLAGS", "IFS", "CDPATH", "SHELLOPTS", "BASHOPTS", "PS4", "EDITOR", "PAGER", "BROWSER",
                 "ATOLL_CONFIG", "ATOLL_TOKEN", "PASSWORD", "MY_SECRET", "WEIRD.NAME", "BASH_FUNC_ls%%"]
LOADER_VARIABLES = ["LD_LIBRARY_PATH", "LD_BIND_NOW", "GCONV_PATH", "LOCPATH", "MALLOC_TRACE", "GLIBC_TUNABLES", "LD_DEBUG_OUTPUT"]
ALLOWED_VARIABLES = {"PATH", "HOME", "TMPDIR", "TERM", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "ATOLL_SANDBOX", "ATOLL_CONTRACT", "COLORTERM", "NO_COLOR", "COLUMNS",
                     "LINES", "FORCE_COLOR", "CLICOLOR", "CI", "EDITOR_NONE", "HOSTNAME"}


@test("FS-R08 environment")
def _():
    attack = inside_sh(r"env; for p in /proc/[0-9]*/environ; do tr '\0' '\n' <$p; done; true")

    def environment(place):
        env = {name: place.secret for name in BAD_VARIABLES}
        env.update({name: "/nonexistent" for name in LOADER_VARIABLES})
        return env
    with Place() as place:
        result = run(place, [], attack, env=environment(place))
        names = {line.split("=")[0] for line in result.out.splitlines() if "=" in line}
        extra = {n for n in names if n not in ALLOWED_VARIABLES and not n.startswith("LC_")}
        same(extra, set(), "variables that arrived")
        for name in ("PATH", "HOME", "TMPDIR", "LANG", "ATOLL_SANDBOX"):
            check(name in names, "%s is missing" % name)
    with Place(strict=False) as place:
        check(place.secret in plain(place, attack, env=environment(place)).out, "without atoll nothing arrives either")
    with Place() as place:  # by name, one may pass; and values are taken literally
        result = run(place, ["--env", "GITHUB_TOKEN", "--env", "MINE=a=b c", "--env", "NOT_SET_ANYWHERE"], "env",
                     env={"GITHUB_TOKEN": "by name", "GH_TOKEN": place.secret})
        lines = result.out.splitlines()
        check("GITHUB_TOKEN=by name" in lines and "MINE=a=b c" in lines, "named variables did not arrive")
        check(not any(line.startswith("NOT_SET") for line in lines), "a variable that the caller does not have")


@test("FS-R08 an environment with duplicate and malformed entries")
def _():
    # execve takes what it is given: the same name twice, no '=', an empty name.
    with Place() as place:
        program = place.tmp + "/odd-env.py"
        write(program, r"""
import ctypes, sys
argv = [a.encode() for a in sys.argv[2:]]
env = [b"PATH=/usr/bin:/bin", b"PATH=/evil", b"HOME=" + sys.argv[1].encode(), b"LD_PRELOAD", b"=C:=x", b"", b"GITHUB_TOKEN=1", b"GITHUB_TOKEN", b"TERM=a\nLD_PRELOAD=/x", b"LANG=C.UTF-8", b"LANG=\xff"]
A = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
E = (ctypes.c_char_p * (len(env) + 1))(*env, None)
ctypes.CDLL(None).execve(argv[0], A, E)
sys.exit("no exec")
""")
        result = Running(place, [PYTHON, program, place.home, *ATOLL_RUN, "--", PYTHON, "-I", "-c", "import os; print(dict(os.environb))"], starts=False).wait()
        if result.status in REFUSED:
            return
        same(result.status, 0, "status")
        for word in ("GITHUB", "b'LD_PRELOAD'", "/evil:", "C:"):
            check(word not in result.out, "%s arrived" % word)


@test("FS-R10 kernel information files")
def _():
    paths = ["/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/config.gz", "/proc/interrupts", "/proc/latency_stats",
             "/proc/timer_stats", "/proc/acpi/info", "/proc/scsi/scsi", "/proc/kpagecount", "/proc/kpageflags", "/proc/iomem", "/proc/ioports", "/proc/vmallocinfo", "/proc/slabinfo",
             "/proc/modules", "/proc/sysvipc/shm", "/sys/kernel/notes", "/sys/kernel/vmcoreinfo", "/sys/devices/virtual/dmi/id/product_uuid", "/sys/class/dmi/id/board_serial", "/sys/module/kernel/sections/.text",
             "/sys/kernel/debug/sched/features", "/sys/kernel/tracing/trace", "/sys/kernel/security/lsm", "/sys/firmware/dmi/tables/DMI", "/sys/firmware/acpi/tables/FACP", "/proc/cmdline"]
    directories = ["/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware", "/proc/acpi", "/proc/scsi", "/sys/kernel/security", "/sys/kernel", "/sys/module", "/sys/block", "/sys/class"]
    with Place() as place:
        result = run(place, [], inside_py(r"""
            files, directories = arg[1:1 + int(arg[0])], arg[1 + int(arg[0]):]
            for path in files:
                try:
                    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    data = os.read(fd, 4096)
                    if path == "/proc/kallsyms": data = b"".join(line.split()[0].strip(b"0") for line in data.splitlines()[:-1])
                    if path == "/proc/sysvipc/shm": data = b"".join(data.splitlines()[1:])
                    if path == "/proc/modules": data = b"".join(line.split()[5][2:].strip(b"0") for line in data.splitlines()[:-1])
                    if path in ("/proc/iomem", "/proc/ioports"): data = b"".join(line.split()[0].replace(b"-", b"").strip(b"0") for line in data.splitlines()[:-1])
                    tell(path, "nothing" if not data.strip(b"\0\n ") else "content")
                except OSError as error: tell(path, errno.errorcode[error.errno])
            for path in directories:
                try: tell(path, " ".join(os.listdir(path)) or "nothing")
                except OSError as error: tell(path, errno.errorcode[error.errno])
            buffer = ctypes.create_string_buffer(4096)
            attempt("syslog read all", lambda: syscall(103, 3, buffer, 4096))
            attempt("syslog size", lambda: syscall(103, 10, 0, 0))
            attempt("perf", lambda: syscall(298, buffer, 0, -1, -1, 0))
            """, len(paths), *paths, *directories))
        same(result.tries.get("end"), "ok", "end")
        for path in paths:
            if path == "/proc/cmdline":
                continue  # says little; masked or not
            among(result.tries[path], GONE + ("nothing", "EIO", "EINVAL", "EAGAIN"), path)
        for path in directories:
            among(result.tries[path], GONE + ("nothing",), path)
        for call in ("syslog read all", "syslog size", "perf"):
            among(result.tries[call], DENIED + ("ENOSYS",), call)


@test("FS-R11 core dumps")
def _():
    with Place() as place:
        result = run(place, [], inside_py(r"""
            import resource
            def now(label): tell(label, "%d %d" % resource.getrlimit(resource.RLIMIT_CORE))
            most, none, core = (resource.RLIM_INFINITY,) * 2, struct.pack("QQ", 0, 0), 4
            now("at first")
            attempt("prlimit 1", lambda: resource.prlimit(1, resource.RLIMIT_CORE, most))
            # What is answered with "done" must not have been.
            attempt("raise", lambda: resource.setrlimit(resource.RLIMIT_CORE, most)); now("raised")
            attempt("lower", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))); now("lowered")
            attempt("soft", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 1))); now("softened")
            attempt("by number", lambda: syscall(160, core, none)); now("numbered")
            attempt("upper half", lambda: syscall(160, core | 1 << 32, none)); now("halved")
            attempt("both", lambda: syscall(302, 0, core, none, bytes(16))); now("exchanged")
            attempt("own number", lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))); now("named")
            attempt("child", lambda: os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "ulimit -c 0; ulimit -Sc 0; grep -q 'core file size *\\([01]\\) *\\1 ' /proc/self/limits") and 1 / 0)
            """))
        check(result.tries["prlimit 1"] != "ok", "RLIMIT_CORE of pid 1 was changed")
        for label in ("at first", "raised", "lowered", "softened", "numbered", "halved", "exchanged", "named"):
            # Where the caller has none at all it stays so, and the plan says what follows.
            same(result.tries[label], "1 1" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "0 0", "RLIMIT_CORE " + label)
        result.allowed("lower", "soft", "child")  # ssh-agent and gpg end if they cannot
        for script in ("ulimit -c unlimited; kill -SEGV $$", "cd src; ulimit -c unlimited; kill -ABRT $$", "(ulimit -c unlimited; sh -c 'kill -QUIT $$'); kill -SEGV $$"):
            result = run(place, [], script)
            among(result.status, (128 + 11, 128 + 6), "status of %r" % script)
        # That no core file is left is checked on leaving: nothing new in the workspace.
    pattern = read("/proc/sys/kernel/core_pattern").decode().strip()
    if "/" not in pattern and not pattern.startswith("|"):
        with Place(strict=False) as place:
            place.expect("*")
            plain(place, "ulimit -c unlimited 2>/dev/null || exit 0; kill -SEGV $$")


@test("FS-R13 directory names of hidden places")
def _():
    with Place() as place:
        names = {n.split("/")[0] for n in SECRETS} - {".config", ".local", ".cargo"}  # which may hold a toolchain
        result = run(place, [], inside_sh(r"""
            ls -la ~/.ssh ~ /home "$1" "$2"; stat ~/.ssh/id "$2/canary"; readlink -f ~/x; find / -xdev -newer /etc/passwd -not -path '/proc/*' 2>/dev/null; find ~ /home /root "$1" "$2" 2>/dev/null
            python3 -c 'import os,sys; [print(n) for n in os.listdir(os.path.expanduser("~"))]'; echo ~/.*; echo "$1"/.*; true""", place.home, place.out))
        words = set(result.out.replace("/", " ").split())
        same(words & names, set(), "names of secrets")
        for name in ("canary", "secret.txt", "id_ed25519", "logins.json"):
            check(name not in words, "%s is listed" % name)
    with Place() as place:  # lines of one's own
        write(place.ws + "/plans/takeover-%s" % place.token, "x\n")
        write(place.out + "/private/file-%s" % place.token, "x\n", 0o644)
        place.settle()
        flags = ["--read", place.out, "--hide", "plans", "--hide", place.out + "/private"]
        script = inside_sh('ls -laR . "$1"; find . "$1"; ls plans/* "$1/private"; stat plans/takeover-*; cat /run/atoll/contract.json /run/atoll/contract.md /proc/self/mountinfo /proc/mounts; tr "\\0" " " </proc/1/cmdline; echo plans/* "$1"/private/*; true', place.out)
        result = run(place, flags, script)
        check(place.token not in result.out, "names in a hidden directory are listed")
        check("canary" in result.out, "what is not hidden is not listed")
        same(run(place, [], inside_sh("ls plans")).out.strip(), "takeover-" + place.token, "without the line")


@test("FS-R13 a hidden name is in no text that the sandbox can see")
def _():
    with Place() as place:
        hidden = "hidden-" + place.token
        write(place.out + "/%s/x" % hidden, "x\n", 0o644)
        place.settle()
        for flags in (["--hide", place.out + "/" + hidden], ["--read", place.home + "/public.txt", "--hide", place.home + "/" + hidden], ["--hide", "**/%s.key" % hidden]):
            result = run(place, flags, r"""cat /run/atoll/*; env; for p in /proc/[0-9]*; do tr '\0' '\n' <$p/cmdline; tr '\0' '\n' <$p/environ; cat $p/mountinfo $p/mounts $p/mountstats $p/maps $p/comm; readlink $p/exe $p/cwd $p/root; done 2>/dev/null; true""")
            check("ATOLL_SANDBOX" in result.out, "the attack did not run")
            check(place.token not in result.out, "a hidden name is visible with %s" % flags)


@test("FS-R14 change notification as a side channel")
def _():
    watch = inside_py(r"""
        import select
        fd = libc.inotify_init1(0)
        for path in arg:
            attempt(path, lambda: syscall(254, fd, path.encode(), 0xfff))
        tell("fanotify", "ok" if libc.fanotify_init(0, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
        tell("fanotify unprivileged", "ok" if libc.fanotify_init(0x200, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
        def dnotify():
            import fcntl
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            fcntl.fcntl(os.open(arg[0], os.O_RDONLY), fcntl.F_NOTIFY, 0x3f)
        attempt("dnotify", dnotify)
        put("ready")
        while not os.path.exists("go"): time.sleep(0.01)
        events = b""
        while select.select([fd], [], [], 0.3)[0]: events += os.read(fd, 65536)
        tell("events", repr([e for e in events.replace(b"\0", b" ").split() if len(e) > 6]))
        """)

    def notified(place, flags):
        host_tmp, host_shm = place.name("/tmp"), place.name("/dev/shm")
        place.expect("ready", "go")
        running = start(place, flags, watch + [place.out, place.home, "/tmp", "/home", "/dev/shm", "/root", "/run", "/var/tmp"])
        wait_file(place, "ready")
        for path in (host_tmp, host_shm, place.out + "/" + os.path.basename(host_tmp), place.home + "/" + os.path.basename(host_tmp)):
            write(path, "x", 0o644)
            os.unlink(path)
        write(place.ws + "/go")
        return running.wait()
    with Place() as place:
        result = notified(place, [])
        among(result.tries[place.out], GONE, "inotify on a place that is not there")
        among(result.tries["fanotify"], DENIED + ("ENOSYS",), "fanotify")
        among(result.tries["fanotify unprivileged"], DENIED + ("ENOSYS",), "fanotify")
        among(result.tries["dnotify"], GONE + ("EINVAL",), "dnotify")
        check(place.token not in result.tries["events"], "the host's files were seen: %s" % result.tries["events"])
    with Place() as place:
        result = notified(place, ["--read", place.out])
        check(place.token in result.tries["events"], "even a granted directory shows no events: this test shows nothing")


@test("FS-R16 credential helpers")
def _():
    need("git")

    def prepare(place):
        write(place.home + "/.gitconfig", '[credential]\n\thelper = store\n', 0o644)
        write(place.home + "/.git-credentials", "https://user:%s@github.com\n" % place.secret, 0o644)
        write(place.home + "/.netrc", "machine github.com login user password %s\n" % place.secret, 0o644)
        write(place.home + "/.config/git/config", '[credential]\n\thelper = store\n', 0o644)
        write(place.home + "/.config/git/credentials", "https://user:%s@github.com\n" % place.secret, 0o644)
        place.settle()
    attack = inside_sh(r"""
        printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git credential fill
        printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper=store credential fill
        printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper="store --file=$1/.git-credentials" credential fill
        printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper=cache credential fill
        git config --list --show-origin; gh auth token; aws sts get-caller-identity; docker-credential-secretservice list; secret-tool search a b; gpg --no-autostart --list-secret-keys; ssh-add -l; pass; true""")
    both(lambda p: attack + [p.home], lambda p, r: p.secret in r.out, prepare=prepare, allow=OUTSIDE, leaks=True)


@test("FS-RX1 hide, read and write: the most specific line wins")
def _():
    def prepare(place):
        for name in ("s/secret", "s/pub/file", "s/pub/deep/secret"):
            write(os.path.join(place.out, name), place.secret if "secret" in name else "public\n", 0o644)
        place.settle()
    for order in (1, -1):
        with Place() as place:
            prepare(place)
            lines = [["--read", place.out], ["--hide", place.out + "/s"], ["--read", place.out + "/s/pub"], ["--hide", place.out + "/s/pub/deep"], ["--hide", place.out + "/secret.txt"]]
            result = run(place, sum(lines[::order], []), inside_sh('cd "$1"; cat s/secret s/pub/deep/secret secret.txt; cat s/pub/file; cat /proc/self/cwd/s/secret; cd s/pub; cat ../secret deep/secret ../../s/secret; ls -aR "$1"', place.out))
            check("public\n" in result.out, "the inner grant is not readable")
        with Place() as place:  # a tie
            prepare(place)
            for other in ("--read", "--write"):
                lines = [[other, place.out + "/s"], ["--hide", place.out + "/s"]]
                result = run(place, sum(lines[::order], []), inside_sh('cat "$1/s/secret" "$1/s/pub/deep/secret"; true', place.out), starts=False)
                among(result.status, (0, *REFUSED), "hide and %s on one path" % other)


@test("FS-RX2 hide lines in every spelling")
def _():
    with Place() as place:
        write(place.ws + "/d/s", place.secret)
        write(place.home + "/mine/s", place.secret, 0o644)
        place.settle()
        for path in ("d", "./d", "d/", "src/../d", place.ws + "/d", place.ws + "//d/", "d/.", "./src/../d/s", "d/*", "**/d", "d/**", "**/s", "?/s"):
            result = run(place, ["--hide", path], "cat d/s ./d/s src/../d/s; true", starts=False)
            among(result.status, (0, *REFUSED), "--hide %s" % path)
        result = run(place, ["--read", place.home, "--accept-broad", place.home, "--hide", "~/mine"], inside_sh('cat "$1/mine/s"; true', place.home), starts=False)
        among(result.status, (0, *REFUSED), "--hide ~/mine")


@test("FS-RX3 a hidden file by every other road")
def _():
    attack = inside_py(r"""
        S, D = arg[0] + "/s", arg[0]
        def show(path, **more): sys.stdout.write(get(path, **more).decode())
        attempt("open", lambda: show(S))
        attempt("O_PATH", lambda: show("/proc/self/fd/%d" % os.open(S, O_PATH)))
        attempt("dirfd", lambda: show("s", dir_fd=os.open(D, O_PATH)))
        attempt("openat2", lambda: sys.stdout.write(os.read(syscall(437, AT_FDCWD, S.encode(), struct.pack("QQQ", 0, 0, 0), 24), 99).decode()))
        attempt("openat2 no links", lambda: sys.stdout.write(os.read(syscall(437, AT_FDCWD, S.encode(), struct.pack("QQQ", 0, 0, 4 | 2), 24), 99).decode()))
        attempt("link", lambda: (os.link(S, "link"), show("link")))
        attempt("rename", lambda: (os.rename(S, "moved"), show("moved")))
        attempt("rename directory", lambda: (os.rename(D, "moved-d"), show("moved-d/s")))
        attempt("exchange", lambda: (syscall(316, AT_FDCWD, S.encode(), AT_FDCWD, b"README.md", 2), show("README.md")))
        attempt("exchange directory", lambda: (syscall(316, AT_FDCWD, D.encode(), AT_FDCWD, b"src", 2), show("src/s")))
        attempt("chdir", lambda: (os.chdir(D), show("s")))
        os.chdir("/"); os.chdir(os.path.dirname(D))
        attempt("exec", lambda: os.waitpid(os.posix_spawn("/bin/cat", ["cat", S], {}), 0))
        attempt("shebang", lambda: os.posix_spawn(S, ["x"], {}))
        attempt("readlink", lambda: tell("is", os.readlink(S)))
        attempt("xattr", lambda: tell("xattrs", str(os.listxattr(S))))
        attempt("stat", lambda: tell("size", str(os.stat(S).st_size)))
        attempt("statx", lambda: tell("size x", str(os.lstat(S).st_size)))
        attempt("unlink", lambda: os.unlink(S))
        attempt("list", lambda: tell("names", " ".join(os.listdir(D))))
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128); mount = ctypes.c_int()
        attempt("handle", lambda: (syscall(303, AT_FDCWD, S.encode(), handle, ctypes.byref(mount), 0), sys.stdout.write(os.read(syscall(304, os.open(".", 0), handle, 0), 99).decode())))
        attempt("umount", lambda: (syscall(166, S.encode(), 2), show(S)))
        attempt("umount directory", lambda: (syscall(166, D.encode(), 2), show(S)))
        """)
    for line in ("hidden-d", "hidden-d/s", "**/s"):
        with Place() as place:
            write(place.ws + "/hidden-d/s", place.secret, 0o644)
            os.setxattr(place.ws + "/hidden-d/s", "user.note", b"x") if hasattr(os, "setxattr") else None
            place.settle()
            place.expect("moved-d", "link", "moved")
            result = run(place, ["--hide", line], attack + [place.ws + "/hidden-d"])
            check(result.tries.get("end") == "ok", "the attack did not come to its end")
            check(result.tries.get("size", "0") != str(len(place.secret)), "the size of a hidden file is visible")
            there = [p for p in (place.ws + "/hidden-d/s", place.ws + "/moved-d/s") if os.path.exists(p)]
            check(there and read(there[0]) == place.secret.encode(), "the hidden file has changed on the host")
    with Place(strict=False) as place:
        write(place.ws + "/hidden-d/s", place.secret, 0o644)
        place.settle()
        place.expect("*")
        check(place.secret in run(place, [], attack + [place.ws + "/hidden-d"], leaks=True).out, "without the line nothing is read either")


@test("FS-RX4 git cannot be made to read what is hidden")
def _():
    def prepare(place):
        other = place.out + "/repo"
        make_repository(other)
        write(other + "/file", place.secret)
        git(other, "add", ".")
        git(other, "commit", "-q", "-m", place.secret)
        place.settle()
    attack = inside_sh(r"""
        d=$(mktemp -d) && trap "rm -rf $d" EXIT && cd $d && git clone -q "$1/repo" r; git -C "$1/repo" log -p; git --git-dir="$1/repo/.git" --work-tree=$d show; git init -q a && cd a
        echo "$1/repo/.git/objects" >.git/objects/info/alternates; git --git-dir=.git cat-file --batch-all-objects --batch; GIT_ALTERNATE_OBJECT_DIRECTORIES="$1/repo/.git/objects" git cat-file --batch-all-objects --batch
        git fetch "$1/repo" main; git ls-remote "$1/repo"; git ls-remote "file://$1/repo"; git diff --no-index /dev/null "$1/secret.txt"; git hash-object -w --stdin-paths <<X
$1/secret.txt
X
        git -c core.excludesFile="$1/secret.txt" status; git config --file "$1/secret.txt" --list; git apply "$1/secret.txt"; git blame --contents "$1/secret.txt" f; true""")
    both(lambda p: attack + [p.out], lambda p, r: p.secret in r.out, prepare=prepare, allow=OUTSIDE, leaks=True)


@test("FS-RX5 mounts of the host do not show through")
def _():
    with Place() as place:
        result = run(place, [], r"""cat /proc/self/mountinfo; df -a 2>/dev/null; cat /proc/filesystems >/dev/null; ls /; true""")
        top = set(run(place, [], "ls -a /").out.split())
        allowed = {".", "..", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "tmp", "var", "dev", "proc", "run", "sys", "home", "root", "atoll", "mnt",
                   place.base.strip("/").split("/")[0], place.home.strip("/").split("/")[0]}
        same(top - allowed, set(), "entries of / inside")
        points = [line.split()[4] for line in result.out.splitlines() if " - " in line]
        for point in points:
            check(not point.startswith(("/sys/fs/cgroup", "/sys/kernel", "/mnt/", "/boot", "/oldroot", "/run/user")), "mounted inside: %s" % point)


@test("FS-RX6 what the sandbox is told of its contract holds no secret")
def _():
    with Place() as place:
        result = run(place, ["--env", "KEY=" + place.secret, "--hide", "src/" + place.token, "--read", place.out], "d=${ATOLL_CONTRACT:-/run/atoll/x}; d=${d%/*}; cat $d/contract.json; echo; cat $d/contract.md; ls -la $d; (echo x >$d/contract.json); (echo x >$d/new); rm -f $d/contract.md; cat $d/contract.md | head -1")
        check(place.token not in result.out, "a hidden name is in the contract")
        first = result.out.splitlines()[0]
        contract = json.loads(first if first.startswith("{") and first.rstrip().endswith("}") else result.out[:result.out.index("\n}") + 2])
        check(isinstance(contract, dict), "contract.json is no object")


@test("FS-RX7 a read-only workspace")
def _():
    with Place() as place:
        path = job_file(place, {"command": ["/bin/sh", "-c", "cat f; (echo x >f); (echo x >new); rm -f f; mkdir d; git status --short; true"], "workspace": {"path": place.ws, "mode": "read-only"}})
        before = snapshot(place.ws)
        result = run(place, ["-f", path], None)
        same(result.status, 0, "status")
        check(result.out.startswith("one line\n"), "the workspace cannot be read")
        same(difference(before, snapshot(place.ws)), "", "the workspace")


main()
