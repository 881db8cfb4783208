# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
"""The bench runs. What it measures is no test: a busy machine would make it fail."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "perf", "bench")


@test("a quick bench has figures for atoll and for libatoll, and leaves nothing")
def _():
    if "ASAN_OPTIONS" in os.environ:
        skip("a build without sanitizers")
    if not os.path.exists(BUILD + "/test/perf/spawn"):
        skip("the bench's helpers in the build directory")
    with Place() as place:
        argv = [PYTHON, BENCH, BUILD, "--quick", "--rounds", "3", "--only", "start", "--only", "idle", "--json"]
        result = plain(place, argv, confined=False)
        same(result.status, 0, "status")
        said = json.loads(result.out)
        names = [row["name"] for row in said["figures"]["start"]]
        for name in ("plain, user", "floor, hand-written", "atoll run, user", "libatoll, user"):
            check(name in names, "no figure for %s: %s" % (name, said["missing"]))
        check("atoll" in [row["name"] for row in said["figures"]["idle"]], "no figure for an idle sandbox")


main()
