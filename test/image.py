# SPDX-License-Identifier: Apache-2.0
"""A root file system of the caller's, for contracts with an image."""

import os
import re
import shutil
import subprocess

from lib import need, write


def image(place):
    """A root file system of the caller's: a few programs with what they load, and an /etc of its own."""
    need("sh", "cat", "ls", "touch", "id", "mkdir", "rm", "ldd")
    root = os.path.join(place.base, "image")
    for name in ("sh", "cat", "ls", "touch", "id", "mkdir", "rm"):
        program = os.path.realpath("/usr/bin/" + name)
        for path in [program, *re.findall(r"(/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)]:
            to = root + "/usr" + (re.sub("^/usr", "", path))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(os.path.realpath(path), to)
            os.chmod(to, 0o755)
        if os.path.basename(program) != name:
            os.symlink(os.path.basename(program), root + "/usr/bin/" + name)
    for name in ("bin", "lib", "lib64"):
        if os.path.isdir(root + "/usr/" + name):
            os.symlink("usr/" + name, root + "/" + name)
    write(root + "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nfromimage:x:77:77::/:/bin/sh\nsomebody:x:1234:1234::/:/bin/sh\n")
    write(root + "/etc/group", "root:x:0:\n")
    write(root + "/etc/here", "of the image\n")
    write(root + "/var/lib/x", "of the image\n")
    place.settle()
    return root
