/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/multipart.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Finding boundaries
 *
 * Parts are divided by CR, LF, "--" and the boundary (the divider). The only CR of the divider is
 * its first byte. So after a failed match the next one can only begin at the byte that failed, and
 * the bytes that had matched are content. They equal the first bytes of the divider, so only their
 * number is kept when a match goes over the end of a piece.
 */

#define BOUNDARY_MAX 70	  /* RFC 2046 */
#define HEAD_MAX     8192 /* of a part */
#define PADDING_MAX  64	  /* between a boundary and the end of its line */

enum state {
	STATE_BEFORE,  /* before the first boundary: the preamble, which is dropped */
	STATE_DIVIDED, /* behind a boundary, in its line */
	STATE_HEAD,
	STATE_DATA,
	STATE_AFTER, /* behind the last boundary */
	STATE_BAD,
};

struct multipart {
	char divider[4 + BOUNDARY_MAX + 1];
	size_t divider_size;
	size_t matched; /* bytes of the divider at the end of the last piece */
	enum state state;
	const char *problem;
	size_t used; /* of `head` */
	char head[HEAD_MAX + 1];
	const char *name, *filename, *type; /* in `head` */
};

/* ---- the boundary ---- */

static bool is_boundary_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("'()+_,-./:=? ", c));
}

/* The value of a parameter of a Content-Type, with or without quotes. */
static const char *find_boundary(const char *type, size_t *ret_size)
{
	const char *at = type;

	while ((at = strchr(at, ';'))) {
		const char *end;

		at += 1 + strspn(at + 1, " \t");
		if (strncasecmp(at, "boundary=", strlen("boundary=")) != 0)
			continue;
		at += strlen("boundary=");
		if (*at == '"') {
			end = strchr(++at, '"');
			*ret_size = end ? (size_t)(end - at) : 0;
		} else {
			*ret_size = strcspn(at, "; \t");
		}
		return at;
	}
	return NULL;
}

int multipart_new(const char *type, struct multipart **ret)
{
	static const char wanted[] = "multipart/form-data";
	struct multipart *form;
	const char *boundary;
	size_t size = 0;

	if (strncasecmp(type, wanted, sizeof wanted - 1) != 0 ||
	    !(boundary = find_boundary(type + sizeof wanted - 1, &size)) || size == 0 ||
	    size > BOUNDARY_MAX || boundary[size - 1] == ' ')
		return -EINVAL;
	for (size_t i = 0; i < size; i++)
		if (!is_boundary_char(boundary[i]))
			return -EINVAL;
	form = calloc(1, sizeof *form);
	if (!form)
		return -ENOMEM;
	form->divider_size = (size_t)sprintf(form->divider, "\r\n--%.*s", (int)size, boundary);
	/* The first boundary may be at the very beginning, without CR LF before it. */
	form->matched = 2;
	*ret = form;
	return 0;
}

void multipart_free(struct multipart *form)
{
	free(form);
}

/* ---- the head of a part ---- */

static enum multipart_kind bad(struct multipart *form, const char *problem)
{
	form->state = STATE_BAD;
	form->problem = problem;
	return MULTIPART_BAD;
}

/* The end of a quoted value. A quote behind a backslash is part of the value, unless it is the last
 * quote: clients send names that end in a backslash as they are. */
static char *find_quote(char *at)
{
	for (char *quote = strchr(at, '"'); quote; quote = strchr(quote + 1, '"'))
		if (quote == at || quote[-1] != '\\' || !strchr(quote + 1, '"') ||
		    quote[1 + strspn(quote + 1, " \t")] == ';')
			return quote;
	return NULL;
}

/* Works in place. Clients send a quote, CR and LF as %22, %0D and %0A, and escape nothing else. */
static void unescape(char *text)
{
	char *to = text;

	for (char *from = text; *from; from++) {
		if (strncmp(from, "%22", 3) == 0)
			*to++ = '"', from += 2;
		else if (strncasecmp(from, "%0d", 3) == 0)
			*to++ = '\r', from += 2;
		else if (strncasecmp(from, "%0a", 3) == 0)
			*to++ = '\n', from += 2;
		else if (from[0] == '\\' && from[1] == '"')
			*to++ = '"', from++;
		else
			*to++ = *from;
	}
	*to = '\0';
}

