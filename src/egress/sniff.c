/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/sniff.h"

#include <string.h>

/*
 * What the first bytes of a client look like
 *
 * Where a protocol is not known by its port, TLS and HTTP are still to be found: they carry a name,
 * and a server that has many might serve another than the one that is allowed. So whatever a
 * lenient server would take for a request line is one: any method, any letter case, blanks and line
 * feeds before it, every character that some server takes for a blank, and for the well-known
 * methods without a version, too. A line of another protocol passes as soon as it cannot be a
 * request line any more.
 *
 * client.c calls sniff_read() with all bytes so far, which it holds. Lines that few servers would
 * take for a request are not held (SNIFF_LINE); egress-relay.c passes them on and gives each piece
 * to sniff_line_add() before. No server acts on a request line before its end, so the connection is
 * cut in time.
 */

#define WORD_MAX_   32
#define LINE_MAX_   8192
#define WATCHED_MAX (2 * 1024 * 1024) /* no server takes a longer line for a request */

static bool is_token(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* What some server splits a line at; the bytes above 0x7f are blanks of ISO 8859-1. */
static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) || c == 0x85 ||
	       c == 0xa0;
}

static const char *const methods[] = {
	"ACL",
	"BASELINE-CONTROL",
	"BIND",
	"CHECKIN",
	"CHECKOUT",
	"CONNECT",
	"COPY",
	"DELETE",
	"GET",
	"HEAD",
	"LABEL",
	"LINK",
	"LOCK",
	"MERGE",
	"MKACTIVITY",
	"MKCALENDAR",
	"MKCOL",
	"MKREDIRECTREF",
	"MKWORKSPACE",
	"MOVE",
	"OPTIONS",
	"ORDERPATCH",
	"PATCH",
	"POST",
	"PRI",
	"PROPFIND",
	"PROPPATCH",
	"PURGE",
	"PUT",
	"QUERY",
	"REBIND",
	"REPORT",
	"SEARCH",
	"TRACE",
	"UNBIND",
	"UNCHECKOUT",
	"UNLINK",
	"UNLOCK",
	"UPDATE",
	"UPDATEREDIRECTREF",
	"VERSION-CONTROL",
};

/* A method of HTTP, or the beginning of one. */
static bool begins_method(const uint8_t *data, size_t size, bool is_whole)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (size <= strlen(methods[i]) &&
		    strncasecmp((const char *)data, methods[i], size) == 0 &&
		    (!is_whole || !methods[i][size]))
			return true;
	return false;
}

static bool has_version(const uint8_t *line, size_t size)
{
	for (size_t i = 0; i + 5 <= size; i++)
		if (strncasecmp((const char *)line + i, "HTTP/", 5) == 0)
			return true;
	return false;
}

static bool is_binary(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((data[i] < ' ' || data[i] == 0x7f) && !is_blank(data[i]))
			return true;
	return false;
}

/* What follows method and blank. */
static enum sniff sniff_target(const uint8_t *data, size_t size, bool is_known)
{
	const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t length = end ? (size_t)(end - data) : size;

	if (has_version(data, length))
		return SNIFF_HTTP;
	if (end)
		return is_known && length > 0 && (data[0] == '/' || memmem(data, length, "://", 3))
			       ? SNIFF_HTTP
			       : SNIFF_OTHER;
	if (!is_known && is_binary(data, length))
		return SNIFF_LINE;
	return size < LINE_MAX_ ? SNIFF_MORE : SNIFF_HTTP;
}

/* A first line that does not begin with a short word and a blank. */
static enum sniff sniff_odd_line(const uint8_t *data, size_t size)
{
	struct sniff_line line = {0};
	enum sniff sniff = sniff_line_add(&line, data, size);

	return sniff == SNIFF_MORE ? SNIFF_LINE : sniff;
}

static size_t count_blanks(const uint8_t *data, size_t size)
{
	size_t n = 0;

	while (n < size && is_blank(data[n]))
		n++;
	return n;
}

enum sniff sniff_read(const uint8_t *data, size_t size)
{
	size_t blanks = count_blanks(data, size), word = 0;

	if (size == 0)
		return SNIFF_MORE;
	/* Records of TLS; one that is no handshake is not what a client begins with. */
	if (data[0] >= 0x14 && data[0] <= 0x17)
		return size == 1 ? SNIFF_MORE : data[1] == 3 ? SNIFF_TLS : SNIFF_OTHER;
	data += blanks;
	size -= blanks;
	while (word < size && word <= WORD_MAX_ && is_token(data[word]))
		word++;
	if (word > WORD_MAX_)
		return sniff_odd_line(data, size);
	if (word == size)
		return SNIFF_MORE;
	if (word > 0 && is_blank(data[word]) && data[word] != '\r' && data[word] != '\n')
		return sniff_target(data + word + 1, size - word - 1,
				    begins_method(data, word, true));
	return sniff_odd_line(data, size);
}

bool sniff_is_strange(const uint8_t *data, size_t size)
{
	size_t blanks = count_blanks(data, size), word = 0;

	if (size == 0 || (data[0] >= 0x14 && data[0] <= 0x17))
		return false;
	data += blanks;
	size -= blanks;
	while (word < size && is_token(data[word]))
		word++;
	if (word < size && !is_blank(data[word]))
		return false;
	return word == 0 || !begins_method(data, word, word < size);
}

/* ---- lines that are passed on while they come ---- */

/* The character `c` of the present word. */
static void add_to_word(struct sniff_line *line, uint8_t c)
{
	static const char version[] = "http/";

	if (line->at == 0) {
		line->n_words += line->n_words < 3;
		line->may_version = line->n_words > 1;
		line->is_version = false;
		line->has_target |= line->n_words == 2 && (c == '/' || (c | 0x20) == 'h');
	}
	line->is_odd |= line->n_words == 1 && !is_token(c);
	if (line->at < 5)
		line->may_version = line->may_version &&
				    (c >= 'A' && c <= 'Z' ? c | 0x20 : c) == version[line->at];
	else if (line->at == 5)
		line->is_version = line->may_version && c >= '0' && c <= '9';
	else if (!((c >= '0' && c <= '9') || c == '.' || c == '_' || c == '+' || c == '-'))
		line->is_version = false;
	line->at += line->at < 6;
}

enum sniff sniff_line_add(struct sniff_line *line, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t c = data[i];

		if (line->size == 0 && is_blank(c))
			continue;
		/* Not text, and no server would look for a request in it. */
		if ((line->size == 0 && (c < ' ' || c >= 0x7f)) || (!c && !line->has_target))
			return SNIFF_OTHER;
		if (c == '\n')
			return line->is_version || (line->had_version && !line->is_odd)
				       ? SNIFF_HTTP
				       : SNIFF_OTHER;
		if (++line->size > WATCHED_MAX)
			return SNIFF_OTHER;
		if (is_blank(c)) {
			line->had_version |= line->is_version;
			line->at = 0;
		} else {
			add_to_word(line, c);
		}
	}
	return SNIFF_MORE;
}
