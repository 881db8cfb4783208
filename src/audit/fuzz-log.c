/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a log, a note, a proof and a key. Nothing may count as signed, because the
 * fuzzer has no key. */
#include "audit/key-form.h"
#include "audit/key-trust.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/merkle.h"
#include "audit/note.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Insert the right hash of the line before, or no second line would be checked. */
static void mend(const struct audit_check *check, char *line, size_t size)
{
	char hex[HASH_HEX_SIZE];

	hash_to_hex(check->place.prev, HASH_SIZE, hex);
	if (size > 9 + 64 && memcmp(line, "{\"prev\":\"", 9) == 0)
		memcpy(line + 9, hex, 64);
}

static void check_log(char *text, size_t size)
{
	static struct audit_trust trust;
	struct audit_check check = {.trust = &trust};
	char *at = text, *end;

	if (!trust.n)
		audit_trust_add(&trust, (const unsigned char *)"no key that anybody has, 32 byte");
	while ((end = memchr(at, '\n', size - (size_t)(at - text)))) {
		struct audit_line line;

		mend(&check, at, (size_t)(end - at));
		if (!audit_line_parse(at, (size_t)(end - at), &line)) {
			struct buf again = BUF_INIT(4096 + AUDIT_LINE_MAX);

			/* A line that was parsed must be written the same. */
			audit_line_format(&line, &again);
			buf_add(&again, line.members, line.members_size);
			if (again.used != (size_t)(end - at) ||
			    memcmp(again.data, at, again.used) != 0)
				abort();
			buf_done(&again);
		}
		if (audit_check_line(&check, at, (size_t)(end - at), NULL) < 0)
			break;
		at = end + 1;
	}
	audit_check_end(&check, NULL);
	if (check.n_signed)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct audit_trust trust;
	struct audit_head head;
	struct audit_place place;
	unsigned char public[32];
	const char *value;
	char *text = malloc(size + 1), string[256];
	size_t length;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	check_log(text, size);
	if (strlen(text) == size) {
		audit_head_parse(text, size, &head);
		audit_place_parse(text, size, &place);
		audit_key_parse_public(text, public);
		audit_trust_hand_over(&trust, text, size);
		audit_note_is_signed(text, size, "atoll/0123456789abcdef",
				     (const unsigned char *)"no key that anybody has, 32 byte");
	}
	if (audit_json_is_valid(text, size) &&
	    audit_json_member(text, size, "note", &value, &length) == 0)
		audit_json_string(value, length, string, sizeof string);
	free(text);
	return 0;
}
