/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "egress/egress.h"
#include "isolate/ns/cell.h"
#include "isolate/ns/filter.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

/*
 * How the command's process locks itself in
 *
 * ns_begin(), while the first process builds the root (a network namespace takes as long as all the
 * mounts, and this way both happen at the same time):
 *   ns_make_namespaces()  those that nobody else needs, with the way to egress (ns-net.c)
 *   set_limits()       what a process carries with it
 *   set_filter()       all that follows passes it; the listener goes to the first process
 * ns_seal(), in the new root, while the host's goes away:
 *   take_rights()      by Landlock: no right to change anything of the host's
 *   capabilities       none left, none to come
 * ns_execute(), when everybody is done:
 *   take_stdio()       0, 1, 2 and what the contract names; everything else closes at exec
 *   run_command()      execve
 * It runs between fork and exec: no allocation.
 */

static int fail(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s", what);
}

static int take_stdio(const struct cell *cell, struct atoll_error *err)
{
	const int *stdio = cell->step ? cell->step->stdio : cell->stdio;

	for (int i = 0; i < 3; i++) {
		/* Where there is no descriptor a terminal is in place already. */
		if (stdio[i] >= 0 && dup2(stdio[i], i) < 0)
			return fail(err, "set up standard input and output");
	}
	if (fd_close_range(3, UINT_MAX, true) < 0)
		return fail(err, "close other descriptors");
	for (size_t i = 0; i < cell->spec->n_descriptors; i++) {
		if (fcntl(cell->spec->descriptors[i], F_SETFD, 0) < 0)
			return error_set(err, ATOLL_FAULT_REQUEST, errno, "descriptor %d",
					 cell->spec->descriptors[i]);
	}
	return 0;
}

static int limit_resource(int resource, uint64_t value, struct atoll_error *err)
{
	struct rlimit now, limit;

	if (value == SPEC_UNLIMITED)
		return 0;
	if (getrlimit((unsigned)resource, &now) < 0)
		return fail(err, "read a resource limit");
	limit.rlim_cur = limit.rlim_max = value < now.rlim_max ? value : now.rlim_max;
	if (setrlimit((unsigned)resource, &limit) < 0)
		return fail(err, "set a resource limit");
	return 0;
}

/* So many of the CPUs that we may use; not always the first ones, where every run would meet. */
static int limit_cpus(uint64_t thousandths, struct atoll_error *err)
{
	unsigned wanted = (unsigned)((thousandths + 999) / 1000), skip;
	cpu_set_t have, take;

	if (sched_getaffinity(0, sizeof have, &have) < 0)
		return fail(err, "read the CPU set");
	CPU_ZERO(&take);
	skip = (unsigned)clock_monotonic_ns() / 1000 % (unsigned)CPU_COUNT(&have);
	for (int cpu = 0; cpu < 2 * CPU_SETSIZE && wanted > 0; cpu++) {
		const int number = cpu % CPU_SETSIZE;

		if (!CPU_ISSET(number, &have) || CPU_ISSET(number, &take))
			continue;
		if (skip > 0 && cpu < CPU_SETSIZE) {
			skip--;
			continue;
		}
		CPU_SET(number, &take);
		wanted--;
	}
	return sched_setaffinity(0, sizeof take, &take) < 0 ? fail(err, "set the CPU set") : 0;
}

/* Without a user namespace all processes of the user are counted. */
static uint64_t n_others(const struct cell *cell)
{
	return cell->bare ? cell->bare->n_others : 0;
}

/* The first process, and a template. */
static uint64_t n_own(const struct cell *cell)
{
	return cell->extra->is_service ? 2 : 1;
}

static int set_limits(const struct cell *cell, struct atoll_error *err)
{
	const struct spec_limit *limits = cell->spec->limits;
	uint64_t cpu_time = limits[SPEC_CPU_TIME].value;
	int r;

	/* 1, not 0: a pipe in core_pattern is started for 0, and for 1 alone it is not. */
	r = limit_resource(RLIMIT_CORE, 1, err);
	/* Counted within this user namespace, so it bounds the sandbox and not the user. */
	if (r == 0 && limits[SPEC_PIDS].value != SPEC_UNLIMITED)
		r = limit_resource(RLIMIT_NPROC,
				   limits[SPEC_PIDS].value + n_own(cell) + n_others(cell), err);
	if (r == 0)
		r = limit_resource(RLIMIT_FSIZE, limits[SPEC_DISK].value, err);
	if (r == 0 && cpu_time != SPEC_UNLIMITED)
		r = limit_resource(RLIMIT_CPU, (cpu_time + 999) / 1000, err);
	if (r == 0)
		r = quota_limit_process(err);
	if (r == 0 && cell->keeps_affinity)
		r = limit_cpus(limits[SPEC_CPUS].value, err);
	return r;
}

int ns_bound_capabilities(uint64_t keep, struct atoll_error *err)
{
	unsigned long bits = SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	/* Where root inside keeps some, what root executes has them, too, and whoever is root no
	 * longer has none: no_new_privs lets nobody have more than before. */
	if (!keep)
		bits |= SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			SECBIT_NO_SETUID_FIXUP_LOCKED;
	/* The numbers end where the kernel's list does, in both calls. */
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(keep & 1ULL << cap ? PR_CAPBSET_READ : PR_CAPBSET_DROP, cap) < 0)
			break;
	}
	if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 0)
		return error_set(err, ATOLL_FAULT_HOST, 0, "the capability bounding set remains");
	if (prctl(PR_SET_SECUREBITS, bits) < 0 && prctl(PR_GET_SECUREBITS) != (int)bits)
		return fail(err, "set the secure bits");
	return 0;
}

