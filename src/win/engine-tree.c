/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes descriptors of files and trees. Called by the engine when it applies a plan or takes one
 * back. A file is opened without following a link, its name is compared with the one that was
 * asked for, its descriptor is read, changed by the model, written, and read again.
 */
#include "win/engine-tree.h"

#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX  512
#define ROUNDS_MAX 4

/* ---- one file ---- */

struct open_file {
	const struct win_calls *calls;
	win_handle handle;
	struct win_object *object; /* large: on the heap */
	struct nt_descriptor sd;
	uint8_t *original; /* the descriptor as it was found, packed */
	int original_size;
};

static void close_file(struct open_file *file)
{
	if (file->handle)
		file->calls->close(file->calls->context, file->handle);
	free(file->object);
	free(file->original);
	nt_descriptor_done(&file->sd);
}

static int read_security(struct open_file *file, struct atoll_error *err)
{
	const struct win_calls *calls = file->calls;
	int r;

	nt_descriptor_done(&file->sd);
	r = calls->get_security(calls->context, file->handle, &file->sd, err);
	if (r < 0)
		return r;
	/* An absent list grants everything to everybody. No file system of a Windows user has one;
	 * to write it back would open the file. */
	if (!file->sd.has_dacl || file->sd.is_dacl_null)
		return error_set(err, ATOLL_FAULT_HOST, ENOTSUP,
				 "list.absent: '%s' has no access control list",
				 file->object->path);
	return 0;
}

static int open_file(const struct win_calls *calls, const char *path, struct open_file *ret,
		     struct atoll_error *err)
{
	int r;

	*ret = (struct open_file){.calls = calls, .object = calloc(1, sizeof *ret->object)};
	nt_descriptor_init(&ret->sd);
	if (!ret->object)
		return error_oom(err);
	r = calls->open(calls->context, path, &ret->handle, err);
	if (r == 0 && !ret->handle)
		r = error_set(err, ATOLL_FAULT_HOST, EIO, "file.open: '%s' has no handle", path);
	if (r == 0)
		r = calls->describe(calls->context, ret->handle, ret->object, err);
	/* Another name means that a link or a short name led elsewhere. */
	if (r == 0 && !nt_path_equal(ret->object->path, path))
		r = error_set(err, ATOLL_FAULT_HOST, EXDEV, "file.name: '%s' is '%s'", path,
			      ret->object->path);
	if (r == 0)
		r = read_security(ret, err);
	if (r == 0) {
		ret->original_size = nt_descriptor_pack(&ret->sd, &ret->original);
		if (ret->original_size < 0)
			r = error_oom(err);
	}
	return r;
}

/* A platform that kept something else than it was told may have changed more than that. */
static void put_original_back(struct open_file *file)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	struct atoll_error ignored;

	if (nt_descriptor_unpack(file->original, (size_t)file->original_size, &sd) == 0)
		file->calls->set_security(file->calls->context, file->handle, &sd, &ignored);
}

/* Compare what was read back with what was written: entries by their bytes, and the label. */
static bool is_same(const struct nt_descriptor *a, const struct nt_descriptor *b)
{
	const size_t size = nt_acl_size(&a->dacl);
	cleanup_free uint8_t *left = malloc(size), *right = malloc(size);
	struct nt_label label_a, label_b;

	if (!left || !right || nt_acl_size(&b->dacl) != size)
		return false;
	nt_acl_pack(&a->dacl, left);
	nt_acl_pack(&b->dacl, right);
	return memcmp(left, right, size) == 0 &&
	       nt_label_read(a, &label_a) == nt_label_read(b, &label_b) &&
	       label_a.level == label_b.level && label_a.policy == label_b.policy &&
	       label_a.flags == label_b.flags;
}

static int write_security(struct open_file *file, struct atoll_error *err)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor wanted = file->sd;
	const struct win_calls *calls = file->calls;
	int r;

	nt_descriptor_init(&file->sd);
	r = calls->set_security(calls->context, file->handle, &wanted, err);
	if (r == 0)
		r = read_security(file, err);
	if (r == 0 && !is_same(&wanted, &file->sd)) {
		put_original_back(file);
		r = error_set(err, ATOLL_FAULT_HOST, EIO,
			      "list.read-back: the list or label of '%s' is not the one that was "
			      "set",
			      file->object->path);
	}
	return r;
}

/* ---- one operation ---- */

static int explain_label(int r, const char *path, struct atoll_error *err)
{
	if (r == -EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, EEXIST,
				 "label.present: '%s' has an integrity label of its own", path);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "list of '%s'", path) : r;
}

int tree_apply(const struct win_calls *calls, const struct nt_operation *operation,
	       struct atoll_error *err)
{
	cleanup_with(close_file) struct open_file file;
	int changed, r = open_file(calls, operation->path, &file, err);