/* Reads name="...": returns the text behind it. The value is unescaped and gets a NUL. */
static char *read_parameter(char *at, char **ret_name, char **ret_value)
{
	char *equals = strchr(at, '='), *end;

	if (!equals)
		return NULL;
	*equals = '\0';
	*ret_name = at;
	if (equals[1] == '"') {
		*ret_value = equals + 2;
		end = find_quote(*ret_value);
		if (!end)
			return NULL;
		*end++ = '\0';
		unescape(*ret_value);
	} else {
		*ret_value = equals + 1;
		end = *ret_value + strcspn(*ret_value, "; \t");
		if (*end)
			*end++ = '\0';
	}
	return end + strspn(end, "; \t");
}

static bool read_disposition(struct multipart *form, char *value)
{
	size_t n = strcspn(value, "; \t");
	char *at = value + n, *name, *text;

	if (n != strlen("form-data") || strncasecmp(value, "form-data", n) != 0)
		return false;
	at += strspn(at, "; \t");
	while (*at) {
		at = read_parameter(at, &name, &text);
		if (!at)
			return false;
		if (strcasecmp(name, "name") == 0 && !form->name)
			form->name = text;
		else if (strcasecmp(name, "filename") == 0 && !form->filename)
			form->filename = text;
	}
	return true;
}

