/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/start.h"

#include "base/clone.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/notice.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>

/*
 * How a sandbox starts
 *
 *	parent                                  child, the sandbox's first process
 *	clone into most namespaces
 *	                                        start_map_self(): an ordinary user's single id
 *	as root: map the ids, copy the trees
 *	  with ids shifted, send them over  →   start_receive_trees()
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
		return start_send_go(socket_fd, err);
	r = start_map_ids(pid, &cell->ids, err);
	if (r == 0)
		r = ids_map_owner(cell, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (userns_fd < 0)
		return start_fail(err, "open the sandbox's user namespace");
	return start_send_trees(cell, socket_fd, userns_fd, err);
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

/* Made by pipe() or socket(), so that nobody else has it by a name: a file of the host, such as
 * /dev/null for a step without input, must not get the sandbox's id as its owner. */
static bool is_nameless(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == PIPEFS_MAGIC || fs.f_type == SOCKFS_MAGIC);
}

/* So that /dev/stderr and its like can be opened inside. */
static int hand_over(const struct cell *cell, uint32_t uid, uint32_t gid, const int stdio[3],
		     struct atoll_error *err)
{
	uid = ids_host_id(&cell->ids, false, uid);
	gid = ids_host_id(&cell->ids, true, gid);
	for (int i = 0; cell->ids.is_shifted && i < 3; i++) {
		if (stdio[i] >= 0 && is_nameless(stdio[i]) && fchown(stdio[i], uid, gid) < 0)
			return start_fail(err, "hand the pipes over");
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
	int pair[2], fds[START_READY_FDS], r;
	size_t n_fds = START_READY_FDS;
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
		r = start_send_go(setup, err);
	if (r < 0)
		return r;
	pid = start_clone(cell, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP,
			  &pid_fd);
	if (pid == 0)
		start_child(cell);
	if (pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, -pid,
				 "create namespaces (see `atoll doctor`)");
	close(take_fd(&setup_child));
	if (cell->notice_fd >= 0)
		close(take_fd(&cell->notice_fd));
	r = needs_help(cell) ? help_child(cell, pid, setup, err) : 0;
	if (r == 0)
		r = start_send_contract(cell, setup, err);
	if (r == 0)
		r = start_send_leave(cell, setup, err);
	if (r == 0)
		r = start_wait_ready(setup, fds, &n_fds, err);
	if (r == 0)
		r = start_take_ready(cell, fds, n_fds, ret, err);
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
