#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Job files on Windows against those of the Linux programs

Every key of the published schema is either understood by the Windows reader or refused by name; no key is known there alone.
That both readers take a text for the same tree is in src/nt/test-job-tree.c.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import glob  # noqa: E402
import json  # noqa: E402

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
TOOL = os.path.join(BUILD, "test", "nt-keys")
ROOT = os.environ.get("ATOLL_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def keys_of(schema):
    """Keys of the top and of its sections: two levels, as the Windows reader has them."""
    found = set()
    for name, value in schema["properties"].items():
        found.add(name)
        for form in [value, *value.get("anyOf", [])]:
            found |= {f"{name}.{inner}" for inner in form.get("properties", {})}
    return found


@test("every key of the schema is known on Windows or refused by name")
def _():
    once(as_root=False)
    lines = subprocess.run([TOOL], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = {line.split()[0] for line in lines}
    refused = {line.split()[0] for line in lines if line.endswith(" refused")}
    with Place() as place:
        theirs = keys_of(json.loads(atoll(place, "schema").out))
    same(ours - theirs, set(), "keys that only Windows has")
    # What lies in a section that is refused as a whole needs no line of its own.
    same({key for key in theirs - ours if key.split(".")[0] not in refused}, set(), "keys that Windows does not know")


@test("the examples are read, or refused for something that Windows does not have")
def _():
    once(as_root=False)
    said = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*.yaml"))):
        said[os.path.basename(path)] = subprocess.run([TOOL, path], capture_output=True, text=True, check=True).stdout.strip()
    check(len(said) >= 9, str(said))
    # The last one is a "|" text as command, for a shell.
    reasons = "not available on Windows", "a list of program and arguments", "is no text", "a value that cannot begin like this"
    for name, line in said.items():
        check(line == "ok" or any(reason in line for reason in reasons), f"{name}: {line}")
    check("ok" in said.values(), str(said))


main()
