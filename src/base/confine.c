/* SPDX-License-Identifier: Apache-2.0 */
#include "base/confine.h"

#include "base/scope.h"
#include "base/uapi.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int confine_limit(int which, uint64_t value)
{
	struct rlimit old, new = {value, value};

	if (HAS_ASAN && which == RLIMIT_AS)
		return 0;
	if (getrlimit(which, &old) < 0)
		return -errno;
	if (new.rlim_max > old.rlim_max)
		new.rlim_cur = new.rlim_max = old.rlim_max;
	return setrlimit(which, &new) < 0 ? -errno : 0;
}

int confine_capabilities(uint32_t keep, struct atoll_error *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct kept[2] = {0}, now[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "give privileges up");
	if (syscall(SYS_capget, &head, now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read capabilities");
	kept[0].permitted = kept[0].effective = now[0].permitted & keep;
	if (syscall(SYS_capset, &head, kept) < 0 || syscall(SYS_capget, &head, now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "drop capabilities");
	for (int i = 0; i < 2; i++)
		if (now[i].effective != kept[i].effective ||
		    now[i].permitted != kept[i].permitted || now[i].inheritable)
			return error_set(err, ATOLL_FAULT_BUG, 0, "capabilities did not go");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return error_set(err, ATOLL_FAULT_BUG, 0, "no_new_privs did not hold");
	return 0;
}

int confine_ruleset(bool may_connect, uint64_t *ret_handled)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct uapi_landlock_ruleset_attr attr = {.handled_access_fs = (1 << 13) - 1};
	size_t size = sizeof attr.handled_access_fs;
	int fd;

	if (abi < 0)
		return -ENOSYS;
	if (abi >= 2)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 4) {
		attr.handled_access_net = UAPI_LANDLOCK_ACCESS_NET_BIND_TCP;
		if (!may_connect)
			attr.handled_access_net |= UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP;
		size = offsetof(struct uapi_landlock_ruleset_attr, scoped);
	}
	if (abi >= 5)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) {
		attr.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL;
		size = sizeof attr;
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return -errno;
	*ret_handled = attr.handled_access_fs;
	return fd;
}

int confine_allow(int ruleset, int dir_fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = dir_fd};

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		       ? -errno
		       : 0;
}

int confine_allow_port(int ruleset, uint64_t port)
{
	/* As the kernel has it; older headers do not. */
	const int rule_net_port = 2;
	const struct {
		uint64_t allowed_access, port;
	} rule = {UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP, port};

	if (syscall(SYS_landlock_add_rule, ruleset, rule_net_port, &rule, 0) == 0)
		return 0;
	/* Not known to this kernel; or no port at all, which then cannot be connected to. */
	return errno == EINVAL ? 0 : -errno;
}

/* ---- seccomp ---- */

void confine_step(struct confine_filter *filter, struct sock_filter one)
{
	if (filter->n < ARRAY_SIZE(filter->steps))
		filter->steps[filter->n] = one;
	filter->n++;
}

void confine_begin(struct confine_filter *filter)
{
	filter->n = 0;
	FILTER_STEP(filter, FILTER_LOAD(arch));
	FILTER_STEP(filter, FILTER_IF(UAPI_NATIVE_ARCH, 1, 0));
	FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_KILL_PROCESS));
	FILTER_STEP(filter, FILTER_LOAD(nr));
}

void confine_answer(struct confine_filter *filter, const uint16_t *calls, size_t n, uint32_t answer)
{
	for (size_t i = 0; i < n; i++) {
		FILTER_STEP(filter, FILTER_IF(calls[i], 0, 1));
		FILTER_STEP(filter, FILTER_RETURN(answer));
	}
}

void confine_answer_memory(struct confine_filter *filter)
{
	static const uint16_t calls[] = {SYS_mmap, SYS_mprotect};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		FILTER_STEP(filter, FILTER_IF(calls[i], 0, 4));
		FILTER_STEP(filter, FILTER_LOAD(args[2]));
		FILTER_STEP(filter, FILTER_IF_ANY(PROT_EXEC, 0, 1));
		FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(EACCES)));
		FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	}
}

void confine_answer_fcntl(struct confine_filter *filter, const uint32_t *commands, size_t n)
{
	FILTER_STEP(filter, FILTER_IF(SYS_fcntl, 0, (uint8_t)(2 + 2 * n)));
	FILTER_STEP(filter, FILTER_LOAD(args[1]));
	for (size_t i = 0; i < n; i++) {
		FILTER_STEP(filter, FILTER_IF(commands[i], 0, 1));
		FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	}
	FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(EACCES)));
}

void confine_answer_abort(struct confine_filter *filter)
{
	FILTER_STEP(filter, FILTER_IF(SYS_tgkill, 0, 4));
	FILTER_STEP(filter, FILTER_LOAD(args[0]));
	FILTER_STEP(filter, FILTER_IF((uint32_t)getpid(), 0, 1));
	FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(EPERM)));
}

int confine_load(struct confine_filter *filter, struct atoll_error *err)
{
	struct sock_fprog load;

	FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(ENOSYS)));
	if (filter->n > ARRAY_SIZE(filter->steps))
		return error_set(err, ATOLL_FAULT_BUG, 0, "the filter of calls is too long");
	load = (struct sock_fprog){(unsigned short)filter->n, filter->steps};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &load) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock the program in by seccomp");
	return 0;
}
