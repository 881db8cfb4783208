/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/*
 * multipart/form-data, as it comes
 *
 * multipart_step() is given what there is and tells what of it was used up and what that was; call
 * it again with the rest until it wants more. It keeps no content, only the head of a part and a
 * boundary that may have begun: as much memory for a part of a gigabyte as for one of a byte.
 *
 *	while ((kind = multipart_step(form, data, size, &piece)) != MULTIPART_MORE) {
 *		data += piece.used, size -= piece.used;
 *		...
 *	}
 *
 * Who cannot go on in the middle (a file has to be opened first) gives the rest back by
 * exchange_unread().
 */

struct multipart;

enum multipart_kind {
	MULTIPART_MORE, /* everything was used */
	MULTIPART_PART, /* one begins: multipart_name() and so on tell */
	MULTIPART_DATA, /* `content` of it, at least a byte */
	MULTIPART_LAST, /* it ends */
	MULTIPART_END,	/* the form ends; whatever follows is used and means nothing */
	MULTIPART_BAD,	/* no form: multipart_problem() */
};

struct multipart_piece {
	size_t used;
	struct http_slice content; /* in what was given, or the form's, until the next step */
};

/* `type` is the Content-Type. 0; -EINVAL: no multipart/form-data, or without a good boundary;
 * -ENOMEM. */
int multipart_new(const char *type, struct multipart **ret);
void multipart_free(struct multipart *form);

enum multipart_kind multipart_step(struct multipart *form, const char *data, size_t size,
				   struct multipart_piece *ret);
/* May the body end here? */
bool multipart_is_complete(const struct multipart *form);

/* Of the part at hand. The name "" if it has none; the file's name as it was given, with its
 * directories, and NULL if there is none; the type NULL if none was said. */
const char *multipart_name(const struct multipart *form);
const char *multipart_filename(const struct multipart *form);
const char *multipart_type(const struct multipart *form);
const char *multipart_problem(const struct multipart *form);
