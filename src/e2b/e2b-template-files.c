/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-template-files.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-protocol.h"
#include "e2b/e2b-sign.h"
#include "httpd/httpd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Files for the COPY of a template
 *
 * A client asks for the files by the hash that it has made of them. If they are missing it gets a
 * URL, to which it sends an archive without a key. So the URL contains a random word (a ticket)
 * that is valid for this one archive. The archive is only stored here; a build reads it. A tenant
 * has at most TICKETS_MAX tickets.
 */

#define UPLOAD_MAX  (2ULL << 30)
#define LOOK_EVERY  (16U << 20) /* bytes between two checks of the free space */
#define TICKETS_MAX 64		/* for each tenant */
#define TICKET_SIZE 33
#define ANSWER_MAX  4096

struct ticket {
	char word[TICKET_SIZE];
	char hash[65];
	char tenant[40];
	char path[PATH_MAX];
	struct ticket *next;
};

/* At most TICKETS_MAX tickets of a tenant: removes the tenant's oldest ones. */
static void drop_oldest(struct e2b *e2b, const struct tenant *tenant)
{
	size_t n = 0;

	for (struct ticket **at = &e2b->tickets; *at;) {
		struct ticket *ticket = *at;

		if (!streq(ticket->tenant, tenant->id) || ++n < TICKETS_MAX) {
			at = &ticket->next;
			continue;
		}
		*at = ticket->next;
		free(ticket);
	}
}

static const char *new_ticket(struct e2b *e2b, struct tenant *tenant, const char *hash,
			      const char *path)
{
	struct ticket *ticket = calloc(1, sizeof *ticket);
	unsigned char bytes[16];

	if (!ticket || getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
		free(ticket);
		return NULL;
	}
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ticket->word + 2 * i, 3, "%02x", bytes[i]);
	snprintf(ticket->hash, sizeof ticket->hash, "%s", hash);
	snprintf(ticket->tenant, sizeof ticket->tenant, "%s", tenant->id);
	snprintf(ticket->path, sizeof ticket->path, "%s", path);
	drop_oldest(e2b, tenant);
	ticket->next = e2b->tickets;
	e2b->tickets = ticket;
	return ticket->word;
}

void e2b_tickets_done(struct e2b *e2b)
{
	for (struct ticket *at = e2b->tickets, *next; at; at = next) {
		next = at->next;
		free(at);
	}
	e2b->tickets = NULL;
}

static const struct ticket *find_ticket(const struct e2b *e2b, const char *word, const char *hash)
{
	for (const struct ticket *at = word ? e2b->tickets : NULL; at; at = at->next) {
		if (e2b_is_same_token(at->word, word) && streq(at->hash, hash))
			return at;
	}
	return NULL;
}

/* ---- GET ---- */

/* The URL begins with the Host of the request: only the client knows by which name it reaches the
 * daemon. */
static void write_url(struct api_call *call, const char *hash, const char *word, char *ret,
		      size_t size)
{
	const char *host = exchange_field(call->exchange, "host");
	const char *scheme = starts_with(call->api->where, "https") ? "https" : "http";

	if (host)
		snprintf(ret, size, "%s://%s/templates/%s/files/%s?upload=%s", scheme, host,
			 "upload", hash, word);
	else
		snprintf(ret, size, "%s/templates/%s/files/%s?upload=%s", call->api->where,
			 "upload", hash, word);
}

void e2b_template_files_get(struct api_call *call)
{
	const char *hash = api_parameter(call, 1), *word;
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	struct atoll_error err = {0};
	char path[PATH_MAX], url[1024];

	if (build_files_path(call->tenant, hash, path, &err) < 0) {
		api_fail(call, &err);
		return;
	}
	word = new_ticket(e2b_of(call), call->tenant, hash, path);
	if (!word) {
		api_refuse(call, 500, "out of memory");
		return;
	}
	write_url(call, hash, word, url, sizeof url);
	json_open(&json, NULL, '{');
	json_bool(&json, "present", access(path, R_OK) == 0);
	json_str(&json, "url", url);
	json_close(&json, '}');
	api_answer(call, 201, &out);
}

