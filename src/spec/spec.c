/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/spec.h"

#include "base/path.h"
#include "spec/network-inner.h"

#include <errno.h>
#include <limits.h>

#define RULES_MAX	2048
#define WORDS_MAX	512
#define DESCRIPTOR_MOST 1023

void *spec_grow(void *items, size_t n, size_t size)
{
	if (n & (n - 1))
		return items;
	return reallocarray(items, n ? 2 * n : 1, size);
}

int spec_set_text(char **slot, const char *text, struct atoll_error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_oom(err);
	free(*slot);
	*slot = copy;
	return 0;
}

static int set_plain_path(char **slot, const char *path, const char *what, struct atoll_error *err)
{
	int r;

	if (path[0] != '/')
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s '%s' is not an absolute path",
				 what, shown_path(path));
	r = spec_set_text(slot, path, err);
	if (r == 0)
		path_normalize(*slot);
	return r;
}

static int set_default_origins(struct spec *spec, struct atoll_error *err)
{
	char **slots[] = {&spec->workspace_origin,   &spec->workspace_mode_origin,
			  &spec->cwd_origin,	     &spec->root_origin,
			  &spec->checkpoints_origin, &spec->identity_origin,
			  &spec->descriptors_origin, &spec->record_origin,
			  &spec->output_origin,	     &spec->guest_origin};
	int r = 0;

	spec->workspace_mode = SPEC_WORKSPACE_PRESET;
	spec->record = SPEC_RECORD_FULL;
	spec_watch_init(&spec->watch);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(slots); i++)
		r = spec_set_text(slots[i], SPEC_ORIGIN_DEFAULT, err);
	for (size_t i = 0; r == 0 && i < SPEC_LIMIT_COUNT; i++) {
		spec->limits[i].value = spec_limits[i].preset;
		r = spec_set_text(&spec->limits[i].origin, SPEC_ORIGIN_DEFAULT, err);
	}
	return r;
}

struct spec *spec_new(const char *home, const char *caller, struct atoll_error *err)
{
	struct spec *spec = calloc(1, sizeof *spec);

	if (!spec) {
		error_oom(err);
		return NULL;
	}
	network_init(&spec->network);
	if (set_plain_path(&spec->home, home, "the home directory", err) < 0 ||
	    set_plain_path(&spec->caller, caller, "the current directory", err) < 0 ||
	    set_default_origins(spec, err) < 0) {
		spec_free(spec);
		return NULL;
	}
	return spec;
}

int spec_set_store(struct spec *spec, const char *path, struct atoll_error *err)
{
	return set_plain_path(&spec->store, path, "the store", err);
}

void spec_rule_done(struct spec_rule *rule)
{
	free(rule->path);
	free(rule->at);
	free(rule->origin);
	free(rule->reason);
}

static void free_command(char **command)
{
	for (size_t i = 0; command && command[i]; i++)
		free(command[i]);
	free(command);
}

static void free_words(struct spec_word *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(words[i].text);
		free(words[i].origin);
	}
	free(words);
}

static void free_variables(struct spec_variable *variables, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(variables[i].name);
		free(variables[i].value);
		free(variables[i].origin);
	}
	free(variables);
}

void spec_free(struct spec *spec)
{
	if (!spec)
		return;
	free_command(spec->command);
	for (size_t i = 0; i < spec->n_rules; i++)
		spec_rule_done(&spec->rules[i]);
	free(spec->rules);
	for (size_t i = 0; i < spec->n_users; i++)
		spec_user_done(&spec->users[i]);
	free(spec->users);
	free_words(spec->sockets, spec->n_sockets);
	free_words(spec->broad, spec->n_broad);
	free_words(spec->accepted, spec->n_accepted);
	free_variables(spec->variables, spec->n_variables);
	network_done(&spec->network);
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++)
		free(spec->limits[i].origin);
	free(spec->descriptors);
	free(spec->command_origin);
	free(spec->workspace);
	free(spec->workspace_origin);
	free(spec->workspace_mode_origin);
	free(spec->workspace_at);
	free(spec->workspace_at_origin);
	free(spec->guest_origin);
	free(spec->image);
	free(spec->image_origin);
	free(spec->root_origin);
	free(spec->checkpoints_origin);
	free(spec->cwd);
	free(spec->cwd_origin);
	free(spec->descriptors_origin);
	free(spec->identity_origin);
	free(spec->record_origin);
	free(spec->output_origin);
	spec_watch_done(&spec->watch);
	free(spec->home);
	free(spec->caller);
	free(spec->file);
	free(spec->store);
	free(spec);
}

