/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v2/sandboxes, and /sandboxes of older clients
 *
 * A setting that cannot be granted is refused: a box without a rule that the client relies on would
 * be worse than none.
 */
#include "e2b/e2b-create.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-logs.h"
#include "e2b/e2b-network.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-pairs.h"
#include "e2b/e2b-protocol.h"
#include "e2b/e2b-wait.h"

#include <stdlib.h>

#define BODY_MAX      (1U << 20)
#define TIMEOUT_S     300
#define TIMEOUT_V1_S  15
#define TIMEOUT_MAX_S (UINT64_C(10) * 365 * 24 * 3600)

/* ---- members ---- */

static bool refuse_member(struct api_call *call, const char *name, const char *what)
{
	api_refuse(call, 400, "%s: %s", name, what);
	return false;
}

bool e2b_read_seconds(struct api_call *call, json_t *body, const char *name, uint64_t *ret)
{
	json_t *value = json_object_get(body, name);
	json_int_t seconds;

	if (!value || json_is_null(value))
		return true;
	if (!json_is_integer(value))
		return refuse_member(call, name, "is no whole number of seconds");
	seconds = json_integer_value(value);
	if (seconds <= 0)
		return refuse_member(call, name, "must be more than 0 seconds");
	*ret = (uint64_t)seconds < TIMEOUT_MAX_S ? (uint64_t)seconds : TIMEOUT_MAX_S;
	return true;
}

bool e2b_read_bool(struct api_call *call, json_t *body, const char *name, bool *ret)
{
	json_t *value = json_object_get(body, name);

	if (!value || json_is_null(value))
		return true;
	if (!json_is_boolean(value))
		return refuse_member(call, name, "is neither true nor false");
	*ret = json_is_true(value);
	return true;
}

static bool read_pairs(struct api_call *call, json_t *body, const char *name, struct box_pairs *ret)
{
	json_t *value = json_object_get(body, name);

	if (!value || json_is_null(value))
		return true;
	if (!json_is_object(value) || !e2b_read_pairs(value, ret))
		return refuse_member(call, name, "is no object of texts");
	return true;
}

/* Adds the variable by which programs know that they are in a sandbox. */
static bool add_mark(struct box_pairs *pairs)
{
	struct box_pair *grown;

	for (size_t i = 0; i < pairs->n; i++) {
		if (streq(pairs->items[i].name, "E2B_SANDBOX"))
			return true;
	}
	grown = realloc(pairs->items, (pairs->n + 1) * sizeof *grown);
	if (!grown)
		return false;
	pairs->items = grown;
	grown[pairs->n++] = (struct box_pair){strdup("E2B_SANDBOX"), strdup("true")};
	return grown[pairs->n - 1].name && grown[pairs->n - 1].value;
}

static bool check_environment(struct api_call *call, const struct box_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (!pairs->items[i].name[0] || strchr(pairs->items[i].name, '='))
			return refuse_member(call, "envVars",
					     "a name is empty or has an equals sign in it");
	}
	return true;
}

static bool is_asked(json_t *body, const char *name)
{
	json_t *value = json_object_get(body, name);

	return value && !json_is_null(value) &&
	       !(json_is_object(value) && json_object_size(value) == 0);
}

/* ---- the request ---- */

/* The parts of a request that are freed when it was answered. */
struct asked {
	struct box_request request;
	char *network, *mounts;
};

static void free_asked(struct asked *asked)
{
	e2b_free_pairs(&asked->request.metadata);
	e2b_free_pairs(&asked->request.environment);
	free(asked->network);
	free(asked->mounts);
}

static bool read_life(struct api_call *call, json_t *body, struct box_request *request)
{
	json_t *wakes = json_object_get(body, "autoResume");

	request->pauses_memory = true;
	return e2b_read_seconds(call, body, "timeout", &request->timeout_s) &&
	       e2b_read_bool(call, body, "autoPause", &request->pauses_at_end) &&
	       e2b_read_bool(call, body, "autoPauseMemory", &request->pauses_memory) &&
	       (!json_is_object(wakes) || e2b_read_bool(call, wakes, "enabled", &request->wakes));
}