/* ---- PUT ---- */

struct upload {
	struct put *put;
	uint64_t size;
	char path[PATH_MAX], part[PATH_MAX];
	struct tenant *tenant;
	struct api_call *call;
	bool is_published;
};

static void upload_over(struct api_call *call, bool is_broken)
{
	struct upload *upload = call->own;

	(void)is_broken;
	if (!upload)
		return;
	put_drop(upload->put);
	tenant_release_bytes(upload->tenant, upload->size, upload->is_published);
	unlink(upload->part); /* renamed already after a success */
	free(upload);
	call->own = NULL;
}

static void on_written(int r, void *data)
{
	struct upload *upload = data;

	if (r < 0)
		api_refuse(upload->call, r == -EAGAIN ? 429 : 507,
			   r == -EAGAIN ? "this tenant has too many bytes of requests in memory; "
					  "retry later"
					: "there is no room for the files");
	else
		exchange_resume(upload->call->exchange);
}

static void on_closed(int r, void *data)
{
	struct upload *upload = data;

	upload->put = NULL;
	if (r < 0 || rename(upload->part, upload->path) < 0) {
		api_refuse(upload->call, 500, "the files could not be kept");
		return;
	}
	upload->is_published = true;
	build_files_forget(upload->path, upload->tenant->id);
	api_answer_empty(upload->call, 200);
}

/* Is there room for `size` more bytes? False: the call was answered. */
static bool reserve_room(struct upload *upload, size_t size)
{
	uint64_t before = upload->size;
	struct atoll_error err = {0};

	upload->size += size;
	if (tenant_reserve_bytes(upload->tenant, size, &err) < 0)
		api_refuse(upload->call, 507, "%s", err.text);
	else if (upload->size > UPLOAD_MAX)
		api_refuse(upload->call, 413, "2 GiB are the most");
	else if ((before == 0 || before / LOOK_EVERY != upload->size / LOOK_EVERY) &&
		 !volume_has_room(put_fd(upload->put)))
		api_refuse(upload->call, 507, "there is no room for the files");
	else
		return true;
	return false;
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct upload *upload = own;
	int r;

	if (size == 0) {
		put_end(upload->put, on_closed);
		return;
	}
	if (!reserve_room(upload, size))
		return;
	r = put_write(upload->put, data, size, on_written);
	if (r < 0)
		on_written(r, upload);
	else
		exchange_pause(exchange);
}

void e2b_template_files_put(struct api_call *call)
{
	const struct ticket *ticket = find_ticket(
		e2b_of(call), exchange_query(call->exchange, "upload"), api_parameter(call, 1));
	struct tenant *tenant = ticket ? tenant_find(call->api->daemon, ticket->tenant) : NULL;
	struct upload *upload;
	int fd;

	if (!tenant) {
		api_refuse(call, 403, "this URL is not good any more: ask for another one");
		return;
	}
	if (!api_charge(call, tenant, &tenant->visitors))
		return;
	upload = calloc(1, sizeof *upload);
	if (!upload) {
		api_refuse(call, 500, "out of memory");
		return;
	}
	snprintf(upload->path, sizeof upload->path, "%s", ticket->path);
	upload->tenant = tenant;
	upload->call = call;
	snprintf(upload->part, sizeof upload->part, "%.*s.%s.part", PATH_MAX - 64, ticket->path,
		 ticket->word);
	fd = open(upload->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	upload->put = fd < 0 ? NULL : put_new(call->api->daemon, tenant, fd, upload);
	if (!upload->put) {
		free(upload);
		api_refuse(call, 500, "the files could not be kept");
		return;
	}
	call->own = upload;
	call->over = upload_over;
	exchange_read_bulk(call->exchange, on_piece, upload);
}
