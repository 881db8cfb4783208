/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-copy.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/guest.h"
#include "box/template-build.h"
#include "box/template-builds.h"
#include "box/template-run.h"
#include "box/template.h"
#include "box/volume-content.h"
#include "box/work.h"

#include <atoll/layer.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * COPY: an archive that was uploaded comes into the box of a build
 *
 *	look_at()	on a thread: the importer unpacks it, refuses it if it is hostile, and what
 *			it unpacked is thrown away
 *	hand_in()	on a thread: the archive itself, as a file of the box
 *	unpack()	a command in the box
 */

#define FILES_MAX      64 /* archives of a tenant */
#define ARCHIVE_INSIDE "/tmp/.atoll-copy.tar"

int build_files_path(struct tenant *tenant, const char *hash, char ret[PATH_MAX],
		     struct atoll_error *err)
{
	char dir[PATH_MAX];
	int r;

	if (!hash || strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "a hash has 64 hexadecimal digits");
	r = daemon_subdir(tenant->daemon, "templates", dir, err);
	if (r == 0)
		snprintf(ret, PATH_MAX, "%.*s/%s-%s.tar", PATH_MAX - 128, dir, tenant->id, hash);
	return r;
}

/* What a tenant has uploaded, but for the latest: the oldest goes. */
static void forget_one(DIR *dir, const char *tenant, size_t *ret_n)
{
	char oldest[NAME_MAX + 1] = "";
	int64_t oldest_s = INT64_MAX;
	struct dirent *entry;
	struct stat st;
	size_t n = 0;

	rewinddir(dir);
	while ((entry = readdir(dir))) {
		if (!starts_with(entry->d_name, tenant) || entry->d_name[strlen(tenant)] != '-' ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		n++;
		if (st.st_mtime < oldest_s) {
			oldest_s = st.st_mtime;
			snprintf(oldest, sizeof oldest, "%s", entry->d_name);
		}
	}
	*ret_n = n;
	if (n > FILES_MAX)
		unlinkat(dirfd(dir), oldest, 0);
}

void build_files_forget(const char *path, const char *tenant)
{
	char name[PATH_MAX];
	size_t n = 0;
	DIR *dir;

	snprintf(name, sizeof name, "%s", path);
	*strrchr(name, '/') = '\0';
	dir = opendir(name);
	if (!dir)
		return;
	do
		forget_one(dir, tenant, &n);
	while (n > FILES_MAX + 1);
	closedir(dir);
}

/* ---- what a killed daemon left: parts of archives, and trees that were unpacked to be looked at
 * ---- */

struct leftover {
	struct work_item item;
	char path[PATH_MAX];
};

static void run_leftover(struct work_item *item)
{
	volume_remove_tree(AT_FDCWD, ((struct leftover *)item)->path);
}

static void leftover_gone(struct work_item *item)
{
	free(item);
}

void build_files_tidy(struct daemon *daemon)
{
	char path[PATH_MAX];
	DIR *dir = daemon_subdir(daemon, "templates", path, NULL) < 0 ? NULL : opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		struct leftover *leftover;

		if (streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
		    ends_with(entry->d_name, ".tar"))
			continue;
		leftover = calloc(1, sizeof *leftover);
		if (!leftover)
			break;
		leftover->item = (struct work_item){.run = run_leftover, .done = leftover_gone};
		snprintf(leftover->path, sizeof leftover->path, "%.*s/%s", PATH_MAX - NAME_MAX - 2,
			 path, entry->d_name);
		work_submit(daemon_work(daemon), &leftover->item, WORK_LATER);
	}
	if (dir)
		closedir(dir);
}

/* Docker's meaning of COPY: a directory's contents, a file under its new name, or several into a
 * directory. */
static const char copy_script[] =
	"set -e; archive=$1 source=$2 to=$3 mode=$4 owner=$5\n"
	"from=$(mktemp -d); trap 'rm -rf \"$from\" \"$archive\"' EXIT\n"
	"here=$PWD; case $to in /*) ;; *) to=$here/$to ;; esac\n"
	"tar -xf \"$archive\" -C \"$from\" --no-same-owner\n"
	"cd \"$from\"; shopt -s nullglob globstar dotglob; IFS=; files=($source)\n"
	"[ ${#files[@]} -gt 0 ] || { echo \"nothing matches '$source'\" >&2; exit 1; }\n"
	"[ -z \"$mode\" ] || find \"${files[@]}\" -type f -exec chmod \"$mode\" {} +\n"
	"[ -z \"$owner\" ] || chown -R \"$owner\" \"${files[@]}\" 2>/dev/null || echo \"the owner "
	"stays as it is\"\n"
	"for file in \"${files[@]}\"; do\n"
	"  if [ -d \"$file\" ] && [ ! -L \"$file\" ]; then mkdir -p \"$to\"; cp -a \"$file/.\" "
	"\"$to/\"\n"
	"  elif [ ${#files[@]} -gt 1 ] || [ -d \"$to\" ] || [ \"${to%/}\" != \"$to\" ]; then mkdir "
	"-p \"$to\"; cp -a \"$file\" \"$to/\"\n"
	"  else mkdir -p \"$(dirname \"$to\")\"; cp -a \"$file\" \"$to\"; fi\n"
	"done\n";

struct copying {
	struct work_item item;
	struct tenant *tenant;
	char build[40], archive[PATH_MAX], trial[PATH_MAX];
	int to_fd;	   /* -1: only look at it */
	uint64_t reserved; /* of tenant->scratch, for what is unpacked; what does not fit is refused
			    */
	int code;
	struct atoll_error error;
};

