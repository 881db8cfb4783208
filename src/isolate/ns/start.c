/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clone.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/keyring.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/notice.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * How a sandbox starts
 *
 *	parent                                  child, the sandbox's first process
 *	clone into most namespaces
 *	                                        map_self(): an ordinary user's single id
 *	as root: map the ids, copy the trees
 *	  with ids shifted, send them over  →   receive_trees()
 *	enter the cgroups, send "go"        →   start_become_inside()
 *	                                        fork the command's process, or the
 *	                                        template of all steps      → ns_begin(),
 *	                                        with a network its sockets → the control socket
 *	write the contract, send it         →   ns_build_root()
 *	whatever the caller does meanwhile      join_command()             → ns_seal()
 *	  (cell_extra.meanwhile), "leave"   →   ns_leave_host(), or earlier
 *	                                    ←   "ready", or the error
 *	                                        init_main()                → ns_execute()
 *
 * An ordinary user has no rights outside the new user namespace, so the child copies the trees
 * itself; root has none over host files inside it, so the parent does.
 */

#define SETUP_MAX_S 60
#define READY_FDS   4

struct setup_message {
	uint32_t n_trees;
	bool is_last;
};

static int fail(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s", what);
}

/* ---- ids ---- */

static int write_map(pid_t pid, const char *file, const char *text, struct atoll_error *err)
{
	char path[64];
	cleanup_fd int fd = -1;

	if (pid)
		snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	else
		snprintf(path, sizeof path, "/proc/self/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return error_set(err, ATOLL_FAULT_HOST, errno, "write '%s'", path);
	return 0;
}

static int map_ids(pid_t pid, const struct ns_ids *ids, struct atoll_error *err)
{
	char text[IDS_MAP_SIZE];
	int r;

	ids_write_map(ids, false, text, sizeof text);
	r = write_map(pid, "uid_map", text, err);
	ids_write_map(ids, true, text, sizeof text);
	return r < 0 ? r : write_map(pid, "gid_map", text, err);
}

/* Without privilege a group may only be mapped once setgroups is given up. */
static int map_self(const struct ns_ids *ids, struct atoll_error *err)
{
	cleanup_fd int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "deny", 4) != 4)
		return fail(err, "write '/proc/self/setgroups'");
	return map_ids(0, ids, err);
}

static int take_ids(const struct ns_ids *ids, struct atoll_error *err)
{
	/* Keep the namespace's capabilities across the change of id. */
	if (prctl(PR_SET_KEEPCAPS, 1) < 0)
		return fail(err, "keep capabilities");
	/* Not by the C library, which would have every thread of the caller's do the same, and wait
	 * for threads that are not in this clone. */
	if (ids->is_shifted && syscall(SYS_setgroups, 0, NULL) < 0)
		return fail(err, "drop groups");
	if (syscall(SYS_setresgid, ids->inside_gid, ids->inside_gid, ids->inside_gid) < 0 ||
	    syscall(SYS_setresuid, ids->inside_uid, ids->inside_uid, ids->inside_uid) < 0)
		return fail(err, "take the sandbox's ids");
	return 0;
}

/* Capabilities that were kept are not in effect after leaving uid 0. */
static int raise_capabilities(struct atoll_error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return fail(err, "read capabilities");
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? fail(err, "raise capabilities") : 0;
}

int start_become_inside(const struct ns_ids *ids, struct atoll_error *err)
{
	int r = take_ids(ids, err);

	return r < 0 ? r : raise_capabilities(err);
}

/* ---- trees over the socket ---- */

static int send_message(int socket_fd, const struct setup_message *message, const int *fds,
			struct atoll_error *err)
{
	int r = fd_send(socket_fd, message, sizeof *message, fds, message->n_trees);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "send to the sandbox") : 0;
}

static int receive_message(int socket_fd, struct setup_message *message, int *fds,
			   struct atoll_error *err)
{
	size_t n = FD_PASS_MAX;
	ssize_t got = fd_receive(socket_fd, message, sizeof *message, 0, fds, &n);

	if (got != sizeof *message || n != message->n_trees)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
				 "the supervisor did not finish the set-up");
	return 0;
}

static int send_text(int socket_fd, const char *text, size_t size)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < size; at += NS_PIECE) {
		size_t piece = size - at < NS_PIECE ? size - at : NS_PIECE;

		r = fd_send(socket_fd, text + at, piece, NULL, 0);
	}
	return r;
}

