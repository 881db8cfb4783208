/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/checkpoints.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define FILE_MAX (64 << 20)

/* Which checkpoint the sandbox stands on, in its meta. */
#define KEY "checkpoint"

/* ---- reading ---- */

static void free_point(struct checkpoint *point)
{
	while (point->n_layers)
		free(point->layers[--point->n_layers]);
	free(point->layers);
	free(point->info.command);
}

void checkpoints_done(struct checkpoints *steps)
{
	for (size_t i = 0; i < steps->n; i++)
		free_point(&steps->points[i]);
	free(steps->points);
	*steps = (struct checkpoints){0};
}

static int read_layers(struct checkpoint *point, char *text)
{
	char *roots = strchr(text, '+'), *id;

	if (roots) {
		*roots = '\0';
		layer_roots_read(roots + 1, &point->roots);
	}
	if (streq(text, "-"))
		return 0;
	while ((id = strsep(&text, ","))) {
		char **more = realloc(point->layers, (point->n_layers + 1) * sizeof *more);

		if (!more)
			return -ENOMEM;
		point->layers = more;
		more[point->n_layers] = strdup(id);
		if (!more[point->n_layers])
			return -ENOMEM;
		point->n_layers++;
	}
	return 0;
}

/* NUMBER TIME STATUS NAME LAYERS[+ROOTS] COMMAND; -EBADMSG for what is none. */
static int read_line(char *line, struct checkpoint *point)
{
	const char *fields[5];

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		fields[i] = strsep(&line, " ");
		if (!line)
			return -EBADMSG;
	}
	point->info.number = strtoull(fields[0], NULL, 10);
	point->info.time_ns = strtoull(fields[1], NULL, 10);
	point->info.status = (int32_t)strtol(fields[2], NULL, 10);
	snprintf(point->info.name, sizeof point->info.name, "%s", fields[3]);
	point->info.command = line[0] ? strdup(line) : NULL;
	if (line[0] && !point->info.command)
		return -ENOMEM;
	return read_layers(point, (char *)fields[4]);
}

static int add_line(struct checkpoints *steps, char *line, uint64_t current)
{
	struct checkpoint *more = realloc(steps->points, (steps->n + 1) * sizeof *more);
	struct checkpoint *point;
	int r;

	if (!more)
		return -ENOMEM;
	steps->points = more;
	point = &more[steps->n++];
	*point = (struct checkpoint){0};
	r = read_line(line, point);
	if (r == -EBADMSG) { /* whoever wrote it was killed meanwhile */
		free_point(point);
		steps->n--;
		return 0;
	}
	point->info.is_current = point->info.number == current;
	/* The same number twice: whoever wrote the first could not note that he had. */
	if (r == 0 && steps->n > 1 && point[-1].info.number == point->info.number) {
		free_point(&point[-1]);
		point[-1] = *point;
		steps->n--;
	}
	return r;
}

int checkpoints_read(const struct layer_record *record, struct checkpoints *ret,
		     struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	cleanup_fd int fd = openat(record->fd, "checkpoints", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const char *current = layer_record_get(record, KEY);
	struct checkpoints steps = {0};
	int r = 0;

	*ret = steps;
	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	/* What follows the last newline was not finished. */
	for (char *line = text.data, *end; r == 0 && line && (end = strchr(line, '\n'));
	     line = end + 1) {
		*end = '\0';
		r = add_line(&steps, line, current ? strtoull(current, NULL, 10) : 0);
	}
	if (r < 0) {
		checkpoints_done(&steps);
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the checkpoints of '%s'",
				 record->info.id);
	}
	*ret = steps;
	return 0;
}

int checkpoints_check_name(const char *name, struct atoll_error *err)
{
	size_t length = strlen(name);

	if (length >= 1 && length <= 63 &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		    length)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "'%.100s' cannot be the name of a checkpoint: 1 to 63 letters of "
			 "A-Z a-z 0-9 . _ -",
			 name);
}

