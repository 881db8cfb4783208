/* SPDX-License-Identifier: Apache-2.0 */
/* Queries come from the sandbox. An answer is never longer than its buffer, repeats the question,
 * and is itself never taken for a query. */
#include "egress/core.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t address[16] = {1, 2, 3, 4};
	uint8_t out[DNS_ANSWER_MAX];
	struct dns_query query, again;
	int code = dns_read(data, size, &query);
	size_t n;

	if (code < 0)
		return 0;
	if (query.n_text >= sizeof query.text || strlen(query.text) != query.n_text)
		abort();
	query.is_blocked = size & 1;
	n = dns_write(data, &query, (enum dns_code)code, address, size & 2 ? 4 : 16, out);
	if (n < 12 || n > sizeof out || memcmp(out, data, 2) != 0)
		abort();
	if (query.question_size && memcmp(out + 12, data + 12, query.question_size) != 0)
		abort();
	if (dns_read(out, n, &again) >= 0)
		abort();
	return 0;
}
