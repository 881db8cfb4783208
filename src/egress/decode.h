/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/*
 * Compressed answers of a host with secrets
 *
 * Egress asks such a host for plain answers (Accept-Encoding: identity). A server that compresses
 * all the same would carry a value past the filter, so its answer is decompressed first: gzip and
 * deflate. Everything else is refused. doc/decisions/020-compressed-answers.md has the reasons.
 */
enum coding {
	CODING_NONE,
	CODING_GZIP,
	CODING_DEFLATE, /* of zlib, or without its head: servers send both */
	CODING_UNKNOWN,
};

/* The encoding that all Content-Encoding fields of the head name together. */
enum coding coding_of(const struct http_head *head);

struct decoder;
struct buf;

struct decoder *decoder_new(enum coding coding); /* NULL: no memory */
void decoder_free(struct decoder *decoder);	 /* wipes; takes NULL */

/* Decompress from `data` to the end of `out`, at most DECODE_PIECE bytes. `*ret_used` of the data
 * were read. 1: call again, there is more; 0: more data is wanted; -EBADMSG: not of this coding. */
#define DECODE_PIECE (64 * 1024)
int decoder_step(struct decoder *decoder, const char *data, size_t size, size_t *ret_used,
		 struct buf *out);
/* May the data end here? */
bool decoder_is_done(const struct decoder *decoder);
