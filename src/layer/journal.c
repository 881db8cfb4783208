/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/journal.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "layer/layer.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>

#define JOURNAL_MAX ((size_t)1 << 30)

void (*layer_step_hook)(const char *step);

static const char *const kinds[] = {[JOURNAL_APPLY] = "apply", [JOURNAL_UNDO] = "undo"};
static const char *const op_names[] = {
	[OP_OPEN] = "open", [OP_TAKE] = "take", [OP_PUT] = "put",
	[OP_META] = "meta", [OP_DIR] = "dir",
};

/* Room for the last two lines, which are written into it. */
#define TAIL_SIZE 32
static const char tail[TAIL_SIZE + 1] = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"
					"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";

/* ---- steps ---- */

struct op *journal_add(struct journal *journal, enum op_kind kind, const char *path)
{
	struct op *op;

	if (journal->n == journal->room) {
		size_t room = journal->room ? 2 * journal->room : 16;
		struct op *more = reallocarray(journal->ops, room, sizeof *more);

		if (!more)
			return NULL;
		journal->ops = more;
		journal->room = room;
	}
	op = &journal->ops[journal->n];
	*op = (struct op){.kind = kind, .slot = journal->last_slot + 1, .path = strdup(path)};
	if (!op->path)
		return NULL;
	journal->n++;
	journal->last_slot++;
	return op;
}

void journal_done(struct journal *journal)
{
	for (size_t i = 0; i < journal->n; i++)
		free(journal->ops[i].path);
	free(journal->ops);
	journal->ops = NULL;
	journal->n = journal->room = 0;
}

uint64_t journal_count(const struct journal *journal)
{
	uint64_t n = 0;

	for (size_t i = 0; i < journal->n; i++)
		n += journal->ops[i].kind == OP_TAKE || journal->ops[i].kind == OP_PUT ||
		     (journal->ops[i].kind == OP_META && journal->ops[i].before.ino);
	return n;
}

static int compare_ops(const void *a_, const void *b_)
{
	const struct op *a = a_, *b = b_;
	int order;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	order = strcmp(a->path, b->path);
	/* What lies beneath sorts behind; modes may shut a directory, so those go the other way. */
	return a->kind == OP_META ? -order : order;
}

void journal_sort(struct journal *journal)
{
	if (journal->n)
		qsort(journal->ops, journal->n, sizeof *journal->ops, compare_ops);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void keep_path(void *path)
{
	(void)path; /* it is its step's */
}

static bool is_beneath_any(void *const *set, const char *path)
{
	cleanup_free char *above = strdup(path);
	char *slash;

	while (above && (slash = strrchr(above, '/'))) {
		*slash = '\0';
		if (tfind(above, set, by_text))
			return true;
	}
	return false;
}

int journal_drop_covered(struct journal *journal, struct atoll_error *err)
{
	void *removed = NULL, *put = NULL;
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < journal->n && r == 0; i++) {
		const struct op *op = &journal->ops[i];

		if ((op->kind == OP_PUT && !tsearch(op->path, &put, by_text)) ||
		    (op->kind < OP_META && S_ISDIR(op->before.mode) &&
		     !tsearch(op->path, &removed, by_text)))
			r = error_oom(err);
	}
	for (size_t i = 0; i < journal->n; i++) {
		const struct op *op = &journal->ops[i];

		if (op->kind == OP_TAKE &&
		    (tfind(op->path, &put, by_text) || is_beneath_any(&removed, op->path)))
			journal->ops[i].slot = 0;
	}
	tdestroy(removed, keep_path);
	tdestroy(put, keep_path);
	for (size_t i = 0; i < journal->n; i++) {
		if (journal->ops[i].slot)
			journal->ops[kept++] = journal->ops[i];
		else
			free(journal->ops[i].path);
	}
	journal->n = kept;
	return r;
}

void op_object_from(struct op_object *object, const struct stat *st)
{
	*object = (struct op_object){
		.ino = st->st_ino,
		.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};
}

bool op_object_is(const struct op_object *object, const struct stat *st)
{
	struct op_object there;

	op_object_from(&there, st);
	/* A directory's time changes with what we put into it. */
	return there.ino == object->ino && (there.mode & S_IFMT) == (object->mode & S_IFMT) &&
	       there.size == object->size &&
	       (S_ISDIR(st->st_mode) || there.mtime_ns == object->mtime_ns);
}

struct stat op_object_stat(const struct op_object *object)
{
	int64_t ns = object->mtime_ns % 1000000000;
	struct stat st = {.st_mode = object->mode, .st_uid = object->uid, .st_gid = object->gid};