/* A child that has ended has said why, and one that hangs is waited for no longer than one that
 * does not answer: both are found out when it is asked whether it is ready. */
static int after_sending(int r, struct atoll_error *err)
{
	if (r == 0 || r == -EPIPE || r == -ECONNRESET || r == -EAGAIN)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, -r, "send to the sandbox");
}

/* Made only now, while the child is busy with mounts. */
static int send_contract(struct cell *cell, int socket_fd, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = SETUP_MAX_S};
	struct ns_texts texts;
	int r = cell_explain(cell, err);

	if (r < 0)
		return r;
	texts.json_size = strlen(cell->contract_json);
	texts.text_size = strlen(cell->contract_text);
	setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	r = fd_send(socket_fd, &texts, sizeof texts, NULL, 0);
	if (r == 0)
		r = send_text(socket_fd, cell->contract_json, texts.json_size);
	if (r == 0)
		r = send_text(socket_fd, cell->contract_text, texts.text_size);
	free(take_ptr(cell->contract_json));
	free(take_ptr(cell->contract_text));
	return after_sending(r, err);
}

/* The command may run only if whatever the caller had to do beforehand is done. */
static int send_leave(const struct cell *cell, int socket_fd, struct atoll_error *err)
{
	const struct cell_extra *extra = cell->extra;
	int r = extra->meanwhile ? extra->meanwhile(extra->meanwhile_data, err) : 0;

	return r < 0 ? r : after_sending(fd_send(socket_fd, "l", 1, NULL, 0), err);
}

static int receive_leave(const struct cell *cell, struct atoll_error *err)
{
	char byte;
	ssize_t got = recv(cell->setup_fd, &byte, 1, 0);

	return got == 1 ? 0
			: error_set(err, ATOLL_FAULT_BUG, got < 0 ? errno : 0,
				    "the supervisor did not finish the set-up");
}

/* Copy every tree as root and hand it over; the child counts them in the same order. */
static int send_trees(struct cell *cell, int socket_fd, int userns_fd, struct atoll_error *err)
{
	struct setup_message message = {0};
	int fds[FD_PASS_MAX], r = 0;

	for (size_t i = 0; r >= 0 && i < cell->n_mounts; i++) {
		if (!ns_has_tree(&cell->mounts[i]))
			continue;
		r = ns_open_tree(&cell->mounts[i], ids_map_for(cell, &cell->mounts[i], userns_fd),
				 err);
		if (r < 0)
			break;
		fds[message.n_trees++] = r;
		if (message.n_trees < FD_PASS_MAX)
			continue;
		r = send_message(socket_fd, &message, fds, err);
		while (message.n_trees)
			close(fds[--message.n_trees]);
	}
	message.is_last = true;
	if (r >= 0)
		r = send_message(socket_fd, &message, fds, err);
	while (message.n_trees)
		close(fds[--message.n_trees]);
	return r < 0 ? r : 0;
}

static int receive_trees(struct cell *cell, struct atoll_error *err)
{
	struct setup_message message = {0};
	int fds[FD_PASS_MAX];
	size_t mount = 0;

	do {
		int r = receive_message(cell->setup_fd, &message, fds, err);

		if (r < 0)
			return r;
		for (uint32_t i = 0; i < message.n_trees; i++) {
			while (!ns_has_tree(&cell->mounts[mount]))
				mount++;
			cell->mounts[mount++].tree_fd = fds[i];
		}
	} while (!message.is_last);
	return 0;
}

/* ---- the child ---- */

/* What the first process has inherited from whoever called us must not stay open in it. */
void start_close_others(const struct cell *cell)
{
	const struct spec *spec = cell->spec;

	for (int fd = 3, most = (int)sysconf(_SC_OPEN_MAX); fd < most;) {
		int next = INT_MAX;
		const int keep[] = {cell->stdio[0],
				    cell->stdio[1],
				    cell->stdio[2],
				    cell->setup_fd,
				    cell->control_fd,
				    cell->notice_fd,
				    cell->ids.slot_fd,
				    cell->bare ? cell->bare->ruleset_fd : -1,
				    cell->bare ? cell->bare->lock_fd : -1};

		for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
			next = keep[i] >= fd && keep[i] < next ? keep[i] : next;
		for (size_t i = 0; i < spec->n_descriptors; i++)
			next = spec->descriptors[i] >= fd && spec->descriptors[i] < next
				       ? spec->descriptors[i]
				       : next;
		if (next > fd)
			fd_close_range((unsigned)fd,
				       next == INT_MAX ? UINT_MAX : (unsigned)next - 1, false);
		if (next == INT_MAX)
			return;
		fd = next + 1;
	}
}