	if (r < 0)
		return r;
	if (file.object->is_reparse)
		return error_set(err, ATOLL_FAULT_HOST, ELOOP, "file.link: '%s' is a link",
				 operation->path);
	changed = explain_label(nt_operation_apply(operation, &file.sd), operation->path, err);
	if (changed <= 0)
		return changed;
	r = write_security(&file, err);
	return r < 0 ? r : 1;
}

int tree_holds(const struct win_calls *calls, const struct nt_operation *operation,
	       struct atoll_error *err)
{
	cleanup_with(close_file) struct open_file file;
	int r = open_file(calls, operation->path, &file, err);

	return r < 0 ? r : nt_operation_holds(operation, &file.sd);
}

/* ---- trees ---- */

struct walk {
	const struct win_calls *calls;
	const struct nt_sid *sid; /* NULL: every SID of atoll */
	int64_t n_changed;
	int depth;
	struct atoll_error *err;
};

static char *join(const char *directory, const char *name)
{
	const size_t size = strlen(directory);
	char *path = NULL;

	if (asprintf(&path, "%s%s%s", directory,
		     size > 0 && directory[size - 1] == '\\' ? "" : "\\", name) < 0)
		return NULL;
	return path;
}

typedef int (*visit_fn)(struct walk *walk, const struct open_file *parent, struct open_file *file);

static int walk_beneath(struct walk *walk, struct open_file *directory, visit_fn visit);

static int walk_file(struct walk *walk, struct open_file *parent, const char *path, visit_fn visit)
{
	cleanup_with(close_file) struct open_file file;
	int r = open_file(walk->calls, path, &file, walk->err);

	if (r == 0)
		r = visit(walk, parent, &file);
	if (r == 0 && file.object->is_directory && !file.object->is_reparse)
		r = walk_beneath(walk, &file, visit);
	return r;
}

static int walk_beneath(struct walk *walk, struct open_file *directory, visit_fn visit)
{
	const struct win_calls *calls = walk->calls;
	cleanup_free char *names = NULL;
	int r;

	if (++walk->depth > DEPTH_MAX)
		return error_set(walk->err, ATOLL_FAULT_HOST, ELOOP, "'%s' is too deep",
				 directory->object->path);
	r = calls->list(calls->context, directory->handle, &names, walk->err);
	for (const char *name = names; r == 0 && name && *name; name += strlen(name) + 1) {
		cleanup_free char *path = join(directory->object->path, name);

		r = path ? walk_file(walk, directory, path, visit) : error_oom(walk->err);
	}
	walk->depth--;
	return r;
}

static int visit_descend(struct walk *walk, const struct open_file *parent, struct open_file *file)
{
	int changed = nt_descend(&parent->sd, file->object->is_directory, walk->sid, &file->sd);

	if (changed < 0)
		return explain_label(changed, file->object->path, walk->err);
	if (changed == 0)
		return 0;
	walk->n_changed++;
	return write_security(file, walk->err);
}

/* Twice: the second walk finds nothing to do, unless the first one was not told every name. */
int tree_descend(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
		 struct atoll_error *err)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct walk walk = {.calls = calls, .sid = sid, .err = err};
		cleanup_with(close_file) struct open_file file;
		int r = open_file(calls, path, &file, err);

		if (r == 0 && file.object->is_directory && !file.object->is_reparse)
			r = walk_beneath(&walk, &file, visit_descend);
		if (r < 0 || (walk.n_changed == 0 && round > 0))
			return r;
	}
	return error_set(err, ATOLL_FAULT_HOST, EIO, "list.inherit: '%s' changes again and again",
			 path);
}

static bool revoke_ours(struct nt_descriptor *sd)
{
	bool changed = false;

	for (size_t i = sd->dacl.n_aces; i-- > 0;)
		if (i < sd->dacl.n_aces && !sd->dacl.aces[i].raw &&
		    nt_sid_is_ours(&sd->dacl.aces[i].sid)) {
			const struct nt_sid sid = sd->dacl.aces[i].sid;

			changed = nt_revoke(&sid, sd) || changed;
		}
	return changed;
}

static int visit_revoke(struct walk *walk, const struct open_file *parent, struct open_file *file)
{
	bool changed = walk->sid ? nt_revoke(walk->sid, &file->sd) : revoke_ours(&file->sd);

	(void)parent;
	if (!changed)
		return 0;
	walk->n_changed++;
	return write_security(file, walk->err);
}

/* Once more until a walk finds nothing: a directory whose names could not be read at first. */
int64_t tree_revoke(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
		    struct atoll_error *err)
{
	int64_t total = 0;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct walk walk = {.calls = calls, .sid = sid, .err = err};
		int r = walk_file(&walk, NULL, path, visit_revoke);

		if (r < 0)
			return r;
		total += walk.n_changed;
		if (walk.n_changed == 0 && round > 0)
			return total;
	}
	return error_set(err, ATOLL_FAULT_HOST, EIO, "list.return: entries in '%s' come back",
			 path);
}