/* Where it was unpacked is nothing for the tenant to know. */
static void hide_place(struct copying *copying)
{
	char *text = copying->error.text, *at = strstr(text, copying->trial);

	at = at ? strstr(at + strlen(copying->trial), ": ") : NULL;
	if (at)
		memmove(text, at + 2, strlen(at + 2) + 1);
}

/* The importer refuses what is hostile; what it unpacked is of no use but to know that. */
static void look_at(struct copying *copying, int fd)
{
	struct atoll_archive_report report;

	copying->code = atoll_import(fd, copying->trial,
				     &(struct atoll_import_options){.max_bytes = copying->reserved,
								    .keeps_outside_links = true,
								    .keeps_marked = true},
				     &report, &copying->error);
	volume_remove_tree(AT_FDCWD, copying->trial);
	if (copying->code < 0)
		hide_place(copying);
}

static void hand_in(struct copying *copying, int fd)
{
	ssize_t n;

	while ((n = sendfile(copying->to_fd, fd, NULL, 16U << 20)) > 0)
		;
	copying->code = n < 0 ? error_set(&copying->error, ATOLL_FAULT_HOST, errno,
					  "write the files into the sandbox")
			      : 0;
}

static void run_copying(struct work_item *item)
{
	struct copying *copying = (struct copying *)item;
	cleanup_fd int fd = open(copying->archive, O_RDONLY | O_CLOEXEC);

	copying->error = (struct atoll_error){0};
	if (fd < 0)
		copying->code = error_set(&copying->error, ATOLL_FAULT_REQUEST, errno,
					  "its files were not uploaded");
	else if (copying->to_fd < 0)
		look_at(copying, fd);
	else
		hand_in(copying, fd);
}

static struct build *copying_build(struct copying *copying)
{
	struct build *build = build_find(copying->tenant, NULL, copying->build);

	return build && build->state == BUILD_BUILDING && build->box ? build : NULL;
}

static void unpack(struct build *build)
{
	const char *user = build_argument(build, 2);

	if (!user)
		user = json_string_value(json_object_get(build->settings, "user"));
	build_run(build, "root", copy_script,
		  (const char *const[]){ARCHIVE_INSIDE, build_argument(build, 0),
					build_argument(build, 1),
					build_argument(build, 3) ? build_argument(build, 3) : "",
					user ? user : "user", NULL},
		  build_step_done);
}

static void copied(struct work_item *item)
{
	struct copying *copying = (struct copying *)item;
	struct build *build = copying_build(copying);

	close(copying->to_fd);
	if (build && copying->code < 0)
		build_fail(build, NULL, "COPY %.200s: %s", build_argument(build, 0),
			   copying->error.text);
	else if (build)
		unpack(build);
	free(copying);
}

static void opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		   void *data)
{
	struct copying *copying = data;
	struct build *build = copying_build(copying);

	(void)entry;
	if (!build || fd < 0) {
		if (build)
			build_fail(build, NULL, "COPY %.200s: %s", build_argument(build, 0),
				   err->text);
		if (fd >= 0)
			close(fd);
		free(copying);
		return;
	}
	copying->to_fd = fd;
	copying->item =
		(struct work_item){.run = run_copying, .done = copied, .owner = copying->tenant};
	work_submit(daemon_work(build->tenant->daemon), &copying->item, WORK_NOW);
}

static void looked_at(struct work_item *item)
{
	struct copying *copying = (struct copying *)item;
	struct build *build = copying_build(copying);

	copying->tenant->scratch -= copying->reserved;
	if (build && copying->code == 0) {
		guest_write(build->box, "root", ARCHIVE_INSIDE, &(struct box_pairs){0}, opened,
			    copying);
		return;
	}
	if (build)
		build_fail(build, NULL, "COPY %.200s: %s", build_argument(build, 0),
			   copying->error.text);
	free(copying);
}

void build_copy(struct build *build)
{
	json_t *steps = json_object_get(build->request, "steps");
	json_t *step = json_array_get(steps, build->at);
	const char *hash = json_string_value(json_object_get(step, "filesHash"));
	struct copying *copying = calloc(1, sizeof *copying);
	struct atoll_error err;

	if (!copying || build_files_path(build->tenant, hash, copying->archive, &err) < 0) {
		free(copying);
		build_fail(build, NULL, "COPY %.200s: its files have no hash",
			   build_argument(build, 0));
		return;
	}
	/* What is larger than its disk does not fit into the box either. */
	copying->reserved = (uint64_t)build->box->disk_mib << 20;
	if (!tenant_reserve_scratch(build->tenant, copying->reserved)) {
		free(copying);
		build_fail(build, NULL,
			   "COPY %.200s: other archives of this tenant are being looked at; try "
			   "again",
			   build_argument(build, 0));
		return;
	}
	copying->tenant = build->tenant;
	copying->to_fd = -1;
	memcpy(copying->build, build->id, sizeof copying->build);
	snprintf(copying->trial, sizeof copying->trial, "%.*s-%.8s-%zu.trial",
		 (int)(sizeof copying->trial - 48), copying->archive, build->id, build->at);
	copying->item =
		(struct work_item){.run = run_copying, .done = looked_at, .owner = build->tenant};
	work_submit(daemon_work(build->tenant->daemon), &copying->item, WORK_NOW);
}