static bool read_network(struct api_call *call, json_t *body, struct asked *asked)
{
	json_t *network = json_object_get(body, "network");

	asked->request.has_internet = true;
	asked->request.is_public = true;
	if (!e2b_read_bool(call, body, "allow_internet_access", &asked->request.has_internet))
		return false;
	if (!network || json_is_null(network))
		return true;
	if (!json_is_object(network))
		return refuse_member(call, "network", "is no object");
	if (!e2b_read_bool(call, network, "allowPublicTraffic", &asked->request.is_public) ||
	    !e2b_read_network(call, network, asked->request.has_internet, &asked->network))
		return false;
	asked->request.network = asked->network;
	return true;
}

/* Reads the list only; box_create() checks that the volumes exist. */
static bool read_mounts(struct api_call *call, json_t *body, struct asked *asked)
{
	json_t *mounts = json_object_get(body, "volumeMounts"), *mount, *stored;
	bool is_good = true;
	size_t i;

	if (!mounts || json_is_null(mounts) ||
	    (json_is_array(mounts) && json_array_size(mounts) == 0))
		return true;
	if (!json_is_array(mounts))
		return refuse_member(call, "volumeMounts", "is no list");
	stored = json_array();
	json_array_foreach(mounts, i, mount)
	{
		json_t *name = json_object_get(mount, "name"),
		       *path = json_object_get(mount, "path");

		is_good = is_good && json_is_string(name) && json_is_string(path) &&
			  json_array_append_new(
				  stored, json_pack("{sOsO}", "name", name, "path", path)) == 0;
	}
	if (is_good)
		asked->mounts = json_dumps(stored, JSON_COMPACT);
	json_decref(stored);
	asked->request.mounts = asked->mounts;
	return asked->mounts || refuse_member(call, "volumeMounts", "each has a name and a path");
}

static bool read_request(struct api_call *call, json_t *body, struct asked *asked)
{
	struct box_request *request = &asked->request;
	json_t *template = json_object_get(body, "templateID");

	if (!json_is_string(template))
		return refuse_member(call, "templateID", "is no text");
	request->template_ref = json_string_value(template);
	if (is_asked(body, "mcp"))
		return refuse_member(call, "mcp", "there is no MCP gateway here");
	if (is_asked(body, "iam"))
		return refuse_member(call, "iam", "no tokens of identities are given out here");
	return read_life(call, body, request) &&
	       read_pairs(call, body, "metadata", &request->metadata) &&
	       read_pairs(call, body, "envVars", &request->environment) &&
	       check_environment(call, &request->environment) && read_network(call, body, asked) &&
	       read_mounts(call, body, asked) &&
	       (add_mark(&request->environment) || refuse_member(call, "envVars", "no memory"));
}

/* ---- the answer ---- */

static void refuse_creation(struct api_call *call, const char *template_ref,
			    const struct atoll_error *err)
{
	if (err->errnum == ENOENT)
		api_refuse(call, 404, "template '%s' not found", template_ref ? template_ref : "");
	else
		api_fail(call, err);
}

static void ignore_end(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

static void on_created(struct box *box, const struct atoll_error *err, void *data)
{
	struct e2b_wait *wait = data;
	cleanup_free char *template_ref = take_ptr(wait->text);
	struct api_call *call = e2b_wait_end(wait);
	cleanup_buf struct buf out = BUF_INIT(BODY_MAX);
	struct json json = {&out};

	if (call && !box) {
		refuse_creation(call, template_ref, err);
	} else if (call) {
		e2b_write_sandbox(&json, NULL, box);
		api_answer(call, 201, &out);
	} else if (box) {
		/* The client has gone and does not know the id: end the box. */
		box_kill(box, BOX_CAUSE_KILLED, ignore_end, NULL);
	}
}

static void create(struct api_call *call, json_t *body, uint64_t timeout_s)
{
	struct asked asked = {.request.timeout_s = timeout_s};
	struct e2b_wait *wait = NULL;

	e2b_logs_listen(e2b_of(call), call->api->daemon);
	if (read_request(call, body, &asked))
		wait = e2b_wait_new(call);
	if (wait) {
		wait->text = strdup(asked.request.template_ref);
		box_create(call->tenant, &asked.request, on_created, wait);
	}
	free_asked(&asked);
}

static void read_v2(struct api_call *call, json_t *body)
{
	create(call, body, TIMEOUT_S);
}

static void read_v1(struct api_call *call, json_t *body)
{
	create(call, body, TIMEOUT_V1_S);
}

void e2b_create(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_v2);
}

void e2b_create_v1(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_v1);
}
