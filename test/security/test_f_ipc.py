# SPDX-License-Identifier: Apache-2.0
# check: seconds 58
# check: bare
"""
Family F of the escape corpus: local IPC (IPC), and more of the same kind (IPC-X)

The host's side of a socket is a Listener here: it counts who comes. "Contained" means that nobody came.

later:
  IPC-08  peer credentials in the log: with the events of a run
  IPC-17  MCP over stdio: with the issue that brings an MCP server
  IPC-16  tokens of a control channel: there is none yet but a socket pair between two processes of atoll; the daemon's comes with it
  IPC-02, IPC-05  a real session bus or display: the host of a test has none; what stands for them is a socket at the places where
          programs look, named by the variables that they use
"""
import os
import pty
import sys
import termios

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

NO_WAY = GONE + ("ECONNREFUSED",)

TALK = r"""
import socket as s, threading
def connect(path, kind=s.SOCK_STREAM, data=b"from inside"):
    with s.socket(s.AF_UNIX, kind) as c:
        c.settimeout(30)
        c.connect(path)
        c.sendall(data)
        return c.recv(100)
"""


class Listener:
    """A service of the host on a unix socket, by path or abstract ("\\0name"): counts connections and datagrams in `came`, answers
    each with `answer`. handle(connection), if given, does something else with it."""

    def __init__(self, address, kind=socket.SOCK_STREAM, answer=b"host here", handle=None):
        self.address, self.kind, self.answer, self.handle, self.came = address, kind, answer, handle, []

    def __enter__(self):
        self.socket = socket.socket(socket.AF_UNIX, self.kind)
        self.socket.bind(self.address)
        if not self.address.startswith("\0"):
            os.chmod(self.address, 0o777)
        if self.kind != socket.SOCK_DGRAM:
            self.socket.listen(128)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def _serve(self):
        while True:
            try:
                if self.kind == socket.SOCK_DGRAM:
                    self.came.append(self.socket.recv(65536))
                    if self.came[-1] == b"stop":
                        return self.came.pop()
                    continue
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.came.append(struct.unpack("iii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))
            with contextlib.suppress(OSError), connection:
                connection.settimeout(PATIENCE)
                if self.handle:
                    self.handle(connection)
                else:
                    connection.recv(4096)
                    connection.sendall(self.answer)

    def __exit__(self, *_):
        if self.kind != socket.SOCK_DGRAM:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        else:  # which would go on with empty ones
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as c, contextlib.suppress(OSError):
                c.sendto(b"stop", self.address)
        self.thread.join(PATIENCE)
        self.socket.close()
        if not self.address.startswith("\0"):
            with contextlib.suppress(OSError):
                os.unlink(self.address)


def settle_workspace(place):
    """As place.settle(), for the workspace alone: a listener's socket in `out` is gone before the place is."""
    before = place.before
    place.settle()
    place.before = before


def talk(address, kind=socket.SOCK_STREAM):
    """The host connects, says something and hears the answer."""
    with socket.socket(socket.AF_UNIX, kind) as c:
        c.settimeout(30)
        c.connect(address)
        c.sendall(b"from the host")
        return c.recv(100)


# ---- the host's sockets ---------------------------------------------------------------------------------------------

@test("IPC-01 container engines: by path, variable, link, and a second name in the workspace")
def _():
    code = TALK + r"""
for path in arg[1:]:
    attempt(path, lambda: connect(path))
print("DOCKER_HOST", os.environ.get("DOCKER_HOST"))
"""
    with Place() as place, Listener(place.out + "/docker.sock") as engine:
        os.symlink(engine.address, place.ws + "/link.sock")
        os.symlink("../out/docker.sock", place.ws + "/relative.sock")
        os.symlink("../out", place.ws + "/dir")
        os.link(engine.address, place.ws + "/copy.sock")  # as a bind mount would show it
        settle_workspace(place)
        ways = [engine.address, "link.sock", "relative.sock", "dir/docker.sock", "copy.sock", place.ws + "/copy.sock", "/proc/self/root" + engine.address,
                "/proc/self/cwd/copy.sock", "/proc/1/root" + engine.address]
        system = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock",
                  "/run/user/%d/podman/podman.sock" % os.getuid(), "/run/snapd.socket", "/run/libvirt/libvirt-sock"]
        env = {"DOCKER_HOST": "unix://" + engine.address}
        for flags in ([], ["--read", place.out], ["--write", place.out]):
            result = run(place, flags, inside_py(code, "", *ways, *system), env=env)
            result.refused(how=NO_WAY)
            check("DOCKER_HOST None" in result.out, "DOCKER_HOST arrives")
        same(result.tries["copy.sock"], "EACCES", "a socket in the workspace")
        check(any("copy.sock" in line and "socket" in line for line in result.refusals), "the refusal is not told: %s" % result.refusals)
        same(engine.came, [], "connections to the engine")
        outside = plain(place, inside_py(code, "", *ways[:7])).tries
        same({outside[way] for way in ways[:6]}, {"ok"}, "the same outside")
        same(len(engine.came), 7, "connections without atoll")
        # Granted by name it works, and the plan says what that means.
        del engine.came[:]
        run(place, ["--socket", engine.address], inside_py(code, "", engine.address)).allowed(engine.address)
        same(len(engine.came), 1, "connections with --socket")
        plan = atoll(place, "run", "--plan", "--socket", engine.address, "--", "true")
        check(engine.address in plan.out and "host's rights" in plan.out, "the plan does not warn: %s" % plan.out)


@test("IPC-01 curl to an engine's socket")
def _():
    need("curl")
    with Place() as place, Listener(place.out + "/docker.sock", answer=b"HTTP/1.0 200 OK\r\n\r\n[]") as engine:
        command = ["curl", "-s", "-m", "30", "--unix-socket", engine.address, "http://d/containers/json"]
        check(run(place, ["--read", place.out], command).status in (7, 2), "curl got through")
        same(engine.came, [], "connections")
        same(plain(place, command).out, "[]", "the answer without atoll")
        same(run(place, ["--socket", engine.address], command).out, "[]", "the answer with --socket")


@test("IPC-02 session and system bus")
def _():
    with Place() as place, Listener(place.out + "/bus") as bus, Listener("\0/tmp/dbus-atoll-" + place.token) as old:
        env = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + bus.address, "XDG_RUNTIME_DIR": place.out, "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=" + bus.address}
        code = TALK + r"""
            import shutil, subprocess
            print("variables", sorted(n for n in os.environ if "DBUS" in n or n == "XDG_RUNTIME_DIR" and os.environ[n].startswith(arg[2])))
            for path in (arg[0], arg[1].replace("@", "\0"), "/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", "/run/user/%d/bus" % os.getuid(), "/run/systemd/private",
                         "/run/systemd/journal/stdout", "/run/systemd/notify", "/run/user/%d/systemd/private" % os.getuid()):
                attempt(path.replace("\0", "@"), lambda: connect(path))
            for tool in (["systemd-run", "--user", "touch", arg[3]], ["busctl", "--user", "list"], ["dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames"],
                         ["gdbus", "call", "--session", "--dest", "org.freedesktop.portal.Desktop", "--object-path", "/", "--method", "x.y"], ["systemctl", "--user", "status"]):
                if shutil.which(tool[0]):
                    done = subprocess.run(tool, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode
                    tell(tool[0], "EACCES" if done else "ok")
            """.replace("\n            ", "\n")
        args = (bus.address, old.address.replace("\0", "@"), place.out, place.mark)
        result = run(place, ["--read", place.out], inside_py(code, *args), env=env)
        result.refused(how=NO_WAY)
        check("variables []" in result.out, "the bus is named: %s" % result.out)
        same(bus.came + old.came, [], "connections to the bus")
        outside = plain(place, inside_py(TALK + 'attempt("bus", lambda: connect(arg[0]))\nattempt("old", lambda: connect(arg[1].replace("@", "\\0")))', *args)).tries
        same((outside["bus"], outside["old"]), ("ok", "ok"), "the bus without atoll")


@test("IPC-04 abstract sockets")
def _():
    code = TALK + r"""
for name in arg:
    attempt(name, lambda: connect(name.replace("@", "\0")))
print("listed", sorted(line.split()[7] for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7))
"""
    with Place() as place, Listener("\0atoll-abs-" + place.token) as one, Listener("\0/tmp/.X11-unix/X" + place.token) as display, \
            Listener("\0containerd-shim-" + place.token, kind=socket.SOCK_SEQPACKET):
        names = [name.replace("\0", "@") for name in (one.address, display.address)]
        result = run(place, [], inside_py(code, *names, "@containerd-shim-" + place.token))
        result.refused(how=("ECONNREFUSED", "EPERM"))
        check("listed []" in result.out, "the host's sockets are listed: %s" % result.out)
        same(one.came + display.came, [], "connections")
        outside = plain(place, inside_py(code, *names))
        same({outside.tries[name] for name in names}, {"ok"}, "the same outside")
        check(one.address[1:] in outside.out, "/proc/net/unix outside does not show it")


