/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

/* Sockets by path: made in the workspace, connected to by permission only. */

#define CONNECT_WAIT_US 2000
#define HELPER_WAIT_US                                                                             \
	100000 /* only to notice that the caller is gone: there may be dozens of them */

/* ---- the caller ---- */

static struct guard_caller *caller_of(struct call *call)
{
	struct guard_caller *caller = &call->guard->caller;

	if (caller->tid != call->tid) {
		if (caller->pid_fd >= 0)
			close(take_fd(&caller->pid_fd));
		if (caller->name_fd >= 0)
			close(take_fd(&caller->name_fd));
		caller->tid = call->tid;
	}
	return caller;
}

/* Before 6.9 there is no asking a thread. The process is asked instead, which may be another's by
 * the next call, so that it is not kept. */
static int get_fd_of_process(struct call *call, int fd)
{
	cleanup_fd int pidfd = -1;
	int ours;

	if (call->tgid == 0 && resolve_read_status(call->tid, &call->umask, &call->tgid) < 0)
		return -ESRCH;
	pidfd = (int)syscall(SYS_pidfd_open, call->tgid, 0);
	if (pidfd < 0)
		return -ESRCH;
	ours = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	return ours < 0 ? -errno : ours;
}

/* A thread may have descriptors of its own, and outlive the one that the process is named after. */
int call_get_fd(struct call *call, int fd)
{
	struct guard_caller *caller = caller_of(call);

	for (int tries = 0; tries < 2; tries++) {
		int ours;

		if (caller->pid_fd < 0)
			caller->pid_fd = (int)syscall(SYS_pidfd_open, call->tid, UAPI_PIDFD_THREAD);
		if (caller->pid_fd < 0)
			return errno == EINVAL ? get_fd_of_process(call, fd) : -ESRCH;
		ours = (int)syscall(SYS_pidfd_getfd, caller->pid_fd, fd, 0);
		if (ours >= 0 || errno != ESRCH)
			return ours < 0 ? -errno : ours;
		close(take_fd(&caller->pid_fd)); /* it was another of the same number */
	}
	return -ESRCH;
}

void call_read_program(struct call *call, char ret[16])
{
	struct guard_caller *caller = caller_of(call);
	ssize_t got = -1;

	for (int tries = 0; tries < 2 && got < 0; tries++) {
		char path[64];

		if (caller->name_fd < 0) {
			snprintf(path, sizeof path, "/proc/%d/comm", call->tid);
			caller->name_fd = open(path, O_RDONLY | O_CLOEXEC);
		}
		if (caller->name_fd < 0)
			continue;
		got = pread(caller->name_fd, ret, 15, 0);
		if (got < 0)
			close(take_fd(&caller->name_fd));
	}
	if (got > 0 && ret[got - 1] == '\n')
		got--;
	ret[got > 0 ? got : 0] = '\0';
}

/* ---- addresses ---- */

static int read_address(struct call *call, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	uint64_t size = (uint32_t)call->args[2];
	int r;

	memset(ret, 0, sizeof *ret);
	if (size > sizeof *ret)
		return -EINVAL;
	*ret_size = (socklen_t)size;
	r = size ? resolve_read_memory(call->tid, call->args[1], ret, size) : 0;
	/* What is longer the kernel refuses as well; and address_path() needs a zero behind it. */
	if (r == 0 && ret->ss_family == AF_UNIX && size > sizeof(struct sockaddr_un))
		return -EINVAL;
	return r;
}

/* The path of a unix address, or NULL if it is none or abstract. NUL-terminated by the zeroes that
 * follow in the storage. */
static const char *address_path(const struct sockaddr_storage *address, socklen_t size)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)address;

	if (address->ss_family != AF_UNIX || size <= offsetof(struct sockaddr_un, sun_path) ||
	    un->sun_path[0] == '\0')
		return NULL;
	return un->sun_path;
}

/* An abstract name, or none, which asks for one. Without a network namespace these are the host's,
 * and Landlock would look at us and not at the caller. */
static bool is_abstract(struct call *call, const struct sockaddr_storage *address, socklen_t size)
{
	return call->guard->config->is_bare && address->ss_family == AF_UNIX &&
	       !address_path(address, size);
}

/*
 * By its whole path if that fits, because the socket keeps the text as its name, and servers tell
 * it to their clients. Only another run in the same directory could lead the path elsewhere
 * meanwhile; that is noticed, and undone.
 */
