/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a job that are plain words: the command, the variables, and choices from a list. */
#include "spec/spec-inner.h"

#include <errno.h>
#include <stdio.h>

#define COMMAND_WORDS_MAX 4096
#define COMMAND_WORD_MAX  ((size_t)128 << 10)
#define COMMAND_MAX	  ((size_t)1 << 20)
#define VARIABLES_MAX	  4096 /* lines; spec_finish() checks how many names they make */

const char *words_join(const char *const *words, char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; words[i] && used < size; i++) {
		const char *comma = i == 0 ? "" : words[i + 1] ? ", " : " or ";

		used += (size_t)snprintf(ret + used, size - used, "%s%s", comma, words[i]);
	}
	return ret;
}

const char *words_hint(const char *typed, const char *const *words, char *ret, size_t size)
{
	const char *near = str_nearest(typed, words);
	char joined[160];

	if (near)
		snprintf(ret, size, "did you mean '%s'?", near);
	else
		snprintf(ret, size, "write one of %s", words_join(words, joined, sizeof joined));
	return ret;
}

static int check_command(char *const *argv, const char *origin, struct atoll_error *err)
{
	size_t total = 0, n = 0;

	if (!argv[0] || argv[0][0] == '\0')
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the command is empty; name a program", origin);
	for (; argv[n]; n++) {
		size_t size = strlen(argv[n]) + 1;

		if (size > COMMAND_WORD_MAX)
			return error_set(
				err, ATOLL_FAULT_REQUEST, 0,
				"%s: word %zu of the command, '%s', is longer than 128 KiB; "
				"hand such data over in a file",
				origin, n + 1, shown(argv[n]));
		total += size;
	}
	if (n > COMMAND_WORDS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the command has %zu words; at most %d are allowed", origin, n,
				 COMMAND_WORDS_MAX);
	if (total > COMMAND_MAX)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: the command is longer than 1 MiB; hand such data over in a file",
			origin);
	return 0;
}

int spec_set_command(struct spec *spec, char *const *argv, const char *origin,
		     struct atoll_error *err)
{
	char **copy;
	size_t n = 0;
	int r = check_command(argv, origin, err);

	if (r == 0)
		r = spec_set_text(&spec->command_origin, origin, err);
	if (r < 0)
		return r;
	while (argv[n])
		n++;
	copy = calloc(n + 1, sizeof *copy);
	if (!copy)
		return error_oom(err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = spec_set_text(&copy[i], argv[i], err);

	/* Swapped even if a copy failed: then spec_free() finds the half-built one. */
	for (size_t i = 0; spec->command && spec->command[i]; i++)
		free(spec->command[i]);
	free(spec->command);
	spec->command = copy;
	return r;
}

/* The place of `word` in the list, or an error that names the list. */
static int choose(const char *word, const char *const *words, const char *what, const char *origin,
		  struct atoll_error *err)
{
	for (int i = 0; words[i]; i++)
		if (streq(word, words[i]))
			return i;
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: no %s '%s'; %s", origin, what,
			 shown(word), words_hint(word, words, (char[192]){0}, 192));
}

static const char *const workspace_modes[] = {
	[SPEC_WORKSPACE_DIRECT] = "direct",
	[SPEC_WORKSPACE_READ_ONLY] = "read-only",
	[SPEC_WORKSPACE_LAYER] = "layer",
	NULL,
};

const char *spec_mode_word(enum spec_workspace_mode mode)
{
	return workspace_modes[mode];
}

int spec_set_workspace_mode(struct spec *spec, const char *mode, const char *origin,
			    struct atoll_error *err)
{
	int chosen = choose(mode, workspace_modes, "workspace mode", origin, err);

	if (chosen < 0)
		return chosen;
	spec->workspace_mode = (enum spec_workspace_mode)chosen;
	return spec_set_text(&spec->workspace_mode_origin, origin, err);
}

int spec_set_root(struct spec *spec, const char *word, const char *origin, struct atoll_error *err)
{
	static const char *const ways[] = {"read-only", "layer", NULL};
	int chosen = choose(word, ways, "way to have the root", origin, err);

	if (chosen < 0)
		return chosen;
	spec->root_is_layer = chosen == 1;
	return spec_set_text(&spec->root_origin, origin, err);
}

int spec_set_checkpoints(struct spec *spec, const char *word, const char *origin,
			 struct atoll_error *err)
{
	static const char *const times[] = {"manual", "every-step", NULL};
	int chosen = choose(word, times, "time for checkpoints", origin, err);