@test("IPC-04 abstract sockets inside are the run's own")
def _():
    serve = TALK + r"""
server = s.socket(s.AF_UNIX)
server.bind("\0" + arg[0]); server.listen()
put("up")
server.settimeout(600)
try:
    while True:
        c, _ = server.accept()
        c.recv(100); c.sendall(b"inside here"); tell("came", "ok"); c.close()
except TimeoutError:
    pass
"""
    with Place() as place:
        place.expect("up")
        name = "atoll-own-" + place.token
        running = start(place, [], inside_py(serve, name))
        wait_file(place, "up")
        try:
            talk("\0" + name)
            raise Failed("the host reached an abstract socket of the run")
        except ConnectionRefusedError:
            pass
        run(place, [], inside_py(TALK + 'attempt("other run", lambda: connect("\\0" + arg[0]))', name)).refused(how=("ECONNREFUSED", "EPERM"))
        check(name not in read("/proc/net/unix").decode(), "the host lists it")
        check("came" not in running.kill().tries, "somebody came")
    with Place() as place:  # within the run it works, also without blocking, and the kernel's own naming
        result = run(place, [], inside_py(TALK + r"""
server = s.socket(s.AF_UNIX); server.bind("\0" + arg[0]); server.listen()
c = s.socket(s.AF_UNIX); c.setblocking(False)
attempt("non-blocking", lambda: c.connect("\0" + arg[0]))
c2 = s.socket(s.AF_UNIX)
attempt("blocking", lambda: c2.connect("\0" + arg[0]))
auto = s.socket(s.AF_UNIX); attempt("autobind", lambda: auto.bind(""))
auto.listen(); c3 = s.socket(s.AF_UNIX)
attempt("to the autobound", lambda: c3.connect(auto.getsockname()))
attempt("taken", lambda: s.socket(s.AF_UNIX).bind("\0" + arg[0]))
""", "atoll-own-" + place.token))
        result.allowed("non-blocking", "blocking", "autobind", "to the autobound")
        same(result.tries["taken"], "EADDRINUSE", "a name twice")


@test("IPC-05 displays and sound")
def _():
    with Place() as place, Sink(place) as sink, Listener(place.out + "/wayland-0") as wayland:
        env = {"DISPLAY": "127.0.0.1:0", "WAYLAND_DISPLAY": wayland.address, "XAUTHORITY": place.home + "/.Xauthority", "PULSE_SERVER": "unix:" + wayland.address,
               "PIPEWIRE_REMOTE": wayland.address, "XDG_SESSION_ID": "1", "SWAYSOCK": wayland.address, "I3SOCK": wayland.address, "HYPRLAND_INSTANCE_SIGNATURE": "x"}
        result = run(place, ["--read", place.out], inside_py(TALK + r"""
print("variables", sorted(set(os.environ) & set(arg[3:])))
attempt("wayland", lambda: connect(arg[0]))
attempt("port as of X11", lambda: s.create_connection(("127.0.0.1", int(arg[1])), 30))
if arg[2] != "None":
    attempt("port, IPv6", lambda: s.create_connection(("::1", int(arg[2])), 30))
for path in ("/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0", "/run/user/%d/pipewire-0" % os.getuid(), "/run/user/%d/pulse/native" % os.getuid(), "/run/user/%d/wayland-0" % os.getuid()):
    attempt(path.replace("\0", "@"), lambda: connect(path))
for device in ("/dev/snd", "/dev/dri", "/dev/fb0", "/dev/input", "/dev/uinput", "/dev/video0", "/dev/tty0", "/dev/console"):
    attempt(device, lambda: os.stat(device))
""", wayland.address, sink.tcp4, sink.tcp6, *env), env=env)
        result.refused(how=NO_WAY)
        check("variables []" in result.out, "a display is named: %s" % result.out)
        same((wayland.came, sink.log), ([], []), "connections")
        socket.create_connection(("127.0.0.1", sink.tcp4), PATIENCE).close()
        same(talk(wayland.address), b"host here", "the display without atoll")
        check(until(lambda: sink.log), "the port does not answer without atoll")


@test("IPC-07 terminal multiplexers and editors")
def _():
    need("tmux")
    with Place() as place:
        address = place.out + "/tmux.sock"
        tmux = ["tmux", "-f", "/dev/null", "-S", address]
        host = caller_environment(place)
        env = {"TMUX": address + ",1,0", "TMUX_TMPDIR": place.out, "STY": "1.x", "VSCODE_IPC_HOOK_CLI": address, "NVIM": address, "NVIM_LISTEN_ADDRESS": address,
               "EMACS_SOCKET_NAME": address, "GPG_AGENT_INFO": address, "SSH_AUTH_SOCK": address}
        subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", "sh"], env=host, check=True, timeout=RUN_SECONDS, stdin=subprocess.DEVNULL)
        try:
            os.chmod(address, 0o777)
            place.settle()
            attack = [*tmux, "send-keys", "-t", "0", "touch '%s'" % place.mark, "Enter"]
            for flags in ([], ["--read", place.out], ["--write", place.out]):
                check(run(place, flags, attack, env=env).status != 0, "tmux was reached")
            result = run(place, [], ["env"], env=env)
            check(not [n for n in env if re.search("^%s=" % n, result.out, re.M)], "a variable arrives: %s" % result.out)
            check(not until(lambda: os.path.exists(place.mark), 0.3), "a command ran in the host's tmux")
            subprocess.run(attack, env=host, check=True, timeout=RUN_SECONDS)
            check(until(lambda: os.path.exists(place.mark)), "tmux does nothing without atoll either: this test shows nothing")
            os.unlink(place.mark)
        finally:
            subprocess.run([*tmux, "kill-server"], env=host, timeout=RUN_SECONDS)
            processes_left()
            with contextlib.suppress(OSError):
                os.unlink(address)
            place.settle()


# ---- a socket on a granted path -------------------------------------------------------------------------------------

@test("IPC-08 a service of the host in the workspace: refused, and granted by --socket")
def _():
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with Place() as place, Listener(place.ws + "/app.sock", kind) as app, Listener(place.ws + "/other.sock", kind) as other:
            settle_workspace(place)
            code = TALK + r"""
kind = int(arg[0])
for path in ("app.sock", "./app.sock", arg[1] + "/app.sock", "/proc/self/cwd/app.sock", "other.sock"):
    attempt(path, lambda: print(connect(path, kind).decode()))
c = s.socket(s.AF_UNIX, kind); c.setblocking(False)
attempt("non-blocking", lambda: c.connect("app.sock"))
"""
            result = run(place, [], inside_py(code, int(kind), place.ws))
            result.refused(how=("EACCES",))
            check(any("app.sock" in line for line in result.refusals), "not told: %s" % result.refusals)
            same(app.came + other.came, [], "connections")
            result = run(place, ["--socket", "app.sock"], inside_py(code, int(kind), place.ws))
            result.allowed("app.sock", "./app.sock", place.ws + "/app.sock", "/proc/self/cwd/app.sock", "non-blocking")
            result.refused("other.sock", how=("EACCES",))
            check("host here" in result.out and until(lambda: len(app.came) == 5), "%d came" % len(app.came))
            same({(uid, gid) for _, uid, gid in app.came}, {(os.getuid(), os.getgid())} if not IS_ROOT else {(uid, gid) for _, uid, gid in app.came}, "who came")
            check(not IS_ROOT or 0 not in {uid for _, uid, _ in app.came}, "root's sandbox connects as root")
            same(other.came, [], "connections to the other")


@test("IPC-08 reverse: a server inside, in the workspace and in private places")
def _():
    for path, reachable in (("app.sock", True), ("sub/deep.sock", True), ("/tmp/app.sock", False), ("/dev/shm/app.sock", False)):
        with Place() as place:
            place.expect("app.sock", "up", "sub")
            running = start(place, [], inside_py(TALK + r"""
os.makedirs("sub", exist_ok=True)
server = s.socket(s.AF_UNIX); server.bind(arg[0]); server.listen()
tell("name", "ok" if os.path.abspath(server.getsockname()) == os.path.abspath(arg[0]) else server.getsockname())
def serve():
    for _ in range(2 if arg[1] == "True" else 1):
        c, _ = server.accept()
        said = c.recv(100)
        c.sendall(b"inside here: " + said); c.close()
thread = threading.Thread(target=serve); thread.start()
attempt("inside", lambda: print(connect(arg[0]).decode()))
put("up")
thread.join(60)
attempt("again", lambda: s.socket(s.AF_UNIX).bind(arg[0]))
os.unlink(arg[0])
attempt("gone", lambda: connect(arg[0]))
""", path, reachable))
            wait_file(place, "up")
            if reachable:
                mode = os.stat(os.path.join(place.ws, path)).st_mode
                check(stat.S_ISSOCK(mode) and mode & 0o777 == 0o755, "a socket of mode %o" % mode)
                same(talk(os.path.join(place.ws, path)), b"inside here: from the host", "the host's talk with it")
            else:
                check(not os.path.exists(path), "%s is on the host" % path)
            result = running.wait()
            result.allowed("inside")
            same((result.tries["again"], result.tries["gone"]), ("EADDRINUSE", "ENOENT"), "bound twice, and gone")
            same(result.tries["name"], "ok", "the name that the server tells to its clients")
            check("inside here: from inside" in result.out, "no answer inside")


