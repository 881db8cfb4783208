/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "egress/core.h"

#include <errno.h>

static size_t query(uint8_t *out, const char *labels, size_t size, unsigned type, unsigned class)
{
	memcpy(out, "\x12\x34\1\0\0\1\0\0\0\0\0\0", 12);
	memcpy(out + 12, labels, size);
	out[12 + size] = (uint8_t)(type >> 8);
	out[13 + size] = (uint8_t)type;
	out[14 + size] = (uint8_t)(class >> 8);
	out[15 + size] = (uint8_t) class;
	return 16 + size;
}

#define GOOD "\4GoOd\4tEsT"

TEST(a_question_is_read_and_repeated_as_it_was)
{
	uint8_t data[600], out[DNS_ANSWER_MAX];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 1), n;

	CHECK_INT(dns_read(data, size, &parsed), DNS_NOERROR);
	CHECK_STR(parsed.text, "GoOd.tEsT");
	CHECK_INT(parsed.type, DNS_A);
	n = dns_write(data, &parsed, DNS_NOERROR, (const uint8_t *)"\xc6\x12\1\2", 4, out);
	CHECK_INT(n, size + 16);
	CHECK(memcmp(out, "\x12\x34\x81\x80\0\1\0\1\0\0\0\0", 12) == 0);
	CHECK(memcmp(out + 12, data + 12, size - 12) == 0);
	CHECK(memcmp(out + size, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\1\2", 16) == 0);
}

TEST(answers_are_never_answered)
{
	uint8_t data[600];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 1);

	data[2] |= 0x80;
	CHECK_INT(dns_read(data, size, &parsed), -EINVAL);
	for (size_t i = 0; i < 12; i++)
		CHECK_INT(dns_read(data, i, &parsed), -EINVAL);
}

TEST(every_cut_message_is_a_form_error)
{
	uint8_t data[600], out[DNS_ANSWER_MAX];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 1);

	for (size_t i = 12; i < size; i++) {
		CHECK_INT(dns_read(data, i, &parsed), DNS_FORMERR);
		CHECK_INT(dns_write(data, &parsed, DNS_FORMERR, NULL, 0, out), 12);
	}
	CHECK_INT(dns_read(data, size + 1, &parsed), DNS_FORMERR);
}

TEST(counts_that_are_not_a_querys_are_form_errors)
{
	uint8_t data[600];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 1);

	for (int at = 4; at < 12; at += 2) {
		data[at + 1] += 2;
		CHECK_INT(dns_read(data, size, &parsed), DNS_FORMERR);
		data[at + 1] -= 2;
	}
	data[5] = 0;
	CHECK_INT(dns_read(data, size, &parsed), DNS_FORMERR);
}

TEST(names_that_point_or_are_too_long_are_form_errors)
{
	uint8_t data[600];
	char labels[300] = {0};
	struct dns_query parsed;
	size_t size;

	size = query(data, "\xc0\x0c", 2, DNS_A, 1);
	CHECK_INT(dns_read(data, size, &parsed), DNS_FORMERR);
	size = query(data, "\x40", 1, DNS_A, 1);
	CHECK_INT(dns_read(data, size, &parsed), DNS_FORMERR);
	for (int i = 0; i < 4; i++) {
		labels[64 * i] = 63;
		memset(labels + 64 * i + 1, 'a', 63);
	}
	size = query(data, labels, 4 * 64 + 1, DNS_A, 1);
	CHECK_INT(dns_read(data, size, &parsed), DNS_FORMERR);
	labels[3 * 64] = 61; /* 255 bytes in all: as long as a name may be */
	labels[3 * 64 + 62] = 0;
	size = query(data, labels, 255, DNS_A, 1);
	CHECK_INT(dns_read(data, size, &parsed), DNS_NOERROR);
	CHECK_INT(parsed.n_text, 253);
}

TEST(other_classes_and_operations_are_refused)
{
	uint8_t data[600];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 3);

	CHECK_INT(dns_read(data, size, &parsed), DNS_REFUSED);
	data[2] = 0x29;
	CHECK_INT(dns_read(data, size, &parsed), DNS_NOTIMP);
}

TEST(bytes_that_are_no_names_show_as_question_marks)
{
	uint8_t data[600];
	struct dns_query parsed;
	size_t size = query(data, "\4a.\0b\4test", 11, DNS_A, 1);

	CHECK_INT(dns_read(data, size, &parsed), DNS_NOERROR);
	CHECK_STR(parsed.text, "a??b.test");
	CHECK_INT(parsed.n_text, 9);
}

TEST(edns_is_answered_and_says_why)
{
	uint8_t data[600], out[DNS_ANSWER_MAX];
	struct dns_query parsed;
	size_t size = query(data, GOOD, sizeof GOOD, DNS_A, 1), n;

	data[11] = 1;
	memcpy(data + size, "\0\0\x29\4\xd0\0\0\x80\0\0\6\0\x0a\0\2xy", 17);
	CHECK_INT(dns_read(data, size + 17, &parsed), DNS_NOERROR);
	CHECK(parsed.has_edns);
	parsed.is_blocked = true;
	n = dns_write(data, &parsed, DNS_NXDOMAIN, NULL, 0, out);
	CHECK_INT(out[3] & 15, 3);
	CHECK_INT(out[11], 1);
	CHECK(memmem(out, n, "\0\x0f\0\x1d\0\x0fnot allowed", 17));
	/* another version */
	data[size + 6] = 1;
	CHECK_INT(dns_read(data, size + 17, &parsed), DNS_BADVERS);
	dns_write(data, &parsed, DNS_BADVERS, NULL, 0, out);
	CHECK_INT(out[3] & 15, 0);
	CHECK_INT(out[size + 5], 1);
	/* an option that reaches beyond */
	data[size + 6] = 0;
	data[size + 14] = 9;
	CHECK_INT(dns_read(data, size + 17, &parsed), DNS_FORMERR);
}
