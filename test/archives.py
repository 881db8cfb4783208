# SPDX-License-Identifier: Apache-2.0
"""
Archives made by hand, for the tests of import and export

    data = tar(entry("d", DIR), entry("d/f", data=b"x"), entry("l", LINK, "d/f"))
    write(place.tmp + "/a.tar", data)

entry() takes any name, also one that no program would write; raw() is a header field by field. import_archive() and unpacked()
run `atoll import` into place.ws + "/new" and look at what is there.
"""
import io
import tarfile
import zipfile

from lib import *  # noqa: F403

FILE, DIR, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
CHAR, BLOCK, FIFO = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
ARCHIVE_REFUSED = (BAD_REQUEST, POLICY)


def entry(name, kind=FILE, link="", data=b"", mode=0o644, mtime=1000000000, pax=None, size=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.mtime = kind, link, mode, mtime
    info.size = len(data) if size is None else size
    info.pax_headers = pax or {}
    return info, data


def tar(*entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as file:
        for info, data in entries:
            file.addfile(info, io.BytesIO(data) if len(data) >= info.size else None)
    return out.getvalue()


def make_zip(*entries, **options):
    """Of (name, data) or (name, data, mode with its type)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", options.get("how", zipfile.ZIP_DEFLATED)) as file:
        for name, data, *mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system, info.compress_type = 3, file.compression
            info.external_attr = (mode[0] if mode else 0o100644) << 16
            file.writestr(info, data)
    return out.getvalue()


def import_archive(place, data, *flags, name="a.tar", **options):
    """`atoll import` of these bytes into `new` of the workspace; a Result."""
    path = write(os.path.join(place.tmp, name), data)
    return atoll(place, "import", path, "--to", "new", *flags, **options)


def unpacked(place):
    return os.path.join(place.ws, "new")


def refused(place, data, what, *flags, says=None, **options):
    """The archive is refused as a whole, and leaves nothing anywhere."""
    before = snapshot(place.ws)
    result = import_archive(place, data, *flags, **options)
    among(result.status, ARCHIVE_REFUSED, "%s: status of import (%s)" % (what, result.err.strip()))
    check(result.err.startswith("atoll: "), "%s: no reason is given" % what)
    if says:
        check(says in result.err, "%s: %r does not say %r" % (what, result.err, says))
    after = snapshot(place.ws)
    check(before == after, "%s: left behind: %s" % (what, difference(before, after)))


def taken(place, data, *flags, **options):
    """The archive is taken; what lies in it by a snapshot without owners: {path: (mode, links, content)}."""
    result = import_archive(place, data, *flags, **options)
    same(result.status, 0, "import: %s" % result.err.strip())
    found = {path: (what[0], what[3], what[4]) for path, what in snapshot(unpacked(place)).items()}
    remove(unpacked(place))
    return found