@test("IPC-08 a grant is of one socket, not of whatever takes its name")
def _():
    with Place() as place, Listener(place.ws + "/a.sock") as granted, Listener(place.ws + "/b.sock") as other:
        os.mkdir(place.ws + "/d")
        with Listener(place.ws + "/d/c.sock") as deep:
            settle_workspace(place)
            place.expect("*.sock", "d*", "e")
            flags = ["--socket", "a.sock", "--socket", "d/c.sock"]
            result = run(place, flags, inside_py(TALK + r"""
attempt("before", lambda: connect("a.sock"))
def renamed(): os.rename("b.sock", "a.sock"); connect("a.sock")
def linked(): os.rename("a.sock", "a2.sock"); os.link("b.sock", "a.sock"); connect("a.sock")
def symlinked(): os.rename("a.sock", "a3.sock"); os.symlink("b.sock", "a.sock"); connect("a.sock")
def swapped(): syscall(316, AT_FDCWD, b"a.sock", AT_FDCWD, b"b.sock", 2); connect("a.sock")
def directory(): os.rename("d", "d2"); os.mkdir("d"); os.link("b.sock", "d/c.sock"); connect("d/c.sock")
def directory_moved(): os.rename("d", "d3"); os.mkdir("d"); os.rename("b.sock", "d/c.sock"); connect("d/c.sock")
for way in (linked, symlinked, swapped, directory, directory_moved, renamed):
    attempt(way.__name__, way)
"""))
            result.allowed("before")
            same((len(granted.came), len(other.came)), (1, 0), "connections to the granted and the other socket")
            for way in ("linked", "symlinked", "swapped", "directory", "directory_moved", "renamed"):
                check(result.tries[way] != "ok" or len(deep.came) + len(granted.came) > 1, "%s reached something" % way)


@test("IPC-08 grants by other names: through a link, beneath /run, gone, or no socket")
def _():
    with Place() as place, Listener(place.out + "/real.sock") as real:
        os.symlink(place.out, place.tmp + "/linked")
        os.chmod(place.tmp, 0o755)
        by_link = place.tmp + "/linked/real.sock"
        code = TALK + 'for path in arg:\n    attempt(path, lambda: connect(path))\n'
        result = run(place, ["--socket", by_link], inside_py(code, real.address), starts=False)
        check(result.status in REFUSED and by_link in result.err, "a grant through a link: status %d, %s" % (result.status, result.err))
        for bad in (place.out + "/none.sock", place.out + "/canary", place.out):
            among(run(place, ["--socket", bad], "true", starts=False).status, REFUSED, "--socket " + bad)
    if not IS_ROOT:
        return
    with Place() as place, Listener(place.name("/run", ".sock")) as system:  # where services have theirs
        run(place, [], inside_py(code, system.address)).refused(how=NO_WAY)
        same(system.came, [], "connections")
        run(place, ["--socket", system.address], inside_py(code, system.address)).allowed(system.address)
        same(len(system.came), 1, "connections with --socket")


@test("IPC-08 a socket made inside, then replaced by the host's")
def _():
    with Place() as place:
        place.expect("app.sock", "up", "go")
        running = start(place, [], inside_py(TALK + r"""
server = s.socket(s.AF_UNIX); server.bind("app.sock"); server.listen()
attempt("own", lambda: s.socket(s.AF_UNIX).connect("app.sock"))
put("up")
while not os.path.exists("go"):
    time.sleep(0.01)
attempt("the host's", lambda: connect("app.sock"))
"""))
        wait_file(place, "up")
        os.unlink(place.ws + "/app.sock")  # its inode number is likely to be used again
        with Listener(place.ws + "/app.sock") as app:
            write(place.ws + "/go")
            result = running.wait()
            result.allowed("own")
            same((result.tries["the host's"], app.came), ("EACCES", []), "what the host put there")


# ---- descriptors ----------------------------------------------------------------------------------------------------

@test("IPC-10 descriptors 0-2 are pipes, whatever the caller's are")
def _():
    with Place() as place:
        path = write(place.tmp + "/log", "header\n")
        ours, theirs = socket.socketpair()
        leader, follower = pty.openpty()
        file = os.open(path, os.O_RDWR | os.O_APPEND)
        given = (theirs.fileno(), file, follower)
        before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in given], termios.tcgetattr(follower)
        code = r"""
            import fcntl, socket as s, termios
            kinds = [stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (0, 1, 2)]
            said = {}
            def attempt(label, action):
                try:
                    action(); said[label] = "ok"
                except (OSError, termios.error) as error:
                    said[label] = errno.errorcode[error.args[0]]
            attempt("socket 0", lambda: s.socket(fileno=os.dup(0)).getpeername())
            attempt("send on 0", lambda: libc.send(0, b"x", 1, 0) >= 0 or os.fstat(-1))
            for fd in (0, 1, 2):
                attempt("lseek %d" % fd, lambda: os.lseek(fd, 0, 0))
                attempt("ftruncate %d" % fd, lambda: os.ftruncate(fd, 0))
                attempt("pread %d" % fd, lambda: os.pread(fd, 1, 0))
                attempt("tty %d" % fd, lambda: termios.tcgetattr(fd))
                attempt("TIOCSTI %d" % fd, lambda: fcntl.ioctl(fd, 0x5412, b"x"))
            for name in ("/proc/self/fd/1", "/dev/stdout", "/dev/fd/1"):
                attempt("reopen " + name, lambda: os.close(os.open(name, os.O_WRONLY | os.O_TRUNC)))
            attempt("truncate", lambda: os.truncate("/proc/self/fd/1", 0))
            for fd in (0, 1, 2):
                fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
                fcntl.fcntl(fd, fcntl.F_SETFL, 0)
            print("kinds", kinds); print("read", os.read(0, 100)); print("open", sorted(map(int, os.listdir("/proc/self/fd")))[:3])
            print("links", [os.readlink("/proc/self/fd/%d" % fd).split(":")[0] for fd in (0, 1, 2)])
            print(said)
            print("to the terminal", file=sys.stderr)
            sys.stdout.flush()
            for fd in (0, 1, 2):
                fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
            """
        process = subprocess.Popen([*ATOLL_RUN, "--", *inside_py(code)], cwd=place.ws, env=caller_environment(place), stdin=theirs, stdout=file, stderr=follower)
        ours.sendall(b"over the socket")
        during = []
        while process.poll() is None:
            during.append([fcntl.fcntl(fd, fcntl.F_GETFL) for fd in given])
            time.sleep(0.005)
        os.set_blocking(leader, False)
        shown = os.read(leader, 65536)
        same(process.returncode, 0, "its status (%r)" % shown)
        check(all(flags == before[0] for flags in during), "the caller's descriptors got other flags during the run")
        same([fcntl.fcntl(fd, fcntl.F_GETFL) for fd in given], before[0], "the flags afterwards")
        same(termios.tcgetattr(follower), before[1], "the terminal's settings")
        text = read(path).decode()
        check(text.startswith("header\n"), "the file was truncated: %r" % text)
        check("kinds [True, True, True]" in text and "read b'over the socket'" in text, text)
        check("links ['pipe', 'pipe', 'pipe']" in text, text)
        said = eval(re.search(r"^\{.*\}$", text, re.M).group(), {})  # our own words, from the line above
        same({label: how for label, how in said.items() if how == "ok" and not label.startswith("reopen")}, {}, "what worked on them")
        check(b"to the terminal" in shown, "the terminal got nothing")
        for fd in (leader, follower, file):
            os.close(fd)
        ours.close()
        theirs.close()


@test("IPC-10 a file given as output keeps what it has, also by its offset")
def _():
    def attack(place):
        return inside_sh("echo start; (: >/proc/self/fd/1); (: >/dev/stdout); truncate -s0 /proc/self/fd/1; (exec 7<>/proc/self/fd/1); echo end")

    def once(argv):
        with Place() as place:
            path = write(place.tmp + "/log", "0123456789" * 10)
            with open(path, "r+b", 0) as file:
                file.seek(50)
                subprocess.run([*argv, *attack(place)], cwd=place.ws, env=caller_environment(place), stdout=file, stderr=subprocess.DEVNULL, timeout=RUN_SECONDS)
            return read(path).decode()
    text = once([*ATOLL_RUN, "--"])
    same(text, ("0123456789" * 5 + "start\nend\n" + "0123456789" * 10)[:60] + ("0123456789" * 10)[60:], "the file")
    check("0123456789" * 5 not in once([]), "the file is whole without atoll: this test shows nothing")