static int bind_at(struct call *call, const struct target *target)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	bool is_whole = strlen(target->path) < sizeof un.sun_path;
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	if (!is_whole && strlen(target->name) >= sizeof un.sun_path)
		return -ENAMETOOLONG;
	strcpy(un.sun_path, is_whole ? target->path : target->name);
	fd = call_get_fd(call, (int)call->args[0]);
	if (fd < 0)
		return fd;
	r = call_take_umask(call);
	if (r < 0)
		return r;
	if (!is_whole && fchdir(target->parent) < 0)
		return -errno;
	r = bind(fd, (struct sockaddr *)&un, sizeof un) < 0 ? -errno : 0;
	if (r == 0 && fstatat(target->parent, target->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		unlink(un.sun_path);
		r = -EACCES;
	}
	if (r == 0) {
		guard_set_add(&call->guard->own_sockets, target->parent, target->name);
		r = call_keep_or_undo(call, target, NAMES_CREATE);
	}
	return chdir("/") < 0 ? -errno : r;
}

int call_bind(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	struct sockaddr_storage address;
	socklen_t size;
	const char *path;
	int r = read_address(call, &address, &size);

	call->action = "bind";
	if (r < 0)
		return r;
	if (is_abstract(call, &address, size))
		return -EPERM;
	path = address_path(&address, size);
	/* Without a network namespace a port would be the host's. */
	if (!path && call->guard->config->is_bare)
		return -EPERM;
	if (!path) {
		answer_continue(call);
		return 0;
	}
	r = resolve_path(call->tid, AT_FDCWD, path, false, 0, &target);
	if (r < 0 || call_leave(call, &target))
		return r;
	if (target.object >= 0 ||
	    faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EADDRINUSE;
	r = call_permit_new(call, &target, NAMES_CREATE);
	if (r == 0)
		r = guard_permit_special(call, &target, S_IFSOCK);
	return r < 0 ? r : bind_at(call, &target);
}

/* Where there are sockets of the host's network: only the others. By the guard itself, because the
 * descriptor could mean another by the time that the kernel looks. */
int call_listen(struct call *call)
{
	cleanup_fd int fd = call_get_fd(call, (int)call->args[0]);
	socklen_t size = sizeof(int);
	int family;

	call->action = "listen";
	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0)
		return -errno;
	if (family != AF_UNIX)
		return -EPERM;
	return listen(fd, (int)call->args[1]) < 0 ? -errno : 0;
}

/* Sockets that were made inside, and those that the contract names: not by their names, which a job
 * may give to others of the host's. */
static int permit_connect(struct call *call, const struct target *target, int object,
			  const struct stat *st)
{
	const struct guard *guard = call->guard;
	const struct init_zone *zone;

	memcpy(call->path, target->path, strlen(target->path) + 1);
	if (!S_ISSOCK(st->st_mode))
		return -ECONNREFUSED;
	zone = guard_zone(guard, target->path);
	if ((zone && zone->kind == INIT_ZONE_OWN && !target->is_foreign) ||
	    st->st_dev == guard->private_dev || guard_set_has(&guard->own_sockets, object, "") ||
	    guard_set_has(&guard->granted_sockets, object, ""))
		return 0;
	call->rule = "sockets";
	return -EACCES;
}

/* ---- waiting ---- */

static void on_alarm(int number)
{
	(void)number;
}

/* Every so often; 0: no more. */
static void set_ticking(struct guard *guard, suseconds_t every_us)
{
	const struct itimerval value = {.it_interval.tv_usec = every_us,
					.it_value.tv_usec = every_us};

	setitimer(ITIMER_REAL, &value, NULL);
	guard->is_ticking = every_us > 0;
}

void guard_tick(struct guard *guard)
{
	if (guard->is_ticking && !guard->has_connected)
		set_ticking(guard, 0);
	guard->has_connected = false;
}

/*
 * Whoever listens asks who it is (SO_PEERCRED), and is told our effective ids: for the moment they
 * are the caller's, whose ids for files we have already. The real and saved ones stay, which are
 * what signals and tracing go by, and bring the capabilities back. No wrappers: this is a clone.
 */
