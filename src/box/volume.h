/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/work.h"

#include <atoll/error.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

struct daemon;
struct tenant;

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

/* Of a box that cannot be found yet; embedded in what makes it, and `mounts` is that one's. */
struct volume_claim {
	const struct tenant *tenant;
	const char *mounts; /* NULL: none */
	struct volume_claim *next;
};

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

	/* Of a list, both on the thread: each entry, which is not kept; and the end of them. 0 or a
	 * negative errno, which ends it. */
	int (*put)(struct volume_job *job, const struct volume_entry *entry);
	int (*end)(struct volume_job *job);
	size_t n_names; /* that were read of directories */

	int code;
	struct atoll_error error;
	struct volume_entry *entries;
	size_t n;
	int fd;
};