@test("IPC-10 closed and odd descriptors of the caller")
def _():
    with Place() as place:
        for closing in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-", "</dev/null >/dev/full", "<. ", "0>f2 1<f2"):
            place.expect("f2", "seen")
            done = subprocess.run(["/bin/sh", "-c", "exec \"$@\" " + closing, "sh", *ATOLL_RUN, "--", "/bin/sh", "-c",
                                   "ls -l /proc/self/fd >seen 2>&1; echo out; echo err >&2; exit 0"], cwd=place.ws, env=caller_environment(place), timeout=RUN_SECONDS,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            seen = read(place.ws + "/seen").decode() if os.path.exists(place.ws + "/seen") else ""
            check(done.returncode in (0, 1, 2, 240) and not re.search(r"-> .*(/tmp/atoll-test|/home|socket:|anon_inode)", seen.replace("-> %s/seen" % place.ws, "")),
                  "%s: status %d, %s %s" % (closing, done.returncode, done.stderr.decode(), seen))
            same(seen.count("pipe:"), 1 if seen else 0, "pipes after %s: %s" % (closing, seen)) if seen and seen.count("pipe:") < 1 else None


# ---- System V, POSIX queues, keys -----------------------------------------------------------------------------------

@test("IPC-11 shared memory, semaphores and queues of System V and POSIX")
def _():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]

    def lists():
        # Only what this test is about: other tests make and remove objects at the same time.
        keys = {str(key), str(0x77)}
        return [sum(line.split()[0] in keys for line in read("/proc/sysvipc/" + name).decode().splitlines()) for name in ("shm", "sem", "msg")]
    code = r"""
        libc.shmat.restype = ctypes.c_void_p
        key, ids = int(arg[0]), list(map(int, arg[1:4]))
        def must(value):
            if value in (-1, ctypes.c_void_p(-1).value, None):
                raise OSError(ctypes.get_errno(), "")
            return value
        attempt("shmget", lambda: must(libc.shmget(key, 0, 0)))
        attempt("semget", lambda: must(libc.semget(key, 0, 0)))
        attempt("msgget", lambda: must(libc.msgget(key, 0)))
        attempt("shmat", lambda: ctypes.memmove(must(libc.shmat(ids[0], None, 0)), b"OVERWRITTEN", 11))
        attempt("shmat, guessed", lambda: [must(libc.shmat(n, None, 0)) for n in range(0, 40)])
        if arg[4] == "remove":
            for name, n, extra in (("shmctl", ids[0], (0, None)), ("semctl", ids[1], (0, 0)), ("msgctl", ids[2], (0, None))):
                attempt(name, lambda: must(getattr(libc, name)(n, *extra)))
            os.system("ipcrm -a 2>/dev/null")
        print("lists", [open("/proc/sysvipc/" + name).read().count("\n") for name in ("shm", "sem", "msg")])
        """
    key = 0x41000000 | _random_bits(20)
    made = libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666)
    check(min(made) >= 0, "cannot make System V objects")
    try:
        at = libc.shmat(made[0], None, 0)
        ctypes.memmove(at, b"the host's words", 16)
        before = lists()
        with Place() as place:
            result = run(place, [], inside_py(code, key, *made, "remove"))
            result.refused(how=("ENOENT", "EINVAL", "EIDRM", "EPERM", "EACCES"))
            check("lists [1, 1, 1]" in result.out, "the host's objects are listed: %s" % result.out)
            same((lists(), ctypes.string_at(at, 16)), (before, b"the host's words"), "the host's objects")
            outside = plain(place, inside_py(code, key, *made, "")).tries
            same([outside[n] for n in ("shmget", "semget", "msgget", "shmat")], ["ok"] * 4, "the same outside")
            check(ctypes.string_at(at, 11) == b"OVERWRITTEN", "outside the memory cannot be written: this test shows nothing")
            # What is made inside does not stay.
            run(place, [], inside_py("must = lambda v: v >= 0 or 1 / 0\nmust(libc.shmget(0x77, 4096, 0o1666)); must(libc.semget(0x77, 1, 0o1666)); must(libc.msgget(0x77, 0o1666))\n"
                                     "tell('made', open('/proc/sysvipc/shm').read().count('\\n'))"))
            same((place.runs[-1].tries["made"], lists()), ("2", before), "objects inside, and on the host afterwards")
        libc.shmdt(at)
    finally:
        libc.shmctl(made[0], 0, None)
        libc.semctl(made[1], 0, 0)
        libc.msgctl(made[2], 0, None)
    with Place() as place:
        name = b"/atoll-test-" + place.token.encode()
        queue = _mq_open(name, os.O_CREAT | os.O_RDWR)
        if queue is None:
            skip("POSIX message queues (System V was tried and is right)")
        try:
            code = 'attempt("queue", lambda: (lambda q: q < 0 and os.fstat(-1))(libc.syscall(240, arg[0].encode(), os.O_RDWR, 0, None)))'
            result = run(place, [], inside_py(code, name[1:].decode()))
            check(result.tries["queue"] != "ok", "the host's queue was opened")
            same(plain(place, inside_py(code, name[1:].decode())).tries["queue"], "ok", "the queue outside")
            # Memory by shm_open is a file in /dev/shm, which is private.
            shm = write("/dev/shm/atoll-test-" + place.token, "x", 0o666)
            run(place, [], inside_py('attempt("shm", lambda: put(arg[0], b"evil", os.O_WRONLY))', shm)).refused()
            same(read(shm), b"x", "the host's shared memory")
            os.unlink(shm)
        finally:
            os.close(queue)
            libc.mq_unlink(name) if hasattr(libc, "mq_unlink") else ctypes.CDLL("librt.so.1").mq_unlink(name)


def _random_bits(n):
    return int.from_bytes(os.urandom(4), "little") >> (32 - n)


def _mq_open(name, flags):
    number = ctypes.CDLL(None, use_errno=True).syscall(240, name[1:], flags, 0o666, None) if os.uname().machine == "x86_64" else -1
    return number if number >= 0 else None


KEYS = r"""
def keyctl(*a): return syscall(250, *a)
def find(ring): return keyctl(10, ring, b"user", arg[0].encode(), 0)
def show(number):
    room = ctypes.create_string_buffer(200)
    size = keyctl(11, number, room, 200)
    return room.raw[:size]
for ring, name in ((-3, "@s"), (-4, "@u"), (-5, "@us"), (-2, "@p"), (-1, "@t")):
    attempt("search " + name, lambda: print("found", show(find(ring))))
for number in map(int, arg[1:]):
    attempt("read %d" % number, lambda: print("found", show(number)))
attempt("request", lambda: print("found", show(syscall(249, b"user", arg[0].encode(), None, 0))))
attempt("add", lambda: syscall(248, b"user", b"planted", b"x", 1, -4))
attempt("add @s", lambda: syscall(248, b"user", b"planted", b"x", 1, -3))
try: print("keys", repr(open("/proc/keys").read()))
except OSError: print("keys ''")
"""


@test("IPC-13 kernel keyrings")
def _():
    if os.uname().machine != "x86_64":
        skip("x86-64 (the numbers here are its)")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(250, 1, None) < 0:  # a session keyring for this process and its children, as a login makes one
        skip("keyrings (%s)" % os.strerror(ctypes.get_errno()))

    def content(ring):
        room = ctypes.create_string_buffer(4096)
        size = libc.syscall(250, 11, ring, room, 4096)
        return room.raw[:max(0, size)]
    with Place() as place:
        name = "atoll-test-" + place.token
        secret = place.secret.encode()
        added = [libc.syscall(248, b"user", name.encode(), secret, len(secret), ring) for ring in (-3, -4)]
        try:
            check(min(added) > 0, "cannot add a key: %s" % os.strerror(ctypes.get_errno()))
            for number in added:
                libc.syscall(250, 5, number, 0x3f3f3f3f)  # readable by everybody, also when the sandbox runs under another id
            before = content(-3), content(-4)
            result = run(place, [], inside_py(KEYS, name, *added))  # the secret in the output fails the test
            result.refused(how=("ENOSYS", "EPERM"))
            check("found" not in result.out and ("keys ''" in result.out), "keys are seen: %s" % result.out)
            same((content(-3), content(-4)), before, "the caller's keyrings")
            if shutil.which("keyctl", path=HOST_PATH):
                result = run(place, [], inside_sh('keyctl show; keyctl print $(keyctl search @s user "$1"); keyctl list @u; keyctl add user planted x @u; true', name))
                check("planted" not in result.out and name not in result.out, "keyctl works: %s" % result.out)
                same((content(-3), content(-4)), before, "the caller's keyrings after keyctl")
            outside = plain(place, inside_py(KEYS[:KEYS.index('attempt("add"')], name, *added))
            check(place.secret in outside.out, "the key cannot be read outside: this test shows nothing")
        finally:
            for number, ring in zip(added, (-3, -4)):
                if number > 0:
                    libc.syscall(250, 9, number, ring)


# ---- pipes with names -----------------------------------------------------------------------------------------------

