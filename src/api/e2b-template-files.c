/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/template.h"
#include "box/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Files for a template's COPY
 *
 * A client asks whether they are here, by the hash that it has made of them, and if not gets a URL
 * to which it sends an archive, without its key: so the URL has a word in it that nobody can guess,
 * and which is good for this one archive. What comes is only written down here; it is looked at
 * when a build wants it. A tenant has so many; the oldest go.
 */

#define UPLOAD_MAX  (2ULL << 30)
#define LOOK_EVERY  (16U << 20) /* whether there is room */
#define TICKETS_MAX 256
#define TICKET_SIZE 33
#define ANSWER_MAX  4096

struct ticket {
	char word[TICKET_SIZE];
	char hash[65];
	char tenant[40];
	char path[PATH_MAX];
};

/* The latest ones; a client uses its own at once. */
static struct ticket *tickets[TICKETS_MAX];
static size_t next_ticket;

static const char *new_ticket(struct tenant *tenant, const char *hash, const char *path)
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
	free(tickets[next_ticket]);
	tickets[next_ticket] = ticket;
	next_ticket = (next_ticket + 1) % TICKETS_MAX;
	return ticket->word;
}

static const struct ticket *find_ticket(const char *word, const char *hash)
{
	for (size_t i = 0; word && i < TICKETS_MAX; i++) {
		if (tickets[i] && e2b_same(tickets[i]->word, word) && streq(tickets[i]->hash, hash))
			return tickets[i];
	}
	return NULL;
}

/* ---- GET ---- */

/* As the client has found us, which only it knows. */
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
	word = new_ticket(call->tenant, hash, path);
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
	int fd;
	uint64_t size;
	char path[PATH_MAX], part[PATH_MAX], tenant[40];
	bool has_failed;
};

static void upload_over(struct api_call *call, bool is_broken)
{
	struct upload *upload = call->own;

	(void)is_broken;
	if (!upload)
		return;
	close(upload->fd);
	unlink(upload->part); /* gone already if all went well */
	free(upload);
	call->own = NULL;
}

static void refuse(struct api_call *call, unsigned status, const char *why)
{
	struct upload *upload = call->own;

	upload->has_failed = true;
	api_refuse(call, status, "%s", why);
}

static void piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct api_call *call = own;
	struct upload *upload = call->own;
	uint64_t before;

	(void)exchange;
	if (!upload || upload->has_failed)
		return;
	if (size == 0) {
		if (rename(upload->part, upload->path) < 0) {
			refuse(call, 500, "the files could not be kept");
			return;
		}
		build_files_forget(upload->path, upload->tenant);
		api_answer_empty(call, 200);
		return;
	}
	before = upload->size;
	upload->size += size;
	if (upload->size > UPLOAD_MAX) {
		refuse(call, 413, "2 GiB are the most");
		return;
	}
	if ((before == 0 || before / LOOK_EVERY != upload->size / LOOK_EVERY) &&
	    !volume_has_room(upload->fd)) {
		refuse(call, 507, "there is no room for the files");
		return;
	}
	while (size > 0) {
		ssize_t n = write(upload->fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			refuse(call, 507, "there is no room for the files");
			return;
		}
		data += n;
		size -= (size_t)n;
	}
}

void e2b_template_files_put(struct api_call *call)
{
	const struct ticket *ticket =
		find_ticket(exchange_query(call->exchange, "upload"), api_parameter(call, 1));
	struct upload *upload;

	if (!ticket) {
		api_refuse(call, 403, "this URL is not good any more: ask for another one");
		return;
	}
	upload = calloc(1, sizeof *upload);
	if (!upload) {
		api_refuse(call, 500, "out of memory");
		return;
	}
	snprintf(upload->path, sizeof upload->path, "%s", ticket->path);
	snprintf(upload->tenant, sizeof upload->tenant, "%s", ticket->tenant);
	snprintf(upload->part, sizeof upload->part, "%.*s.%s.part", PATH_MAX - 64, ticket->path,
		 ticket->word);
	upload->fd = open(upload->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (upload->fd < 0) {
		free(upload);
		api_refuse(call, 500, "the files could not be kept");
		return;
	}
	call->own = upload;
	call->over = upload_over;
	exchange_read_bulk(call->exchange, piece, call);
}
