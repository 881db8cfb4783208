/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the ledger for the engine. Called before and after every change. */
#include "win/engine-ledger.h"

#include "base/error.h"
#include "base/scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int read_text(const struct win_calls *calls, char **ret, size_t *ret_size,
		     struct atoll_error *err)
{
	char *text = NULL;
	size_t size = 0;
	int r = calls->read_ledger(calls->context, &text, &size, err);

	if (r < 0)
		return r;
	if (!text) {
		text = strdup("");
		size = 0;
	}
	*ret = text;
	*ret_size = size;
	return text ? 0 : error_oom(err);
}

static int parse(struct engine_ledger *ledger, struct atoll_error *err)
{
	nt_ledger_done(&ledger->parsed);
	return nt_ledger_read(ledger->text, ledger->size, &ledger->parsed) < 0 ? error_oom(err) : 0;
}

int engine_ledger_open(const struct win_calls *calls, struct engine_ledger *ret,
		       struct atoll_error *err)
{
	int r;

	*ret = (struct engine_ledger){.calls = calls};
	r = read_text(calls, &ret->text, &ret->size, err);
	return r < 0 ? r : parse(ret, err);
}

void engine_ledger_close(struct engine_ledger *ledger)
{
	nt_ledger_done(&ledger->parsed);
	free(ledger->text);
	ledger->text = NULL;
}

/* A torn last line would swallow the next one: end it first. */
static int end_torn_line(struct engine_ledger *ledger, struct atoll_error *err)
{
	const struct win_calls *calls = ledger->calls;

	if (ledger->size == 0 || ledger->text[ledger->size - 1] == '\n')
		return 0;
	free(ledger->text);
	ledger->text = NULL;
	int r = calls->append_ledger(calls->context, "\n", err);

	return r < 0 ? r : read_text(calls, &ledger->text, &ledger->size, err);
}

int engine_ledger_add(struct engine_ledger *ledger, const char *kind, const char *a, const char *b,
		      const char *c, struct atoll_error *err)
{
	const char *const fields[] = {a, b, c, NULL};
	cleanup_free char *line = nt_ledger_line(kind, fields), *now = NULL;
	const struct win_calls *calls = ledger->calls;
	size_t size, length;
	int r = line ? end_torn_line(ledger, err) : error_oom(err);

	if (r == 0)
		r = calls->append_ledger(calls->context, line, err);
	if (r == 0)
		r = read_text(calls, &now, &size, err);
	if (r < 0)
		return r;
	length = strlen(line);
	if (size != ledger->size + length || memcmp(now, ledger->text, ledger->size) != 0 ||
	    memcmp(now + ledger->size, line, length) != 0)
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "ledger.read-back: the ledger is not what was written to it");
	free(ledger->text);
	ledger->text = take_ptr(now);
	ledger->size = size;
	return parse(ledger, err);
}

static unsigned next_number(const struct nt_ledger *ledger)
{
	unsigned next = 1;

	for (size_t i = 0; i < ledger->n_roots; i++)
		if (ledger->roots[i].number >= next)
			next = ledger->roots[i].number + 1;
	return next;
}

static bool is_all_zero(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i])
			return false;
	return true;
}

int engine_ledger_sid(struct engine_ledger *ledger, const char *path, struct nt_sid *ret,
		      struct atoll_error *err)
{
	const struct nt_ledger_root *root = nt_ledger_find(&ledger->parsed, path);
	const struct win_calls *calls = ledger->calls;
	char number[16], text[NT_SID_TEXT_SIZE];
	uint8_t random[12] = {0};
	int r;

	if (root) {
		*ret = root->sid;
		return 0;
	}
	r = calls->random(calls->context, random, sizeof random, err);
	if (r < 0)
		return r;
	if (is_all_zero(random, sizeof random))
		return error_set(err, ATOLL_FAULT_HOST, EIO, "random: only zeros");
	*ret = nt_sid_from_random(random);
	snprintf(number, sizeof number, "%u", next_number(&ledger->parsed));
	nt_sid_text(ret, text);
	return engine_ledger_add(ledger, "root", number, text, path, err);
}

int engine_ledger_state(struct engine_ledger *ledger, const char *path, const char *state,
			struct atoll_error *err)
{
	const struct nt_ledger_root *root = nt_ledger_find(&ledger->parsed, path);
	char number[16];

	if (!root)
		return error_set(err, ATOLL_FAULT_BUG, ENOENT, "ledger: no root '%s'", path);
	snprintf(number, sizeof number, "%u", root->number);
	return engine_ledger_add(ledger, state, number, NULL, NULL, err);
}