@test("IPC-14 named pipes across the boundary")
def _():
    with Place() as place:
        for name in (place.ws + "/p", place.ws + "/q", place.out + "/r", place.out + "/s"):
            os.mkfifo(name)
            os.chmod(name, 0o666)
        place.settle()
        # In the workspace, both ways.
        reader = os.open(place.ws + "/p", os.O_RDONLY | os.O_NONBLOCK)
        result = run(place, [], inside_sh("echo from inside >p"))
        same((result.status, os.read(reader, 100)), (0, b"from inside\n"), "what the host reads")
        # For ever: it ends when the host stops reading, or by the time limit, and the tool does not grow or hang.
        running = start(place, ["--timeout", "100s"], inside_sh("yes >p; exit 3"))
        check(until(lambda: _read_some(reader)), "nothing arrives")
        os.close(reader)
        same(running.wait().status, 3, "the status of a writer without reader")
        writer = start(place, [], inside_sh("read line <q; echo got $line"))
        with open(place.ws + "/q", "w") as pipe:
            pipe.write("from the host\n")
        check("got from the host" in writer.wait().out, "the run got nothing")
        # Outside every grant they are not there; under a read grant they cannot be written.
        reader = os.open(place.out + "/r", os.O_RDONLY | os.O_NONBLOCK)
        code = 'attempt("write", lambda: put(arg[0], flags=os.O_WRONLY | os.O_NONBLOCK))\nattempt("read", lambda: os.close(os.open(arg[1], os.O_RDONLY | os.O_NONBLOCK)))'
        run(place, [], inside_py(code, place.out + "/r", place.out + "/s")).refused("write", "read")
        run(place, ["--read", place.out], inside_py(code, place.out + "/r", place.out + "/s")).refused("write")
        check(not _read_some(reader), "something was written into the host's pipe")
        plain(place, inside_py(code, place.out + "/r", place.out + "/s")).allowed("write", "read")
        check(_read_some(reader), "outside the pipe cannot be written either")
        os.close(reader)


@test("IPC-14 a named pipe beneath a read grant is not written in any mode")
def _():
    # A read-only mount lets a pipe be opened to be written. The grants lie where the sandbox has storage of its own: in the
    # directory for temporary files and in the home; and with `root: layer` everywhere.
    code = """
        for path in arg:
            for label, flags in ("write", os.O_WRONLY), ("both", os.O_RDWR), ("create", os.O_WRONLY | os.O_CREAT), ("append", os.O_RDWR | os.O_APPEND):
                attempt(label + path, lambda: put(path, flags=flags | os.O_NONBLOCK))
            attempt("again" + path, lambda: put("/proc/self/fd/%d" % os.open(path, O_PATH), flags=os.O_RDWR | os.O_NONBLOCK))
        """
    labels = ("write", "both", "create", "append", "again")
    with Place() as place:
        pipes = [place.out + "/r", place.home + "/deep/er/r"]
        os.makedirs(place.home + "/deep/er")
        for path in pipes:
            os.mkfifo(path)
            os.chmod(path, 0o666)
        place.settle()
        readers = [os.open(path, os.O_RDONLY | os.O_NONBLOCK) for path in pipes]
        grants = [word for path in pipes for word in ("--read", os.path.dirname(path))]
        for mode, more in ("layer", []), ("read-only", []), ("direct", []), ("layer", ["--root", "layer"]), ("layer", ["--record", "off"]):
            if mode == "layer":
                need_layers()
            result = run(place, grants + more, inside_py(code, *pipes), mode=mode)
            result.refused(*[label + path for label in labels for path in pipes])
            for path, reader in zip(pipes, readers):
                check(not _read_some(reader), "%s was written, mode %s %s" % (path, mode, more))
        plain(place, inside_py(code, *pipes)).allowed(*["write" + path for path in pipes])
        for path, reader in zip(pipes, readers):
            check(_read_some(reader), "outside %s cannot be written either" % path)
            os.close(reader)


@test("IPC-14 what is the sandbox's own is still written beside such a grant")
def _():
    need_layers()
    with Place() as place:
        os.makedirs(place.home + "/deep/er")
        write(place.home + "/deep/er/file", "the host's\n", 0o644)
        place.settle()
        result = run(place, ["--read", place.home + "/deep/er"], inside_sh("""
            set -e; cd; cat deep/er/file; mkdir -p a/b; echo x >a/b/c; mv a/b d; ln -s d e; ln d/c f; rm f; rm -r a d; mkfifo p; (cat p & echo own >p; wait)
            chmod 700 deep; touch deep/new; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'; rm sock; echo end"""), mode="layer")
        same((result.status, result.out.split()[-2:]), (0, ["own", "end"]), result.err)


def _read_some(fd):
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


@test("IPC-14 the tool itself never waits at a pipe")
def _():
    for name in ("README.md", ".git/config", ".git/HEAD", ".gitmodules", ".env", ".gitignore", "atoll.yaml", ".atoll", ".git/commondir", ".git/hooks/pre-commit"):
        with Place() as place:
            path = os.path.join(place.ws, name)
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.mkfifo(path)
            settle_workspace(place)
            result = run(place, ["--hide", "**/.env"], inside_sh("mkdir d; rmdir d; echo x >new; rm new; ls -la >/dev/null; mv f g; mv g f; echo done"))
            check("done" in result.out, "%s: %s" % (name, result.out))
    with Place() as place:  # and the guard does not wait either when the pipe is made inside
        place.expect("repo*", "plain")
        result = run(place, ["--timeout", "100s"], inside_sh(r"""
            git init -q repo && cd repo || exit 9
            rm -f .git/config .git/HEAD; mkfifo .git/config.lock .git/commondir .git/HEAD .git/config
            timeout 20 mv -f .git/config.lock .git/config </dev/null; mkfifo gitdir; timeout 20 mv gitdir .git/gitdir; timeout 20 ln -s x .git/hooks/y
            mkdir -p bare/objects bare/refs; mkfifo bare/HEAD bare/config bare/config.lock; timeout 20 mv bare/config.lock bare/config
            cd ..; echo still >plain; cat plain"""))
        check("still" in result.out, "the guard waits: status %d" % result.status)


@test("IPC-14 writers that wait for a reader do not hold up the others")
def _():
    with Place() as place:
        place.expect("p*", "made*")
        result = run(place, ["--timeout", "100s"], inside_py(r"""
            import threading
            os.mkfifo("p")
            children = []
            for n in range(80):  # more than the guard has helpers
                pid = os.fork()
                if pid == 0:
                    try:
                        os.close(os.open("p", os.O_WRONLY))
                        os._exit(0)
                    except OSError as error:
                        os._exit(error.errno)
                children.append(pid)
            def waiting():
                return [pid for pid in children if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None]
            until(lambda: len(waiting()) <= 64)  # the others hear that there is no helper any more
            time.sleep(0.3)
            attempt("another file", lambda: put("made"))
            # Nobody opens the other end: they would wait for ever, and so would whoever waits for them.
            tell("waiting meanwhile", len(waiting()))
            for pid in children[:40]:
                os.kill(pid, signal.SIGKILL)
            reader = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
            ends = [os.waitpid(pid, 0)[1] for pid in children]
            tell("opened", sum(status == 0 for status in ends))
            tell("other errors", sorted({errno.errorcode[os.WEXITSTATUS(status)] for status in ends if os.WIFEXITED(status) and os.WEXITSTATUS(status)}))
            os.close(reader)
            time.sleep(0.3)
            reader = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
            attempt("afterwards", lambda: put("p", flags=os.O_WRONLY))
            """))
        result.allowed("another file", "afterwards")
        check(int(result.tries["waiting meanwhile"]) >= 60, "%s were waiting when another file was made" % result.tries["waiting meanwhile"])
        check(int(result.tries["opened"]) >= 20, "only %s were let in" % result.tries["opened"])


# ---- the tool's own channel -----------------------------------------------------------------------------------------