static bool read_line(struct multipart *form, char *line)
{
	char *colon = strchr(line, ':');
	char *value;

	if (!colon || colon == line)
		return false;
	for (const char *c = line; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
			return false;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	if (strcasecmp(line, "content-disposition") == 0)
		return !form->name && read_disposition(form, value);
	if (strcasecmp(line, "content-type") == 0)
		form->type = value;
	return true;
}

static enum multipart_kind read_head(struct multipart *form)
{
	char *line = form->head;

	form->name = form->filename = form->type = NULL;
	form->head[form->used] = '\0';
	if (strlen(form->head) != form->used)
		return bad(form, "a part whose head has a NUL");
	while (*line && strncmp(line, "\r\n", 2) != 0) {
		char *end = strstr(line, "\r\n");

		*end = '\0';
		if (!read_line(form, line))
			return bad(form, "a part with a head that is none");
		line = end + 2;
	}
	form->state = STATE_DATA;
	form->matched = 0;
	return MULTIPART_PART;
}

static bool head_is_complete(const struct multipart *form)
{
	return (form->used == 2 && memcmp(form->head, "\r\n", 2) == 0) ||
	       (form->used >= 4 && memcmp(form->head + form->used - 4, "\r\n\r\n", 4) == 0);
}

/* ---- steps ---- */

static enum multipart_kind step_head(struct multipart *form, const char *data, size_t size,
				     struct multipart_piece *ret)
{
	while (ret->used < size) {
		if (form->used == HEAD_MAX)
			return bad(form, "a part with a head of more than 8 KiB");
		form->head[form->used++] = data[ret->used++];
		if (head_is_complete(form))
			return read_head(form);
	}
	return MULTIPART_MORE;
}

/* May `c` follow in the line of a boundary? `used` counts `c`. */
static bool may_follow(const struct multipart *form, char c)
{
	char last = form->used > 1 ? form->head[form->used - 2] : '\0';

	if (last == '\r')
		return c == '\n';
	if (form->used <= 2 && c == '-')
		return form->used == 1 || last == '-';
	return last != '-' && (c == '\r' || c == ' ' || c == '\t');
}

/* "--" ends the form. Else the line ends, and the head of a part follows. */
static enum multipart_kind step_divided(struct multipart *form, const char *data, size_t size,
					struct multipart_piece *ret)
{
	while (ret->used < size) {
		char c = data[ret->used++];

		form->head[form->used++] = c;
		if (form->used > PADDING_MAX || !may_follow(form, c))
			return bad(form, "a boundary that is not all of its line");
		if (c == '-' && form->used == 2) {
			form->state = STATE_AFTER;
			return MULTIPART_END;
		}
		if (c == '\n') {
			form->state = STATE_HEAD;
			form->used = 0;
			return step_head(form, data, size, ret);
		}
	}
	return MULTIPART_MORE;
}

/* The divider is complete. */
static enum multipart_kind divide(struct multipart *form, const char *data, size_t size,
				  struct multipart_piece *ret)
{
	bool was_before = form->state == STATE_BEFORE;

	form->state = STATE_DIVIDED;
	form->matched = 0;
	form->used = 0;
	return was_before ? step_divided(form, data, size, ret) : MULTIPART_LAST;
}

/* The divider has begun at the end of the last piece. */
static enum multipart_kind go_on_matching(struct multipart *form, const char *data, size_t size,
					  struct multipart_piece *ret)
{
	size_t was = form->matched;

	while (ret->used < size && form->matched < form->divider_size &&
	       data[ret->used] == form->divider[form->matched])
		ret->used++, form->matched++;
	if (form->matched == form->divider_size)
		return divide(form, data, size, ret);
	if (ret->used == size)
		return MULTIPART_MORE;
	/* The matched bytes are content. Those of this piece are read again; those of the last
	 * piece come from the divider. */
	ret->used = 0;
	ret->content = (struct http_slice){form->divider, was};
	form->matched = 0;
	return MULTIPART_DATA;
}

/* The place of a complete divider, or of a beginning of it at the end; or `size`. */
static size_t find_divider(const struct multipart *form, const char *data, size_t size)
{
	const char *whole = memmem(data, size, form->divider, form->divider_size);
	size_t at = size < form->divider_size ? 0 : size - form->divider_size + 1;

	if (whole)
		return (size_t)(whole - data);
	while (at < size) {
		const char *cr = memchr(data + at, '\r', size - at);

		if (!cr)
			return size;
		at = (size_t)(cr - data);
		if (memcmp(cr, form->divider, size - at) == 0)
			return at;
		at++;
	}
	return size;
}

static enum multipart_kind step_data(struct multipart *form, const char *data, size_t size,
				     struct multipart_piece *ret)
{
	size_t n;

	if (form->matched > 0)
		return go_on_matching(form, data, size, ret);
	n = find_divider(form, data, size);
	if (n > 0) {
		ret->used = n;
		ret->content = (struct http_slice){data, n};
		return MULTIPART_DATA;
	}
	return go_on_matching(form, data, size, ret);
}

/* The preamble is searched like content, and dropped. */
static enum multipart_kind step_before(struct multipart *form, const char *data, size_t size,
				       struct multipart_piece *ret)
{
	for (;;) {
		struct multipart_piece piece = {0};
		enum multipart_kind kind =
			step_data(form, data + ret->used, size - ret->used, &piece);

		ret->used += piece.used;
		if (kind != MULTIPART_DATA)
			return kind;
		if (ret->used == size)
			return MULTIPART_MORE;
	}
}

enum multipart_kind multipart_step(struct multipart *form, const char *data, size_t size,
				   struct multipart_piece *ret)
{
	*ret = (struct multipart_piece){0};
	if (size == 0 && form->state != STATE_BAD)
		return MULTIPART_MORE;
	switch (form->state) {
	case STATE_BEFORE:
		return step_before(form, data, size, ret);
	case STATE_DIVIDED:
		return step_divided(form, data, size, ret);
	case STATE_HEAD:
		return step_head(form, data, size, ret);
	case STATE_DATA:
		return step_data(form, data, size, ret);
	case STATE_AFTER:
		ret->used = size;
		return MULTIPART_MORE;
	case STATE_BAD:
		break;
	}
	return MULTIPART_BAD;
}

/* ---- results ---- */

bool multipart_is_complete(const struct multipart *form)
{
	return form->state == STATE_AFTER;
}

const char *multipart_name(const struct multipart *form)
{
	return form->name ?: "";
}

const char *multipart_filename(const struct multipart *form)
{
	return form->filename;
}

const char *multipart_type(const struct multipart *form)
{
	return form->type;
}

const char *multipart_problem(const struct multipart *form)
{
	return form->problem ?: "";
}
