/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/program.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/init-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * One call at a time
 *
 * Where the object lies outside every guarded place the kernel is told to go on by itself
 * (answer_continue). Some calls never go that way, because Landlock has no right for them and a
 * changed argument would count: truncating, changing a mode or an attribute, and connecting.
 */

int guard_init(struct guard *guard, const struct init_config *config, int listener_fd)
{
	struct stat st;

	guard->config = config;
	guard->listener_fd = listener_fd;
	guard->caller = (struct guard_caller){.pid_fd = -1, .name_fd = -1};
	tell_init(&guard->tell, config->notice_fd, config->notices);
	guard->umask = 0;
	guard->pointers_fd = -1;
	umask(0);
	guard->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	/* The root of the sandbox is on its private storage. Without a root of its own no device is
	 * the sandbox's alone. */
	if (guard->null_fd < 0 || stat("/", &st) < 0)
		return -errno;
	guard->private_dev = config->is_bare ? (dev_t)-1 : st.st_dev;
	resolve_keep_out(getpid(), config->is_bare ? getppid() : 0);
	for (size_t i = 0; i < config->spec->n_sockets; i++)
		guard_set_add(&guard->granted_sockets, AT_FDCWD, config->spec->sockets[i].text);
	turns_begin(listener_fd);
	return 0;
}

bool call_is_ours(struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	return zone && !target->is_foreign &&
	       (zone->kind == INIT_ZONE_GUARDED || zone->kind == INIT_ZONE_PRIVATE);
}

/* For what is not left to the kernel when it is not ours. A memfd is the caller's own. */
bool call_is_out_of_reach(const struct call *call, const struct target *target)
{
	const struct init_zone *zone;

	if (target->is_foreign)
		return target->path[0] == '/' && !starts_with(target->path, "/memfd:");
	if (!call->guard->config->is_bare)
		return false;
	/* No mount is read-only for us here. */
	zone = guard_zone(call->guard, target->path);
	return !zone || zone->kind == INIT_ZONE_FREE;
}

/* The caller's umask becomes ours for what is created next. */
int call_take_umask(struct call *call)
{
	int r = resolve_read_status(call->tid, &call->umask, &call->tgid);

	if (r < 0)
		return r;
	if (call->umask != call->guard->umask)
		umask(call->umask);
	call->guard->umask = call->umask;
	return 0;
}

int call_read_path(struct call *call, int arg, char path[PATH_MAX])
{
	return resolve_read_string(call->tid, call->args[arg], path, PATH_MAX);
}

int call_resolve(struct call *call, int first, bool at, int flags, struct target *ret)
{
	int dir_fd = at ? (int)call->args[first] : AT_FDCWD;
	char path[PATH_MAX];
	int r = call_read_path(call, first + at, path);

	if (r < 0)
		return r;
	if (path[0] == '\0' && (flags & AT_EMPTY_PATH))
		return resolve_fd(call->tid, dir_fd, ret);
	return resolve_path(call->tid, dir_fd, path, flags & AT_SYMLINK_FOLLOW, 0, ret);
}

static enum sense_use use_of(const char *action)
{
	if (streq(action, "create") || streq(action, "bind"))
		return SENSE_MAKE;
	return streq(action, "remove") || streq(action, "rename") ? SENSE_REMOVE : SENSE_CHANGE;
}

void call_see(struct call *call, const struct target *target)
{
	if (tell_is_on(&call->guard->tell) && !target->is_foreign && !call_is_ours(call, target))
		sense_use(call, use_of(call->action), call->action, target->path);
}

bool call_leave(struct call *call, const struct target *target)
{
	if (call_is_ours(call, target))
		return false;
	call_see(call, target);
	answer_continue(call);
	return true;
}

static pid_t *find_helper(struct guard *guard, pid_t pid)
{
	for (size_t i = 0; i < GUARD_HELPERS_MAX; i++) {
		if (guard->helpers[i] == pid)
			return &guard->helpers[i];
	}
	return NULL;
}

unsigned guard_count_helpers(const struct guard *guard)
{
	unsigned n = 0;

	for (size_t i = 0; i < GUARD_HELPERS_MAX; i++)
		n += guard->helpers[i] != 0;
	return n;
}

bool guard_has_helper(const struct guard *guard, pid_t pid)
{
	for (size_t i = 0; i < GUARD_HELPERS_MAX; i++) {
		if (guard->helpers[i] == pid)
			return true;
	}
	return false;
}

int call_hand_over(struct call *call)
{
	pid_t pid, *place = find_helper(call->guard, 0);

	if (!place)
		return -EAGAIN;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		service_close_in_child();
		return 1;
	}
	*place = pid;
	call->is_answered = true;
	return 0;
}