@test("IPC-16 the tool's own control channel")
def _():
    with Place() as place, Sink(place) as sink:
        env = {"XDG_RUNTIME_DIR": place.out, "ATOLL_TOKEN": place.secret, "ATOLL_SOCKET": place.out + "/sink.sock"}
        result = run(place, [], inside_py(r"""
            import socket as s
            first = os.getppid() if arg[0] else 1  # the guard, by whatever number
            told = os.path.dirname(os.environ["ATOLL_CONTRACT"]) if arg[0] else "/run/atoll"
            try: print("sockets", [line for line in open("/proc/net/unix").read().splitlines()[1:]])
            except PermissionError: print("sockets []")
            print("told", sorted(os.listdir(told)))
            print("fds", sorted(map(int, os.listdir("/proc/self/fd")))[:4])
            attempt("its descriptors", lambda: os.listdir("/proc/%d/fd" % first))
            attempt("its environment", lambda: print("environment", get("/proc/%d/environ" % first)))
            attempt("its memory", lambda: os.open("/proc/%d/mem" % first, os.O_RDWR))
            attempt("its memory, to read", lambda: os.open("/proc/%d/mem" % first, os.O_RDONLY))
            attempt("its root", lambda: os.listdir("/proc/%d/root" % first))
            one = os.pidfd_open(first)
            for fd in range(0, 30):
                attempt("pidfd_getfd %d" % fd, lambda: syscall(438, one, fd, 0))
            attempt("trace", lambda: libc.ptrace(0x4206, first, None, None) == 0 or os.stat("/nonexistent"))
            for port in map(int, arg[1:]):
                attempt("port %d" % port, lambda: s.create_connection(("127.0.0.1", port), 30))
            for name in ("ATOLL_TOKEN", "ATOLL_SOCKET", "XDG_RUNTIME_DIR"):
                print(name, os.environ.get(name))
            for name in ("contract.json", "contract.md"):
                attempt("change " + name, lambda: put(told + "/" + name, b"evil", os.O_WRONLY))
            attempt("new beside it", lambda: put(told + "/x"))
            """, BARE or "", sink.tcp4), env=env)
        result.refused(how=NO_WAY + ("EPERM", "EBADF", "ESRCH", *(["EAFNOSUPPORT"] if BARE else [])))
        check("contract.md" in result.out, "the contract is not where it should be: %s" % result.out)
        for number in range(30):
            among(result.tries["pidfd_getfd %d" % number], ("EPERM", "EACCES"), "pidfd_getfd %d" % number)
        check("sockets []" in result.out, "sockets are listed: %s" % result.out)
        check("ATOLL_TOKEN None" in result.out and "ATOLL_SOCKET None" in result.out, "a variable arrives")
        same(sink.log, [], "connections")
    # A helper that the guard has forked to wait is as closed as the guard.
    with Place() as place:
        place.expect("p")
        result = run(place, [], inside_py(r"""
            os.mkfifo("p")
            waiting = os.fork()
            if waiting == 0:
                os.open("p", os.O_WRONLY); os._exit(0)
            def look():
                return [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in (1, os.getpid(), waiting)]
            if arg[0]: time.sleep(0.2)
            others = until(look)
            if arg[0]: others = others[-20:]  # of the whole machine; the helper is among the last
            tell("helpers", len(others))
            for pid in others:
                attempt("getfd", lambda: [syscall(438, os.pidfd_open(pid), fd, 0) for fd in range(10)])
                attempt("memory", lambda: os.open("/proc/%d/mem" % pid, os.O_RDWR))
                attempt("descriptors", lambda: os.listdir("/proc/%d/fd" % pid))
                attempt("trace", lambda: libc.ptrace(0x4206, pid, None, None) == 0 or os.stat("/nonexistent"))
            os.kill(waiting, signal.SIGKILL)
            """, BARE or ""))
        check(int(result.tries["helpers"]) >= 1, "no helper was seen")
        result.refused("getfd", "memory", "descriptors", "trace", how=GONE + ("ESRCH",))


# ---- beyond the corpus ----------------------------------------------------------------------------------------------

@test("IPC-X datagrams: none by unix sockets, which need no connect()")
def _():
    code = r"""
        import socket as s
        def send(path):
            c = s.socket(s.AF_UNIX, s.SOCK_DGRAM)
            c.sendto(b"from inside", path)
        for path in arg:
            attempt(path, lambda: send(path.replace("@", "\0")))
        attempt("raw", lambda: s.socket(s.AF_UNIX, s.SOCK_RAW))
        def pair():
            a, b = s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)
            a.sendto(b"from inside", arg[0])
        attempt("pair", pair)
        def by_stream(kind):
            a, b = s.socketpair(s.AF_UNIX, kind)
            a.sendto(b"from inside", arg[0])
            c = s.socket(s.AF_UNIX, kind)
            c.sendto(b"from inside", arg[0])
        attempt("stream", lambda: by_stream(s.SOCK_STREAM))
        attempt("seqpacket", lambda: by_stream(s.SOCK_SEQPACKET))
        """
    with Place() as place, Listener(place.ws + "/d.sock", socket.SOCK_DGRAM) as here, Listener(place.out + "/d.sock", socket.SOCK_DGRAM) as there, \
            Listener("\0atoll-d-" + place.token, socket.SOCK_DGRAM) as abstract:
        settle_workspace(place)
        names = [one.address.replace("\0", "@") for one in (here, there, abstract)]
        result = run(place, ["--read", place.out], inside_py(code, *names, "/dev/log"))
        result.refused(how=("EPROTONOSUPPORT", "EISCONN", "EOPNOTSUPP", "ENOTCONN"))
        time.sleep(0.1)
        same(here.came + there.came + abstract.came, [], "datagrams")
        outside = plain(place, inside_py(code, *names)).tries
        same([outside[name] for name in names], ["ok"] * 3, "datagrams outside")
        check(until(lambda: here.came and there.came and abstract.came), "they do not arrive outside either")


@test("IPC-X descriptors over a granted socket: what leaves the sandbox is the sandbox's")
def _():
    got = []

    def handle(connection):
        _, fds, _, _ = socket.recv_fds(connection, 100, 10)
        for fd in fds:
            st = os.fstat(fd)
            got.append((stat.S_IFMT(st.st_mode), (st.st_dev, st.st_ino), fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_PATH)))
            os.close(fd)
        canary = os.open(os.path.dirname(address) + "/canary", os.O_RDONLY)
        socket.send_fds(connection, [b"and back"], [canary])
        os.close(canary)
    with Place() as place:
        address = place.out + "/pass.sock"
        with Listener(address, handle=handle):
            result = run(place, ["--socket", address], inside_py(r"""
                import socket as s
                root, up = os.open("/", os.O_RDONLY), os.open("/proc/self/root/../..", O_PATH)
                readable = os.open("/etc/passwd", os.O_RDONLY)
                c = s.socket(s.AF_UNIX); c.connect(arg[0])
                attempt("send", lambda: s.send_fds(c, [b"x"], [root, up, readable]))
                _, fds, _, _ = s.recv_fds(c, 100, 10)
                tell("received", len(fds))
                # What the service hands in is its own decision: it can be read, and gains no more than it was opened for.
                attempt("read", lambda: os.pread(fds[0], 10, 0))
                attempt("write", lambda: os.pwrite(fds[0], b"x", 0))
                attempt("reopen", lambda: os.open("/proc/self/fd/%d" % fds[0], os.O_RDWR))
                attempt("chmod", lambda: os.fchmod(fds[0], 0o777))
                attempt("truncate", lambda: os.truncate("/proc/self/fd/%d" % fds[0], 0))
                attempt("link", lambda: os.link("/proc/self/fd/%d" % fds[0], "taken", follow_symlinks=True))
                """, address))
        result.allowed("send", "read")
        result.refused("write", "reopen", "chmod", "truncate", "link", how=GONE + ("EBADF",))
        same(len(got), 3, "descriptors that arrived")
        host = (os.stat("/").st_dev, os.stat("/").st_ino)
        check(host not in [identity for _, identity, _ in got], "the host's root came out of the sandbox")
        same([flags for _, _, flags in got], [os.O_RDONLY, os.O_PATH, os.O_RDONLY], "how they are open")


RACE = TALK + r"""
import itertools
class Address(ctypes.Structure):
    _fields_ = [("family", ctypes.c_uint16), ("path", ctypes.c_char * 108)]
address = Address(1, b"own.sock")
size = 2 + len(b"own.sock") + 1
server = s.socket(s.AF_UNIX); server.bind("own.sock"); server.listen(1000)
stop = time.monotonic() + float(arg[0])
over, said = False, {}
def going():
    "For its time, and then until both have been met, of which the other is refused only inside."
    wanted = {"ok"} if arg[2:] else {"ok", "EACCES"}
    return time.monotonic() < stop or time.monotonic() < stop + 60 and not wanted <= set(said)
def accept():
    # As long as anybody may wait in the queue.
    server.settimeout(0.2)
    while not over:
        try:
            server.accept()[0].close()
        except OSError:
            pass
def flip():
    ways = itertools.cycle(("own.sock", "app.sock"))
    while going():
        for _ in range(50):
            address.path = next(ways).encode()
def swap():
    unix, inet = s.socket(s.AF_UNIX), s.socket(s.AF_UNIX, s.SOCK_SEQPACKET) if arg[1] else s.socket()
    while going():
        os.dup2(inet.fileno(), 90); os.dup2(unix.fileno(), 90)
        unix.close(); unix = s.socket(s.AF_UNIX)
        os.dup2(unix.fileno(), 90); os.close(90)
sys.setswitchinterval(1e-5)
def race(make):
    while going():
        c = make()
        ctypes.set_errno(0)
        r = libc.connect(c if isinstance(c, int) else c.fileno(), ctypes.byref(address), size)
        key = "ok" if r == 0 else errno.errorcode[ctypes.get_errno()]
        said[key] = said.get(key, 0) + 1
        if not isinstance(c, int):
            c.close()
def quiet():
    c = s.socket(s.AF_UNIX); c.setblocking(False); return c
taker = threading.Thread(target=accept); taker.start()
threads = [threading.Thread(target=t) for t in (flip, swap)] + [threading.Thread(target=race, args=(make,)) for make in (lambda: s.socket(s.AF_UNIX), quiet, lambda: 90)]
for t in threads: t.start()
for t in threads: t.join()
over = True
taker.join()
print("said", said)
tell("reached own", "ok" if said.get("ok") else "never")
tell("met the other", "ok" if said.get("EACCES") else "never")
# To a listener of its own: the queue of the other one may be full by now.
fresh = s.socket(s.AF_UNIX); fresh.bind(os.environ["TMPDIR"] + "/alive" if arg[1] else "\0alive-%d" % os.getpid()); fresh.listen(1)
connect_back = s.socket(s.AF_UNIX); attempt("guard alive", lambda: connect_back.connect(fresh.getsockname()))
"""