static int connect_as_caller(int fd, const struct sockaddr_storage *address, socklen_t size)
{
	uid_t uid, own_uid;
	gid_t gid, own_gid;
	int r;

	/* Others are not told, and a call of each kind costs them more than all of it is worth. */
	if (address->ss_family != AF_UNIX)
		return connect(fd, (const struct sockaddr *)address, size) < 0 ? -errno : 0;
	uid = (uid_t)setfsuid((uid_t)-1);
	gid = (gid_t)setfsgid((gid_t)-1);
	own_uid = geteuid();
	own_gid = getegid();
	if (uid == own_uid)
		return connect(fd, (const struct sockaddr *)address, size) < 0 ? -errno : 0;
	if (syscall(SYS_setresgid, -1, gid, -1) < 0)
		return -EPERM;
	r = syscall(SYS_setresuid, -1, uid, -1) < 0 ? -EPERM : 0;
	if (r == 0 && connect(fd, (const struct sockaddr *)address, size) < 0)
		r = -errno;
	if (syscall(SYS_setresuid, -1, own_uid, -1) < 0 ||
	    syscall(SYS_setresgid, -1, own_gid, -1) < 0)
		_exit(1); /* nothing inside outlives us */
	setfsgid(gid);
	setfsuid(uid);
	if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid)
		_exit(1);
	return r;
}

/*
 * connect() that waits a moment at most, then -EINTR: asked again it goes on where it was. The
 * clock that ends it goes on ticking for a while, because setting it takes as long as most
 * connections do; its signal is blocked, and then means nothing.
 */
static int connect_for_a_moment(struct guard *guard, int fd, const struct sockaddr_storage *address,
				socklen_t size)
{
	const struct sigaction action = {.sa_handler = on_alarm};
	sigset_t alarm;
	int r;

	if (!guard->is_ticking) {
		sigaction(SIGALRM, &action, NULL);
		set_ticking(guard, CONNECT_WAIT_US);
	}
	guard->has_connected = true;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	r = connect_as_caller(fd, address, size);
	sigprocmask(SIG_BLOCK, &alarm, NULL);
	return r;
}

static int connect_and_note(struct call *call, int fd, const struct sockaddr_storage *address,
			    socklen_t size)
{
	struct init_peer *peers = call->guard->config->peers;
	int r;

	/* The other end may be told of it, and ask who it was, before it is noted. */
	if (peers)
		__atomic_store_n(&peers[0].pid, 1, __ATOMIC_SEQ_CST);
	r = connect_for_a_moment(call->guard, fd, address, size);
	if (r == 0 || r == -EINPROGRESS)
		call_note_peer(call, fd);
	if (peers)
		__atomic_store_n(&peers[0].pid, 0, __ATOMIC_SEQ_CST);
	return r;
}

/* In the caller's stead, on its own socket. O_NONBLOCK would not tell whether it takes time:
 * another thread can change it. A child waits, for as long as somebody wants the answer. */
static int connect_now(struct call *call, const struct sockaddr_storage *address, socklen_t size)
{
	cleanup_fd int fd = call_get_fd(call, (int)call->args[0]);
	int r = fd, who;

	/* Twice, because the clock may just be about to tick. */
	for (int tries = 0; fd >= 0 && (tries == 0 || (tries == 1 && r == -EINTR)); tries++)
		r = connect_and_note(call, fd, address, size);
	if (r != -EINTR)
		return r;
	who = call_hand_over(call);
	if (who <= 0)
		return who;
	set_ticking(call->guard, HELPER_WAIT_US); /* a child has no clock yet */
	while (r == -EINTR && answer_is_wanted(call))
		r = connect_and_note(call, fd, address, size);
	answer(call, r);
	_exit(0);
}

/* Nobody is there; on the host there may be. */
static void see_missing(struct call *call, const char *path)
{
	const struct sense_refusal refusal = {.action = "connect",
					      .rule = "sockets",
					      .object = path,
					      .flag = "--socket",
					      .path = path,
					      .flags = NOTICE_ASKS_HOST};

	if (path[0] == '/' && !call->guard->config->is_bare)
		sense_refused(call, &refusal);
}

int call_connect(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	struct sockaddr_storage address;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t size;
	const char *path;
	struct stat st;
	int r = read_address(call, &address, &size);

	call->action = "connect";
	if (r < 0)
		return r;
	if (is_abstract(call, &address, size))
		return -EPERM;
	path = address_path(&address, size);
	if (!path) {
		r = call_permit_peer(call, &address, size);
		if (r == 0)
			r = connect_now(call, &address, size);
		call_see_peer(call, &address, size, r);
		return r;
	}
	r = resolve_path(call->tid, AT_FDCWD, path, true, 0, &target);
	if (r < 0) {
		see_missing(call, path);
		return r;
	}
	object = target_open_path(&target);
	if (object < 0) {
		see_missing(call, target.path);
		return object;
	}
	if (fstat(object, &st) < 0)
		return -errno;
	r = permit_connect(call, &target, object, &st);
	if (r < 0)
		return r;
	snprintf(un.sun_path, sizeof un.sun_path, "/proc/self/fd/%d", object);
	memcpy(&address, &un, sizeof un);
	return connect_now(call, &address, sizeof un);
}
