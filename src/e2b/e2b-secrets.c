/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of a tenant: stored, listed without their values, removed
 *
 * "${e2b.secrets.NAME}" in the value of a header rule is replaced by the secret; see box/secret.h.
 */
#include "e2b/e2b-secrets.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-list.h"
#include "e2b/e2b-wait.h"

#include <errno.h>
#include <stdlib.h>

#define BODY_MAX     (64U << 10)
#define ANSWER_MAX   (4U << 20)
#define METADATA_MAX 8192
#define ENTRIES_MAX  32
#define KEY_MAX	     128
#define TEXT_MAX     1024

static void write_secret(struct json *json, const struct secret_info *secret)
{
	char time[32];

	json_open(json, NULL, '{');
	json_str(json, "secretID", secret->id);
	json_str(json, "name", secret->name);
	json_uint(json, "currentVersion", secret->version);
	json_raw(json, "metadata", secret->metadata);
	api_time(secret->made_ms, time);
	json_str(json, "createdAt", time);
	api_time(secret->changed_ms, time);
	json_str(json, "updatedAt", time);
	json_close(json, '}');
}

static void answer_secret(struct api_call *call, unsigned status, const struct secret_info *secret)
{
	cleanup_buf struct buf out = BUF_INIT(64 << 10);
	struct json json = {.out = &out};

	write_secret(&json, secret);
	api_answer(call, status, &out);
}

static void finish(struct api_call *call, unsigned status, const struct secret_info *secret,
		   const struct atoll_error *err)
{
	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE)
		api_fail(call, err);
	else if (secret)
		answer_secret(call, status, secret);
	else
		api_answer_empty(call, 204);
}

static void on_created(const struct secret_info *secret, const struct atoll_error *err, void *data)
{
	finish(e2b_wait_end(data), 201, secret, err);
}

static void on_changed(const struct secret_info *secret, const struct atoll_error *err, void *data)
{
	finish(e2b_wait_end(data), 200, secret, err);
}

/* An object of strings, with a limited number of members. */
static bool is_metadata(json_t *metadata)
{
	const char *name;
	json_t *value;

	if (!json_is_object(metadata) || json_object_size(metadata) > ENTRIES_MAX)
		return false;
	json_object_foreach(metadata, name, value)
	{
		if (strlen(name) > KEY_MAX || !json_is_string(value) ||
		    json_string_length(value) > TEXT_MAX)
			return false;
	}
	return true;
}

static void put(struct api_call *call, json_t *body, const char *name, enum secret_how how,
		secret_done *done)
{
	json_t *metadata = json_object_get(body, "metadata");
	bool has_metadata = metadata && !json_is_null(metadata);
	cleanup_free char *text = has_metadata ? json_dumps(metadata, JSON_COMPACT) : NULL;
	struct secret_wish wish = {.name = name,
				   .value = json_string_value(json_object_get(body, "value")),
				   .metadata = text,
				   .how = how};
	struct e2b_wait *wait;

	if (!name || !wish.value) {
		api_refuse(call, 400, "%s: is missing, or no text", name ? "value" : "name");
		return;
	}
	if (has_metadata && (!is_metadata(metadata) || !text || strlen(text) > METADATA_MAX)) {
		api_refuse(call, 400,
			   "metadata: at most %d texts of %d bytes by names of %d, and %d in all",
			   ENTRIES_MAX, TEXT_MAX, KEY_MAX, METADATA_MAX);
		return;
	}
	wait = e2b_wait_new(call);
	if (wait)
		secret_put(call->tenant, &wish, done, wait);
}

static void read_new(struct api_call *call, json_t *body)
{
	put(call, body, json_string_value(json_object_get(body, "name")), SECRET_NEW, on_created);
}

static void read_update(struct api_call *call, json_t *body)
{
	put(call, body, api_parameter(call, 0), SECRET_OLD, on_changed);
}

static void create(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_new);
}

static void update(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_update);
}

static void get(struct api_call *call)
{
	struct secret_info secret;

	if (secret_find(call->tenant, api_parameter(call, 0), &secret))
		answer_secret(call, 200, &secret);
	else
		api_refuse(call, 404, "secret '%.64s' not found", api_parameter(call, 0));
}

static void delete (struct api_call *call)
{
	struct e2b_wait *wait = e2b_wait_new(call);

	if (wait)
		secret_remove(call->tenant, api_parameter(call, 0), on_changed, wait);
}

/* Sorted by name; the token of a page is the last name of the page before. */
static void list(struct api_call *call)
{
	const char *token = exchange_query(call->exchange, "nextToken");
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {.out = &out};
	struct secret_info secret, next;
	size_t limit, n = 0;

	if (!e2b_read_limit(call, &limit))
		return;
	while (token && *token && secret_get(call->tenant, n, &secret) &&
	       strcmp(secret.name, token) <= 0)
		n++;
	json_open(&json, NULL, '[');
	for (size_t end = n + limit; n < end && secret_get(call->tenant, n, &secret); n++) {
		write_secret(&json, &secret);
		if (n + 1 == end && secret_get(call->tenant, end, &next))
			exchange_add(call->exchange, "X-Next-Token", secret.name);
	}
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

const struct api_route e2b_secret_routes[] = {
	{"POST", "/secrets", create},	     {"GET", "/secrets", list},
	{"GET", "/secrets/{id}", get},	     {"POST", "/secrets/{id}", update},
	{"DELETE", "/secrets/{id}", delete}, {0},
};
