/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/*
 * multipart/form-data, parsed in pieces
 *
 * multipart_step() gets bytes, and returns how many of them it has used and what they are. Call it
 * again with the other bytes until it returns MULTIPART_MORE. It keeps no content, only the head of
 * a part and the beginning of a boundary: a part of a gigabyte needs no more memory than one of a
 * byte.
 *
 * 	while ((kind = multipart_step(form, data, size, &piece)) != MULTIPART_MORE) {
 * 		data += piece.used, size -= piece.used;
 * 		...
 * 	}
 *
 * A caller that has to wait in the middle (for a file to be opened) calls exchange_unread().
 */

struct multipart;

enum multipart_kind {
	MULTIPART_MORE, /* all bytes were used */
	MULTIPART_PART, /* a part begins: see multipart_name() */
	MULTIPART_DATA, /* `content` of the part, at least one byte */
	MULTIPART_LAST, /* the part ends */
	MULTIPART_END,	/* the form ends; bytes behind it are used and ignored */
	MULTIPART_BAD,	/* not a form: see multipart_problem() */
};

struct multipart_piece {
	size_t used;
	struct http_slice
		content; /* in the bytes that were given, or of the form, until the next step */
};

/* `type` is the Content-Type. 0; -EINVAL: not multipart/form-data, or no valid boundary;
 * -ENOMEM. */
int multipart_new(const char *type, struct multipart **ret);
void multipart_free(struct multipart *form);

enum multipart_kind multipart_step(struct multipart *form, const char *data, size_t size,
				   struct multipart_piece *ret);
/* May the body end here? */
bool multipart_is_complete(const struct multipart *form);

/* Of the present part. The name, "" if there is none; the file name as it was sent, with its
 * directories, or NULL; the type, or NULL. */
const char *multipart_name(const struct multipart *form);
const char *multipart_filename(const struct multipart *form);
const char *multipart_type(const struct multipart *form);
const char *multipart_problem(const struct multipart *form);
