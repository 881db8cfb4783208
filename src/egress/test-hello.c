/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "egress/egress-inner.h"

#include <stdint.h>

/* A hello with the given extensions, as one record. Returns its size. */
static size_t make(uint8_t *out, const void *extensions, size_t size)
{
	size_t at = 9;
	size_t body;

	memcpy(out + at, "\3\3", 2);
	memset(out + at + 2, 7, 32);
	at += 34;
	memcpy(out + at, "\0\0\2\x13\1\1\0", 7); /* session, one cipher, no compression */
	at += 7;
	if (extensions) {
		out[at++] = (uint8_t)(size >> 8);
		out[at++] = (uint8_t)size;
		memcpy(out + at, extensions, size);
		at += size;
	}
	body = at - 9;
	memcpy(out, "\x16\3\1", 3);
	out[3] = (uint8_t)((body + 4) >> 8);
	out[4] = (uint8_t)(body + 4);
	out[5] = 1;
	out[6] = 0;
	out[7] = (uint8_t)(body >> 8);
	out[8] = (uint8_t)body;
	return at;
}

/* server_name with one name */
static size_t sni(uint8_t *out, const char *name)
{
	size_t n = strlen(name);
	const uint8_t head[] = {0, 0, 0, (uint8_t)(n + 5), 0, (uint8_t)(n + 3), 0, 0, (uint8_t)n};

	memcpy(out, head, sizeof head);
	memcpy(out + sizeof head, name, n);
	return sizeof head + n;
}

static enum hello_result with_name(const char *name, struct hello *ret)
{
	uint8_t extension[300], data[600];

	return hello_read(data, make(data, extension, sni(extension, name)), ret);
}

TEST(a_name_is_found_in_its_one_spelling)
{
	struct hello hello;

	CHECK(with_name("example.com", &hello) == HELLO_OK);
	CHECK_STR(hello.name, "example.com");
	CHECK(with_name("EXAMPLE.com", &hello) == HELLO_OK);
	CHECK_STR(hello.name, "example.com");
	CHECK(!hello.has_ech && !hello.has_bad_name);
}

TEST(what_is_no_host_name_is_marked)
{
	struct hello hello;

	CHECK(with_name("exa mple.com", &hello) == HELLO_OK);
	CHECK(hello.has_bad_name && !hello.name[0]);
	CHECK(with_name("192.0.2.1", &hello) == HELLO_OK);
	CHECK(hello.has_bad_name);
	CHECK(with_name("", &hello) == HELLO_OK);
	CHECK(hello.has_bad_name);
}

TEST(without_extensions_there_is_no_name)
{
	uint8_t data[200];
	struct hello hello;

	CHECK(hello_read(data, make(data, NULL, 0), &hello) == HELLO_OK);
	CHECK(!hello.name[0] && !hello.has_bad_name);
	CHECK(hello_read(data, make(data, "", 0), &hello) == HELLO_OK);
}

TEST(every_beginning_wants_more_and_every_other_split_into_records_is_the_same)
{
	uint8_t extension[300], whole[600], split[1200];
	struct hello hello;
	size_t size = make(whole, extension, sni(extension, "example.com"));

	for (size_t i = 0; i < size; i++)
		CHECK(hello_read(whole, i, &hello) == HELLO_MORE);
	for (size_t step = 1; step < size - 5; step++) {
		size_t used = 0;

		for (size_t at = 5; at < size; at += step) {
			size_t n = size - at < step ? size - at : step;

			memcpy(split + used, "\x16\3\3", 3);
			split[used + 3] = 0;
			split[used + 4] = (uint8_t)n;
			memcpy(split + used + 5, whole + at, n);
			used += 5 + n;
			if (used > sizeof split - 300)
				break;
		}
		if (step < 4)
			continue; /* does not fit */
		CHECK(hello_read(split, used, &hello) == HELLO_OK);
		CHECK_STR(hello.name, "example.com");
	}
}

TEST(two_names_are_bad)
{
	uint8_t extension[600], data[900];
	struct hello hello;
	size_t n = sni(extension, "a.example");

	n += sni(extension + n, "b.example");
	CHECK(hello_read(data, make(data, extension, n), &hello) == HELLO_BAD);
	/* and so are two in one list */
	n = sni(extension, "a.example");
	memcpy(extension + n, extension + 6, n - 6);
	extension[3] = (uint8_t)(2 * (n - 6) + 2);
	extension[5] = (uint8_t)(2 * (n - 6));
	CHECK(hello_read(data, make(data, extension, 2 * n - 6), &hello) == HELLO_BAD);
}

TEST(an_encrypted_hello_is_seen)
{
	uint8_t extension[300], data[600];
	struct hello hello;
	size_t n = sni(extension, "a.example");

	memcpy(extension + n, "\xfe\x0d\0\1x", 5);
	CHECK(hello_read(data, make(data, extension, n + 5), &hello) == HELLO_OK);
	CHECK(hello.has_ech);
}

TEST(lengths_that_do_not_fit_together_are_bad)
{
	uint8_t extension[300], data[600], copy[600];
	struct hello hello;
	size_t n = sni(extension, "a.example"), size = make(data, extension, n);

	/* extension list, extension, name list, name */
	for (size_t at = 9 + 34 + 7; at < 9 + 34 + 7 + 11; at++) {
		if (at == 9 + 34 + 7 + 2 || at == 9 + 34 + 7 + 3)
			continue; /* its type: then there is no name */
		for (int change = 1; change < 256; change += 17) {
			memcpy(copy, data, size);
			copy[at] = (uint8_t)(copy[at] + change);
			CHECK(hello_read(copy, size, &hello) == HELLO_BAD);
		}
	}
	/* a byte behind the message in its record */
	memcpy(copy, data, size);
	copy[4]++;
	copy[size] = 0;
	CHECK(hello_read(copy, size + 1, &hello) == HELLO_BAD);
	/* more than is looked at */
	memcpy(copy, data, size);
	copy[6] = 1;
	CHECK(hello_read(copy, size, &hello) == HELLO_BAD);
}

TEST(other_protocols_are_not_tls)
{
	struct hello hello;

	CHECK(hello_read((const uint8_t *)"GET / HTTP/1.1", 14, &hello) == HELLO_NOT_TLS);
	CHECK(hello_read((const uint8_t *)"\x16\2\1\0\5", 5, &hello) == HELLO_NOT_TLS);
	CHECK(hello_read((const uint8_t *)"\x80\x2e\1\3\1", 5, &hello) == HELLO_NOT_TLS);
	CHECK(hello_read((const uint8_t *)"\x16\3\1\0\0", 5, &hello) == HELLO_BAD);
	CHECK(hello_read((const uint8_t *)"\x16\3\1\0\4\2\0\0\0", 9, &hello) == HELLO_BAD);
}
