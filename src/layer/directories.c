/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>

/* The directories in which steps are: may we write there, and which times have they? */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool is_writable(const struct site *site, const char *path)
{
	cleanup_free char *inner = NULL;
	const char *name;
	cleanup_fd int fd = -1;

	if (asprintf(&inner, "%s%s.", path, *path ? "/" : "") < 0)
		return true;
	fd = tree_open_parent(site->workspace_fd, inner, false, &name);
	/* The step itself will say what is wrong. */
	return fd < 0 || faccessat(fd, ".", W_OK | X_OK, 0) == 0;
}

/* Let its owner write for a while. */
static int add_open(struct journal *journal, const char *path, const struct stat *st, bool stays,
		    struct atoll_error *err)
{
	struct op *op;
	char shown[256];

	if (st->st_uid != geteuid())
		return error_set(err, ATOLL_FAULT_HOST, EACCES,
				 "'%s' is another's and may not be written; nothing was changed",
				 str_show(path, shown, sizeof shown));
	op = journal_add(journal, OP_OPEN, path);
	if (!op)
		return error_oom(err);
	op_object_from(&op->before, st);
	op->after = op->before;
	if (!stays)
		return 0;
	for (size_t i = 0; i < journal->n; i++)
		if (journal->ops[i].kind == OP_META && streq(journal->ops[i].path, path))
			return 0;
	op = journal_add(journal, OP_META, path);
	if (!op)
		return error_oom(err);
	op_object_from(&op->before, st);
	op->after = op->before;
	return 0;
}

static int add_parent(struct site *site, struct journal *journal, const char *path,
		      struct atoll_error *err)
{
	struct stat st;
	struct op *op;
	int r = site_stat(site, path, &st);

	if (r < 0 || !S_ISDIR(st.st_mode))
		return 0; /* a step puts it there */
	op = journal_add(journal, OP_DIR, path);
	if (!op)
		return error_oom(err);
	op_object_from(&op->before, &st);
	op->after = op->before;
	return is_writable(site, path) ? 0 : add_open(journal, path, &st, true, err);
}

/* A directory that is moved must be writable itself, because of its "..". */
static int add_moved(struct site *site, struct journal *journal, const char *path,
		     struct atoll_error *err)
{
	struct stat st;

	if (is_writable(site, path) || site_stat(site, path, &st) < 0)
		return 0;
	return add_open(journal, path, &st, false, err);
}

int plan_add_directories(struct site *site, struct journal *journal, struct atoll_error *err)
{
	size_t n = journal->n;
	void *seen = NULL;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct op op = journal->ops[i];
		const char *slash = strrchr(op.path, '/');
		char *above, *const *found;

		if (op.kind != OP_PUT && op.kind != OP_TAKE)
			continue;
		if (S_ISDIR(op.before.mode))
			r = add_moved(site, journal, op.path, err);
		if (!slash || r < 0)
			continue;
		above = strndup(op.path, (size_t)(slash - op.path));
		found = above ? tsearch(above, &seen, by_text) : NULL;
		if (!found)
			r = error_oom(err);
		else if (*found == above)
			r = add_parent(site, journal, above, err);
		if (!found || *found != above)
			free(above);
	}
	tdestroy(seen, free);
	return r;
}
