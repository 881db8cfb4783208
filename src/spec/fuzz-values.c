/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses what the rest is: a limit, a path of some kind, or a variable. */
#include "base/error.h"
#include "base/path.h"
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_limit(enum spec_limit_id id, const char *text)
{
	uint64_t value = 0;
	char shown[64];

	if (spec_parse_limit(id, text, &value, NULL) < 0)
		return;
	if (value != SPEC_UNLIMITED &&
	    (value < spec_limits[id].least || value > spec_limits[id].most))
		abort();
	spec_format_limit(id, value, shown, sizeof shown);
}

/* After spec_finish() every path is plain, whatever was written. */
static void check_paths(const struct spec *spec)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		char *plain = strdup(spec->rules[i].path);

		if (!plain)
			return;
		path_normalize(plain);
		if (strcmp(plain, spec->rules[i].path) != 0)
			abort();
		free(plain);
	}
	spec_rule_for(spec, "/home/user/project/a/b/c");
}

static void try_flag(unsigned which, const char *text)
{
	struct spec *spec = spec_new("/home/user", "/home/user/[p]*", NULL);
	char *argv[] = {(char *)"true", NULL};
	int r = 0;

	if (!spec)
		return;
	switch (which) {
	case 0 ... 3:
		r = spec_add_rule(spec, (enum spec_access)which, text, "--rule", NULL);
		break;
	case 4:
		r = spec_set_workspace(spec, text, "--workspace", NULL);
		break;
	case 5:
		r = spec_add_variable(spec, text, "--env", NULL);
		break;
	default:
		r = spec_set_cwd(spec, text, "--chdir", NULL);
		break;
	}
	if (r == 0 && spec_set_command(spec, argv, "--", NULL) == 0 && spec_finish(spec, NULL) == 0)
		check_paths(spec);
	spec_free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	if (data[0] % 16 < SPEC_LIMIT_COUNT)
		try_limit((enum spec_limit_id)(data[0] % 16), text);
	else
		try_flag(data[0] % 16 - SPEC_LIMIT_COUNT, text);
	free(text);
	return 0;
}