static const struct checkpoint *look_up(const struct checkpoints *steps, const char *name)
{
	for (size_t i = 0; i < steps->n; i++) {
		if (streq(steps->points[i].info.name, name))
			return &steps->points[i];
	}
	return NULL;
}

int checkpoints_find(const struct checkpoints *steps, const char *name,
		     const struct checkpoint **ret, struct atoll_error *err)
{
	const struct checkpoint *point = look_up(steps, name);

	if (point) {
		*ret = point;
		return 0;
	}
	if (steps->n == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
				 "no checkpoint '%.63s': the sandbox has none yet (atoll "
				 "checkpoint makes one)",
				 name);
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			 "no checkpoint '%.63s'; `atoll history` lists them, the latest is '%s'",
			 name, steps->points[steps->n - 1].info.name);
}

/* ---- adding ---- */

static int append(const struct layer_record *record, const struct buf *line, off_t *ret_end,
		  struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(record->fd, "checkpoints", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	char last = '\n';
	int r = end < 0 ? -errno : buf_error(line);

	/* A line that somebody could not finish is cut off by beginning a new one. */
	if (r == 0 && end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
		r = fd_write_all(fd, "\n", 1);
	if (r == 0)
		r = fd_write_all(fd, line->data, line->used);
	if (r == 0) {
		*ret_end = end;
		return 0;
	}
	/* Half a line names no layer. */
	if (end >= 0 && ftruncate(fd, end) < 0)
		r = -errno;
	return error_set(err, ATOLL_FAULT_HOST, -r, "note a checkpoint of '%s'", record->info.id);
}

/* Without the last line. */
static void cut(const struct layer_record *record, off_t end)
{
	cleanup_fd int fd = openat(record->fd, "checkpoints", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	/* If it cannot be: a line of the same number takes its place. */
	if (fd >= 0 && ftruncate(fd, end) < 0)
		return;
}

static void format_line(const struct checkpoint *point, struct buf *line)
{
	buf_addf(line, "%llu %llu %d %s ", (unsigned long long)point->info.number,
		 (unsigned long long)point->info.time_ns, point->info.status, point->info.name);
	for (size_t i = 0; i < point->n_layers; i++)
		buf_addf(line, "%s%s", i ? "," : "", point->layers[i]);
	buf_add_str(line, point->n_layers ? "" : "-");
	for (size_t i = 0; i < point->roots.n; i++)
		buf_addf(line, "%s%s", i ? "," : "+", point->roots.ids[i]);
	buf_add_char(line, ' ');
	/* One line, whatever was typed. */
	for (const char *c = point->info.command; c && *c; c++)
		buf_add_char(line, (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c);
	buf_add_char(line, '\n');
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* "step-7" is what a checkpoint without a name is called. */
static bool is_number_name(const char *name)
{
	return starts_with(name, "step-") && name[5] &&
	       strspn(name + 5, "0123456789") == strlen(name + 5);
}

/* Before anything is changed: can a new one have this name? */
int checkpoints_check_new(const struct layer_record *record, const char *name,
			  struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints steps = {0};
	int r = name ? checkpoints_check_name(name, err) : 0;

	if (r < 0 || !name)
		return r;
	if (is_number_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is how checkpoints without a name are called; choose "
				 "another",
				 name);
	r = checkpoints_read(record, &steps, err);
	if (r == 0 && look_up(&steps, name))
		r = error_set(err, ATOLL_FAULT_REQUEST, EEXIST,
			      "there is a checkpoint '%s' already", name);
	return r;
}

static int save_place(struct layer_record *record, uint64_t number, struct atoll_error *err)
{
	char text[24];
	int r;

	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	r = layer_record_set(record, KEY, text, err);
	return r < 0 ? r : layer_record_save_soon(record, err);
}

/* The present layers, without what is in the top, and with `copy` on them if that is not NULL.
 * Nothing is read of those before: a checkpoint costs the same whatever their number. */
static int add(struct layer_record *record, const char *name, const char *copy,
	       const struct checkpoint_step *note, char ret_name[64], struct atoll_error *err)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct checkpoint point = {.info = {.number = record->info.n_checkpoints + 1,
					    .time_ns = now_ns(),
					    .status = note ? note->status : -1,
					    .command = (char *)(note ? note->command : NULL)}};
	const char *place = layer_record_get(record, KEY);
	cleanup_free char *was = place ? strdup(place) : NULL;
	char *layers[LAYER_DEPTH_MAX * 2 + 2];
	off_t end;
	int r;

	if (name)
		snprintf(point.info.name, sizeof point.info.name, "%s", name);
	else
		snprintf(point.info.name, sizeof point.info.name, "step-%llu",
			 (unsigned long long)point.info.number);
	if (copy)
		layers[point.n_layers++] = (char *)copy;
	for (size_t i = 0; i < record->n_layers && point.n_layers < ARRAY_SIZE(layers); i++)
		layers[point.n_layers++] = record->layers[i];
	point.layers = layers;
	layer_roots_get(record, &point.roots);
	format_line(&point, &line);
	r = append(record, &line, &end, err);
	if (r < 0)
		return r;
	record->info.n_checkpoints++;
	if (ret_name)
		memcpy(ret_name, point.info.name, sizeof point.info.name);
	r = save_place(record, point.info.number, err);
	if (r < 0) {
		record->info.n_checkpoints--;
		layer_record_set(record, KEY, was, NULL);
		cut(record, end);
	}
	return r;
}

static int bound_depth(struct layer_record *record, size_t n_more, struct atoll_error *err)
{
	return record->n_layers + n_more > LAYER_DEPTH_MAX ? layer_flatten(record, err) : 0;
}

int checkpoints_seal(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64], struct atoll_error *err)
{
	bool is_sealed = false;
	int r = checkpoints_check_new(record, name, err);

	if (r == 0 && !layer_top_is_empty(record)) {
		/* While it is known which files these are: without it there is only no merge. */
		layer_keep_base(record, NULL);
		/* Before: a layer that is joined as soon as it is sealed is no checkpoint's, and
		 * would stay behind until somebody sweeps. */
		r = bound_depth(record, 1, err);
		if (r == 0)
			r = layer_seal_top(record, err);
		is_sealed = r == 0;
	}
	if (r == 0)
		r = add(record, name, NULL, note, ret_name, err);
	/* A disk that is full: all stays as it was. */
	if (r < 0 && is_sealed)
		layer_unseal_top(record);
	return r;
}

/* The copy is the checkpoint's, not the sandbox's: in the live workspace it is not beneath the top,
 * and what is deleted there leaves no whiteout for it. */
int checkpoints_copy(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64], struct atoll_error *err)
{
	cleanup_free char *copy = NULL;
	int r = checkpoints_check_new(record, name, err);

	if (r == 0 && layer_top_is_empty(record))
		return add(record, name, NULL, note, ret_name, err);
	if (r == 0)
		r = layer_check_copy(record, err);
	if (r == 0)
		r = layer_copy_top(record, err);
	if (r < 0)
		return r;
	copy = record->layers[0];
	record->n_layers--;
	memmove(record->layers, record->layers + 1, record->n_layers * sizeof *record->layers);
	r = add(record, name, copy, note, ret_name, err);
	if (r < 0)
		layer_drop_copy(record, copy);
	return r;
}

/* ---- going back, and elsewhere ---- */

static int set_layers(struct layer_record *record, const struct checkpoint *point,
		      struct atoll_error *err)
{
	while (record->n_layers)
		free(record->layers[--record->n_layers]);
	for (size_t i = point->n_layers; i > 0; i--) {
		if (layer_record_push(record, point->layers[i - 1]) < 0)
			return error_oom(err);
	}
	return layer_roots_set(record, &point->roots, err) < 0 ? -ENOMEM
							       : bound_depth(record, 0, err);
}

/* What a record stands on, for who has to put it back. */
struct place {
	char **layers;
	size_t n_layers;
	struct layer_roots roots;
};

static void leave_place(struct layer_record *record, struct place *ret)
{
	*ret = (struct place){record->layers, record->n_layers, {.n = 0}};
	layer_roots_get(record, &ret->roots);
	record->layers = NULL;
	record->n_layers = 0;
}

/* The one that was left, or the present one. */
static void forget_place(struct layer_record *record, struct place *place, bool comes_back)
{
	if (comes_back) {
		struct place present;

		leave_place(record, &present);
		record->layers = place->layers;
		record->n_layers = place->n_layers;
		layer_roots_set(record, &place->roots, NULL);
		*place = present;
	}
	while (place->n_layers)
		free(place->layers[--place->n_layers]);
	free(place->layers);
}

int checkpoints_return(struct layer_record *record, const char *name, struct atoll_error *err)
{
	const char *now = layer_record_get(record, LAYER_ROOTS);
	cleanup_free char *roots = now ? strdup(now) : NULL;
	cleanup_with(checkpoints_done) struct checkpoints steps = {0};
	const struct checkpoint *point;
	struct place place;
	int r = checkpoints_read(record, &steps, err);

	if (r == 0)
		r = checkpoints_find(&steps, name, &point, err);
	if (r < 0)
		return r;
	leave_place(record, &place);
	r = set_layers(record, point, err);
	if (r == 0) {
		r = layer_reset_top(record, err);
		if (r == 0) {
			r = save_place(record, point->info.number, err);
			layer_reset_end(record, r == 0);
		}
	}
	/* On a disk that is full it stays where it was. */
	forget_place(record, &place, r < 0);
	/* What was written beside the workspace since then; a cell that stands on it ends. */
	if (r == 0)
		layer_roots_drop(record, roots, NULL);
	return r;
}

/* What a branch takes over. What it is made of is the same file: nobody ever changes it. */
static int fill_branch(const struct layer_record *from, struct layer_record *record,
		       const struct checkpoint *point, struct atoll_error *err)
{
	struct checkpoint first = *point;
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	off_t end;
	int r = 0;

	first.info.number = 1;
	/* Its own will be called by their numbers: no two may have one name. */
	if (is_number_name(first.info.name))
		snprintf(first.info.name, sizeof first.info.name, "step-1");
	format_line(&first, &line);
	unlinkat(record->fd, "job", 0); /* of one that it was made from: layer/spare.c */
	if (linkat(from->fd, "job", record->fd, "job", 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork '%s'", from->info.id);
	/* What was applied of the first one is no change of the host's to the second either. */
	if (linkat(from->fd, "known", record->fd, "known", 0) < 0 && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork '%s'", from->info.id);
	snprintf(record->info.parent, sizeof record->info.parent, "%s", from->info.id);
	memcpy(record->info.digest, from->info.digest, sizeof record->info.digest);
	record->base_time_ns = from->base_time_ns;
	record->workspace_dev = from->workspace_dev;
	record->workspace_ino = from->workspace_ino;
	record->info.n_checkpoints = 1;
	for (size_t i = 0; r == 0 && i < from->n_keys; i++) {
		if (!streq(from->keys[i], LAYER_ROOTS_BELOW))
			r = layer_record_set(record, from->keys[i], from->values[i], err);
	}
	if (r == 0)
		r = set_layers(record, point, err);
	if (r == 0)
		r = layer_record_inherit(record, err);
	if (r == 0)
		r = append(record, &line, &end, err);
	return r < 0 ? r : save_place(record, 1, err);
}

int checkpoints_branch(const struct layer_record *record, const struct checkpoint *point,
		       char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	struct layer_record *branch;
	int r = layer_record_create(ATOLL_RECORD_SANDBOX, record->info.workspace, &branch, err);

	if (r < 0)
		return r;
	r = fill_branch(record, branch, point, err);
	if (r == 0)
		memcpy(ret_id, branch->info.id, ATOLL_ID_SIZE);
	else
		layer_record_remove(branch, NULL);
	layer_record_close(branch);
	return r;
}
