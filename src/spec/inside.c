/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it looks like inside
 *
 * Where the workspace is seen, who there is, and whether our guest program is there. All of these
 * are about names: no line of theirs shows anything of the host's that another does not. A place
 * inside must be free, though. What is mounted there would otherwise lie over something that the
 * contract shows, or over what a sandbox is made of.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/path.h"
#include "spec/spec-inner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define NAME_SIZE_MAX 31

/* ---- as written ---- */

static bool has_climbing(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2) {
		if ((p == path || p[-1] == '/') && (p[2] == '/' || p[2] == '\0'))
			return true;
	}
	return false;
}

/* A path of the sandbox's, where the caller's directory and home mean nothing. */
int inside_put_path(char **slot, const char *path, const char *what, const char *origin,
		    struct atoll_error *err)
{
	int r;

	if (path[0] != '/' || has_climbing(path))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: %s '%s': a place inside is an absolute path without '..'",
				 origin, what, shown_path(path));
	if (strlen(path) >= PATH_MAX / 2 || !str_is_printable(path))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: %s '%s': a place inside is a path of at most %d plain "
				 "characters",
				 origin, what, shown_path(path), PATH_MAX / 2);
	r = spec_set_text(slot, path, err);
	if (r == 0)
		path_normalize(*slot);
	return r;
}

int spec_set_workspace_at(struct spec *spec, const char *path, const char *origin,
			  struct atoll_error *err)
{
	int r = inside_put_path(&spec->workspace_at, path, "the workspace at", origin, err);

	return r < 0 ? r : spec_set_text(&spec->workspace_at_origin, origin, err);
}

int spec_set_guest(struct spec *spec, const char *word, const char *origin, struct atoll_error *err)
{
	if (!streq(word, "on") && !streq(word, "off"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: no guest '%s'; write on or off",
				 origin, shown(word));
	spec->has_guest = streq(word, "on");
	return spec_set_text(&spec->guest_origin, origin, err);
}

/* As useradd takes them. */
static bool is_user_name(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz_",
			  rest[] = "abcdefghijklmnopqrstuvwxyz_0123456789-";

	return name[0] && strchr(first, name[0]) && name[strspn(name, rest)] == '\0' &&
	       strlen(name) <= NAME_SIZE_MAX;
}

static int check_user(const struct spec *spec, const char *name, uint32_t uid, const char *origin,
		      struct atoll_error *err)
{
	if (!is_user_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: no user can be called '%s': at most %d of a-z, 0-9, - and _, "
				 "and a letter first",
				 origin, shown(name), NAME_SIZE_MAX);
	if (streq(name, "nobody") || streq(name, "nogroup") || (streq(name, "root") && uid != 0))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: '%s' has an id of its own",
				 origin, name);
	if (spec->n_users == SPEC_USERS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d users", origin,
				 SPEC_USERS_MAX);
	for (size_t i = 0; i < spec->n_users; i++) {
		if (streq(spec->users[i].name, name) || spec->users[i].uid == uid)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: '%s' has the name or the id of '%s' (%s)", origin,
					 name, spec->users[i].name, spec->users[i].origin);
	}
	return 0;
}

int spec_add_user(struct spec *spec, const char *name, uint32_t uid, uint32_t gid, const char *home,
		  const char *origin, struct atoll_error *err)
{
	struct spec_user *grown, user = {.uid = uid, .gid = gid};
	char usual[NAME_SIZE_MAX + 16];
	int r = check_user(spec, name, uid, origin, err);

	if (r < 0)
		return r;
	if (uid == 0)
		snprintf(usual, sizeof usual, "/root");
	else
		snprintf(usual, sizeof usual, "/home/%s", name);
	grown = spec_grow(spec->users, spec->n_users, sizeof *grown);
	if (!grown)
		return error_oom(err);
	spec->users = grown;
	r = inside_put_path(&user.home, home ? home : usual, "the home", origin, err);
	if (r == 0)
		r = spec_set_text(&user.name, name, err);
	if (r == 0)
		r = spec_set_text(&user.origin, origin, err);
	if (r < 0) {
		spec_user_done(&user);
		return r;
	}
	grown[spec->n_users++] = user;
	return 0;
}

void spec_user_done(struct spec_user *user)
{
	free(user->name);
	free(user->home);
	free(user->origin);
}

int inside_put_image(struct spec *spec, const char *path, const char *origin,
		     struct atoll_error *err)
{
	cleanup_free char *resolved = NULL;
	int r = place_resolve(spec, path, SPEC_FROM_FILE_BY_CALLER, origin, &resolved, err);

	if (r == 0)
		r = spec_set_text(&spec->image_origin, origin, err);
	if (r < 0)
		return r;
	free(spec->image);
	spec->image = take_ptr(resolved);
	return 0;
}

/* ---- the whole ---- */

const char *spec_at(const struct spec *spec)
{
	return spec->workspace_at ? spec->workspace_at : spec->workspace;
}

