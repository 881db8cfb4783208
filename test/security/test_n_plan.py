# SPDX-License-Identifier: Apache-2.0
"""
The plan says what holds: other names of hidden files, mounts inside grants, limits in parts, and what is missing on a host

Each line of a plan is held against what a run does. Mounts are made in a mount namespace of the test's own, and an ordinary user
has a user namespace around it.
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402


def in_private(place, setup, flags, command, **options):
    """atoll run in a mount namespace of its own, in which a script has mounted things: $1 the workspace, $2 home, $3 out."""
    own = ["unshare", "-m", "--propagation", "private"]
    if not IS_ROOT:
        own += ["--map-current-user", "--keep-caps"]
        if subprocess.run([*own, "true"], stderr=subprocess.DEVNULL).returncode:
            skip("unshare --keep-caps")
    drop = [] if IS_ROOT else ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]
    argv = [*own, "sh", "-euc", setup + '\ncd "$1"; shift 3; exec "$@"', "sh", place.ws, place.home, place.out, *drop, ATOLL, "run",
            *mode_flags(flags), *bare.flags(flags), *map(str, flags), "--", *command]
    return Running(place, argv, **options).wait()


def lines(plan):
    return json.loads(plan.out)["clauses"]


# ---- other names of what is hidden -----------------------------------------------------------------------------------

# ~/.ssh and one file of it in the workspace and in a granted directory, and the whole home there.
ALIASES = r"""
mkdir -p "$1/dir" "$3/keys" "$3/home"; : >"$1/one" ; : >"$3/one"
mount -n --bind "$2/.ssh" "$1/dir"; mount -n --bind "$2/.ssh/id" "$1/one"
mount -n --bind "$2/.ssh" "$3/keys"; mount -n --bind "$2/.ssh/id" "$3/one"; mount -n --bind "$2" "$3/home"
"""

READ = 'cat "$1/dir/id" "$1/one" "$2/keys/id" "$2/one" "$2/home/.ssh/id"; cat "$2/home/public.txt"'


@test("PLAN-01 a bind mount as another name of a hidden file shows nothing, and the plan names it")
def _():
    need_layers()
    with Place(strict=False) as place:
        place.expect("dir", "one")
        flags = ["--read", place.out]
        result = in_private(place, ALIASES, flags, ["sh", "-c", READ, "sh", place.ws, place.out])
        same(result.out, "nothing secret\n", "what is not hidden")
        hidden = {line["subject"]: line for line in lines(in_private(place, ALIASES, [*flags, "--plan", "--json"], ["true"]))
                  if line["clause"] == "filesystem.hide"}
        for name in (place.ws + "/dir", place.ws + "/one", place.out + "/keys", place.out + "/one", place.out + "/home/.ssh"):
            check("another name of '%s/.ssh" % place.home in (hidden.get(name, {}).get("note") or ""), "%s: %s" % (name, hidden.get(name)))


@test("PLAN-02 a grant that names the other name shows it, and the plan says so; a hide line of a person's is not overruled")
def _():
    need_layers()
    with Place(strict=False) as place:
        place.expect("dir", "one")
        flags = ["--read", place.out + "/keys"]
        result = in_private(place, ALIASES, flags, ["cat", place.out + "/keys/id"], leaks=True)
        check(place.secret in result.out, "the grant shows nothing")
        plan = lines(in_private(place, ALIASES, [*flags, "--plan", "--json"], ["true"]))
        check([line for line in plan if line["subject"] == place.out + "/keys" and line["strength"] == "note" and
               "another name" in line["note"]], "the plan")
        result = in_private(place, ALIASES, [*flags, "--hide", place.home + "/.ssh"], ["true"], starts=False)
        same(result.status, POLICY, result.err)
        check("another name of" in result.err, result.err)


@test("PLAN-03 what is mounted in a workspace that is written directly stands in the plan")
def _():
    need_layers()
    with Place() as place:
        place.expect("inner")
        setup = 'mkdir -p "$1/inner"; mount -n -t tmpfs inner "$1/inner"; mkdir "$1/inner/dir"; chmod -R 777 "$1/inner"'
        found = [line for line in lines(in_private(place, setup, ["--direct", "--plan", "--json"], ["true"]))
                 if line["subject"] == place.ws + "/inner"]
        check(found and found[0]["clause"] == "filesystem.write" and "mounted there on the host" in found[0]["note"], str(found))
        result = in_private(place, setup, ["--direct"], ["sh", "-c", "ls inner; echo x >inner/dir/x"])
        same(result.out, "dir\n", "what is mounted")


# ---- lines that promise more than is kept ----------------------------------------------------------------------------

def plan_of(place, *flags, job=None):
    more = ["-f", job_file(place, {"version": 1, "command": ["true"], **job})] if job else []
    done = atoll(place, "run", "--plan", "--json", *flags, *more, *([] if job else ["--", "true"]))
    same(done.status, 0, done.err)
    return lines(done)


def one(plan, clause, subject=None):
    found = [line for line in plan if line["clause"] == clause and subject in (None, line["subject"])]
    check(found, "no line about %s" % clause)
    return found[0]


@test("PLAN-04 a part of a CPU is enforced by a control group, and weaker by the set of CPUs")
def _():
    with Place() as place:
        for cpus, is_part in (("0.5", True), ("1.5", True), ("1", False)):
            line = one(plan_of(place, "--cpus", cpus), "limits.cpus")
            by_group = "cgroup" in line["mechanism"]
            same(line["strength"], "weaker" if is_part and not by_group else "enforced", "--cpus %s: %s" % (cpus, line))
            if line["strength"] == "weaker":
                check("rounded up" in line["note"], str(line))
                have = run(place, ["--cpus", cpus], ["nproc"]).out
                same(have, "%d\n" % min(len(os.sched_getaffinity(0)), -int(-float(cpus) // 1)), "CPUs inside")


@test("PLAN-05 names that appear later are hidden with a delay, which is weaker")
def _():
    need_layers()
    with Place() as place:
        plan = plan_of(place, "--direct", "--hide", "**/*.key", "--hide", place.ws + "/later")
        for subject in (place.ws + "/**/*.key", place.ws + "/later"):
            line = one(plan, "filesystem.hide", subject)
            same(line["strength"], "weaker", str(line))
            check("until the watcher has run" in line["note"], str(line))
        line = one(plan_of(place, "--mode", "layer", "--hide", "**/*.key"), "filesystem.hide", place.ws + "/**/*.key")
        same(line["strength"], "weaker", str(line))


@test("PLAN-06 several users with one id are weaker; ids are said to be mapped only where they are")
def _():
    need_layers()
    with Place() as place:
        users = {"users": [{"name": "one", "uid": 1000}, {"name": "two", "uid": 1001}]}
        line = one(plan_of(place, "--mode", "layer", job=users), "users", "two")
        same(line["strength"], "enforced" if IS_ROOT else "weaker", str(line))
        for line in plan_of(place, "--mode", "layer", "--root", "layer"):
            check(IS_ROOT or "ids mapped" not in line["mechanism"], str(line))


@test("PLAN-07 where nothing of the host's can be written no line says that the guard refuses")
def _():
    need_layers()
    with Place() as place:
        plan = plan_of(place, "--mode", "read-only", "--protect", place.ws + "/src")
        for clause in ("filesystem.trusted", "filesystem.protect"):
            for line in plan:
                if line["clause"] == clause:
                    same(line["mechanism"], "nothing of the host's can be written", clause)
        line = one(plan_of(place, "--direct", "--protect", place.ws + "/src"), "filesystem.protect", place.ws + "/src")
        check("guard" in line["mechanism"], str(line))


# ---- messages that name the cause ------------------------------------------------------------------------------------

BECOME = "import os, sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1]); import bare; bare.become(sys.argv[2], sys.argv[3:])"


def on(kind, place, *args):
    """atoll on a host that refuses something: see bare.py."""
    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    return Running(place, [PYTHON, "-c", BECOME, where, kind, ATOLL, *args], starts=False).wait()


@test("PLAN-08 where mount(2) is refused no message says that there are no user namespaces")
def _():
    need_layers()
    with Place() as place:
        for args in (("run", "--direct", "--", "true"), ("run", "--mode", "layer", "--", "true"), ("create",)):
            result = on("apparmor", place, *args)
            same(result.status, HOST_CANNOT, result.err)
            check("grants no user namespaces" not in result.err and "refuses mount(2)" in result.err, result.err)
            result = on("container", place, *args)
            same(result.status, HOST_CANNOT, result.err)
            check("grants no user namespaces" in result.err and "refuses mount(2)" not in result.err, result.err)
        found = on("apparmor", place, "doctor").out
        check(not re.search("MISSING  user namespaces", found) and "that allow mount" in found, found)


@test("PLAN-09 with few descriptors the message names the limit and how to raise it")
def _():
    with Place() as place:
        for most in (8, 12, 16, 20, 24, 28, 32, 35):
            argv = ["sh", "-c", 'ulimit -n "$1"; shift; exec "$@"', "sh", str(most), ATOLL, "run", *mode_flags([]), *bare.flags([]), "--", "true"]
            result = Running(place, argv, starts=False).wait()
            same(result.status, HOST_CANNOT, "%d descriptors: %s" % (most, result.err))
            check("RLIMIT_NOFILE" in result.err and "ulimit -n 1024" in result.err and " %d " % most in result.err, result.err)


main()
