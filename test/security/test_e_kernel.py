# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
# check: bare
"""
Family E of the escape corpus: the kernel's surface (KS), and more of the same kind (KS-X)

A refusal counts only if it is the sandbox's: the same calls are made outside, where they succeed or fail for another reason. Some
end in EPERM there too when the caller is an ordinary user; those are told apart as root only.

Whatever is tried here is harmless if it succeeds: paths that do not exist, bad pointers, wrong magic numbers.

later:
  KS-13  `atoll doctor` naming kernels that are known to be bad: comes with the list of them
  KS-14  vm86: 32-bit code only, which dies at its first call (KS-X i386)
  KS-16  outside these numbers are ENOSYS too, until a kernel has them: that the filter decides is shown by src/isolate/ns/test-filter.c
"""
import os
import platform
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

NO_FAMILY = ("EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM")


def need_x86_64():
    if platform.machine() != "x86_64":
        skip("x86-64 (the numbers here are its)")


def compare(code, *args, flags=(), expect=(), known=()):
    """The same Python inside and outside. Everything tried inside must be refused with what the outside does not say; `known` are
    labels that this host refuses by itself. Returns both results."""
    with Place() as place:
        place.expect(*expect)
        inside = run(place, list(flags), inside_py(code, *args))
        same(inside.tries.get("end"), "ok", "the attack's end")
    with Place(strict=False) as place:
        place.expect("*")
        outside = plain(place, inside_py(code, *args))
        same(outside.tries.get("end"), "ok", "the end outside")
    for label, said in inside.tries.items():
        check(label == "end" or label in known or said != outside.tries.get(label),
              "%s: %s inside as well as outside, so nothing is shown" % (label, said))
    return inside, outside


def answers(result, wanted):
    """Each label got one of the errors wanted for it."""
    for label, errors in wanted.items():
        check(label in result.tries, "%s was not tried" % label)
        among(result.tries[label], errors.split(), label)


