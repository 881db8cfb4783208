/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/start.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/keyring.h"
#include "base/uapi.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- what it has of its parent ---- */

#define KEEP_MAX 16

/* Descriptors that the command gets, and the Landlock ruleset. */
static size_t list_for_command(const struct cell *cell, int *ret)
{
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		ret[n++] = cell->stdio[i];
	ret[n++] = cell->bare ? cell->bare->ruleset_fd : -1;
	for (size_t i = 0; i < cell->spec->n_descriptors; i++)
		ret[n++] = cell->spec->descriptors[i];
	return n;
}

int start_close_others(const struct cell *cell, const int *also, size_t n_also,
		       struct atoll_error *err)
{
	int keep[KEEP_MAX + SPEC_DESCRIPTORS_MAX];
	size_t n = list_for_command(cell, keep);
	int r;

	for (size_t i = 0; i < n_also && n < ARRAY_SIZE(keep); i++)
		keep[n++] = also[i];
	r = fd_close_others(keep, n);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "close other descriptors") : 0;
}

int start_leave_caller(const struct cell *cell, struct atoll_error *err)
{
	const int keep[] = {cell->setup_fd, cell->control_fd, cell->notice_fd, cell->ids.slot_fd,
			    cell->bare ? cell->bare->lock_fd : -1};
	int r = start_close_others(cell, keep, ARRAY_SIZE(keep), err);

	if (r == 0)
		r = fd_blank_stdio();
	if (r < 0 && !err->text[0])
		error_set(err, ATOLL_FAULT_HOST, -r, "close standard input and output");
	start_wipe_secrets(cell->spec);
	start_wipe_arguments();
	return r;
}

/* The command's process has them by now. */
static void close_for_command(void *data)
{
	struct cell *cell = data;

	for (int i = 0; i < 3; i++) {
		if (cell->stdio[i] >= 0)
			close(cell->stdio[i]);
	}
	for (size_t i = 0; i < cell->spec->n_descriptors; i++)
		close(cell->spec->descriptors[i]);
}

/* In the command's process, or a template: nothing of the first process's stays open in it. */
static int keep_for_command(void *data, const int *also, size_t n, struct atoll_error *err)
{
	return start_close_others(data, also, n, err);
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

/* ---- becoming the first process ---- */

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
				      : start_fail(err, "join the command's namespaces");
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
	int r = cell->ids.is_shifted ? 0 : start_map_self(&cell->ids, err);

	if (r == 0)
		r = start_receive_trees(cell, err);
	if (r == 0)
		r = start_become_inside(&cell->ids, err);
	/* An id change clears it, and "no one outlives the supervisor" must hold from here on. It
	 * may have died before, and getppid() is always 0 here: its end of the socket tells. */
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		r = start_fail(err, "tie to the supervisor");
	if (r == 0 && poll(&supervisor, 1, 0) != 0)
		_exit(1);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = start_fail(err, "set no_new_privs");
	/* A change of id has made us undumpable, and join_command() looks at the copy of us. Nobody
	 * else runs under this id yet, and init_main() takes it back. */
	if (r == 0 && cell->ids.is_shifted && prctl(PR_SET_DUMPABLE, 1) < 0)
		r = start_fail(err, "become readable");
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
		.maps_ids = cell->ids.is_shifted && !cell->ids.is_unmapped,
		.owner_uid = cell->ids.first_id[0],
		.owner_gid = cell->ids.first_id[1],
		.warden_fd = -1,
		.close_others = keep_for_command,
		.let_go = close_for_command,
		.lock = ns_lock_first,
		.begin = ns_begin,
		.seal = ns_seal,
		.execute = ns_execute,
		.is_service = cell->extra->is_service,
		.take_step = ns_take_step,
		.data = cell,
		.stdio = cell->stdio,
	};
}

_Noreturn void start_child(struct cell *cell)
{
	struct init_config config = start_config(cell);
	struct init_command command = {.start_fd = -1};
	struct atoll_error err = {0};
	int r;

	r = start_leave_caller(cell, &err);
	if (r == 0)
		r = set_up(cell, &config, &command, &err);
	if (r == 0)
		r = start_receive_leave(cell, &err);
	if (r == 0)
		r = start_say_ready(cell, &command, &err);
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
