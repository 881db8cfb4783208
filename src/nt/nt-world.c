/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system of the model. Called by tests of the plan, and by the fake of the Win32 calls.
 *
 * A path is found component by component from the drive's root: a name matches a child without
 * regard to case or by its short name, and a junction replaces the path so far by its target.
 */
#include "nt/nt-world.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt-label.h"
#include "nt/nt-path.h"
#include "nt/sddl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_SIZE  32768
#define LINKS_MOST 16

/* ---- files ---- */

static size_t bucket_of(const char *path)
{
	uint32_t hash = 2166136261U;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)(*path >= 'a' && *path <= 'z' ? *path - 32 : *path)) *
		       16777619U;
	return hash % NT_WORLD_BUCKETS;
}

static void insert_file(struct nt_world *world, struct nt_file *file)
{
	struct nt_file **bucket = &world->buckets[bucket_of(file->path)];

	file->next_in_bucket = *bucket;
	*bucket = file;
	world->n_files++;
	if (!file->parent)
		return;
	file->next_sibling = file->parent->first_child;
	file->parent->first_child = file;
}

static void extract_file(struct nt_world *world, struct nt_file *file)
{
	struct nt_file **at = &world->buckets[bucket_of(file->path)];

	while (*at != file)
		at = &(*at)->next_in_bucket;
	*at = file->next_in_bucket;
	world->n_files--;
	if (!file->parent)
		return;
	at = &file->parent->first_child;
	while (*at != file)
		at = &(*at)->next_sibling;
	*at = file->next_sibling;
}

static void free_file(struct nt_file *file)
{
	free(file->path);
	free(file->link);
	free(file->short_name);
	free(file->content);
	free(file->stream);
	nt_descriptor_done(&file->sd);
	free(file);
}

static struct nt_file *new_file(const char *path, bool is_directory)
{
	struct nt_file *file = calloc(1, sizeof *file);

	if (!file)
		return NULL;
	nt_descriptor_init(&file->sd);
	file->is_directory = is_directory;
	file->path = strdup(path);
	file->content = strdup("");
	if (!file->path || !file->content) {
		free_file(file);
		return NULL;
	}
	file->name = strrchr(file->path, '\\') + 1;
	return file;
}

int nt_world_init(struct nt_world *world, const char *sddl)
{
	*world = (struct nt_world){.buckets = calloc(NT_WORLD_BUCKETS, sizeof *world->buckets)};
	if (!world->buckets)
		return -ENOMEM;
	world->root = new_file("C:\\", true);
	if (!world->root || nt_sddl_parse(sddl, &world->root->sd) < 0) {
		nt_world_done(world);
		return -ENOMEM;
	}
	insert_file(world, world->root);
	return 0;
}

void nt_world_done(struct nt_world *world)
{
	for (size_t i = 0; world->buckets && i < NT_WORLD_BUCKETS; i++)
		for (struct nt_file *file = world->buckets[i], *next; file; file = next) {
			next = file->next_in_bucket;
			free_file(file);
		}
	free(world->buckets);
	*world = (struct nt_world){0};
}

struct nt_file *nt_world_at(const struct nt_world *world, const char *path)
{
	struct nt_file *file = world->buckets[bucket_of(path)];

	while (file && !nt_path_equal(file->path, path))
		file = file->next_in_bucket;
	return file;
}

/* What a new object gets from its directory. */
static int inherit(const struct nt_file *parent, const struct nt_sid *owner, struct nt_file *file)
{
	int r;

	file->sd.has_owner = file->sd.has_dacl = true;
	file->sd.owner = *owner;
	r = nt_acl_inherit(&parent->sd.dacl, file->is_directory, owner, &nt_sid_users,
			   &file->sd.dacl);
	return r < 0 ? r : nt_label_inherit(&parent->sd, file->is_directory, &file->sd);
}

static struct nt_file *parent_of(const struct nt_world *world, const char *path)
{
	cleanup_free char *copy = strdup(path);
	char *end = copy ? strrchr(copy, '\\') : NULL;

	if (!end)
		return NULL;
	end[end == copy + 2] = '\0'; /* "C:\" keeps its separator */
	return nt_world_at(world, copy);
}

