/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"

#include <atoll/layer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eventlog;
struct spec;

enum {
	EVENTLOG_STDOUT,
	EVENTLOG_STDERR,
	EVENTLOG_STREAMS,
};

/* The command's output while it is copied: its hash, and with `audit: {output: keep}` its content
 * in log/ID.out and log/ID.err. */
struct eventlog_output {
	struct {
		struct hash hash;
		uint64_t bytes;
		int fd;		 /* the file with the content; -1: none */
		uint64_t offset; /* where this step's content begins in it */
		bool is_begun;
	} streams[EVENTLOG_STREAMS];
	char id[ATOLL_ID_SIZE];
	bool is_on, is_saved, is_terminal;
	int failure; /* errno of the first failed write of content; then no more is written */
};

void eventlog_output_init(struct eventlog_output *output, const struct spec *spec, const char *id,
			  bool is_terminal);
void eventlog_output_add(struct eventlog_output *output, int stream, const void *data, size_t size);
void eventlog_output_done(struct eventlog_output *output);

/* The result, as it goes into the log; also sent from one process to another. */
struct eventlog_output_end {
	struct {
		uint64_t bytes, offset;
		unsigned char hash[HASH_SIZE];
	} streams[EVENTLOG_STREAMS];
	bool is_saved, is_terminal;
};
void eventlog_output_finish(struct eventlog_output *output, struct eventlog_output_end *ret);
void eventlog_output_end(struct eventlog *eventlog, uint32_t step,
			 const struct eventlog_output_end *end);
