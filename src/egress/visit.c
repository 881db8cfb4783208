/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/visit.h"

#include <string.h>

/*
 * What the first bytes of a visitor of a published port are (pure)
 *
 * Only a request that a browser could have sent is judged: a method, one blank, a target that
 * begins with "/", and a line that ends in HTTP/1.x. Every browser sends Host with it. Whatever
 * else begins a connection passes: TLS (the browser compares the certificate with the page's name),
 * "PRI * HTTP/2.0" (no browser speaks HTTP/2 without TLS), CONNECT and absolute targets (a browser
 * sends them to the proxy that the person has set up, and to nobody else), other protocols.
 *
 * A page chooses method, target and fields of its requests; so a method is any token of any
 * length, and a head that cannot be read for certain is refused.
 */

static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_listed(const struct visit_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (host_name_is_beneath(name, names->names[i]))
			return true;
	return false;
}

static enum visit refuse(unsigned status, const char *why, struct visit_refusal *ret)
{
	ret->status = status;
	ret->why = why;
	return VISIT_REFUSE;
}

static enum visit judge_head(const char *data, size_t size, const struct visit_names *names,
			     struct visit_refusal *ret)
{
	char name[HOST_NAME_SIZE];
	struct http_slice host;
	const char *why;
	enum http_result result = http_read_host(data, size, &host, &why);

	if (result == HTTP_MORE)
		return VISIT_HEAD;
	if (result == HTTP_BAD)
		return refuse(size >= HTTP_HEAD_MAX ? 431 : 400, why, ret);
	/* Old clients send none; every browser does. */
	if (host.size == 0)
		return VISIT_PASS;
	if (host_name_read(host.at, host.size, name) &&
	    (host_name_is_local(name, names->own) || is_listed(names, name)))
		return VISIT_PASS;
	return refuse(421, "its Host is not a name of this machine", ret);
}

/* Does a line end in a version of HTTP/1? */
static bool ends_in_version(const char *line, size_t size)
{
	static const char version[] = " HTTP/1.";
	const size_t n = sizeof version - 1;

	return size > n + 1 && memcmp(line + size - n - 1, version, n) == 0;
}

/* `word` bytes of `data` are the method; what follows has to be a target and a version. */
static enum visit read_line(const char *data, size_t size, size_t word)
{
	const char *target = data + word + 1, *end;
	size_t n;

	if (data[word] != ' ')
		return VISIT_PASS;
	if (size == word + 1)
		return VISIT_LINE;
	if (*target != '/')
		return VISIT_PASS;
	end = memchr(target, '\n', size - word - 1);
	n = end ? (size_t)(end - data) : size;
	if (end && n > 0 && data[n - 1] == '\r')
		n--;
	for (size_t i = word + 1; i < n; i++) {
		unsigned char c = (unsigned char)data[i];

		if ((c < ' ' && !(c == '\r' && i == size - 1)) || c == 0x7f)
			return VISIT_PASS; /* no text */
	}
	if (!end)
		return VISIT_LINE;
	return ends_in_version(data, n) ? VISIT_HEAD : VISIT_PASS;
}

enum visit visit_read(const char *data, size_t size, const struct visit_names *names,
		      struct visit_refusal *ret)
{
	enum visit visit;
	size_t word = 0;

	while (word < size && is_token(data[word]))
		word++;
	if (word == size)
		return VISIT_WORD;
	if (word == 0)
		return VISIT_PASS;
	visit = read_line(data, size, word);
	if (visit == VISIT_LINE && size >= HTTP_HEAD_MAX)
		return refuse(431, "a request line of more than 64 KiB", ret);
	return visit == VISIT_HEAD ? judge_head(data, size, names, ret) : visit;
}

enum visit visit_read_on(const char *data, size_t size, struct visit_refusal *ret)
{
	size_t word = 0;

	while (word < size && is_token(data[word]))
		word++;
	if (word == size)
		return VISIT_WORD;
	return data[word] == ' ' ? refuse(431, "a method of more than 64 KiB", ret) : VISIT_PASS;
}
