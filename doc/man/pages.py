#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the manual pages of all commands: pages.py ATOLL DIRECTORY NAME..."""

import os
import subprocess
import sys

program, directory, *names = sys.argv[1:]
for name in ["", *names]:
    page = subprocess.run([program, "help", "--man", *([name] if name else [])], check=True, capture_output=True).stdout
    with open(os.path.join(directory, f"atoll-{name}.1" if name else "atoll.1"), "wb") as file:
        file.write(page)