int call_count_one(struct call *call, const struct target *target)
{
	struct guard *guard = call->guard;
	const struct init_zone *zone = guard_zone(guard, target->path);

	if (zone && zone->kind == INIT_ZONE_GUARDED &&
	    guard->n_created >= guard->config->limits.files) {
		call->rule = "limits.files";
		memcpy(call->path, target->path, strlen(target->path) + 1);
		return -ENOSPC;
	}
	return 0;
}

/* Ask, and refuse what needs special care where nothing special can be done. */
int call_permit_plain(struct call *call, const struct target *target, enum names_action action,
		      bool is_dir)
{
	enum git_verdict verdict;
	int r = guard_permit(call, target, action, is_dir, &verdict);

	/* Its times and its mode are nothing that git obeys; call_permit_content() is about the
	 * rest. */
	if (r == 0 && verdict != GIT_ALLOW && verdict != GIT_VET_POINTER) {
		call->rule = verdict == GIT_VET_LINK ? "symbolic link in the git directory"
						     : "git config";
		return -EPERM;
	}
	return r;
}

int call_permit_content(struct call *call, const struct target *target, bool is_dir)
{
	enum git_verdict verdict;
	int r = guard_permit(call, target, NAMES_WRITE, false, &verdict);

	if (r == 0 && verdict != GIT_ALLOW && !(is_dir && verdict == GIT_VET_POINTER))
		return guard_refuse(call, EPERM, "git pointer file");
	return r;
}

int call_permit_new(struct call *call, const struct target *target, enum names_action action)
{
	int r = call_permit_plain(call, target, action, false);

	return r < 0 ? r : call_count_one(call, target);
}

/* Something was made. */
int call_keep_or_undo(struct call *call, const struct target *target, enum names_action action)
{
	int r = guard_confirm(call);

	if (r == 0) {
		guard_made(call, target, action);
		sense_made(call, target);
	} else {
		unlinkat(target->parent, target->name, action == NAMES_MKDIR ? AT_REMOVEDIR : 0);
	}
	return r;
}

static int dispatch(struct call *call)
{
	switch (call->nr) {
#ifdef SYS_open
	case SYS_open:
	case SYS_creat:
#endif
	case SYS_openat:
		return call_open(call);
	case SYS_openat2:
		return call_openat2(call);
#ifdef SYS_mkdir
	case SYS_mkdir:
#endif
	case SYS_mkdirat:
		return call_mkdir(call);
#ifdef SYS_mknod
	case SYS_mknod:
#endif
	case SYS_mknodat:
		return call_mknod(call);
#ifdef SYS_symlink
	case SYS_symlink:
#endif
	case SYS_symlinkat:
		return call_symlink(call);
#ifdef SYS_unlink
	case SYS_unlink:
	case SYS_rmdir:
#endif
	case SYS_unlinkat:
		return call_unlink(call);
#ifdef SYS_rename
	case SYS_rename:
#endif
#ifdef SYS_renameat
	case SYS_renameat:
#endif
	case SYS_renameat2:
		return call_rename(call);
#ifdef SYS_link
	case SYS_link:
#endif
	case SYS_linkat:
		return call_link(call);
	case SYS_truncate:
		return call_truncate(call);
#ifdef SYS_chmod
	case SYS_chmod:
#endif
	case SYS_fchmod:
	case SYS_fchmodat:
	case SYS_fchmodat2:
		return call_chmod(call);
	case SYS_setxattr:
	case SYS_lsetxattr:
	case SYS_fsetxattr:
	case SYS_removexattr:
	case SYS_lremovexattr:
	case SYS_fremovexattr:
		return call_xattr(call);
	case SYS_inotify_add_watch:
		return call_watch(call);
	case SYS_utimensat:
		return call_times(call);
#ifdef SYS_chown
	case SYS_chown:
	case SYS_lchown:
#endif
	case SYS_fchown:
	case SYS_fchownat:
		return call_owner(call);
	case SYS_bind:
		return call_bind(call);
	case SYS_listen:
		return call_listen(call);
	case SYS_connect:
		return call_connect(call);
	case SYS_sendto:
		return call_send(call);
	case SYS_fallocate:
		return call_fallocate(call);
	case SYS_memfd_create:
		return call_memfd(call);
	case SYS_landlock_restrict_self:
		return call_restrict(call);
	case SYS_execve:
	case SYS_execveat:
		return call_exec(call);
	default:
		return call_refused(call);
	}
}

/* Be it, as far as files go: with root's id we lose what root may beyond others, by the kernel's
 * own rules, and get it back with that id. */