int ns_drop_capabilities(uint64_t keep, struct atoll_error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
		{.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
	};

	return syscall(SYS_capset, &header, data) < 0 ? fail(err, "drop capabilities") : 0;
}

/* Whether descriptors come from outside, which may be those of devices. */
static bool may_have_devices(const struct cell *cell)
{
	return cell->spec->n_descriptors || cell->spec->n_sockets;
}

static int set_filter(const struct cell *cell, struct atoll_error *err)
{
	struct sock_filter program[FILTER_MAX];
	struct filter_options options = {.keeps_affinity = cell->keeps_affinity,
					 .is_bare = cell->bare,
					 .has_proxy = cell->bare && cell->extra->proxy_port,
					 /* a grant may hide something, and /proc is the host's */
					 .guards_reading = cell->bare,
					 .leaves_files = !cell->bare && !cell->guards_files,
					 .may_have_devices = may_have_devices(cell),
					 .sees = cell->notice_fd >= 0,
					 .sees_sending = cell->notice_fd >= 0 &&
							 !network_is_on(&cell->spec->network)};
	struct sock_fprog prog = {.filter = program};
	const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	int fd;

	prog.len = (unsigned short)filter_build(&options, program);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			  flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
	if (fd < 0 && errno == EINVAL) /* before 5.19 a signal may interrupt a waiting call */
		fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		return fail(err, "install the system call filter");
	return fd;
}

int ns_lock_first(void *data, struct atoll_error *err)
{
	const struct cell *cell = data;
	struct sock_filter program[FILTER_MAX];
	struct filter_options options = {.is_first = true,
					 .forks_templates = cell->extra->is_service,
					 .may_have_devices = may_have_devices(cell),
					 .sees = cell->notice_fd >= 0};
	struct sock_fprog prog = {.filter = program};

	prog.len = (unsigned short)filter_build(&options, program);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return fail(err, "install the system call filter of the first process");
	return 0;
}

static void reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static const char *find_variable(char *const *env, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; env[i]; i++) {
		if (strncmp(env[i], name, length) == 0 && env[i][length] == '=')
			return env[i] + length + 1;
	}
	return NULL;
}

/* As a shell would: 127 if it is nowhere, 126 if it is there and cannot be executed. */
static int run_command(const struct cell *cell, struct atoll_error *err)
{
	char *const *argv = cell->step ? cell->step->argv : cell->spec->command;
	char *const *env = cell->step ? cell->step->env : cell->env;
	const char *search = find_variable(env, "PATH");
	char path[PATH_MAX];
	int failed = ENOENT;

	if (strchr(argv[0], '/')) {
		execve(argv[0], argv, env);
		failed = errno;
		search = NULL;
	}
	for (const char *at = search, *end; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ':');
		if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(end - at), at, argv[0]) >=
		    sizeof path)
			continue;
		/* Where the record is told of programs, trying each would wait for it each time. */
		if (access(path, F_OK) == 0)
			execve(path, argv, env);
		if (errno != ENOENT && errno != ENOTDIR)
			failed = errno;
	}
	error_set(err, ATOLL_FAULT_JOB, failed, "run '%.200s'", argv[0]);
	return failed == ENOENT || failed == ENOTDIR ? 127 : 126;
}

int ns_make_namespaces(const struct cell *cell, struct atoll_error *err)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return fail(err, "create namespaces (see `atoll doctor`)");
	if (sethostname(EGRESS_OWN_NAME, strlen(EGRESS_OWN_NAME)) < 0)
		return fail(err, "set the host name");
	return net_set_up(cell, err);
}

int ns_begin(void *data, struct atoll_error *err)
{
	const struct cell *cell = data;
	int r = 0;

	/* For a command on a terminal the first process has done so, and it has joined those of the
	 * first template before it forks another; some hosts grant none. */
	if (!cell->has_namespaces)
		r = ns_make_namespaces(cell, err);
	reset_signals();
	umask(cell->umask);
	if (r == 0)
		r = set_limits(cell, err);
	return r < 0 ? r : set_filter(cell, err);
}

static int take_rights(const struct cell *cell, struct atoll_error *err)
{
	return cell->bare ? landlock_restrict(cell->bare->ruleset_fd, err)
			  : landlock_seal(cell, err);
}

int ns_seal(void *data, struct atoll_error *err)
{
	const struct cell *cell = data;
	/* A template's steps go where they want, which need not be there any more. */
	const char *cwd = cell->extra->is_service ? "/" : cell->spec->cwd;
	int r;

	r = init_enter(cwd);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "enter '%s'", cwd);
	r = take_rights(cell, err);
	return r < 0 ? r : ns_drop_capabilities(ids_capabilities(&cell->ids), err);
}

int ns_execute(void *data, struct atoll_error *err)
{
	const struct cell *cell = data;

	/* Not before: until exec closes them there may be more descriptors than the limit, and the
	 * steps above need new ones. */
	if (take_stdio(cell, err) < 0 ||
	    limit_resource(RLIMIT_NOFILE, cell->spec->limits[SPEC_OPEN_FILES].value, err) < 0)
		return -1;
	/* A step is the user who it is to be by now. */
	if (!cell->step && users_become(cell, err) < 0)
		return -1;
	return run_command(cell, err);
}

void ns_take_step(void *data, const struct init_step *step)
{
	((struct cell *)data)->step = step;
}
