/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a job file to a job
 *
 *	tree_read()		the text is YAML of the strict kind
 *	shape_check()		its keys, types and words are those of a job
 *	shape_check_available()	it asks for nothing that is still to come
 *	load_...()		the values are taken in, by the same setters as those of flags
 *
 * Sections are taken in by this list and not in the order of the file, so that two files that say
 * the same in another order become the same job.
 */
#include "base/path.h"
#include "spec/document.h"
#include "spec/network-inner.h"
#include "spec/shape.h"

#include <stdio.h>

struct loader {
	struct spec *spec;
	char name[160];
	char origin[192]; /* of the value at hand: "job.yaml:12" */
	struct atoll_error *err;
};

static const char *origin_of(struct loader *loader, const struct tree *tree)
{
	snprintf(loader->origin, sizeof loader->origin, "%s:%u", loader->name, tree->line);
	return loader->origin;
}

static int load_version(struct loader *loader, const struct tree *version)
{
	if (!version || streq(version->text, "1"))
		return 0;
	return error_set(loader->err, ATOLL_FAULT_REQUEST, 0,
			 "%s:%u: version %s is not known; this atoll reads version 1", loader->name,
			 version->line, shown(version->text));
}

static int load_command(struct loader *loader, const struct tree *command)
{
	char *shell[] = {(char *)"/bin/sh", (char *)"-c", NULL, NULL};
	cleanup_free char **argv = NULL;

	if (!command)
		return 0;
	if (command->kind == TREE_TEXT) {
		shell[2] = command->text;
		return spec_set_command(loader->spec, shell, origin_of(loader, command),
					loader->err);
	}
	argv = calloc(command->n_items + 1, sizeof *argv);
	if (!argv)
		return error_oom(loader->err);
	for (size_t i = 0; i < command->n_items; i++)
		argv[i] = command->items[i].text;
	return spec_set_command(loader->spec, argv, origin_of(loader, command), loader->err);
}

static int load_workspace(struct loader *loader, const struct tree *workspace)
{
	const struct tree *path = tree_get(workspace, "path"), *mode = tree_get(workspace, "mode"),
			  *cwd = tree_get(workspace, "cwd"), *at = tree_get(workspace, "at");
	int r = 0;

	if (workspace && workspace->kind == TREE_TEXT)
		path = workspace;
	if (path)
		r = spec_put_workspace(loader->spec, path->text, SPEC_FROM_FILE_BY_CALLER,
				       origin_of(loader, path), loader->err);
	if (r == 0 && at)
		r = spec_set_workspace_at(loader->spec, at->text, origin_of(loader, at),
					  loader->err);
	if (r == 0 && mode)
		r = spec_set_workspace_mode(loader->spec, mode->text, origin_of(loader, mode),
					    loader->err);
	if (r == 0 && cwd)
		r = spec_put_cwd(loader->spec, cwd->text, SPEC_FROM_FILE, origin_of(loader, cwd),
				 loader->err);
	return r;
}

static int load_root(struct loader *loader, const struct tree *root)
{
	return root ? spec_set_root(loader->spec, root->text, origin_of(loader, root), loader->err)
		    : 0;
}

static int load_image(struct loader *loader, const struct tree *image)
{
	const struct tree *root = tree_get(image, "root");

	if (image && !root)
		return error_set(loader->err, ATOLL_FAULT_REQUEST, 0,
				 "%s:%u: an image has a 'root', the directory that it is in",
				 loader->name, image->line);
	return image ? inside_put_image(loader->spec, root->text, origin_of(loader, root),
					loader->err)
		     : 0;
}

static int load_user(struct loader *loader, const struct tree *user)
{
	const struct tree *name = tree_get(user, "name"), *uid = tree_get(user, "uid"),
			  *gid = tree_get(user, "gid"), *home = tree_get(user, "home");

	if (!name || !uid)
		return error_set(loader->err, ATOLL_FAULT_REQUEST, 0,
				 "%s:%u: a user has a 'name' and a 'uid'", loader->name,
				 user->line);
	return spec_add_user(loader->spec, name->text, (uint32_t)atoi(uid->text),
			     (uint32_t)atoi(gid ? gid->text : uid->text), home ? home->text : NULL,
			     origin_of(loader, name), loader->err);
}

static int load_users(struct loader *loader, const struct tree *users)
{
	int r = 0;

	for (size_t i = 0; r == 0 && users && i < users->n_items; i++)
		r = load_user(loader, &users->items[i]);
	return r;
}

static int load_guest(struct loader *loader, const struct tree *guest)
{
	return guest ? spec_set_guest(loader->spec, guest->text, origin_of(loader, guest),
				      loader->err)
		     : 0;
}

static int load_checkpoints(struct loader *loader, const struct tree *checkpoints)
{
	if (!checkpoints)
		return 0;
	return spec_set_checkpoints(loader->spec, checkpoints->text, origin_of(loader, checkpoints),
				    loader->err);
}

/* A path; or a map with one, and where it is seen inside. */
static int load_rule(struct loader *loader, enum spec_access access, const struct tree *item)
{
	const struct tree *path = item->kind == TREE_MAP ? tree_get(item, "path") : item,
			  *at = tree_get(item, "at");

	if (!path)
		return error_set(loader->err, ATOLL_FAULT_REQUEST, 0,
				 "%s:%u: a grant has a 'path', what is granted of the host",
				 loader->name, item->line);
	return spec_put_rule(loader->spec, access, path->text, at ? at->text : NULL, SPEC_FROM_FILE,
			     origin_of(loader, path), loader->err);
}

static int load_rules(struct loader *loader, const struct tree *filesystem, enum spec_access access)
{
	const struct tree *list = tree_get(filesystem, spec_access_word(access));
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n_items; i++)
		r = load_rule(loader, access, &list->items[i]);
	return r;
}

