# SPDX-License-Identifier: Apache-2.0
# check: seconds 84
# check: not sanitized
# check: on disk as user
# check: timeout 1500
"""
Random operations in a layer and on a plain copy of the workspace: what comes of them is the same

The operations are those of tree/ops.c: chosen and done inside, then done again on the copy. After every apply, undo, discard,
rollback and fork both trees are compared: names, kinds, modes, content, links, extended attributes, and the times of files.

    ATOLL_SEED=N        repeats what a failure says; the seed is always the same unless ATOLL_LONG is set
    ATOLL_HALF=1        every second world: root has the odd ones, a user the others
    ATOLL_LONG=1        twenty times as much; another number: so many times
    ATOLL_SHRINK=1      look for the smallest case of a failure
"""

import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lib
from lib import *
from trees import Tools, check_same, decode, differences, encode, entry_differences

SEED = int(os.environ.get("ATOLL_SEED") or (random.SystemRandom().randrange(10**9) if os.environ.get("ATOLL_LONG") else 303))
LONG = os.environ.get("ATOLL_LONG")
TIMES = {"": 1, "0": 1, "1": 20}.get(LONG or "", int(LONG or 0))
SIZES = [1, 1, 2, 3, 5, 8, 20, 60, 200, 600, 2500, 5000]  # operations of one run
lib.TEST_SECONDS *= max(TIMES, 2)
SEPARATOR = "-- the tree --\n"
# Operations, then what the tree looks like to the one who did them.
INSIDE_SCRIPT = '"$1" make "$3" "$4"; echo "%s"; exec "$2" .' % SEPARATOR.strip()
REDO_SCRIPT = '"$1" redo; echo "%s"; exec "$2" .' % SEPARATOR.strip()
done_operations = [0]


class World:
    """A workspace, and its twin that no sandbox ever saw."""

    def __init__(self, place, name):
        self.place, self.tools = place, Tools(place)
        self.rng = random.Random("%d %s" % (SEED, name))
        self.twin, self.saved = os.path.join(place.base, "twin"), os.path.join(place.base, "saved")
        self.env = {"XDG_STATE_HOME": os.path.join(place.base, "state")}
        os.mkdir(self.env["XDG_STATE_HOME"], 0o700)
        self.flags = ["--read", self.tools.where]
        place.expect("*")
        self.tools.make(place.ws, self.rng.randrange(10**9), 500)
        self.tools.copy(place.ws, self.twin)
        self.before = self.tree(place.ws)
        check_same(self.before, self.tree(self.twin), "the copy before anything", times="all")

    def tree(self, where):
        return self.tools.tree(where)

    def atoll(self, *args, fails=False, **options):
        if hasattr(self, "log"):
            self.log.append(" ".join(map(str, args[:3])))
        result = atoll(self.place, *args, env=self.env, **options)
        check(fails or result.status == 0, "atoll %s: status %d: %s" % (" ".join(map(str, args)), result.status, result.err.strip()[:400]))
        return result

    def changes(self, *ident):
        return json.loads(self.atoll("diff", *ident, "--json").raw_out.decode("utf-8", "surrogateescape"))["changes"]

    def apply_all(self, *ident):
        """Also what is marked, such as pipes: it has to be named. Returns how many there were."""
        marked = ["./" + change["path"] for change in self.changes(*ident) if change.get("mark")]
        self.atoll("apply", *ident, *(["--", ".", *marked] if marked else []))
        return len(marked)

    def replace(self, target, source):
        """A copy takes the place of another tree."""
        self.tools.remove(target)
        self.tools.copy(source, target)

    def save(self):
        self.replace(self.saved, self.twin)

    def keep(self, name, data):
        """For whoever looks into a failure, if he says where."""
        if os.environ.get("ATOLL_KEEP"):
            write(os.path.join(os.environ["ATOLL_KEEP"], name), data)

    def finish(self):
        pass

    def clear(self):
        """Nothing of it goes on, also after a failure."""
        for item in json.loads(self.atoll("ls", "--json").out):
            if item["kind"] == "sandbox":
                self.atoll("rm", item["id"], fails=True)

    def forget(self):
        """The twin is again what it was."""
        self.replace(self.twin, self.saved)

    def work(self, lines=None):
        """What to run inside: (command, its input)."""
        if lines is not None:
            return inside_sh(REDO_SCRIPT, self.tools.ops, self.tools.list), lines
        count = self.rng.choice(SIZES)
        return inside_sh(INSIDE_SCRIPT, self.tools.ops, self.tools.list, self.rng.randrange(10**9), count), None

    def heard(self, result):
        """(operations, the tree as it was inside); the twin has gone through them as well."""
        same(result.status, 0, "status of the operations")
        script, _, listing = result.out.partition(SEPARATOR)
        done_operations[0] += script.count("\n")
        self.script = script.encode()
        self.tools.play(self.script, self.twin)
        return self.tools.parse(listing)


