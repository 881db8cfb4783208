/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clone.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * Other layers for a live workspace
 *
 * The first process has no right to mount any more, so a short-lived process of ours goes in:
 *   open_trees()   as root: copies of the directories, ids mapped, while we are outside
 *   enter()        the sandbox's user namespace, and a mount namespace to work in, which for an
 *                  ordinary user is where he may copy mounts of the host's
 *   build()        the overlay, on a tmpfs of its own that goes away with us
 *   exchange()     the sandbox's mount namespace: the old one off, the new one in its place
 * It tells how it went, and only then lets the old overlay go: that takes the kernel the longer the
 * more names it remembers there, and nobody has to wait for it. After a fork of a program that may
 * have threads: no allocation.
 *
 * Landlock knows the workspace by its root, and a new overlay has a new one: what is started later
 * makes its own rules when it seals itself. Nothing that was started before may still run.
 */

struct relayer {
	const struct cell *cell;
	const struct cell_layer *layer;
	const struct ns_mount *spot;
	struct layer_trees trees;
	int tree_fd; /* the overlay, detached */
	int old_fd;  /* keeps the one before */
	int top_fd;  /* for the first process, to watch */
};

static int fail(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s", what);
}

static int open_trees(struct relayer *self, int user_ns_fd, struct atoll_error *err)
{
	char parent[PATH_MAX];
	struct ns_mount stage;
	int r = 0;

	self->trees.base = ns_open_tree(self->spot, user_ns_fd, err);
	if (self->trees.base < 0)
		return self->trees.base;
	if (self->layer->top) {
		r = layer_stage(self->layer->top, true, &stage, err);
		if (r == 0)
			r = self->trees.top = ns_open_tree(&stage, user_ns_fd, err);
	}
	if (r >= 0)
		r = layer_parent(self->layer, parent, err);
	if (r == 0 && parent[0]) {
		r = layer_stage(parent, false, &stage, err);
		if (r == 0)
			r = self->trees.sealed = ns_open_tree(&stage, user_ns_fd, err);
	}
	return r < 0 ? r : 0;
}

static int enter(struct relayer *self, struct atoll_error *err)
{
	const struct ns_ids *ids = &self->cell->ids;
	int r = 0;

	if (ids->is_shifted)
		r = open_trees(self, ids_map_for(self->cell, self->spot, self->cell->user_ns_fd),
			       err);
	if (r < 0)
		return r;
	if (setns(self->cell->user_ns_fd, CLONE_NEWUSER) < 0)
		return fail(err, "enter the sandbox's user namespace");
	r = start_become_inside(ids, err);
	if (r == 0 && unshare(CLONE_NEWNS) < 0)
		r = fail(err, "create a mount namespace");
	if (r == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		r = fail(err, "make '/' private");
	return r < 0 || ids->is_shifted ? r : open_trees(self, -1, err);
}

static int build(struct relayer *self, struct atoll_error *err)
{
	int r;

	umask(0);
	/* The same shape as in root.c, because the same steps follow. */
	if (mount("atoll", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=16m") < 0 ||
	    mkdir("/tmp/root", 0700) < 0 || mkdir("/tmp/stage", 0700) < 0 ||
	    mkdir("/tmp/root/new", 0700) < 0 || chdir("/tmp/root") < 0)
		return fail(err, "make a place to build on");
	r = layer_mount(self->spot, self->layer, &self->trees, 0, "new", err);
	if (r < 0)
		return r;
	self->tree_fd = open_tree(AT_FDCWD, "new", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	self->top_fd = open(NS_STAGE_DIR "/top", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return self->tree_fd < 0 || self->top_fd < 0 ? fail(err, "copy the new layers") : 0;
}

static int exchange(struct relayer *self, struct atoll_error *err)
{
	const char *path = self->spot->path;

	if (setns(self->cell->mount_ns_fd, CLONE_NEWNS) < 0)
		return fail(err, "enter the sandbox's mount namespace");
	/* The way there may lead through storage that is written inside. Nobody runs there now who
	 * could change it; a link that was put there before must not lead us elsewhere. */
	self->old_fd = fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	if (self->old_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, EOPNOTSUPP,
				 "the way to the workspace was replaced inside");
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		return fail(err, "take the layers off the workspace");
	if (move_mount(self->tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return fail(err, "put the new layers in their place");
	return 0;
}

static _Noreturn void relayer_main(struct relayer *self, int control_fd, int result_fd)
{
	const struct init_order order = {.type = INIT_LAYER};
	struct atoll_error err = {0};
	sigset_t all;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-relayer");
	r = enter(self, &err);
	if (r == 0)
		r = build(self, &err);
	if (r == 0)
		r = exchange(self, &err);
	if (r == 0)
		fd_send(control_fd, &order, sizeof order, &self->top_fd, 1);
	if (fd_write_all(result_fd, &err, sizeof err) < 0)
		_exit(1);
	close(result_fd);
	_exit(r < 0);
}

/* Reasons why it cannot be done in place. */
static int check(const struct cell *cell, const struct ns_mount *spot,
		 const struct cell_layer *layer, struct atoll_error *err)
{
	if (!spot || cell->mount_ns_fd < 0 || !layer->top || !layer_of(cell)->top)
		return error_set(err, ATOLL_FAULT_HOST, EOPNOTSUPP,
				 "these layers cannot be exchanged");
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount != spot && mount->kind != NS_STAGE && mount->kind != NS_LINK &&
		    path_is_within(mount->path, spot->path))
			return error_set(err, ATOLL_FAULT_HOST, EOPNOTSUPP,
					 "'%s' is mounted in the workspace", mount->path);
	}
	return 0;
}

void ns_relayer_done(struct cell *cell)
{
	while (cell->relayer_pid > 0 && waitpid(cell->relayer_pid, NULL, __WALL) < 0 &&
	       errno == EINTR)
		;
	cell->relayer_pid = 0;
}

int ns_relayer(struct cell *cell, const struct cell_handle *handle, const struct cell_layer *layer,
	       struct atoll_error *err)
{
	struct relayer self = {.cell = cell,
			       .layer = layer,
			       .spot = layer_spot(cell),
			       .trees = {-1, -1, -1},
			       .tree_fd = -1,
			       .old_fd = -1};
	struct clone_args args = {0}; /* no signal: nobody but us is to notice its end */
	cleanup_fd int result = -1, result_child = -1;
	struct atoll_error theirs;
	int ends[2], r;

	r = check(cell, self.spot, layer, err);
	if (r < 0)
		return r;
	ns_relayer_done(cell);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(err, "make a pipe");
	result = ends[0], result_child = ends[1];
	cell->relayer_pid = clone_process(&args);
	if (cell->relayer_pid == 0)
		relayer_main(&self, handle->control_fd, result_child);
	if (cell->relayer_pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, -cell->relayer_pid, "fork");
	close(take_fd(&result_child));
	r = fd_read_exact(result, &theirs, sizeof theirs);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_BUG, -r, "the layers were not exchanged");
	if (theirs.fault == ATOLL_FAULT_NONE)
		return 0;
	*err = theirs;
	return theirs.errnum ? -theirs.errnum : -EPERM;
}