@test("IPC-X connect races: an address or a descriptor that changes meanwhile")
def _():
    with Place() as place, Listener(place.ws + "/app.sock", handle=lambda _connection: None) as app:
        settle_workspace(place)
        place.expect("own.sock")
        result = run(place, [], inside_py(RACE, 2, BARE or ""))
        result.allowed("reached own", "met the other", "guard alive")
        same(app.came, [], "connections to the host's socket")
        os.unlink(place.ws + "/own.sock")
        plain(place, inside_py(RACE, 0.5, "", "outside"))
        check(app.came, "the race reaches nothing outside either")
        os.unlink(place.ws + "/own.sock")


@test("IPC-X bind races: no socket appears where none may")
def _():
    with Place() as place:
        place.expect("own-name*")  # a copy that is torn may be of two names
        os.makedirs(place.ws + "/.git/hooks", exist_ok=True)
        settle_workspace(place)
        code = TALK + r"""
import itertools
class Address(ctypes.Structure):
    _fields_ = [("family", ctypes.c_uint16), ("path", ctypes.c_char * 108)]
names = [b"own-name-here-0", b".git/hooks/abcd", b"/tmp/aaaaaaaaaa", b"\0bstract-nameXX"]
address = Address(1, names[0])
stop, said = time.monotonic() + float(arg[0]), {}
def going():
    return time.monotonic() < stop or time.monotonic() < stop + 60 and "ok" not in said
def flip():
    ways = itertools.cycle(names)
    while going():
        ctypes.memmove(ctypes.addressof(address) + 2, next(ways), 15)
sys.setswitchinterval(1e-5)
t = threading.Thread(target=flip); t.start()
while going():
    c = s.socket(s.AF_UNIX)
    r = libc.bind(c.fileno(), ctypes.byref(address), 17 + 1)
    key = "ok" if r == 0 else errno.errorcode[ctypes.get_errno()]
    said[key] = said.get(key, 0) + 1
    c.close()
    for name in names:
        try: os.unlink(name)
        except (OSError, ValueError): pass
t.join()
print("said", said)
"""
        hooks = set(os.listdir(place.ws + "/.git/hooks"))
        running = start(place, [], inside_py(code, 2))
        seen = set()
        while running.process.poll() is None:
            seen |= set(os.listdir(place.ws + "/.git/hooks")) - hooks
        result = running.wait()
        check("'ok'" in result.out, "nothing was ever bound: %s" % result.out)
        same(seen, set(), "names that appeared among the hooks")


@test("IPC-X addresses of every length and family")
def _():
    with Place() as place, Listener(place.ws + "/app.sock") as app:
        settle_workspace(place)
        place.expect("x*", "y*")
        result = run(place, [], inside_py(TALK + r"""
def call(what, raw, size, kind=s.AF_UNIX):
    c = s.socket(kind)
    room = ctypes.create_string_buffer(raw, max(len(raw), 1))
    return -1 if getattr(libc, what)(c.fileno(), room, ctypes.c_uint(size)) == 0 else ctypes.get_errno()
for what in ("connect", "bind"):
    worked = {}
    for size in [*range(0, 140), 255, 256, 4096, 0x7fffffff, 0x80000000, 0xffffffff]:
        for fill in (b"x", b"/", b"\xff", b"\0"):
            for family in (0, 1, 2, 10, 16, 0xffff):
                raw = struct.pack("H", family) + fill * 8192
                said = call(what, raw, size)
                if said == -1 and what == "bind" and fill in b"x\xff" and family == 1 and 2 <= size <= 110:
                    if size > 2:  # else the kernel has chosen an abstract name
                        os.unlink(fill * (size - 2))
                elif said == -1 and size > 2:
                    worked[(what, size, fill, family)] = said
                call(what, raw, size, s.AF_INET)
    print("worked", what, sorted(k for k in worked if k[2] != b"\0" and k[3] != 0)[:10])
attempt("bad pointer", lambda: (libc.connect(s.socket(s.AF_UNIX).fileno(), ctypes.c_void_p(1), 10) == 0) or os.close(ctypes.get_errno() == errno.EFAULT and -1))
long = b"x" * 107
server = s.socket(s.AF_UNIX); attempt("107 bytes", lambda: server.bind(long)); server.listen()
c = s.socket(s.AF_UNIX); attempt("to 107 bytes", lambda: c.connect(long))
os.unlink(long)
attempt("guard alive", lambda: put("y"))
"""))
        check("worked connect []" in result.out and "worked bind []" in result.out, result.out)
        result.allowed("107 bytes", "to 107 bytes", "guard alive")
        same(app.came, [], "connections")


@test("IPC-X connects that wait do not hold up the others, and leave nothing")
def _():
    with Place() as place:
        place.expect("full.sock", "own.sock", "made")
        running = start(place, ["--timeout", "4m"], inside_py(TALK + r"""
def comm(n):
    try:
        return open("/proc/%s/comm" % n).read()
    except OSError:
        return ""  # it has ended since it was listed
def waiting():
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and comm(n).startswith("atoll")]
full = s.socket(s.AF_UNIX); full.bind("full.sock"); full.listen(0)
first = s.socket(s.AF_UNIX); first.connect("full.sock")
quiet = s.socket(s.AF_UNIX); quiet.setblocking(False)
attempt("non-blocking", lambda: quiet.connect("full.sock"))
children = []
for n in range(100):
    pid = os.fork()
    if pid == 0:
        try:
            s.socket(s.AF_UNIX).connect("full.sock"); os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    children.append(pid)
def blocked():
    return [pid for pid in children if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None]
until(lambda: len(blocked()) <= 64 <= len(waiting()) - 1)  # there are no more helpers; the others have been told
own = s.socket(s.AF_UNIX); own.bind("own.sock"); own.listen()
attempt("a file meanwhile", lambda: put("made"))
quiet = s.socket(s.AF_UNIX); quiet.setblocking(False)
attempt("another socket, non-blocking", lambda: quiet.connect("own.sock"))
# Nobody accepts: they would wait for ever, and so would whoever waits for them.
tell("blocked meanwhile", len(blocked()))
for pid in children:
    os.kill(pid, signal.SIGKILL)
for pid in children:
    os.waitpid(pid, 0)
until(lambda: len(waiting()) == 1)
tell("helpers left", len(waiting()) - 1)
c = s.socket(s.AF_UNIX); attempt("afterwards", lambda: c.connect("own.sock"))
# Many rounds, with orphans in between: the number of helpers stays bounded.
most = 0
for _ in range(2):
    children = []
    for n in range(60):
        pid = os.fork()
        if pid == 0:
            if os.fork() == 0:
                os._exit(0)
            try:
                s.socket(s.AF_UNIX).connect("full.sock")
            finally:
                os._exit(0)
        children.append(pid)
    until(lambda: len(waiting()) > 50)
    most = max(most, len(waiting()) - 1)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
tell("most helpers", most)
"""))
        result = running.wait(2 * RUN_SECONDS)
        same(result.tries["non-blocking"], "EAGAIN", "a full queue")
        check(int(result.tries["blocked meanwhile"]) >= 60, "%s were waiting when other work was done" % result.tries["blocked meanwhile"])
        result.allowed("a file meanwhile", "another socket, non-blocking", "afterwards")
        same(result.tries["helpers left"], "0", "helpers of callers that are dead")
        check(int(result.tries["most helpers"]) <= 64, "%s helpers at once" % result.tries["most helpers"])


@test("IPC-X a hundred connects at once, by processes and by threads")
def _():
    with Place() as place:
        place.expect("own.sock")
        result = run(place, [], inside_py(TALK + r"""
server = s.socket(s.AF_UNIX); server.bind("own.sock"); server.listen(200)
tcp = s.create_server(("127.0.0.1", 0), backlog=200)
def serve(listener):
    for _ in range(200):
        c, _ = listener.accept()
        c.sendall(b"y"); c.close()
for listener in (server, tcp):
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
def one(where):
    try:
        if where == "unix":
            c = s.socket(s.AF_UNIX); c.connect("own.sock")
        else:
            c = s.create_connection(tcp.getsockname())
        return "ok" if c.recv(1) == b"y" else "no answer"
    except OSError as error:
        return errno.errorcode[error.errno]
for where in ("unix", "tcp"):
    said, lock = [], threading.Barrier(100)
    def thread():
        lock.wait(); said.append(one(where))
    threads = [threading.Thread(target=thread) for _ in range(100)]
    for t in threads: t.start()
    for t in threads: t.join()
    tell("threads " + where, {k: said.count(k) for k in said})
    children = []
    r, w = os.pipe()
    for _ in range(100):
        pid = os.fork()
        if pid == 0:
            os.close(w); os.read(r, 1)
            os._exit(0 if one(where) == "ok" else 1)
        children.append(pid)
    os.close(w); os.close(r)
    tell("processes " + where, sum(os.waitpid(pid, 0)[1] == 0 for pid in children))
"""))
        for where in ("unix", "tcp"):
            same((result.tries["threads " + where], result.tries["processes " + where]), ("{'ok': 100}", "100"), where)