bool spec_is_moved(const struct spec *spec)
{
	return spec->workspace_at && !streq(spec->workspace_at, spec->workspace);
}

const char *spec_home_inside(const struct spec *spec, size_t user)
{
	return spec->n_users ? spec->users[user < spec->n_users ? user : 0].home : spec->home;
}

int spec_find_user(const struct spec *spec, const char *name, struct atoll_error *err)
{
	if (!name || !name[0])
		return 0;
	for (size_t i = 0; i < spec->n_users; i++)
		if (streq(spec->users[i].name, name))
			return (int)i;
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "there is no user '%s' inside%s",
			 shown(name),
			 spec->n_users ? "" : ": the contract names none ('users' in a job file)");
}

/* The directory where the command starts, by its name inside; it was written from outside or from
 * inside. */
int inside_place_cwd(struct spec *spec, struct atoll_error *err)
{
	cleanup_free char *moved = NULL;

	if (!spec_is_moved(spec) || path_is_within(spec->cwd, spec->workspace_at) ||
	    !path_is_within(spec->cwd, spec->workspace))
		return 0;
	if (asprintf(&moved, "%s%s", spec->workspace_at, spec->cwd + strlen(spec->workspace)) < 0) {
		moved = NULL;
		return error_oom(err);
	}
	return spec_set_text(&spec->cwd, moved, err);
}

/* ---- is the place free? ---- */

/* At or beneath: what a sandbox is made of, and what it runs. */
static const char *const taken_trees[] = {
	"/proc", "/sys", "/dev",   "/run",   "/etc",	"/usr",	    "/boot", "/bin",
	"/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/var/run", "/nix",  NULL,
};

/* These themselves: others look for other things there. */
static const char *const taken_roots[] = {
	"/", "/var", "/var/tmp", "/var/lib", "/var/cache", "/tmp", "/opt", "/home", NULL,
};

const char *inside_why_taken(const char *path)
{
	for (size_t i = 0; taken_roots[i]; i++)
		if (streq(path, taken_roots[i]))
			return "is a directory of the system";
	for (size_t i = 0; taken_trees[i]; i++)
		if (path_is_within(path, taken_trees[i]))
			return "belongs to the system or to the sandbox itself";
	return NULL;
}

/* What an image has instead of the host. */
static const char *const image_trees[] = {"/usr",    "/bin", "/sbin", "/lib", "/lib32", "/lib64",
					  "/libx32", "/etc", "/opt",  "/nix", "/var"};

/* A line that shows something of the host's at, above or beneath a place. */
static const struct spec_rule *rule_near(const struct spec *spec, const char *path,
					 bool counts_beneath)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		/* What is seen elsewhere looks at the homes and the workspace itself. */
		if (!rule_is_grant(rule) || rule->at || streq(rule->path, spec->workspace))
			continue;
		if (path_is_within(path, rule->path) ||
		    (counts_beneath && path_is_within(rule->path, path)))
			return rule;
	}
	return NULL;
}

static int check_place(const struct spec *spec, const char *path, bool counts_beneath,
		       const char *what, const char *origin, struct atoll_error *err)
{
	const char *why = inside_why_taken(path);
	const struct spec_rule *rule = why ? NULL : rule_near(spec, path, counts_beneath);

	if (why)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s: %s cannot be '%s', which %s; take a place like /home/user",
				 origin, what, shown_path(path), why);
	if (rule)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s: %s cannot be '%s': '%s' of the host is shown there (%s)",
				 origin, what, shown_path(path), shown_path(rule->path),
				 rule->origin);
	for (size_t i = 0; i < spec->n_sockets; i++) {
		const char *socket = spec->sockets[i].text;

		if (path_is_within(path, socket) ||
		    (counts_beneath && path_is_within(socket, path)))
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s: %s cannot be '%s': the socket '%s' is shown there (%s)",
				origin, what, shown_path(path), shown_path(socket),
				spec->sockets[i].origin);
	}
	return 0;
}

static int check_homes(const struct spec *spec, struct atoll_error *err)
{
	const char *at = spec_at(spec);
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_users; i++) {
		const struct spec_user *user = &spec->users[i];

		if (streq(user->home, at))
			continue;
		if (path_is_within(user->home, at))
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: the home '%s' of '%s' lies in the workspace, where "
					 "nobody makes it; name the workspace itself ('%s')",
					 user->origin, shown_path(user->home), user->name,
					 shown_path(at));
		r = check_place(spec, user->home, false, "a home", user->origin, err);
	}
	return r;
}