# ---- runs -----------------------------------------------------------------------------------------------------------

class Runs(World):
    """One run after the other on a workspace, and what becomes of each."""

    FATES = ("apply", "apply", "apply", "undo", "again", "discard", "auto", "pieces", "patch", "conflict")

    def once(self, fate, lines=None):
        self.save()
        command, stdin = self.work(lines)
        result = run(self.place, ["--mode", "layer", "--apply=%s" % ("auto" if fate == "auto" else "never"), *self.flags], command,
                     env=self.env, stdin=stdin)
        inside = self.heard(result)
        wanted = self.tree(self.twin)
        # Which names are one file an overlay does not always say; the twin does, and the host afterwards.
        check_same(inside, wanted, "inside and the copy", links=False)
        self.inside, self.wanted = inside, wanted
        if not differences(self.before, inside, times="all", links=False):
            return  # then there is no record to talk of
        if fate != "auto":
            check_same(self.tree(self.place.ws), self.before, "the host's before apply", times="every", owner=True)
            self.check_diff()
        getattr(self, fate)()
        self.before = self.tree(self.place.ws)

    def changed(self):
        """What `atoll diff` has to name, by looking at both trees: {path: "added", "deleted", or the parts that changed}"""
        found = {}
        for path in set(self.before) | set(self.inside):
            old, new = self.before.get(path), self.inside.get(path)
            if old is None or new is None:
                found[path] = "added" if old is None else "deleted"
                continue
            words = entry_differences(old, new, times="none", owner=False, links=False)
            parts = {{"kind": "type", "size": "content"}.get(word.split()[0], word.split()[0]) for word in words}
            if parts:
                found[path] = " ".join(sorted(parts))
        return found

    def said(self):
        """What it does name, in the same words; a renamed one is a deleted and an added one."""
        found = {}
        for change in self.changes():
            path, parts = encode(change["path"]), set(change["parts"]) - {"time"}
            if change["kind"] == "renamed":
                if encode(change["from"]) not in self.inside:
                    found[encode(change["from"])] = "deleted"
                if path not in self.before:
                    found[path] = "added"
                    continue
                parts = self.changed().get(path, "").split()
            found[path] = change["kind"] if change["kind"] in ("added", "deleted") else " ".join(sorted(parts))
        return {path: how for path, how in found.items() if how}

    def check_diff(self):
        trees = (self.before, self.inside)
        if any(entry.is_closed or "?" in entry.content + entry.xattrs for tree in trees for entry in tree.values()):
            return  # not everything can be seen from here
        mine, theirs = self.changed(), self.said()
        wrong = ["%s: %s, diff says %s" % (path, mine.get(path, "the same"), theirs.get(path, "nothing"))
                 for path in sorted(set(mine) | set(theirs)) if mine.get(path) != theirs.get(path)]
        check(not wrong, "diff: %d of %d: %s" % (len(wrong), len(mine), "; ".join(wrong[:6])))

    def check_applied(self, what="after apply", links=True):
        now = self.tree(self.place.ws)
        check_same(now, self.wanted, what, owner=True, links=False)
        self.check_links(now, what, links)
        check_same(now, self.inside, what + ", against inside", times="all", links=False)
        for path, entry in self.inside.items():
            if entry.kind == "f" and entry.size > 1 << 20 and entry.blocks * 512 < entry.size // 4:
                check(now[path].blocks * 512 < entry.size // 2, "%s: its holes are filled" % path)

    def check_links(self, now, what, is_strict):
        """Names of one file that the run made are that on the host, too; but for a new name of a file of the host's that is otherwise
        as it was: that becomes a file of its own."""
        apart = [path for path in self.wanted if path in now and now[path].first != self.wanted[path].first]
        for path in apart:
            group = [other for other, entry in self.wanted.items() if entry.first == self.wanted[path].first]
            check(not is_strict or any(other in self.before and other in self.inside and not entry_differences(
                self.before[other], self.inside[other], times="all", owner=False, links=False) for other in group),
                "%s: %s is the same file as %s, and should be the same as %s" % (what, path, now[path].first, self.wanted[path].first))
        if apart:
            self.replace(self.twin, self.place.ws)

    def check_untouched(self, what):
        check_same(self.tree(self.place.ws), self.before, what, times="all", owner=True)

    # ---- fates

    def apply(self):
        self.apply_all()
        self.check_applied()

    def auto(self):
        # Names of one file that are applied apart become two files.
        held = self.apply_all()
        self.check_applied("after --apply=auto", links=not held)

    def undo(self):
        """Returns whether the host's is all as it was. A file of which apply replaced one name of several comes back as two."""
        self.apply()
        self.atoll("undo")
        now = self.tree(self.place.ws)
        check_same(now, self.before, "after undo", times="all", owner=True, links=False)
        is_all = not differences(now, self.before, times="none")
        if is_all:
            self.forget()
        else:
            self.replace(self.twin, self.place.ws)
        return is_all

    def again(self):
        if not self.undo():
            return
        self.apply_all()
        self.tools.play(self.script, self.twin)
        self.check_applied("after undo and another apply")

    def discard(self):
        self.atoll("discard")
        self.check_untouched("after discard")
        self.forget()

    def pieces(self):
        """One path after the other, then the rest. Not where the host has files with several names: taking one of them is a change
        to the others, which the next apply takes for the host's."""
        if any(entry.first != path for path, entry in self.before.items()):
            return self.apply()
        names = sorted({path.split("/")[0] for path in self.changed()})
        self.rng.shuffle(names)
        for name in names[:3]:
            # A renamed one, or another name of a file elsewhere, may need the other place: then the rest does it.
            self.atoll("apply", "--", "./" + decode(name), fails=True)
        self.apply_all()
        self.check_applied("after apply in pieces", links=False)

    def patch(self):
        """Regular files, links and the executable bit, as far as git knows them."""
        patch = self.atoll("export", "--format", "patch").raw_out
        self.discard()
        where = os.path.join(self.place.base, "patched")
        if all(is_plain(tree) for tree in (self.before, self.wanted)) and b"diff --git" in patch:
            self.tools.copy(self.twin, where)
            remove_what_git_lacks(where)
            done = git(where, "apply", "--whitespace=nowarn", write(os.path.join(self.place.tmp, "patch"), patch))
            self.check_patched(where, done, patch)
            self.tools.remove(where)

    def check_patched(self, where, done, patch):
        if done.returncode != 0:
            self.keep("failed.patch", patch)
        same(done.returncode, 0, "git apply: %s" % done.stdout[:400])
        now, wrong = self.tree(where), []
        for path in set(now) | set(self.wanted):
            a, b = now.get(path), self.wanted.get(path)
            kinds = {entry.kind for entry in (a, b) if entry} & set("fl")
            if kinds and (not a or not b or a.kind != b.kind or a.content != b.content or a.size != b.size or
                          a.kind == "f" and (a.mode ^ b.mode) & 0o100):
                wrong.append("%s: %s/%s" % (path, a and (a.kind, oct(a.mode), a.content), b and (b.kind, oct(b.mode), b.content)))
        check(not wrong, "after git apply: %s" % "; ".join(wrong[:5]))

    def conflict(self):
        """What the host has changed meanwhile is not overwritten, nor anything else."""
        paths = sorted(path for path, how in self.changed().items() if how != "added" and self.before[path].kind == "f" and
                       self.before[path].mode & 0o600 == 0o600)
        path = decode(self.rng.choice(paths)) if paths else None
        if path is None:
            return self.discard()
        append(os.path.join(self.place.ws, path), b"by the host\n")
        self.before = self.tree(self.place.ws)
        result = self.atoll("apply", fails=True)
        same(result.status, POLICY, "status of an apply over the host's change to %r" % path)
        self.check_untouched("after a conflict")
        self.discard()
        append(os.path.join(self.twin, path), b"by the host\n")


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def is_plain(tree):
    """Can git read all of it?"""
    return not any(entry.is_closed or entry.content == "?" or entry.kind == "d" and entry.mode & 0o700 != 0o700 or
                   entry.kind == "f" and entry.mode & 0o600 != 0o600 for entry in tree.values())


def remove_what_git_lacks(top):
    """Pipes, sockets, and directories without anything: they would be in a patch's way, which cannot know of them."""
    for where, directories, files in os.walk(top, topdown=False):
        for name in directories + files:
            path = os.path.join(where, name)
            kind = stat.S_IFMT(os.lstat(path).st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                os.unlink(path)
            elif kind == stat.S_IFDIR and not os.listdir(path):
                os.rmdir(path)


# ---- sandboxes ------------------------------------------------------------------------------------------------------

class Box:
    """One sandbox, its twin, and a copy of the twin for each checkpoint."""

    def __init__(self, world, ident, source):
        self.id, self.states = ident, {}
        world.n_boxes += 1
        self.twin = os.path.join(world.place.base, "twin-%d" % world.n_boxes)
        world.tools.copy(source, self.twin)


class Sandboxes(World):
    """Steps: checkpoints that are returned to and branched from. The host's own files stay what they are until the end."""

    FATES = ("step",) * 5 + ("checkpoint",) * 3 + ("rollback",) * 3 + ("fork",) * 2 + ("fork_earlier", "background", "remove", "unnamed")

    def __init__(self, place, name):
        super().__init__(place, name)
        self.n_boxes = self.n_names = 0
        self.log = []  # what was done, for whoever looks into a failure
        out = self.atoll("create", *self.flags).out.split()
        same(len(out), 1, "ids that create says")
        self.boxes = [Box(self, out[0], self.twin)]

    def once(self, fate, lines=None):
        self.box = self.rng.choice(self.boxes)
        self.log.append("%s %s" % (fate, self.box.id))
        self.twin = self.box.twin
        getattr(self, fate)(*([] if lines is None else [lines]))
        check_same(self.tree(self.place.ws), self.before, "the host's meanwhile", times="every", owner=True)

    def look(self, what):
        """Inside it is as on the copy."""
        result = self.atoll("exec", self.box.id, "--", self.tools.list, ".")
        check_same(self.tools.parse(result.out), self.tree(self.twin), what, links=False)

    def step(self, lines=None):
        command, stdin = self.work(lines)
        result = self.atoll("exec", self.box.id, "--", *command, stdin=stdin)
        check_same(self.heard(result), self.tree(self.twin), "inside and the copy", links=False)

    def background(self):
        """Something that goes on: a checkpoint has to hold it meanwhile."""
        self.atoll("exec", self.box.id, "--", "/bin/sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &")
        self.step()
        self.checkpoint()

    def keep_state(self, name):
        self.n_names += 1
        copy = os.path.join(self.place.base, "state-%d" % self.n_names)
        self.tools.copy(self.twin, copy)
        self.box.states[name] = copy

    def checkpoint(self):
        name = "c%d" % self.n_names
        self.atoll("checkpoint", self.box.id, name)
        self.keep_state(name)
        if self.rng.randrange(3) == 0:
            self.look("after a checkpoint")

    def unnamed(self):
        name = self.atoll("checkpoint", self.box.id).out.strip()
        check(name and name not in self.box.states, "a checkpoint without a name is called %r" % name)
        self.keep_state(name)

    def rollback(self):
        if not self.box.states:
            return self.checkpoint()
        name = self.rng.choice(sorted(self.box.states))
        self.atoll("rollback", self.box.id, name)
        self.replace(self.twin, self.box.states[name])
        self.look("after rollback to %s" % name)
        known = {item["name"] for item in json.loads(self.atoll("history", self.box.id, "--json").out)}
        check(name in known, "%s is not in the history: %s" % (name, known))
        for gone in set(self.box.states) - known:
            self.tools.remove(self.box.states.pop(gone))

    def fork(self, name=None, source=None):
        count = self.rng.choice((1, 1, 2))
        ids = self.atoll("fork", self.box.id, *([name] if name else []), "--count", count).out.split()
        same(len(set(ids)), count, "ids that fork says")
        for ident in ids:
            self.boxes.append(Box(self, ident, source or self.twin))
        self.look("what was forked from")
        self.box = self.boxes[-1]
        self.twin = self.box.twin
        self.look("a fork")
        while len(self.boxes) > 5:
            self.end(self.boxes[self.rng.randrange(len(self.boxes))])

    def fork_earlier(self):
        if not self.box.states:
            return self.fork()
        name = self.rng.choice(sorted(self.box.states))
        self.fork(name, self.box.states[name])

    def end(self, box):
        self.atoll("rm", box.id)
        self.boxes.remove(box)
        for path in (box.twin, *box.states.values()):
            self.tools.remove(path)

    def remove(self):
        """What is left must not need what goes."""
        if len(self.boxes) > 1:
            self.end(self.box)
        self.box = self.rng.choice(self.boxes)
        self.twin = self.box.twin
        self.look("when another is gone")

    def finish(self):
        """One is applied, taken back, and applied again. Then nothing of any is left in the store."""
        box = self.rng.choice(self.boxes)
        wanted = self.tree(box.twin)
        if differences(self.before, wanted, times="set", links=False):
            self.apply_all(box.id)
            check_same(self.tree(self.place.ws), wanted, "after apply of a sandbox", owner=True, links=False)
            self.atoll("undo", box.id)
            check_same(self.tree(self.place.ws), self.before, "after undo of a sandbox", times="all", owner=True, links=False)
            self.apply_all(box.id)
            check_same(self.tree(self.place.ws), wanted, "after another apply of a sandbox", owner=True, links=False)
        for box in list(self.boxes):
            self.end(box)
        check_store_empty(self.env["XDG_STATE_HOME"])


def check_store_empty(state):
    left = [os.path.join(where, name) for where in ("records", "layers") if os.path.isdir(os.path.join(state, "atoll", where))
            for name in os.listdir(os.path.join(state, "atoll", where))]
    check(not left, "left in the store: %s" % left[:5])


# ---- going through it -----------------------------------------------------------------------------------------------

def smallest(world, fate, script):
    """Leave out operations as long as the same fate still fails; prints what is left."""
    start = os.path.join(world.place.base, "start")
    world.tools.copy(world.saved, start)

    def fails(lines):
        world.tools.remove(world.env["XDG_STATE_HOME"])
        os.mkdir(world.env["XDG_STATE_HOME"], 0o700)
        world.replace(world.place.ws, start)
        world.replace(world.twin, start)
        world.before = world.tree(world.place.ws)
        try:
            world.once(fate, b"".join(lines))
        except Failed as failure:
            return str(failure)
        return None

    lines, step = script.splitlines(True), len(script.splitlines()) // 2 or 1
    why = fails(lines)
    while why and step:
        at = 0
        while at < len(lines):
            rest = lines[:at] + lines[at + step:]
            said = fails(rest) if rest else None
            if said:
                lines, why = rest, said
            else:
                at += step
        step //= 2
    named = sorted(path for path in world.before if any(path in line.decode() for line in lines))
    print("# smallest: %s\n# on %s\n# %s" % (why, [(p, world.before[p].kind, oct(world.before[p].mode)) for p in named][:12],
                                             "# ".join(line.decode() for line in lines)))


def rounds_of(world, rounds):
    for number in range(rounds * TIMES):
        fate = world.rng.choice(world.FATES)
        world.script = b""
        try:
            world.once(fate)
        except Failed as failure:
            script = world.script
            if os.environ.get("ATOLL_SHRINK") and script:
                smallest(world, fate, script)
            raise Failed("ATOLL_SEED=%d, round %d (%s, %d operations): %s; %s" % (SEED, number, fate, script.count(b"\n"), failure,
                                                                               getattr(world, "log", "")))


def go(kind, name, rounds):
    with Place(repository=False) as place:
        world = kind(place, name)
        try:
            rounds_of(world, rounds)
            world.finish()
        finally:
            world.clear()
        print("# %d operations so far" % done_operations[0])


def is_ours(number):
    """The seed is the same for everybody: where root and a user both take part, each has every second world."""
    return LONG or not os.environ.get("ATOLL_HALF") or number % 2 == IS_ROOT


for number in filter(is_ours, range(4)):
    test("runs and their fates, world %d" % number)(lambda n=number: go(Runs, "runs %d" % n, 10))
for number in filter(is_ours, range(3)):
    test("sandboxes, their checkpoints and forks, world %d" % number)(lambda n=number: go(Sandboxes, "sandboxes %d" % n, 16))

print("# seed %d" % SEED)
main()