struct nt_file *nt_world_add(struct nt_world *world, const char *path, bool is_directory,
			     const char *sddl)
{
	struct nt_file *parent = parent_of(world, path), *file;
	int r;

	if (!parent || nt_world_at(world, path))
		return NULL;
	file = new_file(path, is_directory);
	if (!file)
		return NULL;
	r = sddl ? nt_sddl_parse(sddl, &file->sd) : inherit(parent, &parent->sd.owner, file);
	if (r < 0) {
		free_file(file);
		return NULL;
	}
	file->parent = parent;
	insert_file(world, file);
	return file;
}

void nt_world_remove(struct nt_world *world, struct nt_file *file)
{
	while (file->first_child)
		nt_world_remove(world, file->first_child);
	extract_file(world, file);
	free_file(file);
}

/* ---- finding what a process names ---- */

static bool has_name(const struct nt_file *file, const char *name, size_t size)
{
	return (strlen(file->name) == size && strncasecmp(file->name, name, size) == 0) ||
	       (file->short_name && strlen(file->short_name) == size &&
		strncasecmp(file->short_name, name, size) == 0);
}

static struct nt_file *child_of(const struct nt_file *directory, const char *name, size_t size)
{
	for (struct nt_file *file = directory->first_child; file; file = file->next_sibling)
		if (has_name(file, name, size))
			return file;
	return NULL;
}

/* Windows' own rewriting of a path: separators, ".", "..", dots and blanks at the end. `\\?\` turns
 * it off. `ret` has components behind "C:", each with one separator before it. */
static int rewrite(const char *text, char *ret)
{
	const bool is_verbatim = starts_with(text, "\\\\?\\");
	size_t used = 0;

	text += is_verbatim ? 4 : 0;
	if ((text[0] != 'C' && text[0] != 'c') || text[1] != ':')
		return -ENXIO;
	for (text += 2; *text;) {
		const char *name;
		size_t size = 0;

		text += strspn(text, "\\/");
		name = text;
		while (name[size] && name[size] != '\\' && (is_verbatim || name[size] != '/'))
			size++;
		text += size;
		if (!is_verbatim && size == 2 && memcmp(name, "..", 2) == 0) {
			while (used > 0 && ret[--used] != '\\')
				;
			continue;
		}
		while (!is_verbatim && size > 0 && (name[size - 1] == '.' || name[size - 1] == ' '))
			size--;
		if (size == 0)
			continue;
		if (size > 255 || used + size + 2 > PATH_SIZE)
			return -ENOENT;
		ret[used++] = '\\';
		memcpy(ret + used, name, size);
		used += size;
	}
	ret[used] = '\0';
	return 0;
}

static int find_in(const struct nt_world *world, const char *text, int links, struct nt_file **ret,
		   char *ret_rest);

/* A junction: the path so far becomes its target, and the search starts again. */
static int follow(const struct nt_world *world, const char *link, const char *rest, int links,
		  struct nt_file **ret, char *ret_rest)
{
	cleanup_free char *whole = NULL;

	if (links >= LINKS_MOST)
		return -ELOOP;
	if (asprintf(&whole, "%s%s", link, rest) < 0)
		return -ENOMEM;
	return find_in(world, whole, links + 1, ret, ret_rest);
}

/* The deepest file on the way, and what is left of the path behind it. */
static int find_in(const struct nt_world *world, const char *text, int links, struct nt_file **ret,
		   char *ret_rest)
{
	cleanup_free char *path = malloc(PATH_SIZE);
	struct nt_file *file = world->root;
	char *at;
	int r;

	if (!path)
		return -ENOMEM;
	r = rewrite(text, path);
	if (r < 0)
		return r;
	for (at = path; *at;) {
		size_t size = strcspn(at + 1, "\\");
		size_t name = memchr(at + 1, ':', size) ? strcspn(at + 1, ":") : size;
		struct nt_file *child = child_of(file, at + 1, name);

		if (!child || name != size)
			break;
		at += 1 + size;
		if (child->link)
			return follow(world, child->link, at, links, ret, ret_rest);
		file = child;
	}
	*ret = file;
	if (strlen(at) >= 256)
		return -ENOENT;
	memcpy(ret_rest, at, strlen(at) + 1);
	return 0;
}

int nt_world_find(const struct nt_world *world, const char *text, struct nt_file **ret_directory,
		  struct nt_file **ret_file, char *ret_name, bool *ret_is_stream)
{
	char rest[256], *colon;
	struct nt_file *file;
	int r = find_in(world, text, 0, &file, rest);

