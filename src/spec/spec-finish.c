/* SPDX-License-Identifier: Apache-2.0 */
/* From what was said to a whole: fill in, merge, check. */
#include "base/path.h"
#include "spec/network-inner.h"

#include <errno.h>
#include <stdio.h>

#define VARIABLES_MAX	   1024
#define VARIABLES_SIZE_MAX ((size_t)1 << 20)

static int anchor_words(const struct spec *spec, struct spec_word *words, size_t n,
			struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (words[i].text[0] != '*') /* a pattern of hosts is no path */
			r = place_anchor(spec, &words[i].text, false, words[i].origin, err);
	return r;
}

static int anchor_paths(struct spec *spec, struct atoll_error *err)
{
	int r = 0;

	if (!spec->workspace)
		r = spec_set_text(&spec->workspace, spec->caller, err);
	if (r == 0 && !spec->cwd)
		r = spec_set_text(&spec->cwd, spec->workspace, err);
	if (r == 0)
		r = place_anchor(spec, &spec->cwd, false, spec->cwd_origin, err);
	if (r == 0)
		r = inside_place_cwd(spec, err);
	for (size_t i = 0; r == 0 && i < spec->n_rules; i++)
		r = place_anchor(spec, &spec->rules[i].path, spec->rules[i].is_pattern,
				 spec->rules[i].origin, err);
	if (r == 0)
		r = anchor_words(spec, spec->sockets, spec->n_sockets, err);
	if (r == 0)
		r = anchor_words(spec, spec->broad, spec->n_broad, err);
	return r;
}

static int add_workspace_rule(struct spec *spec, struct atoll_error *err)
{
	bool is_read_only = spec->workspace_mode == SPEC_WORKSPACE_READ_ONLY;
	struct spec_rule rule = {.access = is_read_only ? SPEC_READ : SPEC_WRITE,
				 .path = spec->workspace,
				 .origin = spec->workspace_origin};

	return spec_append_rule(spec, &rule, err);
}

/* Whoever can change the job file from inside gives the next run what it likes. */
static int protect_job_file(struct spec *spec, struct atoll_error *err)
{
	const struct spec_rule *root = spec->file ? spec_rule_for(spec, spec->file) : NULL;
	struct spec_rule rule = {.access = SPEC_PROTECT,
				 .is_optional = true,
				 .path = spec->file,
				 .origin = (char *)SPEC_ORIGIN_DEFAULT};

	if (!root || root->access != SPEC_WRITE)
		return 0;
	return spec_append_rule(spec, &rule, err);
}

int spec_protect_late(struct spec *spec, const char *path, bool is_pattern, const char *origin,
		      struct atoll_error *err)
{
	struct spec_rule rule = {.access = SPEC_PROTECT,
				 .is_optional = true,
				 .is_pattern = is_pattern,
				 .path = (char *)path,
				 .origin = (char *)(origin ? origin : SPEC_ORIGIN_DEFAULT)};
	int r = spec_append_rule(spec, &rule, err);

	if (r == 0 && asprintf(&spec->rules[spec->n_rules - 1].reason, "protect: %s", path) < 0)
		return error_oom(err);
	return r;
}

/*
 * Is `rule` said already by `other`, or a default that `other` takes the place of? Defaults are the
 * optional ones. A hidden place does not come to light because somebody stands in it: at the
 * workspace's own path a default `hide` stays, and check_workspace() refuses.
 */
static bool is_superseded(const struct spec *spec, const struct spec_rule *rule,
			  const struct spec_rule *other)
{
	/* No two defaults speak about one place, and there are many of them. */
	if (rule->is_optional && other->is_optional)
		return false;
	if (rule->is_pattern != other->is_pattern || !streq(rule->path, other->path))
		return false;
	/* Twice at two places is no repetition, and what is seen elsewhere leaves a default where
	 * it is; elsewhere_check() refuses both. */
	if (rule_is_grant(rule) && !streq(elsewhere_place(rule), elsewhere_place(other)))
		return false;
	if (rule->access == other->access)
		return true;
	if (!rule->is_optional || other->is_optional || other->access == SPEC_PROTECT)
		return false;
	return rule->access != SPEC_HIDE || !streq(rule->path, spec->workspace);
}

