# SPDX-License-Identifier: Apache-2.0
"""A package that is installed inside with `root: layer`, and how one sees that it is; for tests of what is kept of that."""

import os

from lib import *

PACKAGE = r"""
set -e
mkdir -p /tmp/p/DEBIAN /tmp/p/usr/bin /tmp/p/etc
printf 'Package: atoll-hello\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: hello\n' >/tmp/p/DEBIAN/control
printf '#!/bin/sh\nset -e\ntouch /var/lib/hello; chown 6:12 /var/lib/hello\n' >/tmp/p/DEBIAN/postinst
printf '#!/bin/sh\necho hello from a package\n' >/tmp/p/usr/bin/atoll-hello
echo conf >/tmp/p/etc/atoll-hello.conf
chmod 755 /tmp/p/DEBIAN/postinst /tmp/p/usr/bin/atoll-hello
dpkg-deb --root-owner-group -b /tmp/p /tmp/hello.deb >/dev/null
dpkg -i /tmp/hello.deb >/dev/null
rm -r /tmp/p /tmp/hello.deb
"""
PACKAGE_PATHS = ("/usr/bin/atoll-hello", "/etc/atoll-hello.conf", "/var/lib/hello", "/var/lib/dpkg/info/atoll-hello.list")
IS_PACKAGE = "atoll-hello; dpkg -s atoll-hello | grep Status; stat -c %u:%g /usr/bin/atoll-hello /etc/atoll-hello.conf /var/lib/hello"
PACKAGE_SAYS = "hello from a package\nStatus: install ok installed\n0:0\n0:0\n6:12\n"


def need_roots():
    need_layers()
    need_root()


def not_on_host(*paths):
    for path in paths:
        check(not os.path.lexists(path), "%s is on the host" % path)
