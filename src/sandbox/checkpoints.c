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

/* The key of the record's meta with the number of the current checkpoint. */
#define KEY "checkpoint"

/* ---- reading ---- */

static void free_point(struct checkpoint *point)
{
	while (point->n_layers)
		free(point->layers[--point->n_layers]);
	free(point->layers);
	free(point->info.command);
}

void checkpoints_done(struct checkpoints *list)
{
	for (size_t i = 0; i < list->n; i++)
		free_point(&list->points[i]);
	free(list->points);
	*list = (struct checkpoints){0};
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

/* Parse "NUMBER TIME STATUS NAME LAYERS[+ROOTS] COMMAND"; -EBADMSG if the line has another form. */
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

static int add_line(struct checkpoints *list, char *line, uint64_t current)
{
	struct checkpoint *more = realloc(list->points, (list->n + 1) * sizeof *more);
	struct checkpoint *point;
	int r;

	if (!more)
		return -ENOMEM;
	list->points = more;
	point = &more[list->n++];
	*point = (struct checkpoint){0};
	r = read_line(line, point);
	if (r == -EBADMSG) { /* an incomplete line: its writer was killed */
		free_point(point);
		list->n--;
		return 0;
	}
	point->info.is_current = point->info.number == current;
	/* The same number twice: the first writer could not save the record. The second line
	 * counts. */
	if (r == 0 && list->n > 1 && point[-1].info.number == point->info.number) {
		free_point(&point[-1]);
		point[-1] = *point;
		list->n--;
	}
	return r;
}

int checkpoints_read(const struct layer_record *record, struct checkpoints *ret,
		     struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	cleanup_fd int fd = openat(record->fd, "checkpoints", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const char *current = layer_record_get(record, KEY);
	struct checkpoints list = {0};
	int r = 0;

	*ret = list;
	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	/* Text after the last newline is an incomplete line: skip it. */
	for (char *line = text.data, *end; r == 0 && line && (end = strchr(line, '\n'));
	     line = end + 1) {
		*end = '\0';
		r = add_line(&list, line, current ? strtoull(current, NULL, 10) : 0);
	}
	if (r < 0) {
		checkpoints_done(&list);
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the checkpoints of '%s'",
				 record->info.id);
	}
	*ret = list;
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

static const struct checkpoint *look_up(const struct checkpoints *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		if (streq(list->points[i].info.name, name))
			return &list->points[i];
	}
	return NULL;
}

int checkpoints_find(const struct checkpoints *list, const char *name,
		     const struct checkpoint **ret, struct atoll_error *err)
{
	const struct checkpoint *point = look_up(list, name);

	if (point) {
		*ret = point;
		return 0;
	}
	if (list->n == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
				 "no checkpoint '%.63s': the sandbox has none yet (atoll "
				 "checkpoint makes one)",
				 name);
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			 "no checkpoint '%.63s'; `atoll history` lists them, the latest is '%s'",
			 name, list->points[list->n - 1].info.name);
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

	/* The last line is incomplete: end it, so that it does not join ours. */
	if (r == 0 && end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
		r = fd_write_all(fd, "\n", 1);
	if (r == 0)
		r = fd_write_all(fd, line->data, line->used);
	if (r == 0) {
		*ret_end = end;
		return 0;
	}
	/* Remove an incomplete line of ours. */
	if (end >= 0 && ftruncate(fd, end) < 0)
		r = -errno;
	return error_set(err, ATOLL_FAULT_HOST, -r, "note a checkpoint of '%s'", record->info.id);
}

/* Remove the last line, which begins at `end`. */
static void cut_line(const struct layer_record *record, off_t end)
{
	cleanup_fd int fd = openat(record->fd, "checkpoints", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	/* If this fails: the next line has the same number and replaces this one. */
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
	/* Control characters of the command become spaces: one checkpoint is one line. */
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

/* Names of the form "step-7" are reserved for checkpoints without a name. */
static bool is_number_name(const char *name)
{
	return starts_with(name, "step-") && name[5] &&
	       strspn(name + 5, "0123456789") == strlen(name + 5);
}

/* Call before anything is changed. */
int checkpoints_check_new(const struct layer_record *record, const char *name,
			  struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints list = {0};
	int r = name ? checkpoints_check_name(name, err) : 0;

	if (r < 0 || !name)
		return r;
	if (is_number_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is how checkpoints without a name are called; choose "
				 "another",
				 name);
	r = checkpoints_read(record, &list, err);
	if (r == 0 && look_up(&list, name))
		r = error_set(err, ATOLL_FAULT_REQUEST, EEXIST,
			      "there is a checkpoint '%s' already", name);
	return r;
}

static int save_current(struct layer_record *record, uint64_t number, struct atoll_error *err)
{
	char text[24];
	int r;

	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	r = layer_record_set(record, KEY, text, err);
	return r < 0 ? r : layer_record_save_soon(record, err);
}

/* Add a line with the record's sealed layers, and `copy` above them if that is not NULL. Earlier
 * checkpoints are not read, so the cost does not grow with their number. */
static int add_point(struct layer_record *record, const char *name, const char *copy,
		     const struct checkpoint_step *note, char ret_name[64], struct atoll_error *err)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct checkpoint point = {.info = {.number = record->info.n_checkpoints + 1,
					    .time_ns = now_ns(),
					    .status = note ? note->status : -1,
					    .command = (char *)(note ? note->command : NULL)}};
	const char *current = layer_record_get(record, KEY);
	cleanup_free char *was = current ? strdup(current) : NULL;
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
	r = save_current(record, point.info.number, err);
	if (r < 0) {
		record->info.n_checkpoints--;
		layer_record_set(record, KEY, was, NULL);
		cut_line(record, end);
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
		/* The base files are known only now. Without this copy a later merge is not
		 * possible. */
		layer_keep_base(record, NULL);
		/* Before sealing: a layer that is sealed and joined at once belongs to no
		 * checkpoint, and would stay until a sweep. */
		r = bound_depth(record, 1, err);
		if (r == 0)
			r = layer_seal_top(record, err);
		is_sealed = r == 0;
	}
	if (r == 0)
		r = add_point(record, name, NULL, note, ret_name, err);
	/* ENOSPC, for example: leave the sandbox as it was. */
	if (r < 0 && is_sealed)
		layer_unseal_top(record);
	return r;
}

/* The copy belongs to the checkpoint, not to the sandbox. In the live workspace it is not below the
 * top layer, so files deleted there leave no whiteout for it. */
int checkpoints_copy(struct layer_record *record, const char *name,
		     const struct checkpoint_step *note, char ret_name[64], struct atoll_error *err)
{
	cleanup_free char *copy = NULL;
	int r = checkpoints_check_new(record, name, err);

	if (r == 0 && layer_top_is_empty(record))
		return add_point(record, name, NULL, note, ret_name, err);
	if (r == 0)
		r = layer_check_copy(record, err);
	if (r == 0)
		r = layer_copy_top(record, err);
	if (r < 0)
		return r;
	copy = record->layers[0];
	record->n_layers--;
	memmove(record->layers, record->layers + 1, record->n_layers * sizeof *record->layers);
	r = add_point(record, name, copy, note, ret_name, err);
	if (r < 0)
		layer_drop_copy(record, copy);
	return r;
}

/* ---- return, branch ---- */

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

/* The layers that a record stands on, to restore them after a failure. */
struct saved_layers {
	char **layers;
	size_t n_layers;
	struct layer_roots roots;
};

static void detach_layers(struct layer_record *record, struct saved_layers *ret)
{
	*ret = (struct saved_layers){record->layers, record->n_layers, {.n = 0}};
	layer_roots_get(record, &ret->roots);
	record->layers = NULL;
	record->n_layers = 0;
}

/* Free the old layers; or, with `comes_back`, restore them and free the present ones. */
static void restore_or_free(struct layer_record *record, struct saved_layers *saved,
			    bool comes_back)
{
	if (comes_back) {
		struct saved_layers present;

		detach_layers(record, &present);
		record->layers = saved->layers;
		record->n_layers = saved->n_layers;
		layer_roots_set(record, &saved->roots, NULL);
		*saved = present;
	}
	while (saved->n_layers)
		free(saved->layers[--saved->n_layers]);
	free(saved->layers);
}

int checkpoints_return(struct layer_record *record, const char *name, struct atoll_error *err)
{
	const char *now = layer_record_get(record, LAYER_ROOTS);
	cleanup_free char *roots = now ? strdup(now) : NULL;
	cleanup_with(checkpoints_done) struct checkpoints list = {0};
	const struct checkpoint *point;
	struct saved_layers saved;
	int r = checkpoints_read(record, &list, err);

	if (r == 0)
		r = checkpoints_find(&list, name, &point, err);
	if (r < 0)
		return r;
	detach_layers(record, &saved);
	r = set_layers(record, point, err);
	if (r == 0) {
		r = layer_reset_top(record, err);
		if (r == 0) {
			r = save_current(record, point->info.number, err);
			layer_reset_end(record, r == 0);
		}
	}
	/* ENOSPC, for example: the sandbox stays on its layers. */
	restore_or_free(record, &saved, r < 0);
	/* Remove root layers that no checkpoint names. The caller ends a cell that stands on them.
	 */
	if (r == 0)
		layer_roots_drop(record, roots, NULL);
	return r;
}

/* Fill a branch's record from its parent's. The file "job" is a hard link: it is never changed in
 * place. */
static int fill_branch(const struct layer_record *from, struct layer_record *record,
		       const struct checkpoint *point, struct atoll_error *err)
{
	struct checkpoint first = *point;
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	off_t end;
	int r = 0;

	first.info.number = 1;
	/* The branch numbers its own checkpoints from 1: the first one must not have the name of a
	 * later one. */
	if (is_number_name(first.info.name))
		snprintf(first.info.name, sizeof first.info.name, "step-1");
	format_line(&first, &line);
	unlinkat(record->fd, "job",
		 0); /* of the spare record that this one was made from (layer/spare.c) */
	if (linkat(from->fd, "job", record->fd, "job", 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork '%s'", from->info.id);
	/* Files that were applied from the parent are no conflicts for the branch either. */
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
	return r < 0 ? r : save_current(record, 1, err);
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
