/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes: create, list, remove, by a key. Their files need the token of the volume:
 * e2b-volume-content.c. */
#include "e2b/e2b-volumes.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-volume-content.h"
#include "e2b/e2b-wait.h"

#include <errno.h>

#define BODY_MAX   (16U << 10)
#define ANSWER_MAX (1U << 20)

static void write_volume(struct json *json, const struct volume *volume, bool has_token)
{
	json_open(json, NULL, '{');
	json_str(json, "volumeID", volume->id);
	json_str(json, "name", volume->name);
	if (has_token)
		json_str(json, "token", volume->token);
	json_close(json, '}');
}

static void answer_volume(struct api_call *call, unsigned status, const struct volume *volume)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {.out = &out};

	write_volume(&json, volume, true);
	api_answer(call, status, &out);
}

static void on_made(const struct volume *volume, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);

	if (call && volume)
		answer_volume(call, 201, volume);
	else if (call)
		api_fail(call, err);
}

static void read_request(struct api_call *call, json_t *body)
{
	const char *name = json_string_value(json_object_get(body, "name"));
	struct e2b_wait *wait;

	if (!name) {
		api_refuse(call, 400, "name: is missing, or no text");
		return;
	}
	wait = e2b_wait_new(call);
	if (wait)
		volume_create(call->tenant, name, on_made, wait);
}

static void create(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_request);
}

static void list(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	cleanup_free struct volume *volumes = NULL;
	struct json json = {.out = &out};
	struct atoll_error err = {0};
	size_t n = 0;

	if (volume_list(call->tenant, &volumes, &n, &err) < 0) {
		api_fail(call, &err);
		return;
	}
	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n; i++)
		write_volume(&json, &volumes[i], false);
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

/* A volume of another tenant is answered like a missing one. */
static bool find(struct api_call *call, struct volume *ret)
{
	const char *id = api_parameter(call, 0);

	if (volume_find(call->api->daemon, id, ret) && streq(ret->tenant, call->tenant->id))
		return true;
	api_refuse(call, 404, "volume '%s' not found", id);
	return false;
}

static void get(struct api_call *call)
{
	struct volume volume;

	if (find(call, &volume))
		answer_volume(call, 200, &volume);
}

static void delete (struct api_call *call)
{
	struct atoll_error err = {0};
	struct volume volume;

	if (!find(call, &volume))
		return;
	if (volume_remove(call->api->daemon, &volume, &err) < 0)
		api_fail(call, &err);
	else
		api_answer_empty(call, 204);
}

const struct api_route e2b_volume_routes[] = {
	{"POST", "/volumes", create},
	{"GET", "/volumes", list},
	{"GET", "/volumes/{id}", get},
	{"DELETE", "/volumes/{id}", delete},
	{"GET", "/volumecontent/{id}/dir", e2b_volume_list, API_OPEN},
	{"POST", "/volumecontent/{id}/dir", e2b_volume_make_dir, API_OPEN},
	{"GET", "/volumecontent/{id}/path", e2b_volume_stat, API_OPEN},
	{"PATCH", "/volumecontent/{id}/path", e2b_volume_change, API_OPEN},
	{"DELETE", "/volumecontent/{id}/path", e2b_volume_remove, API_OPEN},
	{"GET", "/volumecontent/{id}/file", e2b_volume_read, API_OPEN},
	{"PUT", "/volumecontent/{id}/file", e2b_volume_write, API_OPEN},
	{0},
};