/* What is granted by itself in the workspace is written or read by the host's names. */
static int check_parts(const struct spec *spec, struct atoll_error *err)
{
	const char *path = NULL, *origin = NULL;

	for (size_t i = 0; !path && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if ((rule->access == SPEC_READ || rule->access == SPEC_WRITE) &&
		    !streq(rule->path, spec->workspace) &&
		    path_is_within(rule->path, spec->workspace))
			path = rule->path, origin = rule->origin;
	}
	for (size_t i = 0; !path && i < spec->n_sockets; i++)
		if (path_is_within(spec->sockets[i].text, spec->workspace))
			path = spec->sockets[i].text, origin = spec->sockets[i].origin;
	if (!path)
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s: '%s' is a part of the workspace, which is seen at another place "
			 "(%s): nothing in it can be granted by itself",
			 origin, shown_path(path), spec->workspace_at_origin);
}

/* What the host's own system directories are must not come in again by another name. */
static const char *why_no_image(const struct spec *spec)
{
	if (inside_why_taken(spec->image) && !streq(spec->image, "/tmp"))
		return "is the system's own, which is what there is without an image";
	if (path_is_within(spec->home, spec->image))
		return "holds your home";
	if (path_is_within(spec->workspace, spec->image) ||
	    path_is_within(spec->image, spec->workspace))
		return "and the workspace are one in the other";
	return NULL;
}

static int check_image(const struct spec *spec, struct atoll_error *err)
{
	const char *why = why_no_image(spec);

	if (why)
		return error_set(err, ATOLL_FAULT_POLICY, 0, "%s: the image's root '%s' %s",
				 spec->image_origin, shown_path(spec->image), why);
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (origin_is_default(rule->origin) || rule->access == SPEC_PROTECT)
			continue;
		if (rule->access == SPEC_WRITE && (path_is_within(spec->image, rule->path) ||
						   path_is_within(rule->path, spec->image)))
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "%s: the image '%s' (%s) could be written while it runs",
					 rule->origin, shown_path(spec->image), spec->image_origin);
		/* What is seen elsewhere is not where the image's directory is. */
		if (rule->at ||
		    (spec_is_moved(spec) && path_is_within(rule->path, spec->workspace)))
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(image_trees); j++)
			if (path_is_within(rule->path, image_trees[j]))
				return error_set(err, ATOLL_FAULT_POLICY, 0,
						 "%s: '%s' is the image's here (%s), and no line "
						 "about the host's reaches it",
						 rule->origin, shown_path(rule->path),
						 spec->image_origin);
	}
	return 0;
}

int inside_check(const struct spec *spec, struct atoll_error *err)
{
	int r = spec->image ? check_image(spec, err) : 0;

	if (r < 0)
		return r;

	if (spec_is_moved(spec) && spec->workspace_mode != SPEC_WORKSPACE_LAYER)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the workspace is seen at another place only in mode layer; "
				 "in mode %s (%s) names inside are those of the host",
				 spec->workspace_at_origin, spec_mode_word(spec->workspace_mode),
				 spec->workspace_mode_origin);
	if (spec_is_moved(spec))
		r = check_place(spec, spec->workspace_at, true, "the workspace",
				spec->workspace_at_origin, err);
	if (r == 0 && spec_is_moved(spec))
		r = check_parts(spec, err);
	return r < 0 ? r : check_homes(spec, err);
}

/* ---- told ---- */

const char *inside_shown(const struct spec *spec, const char *path, char *ret)
{
	return spec_inside_path(spec, path, ret, INSIDE_PATH_MAX);
}

static void write_users(const struct spec *spec, struct json *json)
{
	json_open(json, "users", '[');
	for (size_t i = 0; i < spec->n_users; i++) {
		json_open(json, NULL, '{');
		json_uint(json, "gid", spec->users[i].gid);
		json_str(json, "home", spec->users[i].home);
		json_str(json, "name", spec->users[i].name);
		json_uint(json, "uid", spec->users[i].uid);
		json_close(json, '}');
	}
	json_close(json, ']');
}

/* Written only where they say something: who says nothing keeps the digest that he has. */
void inside_canonical_guest(const struct spec *spec, struct json *json)
{
	if (spec->has_guest)
		json_str(json, "guest", "on");
}

void inside_canonical_image(const struct spec *spec, struct json *json)
{
	if (spec->image)
		json_str(json, "image", spec->image);
}

void inside_canonical_users(const struct spec *spec, struct json *json)
{
	if (spec->n_users)
		write_users(spec, json);
}

void inside_canonical_at(const struct spec *spec, struct json *json)
{
	if (spec_is_moved(spec))
		json_str(json, "workspace_at", spec->workspace_at);
}

void inside_explain_json(const struct spec *spec, struct json *json)
{
	inside_canonical_users(spec, json);
	inside_canonical_guest(spec, json);
}

void inside_explain_text(const struct spec *spec, struct buf *out)
{
	if (!spec->n_users)
		return;
	buf_add_str(out, "\nUsers here (a host without privilege has one id for all of them; `id` "
			 "tells):\n\n");
	for (size_t i = 0; i < spec->n_users; i++)
		buf_addf(out, "- `%s`, uid %u, at `%s`\n", spec->users[i].name, spec->users[i].uid,
			 spec->users[i].home);
}
