/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-recipe.h"

#include "base/scope.h"
#include "eventlog/eventlog-line.h"

#include <string.h>

/* The recipe is one line of the log, where a byte may become six (\\u0001). A longer recipe is not
 * written, and `atoll replay` refuses that run. */
#define RECIPE_MAX (150 << 10)

static unsigned add_word(struct json *json, const char *word, const char *previous)
{
	cleanup_buf struct buf out = BUF_INIT((size_t)4 << 20);
	const unsigned n = audit_redact(word, strlen(word), previous, &out);

	if (buf_error(&out) < 0) {
		json_str(json, NULL, "[redacted]");
		return 1;
	}
	json_strn(json, NULL, out.data ? out.data : "", out.used);
	return n;
}

void eventlog_recipe(struct eventlog *eventlog, uint32_t step, const struct buf *recipe,
		     char *const *argv)
{
	const char *word = recipe->data, *previous = NULL;
	size_t size = recipe->used;
	unsigned n_redacted = 0;
	struct json *json;

	for (size_t i = 0; argv[i]; i++)
		size += strlen(argv[i]) + 1;
	if (!eventlog || buf_error(recipe) < 0 || size > RECIPE_MAX)
		return;
	json = eventlog_begin(eventlog, "recipe", 0, step);
	json_open(json, "words", '[');
	for (; word < recipe->data + recipe->used; previous = word, word += strlen(word) + 1)
		n_redacted += add_word(json, word, previous);
	json_close(json, ']');
	json_open(json, "argv", '[');
	for (size_t i = 0; argv[i]; i++)
		n_redacted += add_word(json, argv[i], i ? argv[i - 1] : NULL);
	json_close(json, ']');
	json_uint(json, "redacted", n_redacted);
	eventlog_commit(eventlog);
}
