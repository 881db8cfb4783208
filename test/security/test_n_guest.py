# SPDX-License-Identifier: Apache-2.0
"""
The program inside a sandbox that serves files: what an ordinary user inside makes it do as root, and what a hostile one tells
the daemon
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: F401,F403

OCTETS = {"Content-Type": "application/octet-stream"}


def inside(daemon, box, script, user="user"):
    done = daemon.run(box, script, user=user)
    return done.out.decode().strip()


def upload(daemon, box, path, data=b"planted", user="user"):
    query = urllib.parse.urlencode({"path": path, "username": user})
    return daemon.call("POST", "/files?" + query, data=data, headers=OCTETS, box=box)[:2]


def ask(daemon, box, name, message, user="user"):
    fields = {"Authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()}
    return daemon.call("POST", "/filesystem.Filesystem/" + name, message, headers=fields, box=box)[:2]


# What an ordinary user inside prepares, and the client then asks for: each names what must stay as it is.
PREPARE = r"""
ln -s /etc/walls/file ~/out.txt
ln -s /etc/walls/new ~/dangling.txt
ln -s /etc/walls ~/dir
ln -s /root/secret ~/part
echo mine >~/mine
mkdir ~/shut && echo mine >~/shut/own
"""
AS_ROOT = r"""
mkdir -p /etc/walls/sub /root; echo original >/etc/walls/file; echo kept >/etc/walls/kept; chmod 700 /root
echo "the secret" >/root/secret; chmod 600 /root/secret
"""
LOOK = r"""cd /etc/walls && find . -printf '%p %y %u %m\n' | sort; cat file kept; ls -A sub"""


def prepared(daemon):
    box = daemon.create()
    inside(daemon, box, AS_ROOT, "root")
    inside(daemon, box, PREPARE)
    return box


ATTACKS = {
    "an upload through a link": lambda daemon, box: upload(daemon, box, "out.txt"),
    "an upload through a link that leads to nothing": lambda daemon, box: upload(daemon, box, "dangling.txt"),
    "an upload through a linked directory": lambda daemon, box: upload(daemon, box, "dir/new"),
    "an upload into a linked directory, whose directories are made": lambda daemon, box: upload(daemon, box, "dir/a/b/new"),
    "a directory in a linked directory": lambda daemon, box: ask(daemon, box, "MakeDir", {"path": "dir/made"}),
    "a move into a linked directory": lambda daemon, box: ask(daemon, box, "Move", {"source": "mine", "destination": "dir/moved"}),
    "a move out of a linked directory": lambda daemon, box: ask(daemon, box, "Move", {"source": "dir/kept", "destination": "got"}),
    "a removal in a linked directory": lambda daemon, box: ask(daemon, box, "Remove", {"path": "dir/kept"}),
    "a removal of a tree in a linked directory": lambda daemon, box: ask(daemon, box, "Remove", {"path": "dir/sub"}),
    "a composition through a link": lambda daemon, box: daemon.call(
        "POST", "/files/compose", {"source_paths": ["mine"], "destination": "out.txt", "username": "user"}, box=box)[:2],
    "a composition of a link": lambda daemon, box: daemon.call(
        "POST", "/files/compose", {"source_paths": ["part"], "destination": "composed", "username": "user"}, box=box)[:2],
}


@test("a user inside does not become root by a client's uploads, moves, removals: root follows no links for a user")
def _():
    need_root()  # an ordinary user's daemon has one id to give: "root" inside has no more rights than "user"
    failed = []
    with Daemon() as daemon:
        box = prepared(daemon)
        before = inside(daemon, box, LOOK, "root")
        for name, attack in ATTACKS.items():
            answer = attack(daemon, box)
            after = inside(daemon, box, LOOK, "root")
            if after != before:
                failed.append(f"{name}: {answer}: {set(after.splitlines()) ^ set(before.splitlines())}")
                inside(daemon, box, "rm -rf /etc/walls ~/mine; " + AS_ROOT, "root")
                inside(daemon, box, "rm -rf ~/out.txt ~/dangling.txt ~/dir ~/part ~/mine ~/shut ~/got; " + PREPARE)
                before = inside(daemon, box, LOOK, "root")
        leaked = inside(daemon, box, "cat ~/composed ~/got 2>/dev/null; true")
        if "secret" in leaked:
            failed.append("a composition of a link: the user has the content of root's file")
    check(not failed, "\n".join(failed))


@test("what a client may ask for by its real name still works, and what is there keeps its owner")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        same(upload(daemon, box, "/etc/walls/file", b"new content")[0], 200, "a file of root's by its own name")
        same(inside(daemon, box, "stat -c %U /etc/walls/file; cat /etc/walls/file", "root"), "root\nnew content", "owner and content")
        same(upload(daemon, box, "/etc/walls/a/b/c", b"x")[0], 200, "in directories that are made")
        same(inside(daemon, box, "cd /etc/walls; stat -c '%U %F' a a/b a/b/c", "root"),
             "user directory\nuser directory\nuser regular file", "what was made is the user's")
        same(ask(daemon, box, "MakeDir", {"path": "/etc/walls/m/n"})[0], 200, "a directory")
        same(inside(daemon, box, "cd /etc/walls; stat -c %U m m/n", "root"), "user\nuser", "whose it is")
        same(ask(daemon, box, "Move", {"source": "/etc/walls/kept", "destination": "/etc/walls/moved"})[0], 200, "a move")
        same(ask(daemon, box, "Remove", {"path": "/etc/walls/moved"})[0], 200, "a removal")
        same(inside(daemon, box, "ls /etc/walls", "root"), "a\nfile\nm\nsub", "what is left")
        # As root the links of the system are followed, and those of a user are not.
        same(upload(daemon, box, "/bin/walls-tool", b"x", "root")[0], 200, "root through a link of root's")
        same(inside(daemon, box, "ls /usr/bin/walls-tool", "root"), "/usr/bin/walls-tool", "where it led")
        check(upload(daemon, box, "/home/user/out.txt", b"by root", "root")[0] != 200, "root followed a user's link")
        # A user's own links are a user's own.
        inside(daemon, box, "echo >~/real; ln -sf ~/real ~/link")
        same(upload(daemon, box, "link", b"through")[0], 200, "a user through a link of his own")
        same(inside(daemon, box, "cat ~/real"), "through", "where it led")


# How often an upload lands through a directory that is exchanged for a link all the time, on d598071: 1 in K uploads.
K = 1.4


@test("a directory that becomes a link while root walks through it leads nowhere else")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        # ~/x/d is a directory that the user cannot write to (so that root is asked), and by turns a link to /etc/walls.
        swap = """import ctypes, os