	ns += ns < 0 ? 1000000000 : 0;
	st.st_mtim.tv_sec = (object->mtime_ns - ns) / 1000000000;
	st.st_mtim.tv_nsec = ns;
	return st;
}

/* ---- text ---- */

void journal_escape(struct buf *out, const char *path)
{
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (c <= ' ' || c == '%' || c >= 0x7f)
			buf_addf(out, "%%%02x", c);
		else
			buf_add_char(out, (char)c);
	}
}

bool journal_unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		int high, low;

		if (*text != '%') {
			*out++ = *text;
			continue;
		}
		high = str_hex_value(text[1]);
		low = high < 0 ? -1 : str_hex_value(text[2]);
		if (low < 0 || (high | low) == 0)
			return false;
		*out++ = (char)(high << 4 | low);
		text += 2;
	}
	*out = '\0';
	return true;
}

static void add_object(struct buf *out, const struct op_object *object)
{
	buf_addf(out, " %" PRIu64 " %" PRIu64 " %" PRIo32 " %" PRIu32 " %" PRIu32 " %" PRId64,
		 object->ino, object->size, object->mode, object->uid, object->gid,
		 object->mtime_ns);
}

static void add_header(struct buf *out, const struct journal *journal)
{
	buf_addf(out, "atoll-journal 2 %s %" PRIu64 " %d\n", kinds[journal->kind], journal->number,
		 journal->is_all);
}

static void add_op(struct buf *out, const struct op *op)
{
	buf_addf(out, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d", op_names[op->kind], op->slot,
		 op->tree, op->staged_ns, op->has_xattrs, op->is_foreign);
	add_object(out, &op->before);
	add_object(out, &op->after);
	buf_add_char(out, ' ');
	journal_escape(out, op->path);
	buf_add_char(out, '\n');
}

/* ---- writing ---- */

static int write_failed(struct atoll_error *err, int code)
{
	return error_set(err, ATOLL_FAULT_HOST, -code, "write the journal");
}

static int sync_record(const struct layer_record *record, struct atoll_error *err)
{
	cleanup_fd int fd = openat(record->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? write_failed(err, -errno) : 0;
}

static int append(const struct layer_record *record, int flags, const struct buf *text,
		  struct atoll_error *err)
{
	cleanup_fd int fd = openat(record->fd, "journal",
				   O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	int r = fd < 0 ? -errno : buf_error(text);

	if (r == 0)
		r = fd_write_all(fd, text->data, text->used);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? write_failed(err, r) : 0;
}

int journal_begin(const struct layer_record *record, const struct journal *journal,
		  struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JOURNAL_MAX);
	int r;

	add_header(&text, journal);
	LAYER_STEP("begin the journal");
	r = append(record, O_CREAT | O_EXCL, &text, err);
	return r < 0 ? r : sync_record(record, err);
}

int journal_commit(const struct layer_record *record, struct journal *journal,
		   struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JOURNAL_MAX);
	char hash[HASH_HEX_SIZE];
	int r;

	for (size_t i = 0; i < journal->n; i++)
		add_op(&text, &journal->ops[i]);
	/* A line that was half written by a power cut must not pass for a whole one. */
	hash_sha256_hex(text.data ? text.data : "", text.used, hash);
	buf_addf(&text, "commit %s\n%s", hash, tail);
	LAYER_STEP("commit");
	r = append(record, 0, &text, err);
	if (r < 0)
		return r;
	journal->state = JOURNAL_COMMITTED;
	return 0;
}

int journal_mark(const struct layer_record *record, struct journal *journal,
		 enum journal_state state, struct atoll_error *err)
{
	const char *line = state == JOURNAL_DONE ? "done\n" : "abort\n";
	cleanup_fd int fd = -1;
	struct stat st;
	off_t at;

