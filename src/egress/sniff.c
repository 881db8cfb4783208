/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core.h"

#include <string.h>

/*
 * What the first bytes of a client look like
 *
 * Where a protocol is not known by its port, TLS and HTTP are still to be found: they carry a name,
 * and a server that has many might serve another than the one that is allowed. So whatever a
 * lenient server would take for a request line is one: any method, any letter case, line feeds
 * before it, and for the well-known methods without a version, too. A line of another protocol
 * passes as soon as it cannot be a request line any more.
 */

#define METHOD_MAX 32
#define LINE_MAX_  8192

static bool is_token(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
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

/* What follows method and blank. */
static enum sniff sniff_target(const uint8_t *data, size_t size, bool is_known)
{
	size_t length = 0;

	while (length < size && (data[length] >= ' ' || data[length] == '\t') &&
	       data[length] != 0x7f)
		length++;
	if (has_version(data, length))
		return SNIFF_HTTP;
	if (length == size)
		return size < LINE_MAX_ ? SNIFF_MORE : SNIFF_HTTP;
	if (data[length] != '\n' && data[length] != '\r')
		return SNIFF_OTHER; /* no text */
	if (is_known && length > 0 && (data[0] == '/' || memmem(data, length, "://", 3)))
		return SNIFF_HTTP;
	return SNIFF_OTHER;
}

enum sniff sniff_read(const uint8_t *data, size_t size)
{
	size_t method = 0;

	if (size == 0)
		return SNIFF_MORE;
	if (data[0] == 0x16)
		return size == 1 ? SNIFF_MORE : data[1] == 3 ? SNIFF_TLS : SNIFF_OTHER;
	while (size > 0 && (*data == '\r' || *data == '\n')) {
		data++;
		size--;
	}
	while (method < size && method < METHOD_MAX && is_token(data[method]))
		method++;
	if (method == size)
		return SNIFF_MORE;
	if (method == 0 || (data[method] != ' ' && data[method] != '\t'))
		return SNIFF_OTHER;
	return sniff_target(data + method + 1, size - method - 1,
			    begins_method(data, method, true));
}

bool sniff_is_strange(const uint8_t *data, size_t size)
{
	size_t word = 0;

	if (size == 0 || data[0] == 0x16)
		return false;
	while (size > 0 && (*data == '\r' || *data == '\n')) {
		data++;
		size--;
	}
	while (word < size && is_token(data[word]))
		word++;
	if (word < size && data[word] != ' ' && data[word] != '\t')
		return false;
	return word > 0 && !begins_method(data, word, word < size);
}