typedef int put_path_fn(struct spec *spec, const char *path, enum spec_source source,
			const char *origin, struct atoll_error *err);

static int load_paths(struct loader *loader, const struct tree *list, put_path_fn *put)
{
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n_items; i++)
		r = put(loader->spec, list->items[i].text, SPEC_FROM_FILE,
			origin_of(loader, &list->items[i]), loader->err);
	return r;
}

static int load_filesystem(struct loader *loader, const struct tree *filesystem)
{
	static const enum spec_access accesses[] = {SPEC_READ, SPEC_WRITE, SPEC_HIDE, SPEC_PROTECT};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(accesses); i++)
		r = load_rules(loader, filesystem, accesses[i]);
	if (r == 0)
		r = load_paths(loader, tree_get(filesystem, "sockets"), spec_put_socket);
	if (r == 0)
		r = load_paths(loader, tree_get(filesystem, "accept-broad"), spec_put_broad);
	return r;
}

static int load_network(struct loader *loader, const struct tree *network)
{
	return network ? network_load(loader->spec, loader->name, network, loader->err) : 0;
}

static int load_identity(struct loader *loader, const struct tree *identity)
{
	if (!identity)
		return 0;
	return spec_set_identity(loader->spec, identity->text, origin_of(loader, identity),
				 loader->err);
}

static int load_limits(struct loader *loader, const struct tree *limits)
{
	int r = 0;

	for (enum spec_limit_id id = 0; r == 0 && id < SPEC_LIMIT_COUNT; id++) {
		const struct tree *limit = tree_get(limits, spec_limits[id].key);

		if (limit)
			r = spec_set_limit(loader->spec, id, limit->text, origin_of(loader, limit),
					   loader->err);
	}
	return r;
}

/* `pass` before `set`: a value that was written out wins over the caller's. */
static int load_environment(struct loader *loader, const struct tree *environment)
{
	const struct tree *pass = tree_get(environment, "pass"),
			  *set = tree_get(environment, "set"),
			  *descriptors = tree_get(environment, "descriptors");
	int r = 0;

	for (size_t i = 0; r == 0 && pass && i < pass->n_items; i++)
		r = spec_put_variable(loader->spec, pass->items[i].text, NULL,
				      origin_of(loader, &pass->items[i]), loader->err);
	for (size_t i = 0; r == 0 && set && i < set->n_items; i++)
		r = spec_put_variable(loader->spec, set->items[i].key, set->items[i].text,
				      origin_of(loader, &set->items[i]), loader->err);
	for (size_t i = 0; r == 0 && descriptors && i < descriptors->n_items; i++)
		r = spec_add_descriptor(loader->spec, atoi(descriptors->items[i].text),
					origin_of(loader, &descriptors->items[i]), loader->err);
	return r;
}

static int load_isolation(struct loader *loader, const struct tree *isolation)
{
	const struct tree *weaker = tree_get(isolation, "accept-weaker");
	int r = 0;

	for (size_t i = 0; r == 0 && weaker && i < weaker->n_items; i++)
		r = spec_add_accepted(loader->spec, weaker->items[i].text,
				      origin_of(loader, &weaker->items[i]), loader->err);
	return r;
}

static int load_audit(struct loader *loader, const struct tree *audit)
{
	const struct tree *record = tree_get(audit, "record"), *output = tree_get(audit, "output");
	int r = 0;

	if (record)
		r = spec_set_record(loader->spec, record->text, origin_of(loader, record),
				    loader->err);
	if (r == 0 && output)
		r = spec_set_kept_output(loader->spec, output->text, origin_of(loader, output),
					 loader->err);
	return r == 0 ? spec_watch_load(loader->spec, loader->name, audit, loader->err) : r;
}

static int load_job(struct loader *loader, const struct tree *job)
{
	static const struct {
		const char *key;
		int (*load)(struct loader *loader, const struct tree *section);
	} sections[] = {
		{"version", load_version},
		{"command", load_command},
		{"workspace", load_workspace},
		{"root", load_root},
		{"image", load_image},
		{"users", load_users},
		{"guest", load_guest},
		{"checkpoints", load_checkpoints},
		{"filesystem", load_filesystem},
		{"network", load_network},
		{"identity", load_identity},
		{"limits", load_limits},
		{"environment", load_environment},
		{"isolation", load_isolation},
		{"audit", load_audit},
	};
	int r = shape_check(loader->name, job, loader->err);

	if (r == 0)
		r = shape_check_available(loader->name, job, loader->err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sections); i++)
		r = sections[i].load(loader, tree_get(job, sections[i].key));
	return r;
}

int spec_load(struct spec *spec, const char *name, const char *path, const char *text, size_t size,
	      struct atoll_error *err)
{
	struct loader loader = {.spec = spec, .err = err};
	cleanup_free char *shown_name = NULL;
	struct tree *tree;
	int r;

	if (spec->file || (path && path[0] != '/'))
		return error_set(err, ATOLL_FAULT_BUG, 0, "one job file, by its absolute path");
	/* "--x" would read as a flag in an origin. */
	if (asprintf(&shown_name, "%s%s", starts_with(name, "--") ? "./" : "", name) < 0) {
		shown_name = NULL;
		return error_oom(err);
	}
	str_show(shown_name, loader.name, sizeof loader.name);

	r = tree_read(loader.name, text, size, &tree, err);
	if (r < 0)
		return r;
	r = load_job(&loader, tree);
	tree_free(tree);
	if (r == 0 && path)
		r = spec_set_text(&spec->file, path, err);
	if (r == 0 && path)
		path_normalize(spec->file);
	return r;
}