/*
 * Our own command line and environment lie where they lay in the supervisor, and /proc shows them
 * to everybody inside: flags may name what is hidden. /proc/self/stat tells where they are.
 */
static struct {
	uint64_t bounds[4]; /* start and end of the arguments, then of the environment */
	bool is_known;	    /* a fork's are the same */
} arguments;

void start_find_arguments(void)
{
	cleanup_fd int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	uint64_t *bounds = arguments.bounds;
	char text[2048];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	const char *at;

	if (got <= 0)
		return;
	text[got] = '\0';
	at = strrchr(text, ')');
	/* Behind the name field 2 ends; the bounds are fields 48 to 51. */
	for (int field = 3; at && field <= 51; field++) {
		at = strchr(at + 1, ' ');
		if (at && field >= 48)
			bounds[field - 48] = strtoull(at + 1, NULL, 10);
	}
	arguments.is_known = at != NULL;
}

void start_wipe_arguments(void)
{
	const uint64_t *bounds = arguments.bounds;

	if (!arguments.is_known)
		start_find_arguments();
	for (int i = 0; i < 4; i += 2) {
		if (bounds[i] && bounds[i + 1] > bounds[i])
			memset((void *)(uintptr_t)bounds[i], 0, bounds[i + 1] - bounds[i]);
	}
}

/* A variable that holds a secret may lie elsewhere by now, if a program of others' has set it. */
void start_wipe_secrets(const struct spec *spec)
{
	for (size_t i = 0; i < spec->network.n_secrets; i++) {
		const struct network_secret *secret = &spec->network.secrets[i];
		char *value = secret->source == NETWORK_FROM_ENV ? getenv(secret->from) : NULL;

		if (value)
			memset(value, 0, strlen(value));
	}
}

/*
 * What the command's process has made for itself is where the guard belongs, too; and so do the
 * templates to come, which this process forks. Before it seals itself: a template is then closed to
 * everybody.
 */
