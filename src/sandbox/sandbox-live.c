/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"
#include "sandbox/sandbox.h"

#include <atoll/step.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Requests to the holder of a live sandbox, in the client
 *
 * The library's functions to start, freeze, thaw and measure a sandbox, to answer its questions
 * about the network, and to replace its network rules. Each connects, sends one request and waits
 * for the reply (holder-protocol.h).
 */

/* How often to connect again while one holder after the other is just ending. */
#define TRIES 100

static int open_sandbox(const char *id, struct atoll_error **err, struct atoll_error *ignored,
			struct layer_record **ret)
{
	*err = *err ? *err : ignored;
	**err = (struct atoll_error){0};
	*ret = NULL;
	return sandbox_open(id, ret, *err);
}

static int set_not_running_error(const struct layer_record *record, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "nothing runs in sandbox '%s'",
			 record->info.id);
}

static int send_request(const char *id, enum holder_request_type type, bool starts, int with_fd,
			struct holder_reply *ret, struct atoll_error *err)
{
	const struct holder_request request = {.version = HOLDER_VERSION, .type = type};
	struct layer_record *record;
	struct atoll_error ignored;
	int r = open_sandbox(id, &err, &ignored, &record);

	for (int i = 0; r == 0 && i < TRIES; i++) {
		cleanup_fd int fd =
			starts ? holder_connect_or_start(record, err) : holder_connect(record, err);

		r = fd == -ENOENT ? set_not_running_error(record, err)
		    : fd < 0	  ? fd
				  : holder_ask(fd, &request, &with_fd, with_fd >= 0, ret, err);
		if (r != -ECONNRESET)
			break;
		r = i + 1 < TRIES ? 0 : r;
	}
	layer_record_close(record);
	return r;
}

int atoll_sandbox_start(const char *id, struct atoll_error *err)
{
	struct holder_reply reply;

	return send_request(id, HOLDER_STAY, true, -1, &reply, err);
}

int sandbox_start_new(const char *id, struct atoll_error *err)
{
	struct atoll_error ignored = {0};
	int r = holder_start(id, true, err ? err : &ignored);

	return r == -EBUSY ? atoll_sandbox_start(id, err) : r;
}

int atoll_sandbox_freeze(const char *id, struct atoll_error *err)
{
	struct holder_reply reply;

	return send_request(id, HOLDER_FREEZE, false, -1, &reply, err);
}

int atoll_sandbox_thaw(const char *id, struct atoll_error *err)
{
	struct holder_reply reply;

	return send_request(id, HOLDER_THAW, false, -1, &reply, err);
}

static int receive_usage(int fd, struct atoll_sandbox_usage *ret, struct atoll_error *err)
{
	struct {
		struct holder_reply reply;
		struct atoll_sandbox_usage usage;
	} answer;
	size_t none = 0;
	ssize_t got = fd_receive(fd, &answer, sizeof answer, 0, NULL, &none);

	if (got == sizeof answer) {
		*ret = answer.usage;
		return 0;
	}
	return error_set(err, ATOLL_FAULT_HOST, got < 0 ? (int)-got : EPIPE,
			 "the sandbox's holder has ended, and everything in it");
}

int atoll_sandbox_usage(const char *id, struct atoll_sandbox_usage *ret, struct atoll_error *err)
{
	const struct holder_request request = {.version = HOLDER_VERSION, .type = HOLDER_USAGE};
	struct layer_record *record;
	struct atoll_error ignored;
	cleanup_fd int fd = -1;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	fd = holder_connect_id(id, true, err);
	if (fd == -ENOENT) {
		r = open_sandbox(id, &err, &ignored, &record);
		if (r < 0)
			return r;
		fd = holder_connect(record, err);
		if (fd == -ENOENT)
			r = set_not_running_error(record, err);
		layer_record_close(record);
		if (r < 0)
			return r;
	}
	if (fd < 0)
		return fd;
	r = fd_send(fd, &request, sizeof request, NULL, 0);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "ask the sandbox's holder");
	return receive_usage(fd, ret, err);
}

static int connect_live(const char *id, struct atoll_error *err)
{
	struct atoll_error ignored;
	struct layer_record *record;
	int r = open_sandbox(id, &err, &ignored, &record), fd = -1;

	if (r == 0) {
		fd = holder_connect(record, err);
		r = fd == -ENOENT ? set_not_running_error(record, err) : fd;
	}
	layer_record_close(record);
	return r;
}

int atoll_sandbox_questions(const char *id, struct atoll_pending *ret, struct atoll_error *err)
{
	const struct holder_request request = {.version = HOLDER_VERSION, .type = HOLDER_QUESTIONS};
	struct {
		struct holder_reply reply;
		struct atoll_pending list[ATOLL_PENDING_MAX];
	} answer;
	struct atoll_error ignored = {0};
	cleanup_fd int fd = connect_live(id, err = err ? err : &ignored);
	size_t none = 0;
	ssize_t got;
	int r;

	if (fd < 0)
		return fd;
	r = fd_send(fd, &request, sizeof request, NULL, 0);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "ask the sandbox's holder");
	got = fd_receive(fd, &answer, sizeof answer, 0, NULL, &none);
	if (got != sizeof answer || answer.reply.count > ATOLL_PENDING_MAX)
		return error_set(err, ATOLL_FAULT_HOST, got < 0 ? (int)-got : EPIPE,
				 "the sandbox's holder has ended, and everything in it");
	memcpy(ret, answer.list, answer.reply.count * sizeof *ret);
	return (int)answer.reply.count;
}

int atoll_sandbox_answer(const char *id, uint64_t question, enum atoll_answer_type answer,
			 struct atoll_error *err)
{
	struct holder_request request = {
		.version = HOLDER_VERSION, .type = HOLDER_ANSWER, .number = (uint32_t)answer};
	struct atoll_error ignored = {0};
	cleanup_fd int fd = connect_live(id, err = err ? err : &ignored);
	struct holder_reply reply;

	snprintf(request.name, sizeof request.name, "%" PRIu64, question);
	return fd < 0 ? fd : holder_ask(fd, &request, NULL, 0, &reply, err);
}

int atoll_sandbox_set_network(const char *id, const char *rules, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-rules", MFD_CLOEXEC);
	struct holder_reply reply;
	struct atoll_error ignored;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	r = fd < 0 ? -errno : fd_write_all(fd, rules, strlen(rules));
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "store the network rules");
	return send_request(id, HOLDER_NETWORK, false, fd, &reply, err);
}