	if (chosen < 0)
		return chosen;
	spec->checkpoints_every_step = chosen == 1;
	return spec_set_text(&spec->checkpoints_origin, origin, err);
}

static const char *const records[] = {
	[SPEC_RECORD_OFF] = "off",
	[SPEC_RECORD_STEPS] = "steps",
	[SPEC_RECORD_FULL] = "full",
	NULL,
};

const char *spec_record_word(enum spec_record record)
{
	return records[record];
}

int spec_set_record(struct spec *spec, const char *word, const char *origin,
		    struct atoll_error *err)
{
	int chosen = choose(word, records, "record", origin, err);

	if (chosen < 0)
		return chosen;
	spec->record = (enum spec_record)chosen;
	return spec_set_text(&spec->record_origin, origin, err);
}

int spec_set_kept_output(struct spec *spec, const char *word, const char *origin,
			 struct atoll_error *err)
{
	static const char *const ways[] = {"hash", "keep", NULL};
	int chosen = choose(word, ways, "way to record output", origin, err);

	if (chosen < 0)
		return chosen;
	spec->keeps_output = chosen == 1;
	return spec_set_text(&spec->output_origin, origin, err);
}

int spec_set_identity(struct spec *spec, const char *word, const char *origin,
		      struct atoll_error *err)
{
	static const char *const identities[] = {"offline", "online", NULL};
	int chosen = choose(word, identities, "identity", origin, err);

	if (chosen < 0)
		return chosen;
	spec->identity = (enum spec_identity)chosen;
	return spec_set_text(&spec->identity_origin, origin, err);
}

static bool is_variable_name(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
				      "0123456789";

	return name[0] && !(name[0] >= '0' && name[0] <= '9') &&
	       name[strspn(name, letters)] == '\0';
}

/* What the caller's own programs obey must not reach the command by accident; a value that
 * somebody wrote out for this job is no accident. */
static const char *why_not_passed(const char *name)
{
	if (starts_with(name, "LD_"))
		return "it makes the loader take the caller's libraries";
	if (streq(name, "BASH_ENV"))
		return "it names a script that every bash runs";
	if (starts_with(name, "GIT_CONFIG"))
		return "it can make git run the caller's programs";
	return NULL;
}

int words_check_variable(const char *name, const char *value, const char *origin,
			 struct atoll_error *err)
{
	const char *why;

	if (!is_variable_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no name for a variable; letters, digits and _ are "
				 "allowed, and no digit in front",
				 origin, shown(name));
	if (starts_with(name, "ATOLL_"))
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"%s: variable '%s': names with ATOLL_ are atoll's own; take another",
			origin, shown(name));
	why = value ? NULL : why_not_passed(name);
	if (why)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s: variable '%s' cannot be passed from the caller, because %s; "
				 "set a value instead if the command needs one",
				 origin, shown(name), why);
	return 0;
}

int spec_put_variable(struct spec *spec, const char *name, const char *value, const char *origin,
		      struct atoll_error *err)
{
	struct spec_variable *grown, *added;
	size_t n = spec->n_variables;
	int r = words_check_variable(name, value, origin, err);

	if (r < 0)
		return r;
	if (n == VARIABLES_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: too many variables", origin);
	if ((n & (n - 1)) == 0) {
		grown = reallocarray(spec->variables, n ? 2 * n : 1, sizeof *grown);
		if (!grown)
			return error_oom(err);
		spec->variables = grown;
	}
	spec->digest[0] = '\0'; /* a step of a sandbox has some of its own */
	/* Counted at once, so that spec_free() finds it even half-built. */
	added = &spec->variables[spec->n_variables++];
	*added = (struct spec_variable){0};
	r = spec_set_text(&added->name, name, err);
	if (r == 0 && value)
		r = spec_set_text(&added->value, value, err);
	if (r == 0)
		r = spec_set_text(&added->origin, origin, err);
	return r;
}

int spec_add_variable(struct spec *spec, const char *assignment, const char *origin,
		      struct atoll_error *err)
{
	const char *equals = strchr(assignment, '=');
	char *name;
	int r;

	if (!equals)
		return spec_put_variable(spec, assignment, NULL, origin, err);
	name = strndup(assignment, (size_t)(equals - assignment));
	if (!name)
		return error_oom(err);
	r = spec_put_variable(spec, name, equals + 1, origin, err);
	free(name);
	return r;
}
