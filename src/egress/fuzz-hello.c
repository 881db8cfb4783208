/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a client says first: there is an answer, it does not depend on how the bytes are cut,
 * and what was clear once stays so. */
#include "egress/core.h"
#include "egress/sniff.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A line comes to the same however it is cut; a line with a version that ends it is a request. */
static void fuzz_line(const uint8_t *data, size_t size, size_t half)
{
	struct sniff_line whole = {0}, cut = {0};
	enum sniff first = sniff_line_add(&cut, data, half);
	enum sniff sniffed = sniff_line_add(&whole, data, size);
	static const char request[] = " / HTTP/1.1\r\n";

	if ((first == SNIFF_MORE ? sniff_line_add(&cut, data + half, size - half) : first) !=
	    sniffed)
		abort();
	if (sniffed == SNIFF_MORE && whole.size > 0 &&
	    sniff_line_add(&whole, (const uint8_t *)request, sizeof request - 1) != SNIFF_HTTP)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello hello, part;
	enum hello_result whole = hello_read(data, size, &hello);
	enum sniff sniffed = sniff_read(data, size);
	size_t half = size ? data[size - 1] % (size + 1) : 0;
	enum hello_result first = hello_read(data, half, &part);

	if (memchr(hello.name, 0, sizeof hello.name) == NULL)
		abort();
	if (hello.name[0]) {
		char again[NETWORK_NAME_MAX];

		if (network_name(hello.name, strlen(hello.name), again) < 0 ||
		    strcmp(again, hello.name) != 0)
			abort();
	}
	if (first != HELLO_MORE && first != whole && size <= 16384)
		abort();
	if (first == HELLO_OK &&
	    (strcmp(part.name, hello.name) != 0 || part.has_ech != hello.has_ech))
		abort();
	if (whole == HELLO_OK && sniffed != SNIFF_TLS)
		abort();
	/* Once it is known to be HTTP or something else, more bytes change nothing; a line that is
	 * passed on before its end is no TLS. */
	if (sniff_read(data, half) == SNIFF_LINE
		    ? sniffed == SNIFF_TLS || sniffed == SNIFF_MORE
		    : sniff_read(data, half) != SNIFF_MORE && sniff_read(data, half) != sniffed)
		abort();
	fuzz_line(data, size, half);
	if (sniff_is_strange(data, size) && sniffed == SNIFF_TLS)
		abort();
	return 0;
}