/* What was said comes first in the list and the defaults behind it, so that looking at the rules
 * before is enough. */
static void merge_rules(struct spec *spec)
{
	size_t kept = 0;

	for (size_t i = 0; i < spec->n_rules; i++) {
		struct spec_rule rule = spec->rules[i];
		bool is_kept = true;

		for (size_t j = 0; is_kept && j < kept; j++)
			is_kept = !is_superseded(spec, &rule, &spec->rules[j]);
		if (is_kept)
			spec->rules[kept++] = rule;
		else
			spec_rule_done(&rule);
	}
	spec->n_rules = kept;
}

static void merge_variables(struct spec *spec)
{
	size_t kept = 0;

	for (size_t i = 0; i < spec->n_variables; i++) {
		struct spec_variable variable = spec->variables[i];
		bool is_last = true;

		for (size_t j = i + 1; is_last && j < spec->n_variables; j++)
			is_last = !streq(variable.name, spec->variables[j].name);
		if (is_last) {
			spec->variables[kept++] = variable;
			continue;
		}
		free(variable.name);
		free(variable.value);
		free(variable.origin);
	}
	spec->n_variables = kept;
}

int spec_fill(struct spec *spec, struct atoll_error *err)
{
	int r = anchor_paths(spec, err);

	if (r == 0)
		r = add_workspace_rule(spec, err);
	if (r == 0)
		r = defaults_add(spec, err);
	if (r < 0)
		return r;
	merge_rules(spec);
	elsewhere_settle(spec);
	merge_variables(spec);
	return protect_job_file(spec, err);
}

static int check_workspace(const struct spec *spec, struct atoll_error *err)
{
	const char *path = spec->workspace;

	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access != SPEC_HIDE)
			continue;
		if (rule->is_pattern ? place_match_depth(rule->path, path) > 0
				     : path_is_within(path, rule->path))
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s: the workspace '%s' is hidden by '%s' (%s); take another "
				"directory, or that line away",
				spec_workspace_said(spec), shown_path(path), shown_path(rule->path),
				rule->origin);
	}
	if (!path_is_within(spec->cwd, spec_at(spec)))
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: the command would start in '%s', which is not in the workspace "
			"'%s'; name a directory beneath it",
			spec->cwd_origin, shown_path(spec->cwd), shown_path(spec_at(spec)));
	return 0;
}

static int check_variables(const struct spec *spec, struct atoll_error *err)
{
	size_t total = 0;

	if (spec->n_variables > VARIABLES_MAX)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0, "%s: %zu variables; at most %d are allowed",
			spec->variables[VARIABLES_MAX].origin, spec->n_variables, VARIABLES_MAX);
	for (size_t i = 0; i < spec->n_variables; i++) {
		const struct spec_variable *variable = &spec->variables[i];

		total += strlen(variable->name) + 2;
		total += variable->value ? strlen(variable->value) : 0;
		if (total > VARIABLES_SIZE_MAX)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: with '%s' the variables are larger than 1 MiB; hand "
					 "such data over in a file",
					 variable->origin, shown(variable->name));
	}
	return 0;
}

static int write_reasons(struct spec *spec, struct atoll_error *err)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_PROTECT &&
		    asprintf(&rule->reason, "protect: %s", shown_path(rule->path)) < 0) {
			rule->reason = NULL;
			return error_oom(err);
		}
	}
	return 0;
}

int spec_finish(struct spec *spec, struct atoll_error *err)
{
	int r;

	if (spec->is_finished)
		return error_set(err, ATOLL_FAULT_BUG, 0, "the job is finished already");
	if (!spec->command)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"no command; put it behind --, or write 'command:' in the job file");
	r = spec_fill(spec, err);
	if (r == 0)
		r = broad_check(spec, err);
	if (r == 0)
		r = check_workspace(spec, err);
	if (r == 0)
		r = inside_check(spec, err);
	if (r == 0)
		r = elsewhere_check(spec, err);
	if (r == 0)
		r = check_variables(spec, err);
	if (r == 0)
		r = network_finish(spec, err);
	if (r == 0)
		r = write_reasons(spec, err);
	if (r == 0)
		spec->is_finished = true;
	return r;
}