@test("IPC-X sockets inside: credentials, threads, names, and a process without its main thread")
def _():
    with Place() as place:
        place.expect("own.sock", "d")
        result = run(place, [], inside_py(TALK + r"""
server = s.socket(s.AF_UNIX); server.bind("own.sock"); server.listen()
c = s.socket(s.AF_UNIX); c.connect("own.sock"); a, _ = server.accept()
pid, uid, gid = struct.unpack("iii", a.getsockopt(s.SOL_SOCKET, s.SO_PEERCRED, 12))
tell("who", "ok" if (uid, gid) == (os.getuid(), os.getgid()) else "%d %d" % (uid, gid))
tell("twice", errno.errorcode.get(c.connect_ex("own.sock")))
os.mkdir("d"); os.chdir("d")
attempt("from another directory", lambda: s.socket(s.AF_UNIX).connect("../own.sock"))
attempt("a file", lambda: s.socket(s.AF_UNIX).connect("../f"))
attempt("nothing", lambda: s.socket(s.AF_UNIX).connect("../none"))
attempt("no socket", lambda: s.socket(fileno=os.open("/dev/null", 0)).connect("../own.sock"))
def own_table():
    "A thread with a table of descriptors of its own."
    libc.unshare(0x400)
    c = s.socket(s.AF_UNIX)
    attempt("a thread's own descriptor", lambda: c.connect(os.path.abspath("../own.sock")))
t = threading.Thread(target=own_table); t.start(); t.join()
pid = os.fork()
if pid == 0:
    def later():
        time.sleep(0.2)
        attempt("without a main thread", lambda: s.socket(s.AF_UNIX).connect("../own.sock"))
        attempt("a file without a main thread", lambda: put("x"))
        os._exit(0)
    threading.Thread(target=later).start()
    libc.syscall(60, 0)
os.waitpid(pid, 0)
"""))
        result.allowed("who", "from another directory", "a thread's own descriptor", "without a main thread", "a file without a main thread")
        same((result.tries["twice"], result.tries["a file"], result.tries["nothing"]), ("EISCONN", "ECONNREFUSED", "ENOENT"), "errors")
        among(result.tries["no socket"], ("ENOTSOCK", "ECONNREFUSED", "error OSError"), "no socket")


# ---- the network that is not there ----------------------------------------------------------------------------------

@test("IPC-X servers on the loopback inside work, and are nobody else's")
def _():
    with Place() as place:
        place.expect("up", "index.html", "go")
        write(place.ws + "/index.html", "from inside\n")
        running = start(place, [], inside_py(r"""
            import http.server, shutil, socket as s, subprocess, threading, urllib.request
            class Quiet(http.server.SimpleHTTPRequestHandler):
                def log_message(self, *_): pass
            class Six(http.server.ThreadingHTTPServer):
                address_family = s.AF_INET6
            four, six = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet), Six(("::1", 0), Quiet)
            for server in (four, six):
                threading.Thread(target=server.serve_forever, daemon=True).start()
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            for url in ("http://127.0.0.1:%d/", "http://localhost:%d/"):
                attempt(url[7:-4], lambda: opener.open(url % four.server_port, timeout=30).read() == b"from inside\n" or 1 / 0)
            attempt("::1", lambda: opener.open("http://[::1]:%d/" % six.server_port, timeout=30).read() == b"from inside\n" or 1 / 0)
            if shutil.which("curl"):
                done = subprocess.run(["curl", "-s", "-m", "30", "http://127.0.0.1:%d/index.html" % four.server_port], stdout=subprocess.PIPE)
                tell("curl", "ok" if done.stdout == b"from inside\n" else repr(done))
            for family, host in ((s.AF_INET, "127.0.0.1"), (s.AF_INET6, "::1")):
                a, b = s.socket(family, s.SOCK_DGRAM), s.socket(family, s.SOCK_DGRAM)
                a.bind((host, 0)); a.settimeout(30)
                def both_ways():
                    b.sendto(b"x", a.getsockname()); assert a.recv(10) == b"x"
                    b.connect(a.getsockname()); b.send(b"y"); assert a.recv(10) == b"y"
                attempt("UDP " + host, both_ways)
            any = s.create_server(("", 0))
            attempt("any address", lambda: s.create_connection(("127.0.0.1", any.getsockname()[1]), 30))
            c = s.socket(); c.setblocking(False)
            said = c.connect_ex(any.getsockname())
            tell("non-blocking", "ok" if said in (0, errno.EINPROGRESS) else errno.errorcode[said])
            tell("nobody there", errno.errorcode.get(s.socket().connect_ex(("127.0.0.1", 1))))
            attempt("low port", lambda: s.create_server(("127.0.0.1", 80)))
            print("ports", four.server_port, any.getsockname()[1], flush=True)
            put("up", b"%d %d" % (four.server_port, any.getsockname()[1]))
            while not os.path.exists("go"):
                time.sleep(0.01)
            """))
        wait_file(place, "up")
        until(lambda: b" " in read(place.ws + "/up"))
        for port in map(int, read(place.ws + "/up").split()):
            taken = socket.socket()
            said = taken.connect_ex(("127.0.0.1", port))
            check(said == errno.ECONNREFUSED, "the host reaches port %d of the run: %d" % (port, said))
            taken.close()
        write(place.ws + "/go")
        result = running.wait()
        result.allowed("127.0.0.1", "localhost", "::1", "UDP 127.0.0.1", "UDP ::1", "any address", "non-blocking")
        among(result.tries.get("curl", "ok"), ("ok",), "curl")
        same(result.tries["nobody there"], "ECONNREFUSED", "a port where nobody listens")
        among(result.tries["low port"], ("EACCES", "EPERM", "ok"), "a low port")


@test("IPC-X the host's loopback is not the sandbox's")
def _():
    with Place() as place, Sink(place) as sink:
        code = r"""
            import socket as s
            def udp(family, where):
                c = s.socket(family, s.SOCK_DGRAM); c.settimeout(30); c.connect(where); c.send(b"x"); c.send(b"y")
            for host in ("127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0"):
                attempt("tcp " + host, lambda: s.create_connection((host, int(arg[0])), 30))
            attempt("udp", lambda: udp(s.AF_INET, ("127.0.0.1", int(arg[1]))))
            if arg[2] != "None":
                attempt("tcp6", lambda: s.create_connection(("::1", int(arg[2])), 30))
                attempt("udp6", lambda: udp(s.AF_INET6, ("::1", int(arg[3]))))
            """
        ports = sink.tcp4, sink.udp4, sink.tcp6, sink.udp6
        result = run(place, [], inside_py(code, *ports))
        result.refused(how=("ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"))
        time.sleep(0.1)
        same(sink.log, [], "what arrived")
        plain(place, inside_py(code, *ports)).allowed("tcp 127.0.0.1")
        check(until(lambda: {"tcp4", "udp4"} <= {which for which, _ in sink.log}), "the host's listeners do not work: %s" % sink.log)


@test("IPC-X every other address fails at once")
def _():
    with Place() as place:
        # Never outside: these are other people's machines. Inside they are tried only once it is certain that no way leads there.
        result = run(place, ["--timeout", "100s"], inside_py(r"""
            import socket as s
            if os.readlink("/proc/self/ns/net") == arg[0] or len(open("/proc/net/route").read().splitlines()) > 1 or [n for _, n in s.if_nameindex()] != ["lo"]:
                print("not isolated"); sys.exit(9)
            print("isolated")
            def timed(label, action):
                # A network that swallows packets would keep the first of them for minutes.
                began = time.monotonic()
                attempt(label, action)
                if time.monotonic() - began > 30:
                    tell(label, "slow: %.1f s" % (time.monotonic() - began))
            def tcp(family, where):
                c = s.socket(family); c.settimeout(None); c.connect(where)
            def udp(family, where):
                c = s.socket(family, s.SOCK_DGRAM); c.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); c.sendto(b"x", where)
            def quiet(family, where):
                c = s.socket(family); c.setblocking(False); c.connect(where)
            four = "1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.17.0.1", "100.100.100.200", "224.0.0.1", "255.255.255.255"
            six = "2606:4700:4700::1111", "fd00:ec2::254", "fe80::1", "ff02::1", "::ffff:1.1.1.1", "64:ff9b::101:101"
            for how in (tcp, udp, quiet):
                for host in four:
                    timed("%s %s" % (how.__name__, host), lambda: how(s.AF_INET, (host, 53)))
                for host in six:
                    timed("%s %s" % (how.__name__, host.replace(":", ".")), lambda: how(s.AF_INET6, (host, 53, 0, 0)))
            def name(host):
                try:
                    print(s.getaddrinfo(host, 80))
                except s.gaierror as error:
                    raise OSError(errno.ENETUNREACH, str(error))
            for host in ("example.org", "metadata.google.internal", "nonexistent.invalid"):
                timed("name " + host, lambda: name(host))
            """, os.readlink("/proc/self/ns/net")))
        check("isolated" in result.out and result.status == 0, "the network is not the sandbox's own: nothing was tried")
        result.refused(how=("ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EADDRNOTAVAIL", "ECONNREFUSED"))
        for label in ("tcp 1.1.1.1", "udp 8.8.8.8", "quiet 1.1.1.1", "tcp 169.254.169.254", "udp 255.255.255.255"):
            same(result.tries[label], "ENETUNREACH", label)


main()
