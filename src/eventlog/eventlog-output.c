/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-output.h"

#include "base/fd.h"
#include "eventlog/eventlog-line.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The command's output in the event log
 *
 * The supervisor's relay, or the holder, passes all output through eventlog_output_add(). At the
 * end of a step eventlog_output_finish() gives the hashes, and eventlog_output_end() writes one
 * line per stream.
 */

static const char *const endings[EVENTLOG_STREAMS] = {"out", "err"};

void eventlog_output_init(struct eventlog_output *output, const struct spec *spec, const char *id,
			  bool is_terminal)
{
	*output = (struct eventlog_output){.is_on = id[0] && spec->record != SPEC_RECORD_OFF,
					   .is_saved = spec->keeps_output,
					   .is_terminal = is_terminal};
	snprintf(output->id, sizeof output->id, "%s", id);
	for (int i = 0; i < EVENTLOG_STREAMS; i++)
		output->streams[i].fd = -1;
}

/* log/ID.out and log/ID.err; the steps of a sandbox follow one another in the same files. */
static int open_saved(const struct eventlog_output *output, int stream, uint64_t *ret_offset)
{
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};
	char path[64];
	off_t end;
	int fd;

	snprintf(path, sizeof path, "log/%s.%s", output->id, endings[stream]);
	if (layer_store_open(false, &store, NULL) < 0)
		return -ENOENT;
	fd = openat(store.fd, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	end = lseek(fd, 0, SEEK_END);
	*ret_offset = end > 0 ? (uint64_t)end : 0;
	return fd;
}

static void save(struct eventlog_output *output, int stream, const void *data, size_t size)
{
	int *fd = &output->streams[stream].fd, r;

	if (*fd < 0)
		*fd = open_saved(output, stream, &output->streams[stream].offset);
	r = *fd < 0 ? *fd : fd_write_all(*fd, data, size);
	if (r < 0)
		output->failure = -r;
}

void eventlog_output_add(struct eventlog_output *output, int stream, const void *data, size_t size)
{
	if (!output->is_on || size == 0)
		return;
	if (!output->streams[stream].is_begun)
		hash_init(&output->streams[stream].hash);
	output->streams[stream].is_begun = true;
	hash_update(&output->streams[stream].hash, data, size);
	output->streams[stream].bytes += size;
	if (output->is_saved && !output->failure)
		save(output, stream, data, size);
}

void eventlog_output_finish(struct eventlog_output *output, struct eventlog_output_end *ret)
{
	*ret = (struct eventlog_output_end){.is_saved = output->is_saved && !output->failure,
					    .is_terminal = output->is_terminal};
	for (int i = 0; output->is_on && i < EVENTLOG_STREAMS; i++) {
		if (!output->streams[i].is_begun)
			continue;
		ret->streams[i].bytes = output->streams[i].bytes;
		ret->streams[i].offset = output->streams[i].offset;
		hash_final(&output->streams[i].hash, ret->streams[i].hash);
	}
	eventlog_output_done(output);
}

void eventlog_output_done(struct eventlog_output *output)
{
	/* Of a refused step the struct is all zeros; descriptor 0 does not belong to it. */
	for (int i = 0; output->is_on && i < EVENTLOG_STREAMS; i++) {
		if (output->streams[i].fd >= 0)
			close(output->streams[i].fd);
		output->streams[i].fd = -1;
	}
	output->is_on = false;
}

/* A stream without output has no line. */
void eventlog_output_end(struct eventlog *eventlog, uint32_t step,
			 const struct eventlog_output_end *end)
{
	for (int i = 0; eventlog && i < EVENTLOG_STREAMS; i++) {
		struct json *json;

		if (end->streams[i].bytes == 0)
			continue;
		json = eventlog_begin(eventlog, "output", 0, step);
		json_str(json, "stream",
			 i == EVENTLOG_STDERR ? "stderr"
			 : end->is_terminal   ? "terminal"
					      : "stdout");
		json_uint(json, "bytes", end->streams[i].bytes);
		eventlog_add_hash(json, "hash", end->streams[i].hash);
		json_bool(json, "kept", end->is_saved);
		if (end->is_saved)
			json_uint(json, "offset", end->streams[i].offset);
		eventlog_commit(eventlog);
	}
}