exchange = ctypes.CDLL(None).renameat2
os.makedirs(os.path.expanduser("~/x/d")); os.chdir(os.path.expanduser("~/x"))
os.chmod("d", 0o555); os.symlink("/etc/walls", "l"); print("begun", flush=True)
while True:
    exchange(-100, b"d", -100, b"l", 2)
"""
        begun = daemon.begin(box, f"exec /usr/bin/python3 -c '{swap}'", connection=daemon.connect())
        next(begun), next(begun)
        end = time.monotonic() + 8 * SLOW
        for i in range(int(100 * K)):
            upload(daemon, box, f"x/d/planted{i}")
            if time.monotonic() > end:
                break
        found = inside(daemon, box, "ls /etc/walls | grep -c planted", "root")
        print(f"# k = {K} uploads a success on d598071; {i + 1} uploads now, {found} successes")
        same(found, "0", "uploads that arrived in root's directory")


@test("a move between file systems by root goes to the directory that it has made, and takes away only what it has copied")
def _():
    need_root()
    # The user waits for the copy (".part-") and puts a link in its place; then for the end of it, and does the same with the way to the source.
    swap = """import os
home = os.path.expanduser("~"); os.makedirs(home + "/out"); os.makedirs(home + "/in"); os.chdir(home + "/out"); print("begun", flush=True)
while True:
    for name in os.listdir("."):
        if ".part-" in name and not os.path.islink(name):
            os.rename(name, "moved"); os.symlink("/etc/walls", name)
            os.rename(home + "/in", home + "/in2"); os.symlink("/etc/walls", home + "/in")
