/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core.h"
#include "http/http.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/*
 * The head of a request to the proxy: CONNECT host:port, or a request with an absolute URI
 *
 * Strict: one spelling of everything, lines that end in CR LF, no continuation lines. Only what is
 * needed to know for whom it is and who asks is read here; an absolute URI's request is read again,
 * and judged, where requests are (exchange.c).
 */

struct line {
	const char *text;
	size_t size;
};

/* The next line without its end; false if there is none. */
static bool next_line(const char **at, const char *end, struct line *ret)
{
	const char *stop = memmem(*at, (size_t)(end - *at), "\r\n", 2);

	if (!stop)
		return false;
	*ret = (struct line){*at, (size_t)(stop - *at)};
	*at = stop + 2;
	return true;
}

static bool is_clean(const struct line *line)
{
	for (size_t i = 0; i < line->size; i++)
		if (((unsigned char)line->text[i] < ' ' && line->text[i] != '\t') ||
		    line->text[i] == 0x7f)
			return false;
	return true;
}

static bool starts_word(const struct line *line, const char *word)
{
	size_t size = strlen(word);

	return line->size >= size && strncasecmp(line->text, word, size) == 0;
}

/* "host:port" or "[v6]:port"; without the port only where `preset` is not 0. */
static bool read_authority(const char *text, size_t size, uint16_t preset,
			   struct proxy_request *ret)
{
	struct http_place place;

	if (http_place((struct http_slice){text, size}, &place) < 0)
		return false;
	memcpy(ret->name, place.name, sizeof ret->name);
	ret->address = place.address;
	ret->port = place.port ? place.port : preset;
	return ret->port != 0;
}

static bool password_fits(const struct line *value, const char *token)
{
	unsigned char plain[256];
	const char *text = value->text + strlen("basic");
	size_t left = value->size - strlen("basic"), size = 0;
	const unsigned char *colon;
	bool fits;

	while (left > 0 && *text == ' ') {
		text++;
		left--;
	}
	if (sodium_base642bin(plain, sizeof plain, text, left, NULL, &size, NULL,
			      sodium_base64_VARIANT_ORIGINAL) < 0)
		return false;
	colon = memchr(plain, ':', size);
	if (!colon)
		return false;
	size -= (size_t)(colon + 1 - plain);
	fits = size == strlen(token) && sodium_memcmp(colon + 1, token, size) == 0;
	sodium_memzero(plain, sizeof plain);
	return fits;
}

/* Does a line of the head carry the password? */
static bool is_authorized(const char *at, const char *end, const char *token)
{
	static const char key[] = "proxy-authorization:";
	struct line line;

	if (!token[0])
		return true;
	while (next_line(&at, end, &line) && line.size > 0) {
		if (!starts_word(&line, key))
			continue;
		line.text += sizeof key - 1;
		line.size -= sizeof key - 1;
		while (line.size > 0 && (*line.text == ' ' || *line.text == '\t')) {
			line.text++;
			line.size--;
		}
		return starts_word(&line, "basic ") && password_fits(&line, token);
	}
	return false;
}

static enum proxy_result bad(struct proxy_request *ret, const char *problem)
{
	ret->problem = problem;
	return PROXY_BAD;
}

static enum proxy_result read_target(const struct line *line, struct proxy_request *ret)
{
	const char *blank = memchr(line->text, ' ', line->size), *last, *target;
	size_t method, size;

	last = blank ? memrchr(line->text, ' ', line->size) : NULL;
	if (!blank || last == blank || line->text + line->size - last != 9 ||
	    (memcmp(last + 1, "HTTP/1.1", 8) != 0 && memcmp(last + 1, "HTTP/1.0", 8) != 0))
		return bad(ret, "no request of HTTP/1");
	method = (size_t)(blank - line->text);
	target = blank + 1;
	size = (size_t)(last - target);
	if (memchr(target, ' ', size))
		return bad(ret, "a blank in the target");
	if (method == 7 && memcmp(line->text, "CONNECT", 7) == 0)
		return read_authority(target, size, 0, ret) ? PROXY_CONNECT
							    : bad(ret, "CONNECT wants HOST:PORT");
	if (size > 7 && strncasecmp(target, "http://", 7) == 0) {
		size_t length;

		target += 7;
		size -= 7;
		for (length = 0; length < size && !strchr("/?#", target[length]); length++)
			;
		return length > 0 && read_authority(target, length, 80, ret)
			       ? PROXY_FORWARD
			       : bad(ret, "the URI has no host that could be meant");
	}
	if (size > 8 && strncasecmp(target, "https://", 8) == 0)
		return bad(ret, "https goes by CONNECT");
	return bad(ret, "this is a proxy: it wants CONNECT HOST:PORT or an absolute URI");
}

enum proxy_result proxy_read(const uint8_t *data, size_t size, const char *token,
			     struct proxy_request *ret)
{
	const char *at = (const char *)data, *end;
	struct line line;

	*ret = (struct proxy_request){.problem = ""};
	end = memmem(at, size, "\r\n\r\n", 4);
	if (!end && size >= PROXY_HEAD_MAX)
		return bad(ret, "the head is too long");
	if (memchr(at, 0, end ? (size_t)(end - at) : size))
		return bad(ret, "a NUL in the head");
	if (!end)
		return PROXY_MORE;
	end += 4;
	ret->used = (size_t)(end - at);
	if (!next_line(&at, end, &line) || !is_clean(&line))
		return bad(ret, "no request of HTTP/1");
	ret->result = read_target(&line, ret);
	for (const char *rest = at; next_line(&rest, end, &line) && line.size > 0;)
		if (!is_clean(&line) || line.text[0] == ' ' || line.text[0] == '\t' ||
		    !memchr(line.text, ':', line.size))
			return bad(ret, "a header line that is none");
	if (ret->result != PROXY_BAD && !is_authorized(at, end, token))
		ret->result = PROXY_NEEDS_TOKEN;
	return ret->result;
}