static int append_word(struct spec_word **words, size_t *n, const char *text, const char *origin,
		       struct atoll_error *err)
{
	struct spec_word *grown, word = {0};

	if (*n == WORDS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d of them", origin,
				 WORDS_MAX);
	grown = spec_grow(*words, *n, sizeof **words);
	if (!grown)
		return error_oom(err);
	*words = grown;
	if (spec_set_text(&word.text, text, err) < 0 ||
	    spec_set_text(&word.origin, origin, err) < 0) {
		free(word.text);
		return -ENOMEM;
	}
	grown[(*n)++] = word;
	return 0;
}

int spec_append_rule(struct spec *spec, const struct spec_rule *rule, struct atoll_error *err)
{
	struct spec_rule *grown, copy = *rule;

	if (spec->n_rules >= RULES_MAX && !origin_is_default(rule->origin))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: more than %d lines about files; name the directories above",
				 rule->origin, RULES_MAX);
	grown = spec_grow(spec->rules, spec->n_rules, sizeof *spec->rules);
	if (!grown)
		return error_oom(err);
	spec->rules = grown;
	copy.path = copy.at = copy.origin = copy.reason = NULL;
	if (spec_set_text(&copy.path, rule->path, err) < 0 ||
	    (rule->at && spec_set_text(&copy.at, rule->at, err) < 0) ||
	    spec_set_text(&copy.origin, rule->origin, err) < 0) {
		spec_rule_done(&copy);
		return -ENOMEM;
	}
	grown[spec->n_rules++] = copy;
	return 0;
}

int spec_put_rule(struct spec *spec, enum spec_access access, const char *path, const char *at,
		  enum spec_source source, const char *origin, struct atoll_error *err)
{
	cleanup_free char *resolved = NULL, *place = NULL;
	struct spec_rule rule = {.access = access, .origin = (char *)origin};
	int r = at ? inside_put_path(&place, at, "a grant at", origin, err) : 0;

	if (r < 0)
		return r;
	if (access == SPEC_HIDE || access == SPEC_PROTECT)
		r = place_resolve_pattern(spec, path, source, origin, &resolved, &rule.is_pattern,
					  err);
	else
		r = place_resolve(spec, path, source, origin, &resolved, err);
	if (r < 0)
		return r;
	rule.path = resolved;
	rule.at = place;
	return spec_append_rule(spec, &rule, err);
}

int spec_put_workspace(struct spec *spec, const char *path, enum spec_source source,
		       const char *origin, struct atoll_error *err)
{
	cleanup_free char *resolved = NULL;
	int r = place_resolve(spec, path, source, origin, &resolved, err);

	if (r == 0)
		r = spec_set_text(&spec->workspace_origin, origin, err);
	if (r < 0)
		return r;
	free(spec->workspace);
	spec->workspace = take_ptr(resolved);
	return 0;
}

int spec_put_cwd(struct spec *spec, const char *path, enum spec_source source, const char *origin,
		 struct atoll_error *err)
{
	cleanup_free char *resolved = NULL;
	int r = place_resolve(spec, path, source, origin, &resolved, err);

	if (r == 0)
		r = spec_set_text(&spec->cwd_origin, origin, err);
	if (r < 0)
		return r;
	free(spec->cwd);
	spec->cwd = take_ptr(resolved);
	return 0;
}

