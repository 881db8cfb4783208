#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The model of Windows' access check (src/nt) against Samba's

Random security descriptors and tokens; each case is decided by both, and no answer may differ. Between 20 and 80 % of the cases must
be granted, so that neither answer is the usual one. Samba makes one walk; that a restricted token needs two is in test-access-check.c.
"""
# check: timeout 300
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import random  # noqa: E402

TOOL = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL), "test", "nt-access")
CASES = 200_000
SIDS = ["S-1-1-0", "S-1-5-11", "S-1-5-32-544", "S-1-5-32-545", "S-1-5-18", "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002",
        "S-1-5-21-7-7-7-2147483655"]
# Rights of files one by one. Generic rights are left out: Samba maps them elsewhere.
BITS = [1 << n for n in range(9)] + [1 << n for n in range(16, 21)]
OWNER_RIGHTS = "S-1-3-4"


def random_mask(chance):
    return sum(bit for bit in BITS if random.random() < chance)


def random_entry():
    kind = "D" if random.random() < 0.25 else "A"
    flags = random.choice(["", "", "", "OICI", "IO", "ID", "OICIIO"])
    sid = OWNER_RIGHTS if random.random() < 0.05 else random.choice(SIDS)
    mask = random_mask(0.6 if kind == "A" else 0.15) or 1
    return f"({kind};{flags};0x{mask:x};;;{sid})"


def random_case():
    owner = random.choice(SIDS[1:])
    entries = "".join(random_entry() for _ in range(random.choice((0, 1, 2, 3, 4, 5, 6, 8))))
    sddl = f"O:{owner}G:S-1-5-18D:{entries}"
    token = random.sample(SIDS, random.randint(1, 5))
    desired = random_mask(0.12) or random.choice(BITS)
    return sddl, desired, token


@test("200,000 random access checks have the same answer as Samba's")
def _():
    once(as_root=False)
    try:
        import samba
        import samba.security
        from samba.dcerpc import security
    except ImportError:
        skip("python3-samba")
    seed = int(os.environ.get("ATOLL_SEED") or random.randrange(1 << 32))
    random.seed(seed)
    cases = [random_case() for _ in range(CASES)]
    text = "".join(f"{sddl} {desired:x} {' '.join(token)}\n" for sddl, desired, token in cases)
    ours = subprocess.run([TOOL], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    same(len(ours), CASES, "answers")
    domain = security.dom_sid("S-1-5-21-1-2-3")
    sids = {sid: security.dom_sid(sid) for sid in SIDS}
    granted = 0
    for (sddl, desired, names), answer in zip(cases, ours):
        token = security.token()
        token.sids = [sids[name] for name in names]
        token.num_sids = len(names)
        try:
            samba.security.access_check(security.descriptor.from_sddl(sddl, domain), token, desired)
            theirs = "granted"
        except samba.NTSTATUSError:
            theirs = "denied"
        check(answer == theirs, f"seed {seed}: {sddl} {desired:#x} {names}: we say {answer}, Samba says {theirs}")
        granted += theirs == "granted"
    check(0.2 < granted / CASES < 0.8, f"{granted} of {CASES} were granted")


main()
