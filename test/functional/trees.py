# SPDX-License-Identifier: Apache-2.0
"""
Trees that are worked on twice, for tests of layers: in a layer, and on a plain copy

    tools = Tools(place)                 compiles test/functional/tree
    tools.tree("/path")                  {path: Entry}, from the host's side
    tools.parse(text)                    the same from what `list` said inside
    differences(one, other, ...)         lines about what is not the same; empty if nothing
    tools.copy(a, b), tools.remove(a)    also of what is closed to its owner
    tools.play(script, where)            the operations that `ops make` printed, done again here

Paths are bytes as text with %xx, as `list` writes them.
"""

import os
import re
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import HOST_PATH, RUN_SECONDS, Failed, check, need

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree")
LONG_AGO = 1500000000 * 10**9  # operations set times before this; what is later is the time of a write


def decode(path):
    """A path's bytes as os.fsdecode() gives them."""
    return os.fsdecode(urllib.parse.unquote_to_bytes(path))


def encode(path):
    """As `list` writes a path; from a str with surrogates, or from bytes."""
    return "".join(chr(b) if re.match(r"[A-Za-z0-9/._-]", chr(b)) else "%%%02x" % b for b in os.fsencode(path))


class Entry:
    """One line of `list`."""

    def __init__(self, words):
        self.kind, self.mode, self.size, self.mtime = words[1], int(words[2], 8), int(words[3]), int(words[4])
        self.owner, self.blocks, self.first = (int(words[5]), int(words[6])), int(words[7]), words[8][1:]
        self.content, self.xattrs = words[9], words[10]
        self.is_closed = False  # a directory that could not be read


class Tools:
    def __init__(self, place):
        need("gcc")
        self.place = place
        self.where = os.path.join(place.base, "tools")
        os.mkdir(self.where)
        self.ops, self.list = self._build("ops", "ops", "copy", "perform"), self._build("list", "list", "copy")

    def _build(self, name, *sources):
        path = os.path.join(self.where, name)
        done = subprocess.run(["gcc", "-O2", "-w", "-D_GNU_SOURCE", "-o", path, *("%s/%s.c" % (SOURCES, source) for source in sources)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": HOST_PATH, "TMPDIR": self.place.tmp})
        check(done.returncode == 0, "cannot compile: %s" % done.stdout)
        return path

    def _do(self, *argv, cwd=None, stdin=b""):
        return subprocess.run(argv, cwd=cwd, input=stdin, capture_output=True, timeout=RUN_SECONDS)

    def make(self, where, seed, count):
        """Random operations on a directory of the host's: what there is in the beginning."""
        check(self._do(self.ops, "make", str(seed), str(count), cwd=where).returncode == 0, "no operations")

    def tree(self, where):
        done = self._do(self.list, where)
        check(done.returncode == 0, "cannot list %s" % where)
        return self.parse(done.stdout.decode())

    def parse(self, text):
        found = {}
        for line in text.splitlines():
            words = line.split(" ")
            path = words[0][1:]
            if words[1] == "closed":
                found[path].is_closed = True
            else:
                check(words[1] != "error", "cannot look at %s: %s" % (path, line))
                found[path] = Entry(words)
        return found

    def copy(self, source, target):
        done = self._do(self.ops, "copy", source, target)
        check(done.returncode == 0, "cannot copy: %s" % done.stderr.decode())

    def remove(self, path):
        if os.path.lexists(path):
            check(self._do(self.ops, "remove", path).returncode == 0, "cannot remove %s" % path)

    def play(self, script, where):
        done = self._do(self.ops, "play", cwd=where, stdin=script)
        if done.returncode != 0:
            raise Failed("an operation ends otherwise here than in the layer: %s %s" % (done.stderr.decode(), done.stdout.decode()))


def without_closed(one, other):
    """The paths of both, but for what lies in a directory that could be read in only one of them."""
    closed = {path + "/" for tree in (one, other) for path, entry in tree.items() if entry.is_closed}
    if not closed:
        return set(one) | set(other)

    def is_known(path):
        parts = path.split("/")
        return not any("/".join(parts[:i]) + "/" in closed for i in range(1, len(parts)))
    return {path for path in set(one) | set(other) if is_known(path)}


def entry_differences(a, b, times, owner, links):
    """What is not the same of two entries, as words."""
    if a.kind != b.kind:
        return ["kind %s/%s" % (a.kind, b.kind)]
    wrong = []
    if a.mode != b.mode and a.kind != "l":
        wrong.append("mode %o/%o" % (a.mode, b.mode))
    if a.size != b.size:
        wrong.append("size %d/%d" % (a.size, b.size))
    if a.content != b.content and "?" not in (a.content, b.content):
        wrong.append("content %s/%s" % (a.content, b.content))
    if a.xattrs != b.xattrs and "?" not in a.content + b.content + a.xattrs + b.xattrs:
        wrong.append("xattrs %.60s/%.60s" % (a.xattrs, b.xattrs))
    if links and a.first != b.first:
        wrong.append("same file as %s/%s" % (a.first, b.first))
    if owner and a.owner != b.owner:
        wrong.append("owner %s/%s" % (a.owner, b.owner))
    if a.mtime != b.mtime and a.kind == "f" and (times == "all" or times == "set" and min(a.mtime, b.mtime) < LONG_AGO):
        wrong.append("mtime %d/%d" % (a.mtime, b.mtime))
    if a.mtime != b.mtime and times == "every":
        wrong.append("mtime %d/%d" % (a.mtime, b.mtime))
    return wrong


def differences(one, other, times="set", owner=False, links=True):
    """Lines about what is not the same. times: "set" compares files' mtimes that an operation has set, "all" those of all
    files, "every" also of directories and others."""
    lines = []
    for path in sorted(without_closed(one, other)):
        a, b = one.get(path), other.get(path)
        if a is None or b is None:
            lines.append("%s: only in the %s" % (path, "second" if a is None else "first"))
            continue
        wrong = entry_differences(a, b, times, owner, links)
        if wrong:
            lines.append("%s: %s" % (path, ", ".join(wrong)))
    return lines


def check_same(one, other, what, **options):
    lines = differences(one, other, **options)
    check(not lines, "%s: %d differ: %s" % (what, len(lines), "; ".join(lines[:6])))