static int join_command(struct cell *cell, struct init_command *command, struct atoll_error *err)
{
	cleanup_fd int pid_fd = -1;
	int r = init_await(command, err);

	if (r < 0)
		return r;
	pid_fd = (int)syscall(SYS_pidfd_open, command->pid, 0);
	if (pid_fd < 0 || setns(pid_fd, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return errno == ESRCH ? error_set(err, ATOLL_FAULT_HOST, 0,
						  "the command's process was killed before its "
						  "start")
				      : fail(err, "join the command's namespaces");
	cell->has_namespaces = true;
	return init_let_seal(command, err);
}

/* It takes the kernel a while to let the host's tree go: that is done now if the command's process
 * is still at work, and otherwise while it seals itself. */
static int leave_host(struct cell *cell, struct init_command *command, struct atoll_error *err)
{
	struct pollfd news = {.fd = command->pid ? command->start_fd : -1, .events = POLLIN};
	const bool is_first = poll(&news, 1, 0) == 0;
	int r = is_first ? ns_leave_host(err) : 0;

	if (r == 0 && command->pid)
		r = join_command(cell, command, err);
	return r == 0 && !is_first ? ns_leave_host(err) : r;
}

/* The guard reads paths from the memory of processes that made themselves undumpable, too. Where
 * there are many ids, what it does in somebody's stead it must be able to do as he is, and orders
 * to signal everybody are meant for every id. */
static uint64_t first_capabilities(const struct ns_ids *ids)
{
	uint64_t keep = 1ULL << CAP_SYS_PTRACE | ids_capabilities(ids);

	return ids->has_many ? keep | 1ULL << CAP_KILL : keep;
}

static int leave_keyring(struct atoll_error *err)
{
	int r = keyring_leave();

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "join a new session keyring") : 0;
}

static int set_up(struct cell *cell, struct init_config *config, struct init_command *command,
		  struct atoll_error *err)
{
	struct pollfd supervisor = {.fd = cell->control_fd};
	int r = cell->ids.is_shifted ? 0 : map_self(&cell->ids, err);

	if (r == 0)
		r = receive_trees(cell, err);
	if (r == 0)
		r = start_become_inside(&cell->ids, err);
	/* An id change clears it, and "no one outlives the supervisor" must hold from here on. It
	 * may have died before, and getppid() is always 0 here: its end of the socket tells. */
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		r = fail(err, "tie to the supervisor");
	if (r == 0 && poll(&supervisor, 1, 0) != 0)
		_exit(1);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = fail(err, "set no_new_privs");
	/* A change of id has made us undumpable, and join_command() looks at the copy of us. Nobody
	 * else runs under this id yet, and init_main() takes it back. */
	if (r == 0 && cell->ids.is_shifted && prctl(PR_SET_DUMPABLE, 1) < 0)
		r = fail(err, "become readable");
	cell->umask = umask(0);
	/* Before there are two of us, each of whom would have to. */
	if (r == 0)
		r = ns_bound_capabilities(ids_capabilities(&cell->ids), err);
	if (r == 0)
		r = leave_keyring(err);
	/* Making namespaces takes about half as long as the root does. */
	if (r == 0 && (config->is_service || !init_wants_terminal(config)))
		r = init_fork_apart(config, command, err);
	else if (r == 0)
		r = ns_make_namespaces(cell, err);
	cell->has_namespaces = !command->pid;
	if (r == 0)
		r = ns_build_root(cell, err);
	/* By the new /proc: that of the host knows the names of every sandbox that there is, and
	 * goes through all of them to find ours. */
	if (r == 0)
		quota_limit_user(cell);
	if (r == 0)
		r = leave_host(cell, command, err);
	if (r == 0 && cell->needs_keeper) {
		config->keeper = keep_start(cell, err);
		r = config->keeper < 0 ? config->keeper : 0;
	}
	return r < 0 ? r : ns_drop_capabilities(first_capabilities(&cell->ids), err);
}

struct init_config start_config(struct cell *cell)
{
	return (struct init_config){
		.spec = cell->spec,
		.zones = cell->zones,
		.n_zones = cell->n_zones,
		.limits = cell->limits,
		.usage = cell->usage,
		.peers = cell->peers,
		.proxy_port = cell->extra->proxy_port,
		.layer_fd = -1,
		.control_fd = cell->control_fd,
		.notice_fd = cell->notice_fd,
		.notices = cell->notices,
		.guards_files = cell->guards_files,
		.has_many_ids = cell->ids.has_many,
		.owner_uid = cell->ids.first_id[0],
		.owner_gid = cell->ids.first_id[1],
		.warden_fd = -1,
		.begin = ns_begin,
		.seal = ns_seal,
		.execute = ns_execute,
		.is_service = cell->extra->is_service,
		.take_step = ns_take_step,
		.data = cell,
		.stdio = cell->stdio,
	};
}

/* What the parent may need of a layer goes with it. The namespaces can be named only from in here
 * later: init_main() closes us to everybody. */
static int say_ready(struct cell *cell, struct atoll_error *err)
{
	cleanup_fd int user_ns = -1, mount_ns = -1;
	int fds[READY_FDS], r;
	size_t n = 0;

	if (cell->layer_fd >= 0 && !layer_of(cell)->top)
		fds[n++] = cell->layer_fd;
	if (cell->storage_fd >= 0)
		fds[n++] = cell->storage_fd;
	if (cell->layer_fd >= 0 && layer_of(cell)->is_changed) {
		user_ns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
		mount_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
		if (user_ns < 0 || mount_ns < 0)
			return fail(err, "open the sandbox's namespaces");
		fds[n++] = user_ns;
		fds[n++] = mount_ns;
	}
	r = fd_send(cell->setup_fd, "r", 1, fds, n);
	/* From inside no way leads there, and this is none either. */
	if (cell->storage_fd >= 0)
		close(take_fd(&cell->storage_fd));
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "tell the supervisor") : 0;
}

/* In the parent; in the same order. */
static void take_ready(struct cell *cell, const int *fds, size_t n, struct cell_handle *ret)
{
	size_t at = 0;

	if (layer_spot(cell) && !layer_of(cell)->top && at < n)
		ret->layer_fd = fds[at++];
	if (kept_is_wanted(cell) && at < n)
		ret->storage_fd = fds[at++];
	if (at + 1 < n) {
		cell->user_ns_fd = fds[at++];
		cell->mount_ns_fd = fds[at++];
	}
}

