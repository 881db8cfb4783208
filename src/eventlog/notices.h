/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/notice.h"

#include <atoll/atoll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cell_handle;
struct spec;

/*
 * Notices of pid 1: executions, denials, direct changes
 *
 * The supervisor and the holder read the packets of pid 1 and pass each notice to a function. A
 * denial of a path that is absent inside counts only if the host has that path: a path that exists
 * nowhere is an ordinary ENOENT. While nobody reads, the socket fills and the processes inside wait
 * for pid 1: this is how an event log that cannot be written stops a step.
 */
struct parsed_notice {
	const struct notice *notice;
	const char *const *texts; /* notice->n_texts of them, at most NOTICES_TEXTS */
	size_t n_texts;
	int fd; /* NOTICE_EXEC: the executed file, or -1; closed after the call */
};

#define NOTICES_TEXTS  2048
#define NOTICES_LOOKED 1024 /* a power of two */

/* Memory for one packet, until notices_finish(). */
struct notices_room {
	uint64_t data[NOTICE_PACKET_MAX / sizeof(uint64_t)];
	const char *texts[NOTICES_TEXTS];
	/* Cache of host paths: the hash of a path, with the result in its lowest bit. */
	uint64_t looked[NOTICES_LOOKED];
};

struct notices {
	int fd;				  /* the handle's; -1: no notices */
	const struct notice_packet *last; /* shared with pid 1: the packet that it fills */
	struct notices_room *room;	  /* NULL: no memory, nothing is read */
	bool has_ended;
	uint64_t n_packets;
	const struct spec *spec; /* maps inside paths to host paths; NULL: they are the same */
	/* May be NULL. `parsed` is valid during the call only. */
	void (*handle)(void *data, const struct parsed_notice *parsed);
	void *data;
	unsigned n_looks;
};

void notices_init(struct notices *notices, const struct cell_handle *cell,
		  void (*handle)(void *data, const struct parsed_notice *parsed), void *data);

/* Read a few packets without waiting. False once pid 1 has ended and all packets are read: do not
 * poll the descriptor any more. */
bool notices_read(struct notices *notices);
/* No notice for a while: give the memory of the packet back to the kernel. */
void notices_idle(struct notices *notices);
/* Read all packets that are in the socket. */
void notices_read_all(struct notices *notices);

/* pid 1 has ended: read all packets, and the one that it was filling. */
void notices_finish(struct notices *notices);

/* A NOTICE_DENIAL as an entry of a result. */
void notices_fill_denial(const struct parsed_notice *parsed, struct atoll_denial *ret);