	if (r < 0)
		return r;
	*ret_is_stream = false;
	ret_name[0] = '\0';
	if (!rest[0]) {
		*ret_file = file;
		*ret_directory = file->parent ? file->parent : file;
		return 0;
	}
	colon = strchr(rest + 1, ':');
	if (colon) {
		*ret_is_stream = true;
		*colon = '\0';
	}
	if (strchr(rest + 1, '\\') || !file->is_directory)
		return -ENOENT;
	*ret_directory = file;
	*ret_file = child_of(file, rest + 1, strlen(rest + 1));
	memcpy(ret_name, rest + 1, strlen(rest + 1) + 1);
	return 0;
}

/* ---- changes under a token ---- */

static int make_child(struct nt_world *world, const struct nt_token *token, struct nt_file *parent,
		      const char *name, bool is_directory)
{
	cleanup_free char *path = NULL;
	struct nt_label label;
	struct nt_file *file;
	int r;

	if (asprintf(&path, parent->parent ? "%s\\%s" : "%s%s", parent->path, name) < 0)
		return -ENOMEM;
	file = new_file(path, is_directory);
	r = file ? inherit(parent, &token->user.sid, file) : -ENOMEM;
	if (r == 0 && token->integrity && token->integrity < NT_LEVEL_MEDIUM &&
	    nt_label_read(&file->sd, &label) == 0) {
		/* Objects of a low process are low, whatever their directory hands on. */
		label = (struct nt_label){.level = token->integrity, .policy = NT_NO_WRITE_UP};
		r = nt_label_set(&file->sd, &label);
	}
	if (r < 0) {
		if (file)
			free_file(file);
		return r;
	}
	file->parent = parent;
	insert_file(world, file);
	return 0;
}