static _Noreturn void child_main(struct cell *cell)
{
	struct init_config config = start_config(cell);
	struct init_command command = {.start_fd = -1};
	struct atoll_error err = {0};
	int r;

	start_close_others(cell);
	start_wipe_secrets(cell->spec);
	start_wipe_arguments();
	r = set_up(cell, &config, &command, &err);
	if (r == 0)
		r = receive_leave(cell, &err);
	if (r == 0)
		r = say_ready(cell, &err);
	/* What is in memory is bounded by the size of that. */
	if (layer_of(cell)->top)
		config.layer_fd = cell->layer_fd;
	if (r < 0) {
		send(cell->setup_fd, &err, sizeof err, MSG_NOSIGNAL);
		_exit(1);
	}
	close(cell->setup_fd);
	init_main(&config, &command);
}

/* ---- the parent ---- */

pid_t start_clone(const struct cell *cell, uint64_t namespaces, int *ret_pid_fd)
{
	struct clone_args args = {
		.flags = namespaces | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pid_fd,
		.exit_signal = SIGCHLD,
	};

	if (cell->group.is_v2 && cell->group.v2_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cell->group.v2_fd;
	}
	return clone_process(&args);
}

/* Is there something that only the parent can do for it? */
static bool needs_help(const struct cell *cell)
{
	return cell->ids.is_shifted ||
	       (!cell->group.is_v2 && (cell->group.main.path[0] || cell->group.cpu.path[0]));
}

/* Where it does not, this may lie ready when it is born. */
static int send_go(int socket_fd, struct atoll_error *err)
{
	struct setup_message go = {.is_last = true};

	return send_message(socket_fd, &go, NULL, err);
}

static int help_child(struct cell *cell, pid_t pid, int socket_fd, struct atoll_error *err)
{
	cleanup_fd int userns_fd = -1;
	char path[64];
	int r;

	if (!cell->group.is_v2) {
		r = cgroup_enter(&cell->group, pid, err);
		if (r < 0)
			return r;
	}
	if (!cell->ids.is_shifted)
		return send_go(socket_fd, err);
	r = map_ids(pid, &cell->ids, err);
	if (r == 0)
		r = ids_map_owner(cell, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (userns_fd < 0)
		return fail(err, "open the sandbox's user namespace");
	return send_trees(cell, socket_fd, userns_fd, err);
}

int start_wait_ready(int socket_fd, int *ret_fds, size_t *n_fds, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = SETUP_MAX_S};
	struct atoll_error theirs;
	size_t none = 0;
	ssize_t got;

	/* A dead network mount can hold the set-up up for ever. */
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	got = fd_receive(socket_fd, &theirs, sizeof theirs, 0, ret_fds, n_fds ? n_fds : &none);
	/* It has ended without reading all that we sent, which is told before what it said. */
	if (got == -ECONNRESET)
		got = fd_receive(socket_fd, &theirs, sizeof theirs, 0, NULL, &none);
	if (got == 1)
		return 0;
	if (got == -EAGAIN)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "the set-up took more than %d s; is a grant on a dead mount?",
				 SETUP_MAX_S);
	if (got != sizeof theirs)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
				 "the sandbox ended during its set-up");
	theirs.text[sizeof theirs.text - 1] = '\0';
	if (err)
		*err = theirs;
	return theirs.errnum ? -theirs.errnum : -EPERM;
}

/* A new socket pair whose ends do not collide with 0, 1 and 2, even if the caller closed them. */
int start_make_pair(int pair[2], struct atoll_error *err)
{
	int made[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) < 0)
		return fail(err, "make a socket pair");
	for (int i = 0; i < 2; i++) {
		pair[i] = fd_above_stdio(made[i]);
		if (pair[i] < 0)
			errno = -pair[i];
	}
	return pair[0] < 0 || pair[1] < 0 ? fail(err, "make a socket pair") : 0;
}