	LAYER_STEP(state == JOURNAL_DONE ? "mark done" : "mark aborted");
	fd = openat(record->fd, "journal", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return write_failed(err, -errno);
	/* In each half of the room a line has newlines on both sides. */
	at = st.st_size - TAIL_SIZE + (state == JOURNAL_DONE ? TAIL_SIZE / 2 : 1);
	if (pwrite(fd, line, strlen(line), at) != (ssize_t)strlen(line) || fsync(fd) < 0)
		return write_failed(err, -errno);
	journal->state = state;
	return 0;
}

int journal_end(const struct layer_record *record, const char *to, struct atoll_error *err)
{
	int r;

	LAYER_STEP("end the journal");
	r = to ? renameat(record->fd, "journal", record->fd, to)
	       : unlinkat(record->fd, "journal", 0);
	if (r < 0 && errno != ENOENT)
		return write_failed(err, -errno);
	return sync_record(record, err);
}

/* ---- reading ---- */

static bool parse_object(const char *text, int *ret_used, struct op_object *ret)
{
	return sscanf(text,
		      " %" SCNu64 " %" SCNu64 " %" SCNo32 " %" SCNu32 " %" SCNu32 " %" SCNd64 "%n",
		      &ret->ino, &ret->size, &ret->mode, &ret->uid, &ret->gid, &ret->mtime_ns,
		      ret_used) == 6;
}

static bool parse_op(struct journal *journal, char *line)
{
	char word[8];
	int used = 0, has_xattrs, is_foreign;
	uint64_t slot;
	struct op parsed = {0};
	struct op *op;

	if (sscanf(line, "%7s %" SCNu64 " %" SCNu64 "%n", word, &slot, &parsed.tree, &used) != 3)
		return false;
	line += used;
	if (!journal->is_unvetted) {
		if (sscanf(line, " %" SCNu64 "%n", &parsed.staged_ns, &used) != 1)
			return false;
		line += used;
	}
	if (sscanf(line, " %d %d%n", &has_xattrs, &is_foreign, &used) != 2)
		return false;
	line += used;
	if (!parse_object(line, &used, &parsed.before))
		return false;
	line += used;
	if (!parse_object(line, &used, &parsed.after) || line[used] != ' ')
		return false;
	line += used + 1;
	if (!line[0] || !journal_unescape(line))
		return false;
	for (size_t kind = 0; kind < ARRAY_SIZE(op_names); kind++) {
		if (!streq(op_names[kind], word))
			continue;
		op = journal_add(journal, (enum op_kind)kind, line);
		if (!op)
			return false;
		op->slot = slot;
		op->has_xattrs = has_xattrs;
		op->tree = parsed.tree;
		op->staged_ns = parsed.staged_ns;
		op->is_foreign = is_foreign;
		op->before = parsed.before;
		op->after = parsed.after;
		return true;
	}
	return false;
}

static bool parse_header(char *line, struct journal *ret)
{
	char word[8];
	int is_all, version;

	if (sscanf(line, "atoll-journal %d %7s %" SCNu64 " %d", &version, word, &ret->number,
		   &is_all) != 4 ||
	    version < 1 || version > 2)
		return false;
	ret->is_unvetted = version == 1;
	ret->is_all = is_all;
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		if (streq(kinds[kind], word)) {
			ret->kind = (enum journal_kind)kind;
			return true;
		}
	return false;
}

/* Everything up to the commit line, whose hash must fit. */
static bool is_committed(const char *start, const char *commit)
{
	char hash[HASH_HEX_SIZE];

	hash_sha256_hex(start, (size_t)(commit - start), hash);
	return strncmp(commit + strlen("commit "), hash, HASH_HEX_SIZE - 1) == 0;
}

static int parse(char *text, struct journal *ret)
{
	char *steps = strchr(text, '\n'), *commit, *line, *next;

	if (!steps)
		return 1; /* not even a header */
	*steps++ = '\0';
	if (!parse_header(text, ret))
		return -EBADMSG;
	commit = starts_with(steps, "commit ") ? steps : strstr(steps, "\ncommit ");
	if (!commit)
		return 0;
	commit += *commit == '\n';
	if (!strchr(commit, '\n') || !is_committed(steps, commit))
		return 0;
	ret->state = JOURNAL_COMMITTED;
	if (strstr(commit, "\nabort\n"))
		ret->state = JOURNAL_ABORTED;
	if (strstr(commit, "\ndone\n"))
		ret->state = JOURNAL_DONE;
	for (line = steps; line < commit; line = next) {
		next = strchr(line, '\n');
		*next++ = '\0';
		if (!parse_op(ret, line))
			return -EBADMSG;
	}
	return 0;
}

int journal_read(const struct layer_record *record, const char *path, struct journal *ret,
		 struct atoll_error *err)
{
	cleanup_fd int fd = openat(record->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(2 * JOURNAL_MAX);
	int r;

	*ret = (struct journal){0};
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r == 0)
		r = parse(text.data ? text.data : (char[]){""}, ret);
	if (r >= 0)
		return 0;
	journal_done(ret);
	return error_set(err, ATOLL_FAULT_HOST, -r, "read '%s' of record %s", path,
			 record->info.id);
}