def compiled(place, source, *flags):
    """A program from C text, in the workspace. Skips the test without a compiler."""
    need("gcc")
    path, text = os.path.join(place.ws, "prog"), os.path.join(place.tmp, "prog.c")
    write(text, source)
    done = subprocess.run(["gcc", "-O1", "-o", path, text, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        skip("gcc %s: %s" % (" ".join(flags), done.stdout.strip()[:200]))
    os.chmod(path, 0o755)
    place.settle()
    return path


def tasks_beneath(pid):
    """Threads of all processes beneath one, seen from the host."""
    parent, threads = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = read("/proc/%s/stat" % entry).decode("utf-8", "replace").rpartition(")")[2].split()
            parent[int(entry)], threads[int(entry)] = int(fields[1]), int(fields[17])
    found = {pid}
    while True:
        more = {p for p, above in parent.items() if above in found} - found
        if not more:
            return sum(threads[p] for p in found if p != pid)
        found |= more


# ---- calls by number ------------------------------------------------------------------------------------------------

@test("KS-01 io_uring")
def _():
    need_x86_64()
    inside, outside = compare(r"""
        page = ctypes.create_string_buffer(512)
        attempt("setup", lambda: syscall(425, 8, page))
        attempt("setup, bad pointer", lambda: syscall(425, 8, None))
        attempt("enter", lambda: syscall(426, -1, 1, 0, 0, None, 0))
        attempt("register", lambda: syscall(427, -1, 0, None, 0))
        """)
    inside.refused(how=("EPERM", "ENOSYS"))
    check(outside.tries["enter"] in ("EBADF", "EINVAL"), "io_uring_enter outside: %s" % outside.tries["enter"])


@test("KS-02 bpf, and a socket filter by SO_ATTACH_BPF")
def _():
    need_x86_64()
    code = r"""
        import socket
        attempt("map", lambda: syscall(321, 0, struct.pack("IIII", 2, 4, 4, 1) + bytes(112), 128))
        attempt("prog", lambda: syscall(321, 5, bytes(128), 128))
        attempt("no such command", lambda: syscall(321, 9999, None, 0))
        s = socket.socket()
        if arg[0] == "sockets":
            attempt("attach", lambda: s.setsockopt(socket.SOL_SOCKET, 50, struct.pack("i", -1)))
            attempt("attach, reuseport", lambda: s.setsockopt(socket.SOL_SOCKET, 52, struct.pack("i", -1)))
        """
    with Place() as place:
        result = run(place, [], inside_py(code, "sockets"))
        answers(result, {"map": "EPERM", "prog": "EPERM", "no such command": "EPERM"})
        # No descriptor of a program can be had; the option itself is harmless without one.
        answers(result, {"attach": "EBADF EPERM EINVAL", "attach, reuseport": "EBADF EPERM EINVAL"})
    if IS_ROOT:
        _, outside = compare(code, "")
        same(outside.tries["map"], "ok", "a map outside")


@test("KS-03 perf_event_open")
def _():
    need_x86_64()
    inside, _ = compare(r"""
        attempt("software clock", lambda: os.close(syscall(298, struct.pack("IIQQQQQ", 1, 120, 0, 0, 0, 0, 0x60) + bytes(72), 0, -1, -1, 0)))
        attempt("bad pointer", lambda: syscall(298, None, 0, -1, -1, 0))
        """, known=("software clock",) if not IS_ROOT else ())
    answers(inside, {"software clock": "EACCES EPERM ENOSYS", "bad pointer": "EACCES EPERM ENOSYS"})


@test("KS-04 userfaultfd with UFFD_USER_MODE_ONLY, and its device")
def _():
    need_x86_64()
    inside, outside = compare(r"""
        attempt("user mode only", lambda: os.close(syscall(323, 1)))
        attempt("bad flags", lambda: os.close(syscall(323, 0xff00)))
        """)
    inside.refused(how=("EPERM", "ENOSYS"))
    same(outside.tries["user mode only"], "ok", "outside")
    with Place() as place:
        run(place, [], inside_py('attempt("device", lambda: os.open("/dev/userfaultfd", os.O_RDWR))')).refused("device")


@test("KS-05 add_key, request_key, keyctl")
def _():
    need_x86_64()
    inside, outside = compare(r"""
        attempt("add", lambda: syscall(248, b"user", b"atoll-test", b"x", 1, -2))
        attempt("request", lambda: syscall(249, b"user", b"atoll-test-none", None, 0))
        for number, name in enumerate("get_keyring_id join update revoke chown setperm describe clear link unlink search read".split()):
            attempt(name, lambda: syscall(250, number, -3, 0, 0, 0)) if name not in ("join", "revoke", "clear", "unlink") else None
        attempt("join", lambda: syscall(250, 1, None))
        attempt("persistent", lambda: syscall(250, 22, -1, -2))
        attempt("no such operation", lambda: syscall(250, 9999))
        """)
    inside.refused(how=("EPERM", "ENOSYS"))
    same(outside.tries["join"], "ok", "a new session keyring outside")


# What is refused by number alone: number, arguments that do nothing, the answer. "r": outside it is refused to an ordinary user, too.
CALLS = r"""
table = {
    "mount": (165, b"/nonexistent/a", b"/nonexistent/b", b"tmpfs", 0, None), "umount2": (166, b"/nonexistent", 0),
    "pivot_root": (155, b"/nonexistent/a", b"/nonexistent/b"), "chroot": (161, b"/nonexistent"), "setns": (308, -1, 0),
    "open_tree": (428, -1, b"nonexistent", 0), "open_tree_attr": (467, -1, b"nonexistent", 0, None, 0), "move_mount": (429, -1, b"a", -1, b"b", 0),
    "mount_setattr": (442, -1, b"nonexistent", 0, None, 0), "fsopen": (430, b"nonexistent-fs", 0), "fsconfig": (431, -1, 0, None, None, 0),
    "fsmount": (432, -1, 0, 0), "fspick": (433, -1, b"nonexistent", 0), "statmount": (457, None, None, 0, 0), "listmount": (458, None, None, 0, 0),
    "name_to_handle_at": (303, -100, b"/nonexistent", None, None, 0), "open_by_handle_at": (304, -1, None, 0),
    "fanotify_init": (300, 0xffffff, 0), "fanotify_mark": (301, -1, 0, 0, -1, None), "memfd_secret": (447, 0xff00),
    "move_pages": (279, 0, 0, None, None, None, 0), "migrate_pages": (256, 0, 0, None, None),
    "kexec_load": (246, 0, 1 << 20, None, 0xffff), "kexec_file_load": (320, -1, -1, 0, None, 0xffff), "reboot": (169, 1, 2, 3, None),
    "init_module": (175, None, 0, None), "finit_module": (313, -1, b"", 0xffff), "delete_module": (176, b"atoll_no_such_module", 0o4000),
    "swapon": (167, b"/nonexistent", 0), "swapoff": (168, b"/nonexistent"), "acct": (163, b"/nonexistent/file"),
    "quotactl": (179, 0x7fffffff, b"/nonexistent", 0, None), "quotactl_fd": (443, -1, 0x7fffffff, 0, None),
    "settimeofday": (164, ctypes.c_void_p(1), None), "clock_settime": (227, 0, ctypes.c_void_p(1)), "adjtimex": (159, ctypes.c_void_p(1)),
    "clock_adjtime": (305, 0, ctypes.c_void_p(1)), "sethostname": (170, None, -1), "setdomainname": (171, None, -1), "syslog": (103, 100, None, 0),
    "modify_ldt": (154, 0, ctypes.create_string_buffer(64), 64), "iopl": (172, 0), "ioperm": (173, 0x80, 1, 0), "set_thread_area": (205, None),
    "lsm_list_modules": (461, None, None, 0), "lsm_get_self_attr": (459, 100, None, None, 0), "file_setattr": (469, -1, b"nonexistent", None, 0, 0),
    "sysfs": (139, 3, 0), "ustat": (136, 0, None), "clone3": (435, None, 0),
}
for name, (number, *rest) in table.items():
    attempt_child(name, lambda: syscall(number, *rest))
"""
SAY = {
    "ENOSYS": "open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick statmount listmount memfd_secret modify_ldt "
              "set_thread_area lsm_list_modules lsm_get_self_attr sysfs ustat clone3",
    "EOPNOTSUPP": "name_to_handle_at file_setattr",
    "EPERM": "mount umount2 pivot_root chroot setns open_by_handle_at fanotify_init fanotify_mark move_pages migrate_pages kexec_load "
             "kexec_file_load reboot init_module finit_module delete_module swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime "
             "adjtimex clock_adjtime sethostname setdomainname syslog iopl ioperm",
}


@test("KS-06 mounts, modules, clocks and the machine's other matters, by number")
def _():
    need_x86_64()
    with Place() as place:
        inside = run(place, [], inside_py(CALLS))
        for error, names in SAY.items():
            inside.refused(*names.split(), how=(error,))
    with Place(strict=False) as place:
        outside = plain(place, inside_py(CALLS)).tries
    alike = {name for name, said in inside.tries.items() if name != "end" and said == outside[name]}
    # A kernel may lack some of them, or ask for a capability first; not so many that the test would be worth nothing.
    lacking = {name for name, said in outside.items() if said == "ENOSYS"}
    if IS_ROOT:
        check(not alike - lacking - {"setns"}, "the same outside: %s" % sorted(alike - lacking))
    check(len(outside) - len(alike) > 20, "only %d of %d differ outside" % (len(outside) - len(alike), len(outside)))


@test("KS-16 unknown system call numbers")
def _():
    need_x86_64()
    with Place() as place:
        result = run(place, [], inside_py(r"""
            def ask(number):
                try:
                    return "answered %d" % syscall(number, -1, -1, -1, -1, -1, -1)
                except OSError as error:
                    return error.errno
            numbers = [*range(337, 424), *range(470, 1024), 4096, 65535, 1 << 20, (1 << 30) - 1, (1 << 31) - 1, 0x3fffffff]
            wrong = {n: said for n in numbers if (said := ask(n)) != errno.ENOSYS}
            tell("unknown", "ok" if not wrong else str(wrong))
            tell("asked", len(numbers))
            """))
        same(result.tries["unknown"], "ok", "numbers 337..423, 470..1023 and large ones")
        check(int(result.tries["asked"]) > 600, "too few were asked")


@test("KS-X x32: every number with its bit is no call")
def _():
    need_x86_64()
    with Place() as place:
        result = run(place, [], inside_py(r"""
            wrong = {}
            for n in [*range(0, 470), *range(512, 548)]:
                if n in (15, 56, 57, 58, 59, 60, 231, 34, 435, 513, 520):  # would end, copy or replace this process if it were one
                    continue
                try:
                    wrong[n] = syscall(0x40000000 | n, -1, -1, -1, -1, -1, -1)
                except OSError as error:
                    if error.errno != errno.ENOSYS:
                        wrong[n] = error.errno
            tell("x32", "ok" if not wrong else str(wrong))
            """))
        same(result.tries["x32"], "ok", "calls with the x32 bit")


INT80 = r"""
import mmap
def int80(number, a=0, b=0, c=0):
    "By the 32-bit entry, from 64-bit code: push rbx; mov eax,n; mov ebx,a; mov ecx,b; mov edx,c; int 0x80; pop rbx; ret."
    code = b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", a) + b"\xb9" + struct.pack("<I", b) + b"\xba" + struct.pack("<I", c) + b"\xcd\x80\x5b\xc3"
    room = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    room.write(code)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))()
    if result < 0:
        raise OSError(-result, "int 0x80")
    return result
"""


@test("KS-X i386: int 0x80 from 64-bit code")
def _():
    need_x86_64()
    code = INT80 + r"""
attempt_child("getpid", lambda: int80(20))
attempt_child("socket, vsock", lambda: int80(359, 40, 1, 0))
attempt_child("socketcall", lambda: int80(102, 1, 0))
attempt_child("unknown", lambda: int80(5000))
attempt_child("io_uring_setup", lambda: int80(425, 1, 0))
"""
    inside, outside = compare(code)
    inside.refused(how=("signal 31",))
    if outside.tries["getpid"] == "ok":
        check(outside.tries["unknown"] == "ENOSYS", "an unknown 32-bit call outside: %s" % outside.tries["unknown"])


@test("KS-X i386: a static 32-bit program")
def _():
    need_x86_64()
    source = r"""
        static int call(int n, int a, const void *b, int c) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory"); return r; }
        void _start(void) { call(4, 1, "here\n", 5); call(1, 7, 0, 0); for (;;) ; }
        """
    with Place() as place:
        program = compiled(place, source, "-m32", "-nostdlib", "-static", "-fno-pic", "-fno-stack-protector")
        outside = plain(place, [program])
        if outside.out != "here\n":
            skip("a kernel that runs 32-bit programs")
        same(outside.status, 7, "its status outside")
        result = run(place, [], ["./prog"])
        same((result.out, result.status), ("", 128 + 31), "output and status inside")


# ---- sockets --------------------------------------------------------------------------------------------------------

@test("KS-07 packet, XDP, raw and ICMP sockets")
def _():
    code = r"""
        import socket as s
        high = 0xdead << 32  # the kernel takes an int and does not look there
        for label, family, kind, protocol in (
                ("packet raw", 17, s.SOCK_RAW, 0x300), ("packet datagram", 17, s.SOCK_DGRAM, 0x300), ("packet old", s.AF_INET, 10, 0x300),
                ("xdp", 44, s.SOCK_RAW, 0), ("raw icmp", s.AF_INET, s.SOCK_RAW, 1), ("raw udp", s.AF_INET, s.SOCK_RAW, 17),
                ("raw raw", s.AF_INET, s.SOCK_RAW, 255), ("ping", s.AF_INET, s.SOCK_DGRAM, 1), ("ping6", s.AF_INET6, s.SOCK_DGRAM, 58),
                ("raw icmp6", s.AF_INET6, s.SOCK_RAW, 58), ("raw tcp, flags", s.AF_INET, s.SOCK_RAW | s.SOCK_CLOEXEC | s.SOCK_NONBLOCK, 6)):
            attempt(label, lambda: os.close(syscall(41, family, kind, protocol)))
            if label.startswith(("packet", "raw")):
                attempt(label + ", high bits", lambda: os.close(syscall(41, high | family, high | kind, high | protocol)))
        """
    need_x86_64()
    if IS_ROOT:
        _, outside = compare(code, known=("xdp", "ping", "ping6", "packet old", "packet old, high bits"))
        same((outside.tries["packet raw"], outside.tries["raw icmp"], outside.tries["raw icmp, high bits"]), ("ok",) * 3, "outside")
    with Place() as place:
        run(place, [], inside_py(code)).refused(how=NO_FAMILY)
    # SCTP, DCCP, UDP-Lite, MPTCP, and the kernel's TLS and SMC by way of TCP.
    with Place() as place:
        result = run(place, [], inside_py(r"""
            import socket as s
            for label, kind, protocol in (("sctp", 1, 132), ("sctp seqpacket", 5, 132), ("dccp", 6, 33), ("udplite", 2, 136), ("mptcp", 1, 262),
                                          ("tcp as datagram", 2, 6), ("udp as stream", 1, 17), ("smc", 1, 256)):
                attempt(label, lambda: s.socket(s.AF_INET, kind, protocol))
            """))
        result.refused(how=NO_FAMILY)


@test("KS-08 netlink: only the routing part, and only to read")
def _():
    code = r"""
        import socket as s
        for number in range(32):
            for kind in (s.SOCK_RAW, s.SOCK_DGRAM):
                attempt("netlink %d.%d" % (number, kind), lambda: s.socket(s.AF_NETLINK, kind, number))
        """
    with Place() as place:
        result = run(place, [], inside_py(code))
        same(result.tries["end"], "ok", "the attack's end")
        for label, said in result.tries.items():
            if label.startswith("netlink 0."):
                same(said, "ok", label)
            elif label != "end":
                among(said, NO_FAMILY, label)
        outside = plain(place, inside_py(code)).tries
        check(sum(outside["netlink %d.3" % n] == "ok" for n in (4, 9, 12, 15, 16)) >= 2, "netlink does not work outside either")
    # Interfaces can be listed, and nothing be changed.
    with Place() as place:
        links = sorted(os.listdir("/sys/class/net"))
        result = run(place, [], inside_py(r"""
            import socket as s
            print("interfaces", [name for _, name in s.if_nameindex()])
            def request(kind, body):
                route = s.socket(s.AF_NETLINK, s.SOCK_RAW, 0)
                route.bind((0, 0))
                route.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
                got = route.recv(4096)
                error = struct.unpack_from("i", got, 16)[0]
                if error:
                    raise OSError(-error, "")
            link = struct.pack("BBHiII", 0, 0, 0, 0, 0, 0) + struct.pack("HH8s", 12, 3, b"atollt0") + struct.pack("HHHH6s", 16, 18, 10, 1, b"dummy") + bytes(2)
            attempt("new link", lambda: request(16, link))
            attempt("lo down", lambda: request(16, struct.pack("BBHiII", 0, 0, 0, 1, 0, 1)))
            attempt("new address", lambda: request(20, struct.pack("BBBBI", 2, 8, 0, 0, 1) + struct.pack("HH4s", 8, 2, bytes((10, 9, 9, 9)))))
            attempt("new route", lambda: request(24, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("HHi", 8, 4, 1)))
            attempt("new rule", lambda: request(32, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0)))
            """))
        check("interfaces ['lo']" in result.out, "interfaces are not listed, or are the host's")
        result.refused(how=("EPERM",))
        same(sorted(os.listdir("/sys/class/net")), links, "the host's interfaces")


@test("KS-10 vsock")
def _():
    code = r"""
        import socket as s
        for kind in (s.SOCK_STREAM, s.SOCK_DGRAM, s.SOCK_SEQPACKET):
            attempt("vsock %d" % kind, lambda: s.socket(40, kind, 0))
        attempt("vsock, type with flags", lambda: s.socket(40, s.SOCK_STREAM | s.SOCK_CLOEXEC | s.SOCK_NONBLOCK, 0))
        attempt("device", lambda: os.open("/dev/vsock", os.O_RDONLY))
        """
    with Place() as place:
        result = run(place, [], inside_py(code))
        result.refused(how=NO_FAMILY + ("ENOENT",))
        same(result.tries["device"], "ENOENT", "/dev/vsock")
        outside = plain(place, inside_py(code)).tries
        if outside["vsock 1"] != "ok":
            skip("a kernel with vsock (refused inside as it should be; outside it says %s as well)" % outside["vsock 1"])


@test("KS-11 all other families, one by one")
def _():
    need_x86_64()
    code = r"""
        import socket as s
        def kinds(call):
            said = []
            for kind in (1, 2, 3, 4, 5, 6, 10):
                try:
                    call(kind)
                    said.append("ok")
                except OSError as error:
                    said.append(errno.errorcode[error.errno])
            return said
        for family in range(0, 47):
            def make(kind):
                os.close(syscall(41, family, kind, 0))
            def pair(kind):
                two = ctypes.create_string_buffer(8)
                syscall(53, family, kind, 0, two)
                for fd in struct.unpack("ii", two.raw):
                    os.close(fd)
            print("family", family, *kinds(make))
            print("pair", family, *kinds(pair))
        """

    def table(result):
        return {tuple(words[:2]): words[2:] for words in map(str.split, result.out.splitlines()) if words[0] in ("family", "pair")}
    with Place() as place:
        inside = table(run(place, [], inside_py(code)))
        outside = table(plain(place, inside_py(code)))
    same(len(inside), 2 * 47, "families asked")
    able = {key for key, said in inside.items() if "ok" in said}
    same(able, {("family", "1"), ("family", "2"), ("family", "10"), ("family", "16"), ("pair", "1")}, "families that answer")
    for key, said in inside.items():
        for error in said:
            among(error, NO_FAMILY + ("ok", "ESOCKTNOSUPPORT"), "%s %s" % key)
    same(inside[("family", "1")][:2] + inside[("family", "1")][4:5], ["ok", "EPROTONOSUPPORT", "ok"], "unix stream, datagram, seqpacket")
    more = {key[1] for key, said in outside.items() if key[0] == "family" and "ok" in said} - {"1", "2", "10", "16"}
    if IS_ROOT:
        check(more, "no other family answers outside: this test shows nothing")


@test("KS-17 MSG_OOB on a unix socket, and MSG_FASTOPEN")
def _():
    need_x86_64()
    code = r"""
        import socket as s
        a, b = s.socketpair()
        io = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.create_string_buffer(b"x"), ctypes.c_void_p).value, 1)
        header = (ctypes.c_uint64 * 8)(0, 0, ctypes.addressof(io), 1, 0, 0, 0, 0)
        attempt("send", lambda: a.send(b"x", s.MSG_OOB))
        attempt("sendto", lambda: syscall(44, a.fileno(), b"x", 1, s.MSG_OOB, None, 0))
        attempt("sendmsg", lambda: a.sendmsg([b"x"], [], s.MSG_OOB))
        attempt("sendmsg, raw", lambda: syscall(46, a.fileno(), header, s.MSG_OOB))
        attempt("sendmmsg", lambda: syscall(307, a.fileno(), header, 1, s.MSG_OOB))
        attempt("sendto, high bits", lambda: syscall(44, a.fileno(), b"x", 1, (0xdead << 32) | s.MSG_OOB, None, 0))
        header[6] = s.MSG_OOB  # flags in the message's own memory mean nothing to the kernel
        syscall(46, a.fileno(), header, 0)
        server = s.create_server(("127.0.0.1", 0))
        attempt("fastopen", lambda: s.socket().sendto(b"x", 0x20000000, server.getsockname()))
        """
    with Place() as place:
        result = run(place, [], inside_py(code))
        result.refused(how=("EOPNOTSUPP",))
        same(len(result.tries), 8, "attempts")
        outside = plain(place, inside_py(code)).tries
        if "ok" not in outside.values():
            skip("a kernel with MSG_OOB on unix sockets (outside: %s)" % outside)


# ---- files, memory, processes ---------------------------------------------------------------------------------------

PAGE_CACHE = r"""
import mmap, socket as s
path = arg[0]
fd = os.open(path, os.O_RDONLY)
def dirty_pipe():
    "CVE-2022-0847: a pipe whose buffers were once mergeable, a page of the file in it, and then a write."
    r, w = os.pipe()
    size = 65536
    for _ in range(size // 4096):
        os.write(w, bytes(4096))
    for _ in range(size // 4096):
        os.read(r, 4096)
    os.splice(fd, w, 1, offset_src=4)
    os.write(w, b"OVERWRITTEN")
    os.read(r, 12)
def vmsplice():
    r, w = os.pipe()
    page = mmap.mmap(fd, 4096, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    address = ctypes.c_void_p()
    io = (ctypes.c_uint64 * 2)(0, 4096)
    syscall(275, w, 1, 0, 4096, 0)
    syscall(278, w, io, 1, 8)
def own_memory():
    "CVE-2016-5195: write through /proc/self/mem to a private read-only mapping, which must only change the copy."
    page = mmap.mmap(fd, 4096, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
    start = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(path) and " r--p " in line)
    with open("/proc/self/mem", "r+b", 0) as memory:
        for _ in range(200):
            memory.seek(start + 16)
            memory.write(b"OVERWRITTEN")
            page.madvise(mmap.MADV_DONTNEED)
def aead():
    "CVE-2026-31431: AF_ALG writing into pages that were spliced in."
    alg = s.socket(38, s.SOCK_SEQPACKET)
    alg.bind(("aead", "authencesn(hmac(sha256),cbc(aes))"))
def receive_in_place():
    a, b = s.socketpair()
    os.sendfile(a.fileno(), fd, 0, 4096)
    a.close()
    b.recv(4096)
def shared():
    mmap.mmap(fd, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_SHARED)[:11] = b"OVERWRITTEN"
def reopened():
    put("/proc/self/fd/%d" % fd, b"OVERWRITTEN", os.O_WRONLY)
def to_read_only():
    r, w = os.pipe()
    os.write(w, b"OVERWRITTEN")
    os.splice(r, fd, 11)
for action in (dirty_pipe, vmsplice, own_memory, aead, receive_in_place, shared, reopened, to_read_only):
    attempt(action.__name__, action)
attempt("plain", lambda: put(path, b"OVERWRITTEN", os.O_WRONLY))
"""


@test("KS-13 page-cache tricks on a file that may only be read")
def _():
    need_x86_64()

    def overwritten(place, _result):
        with open(place.out + "/canary", "rb") as file:
            cached = file.read()
            with contextlib.suppress(OSError):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            return b"OVERWRITTEN" in cached or b"OVERWRITTEN" in file.read()
    result = both(lambda p: inside_py(PAGE_CACHE, p.out + "/canary"), overwritten, deny=lambda p: ["--read", p.out], allow=lambda p: ["--write", p.out])
    result.refused("shared", "reopened", "to_read_only", "plain", how=GONE + ("EBADF",))
    same(result.tries["own_memory"], "ok", "writing one's own copy, as debuggers do")
    among(result.tries["aead"], NO_FAMILY, "AF_ALG")


@test("KS-13 the same on a program of the system")
def _():
    need_x86_64()
    with Place() as place:
        before = hashlib.sha256(read("/usr/bin/env")).digest()
        result = run(place, [], inside_py(PAGE_CACHE, os.path.realpath("/usr/bin/env")))
        result.refused("shared", "reopened", "to_read_only", "plain", how=GONE + ("EBADF", "ETXTBSY"))
        same(hashlib.sha256(read("/usr/bin/env")).digest(), before, "the program's bytes")


@test("KS-14 personality and odd corners of x86")
def _():
    need_x86_64()
    inside, _ = compare(r"""
        for label, value in (("read implies exec", 0x400000), ("no randomisation", 0x40000), ("both", 0x440000), ("mmap page zero", 0x100000),
                             ("compat layout", 0x200000), ("short inode", 0x1000000), ("whole seconds", 0x2000000), ("sticky timeouts", 0x4000000),
                             ("3 GB", 0x8000000), ("svr4", 0x4100001), ("with high bits", (0xdead << 32) | 0x400000)):
            attempt_child(label, lambda: syscall(135, value))
        attempt("modify_ldt", lambda: syscall(154, 0, ctypes.create_string_buffer(64), 64))
        attempt("modify_ldt write", lambda: syscall(154, 0x11, None, 0))
        attempt("iopl", lambda: syscall(172, 0))
        attempt("ioperm", lambda: syscall(173, 0x80, 1, 0))
        """)
    inside.refused(how=("EPERM", "ENOSYS"))
    with Place() as place:
        result = run(place, [], inside_py(r"""
            attempt("ask", lambda: syscall(135, 0xffffffff))
            attempt("linux", lambda: syscall(135, 0))
            attempt_child("linux32", lambda: syscall(135, 8))
            attempt_child("uname26", lambda: syscall(135, 0x20000))
            attempt_child("gs to the kernel's half", lambda: syscall(158, 0x1001, 0xffff888000000000 - (1 << 64)))
            attempt_child("no such arch_prctl", lambda: syscall(158, 0x7777, 0))
            """))
        result.allowed("ask", "linux", "linux32", "uname26")
        result.refused("gs to the kernel's half", "no such arch_prctl", how=("EPERM", "EINVAL"))


STORM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
static int child(void *data) { (void)data; for (;;) pause(); }
int main(int argc, char **argv)
{
	int flags = strcmp(argv[1], "shared") == 0 ? CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD
		    : strcmp(argv[1], "threads") == 0 ? CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM
		    : SIGCHLD;
	int made = 0, failed = 0, n;
	(void)argc;
	for (n = 0; n < 150; n++) {
		char *stack = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int pid;
		if (strcmp(argv[1], "vfork") == 0) {
			pid = vfork();
			if (pid == 0) {
				if (vfork() == 0) { sleep(1); _exit(0); }
				_exit(0);
			}
		} else
			pid = clone(child, stack + 16384, flags, 0);
		if (pid > 0) made++;
		else { failed = errno; break; }
	}
	printf("made %d then %s\n", made, failed ? strerror(failed) : "no failure");
	fflush(stdout);
	while (strcmp(argv[1], "vfork") && access("go", F_OK))
		usleep(10000);
	kill(-1, SIGKILL);
	return 0;
}
"""


@test("KS-19 clone storms stop at the limit of processes")
def _():
    for way in ("shared", "threads", "copies"):
        with Place() as place:
            compiled(place, STORM)
            place.expect("go")
            running = start(place, ["--pids", "40"], ["./prog", way])
            until(lambda: tasks_beneath(running.pid) >= 20)
            most = 0
            for _ in range(50):
                most = max(most, tasks_beneath(running.pid))
                time.sleep(0.01)
            write(place.ws + "/go")
            result = running.wait()
            made = int(result.out.split()[1])
            check("Resource temporarily unavailable" in result.out, "%s: %s" % (way, result.out))
            check(25 <= made <= 40, "%s: %d were made under a limit of 40" % (way, made))
            check(20 <= most <= 46, "%s: the host saw %d tasks" % (way, most))  # atoll's own are among them
            result = run(place, ["--pids", "400"], ["./prog", way])
            check("made 150 then no failure" in result.out, "%s with room: %s" % (way, result.out))


@test("KS-19 a vfork loop ends, and the limit holds for threads and processes together")
def _():
    with Place() as place:
        compiled(place, STORM)
        result = run(place, ["--pids", "20", "--timeout", "100s"], inside_py(r"""
            import subprocess, threading
            n = 0
            stop = time.monotonic() + 2
            while time.monotonic() < stop:
                try:
                    subprocess.run(["/bin/true"]); n += 1
                except OSError as error:
                    print("vfork", errno.errorcode[error.errno])
                    break
            tell("vforks", n)
            held = []
            def wait():
                time.sleep(600)
            try:
                for _ in range(60):
                    t = threading.Thread(target=wait, daemon=True); t.start(); held.append(t)
            except RuntimeError:
                pass
            tell("threads", len(held))
            try:
                os.fork() or os._exit(0)
                tell("fork", "ok")
            except OSError as error:
                tell("fork", errno.errorcode[error.errno])
            sys.stdout.flush()
            os._exit(0)
            """))
        same(result.status, 0, "status")
        check(int(result.tries["threads"]) <= 20, "%s threads under a limit of 20" % result.tries["threads"])
        same(result.tries["fork"], "EAGAIN", "one process more")


# ---- filters of one's own -------------------------------------------------------------------------------------------

FILTER = r"""
def install(program, flags=0):
    raw = b"".join(struct.pack("HBBI", *step) for step in program)
    room = ctypes.create_string_buffer(raw, len(raw))
    return syscall(317, 1, flags, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(room)))
LOAD_NR, RET = (0x20, 0, 0, 0), 0x06
def always(value):
    return [(RET, 0, 0, value)]
def on(number, value):
    return [LOAD_NR, (0x15, 0, 1, number), (RET, 0, 0, value), (RET, 0, 0, 0x7fff0000)]
ALLOW, ERRNO, TRACE, NOTIFY = 0x7fff0000, 0x00050000, 0x7ff00000, 0x7fc00000
"""


@test("KS-20 a workload's own seccomp filters work, and loosen nothing")
def _():
    need_x86_64()
    with Place() as place:
        place.expect("made")
        result = run(place, [], inside_py(FILTER + r"""
attempt("allow all", lambda: install(always(ALLOW)))
attempt_child("after: io_uring", lambda: syscall(425, 1, None))
attempt_child("after: mount", lambda: syscall(165, b"/nonexistent", b"/nonexistent", b"tmpfs", 0, None))
attempt_child("after: vsock", lambda: syscall(41, 40, 1, 0))
attempt("after: a hook", lambda: put(".git/hooks/pre-commit"))
attempt("after: a file", lambda: put("made"))
def own():
    install(on(110, ERRNO | 77))   # getppid
    syscall(110)
attempt_child("own refusal", own)
def over_guard():
    install(on(257, ALLOW))        # openat: what we let through goes to the guard all the same
    put(".git/hooks/pre-commit")
attempt_child("allow openat", over_guard)
def traced():
    install(on(257, TRACE | 1))    # a tracer's say counts less than the guard's
    put(".git/hooks/pre-commit")
attempt_child("trace openat", traced)
attempt_child("listener", lambda: install(always(ALLOW), 8))
attempt_child("listener, all threads", lambda: install(always(ALLOW), 8 | 1 | 16))
attempt_child("listener, high bits", lambda: install(always(ALLOW), (0xdead << 32) | 8))
def notify():
    install(on(110, NOTIFY))
    syscall(110)
attempt_child("notify nobody", notify)
attempt_child("strict", lambda: (libc.prctl(22, 1, 0, 0, 0), os._exit(0)))
attempt("action avail", lambda: syscall(317, 2, 0, struct.pack("I", ALLOW)))
attempt("by prctl", lambda: None if libc.prctl(22, 2, struct.pack("HxxxxxxQ", 1, ctypes.addressof(ctypes.create_string_buffer(struct.pack("HBBI", RET, 0, 0, ALLOW), 8))), 0, 0) == 0 else 1 / 0)
"""))
        result.allowed("allow all", "after: a file", "action avail", "by prctl")
        result.refused("after: io_uring", how=("ENOSYS",))
        result.refused("after: mount", how=("EPERM",))
        result.refused("after: vsock", how=NO_FAMILY)
        result.refused("after: a hook", "allow openat", "trace openat", how=("EPERM", "EACCES", "EROFS", "ENOSYS"))
        result.refused("listener", "listener, all threads", how=("EBUSY",))
        result.refused("listener, high bits", how=("EBUSY", "EINVAL"))
        same((result.tries["own refusal"], result.tries["notify nobody"]), ("77" if 77 not in errno.errorcode else errno.errorcode[77], "ENOSYS"), "its own filters")
        check(not os.path.exists(place.ws + "/.git/hooks/pre-commit"), "a hook was written")
    with Place() as place:  # outside a listener can be had
        outside = plain(place, inside_py(FILTER + r"""
libc.prctl(38, 1, 0, 0, 0)
attempt_child("listener", lambda: install(on(9999, ALLOW), 8))
"""))
        same(outside.tries["listener"], "ok", "a listener outside")


@test("KS-20 a workload's own Landlock works, and loosens nothing")
def _():
    # What it takes from itself it loses, but for writing in the workspace, where the guard acts in its stead and cannot know:
    # so this looks at reading, and at storage that the kernel alone decides about.
    need_x86_64()
    with Place() as place:
        place.expect("before")
        result = run(place, ["--read", place.out], inside_py(r"""
            private = os.environ["TMPDIR"] if arg[1] else "/dev/shm"
            put("before")
            put(private + "/before")
            def ruleset(rights):
                return syscall(444, struct.pack("Q", rights), 8, 0)
            def beneath(rules, path, rights):
                fd = os.open(path, os.O_PATH)
                syscall(445, rules, 1, struct.pack("=Qi", rights, fd), 0)
                os.close(fd)
            every = ruleset(0x1fff)
            attempt("all rights on /", lambda: beneath(every, "/", 0x1fff))
            attempt("restrict", lambda: syscall(446, every, 0))
            attempt("outside", lambda: put(arg[0] + "/x"))
            attempt("hook", lambda: put(".git/hooks/pre-commit"))
            attempt("still", lambda: put(private + "/before", b"more"))
            attempt("nothing", lambda: syscall(446, ruleset(0x1fff), 0))
            attempt("private", lambda: put(private + "/x"))
            attempt("read", lambda: get(private + "/before"))
            def openat2(path, flags, mode=0):
                return syscall(437, AT_FDCWD, os.fsencode(path), struct.pack("QQQ", flags, mode, 0), 24)
            attempt("private, openat2", lambda: openat2(private + "/y", os.O_WRONLY | os.O_CREAT, 0o600))
            attempt("read, openat2", lambda: openat2(private + "/before", os.O_RDONLY))
            attempt("system, openat2", lambda: openat2("/usr/bin/env", os.O_RDONLY))
            attempt("list", lambda: os.listdir("/usr"))
            attempt("execute", lambda: os.execv("/bin/true", ["true"]))
            """, place.out, BARE or ""))
        result.allowed("all rights on /", "restrict", "nothing", "still")
        result.refused("outside", "hook", "private", "read", "list", "execute")
        result.refused("private, openat2", "read, openat2", "system, openat2", how=("EACCES", "ENOSYS"))


@test("KS-X a tracer cannot change a call after the filter has seen it")
def _():
    need_x86_64()
    code = r"""
        ptrace = libc.ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        ptrace.restype = ctypes.c_long
        MARK = 7777  # no call: what the child asks for, and the tracer replaces
        def rewritten(number, a=0, b=0, c=0):
            "What a call gets that was written over the child's at the stop on its entry."
            pid = os.fork()
            if pid == 0:
                ptrace(0, 0, None, None)
                os.kill(os.getpid(), signal.SIGSTOP)
                try:
                    syscall(MARK, 0, 0, 0)
                    os._exit(0)
                except OSError as error:
                    os._exit(error.errno)
            os.waitpid(pid, 0)
            while True:
                ptrace(24, pid, None, None)  # PTRACE_SYSCALL
                _, status = os.waitpid(pid, 0)
                if not os.WIFSTOPPED(status):
                    break
                if ptrace(3, pid, 15 * 8, None) == MARK:
                    for offset, value in ((15, number), (14, a), (13, b), (12, c)):
                        ptrace(6, pid, offset * 8, value)
                    ptrace(24, pid, None, None)
                    os.waitpid(pid, 0)
                    ptrace(7, pid, None, None)
                    _, status = os.waitpid(pid, 0)
                    break
            if os.WIFSIGNALED(status):
                raise OSError(0, "signal %d" % os.WTERMSIG(status))
            if os.WEXITSTATUS(status):
                raise OSError(os.WEXITSTATUS(status), "")
        attempt("getuid", lambda: rewritten(102))
        attempt("personality", lambda: rewritten(135, 0x400000))
        attempt("modify_ldt", lambda: rewritten(154, 0, 0, 0))
        attempt("userfaultfd", lambda: rewritten(323, 1))
        attempt("netlink", lambda: rewritten(41, 16, 3, 15))
        """
    with Place() as place:
        inside = run(place, [], inside_py(code))
        outside = plain(place, inside_py(code)).tries
        inside.refused("personality", "modify_ldt", "userfaultfd", "netlink", how=("EPERM", "ENOSYS") + NO_FAMILY)
        for label in ("personality", "modify_ldt", "userfaultfd", "netlink"):
            check(outside[label] != inside.tries[label], "%s: %s outside as well" % (label, outside[label]))
        among(inside.tries["getuid"], ("ok", errno.errorcode.get(os.getuid() & 255, "?"), str(os.getuid() & 255)), "a call that is allowed")


@test("KS-X terminals: no words into the caller's shell")
def _():
    need_x86_64()
    inside, outside = compare(r"""
        import fcntl, pty, termios
        leader, follower = pty.openpty()
        def own(request, argument):
            os.setsid()
            fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
            syscall(16, follower, request, argument)
        for label, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541c), ("TIOCCONS", 0x541d), ("TIOCSETD", 0x5423), ("TIOCSTI, high bits", (0xdead << 32) | 0x5412)):
            attempt_child(label, lambda: own(request, struct.pack("i", 10 ** 6)))
        """, known=("TIOCCONS",) if not IS_ROOT else ())
    inside.refused(how=("EPERM",))
    among(outside.tries["TIOCSTI"], ("ok", "EIO"), "TIOCSTI outside, allowed or switched off in general")
    with Place() as place:
        result = run(place, [], inside_py(r"""
            import pty, termios
            leader, follower = pty.openpty()
            attempt("size", lambda: termios.tcsetwinsize(follower, (10, 20)) if hasattr(termios, "tcsetwinsize") else None)
            attempt("attributes", lambda: termios.tcsetattr(follower, 0, termios.tcgetattr(follower)))
            """))
        result.allowed("size", "attributes")


@test("KS-X the kernel's switches in /proc/sys and beside it cannot be opened for writing")
def _():
    # Opened only: nothing is ever written, should it succeed.
    places = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/vm/drop_caches",
              "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger",
              "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/randomize_va_space", "/sys/kernel/uevent_helper", "/proc/irq/0/smp_affinity",
              "/proc/mtrr", "/proc/1/oom_score_adj"]
    with Place() as place:
        code = 'for path in arg:\n    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))'
        result = run(place, [], inside_py(code, *places))
        result.refused(how=GONE)
        if IS_ROOT:
            outside = plain(place, inside_py(code, *places), confined=False).tries
            check(sum(said == "ok" for said in outside.values()) > 4, "root cannot open them outside either")


@test("KS-X every process of the run has the filter, no capability and no_new_privs, seen from the host")
def _():
    with Place() as place:
        place.expect("up")
        running = start(place, [], inside_sh("(setsid sleep 600 &) ; /usr/bin/python3 -c 'import time; time.sleep(600)' & echo >up; sleep 600"))
        wait_file(place, "up")

        def look():
            seen = 0
            for entry in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    status = dict(line.split(":", 1) for line in read("/proc/%s/status" % entry).decode().splitlines() if ":" in line)
                    if os.readlink("/proc/%s/ns/pid" % entry) == os.readlink("/proc/self/ns/pid") or status["Name"].strip() not in ("sh", "sleep", "python3"):
                        continue
                    if not os.readlink("/proc/%s/cwd" % entry).startswith(place.ws):
                        continue
                    seen += 1
                    same([status[k].strip() for k in ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")],
                         ["2", "1"] + ["0" * 16] * 5, "%s %s" % (entry, status["Name"].strip()))
            return seen
        check(until(lambda: look() >= 4), "only %d processes of the run were seen" % look())
        running.kill()


main()
