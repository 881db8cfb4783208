/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "layer/layer.h"

#include <stdlib.h>
#include <string.h>

/*
 * What a contract says about places in the workspace, kept for whoever applies
 *
 * A command that removes a directory removes what is hidden from it in there as well, as far as its
 * layer says, and cannot have meant that. So a record's keys "hide", "protect" and "obeyed" (what
 * the host's own settings lead to) have the paths and patterns of these rules, a line each, and
 * what they match is marked.
 */

#define RULES_MAX ((size_t)1 << 20)

/* Can it match something in there? */
static bool may_be_within(const char *pattern, const char *workspace)
{
	cleanup_free char *literal = NULL;
	const char *above;

	if (!path_is_pattern(pattern))
		return path_is_within(pattern, workspace);
	literal = strndup(pattern, path_literal_length(pattern));
	above = literal && literal[0] ? literal : "/";
	return path_is_within(above, workspace) || path_is_within(workspace, above);
}

void layer_rule_fold(char *path)
{
	for (; *path; path++)
		if (*path == '\n')
			*path = '\001';
}

int layer_record_add_rule(struct layer_record *record, const char *key, const char *pattern,
			  struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	cleanup_free char *line = strdup(pattern);
	const char *old = layer_record_get(record, key);

	if (!may_be_within(pattern, record->info.workspace))
		return 0;
	if (!line)
		return error_oom(err);
	layer_rule_fold(line);
	if (old)
		buf_addf(&text, "%s\n", old);
	buf_add_str(&text, line);
	if (buf_error(&text) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -buf_error(&text),
				 "too many rules about the workspace");
	return layer_record_set(record, key, text.data, err);
}
