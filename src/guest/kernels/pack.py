# SPDX-License-Identifier: Apache-2.0
"""
Packs the kernels into one file, which Python runs as it is: pack.py OUTPUT kernel.py OTHER...

One file is one mount in each box. Nothing is compressed, so that little has to be loaded to read it, and the times are
all the same, so that equal sources give an equal file.
"""

import os
import sys
import zipfile

output, main, *others = sys.argv[1:]
with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
    for path in [main, *others]:
        info = zipfile.ZipInfo("__main__.py" if path == main else os.path.basename(path), (1980, 1, 1, 0, 0, 0))
        info.external_attr = 0o644 << 16
        with open(path, "rb") as file:
            archive.writestr(info, file.read())
