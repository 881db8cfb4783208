/* SPDX-License-Identifier: Apache-2.0 */
/* Input that is parsed before anything is known about it: envelopes, base64, names of users,
 * filters. */
#include "e2b/connect.h"
#include "e2b/e2b-pairs.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_envelopes(const char *data, size_t size)
{
	struct connect_envelope envelope;

	while (connect_next(data, size, 1U << 20, &envelope) > 0) {
		if (envelope.used > size || envelope.message + envelope.size > data + size)
			abort();
		json_decref(
			json_loadb(envelope.message, envelope.size, JSON_REJECT_DUPLICATES, NULL));
		data += envelope.used;
		size -= envelope.used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *out = NULL;
	struct box_pairs pairs;
	uint64_t number;
	size_t n;

	if (!text)
		return 0;
	read_envelopes((const char *)data, size);
	if (connect_decode((const char *)data, size, &out, &n) == 0) {
		if (n > size || out[n] != '\0')
			abort();
		free(out);
	}
	out = NULL;
	connect_basic_user(text, &out);
	free(out);
	connect_number(text, &number);
	if (e2b_read_filter(text, &pairs))
		e2b_free_pairs(&pairs);
	free(text);
	return 0;
}
