/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "eventlog/eventlog-inner.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const endings[EVENTLOG_STREAMS] = {"out", "err"};

void eventlog_output_init(struct eventlog_output *output, const struct spec *spec, const char *id,
			  bool is_terminal)
{
	*output = (struct eventlog_output){.is_on = id[0] && spec->record != SPEC_RECORD_OFF,
					   .keeps = spec->keeps_output,
					   .is_terminal = is_terminal};
	snprintf(output->id, sizeof output->id, "%s", id);
	for (int i = 0; i < EVENTLOG_STREAMS; i++)
		output->streams[i].fd = -1;
}

/* log/ID.out and log/ID.err; a sandbox's steps follow one another in it. */
static int open_kept(const struct eventlog_output *output, int stream, uint64_t *ret_offset)
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

static void keep(struct eventlog_output *output, int stream, const void *data, size_t size)
{
	int *fd = &output->streams[stream].fd, r;

	if (*fd < 0)
		*fd = open_kept(output, stream, &output->streams[stream].offset);
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
	if (output->keeps && !output->failure)
		keep(output, stream, data, size);
}

void eventlog_output_finish(struct eventlog_output *output, struct eventlog_output_end *ret)
{
	*ret = (struct eventlog_output_end){.keeps = output->keeps && !output->failure,
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
	/* One that was never begun, because its step was refused, is zeros: and 0 is not its. */
	for (int i = 0; output->is_on && i < EVENTLOG_STREAMS; i++) {
		if (output->streams[i].fd >= 0)
			close(output->streams[i].fd);
		output->streams[i].fd = -1;
	}
	output->is_on = false;
}

/* A stream that nothing came from is not told of. */
void eventlog_output_end(struct eventlog *recorder, uint32_t step,
			 const struct eventlog_output_end *said)
{
	for (int i = 0; recorder && i < EVENTLOG_STREAMS; i++) {
		struct json *json;

		if (said->streams[i].bytes == 0)
			continue;
		json = eventlog_begin(recorder, "output", 0, step);
		json_str(json, "stream",
			 i == EVENTLOG_STDERR ? "stderr"
			 : said->is_terminal  ? "terminal"
					      : "stdout");
		json_uint(json, "bytes", said->streams[i].bytes);
		eventlog_add_hash(json, "hash", said->streams[i].hash);
		json_bool(json, "kept", said->keeps);
		if (said->keeps)
			json_uint(json, "offset", said->streams[i].offset);
		eventlog_commit(recorder);
	}
}
