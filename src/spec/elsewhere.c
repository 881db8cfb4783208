/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants that are seen at another place
 *
 * A directory or file of the host's, to be read or written, under another name inside
 * (`{path: /srv/data, at: /data}`). All lines stay about the host's names, so that whatever hides
 * or protects something in it holds there as well; only who looks from inside has to translate.
 *
 * That is sound as long as a path on either side means one thing. So nothing else may be shown at,
 * above or beneath the place inside; and on the host a grant that is seen elsewhere has no other
 * grant in it and lies in none, but for the system's directories that everybody may read.
 */
#include "base/path.h"
#include "spec/spec-inner.h"

#include <limits.h>
#include <stdio.h>

/* ---- as written ---- */

/* What is inside comes first: it has no equals sign, and the host's name may have any. */
static int add_at(struct spec *spec, enum spec_access access, const char *text, const char *origin,
		  struct atoll_error *err)
{
	const char *equals = strchr(text, '=');
	cleanup_free char *at = NULL;

	if (text[0] != '/' || !equals || !equals[1])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is not INSIDE=PATH: where it is seen, an absolute path, "
				 "and what of the host is",
				 origin, shown_path(text));
	at = strndup(text, (size_t)(equals - text));
	if (!at)
		return error_oom(err);
	return spec_put_rule(spec, access, equals + 1, at, SPEC_FROM_FLAG, origin, err);
}

int spec_add_read_at(struct spec *spec, const char *text, const char *origin,
		     struct atoll_error *err)
{
	return add_at(spec, SPEC_READ, text, origin, err);
}

int spec_add_write_at(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err)
{
	return add_at(spec, SPEC_WRITE, text, origin, err);
}

void elsewhere_settle(struct spec *spec)
{
	spec->n_moved = 0;
	for (size_t i = 0; i < spec->n_rules; i++) {
		struct spec_rule *rule = &spec->rules[i];

		if (rule->at && streq(rule->at, rule->path)) {
			free(rule->at);
			rule->at = NULL;
		}
		spec->n_moved += rule->at != NULL;
	}
}

/* ---- from one side to the other ---- */

static bool put_moved(const char *path, const char *from, const char *to, char *ret, size_t size)
{
	int length = snprintf(ret, size, "%s%s", to, path + strlen(from));

	return length >= 0 && (size_t)length < size;
}

/* Is a grant that is seen elsewhere also part of what is shown at its own place? */
static bool is_seen_twice(const struct spec *spec, const struct spec_rule *moved)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule_is_grant(rule) && !rule->at && path_is_within(moved->path, rule->path))
			return true;
	}
	return false;
}

bool spec_host_path(const struct spec *spec, const char *path, char *ret, size_t size)
{
	const bool is_moved = spec_is_moved(spec);

	if (is_moved && path_is_within(path, spec->workspace_at))
		return put_moved(path, spec->workspace_at, spec->workspace, ret, size);
	for (size_t i = 0; spec->n_moved && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->at && path_is_within(path, rule->at))
			return put_moved(path, rule->at, rule->path, ret, size);
	}
	/* What lies inside where something else is on the host is another thing, if anything. */
	if (is_moved && path_is_within(path, spec->workspace))
		return false;
	for (size_t i = 0; spec->n_moved && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->at && path_is_within(path, rule->path) && !is_seen_twice(spec, rule))
			return false;
	}
	return (size_t)snprintf(ret, size, "%s", path) < size;
}

const char *spec_inside_path(const struct spec *spec, const char *path, char *ret, size_t size)
{
	if (spec_is_moved(spec) && path_is_within(path, spec->workspace))
		return put_moved(path, spec->workspace, spec->workspace_at, ret, size) ? ret : path;
	for (size_t i = 0; spec->n_moved && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->at && path_is_within(path, rule->path))
			return put_moved(path, rule->path, rule->at, ret, size) ? ret : path;
	}
	return path;
}

const struct spec_rule *spec_rule_inside(const struct spec *spec, const char *path)
{
	char host[3 * PATH_MAX]; /* longer than a path and what stands before it */

	if (!spec_is_moved(spec) && !spec->n_moved)
		return spec_rule_for(spec, path);
	return spec_host_path(spec, path, host, sizeof host) ? spec_rule_for(spec, host) : NULL;
}