int start_make_notices(struct cell *cell, int *ret_fd, struct atoll_error *err)
{
	const int room = 2 * NOTICE_PACKET_MAX;
	int pair[2], r;

	*ret_fd = cell->notice_fd = -1;
	if (!cell->notices)
		return 0;
	r = start_make_pair(pair, err);
	if (r < 0)
		return r;
	*ret_fd = pair[0];
	cell->notice_fd = pair[1];
	/* A packet fits whatever the host's default is. */
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	return 0;
}

/* So that /dev/stderr and its like can be opened inside. */
static int hand_over(const struct cell *cell, uint32_t uid, uint32_t gid, const int stdio[3],
		     struct atoll_error *err)
{
	uid = ids_host_id(&cell->ids, false, uid);
	gid = ids_host_id(&cell->ids, true, gid);
	for (int i = 0; cell->ids.is_shifted && i < 3; i++) {
		if (stdio[i] >= 0 && fchown(stdio[i], uid, gid) < 0)
			return fail(err, "hand the pipes over");
	}
	return 0;
}

int ns_exec(struct cell *cell, const struct cell_handle *handle, uint32_t number, int words_fd,
	    const int stdio[3], struct atoll_error *err)
{
	struct init_order order = {.type = INIT_EXEC, .step = number};
	struct init_step_head head = {0};
	int fds[4] = {words_fd}, n = 1, r;

	if (pread(words_fd, &head, sizeof head, 0) != sizeof head)
		return error_set(err, ATOLL_FAULT_BUG, errno, "the step's words");
	r = head.has_ids ? hand_over(cell, head.uid, head.gid, stdio, err)
			 : hand_over(cell, cell->ids.inside_uid, cell->ids.inside_gid, stdio, err);
	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++) {
		if (stdio[i] < 0)
			continue;
		order.stdio |= 1U << i;
		fds[n++] = stdio[i];
	}
	r = fd_send(handle->control_fd, &order, sizeof order, fds, (size_t)n);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "ask for a step") : 0;
}

int ns_start(struct cell *cell, const int stdio[3], struct cell_handle *ret,
	     struct atoll_error *err)
{
	cleanup_fd int setup = -1, control = -1, setup_child = -1, control_child = -1, pid_fd = -1;
	cleanup_fd int notice = -1;
	int pair[2], fds[READY_FDS], r;
	size_t n_fds = READY_FDS;
	pid_t pid;

	ret->layer_fd = ret->storage_fd = ret->notice_fd = -1;
	ret->notice_rest = cell->notices;
	r = ids_take(cell, err);
	if (r == 0)
		r = start_make_pair(pair, err);
	if (r < 0)
		return r;
	setup = pair[0], setup_child = pair[1];
	r = start_make_pair(pair, err);
	if (r < 0)
		return r;
	control = pair[0], control_child = pair[1];
	memcpy(cell->stdio, stdio, sizeof cell->stdio);
	r = hand_over(cell, cell->ids.first_id[0], cell->ids.first_id[1], stdio, err);
	if (r < 0)
		return r;
	cell->setup_fd = setup_child;
	cell->control_fd = control_child;
	r = start_make_notices(cell, &notice, err);
	if (r < 0)
		return r;

	if (!needs_help(cell))
		r = send_go(setup, err);
	if (r < 0)
		return r;
	pid = start_clone(cell, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP,
			  &pid_fd);
	if (pid == 0)
		child_main(cell);
	if (pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, -pid,
				 "create namespaces (see `atoll doctor`)");
	close(take_fd(&setup_child));
	if (cell->notice_fd >= 0)
		close(take_fd(&cell->notice_fd));
	r = needs_help(cell) ? help_child(cell, pid, setup, err) : 0;
	if (r == 0)
		r = send_contract(cell, setup, err);
	if (r == 0)
		r = send_leave(cell, setup, err);
	if (r == 0)
		r = start_wait_ready(setup, fds, &n_fds, err);
	if (r == 0)
		take_ready(cell, fds, n_fds, ret);
	ret->listener_fd = ret->dns_fd = -1;
	if (r == 0 && network_is_on(&cell->spec->network))
		r = net_take(control, ret, err);
	if (r < 0) {
		if (ret->layer_fd >= 0)
			close(ret->layer_fd);
		if (ret->storage_fd >= 0)
			close(ret->storage_fd);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return r;
	}
	ret->pid = pid;
	ret->pid_fd = take_fd(&pid_fd);
	ret->control_fd = take_fd(&control);
	ret->notice_fd = take_fd(&notice);
	return 0;
}
