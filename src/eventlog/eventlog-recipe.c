/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "eventlog/eventlog-inner.h"

#include <string.h>

/* What a job was made of, for receipts: recipe.c has its words, each ended by a NUL. */

/* All of it is one line of the log, where a byte may become six. Longer ones are not told, and then
 * there is no replay. */
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

void eventlog_recipe(struct eventlog *recorder, uint32_t step, const struct buf *recipe,
		     char *const *argv)
{
	const char *word = recipe->data, *previous = NULL;
	size_t size = recipe->used;
	unsigned n_redacted = 0;
	struct json *json;

	for (size_t i = 0; argv[i]; i++)
		size += strlen(argv[i]) + 1;
	if (!recorder || buf_error(recipe) < 0 || size > RECIPE_MAX)
		return;
	json = eventlog_begin(recorder, "recipe", 0, step);
	json_open(json, "words", '[');
	for (; word < recipe->data + recipe->used; previous = word, word += strlen(word) + 1)
		n_redacted += add_word(json, word, previous);
	json_close(json, ']');
	json_open(json, "argv", '[');
	for (size_t i = 0; argv[i]; i++)
		n_redacted += add_word(json, argv[i], i ? argv[i - 1] : NULL);
	json_close(json, ']');
	json_uint(json, "redacted", n_redacted);
	eventlog_commit(recorder);
}
