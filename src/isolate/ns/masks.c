/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/*
 * Names that disappear
 *
 * In a layer on top of the host's tree a whiteout stands for each. The stage's files are reached by
 * descriptors: there are dozens of masks, and a path for each takes longer than what is done with
 * it.
 */

#define STAGE NS_STAGE_DIR

/* Names of one and the same node: a node of its own for each would cost more than the rest. */
#define WHITEOUT_NAME "whiteout"
#define WHITEOUT      STAGE "/" WHITEOUT_NAME

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

static int white_out(const struct ns_masking *masking, const char *name, struct atoll_error *err)
{
	if (linkat(masking->stage_fd, WHITEOUT_NAME, masking->dir_fd, name, 0) < 0 &&
	    errno != EEXIST && errno != ENOTDIR /* what it is in has been masked before it */)
		return fail(err, "mask", name);
	return 0;
}

/*
 * A name that is not there, in the layer on top. Where the way to it does not exist, its first
 * missing part is the name: a directory of the layer's own would be listed with all that is masked
 * in it. Where the way goes through something else than a directory, nothing is there to hide (a
 * link's target counts). Masks come sorted, so that the way is mostly that of the one before.
 */
int masks_add(struct ns_masking *masking, const char *relative, struct atoll_error *err)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t i = 0; relative[i] && i < sizeof part - 1; part[i] = relative[i], i++) {
		if (relative[i] != '/')
			continue;
		part[i] = '\0';
		if (memcmp(part, masking->way, i) == 0 &&
		    (masking->way[i] == '/' || masking->way[i] == '\0'))
			continue;
		if (fstatat(masking->host_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			/* EACCES: nobody inside passes the directory above, unless somebody opens
			 * it on the host later. */
			if (errno != ENOENT && errno != EACCES)
				return fail(err, "look at", part);
			return white_out(masking, part, err);
		}
		if (!S_ISDIR(st.st_mode))
			return 0;
		if (mkdirat(masking->dir_fd, part, 0755) < 0 && errno != EEXIST)
			/* ENOTDIR: what it is in has been masked before it. */
			return errno == ENOTDIR ? 0 : fail(err, "create", part);
		strcpy(masking->way, part);
	}
	return white_out(masking, relative, err);
}

/* A directory of the layer's own stands for the host's, and looks like it. Not its owner: that is
 * whoever is inside. */
static void look_alike(const char *dir, const char *host, const char *relative)
{
	char path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; relative[i]; i++) {
		if (relative[i] != '/')
			continue;
		snprintf(path, sizeof path, "%s/%.*s", host, (int)i, relative);
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			return;
		snprintf(path, sizeof path, "%s/%.*s", dir, (int)i, relative);
		if (chmod(path, st.st_mode & 0777) < 0 ||
		    utimensat(AT_FDCWD, path, (struct timespec[]){st.st_atim, st.st_mtim},
			      AT_SYMLINK_NOFOLLOW) < 0)
			return;
	}
}

int masks_begin(struct ns_masking *masking, const char *mask, const char *host,
		struct atoll_error *err)
{
	*masking = (struct ns_masking){.stage_fd = -1, .dir_fd = -1, .host_fd = -1};
	if (mkdir(mask, 0755) < 0)
		return fail(err, "create", mask);
	if (mknod(WHITEOUT, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST)
		return fail(err, "create", WHITEOUT);
	masking->stage_fd = open(STAGE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	masking->dir_fd = open(mask, O_PATH | O_DIRECTORY | O_CLOEXEC);
	masking->host_fd = open(host, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (masking->stage_fd < 0 || masking->dir_fd < 0 || masking->host_fd < 0)
		return fail(err, "open", mask);
	return 0;
}

void masks_end(struct ns_masking *masking)
{
	const int fds[] = {masking->stage_fd, masking->dir_fd, masking->host_fd};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static int make_all(const struct ns_mount *spot, const char *mask, const char *host,
		    struct atoll_error *err)
{
	struct ns_masking masking;
	int r = masks_begin(&masking, mask, host, err);

	for (size_t i = 0; r == 0 && i < spot->n_masks; i++)
		r = masks_add(&masking, spot->masks[i], err);
	masks_end(&masking);
	return r;
}

int ns_make_masks(const struct ns_mount *spot, int tree_fd, size_t number, struct atoll_error *err)
{
	char mask[48], host[48];
	int r;

	snprintf(mask, sizeof mask, "%s/mask-%zu", STAGE, number);
	snprintf(host, sizeof host, "%s/host-%zu", STAGE, number);
	if (mkdir(host, 0755) < 0)
		return fail(err, "create", host);
	r = ns_attach(tree_fd, host, err);
	if (r == 0 && spot->n_masks)
		r = make_all(spot, mask, host, err);
	for (size_t i = 0; r == 0 && spot->is_layer && i < spot->n_masks; i++)
		look_alike(mask, host, spot->masks[i]);
	return r;
}
