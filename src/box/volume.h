/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "box/work.h"

#include <sys/stat.h>

/*
 * Volumes: directories that outlive boxes
 *
 *	DIR/volumes/ID/meta   whose it is, its name, its token
 *	DIR/volumes/ID/data   what is in it
 *	DIR/volumes/ID/draft  what is being written
 *
 *   volume.c          which there are
 *   volume-mounts.c   those that boxes have
 *   volume-content.c  what is in one: on threads, beneath `data`, and never through a link: what is
 *                     there may have been put there by anybody
 *
 * A volume has no owner inside: on the host all is the daemon's, which a box sees as its first
 * user's. Numbers that a client sets are kept beside the file, and told.
 */

#define VOLUME_NAME_MAX	 64
#define VOLUME_DEPTH_MAX 64 /* of a path */

struct volume {
	char id[24];
	char name[VOLUME_NAME_MAX + 1];
	char tenant[40];
	char token[41];
};

/* `volume` is NULL if `err` says why. */
typedef void volume_made(const struct volume *volume, const struct atoll_error *err, void *data);
/* Calls back from the loop. EEXIST: this tenant has one of that name; EINVAL; EDQUOT. */
void volume_create(struct tenant *tenant, const char *name, volume_made *made, void *data);
/* At the start, after the tenants; and at the end. */
int volumes_load(struct daemon *daemon, struct atoll_error *err);
void volumes_free(struct daemon *daemon);
/* Of anybody. */
bool volume_find(struct daemon *daemon, const char *id, struct volume *ret);
/* Whose the volume of this name in the directory of volumes is; false: it is none. For any thread.
 */
bool volume_owner(int volumes_fd, const char *id, char ret_tenant[40]);
/* The tenant's, by name; free() them. */
int volume_list(struct tenant *tenant, struct volume **ret, size_t *ret_n, struct atoll_error *err);
/* It cannot be found any more when this returns; what is in it goes on a thread. -EBUSY: a box has
 * it. */
int volume_remove(struct daemon *daemon, const struct volume *volume, struct atoll_error *err);

/* ---- volume-mounts.c ---- */

/* What a box with these mounts (a JSON list of {name, path}) is to be granted, each as --write-at
 * takes it; volume_grants_free(). -EINVAL: no such volume, or no such place. */
int volume_grants(struct tenant *tenant, const char *mounts, char ***ret, size_t *ret_n,
		  struct atoll_error *err);
void volume_grants_free(char **grants, size_t n);
/* -EBUSY: a box has it, or is being made with it. */
int volume_check_unused(struct daemon *daemon, const struct volume *volume,
			struct atoll_error *err);

/* Of a box that cannot be found yet; embedded in what makes it, and `mounts` is that one's. */
struct volume_claim {
	const struct tenant *tenant;
	const char *mounts; /* NULL: none */
	struct volume_claim *next;
};
void volume_claim(struct daemon *daemon, struct volume_claim *claim);
/* Fine also if it was never claimed. */
void volume_unclaim(struct daemon *daemon, struct volume_claim *claim);

/* ---- volume-content.c ---- */

enum volume_op {
	VOLUME_STAT,
	VOLUME_LIST,
	VOLUME_MAKE_DIR,
	VOLUME_CHANGE,
	VOLUME_REMOVE,
	VOLUME_READ,   /* `fd` is the file */
	VOLUME_DRAFT,  /* `fd` is a new file, nowhere yet; `draft` names it */
	VOLUME_COMMIT, /* the draft gets its place */
};

struct volume_entry {
	char *path; /* "/a/b" */
	char *target;
	struct stat st;
	uint32_t uid, gid;
};

/* Embedded in what asks; `done` is called on the loop's thread, and volume_job_done() ends it. */
struct volume_job {
	struct work_item item;
	enum volume_op op;
	char dir[PATH_MAX]; /* of the volume */
	char *path;
	uint32_t depth;
	bool force;
	int64_t uid, gid, mode; /* -1: not said */
	char draft[32];

	int code;
	struct atoll_error error;
	struct volume_entry *entries;
	size_t n;
	int fd;
};

/* `item.done` has been set. 0, or -ENOMEM, -EINVAL: it does not begin. */
int volume_job_start(struct daemon *daemon, const struct volume *volume, struct volume_job *job,
		     enum volume_op op, const char *path, struct atoll_error *err);
/* What it holds; also fine on one that was never started, if it was all zeros and fd -1. */
void volume_job_done(struct volume_job *job);
/* What was written of a draft that is not to be. */
void volume_draft_drop(const struct volume_job *job);
/* Removes a tree that nobody changes any more. */
void volume_remove_tree(int dir_fd, const char *name);
/* Is there room on the disk for more? */
bool volume_has_room(int fd);
