/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-objects.h"

#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Objects of E2B's protocol as JSON: files, sandboxes, pairs. */

void e2b_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs)
{
	json_open(json, key, '{');
	for (size_t i = 0; i < pairs->n; i++)
		json_str(json, pairs->items[i].name, pairs->items[i].value);
	json_close(json, '}');
}

void e2b_write_raw(struct json *json, const char *key, const char *text)
{
	if (json->needs_comma)
		buf_add_char(json->out, ',');
	if (key) {
		json_quote(json->out, key, strlen(key));
		buf_add_char(json->out, ':');
	}
	buf_add_str(json->out, text);
	json->needs_comma = true;
}

void e2b_write_json(struct json *json, const char *key, const json_t *value)
{
	cleanup_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	e2b_write_raw(json, key, text ? text : "null");
}

/* ---- a file ---- */

static const char *type_of(const struct guest_entry *entry)
{
	return entry->type == 'f'   ? "FILE_TYPE_FILE"
	       : entry->type == 'd' ? "FILE_TYPE_DIRECTORY"
				    : "FILE_TYPE_UNSPECIFIED";
}

static char kind_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'L';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	default:
		return '-';
	}
}

/* As ls(1) shows it, but for the letter of a link. */
static void show_permissions(uint32_t mode, char ret[11])
{
	static const char all[] = "rwxrwxrwx";

	ret[0] = kind_of(mode);
	for (int i = 0; i < 9; i++)
		ret[1 + i] = mode & (0400U >> i) ? all[i] : '-';
	if (mode & S_ISUID)
		ret[3] = mode & 0100 ? 's' : 'S';
	if (mode & S_ISGID)
		ret[6] = mode & 0010 ? 's' : 'S';
	if (mode & S_ISVTX)
		ret[9] = mode & 0001 ? 't' : 'T';
	ret[10] = '\0';
}

void e2b_write_entry(struct json *json, const char *key, const struct guest_entry *entry)
{
	char text[32];

	json_open(json, key, '{');
	json_str(json, "name", entry->name);
	json_str(json, "type", type_of(entry));
	json_str(json, "path", entry->path);
	json_uint_str(json, "size", entry->size);
	json_uint(json, "mode", entry->permissions & 0777);
	show_permissions(entry->mode, text);
	json_str(json, "permissions", text);
	json_str(json, "owner", entry->owner);
	json_str(json, "group", entry->group);
	api_time_ns(entry->mtime_ns, text);
	json_str(json, "modifiedTime", text);
	if (entry->is_link)
		json_str(json, "symlinkTarget", entry->target ? entry->target : entry->path);
	if (entry->metadata.n > 0)
		e2b_write_pairs(json, "metadata", &entry->metadata);
	json_close(json, '}');
}

void e2b_write_uploaded(struct json *json, const struct guest_entry *entry)
{
	json_open(json, NULL, '{');
	json_str(json, "path", entry->path);
	json_str(json, "name", entry->name);
	json_str(json, "type", "file");
	if (entry->metadata.n > 0)
		e2b_write_pairs(json, "metadata", &entry->metadata);
	json_close(json, '}');
}

/* ---- a box ---- */

void e2b_write_sandbox(struct json *json, const char *key, const struct box *box)
{
	json_open(json, key, '{');
	json_str(json, "templateID", box->template_id);
	json_str(json, "sandboxID", box->id);
	if (box->alias[0])
		json_str(json, "alias", box->alias);
	json_str(json, "clientID", "local");
	json_str(json, "envdVersion", E2B_ENVD_VERSION);
	json_str(json, "envdAccessToken", box->access_token);
	json_str(json, "trafficAccessToken", box->traffic_token[0] ? box->traffic_token : NULL);
	json_str(json, "domain", NULL);
	json_close(json, '}');
}

static void write_ms(struct json *json, const char *key, int64_t ms)
{
	/* A box without an end time needs one that clients can parse. */
	static const int64_t latest_ms = INT64_C(253402300799000); /* 9999-12-31T23:59:59Z */
	char text[32];

	api_time(ms < latest_ms ? ms : latest_ms, text);
	json_str(json, key, text);
}

static void write_details(struct json *json, const struct box *box)
{
	json_t *network = box->network ? json_loads(box->network, 0, NULL) : NULL;

	json_str(json, "envdAccessToken", box->access_token);
	json_str(json, "domain", NULL);
	json_bool(json, "allowInternetAccess", box->has_internet);
	if (network)
		e2b_write_json(json, "network", network);
	json_decref(network);
	json_open(json, "lifecycle", '{');
	json_str(json, "onTimeout", box->pauses_at_end ? "pause" : "kill");
	json_bool(json, "autoResume", box->wakes);
	json_close(json, '}');
}

void e2b_write_listed(struct json *json, const struct box *box, bool is_detailed)
{
	json_t *mounts = box->mounts ? json_loads(box->mounts, 0, NULL) : NULL;

	json_open(json, NULL, '{');
	json_str(json, "sandboxID", box->id);
	json_str(json, "templateID", box->template_id);
	if (box->alias[0])
		json_str(json, "alias", box->alias);
	json_str(json, "clientID", "local");
	write_ms(json, "startedAt", box->start_ms);
	write_ms(json, "endAt", box->end_ms);
	json_uint(json, "cpuCount", box->cpus);
	json_uint(json, "memoryMB", box->memory_mib);
	json_uint(json, "diskSizeMB", box->disk_mib);
	e2b_write_pairs(json, "metadata", &box->metadata);
	json_str(json, "state", box->state == BOX_PAUSED ? "paused" : "running");
	json_str(json, "envdVersion", E2B_ENVD_VERSION);
	if (mounts)
		e2b_write_json(json, "volumeMounts", mounts);
	json_decref(mounts);
	if (is_detailed)
		write_details(json, box);
	json_close(json, '}');
}