static int set_text(char **text, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

/* The path changes of a file and of all beneath it. */
static int rename_file(struct nt_world *world, struct nt_file *file, struct nt_file *parent,
		       const char *name)
{
	cleanup_free char *path = NULL;
	struct nt_file *children = file->first_child;
	int r = 0;

	if (asprintf(&path, parent->parent ? "%s\\%s" : "%s%s", parent->path, name) < 0)
		return -ENOMEM;
	extract_file(world, file);
	free(file->path);
	file->path = take_ptr(path);
	file->name = strrchr(file->path, '\\') + 1;
	file->parent = parent;
	file->first_child = NULL;
	insert_file(world, file);
	while (children && r == 0) {
		struct nt_file *child = children;
		cleanup_free char *child_name = strdup(child->name);

		children = child->next_sibling;
		/* extract_file() looks for the child in its directory's list. */
		child->next_sibling = file->first_child;
		file->first_child = child;
		r = child_name ? rename_file(world, child, file, child_name) : -ENOMEM;
	}
	return r;
}

static int have_effect(struct nt_world *world, const struct nt_token *token,
		       enum nt_attempt attempt, struct nt_file *directory, struct nt_file *file,
		       const char *name)
{
	char renamed[300];

	switch (attempt) {
	case NT_TRY_CREATE:
	case NT_TRY_MKDIR:
		return make_child(world, token, directory, name, attempt == NT_TRY_MKDIR);
	case NT_TRY_OVERWRITE:
		return set_text(&file->content, "overwritten");
	case NT_TRY_APPEND:
		return set_text(&file->content, "appended");
	case NT_TRY_STREAM:
		return set_text(&file->stream, "stream");
	case NT_TRY_DELETE:
		if (file->first_child)
			return -ENOTEMPTY;
		nt_world_remove(world, file);
		return 0;
	case NT_TRY_RENAME:
		snprintf(renamed, sizeof renamed, "%s-renamed", file->name);
		return rename_file(world, file, directory, renamed);
	case NT_TRY_DACL:
		nt_acl_done(&file->sd.dacl);
		return nt_acl_add(&file->sd.dacl, NT_ACE_ALLOW, 0, NT_FILE_ALL_ACCESS,
				  &nt_sid_everyone);
	case NT_TRY_OWNER:
		file->sd.owner = nt_sid_everyone;
		return 0;
	case NT_TRY_ATTRIBUTES:
		file->attributes ^= 1;
		return 0;
	default:
		return -EINVAL;
	}
}

int nt_world_try(struct nt_world *world, const struct nt_token *token, enum nt_attempt attempt,
		 const char *text)
{
	const bool makes = attempt == NT_TRY_CREATE || attempt == NT_TRY_MKDIR;
	struct nt_file *directory, *file;
	bool is_stream;
	char name[256];
	int r = nt_world_find(world, text, &directory, &file, name, &is_stream);

	if (r < 0)
		return r;
	if (is_stream)
		attempt = NT_TRY_STREAM;
	if (!file && !makes)
		return -ENOENT;
	/* To create what exists is to overwrite it. */
	if (file && makes)
		attempt = file->is_directory ? NT_TRY_ATTRIBUTES : NT_TRY_OVERWRITE;
	r = nt_attempt_check(attempt, file ? &file->sd : NULL, &directory->sd, token);
	return r < 0 ? r : have_effect(world, token, attempt, directory, file, name);
}

/* The place for a new name: its directory exists, and nothing has the name. */
static int find_free(const struct nt_world *world, const char *text, struct nt_file **ret,
		     char *ret_name)
{
	struct nt_file *file;
	bool is_stream;
	int r = nt_world_find(world, text, ret, &file, ret_name, &is_stream);

	return r < 0 ? r : file || is_stream ? -EEXIST : 0;
}

static int find_existing(const struct nt_world *world, const char *text,
			 struct nt_file **ret_directory, struct nt_file **ret)
{
	bool is_stream;
	char name[256];
	int r = nt_world_find(world, text, ret_directory, ret, name, &is_stream);

	return r < 0 ? r : *ret ? 0 : -ENOENT;
}

int nt_world_move(struct nt_world *world, const struct nt_token *token, const char *from,
		  const char *to)
{
	struct nt_file *source_directory, *file, *directory;
	char name[256];
	int r = find_existing(world, from, &source_directory, &file);

	if (r == 0)
		r = find_free(world, to, &directory, name);
	if (r == 0)
		r = nt_attempt_check(NT_TRY_DELETE, &file->sd, &source_directory->sd, token);
	if (r == 0)
		r = nt_access_check(&directory->sd, token,
				    file->is_directory ? NT_FILE_APPEND_DATA : NT_FILE_WRITE_DATA);
	return r < 0 ? r : rename_file(world, file, directory, name);
}

int nt_world_link(struct nt_world *world, const struct nt_token *token, const char *from,
		  const char *to)
{
	struct nt_file *source_directory, *file, *directory;
	char name[256];
	int r = find_existing(world, from, &source_directory, &file);

	if (r == 0)
		r = find_free(world, to, &directory, name);
	if (r == 0)
		r = nt_access_check(&file->sd, token, NT_FILE_WRITE_ATTRIBUTES);
	if (r == 0)
		r = nt_access_check(&directory->sd, token, NT_FILE_WRITE_DATA);
	return r < 0 ? r : make_child(world, token, directory, name, false);
}

/* ---- the whole as text ---- */

static int compare_files(const void *a, const void *b)
{
	return strcmp((*(struct nt_file *const *)a)->path, (*(struct nt_file *const *)b)->path);
}

static void put_file(struct buf *out, const struct nt_file *file)
{
	cleanup_free char *sddl = NULL;
	struct nt_descriptor plain = file->sd;
	struct nt_label label;
	int has_label = nt_label_read(&file->sd, &label);

	plain.has_sacl = false; /* SDDL of the model has no labels: written apart */
	buf_addf(out, "%s %s", file->path,
		 nt_sddl_text(&plain, &sddl) == 0 ? sddl : "list of another kind");
	if (has_label == 1)
		buf_addf(out, " label %x/%x/%x", label.level, label.policy, label.flags);
	buf_addf(out, " \"%s\" %s %x%s%s\n", file->content, file->stream ? file->stream : "-",
		 file->attributes, file->link ? " -> " : "", file->link ? file->link : "");
}

char *nt_world_text(const struct nt_world *world)
{
	cleanup_free struct nt_file **files = calloc(world->n_files + 1, sizeof *files);
	cleanup_buf struct buf out = BUF_INIT(SIZE_MAX / 2);
	size_t n = 0;

	if (!files)
		return NULL;
	for (size_t i = 0; i < NT_WORLD_BUCKETS; i++)
		for (struct nt_file *file = world->buckets[i]; file; file = file->next_in_bucket)
			files[n++] = file;
	qsort(files, n, sizeof *files, compare_files);
	for (size_t i = 0; i < n; i++)
		put_file(&out, files[i]);
	return buf_take(&out);
}
