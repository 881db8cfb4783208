/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The portable model of Windows security
 *
 * This component holds everything about Windows that can be decided without Windows. It includes
 * no Windows header and is built and tested on Linux. The Win32 code asks it what to do, does
 * exactly that, and compares the result with what this model expects.
 *
 *	sid.h               security identifiers: text and binary form
 *	acl.h               access control lists: entries, canonical order, inheritance
 *	descriptor.h        security descriptors: owner, group and lists in binary form
 *	sddl.h              security descriptors as text
 *	nt-label.h          integrity labels of objects
 *	access-check.h      whether a token gets an access; restricted and write-restricted tokens
 *	nt-path.h           which file a Windows path names
 *	job-text.h          the text of a job file, without a YAML library
 *	nt-job.h            a job file and flags as one job
 *	nt-request.h        a job as the contract of this host
 *	nt-clauses.h        what holds, clause by clause, as text
 *	nt-ledger.h         what was changed on this machine
 *	nt-setup-plan.h     accounts, firewall rules and filters of the elevated set-up
 *	nt-plan.h           what a run changes, with inverses; what Windows cannot keep
 *	nt-token.h          the token of the command, and whether a token is that one
 *	nt-attempt.h        what a child under the final token tries before the command starts
 *	nt-world.h          a file system in memory, for tests
 *	command-line.h      argument lists to command lines and back
 *	environment-block.h environment variables in the order and form of CreateProcess
 *	port-ranges.h       the ports that are not on a list
 *	frame.h             messages between launcher and runner
 *
 * Every function is pure: no file, no clock, no random number. Functions that read a stranger's
 * bytes return -EINVAL for whatever they do not accept, and have a fuzzer beside them.
 *
 * Not run on Windows by us: the model follows Microsoft's published rules, and each pass of the
 * access check is compared with Samba's on random cases (test/functional/test_nt_model.py).
 */

#include "nt/access-check.h"
#include "nt/acl.h"
#include "nt/command-line.h"
#include "nt/descriptor.h"
#include "nt/environment-block.h"
#include "nt/frame.h"
#include "nt/nt-attempt.h"
#include "nt/nt-clauses.h"
#include "nt/nt-label.h"
#include "nt/nt-ledger.h"
#include "nt/nt-path.h"
#include "nt/nt-plan.h"
#include "nt/nt-request.h"
#include "nt/nt-setup-plan.h"
#include "nt/nt-token.h"
#include "nt/nt-world.h"
#include "nt/port-ranges.h"
#include "nt/sddl.h"
#include "nt/sid.h"
