/* SPDX-License-Identifier: Apache-2.0 */
/* Heads come from the sandbox and from servers. The result must not depend on the cuts between
 * pieces, and a head that is written anew is read as the same message. */
#include "base/buf.h"
#include "base/scope.h"
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_head head, other;

static void add(struct buf *out, struct http_slice slice)
{
	buf_add(out, slice.at, slice.size);
}

static bool same(struct http_slice a, struct http_slice b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

/* Writes the head as a proxy sends it to a server. */
static void write_anew(struct buf *out)
{
	add(out, head.method);
	buf_add_char(out, ' ');
	add(out, head.path);
	add(out, head.query);
	buf_addf(out, " HTTP/1.%u\r\nHost: a\r\n", head.minor);
	for (size_t i = 0; i < head.n_fields; i++)
		if (!http_is_hop(&head, head.fields[i].name)) {
			add(out, head.fields[i].name);
			buf_add_str(out, ": ");
			add(out, head.fields[i].value);
			buf_add_str(out, "\r\n");
		}
	if (head.framing == HTTP_CHUNKED)
		buf_add_str(out, "Transfer-Encoding: chunked\r\n");
	else if (head.has_length)
		buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)head.length);
	buf_add_str(out, "\r\n");
}

static void check_request(const char *text, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	const char *why = NULL;

	if (head.size > size || head.n_fields > HTTP_FIELDS_MAX || head.path.size == 0)
		abort();
	/* No shorter beginning is a complete head, and none is refused. */
	for (size_t i = size < 256 ? 0 : head.size - 16; i < head.size; i++)
		if (http_read_request(text, i, &other, &why) != HTTP_MORE)
			abort();
	if (head.form == HTTP_AUTHORITY || head.size > HTTP_HEAD_MAX - 64 ||
	    head.n_fields == HTTP_FIELDS_MAX)
		return;
	write_anew(&out);
	if (http_read_request(out.data, out.used, &other, &why) != HTTP_OK)
		abort();
	if (other.size != out.used || other.framing != head.framing ||
	    other.length != head.length || !same(other.path, head.path) ||
	    !same(other.query, head.query) || other.wants_websocket)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_slice methods[] = {{"GET", 3}, {"HEAD", 4}, {"CONNECT", 7}};
	/* Of exactly its size, so that reading past it shows. */
	cleanup_free char *text = malloc(size ? size : 1);
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	const char *why = NULL;
	struct http_place place;
	enum http_result result;

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	result = http_read_request(text, size, &head, &why);
	if (result == HTTP_BAD && !why)
		abort();
	if (result == HTTP_OK)
		check_request(text, size);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		result = http_read_answer(text, size, methods[i], &head, &why);
		if (result == HTTP_OK && (head.size > size || head.status < 100))
			abort();
		if (result == HTTP_BAD && !why)
			abort();
	}
	http_copy_trailers(text, size, &out);
	if (http_place((struct http_slice){text, size}, &place) == 0 && size == 0)
		abort();
	return 0;
}