/* ---- is the place free? ---- */

static bool are_one_in_the_other(const char *a, const char *b)
{
	return path_is_within(a, b) || path_is_within(b, a);
}

static int refuse(const struct spec_rule *rule, struct atoll_error *err, const char *what,
		  const char *path, const char *origin)
{
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s: '%s' cannot be seen at '%s': %s '%s'%s%s%s; take a place like /data",
			 rule->origin, shown_path(rule->path), shown_path(rule->at), what,
			 shown_path(path), origin ? " (" : "", origin ? origin : "",
			 origin ? ")" : "");
}

/* What people live and work in. */
static int check_homes(const struct spec *spec, const struct spec_rule *rule,
		       struct atoll_error *err)
{
	if (are_one_in_the_other(rule->at, spec_at(spec)))
		return refuse(rule, err, "there is the workspace,", spec_at(spec),
			      spec_workspace_said(spec));
	if (!spec->n_users && path_is_within(spec->home, rule->at))
		return refuse(rule, err, "it would cover the home", spec->home, NULL);
	for (size_t i = 0; i < spec->n_users; i++)
		if (path_is_within(spec->users[i].home, rule->at))
			return refuse(rule, err, "it would cover the home", spec->users[i].home,
				      spec->users[i].origin);
	return 0;
}

static int check_others(const struct spec *spec, const struct spec_rule *rule,
			struct atoll_error *err)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *other = &spec->rules[i];

		if (other == rule)
			continue;
		if (rule_is_grant(other) && !streq(other->path, spec->workspace) &&
		    are_one_in_the_other(rule->at, elsewhere_place(other)))
			return refuse(rule, err, "there is shown, of the host,", other->path,
				      other->origin);
		if (other->access == SPEC_HIDE &&
		    (other->is_pattern ? place_match_depth(other->path, rule->at) > 0
				       : are_one_in_the_other(rule->at, other->path)))
			return refuse(rule, err, "nothing is to be seen of", other->path,
				      other->origin);
	}
	for (size_t i = 0; i < spec->n_sockets; i++)
		if (are_one_in_the_other(rule->at, spec->sockets[i].text))
			return refuse(rule, err, "there is the socket", spec->sockets[i].text,
				      spec->sockets[i].origin);
	return 0;
}

static int check_place(const struct spec *spec, const struct spec_rule *rule,
		       struct atoll_error *err)
{
	const char *why = inside_why_taken(rule->at);
	int r;

	if (why)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s: '%s' cannot be seen at '%s', which %s; take a place like "
				 "/data",
				 rule->origin, shown_path(rule->path), shown_path(rule->at), why);
	r = check_homes(spec, rule, err);
	return r < 0 ? r : check_others(spec, rule, err);
}

/* ---- does its name on the host mean one thing? ---- */

static int refuse_source(const struct spec_rule *rule, struct atoll_error *err, const char *other,
			 const char *origin)
{
	return error_set(
		err, ATOLL_FAULT_POLICY, 0,
		"%s: '%s' is seen at another place ('%s'), and so cannot be, hold or lie in "
		"'%s', which is granted by itself (%s)",
		rule->origin, shown_path(rule->path), shown_path(rule->at), shown_path(other),
		origin);
}

static int check_source(const struct spec *spec, const struct spec_rule *rule,
			struct atoll_error *err)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *other = &spec->rules[i];

		if (other == rule || !rule_is_grant(other) ||
		    !are_one_in_the_other(rule->path, other->path))
			continue;
		/* A part of what everybody may read is that, wherever else it is seen. */
		if (origin_is_default(other->origin) && !streq(other->path, spec->workspace) &&
		    !path_is_within(other->path, rule->path))
			continue;
		return refuse_source(rule, err, other->path, other->origin);
	}
	for (size_t i = 0; i < spec->n_sockets; i++)
		if (path_is_within(spec->sockets[i].text, rule->path))
			return refuse_source(rule, err, spec->sockets[i].text,
					     spec->sockets[i].origin);
	return 0;
}

int elsewhere_check(const struct spec *spec, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && spec->n_moved && i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (!rule->at)
			continue;
		r = check_place(spec, rule, err);
		if (r == 0)
			r = check_source(spec, rule, err);
	}
	return r;
}
