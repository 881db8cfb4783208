/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * System calls that nothing else can stand in for
 *
 * A kernel may be too old for one, and a container's profile may not know it. Found before anything
 * is built, so that the message names the call and not what happened to need it first. Each is
 * called with arguments that the kernel refuses at once; what counts is how.
 */

static const struct {
	const char *name;
	long number;
	long first; /* the arguments, chosen to be invalid */
	long others;
	/* The kernel itself asks for a privilege before it looks at the arguments. */
	bool is_privileged;
	bool is_for_mounts; /* so not needed where there are none */
} calls[] = {
	{"openat2", SYS_openat2, -1, 0, false, false},
	{"statx", SYS_statx, -1, -1, false, false},
	{"open_tree", SYS_open_tree, -1, -1, false, true},
	{"move_mount", SYS_move_mount, -1, -1, true, true},
	{"mount_setattr", SYS_mount_setattr, -1, -1, false, true},
	{"pidfd_open", SYS_pidfd_open, -1, -1, false, false},
	{"pidfd_getfd", SYS_pidfd_getfd, -1, -1, false, false},
	{"process_vm_readv", SYS_process_vm_readv, -1, -1, false, false},
	{"seccomp", SYS_seccomp, -1, -1, false, false},
	{"landlock_add_rule", SYS_landlock_add_rule, -1, -1, false, false},
	{"landlock_restrict_self", SYS_landlock_restrict_self, -1, -1, true, false},
};

const char *ns_missing_call(bool is_bare)
{
	/* What is there stays there; a process that starts many asks once, also for its children.
	 */
	static bool is_known[2];

	if (is_known[is_bare])
		return NULL;
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		long other = calls[i].others;

		if (is_bare && calls[i].is_for_mounts)
			continue;
		if (syscall(calls[i].number, calls[i].first, other, other, other, other, other) <
			    0 &&
		    (errno == ENOSYS || (errno == EPERM && !calls[i].is_privileged)))
			return calls[i].name;
	}
	is_known[is_bare] = true;
	return NULL;
}

/* Of open files: with fewer a start fails at whatever comes last. A contract with many grants needs
 * more. */
#define FILES_LEAST 36

static int check_files(struct atoll_error *err)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_LEAST)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, 0,
			 "a run needs %d open files, and this process may have %llu "
			 "(RLIMIT_NOFILE): ulimit -n 1024",
			 FILES_LEAST, (unsigned long long)files.rlim_cur);
}

int ns_check_calls(bool is_bare, struct atoll_error *err)
{
	const char *name = ns_missing_call(is_bare);

	if (!name)
		return check_files(err);
	return error_set(err, ATOLL_FAULT_HOST, 0,
			 "the system call %s is refused here: by Linux before 5.19, or by a "
			 "container's seccomp profile",
			 name);
}