static bool take_ids(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

/* Root passes by modes also as another one: setfsuid() has just taken that away. */
static bool pass_by_modes(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	data[0].effective |= data[0].permitted & (1U << CAP_DAC_OVERRIDE);
	return syscall(SYS_capset, &header, data) == 0;
}

/*
 * The host's own files are one owner's, and a mount that maps ids has none for another: root inside
 * could make nothing there. So he is that one for the rest of the call.
 */
int guard_act_as_owner(struct call *call)
{
	const struct init_config *config = call->guard->config;

	if (!call->is_roots || call->acts_as_owner || config->owner_uid == geteuid())
		return 0;
	call->acts_as_owner = true;
	return take_ids(config->owner_uid, config->owner_gid) && pass_by_modes() ? 0 : -EPERM;
}

/*
 * Several ids live here, and we are root of them. What is done in somebody's stead must be what he
 * may do himself: otherwise a user would connect to root's own sockets, or change root's files. Of
 * groups only his first counts, which can only refuse more. A thread that waits for us does not
 * change its ids.
 */
static int dispatch_as_caller(struct call *call)
{
	uid_t uid;
	gid_t gid;
	int r = resolve_read_ids(call->tid, &uid, &gid);

	if (r < 0 || !answer_is_wanted(call))
		return -ESRCH;
	call->is_roots = uid == geteuid();
	r = call->is_roots || take_ids(uid, gid) ? dispatch(call) : -EPERM;
	if (call->is_roots && !call->acts_as_owner)
		return r;
	if (!take_ids(geteuid(), getegid()))
		_exit(1); /* nothing inside outlives us */
	/* A change of ids takes it away; whoever has died meanwhile has closed his socket. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return r;
}

void guard_report(struct call *call)
{
	struct init_message message = {.type = INIT_DENIAL};
	struct atoll_denial *denial = &message.denial;
	size_t length = strlen(call->path), room = sizeof denial->path;

	if (tell_is_on(&call->guard->tell)) {
		sense_refused_here(call);
		return;
	}
	denial->pid = call->tid;
	denial->count = 1;
	snprintf(denial->action, sizeof denial->action, "%s", call->action);
	snprintf(denial->rule, sizeof denial->rule, "%s", call->rule);
	if (length < room)
		memcpy(denial->path, call->path, length + 1);
	else
		snprintf(denial->path, room, "...%s", call->path + length - (room - 4));
	call_read_program(call, denial->program);
	/* A supervisor that does not keep up must not stop the work: the count tells. */
	send(call->guard->config->control_fd, &message, sizeof message,
	     MSG_DONTWAIT | MSG_NOSIGNAL);
}

int guard_serve(struct guard *guard)
{
	union {
		struct seccomp_notif notif;
		char room[256]; /* a newer kernel may write more */
	} request;
	struct call call;
	int r;

	memset(&request, 0, sizeof request);
	if (ioctl(guard->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return errno == ENOENT || errno == EINTR ? 0 : -errno;

	turns_see(&guard->turns, guard->listener_fd, (pid_t)request.notif.pid);
	call.guard = guard;
	call.id = request.notif.id;
	call.tid = (pid_t)request.notif.pid;
	call.nr = request.notif.data.nr;
	call.args = request.notif.data.args;
	call.tgid = 0;
	call.is_answered = call.makes_git_dir = false;
	call.is_roots = call.acts_as_owner = false;
	call.rule = NULL;
	call.action = "use";
	call.moves_from = NULL;
	call.path[0] = '\0';
	call.umask = 0;
	call.n_unsure = 0;
	/* What is only seen goes on whatever it is, and nothing is done in anybody's stead. */
	if (tell_is_on(&guard->tell)) {
		if (call.nr == SYS_execve || call.nr == SYS_execveat)
			return call_exec(&call);
		if (!guard->config->guards_files && !guard->config->is_bare &&
		    sense_file_call(&call))
			return 0;
	}
	if (!answer_is_wanted(&call))
		return 0; /* the thread is gone, and its number may be another's by now */
	r = guard->config->has_many_ids ? dispatch_as_caller(&call) : dispatch(&call);
	/* There is nothing: on the host there may be. */
	if ((r == -ENOENT || r == -ENOTDIR) && !call.rule && tell_is_on(&guard->tell) &&
	    !guard->config->is_bare)
		sense_paths(&call);
	while (call.n_unsure)
		close(call.unsure[--call.n_unsure].dir_fd);
	if (call.rule)
		guard_report(&call);
	if (!call.is_answered)
		answer(&call, r);
	return 0;
}

void guard_trim(struct guard *guard)
{
	_Static_assert(sizeof guard->sense.places % PROGRAM_PAGE == 0,
		       "what is forgotten is zeros");

	call_exec_forget();
	if (tell_is_on(&guard->tell))
		program_drop(guard->sense.places, sizeof guard->sense.places);
}

void guard_helper_ended(struct guard *guard, pid_t pid)
{
	pid_t *place = find_helper(guard, pid);

	if (place)
		*place = 0;
}
