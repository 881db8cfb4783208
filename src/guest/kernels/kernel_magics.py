# SPDX-License-Identifier: Apache-2.0
"""
What notebooks may contain besides Python: "!command", "%magic", "%%magic"; and how they show an error

Modules are loaded where they are needed: a kernel that runs a line of Python should not wait for them.

Only what is not Python as it stands is looked at: a line that begins with "!" or "%" where a statement could begin
becomes a call, everything else stays, and lines keep their numbers.
"""

import io
import os
import re
import sys
import time

FRAMES_MAX = 40
ASSIGNED = re.compile(r"^(\s*)([A-Za-z_][\w.,\[\] '\"]*?\s*=\s*)([!%])(?![=%])(.*)$")


class UsageError(Exception):
    pass


def is_python(code):
    try:
        compile(code, "<cell>", "exec", 0x2000, True)  # PyCF_ALLOW_TOP_LEVEL_AWAIT
        return True
    except (SyntaxError, ValueError):
        return False


def is_open(text):
    """Does it end inside of brackets, or of a string?"""
    import tokenize
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError:
        return True
    except (SyntaxError, IndentationError):
        pass
    return False


def transform(code):
    if code.startswith("%%"):
        head, _, body = code.partition("\n")
        name, _, line = head[2:].partition(" ")
        return f"get_ipython().run_cell_magic({name.strip()!r}, {line.strip()!r}, {body!r})"
    if ("!" not in code and "%" not in code and "?" not in code) or is_python(code):
        return code
    lines, done, skip = code.split("\n"), [], 0
    for i, line in enumerate(lines):
        if skip:
            skip -= 1
            done.append("")
            continue
        text = line.lstrip(" \t")
        assigned = ASSIGNED.match(line)
        if not (text.startswith(("!", "%")) or assigned) or (done and is_open("\n".join(done) + "\n")):
            done.append(line)
            continue
        whole = line
        while whole.endswith("\\") and i + skip + 1 < len(lines):
            skip += 1
            whole = whole[:-1] + lines[i + skip]
        done.append(call_for(whole))
    return "\n".join(done)


def call_for(line):
    assigned = ASSIGNED.match(line)
    if assigned:
        indent, target, kind, rest = assigned.groups()
        call = "getoutput" if kind == "!" else None
        return indent + target + (f"get_ipython().{call}({rest!r})" if call else magic_call(rest))
    text = line.lstrip(" \t")
    indent = line[:len(line) - len(text)]
    if text.startswith("!!"):
        return indent + f"get_ipython().getoutput({text[2:]!r})"
    if text.startswith("!"):
        return indent + f"get_ipython().system({text[1:]!r})"
    return indent + magic_call(text[1:])


def magic_call(rest):
    name, _, line = rest.partition(" ")
    return f"get_ipython().run_line_magic({name!r}, {line.strip()!r})"