int spec_put_socket(struct spec *spec, const char *path, enum spec_source source,
		    const char *origin, struct atoll_error *err)
{
	cleanup_free char *resolved = NULL;
	int r = place_resolve(spec, path, source, origin, &resolved, err);

	return r < 0 ? r : append_word(&spec->sockets, &spec->n_sockets, resolved, origin, err);
}

int spec_put_broad(struct spec *spec, const char *path, enum spec_source source, const char *origin,
		   struct atoll_error *err)
{
	cleanup_free char *resolved = NULL;
	int r;

	/* A pattern of hosts: no path can begin so. */
	if (path[0] == '*')
		r = network_broad_host(path, origin, &resolved, err);
	else
		r = place_resolve(spec, path, source, origin, &resolved, err);
	return r < 0 ? r : append_word(&spec->broad, &spec->n_broad, resolved, origin, err);
}

int spec_set_workspace(struct spec *spec, const char *path, const char *origin,
		       struct atoll_error *err)
{
	return spec_put_workspace(spec, path, SPEC_FROM_FLAG, origin, err);
}

int spec_set_cwd(struct spec *spec, const char *path, const char *origin, struct atoll_error *err)
{
	return spec_put_cwd(spec, path, SPEC_FROM_FLAG, origin, err);
}

int spec_add_rule(struct spec *spec, enum spec_access access, const char *path, const char *origin,
		  struct atoll_error *err)
{
	return spec_put_rule(spec, access, path, NULL, SPEC_FROM_FLAG, origin, err);
}

int spec_add_socket(struct spec *spec, const char *path, const char *origin,
		    struct atoll_error *err)
{
	return spec_put_socket(spec, path, SPEC_FROM_FLAG, origin, err);
}

int spec_add_broad(struct spec *spec, const char *path, const char *origin, struct atoll_error *err)
{
	return spec_put_broad(spec, path, SPEC_FROM_FLAG, origin, err);
}

int spec_set_limit(struct spec *spec, enum spec_limit_id id, const char *text, const char *origin,
		   struct atoll_error *err)
{
	uint64_t value;
	int r = spec_parse_limit(id, text, &value, err);

	if (r < 0)
		return error_context(err, r, "%s", origin);
	r = spec_set_text(&spec->limits[id].origin, origin, err);
	if (r == 0)
		spec->limits[id].value = value;
	return r;
}

int spec_add_descriptor(struct spec *spec, int fd, const char *origin, struct atoll_error *err)
{
	int *grown;

	if (fd < 3 || fd > DESCRIPTOR_MOST)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: descriptor %d: 3 to %d is allowed (0, 1 and 2 are passed anyway)",
			origin, fd, DESCRIPTOR_MOST);
	for (size_t i = 0; i < spec->n_descriptors; i++)
		if (spec->descriptors[i] == fd)
			return 0;
	if (spec->n_descriptors == SPEC_DESCRIPTORS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d descriptors",
				 origin, SPEC_DESCRIPTORS_MAX);
	grown = spec_grow(spec->descriptors, spec->n_descriptors, sizeof *grown);
	if (!grown)
		return error_oom(err);
	spec->descriptors = grown;
	grown[spec->n_descriptors++] = fd;
	return spec_set_text(&spec->descriptors_origin, origin, err);
}

int spec_add_accepted(struct spec *spec, const char *clause, const char *origin,
		      struct atoll_error *err)
{
	static const char *const clauses[] = {"memory",	   "cpu",      "pids",	  "disk",
					      "files",	   "network",  "protect", "hide",
					      "processes", "identity", NULL};

	for (size_t i = 0; clauses[i]; i++)
		if (streq(clause, clauses[i]))
			return append_word(&spec->accepted, &spec->n_accepted, clause, origin, err);
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: no clause '%s' that could be weaker; %s",
			 origin, shown(clause), words_hint(clause, clauses, (char[192]){0}, 192));
}
