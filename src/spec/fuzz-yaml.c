/* SPDX-License-Identifier: Apache-2.0 */
/* A job file is strangers' bytes: whatever they are, there is a job or one line about why not. */
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct spec *spec)
{
	struct buf out = {.limit = 16 << 20};
	char digest[65];

	if (spec_canonical(spec, &out, NULL) < 0 || spec_digest(spec, digest, NULL) < 0)
		abort();
	buf_done(&out);
	if (spec_explain_json(spec, &out, NULL) < 0 || spec_explain_text(spec, &out, NULL) < 0)
		abort();
	buf_done(&out);
	free(spec_widens(spec));
	spec_rule_for(spec, "/home/user/project/src/.env");
	spec_is_protected(spec, "/home/user/project/src/.vscode/settings.json");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec *spec = spec_new("/home/user", "/home/user/project", NULL);
	struct atoll_error err = {0};
	char *argv[] = {(char *)"true", NULL};
	int r;

	if (!spec)
		return 0;
	r = spec_load(spec, "job.yaml", "/home/user/project/job.yaml", (const char *)data, size,
		      &err);
	if (r == 0 && !spec->command)
		r = spec_set_command(spec, argv, "--", &err);
	if (r == 0)
		r = spec_finish(spec, &err);
	if (r == 0)
		use(spec);
	else if (err.fault == ATOLL_FAULT_NONE || err.fault == ATOLL_FAULT_BUG ||
		 err.text[0] == '\0' || strpbrk(err.text, "\n\r\x1b"))
		abort();
	spec_free(spec);
	return 0;
}