"""
    with Daemon() as daemon:
        for source in ("/tmp/tree", "/home/user/in/sub"):
            box = prepared(daemon)
            before = inside(daemon, box, "echo kept >/etc/walls/sub/kept; " + LOOK, "root")
            begun = daemon.begin(box, f"exec /usr/bin/python3 -c '{swap}'", connection=daemon.connect())
            next(begun), next(begun)
            fill = "for i in $(seq 2000); do echo x >f$i; done; echo planted >zzz"
            inside(daemon, box, f"mkdir {source}; cd {source}; {fill}")
            target = "/home/user/out/target" if source.startswith("/tmp") else "/tmp/target"
            answer = ask(daemon, box, "Move", {"source": source, "destination": target}, "root")
            same(inside(daemon, box, LOOK, "root"), before, f"root's directory after a move of {source}: {answer}")
        # What is moved is all there, with its owners, links and modes.
        inside(daemon, box, "mkdir -p /tmp/m/a/b; cd /tmp/m; echo 1 >a/b/one; ln -s a link; chmod 750 a; mkfifo pipe; echo 2 >two", "user")
        inside(daemon, box, "echo 3 >/tmp/m/a/roots; chmod 600 /tmp/m/a/roots", "root")
        shown = "find . -printf '%P %y %u %m %l\\n' | sort"
        was = inside(daemon, box, f"cd /tmp/m && {shown}", "root")
        same(ask(daemon, box, "Move", {"source": "/tmp/m", "destination": "/home/user/m"}, "root")[0], 200, "an honest move")
        same(inside(daemon, box, f"cd /home/user/m && {shown}; ls -d /tmp/m 2>/dev/null; true", "root"), was, "what was moved")
        inside(daemon, box, "ln -s nowhere /tmp/l", "user")
        same(ask(daemon, box, "Move", {"source": "/tmp/l", "destination": "/home/user/l"}, "root")[0], 200, "a move of a link")
        same(inside(daemon, box, "stat -c '%U %N' /home/user/l", "root"), "user '/home/user/l' -> 'nowhere'", "the link")


@test("root puts nothing into a user's file that this user may not read")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        # Root's private file lies in the user's home: there the user gives it any name, also one that a client composes.
        inside(daemon, box, "echo 'the secret' >/home/user/private; chmod 600 /home/user/private", "root")
        inside(daemon, box, "cd; mv private upload-1; echo own >shut/own; chmod 000 shut/own")
        compose = lambda source: daemon.call(  # noqa: E731
            "POST", "/files/compose", {"source_paths": [source], "destination": "composed", "username": "user"}, box=box)[0]
        compose("upload-1")
        same(inside(daemon, box, "cat ~/composed 2>/dev/null; true"), "", "what the user has of root's file")
        same(compose("shut/own"), 200, "a file of the user's own that only root can open")
        same(inside(daemon, box, "cat ~/composed"), "own", "its content")


@test("a link of root's that a user has moved leads root nowhere: into /tmp, or with its directory")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        # `cp -r`, `tar x`, `npm ci` and the like by root make such links, also to where a user wants.
        inside(daemon, box, "mkdir /tmp/w ~user/kit /tmp/own; ln -s /etc/walls/file /tmp/w/l; chown user /tmp/w; "
               "for i in ~user/kit /tmp/own; do ln -s /etc/walls/file $i/l; ln -s /etc/walls $i/d; done", "root")
        inside(daemon, box, "mv /tmp/w/l /tmp/out.txt; mv ~/kit ~/out")
        same(inside(daemon, box, "stat -c '%u %F' /tmp/out.txt ~/out/l"), "0 symbolic link\n0 symbolic link", "the links, which are root's still")
        before = inside(daemon, box, LOOK, "root")
        attacks = {
            "/tmp/out.txt": lambda path: upload(daemon, box, path, b"x", "root"),
            "/home/user/out/l": lambda path: upload(daemon, box, path, b"x", "root"),
            "/home/user/out/d/new": lambda path: upload(daemon, box, path, b"x", "root"),
            "/home/user/out/d/made": lambda path: ask(daemon, box, "MakeDir", {"path": path}, "root"),
            "/home/user/out/d/kept": lambda path: ask(daemon, box, "Remove", {"path": path}, "root"),
            "/home/user/out/d/sub": lambda path: ask(daemon, box, "Move", {"source": path, "destination": "/tmp/got"}, "root"),
        }
        for path, attack in attacks.items():
            answer = attack(path)
            check(answer[0] != 200, f"{path}: {answer}")
            same(inside(daemon, box, LOOK, "root"), before, f"root's directory after {path}")
        # A directory of root's in /tmp is where root has put it, and its links are root's.
        same(upload(daemon, box, "/tmp/own/l", b"by root", "root")[0], 200, "through a link of root's own")
        same(inside(daemon, box, "cat /etc/walls/file", "root"), "by root", "where it led")


@test("root does nothing for a user in a directory that this user may not enter, and may have put where it is")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        inside(daemon, box, "mkdir -m 700 ~user/private ~user/private/sub; cd ~user/private; echo TOKEN >part1; echo TOKEN >part2; "
               "echo TOKEN >sub/part3; mkdir ~user/open; echo open >~user/open/part; echo kept >~user/open/kept", "root")
        inside(daemon, box, "mv ~/private ~/parts; mv ~/open ~/work")
        look = "cd ~user/parts && find . -type f -printf '%p %u %m\\n' | sort; cat part1 part2 sub/part3"
        before = inside(daemon, box, look, "root")
        compose = lambda sources, to, user="user": daemon.call(  # noqa: E731
            "POST", "/files/compose", {"source_paths": sources, "destination": to, "username": user}, box=box)[0]
        attacks = {
            "compose": lambda: compose(["parts/part1"], "composed"),
            "compose to": lambda: compose(["mine"], "parts/part1"),
            "compose below": lambda: compose(["parts/sub/part3"], "composed"),
            "move": lambda: ask(daemon, box, "Move", {"source": "parts/part2", "destination": "got"})[0],
            "move to": lambda: ask(daemon, box, "Move", {"source": "mine", "destination": "parts/part2"})[0],
            "upload": lambda: upload(daemon, box, "parts/part1")[0],
            "upload of a new file": lambda: upload(daemon, box, "parts/a/new")[0],
            "make a directory": lambda: ask(daemon, box, "MakeDir", {"path": "parts/new"})[0],
            "remove": lambda: ask(daemon, box, "Remove", {"path": "parts/part1"})[0],
            "move out of a directory that the user may read only": lambda: ask(
                daemon, box, "Move", {"source": "work/kept", "destination": "got"})[0],
        }
        for name, attack in attacks.items():
            check(attack() != 200, f"{name}: 200")
            same(inside(daemon, box, look, "root"), before, f"root's directory after: {name}")
            same(inside(daemon, box, "cat ~/composed ~/got 2>/dev/null; true"), "", f"what the user has after: {name}")
        # The client reads what it likes, and changes what the user can see, or what is where root has put it.
        query = urllib.parse.urlencode({"path": "parts/part1", "username": "user"})
        same(daemon.call("GET", "/files?" + query, box=box)[:2], (200, b"TOKEN\n"), "the client's own look")
        same(ask(daemon, box, "ListDir", {"path": "parts"})[0], 200, "the client's list")
        same(upload(daemon, box, "work/part", b"new\n")[0], 200, "an upload into a directory of root's that the user may enter")
        same(inside(daemon, box, "cat ~/work/part; stat -c %U ~/work/part"), "new\nroot", "what it wrote")
        same(upload(daemon, box, "/root/new/file", b"x")[0], 200, "an upload into root's home by its name")
        same(ask(daemon, box, "Move", {"source": "/root/secret", "destination": "/root/moved"})[0], 200, "a move there")
        # As root a composition of what few may read is for few, while it is made and afterwards.
        inside(daemon, box, "cd ~user; echo SECRET >closed; chmod 600 closed; echo theirs >was; chown user was", "root")
        inside(daemon, box, "mv ~/closed ~/upload-1")
        same(compose(["/home/user/mine", "/home/user/upload-1"], "/home/user/out", "root"), 200, "a composition by root")
        same(inside(daemon, box, "stat -c '%U %a' ~user/out; cat ~user/out", "root"), "root 600\nmine\nSECRET", "who may read it")
        inside(daemon, box, "cd ~user; echo SECRET >closed; chmod 600 closed", "root")
        check(compose(["/home/user/closed"], "/home/user/was", "root") != 200, "root's file became the user's")
        same(inside(daemon, box, "cat ~/was"), "theirs", "the user's file")
        inside(daemon, box, "echo 1 >/tmp/1; echo 2 >/tmp/2", "root")
        same(compose(["/tmp/1", "/tmp/2"], "/tmp/12", "root"), 200, "of files that everybody may read")
        same(inside(daemon, box, "stat -c '%U %a' /tmp/12; cat /tmp/12"), "root 644\n1\n2", "everybody may read that")


# The user waits for the copy of the deepest directory's first half, and puts a link to /root in the place of that directory.
DEEP_SWAP = r"""
import os, time
base = "/home/user/proj"
path = base + "/d" * 33
os.makedirs(path + "/a")
for i in range(4000):
    with open(path + f"/a/f{i:04}", "wb") as file:
        file.write(b"x" * 20000)
with open(path + "/npmrc", "w") as file:
    file.write("mine")
print("ready", flush=True)
while not any(".part-" in name for name in os.listdir("/tmp")):
    time.sleep(0.0005)
time.sleep(0.02)
os.rename(path, base + "/moved")
os.symlink("/root", path)
print("swapped", flush=True)
"""


@test("a directory deep in a tree that becomes a link while root moves the tree is not followed")
def _():
    need_root()
    with Daemon() as daemon:
        box = prepared(daemon)
        inside(daemon, box, "echo ROOT-TOKEN >/root/npmrc", "root")
        same(upload(daemon, box, "swap.py", DEEP_SWAP.encode())[0], 200, "the program")
        begun = daemon.begin(box, "exec python3 swap.py", connection=daemon.connect())
        next(begun), next(begun)
        answer = ask(daemon, box, "Move", {"source": "/home/user/proj", "destination": "/tmp/got"}, "root")
        found = inside(daemon, box, "find /tmp/got ~/proj -name npmrc -exec cat {} + 2>/dev/null", "user")
        check("ROOT-TOKEN" not in found, f"the user has root's file: {answer}")
        check("mine" in found, f"the user's own file is lost: {answer}, {found!r}")


main()