class Magics:
    def __init__(self, shell):
        self.shell = shell

    # ---- commands ----

    def expanded(self, text):
        """"$name" and "{expression}" of the namespace; what is none stays, for the shell."""
        names = self.shell.user_ns

        def braces(match):
            try:
                return str(eval(match.group(1), names))
            except Exception:
                return match.group(0)

        def dollar(match):
            return str(names[match.group(1)]) if match.group(1) in names else match.group(0)

        text = re.sub(r"(?<!\$)\{([^{}]+)\}", braces, text)
        return re.sub(r"(?<!\$)\$([A-Za-z_]\w*)", dollar, text).replace("$$", "$")

    def system(self, command):
        import subprocess
        done = subprocess.run(["bash", "-c", self.expanded(command)], stderr=subprocess.STDOUT)
        self.shell.user_ns["_exit_code"] = done.returncode

    def getoutput(self, command):
        import subprocess
        done = subprocess.run(["bash", "-c", self.expanded(command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.shell.user_ns["_exit_code"] = done.returncode
        return done.stdout.decode("utf-8", "replace").splitlines()

    # ---- %magic ----

    def line(self, name, line):
        known = getattr(self, "line_" + name, None)
        if known is None:
            raise UsageError(f"Line magic function `%{name}` not found.")
        return known(line)

    def cell(self, name, line, cell):
        known = getattr(self, "cell_" + {"!": "bash", "file": "writefile"}.get(name, name), None)
        if known is None:
            raise UsageError(f"Cell magic `%%{name}` not found.")
        return known(line, cell)

    def line_cd(self, line):
        path = os.path.expanduser(self.expanded(line.strip().strip("'\"")) or "~")
        os.chdir(path)
        print(os.getcwd())

    def line_pwd(self, _):
        return os.getcwd()

    def line_pip(self, line):
        import shlex
        self.system(f"{shlex.quote(sys.executable)} -m pip {line}")

    def line_env(self, line):
        name, sep, value = line.partition("=")
        if not line.strip():
            return dict(os.environ)
        if not sep:
            name, _, value = line.strip().partition(" ")
            if not value:
                return os.environ.get(name)
        os.environ[name.strip()] = self.expanded(value.strip())
        print(f"env: {name.strip()}={os.environ[name.strip()]}")

    line_set_env = line_env

    def line_ls(self, line):
        self.system("ls " + line)

    def line_cat(self, line):
        self.system("cat " + line)

    def line_mkdir(self, line):
        self.system("mkdir " + line)

    def line_sx(self, line):
        return self.getoutput(line)

    def line_run(self, line):
        import shlex
        words = shlex.split(self.expanded(line))
        if not words:
            raise UsageError("%run: a file is missing")
        with open(words[0], encoding="utf-8") as file:
            code = compile(file.read(), words[0], "exec")
        before, sys.argv = sys.argv, words
        try:
            exec(code, self.shell.user_ns)
        finally:
            sys.argv = before

    def line_time(self, line):
        start, cpu = time.perf_counter(), time.process_time()
        try:
            return self.shell.run_code(compile(line, "<timed>", "eval", 0x2000, True))
        except SyntaxError:
            self.shell.run_code(compile(line, "<timed>", "exec", 0x2000, True))
        finally:
            print(f"CPU times: {time.process_time() - cpu:.3g} s\nWall time: {time.perf_counter() - start:.3g} s")

    def line_timeit(self, line):
        import timeit
        timer = timeit.Timer(line, globals=self.shell.user_ns)
        number, _ = timer.autorange()
        best = min(timer.repeat(3, number)) / number
        print(f"{best:.3g} s per loop (best of 3, {number} loops each)")

    def line_who(self, _):
        hidden = {"In", "Out", "display", "get_ipython", "exit", "quit"}
        print("\t".join(sorted(n for n in self.shell.user_ns if not n.startswith("_") and n not in hidden)))

    def line_matplotlib(self, _):
        pass  # figures are always shown with the cell

    line_load_ext = line_autoreload = line_config = line_reload_ext = line_matplotlib

    # ---- %%magic ----

    def cell_bash(self, _, cell):
        import subprocess
        done = subprocess.run(["bash", "-c", cell])
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, "bash")

    cell_sh = cell_bash

    def cell_time(self, line, cell):
        start, cpu = time.perf_counter(), time.process_time()
        try:
            self.shell.run_cell(cell, f"Cell In[{self.shell.count}]")
        finally:
            print(f"CPU times: {time.process_time() - cpu:.3g} s\nWall time: {time.perf_counter() - start:.3g} s")

    def cell_capture(self, line, cell):
        import contextlib
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.shell.run_cell(cell, f"Cell In[{self.shell.count}]")
        if line.strip():
            self.shell.user_ns[line.split()[0]] = type("Captured", (), {"stdout": out.getvalue(), "stderr": err.getvalue()})()

    def cell_writefile(self, line, cell):
        import shlex
        words = shlex.split(line)
        is_more = "-a" in words
        path = os.path.expanduser([w for w in words if w != "-a"][0])
        verb = "Appending to" if is_more else "Overwriting" if os.path.exists(path) else "Writing"
        with open(path, "a" if is_more else "w", encoding="utf-8") as file:
            file.write(cell)
        print(verb, path)

    def published(self, mime, cell):
        self.shell.publish({mime: cell})

    def cell_html(self, _, cell):
        self.published("text/html", cell)

    def cell_markdown(self, _, cell):
        self.published("text/markdown", cell)

    def cell_latex(self, _, cell):
        self.published("text/latex", cell)

    def cell_svg(self, _, cell):
        self.published("image/svg+xml", cell)

    def cell_javascript(self, _, cell):
        self.published("application/javascript", cell)

    cell_js = cell_javascript


# ---- errors ----

def traceback_text(error, name, value):
    """As a notebook shows it: the frames of the code, with the lines around the one that failed."""
    import traceback
    if isinstance(error, SyntaxError) and (error.filename or "").startswith("Cell In["):
        return "".join(traceback.format_exception_only(type(error), error))
    text = "-" * 75 + f"\n{name}{'Traceback (most recent call last)':>{max(75 - len(name), 34)}}\n"
    chain, seen = [], set()
    at = error
    while at is not None and id(at) not in seen and len(chain) < 5:
        seen.add(id(at))
        chain.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    parts = []
    for one in reversed(chain):
        shown = "".join(frames(one)) + "".join(traceback.format_exception_only(type(one), one))
        parts.append(shown)
    joint = "\nDuring handling of the above exception, another exception occurred:\n\n"
    if error.__cause__ is not None:
        joint = "\nThe above exception was the direct cause of the following exception:\n\n"
    return text + joint.join(parts)


def frames(error):
    import traceback
    here = os.path.dirname(os.path.abspath(__file__))
    stack = [frame for frame in traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=True)
             if os.path.dirname(frame.filename) != here]
    if len(stack) > FRAMES_MAX:
        yield from map(framed, stack[:FRAMES_MAX // 2])
        yield f"    ... {len(stack) - FRAMES_MAX} frames left out ...\n\n"
        stack = stack[-FRAMES_MAX // 2:]
    yield from map(framed, stack)


def framed(frame):
    import linecache
    lines = linecache.getlines(frame.filename)
    is_cell = frame.filename.startswith("Cell In[")
    where = f"{frame.filename}, line {frame.lineno}" if is_cell else f"File {frame.filename}:{frame.lineno}, in {frame.name}"
    if is_cell and frame.name != "<module>":
        where += f", in {frame.name}"
    text = where + "\n"
    for number in range(max(1, frame.lineno - 2), min(len(lines), frame.lineno + 2) + 1):
        mark = f"----> {number} " if number == frame.lineno else f"{number:7} "
        text += (mark + lines[number - 1].rstrip("\n"))[:500] + "\n"
    return text + "\n"
