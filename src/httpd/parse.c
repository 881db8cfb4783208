/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of JSON that a client has sent: see parse.h
 *
 * Called by reply.c for bodies and by connect-call.c for messages.
 * 	parse_start()	a thread runs run_parse(); then call_done() calls `done`
 * 	parse_free()	a thread runs run_free(): a document of many values takes long to free
 */
#include "httpd/parse.h"

#include "base/scope.h"

#include <stdio.h>
#include <stdlib.h>

struct parse {
	struct work_item item;
	struct parse_request request;
	struct held held;
	bool outlives_done;
	json_t *body;
	char why[160];
	parse_done *done; /* NULL: the caller has left */
	void *data;
	struct loop_turn piece; /* calls `done`, which may take long for a long text */
};

/* Each value but the first one follows a comma, a colon or a bracket. */
static bool has_too_many(const char *text, size_t size)
{
	bool is_string = false;
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		if (is_string) {
			if (text[i] == '\\')
				i++;
			else if (text[i] == '"')
				is_string = false;
		} else if (text[i] == '"') {
			is_string = true;
		} else if (text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{') {
			if (++n > PARSE_VALUES)
				return true;
		}
	}
	return false;
}

json_t *parse_text(const char *text, size_t size, char why[160])
{
	json_error_t error;
	json_t *body;

	if (has_too_many(text, size)) {
		snprintf(why, 160, "it has more than %d values", PARSE_VALUES);
		return NULL;
	}
	body = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (!body)
		snprintf(why, 160, "line %d, column %d: %.100s", error.line, error.column,
			 error.text);
	return body;
}

/* ---- on threads ---- */

static void run_free(struct work_item *item)
{
	struct parse *parse = (struct parse *)item;

	json_decref(parse->body);
	parse->body = NULL;
}

static void on_freed(struct work_item *item)
{
	struct parse *parse = (struct parse *)item;

	/* The daemon stops before a thread has freed it. */
	json_decref(parse->body);
	free(parse);
}

void parse_free(struct parse *parse)
{
	if (!parse)
		return;
	parse->item.run = run_free;
	parse->item.done = on_freed;
	work_submit(daemon_work(parse->request.daemon), &parse->item, WORK_LATER);
}

static void run_parse(struct work_item *item)
{
	struct parse *parse = (struct parse *)item;

	parse->why[0] = '\0';
	parse->body = parse_text(parse->request.text + parse->request.from, parse->request.size,
				 parse->why);
}

static void call_done(struct loop_turn *piece)
{
	struct parse *parse = container_of(piece, struct parse, piece);
	parse_done *done = parse->done;

	parse->done = NULL;
	free(parse->request.text);
	parse->request.text = NULL;
	held_drop(&parse->held);
	if (done)
		done(parse, parse->body, parse->why, parse->data);
	if (!parse->outlives_done)
		parse_free(parse);
}

static void on_parsed(struct work_item *item)
{
	struct parse *parse = (struct parse *)item;

	if (parse->request.tenant && !work_is_closing(daemon_work(parse->request.daemon)))
		loop_queue(daemon_loop(parse->request.daemon), &parse->request.tenant->own.lane,
			   &parse->piece);
	else
		call_done(&parse->piece);
}

struct parse *parse_start(const struct parse_request *request, parse_done *done, void *data)
{
	struct parse *parse = calloc(1, sizeof *parse);

	if (!parse || !request->text || !held_set(&parse->held, request->tenant, request->size)) {
		free(parse);
		free(request->text);
		return NULL;
	}
	parse->request = *request;
	parse->piece.run = call_done;
	parse->done = done;
	parse->data = data;
	snprintf(parse->why, sizeof parse->why, "the daemon is stopping");
	parse->item =
		(struct work_item){.run = run_parse, .done = on_parsed, .owner = request->tenant};
	work_submit(daemon_work(request->daemon), &parse->item, WORK_NOW);
	return parse;
}

void parse_leave(struct parse *parse)
{
	parse->done = NULL;
}

void parse_keep(struct parse *parse)
{
	parse->outlives_done = true;
}
