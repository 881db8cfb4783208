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
 * What the first process tells
 *
 * Reads its packets, and hands on what counts, one by one. Of refusals about what is not in the
 * sandbox at all, it looks whether the host has such a thing: what is nowhere is an ordinary miss.
 * Not to read is to hold up whoever is watched inside, and is how a record that cannot be written
 * stops a step.
 */
struct notices_told {
	const struct notice *notice;
	const char *const *texts; /* notice->n_texts of them, at most NOTICES_TEXTS */
	size_t n_texts;
	int fd; /* NOTICE_EXEC: to read the program with, or -1; closed afterwards */
};

#define NOTICES_TEXTS  2048
#define NOTICES_LOOKED 1024 /* a power of two */

/* For one packet; until notices_finish(). */
struct notices_room {
	uint64_t data[NOTICE_PACKET_MAX / sizeof(uint64_t)];
	const char *texts[NOTICES_TEXTS];
	/* Where the host was looked at: hash of a path, and in the lowest bit what was found. Empty
	 * before the first look. */
	uint64_t looked[NOTICES_LOOKED];
};

struct notices {
	int fd; /* -1: nothing is told; stays the handle's */
	const struct notice_packet *rest;
	struct notices_room *room; /* NULL: memory ran out, and nothing is read */
	bool has_ended;
	uint64_t n_packets;
	const struct spec *spec; /* whose names inside are what on the host; NULL: the same */
	/* May be NULL. What it is told of lasts only for the call. */
	void (*take)(void *data, const struct notices_told *told);
	void *data;
	unsigned n_looks;
};

void notices_init(struct notices *notices, const struct cell_handle *handle,
		  void (*take)(void *data, const struct notices_told *told), void *data);

/* What is there, without waiting, and not more than some packets so that others get their turn.
 * False once the other side has ended and all is read: then it is not to be waited for any more. */
bool notices_read(struct notices *notices);
/* Nothing is told for a while: the room for it is empty memory until then. */
void notices_rest(struct notices *notices);
/* All that has been told by now. */
void notices_read_all(struct notices *notices);

/* After the end of the first process, however it came: all the rest. */
void notices_finish(struct notices *notices);

/* NOTICE_DENIAL as results have it. */
void notices_fill_denial(const struct notices_told *told, struct atoll_denial *ret);
