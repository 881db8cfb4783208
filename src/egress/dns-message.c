/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core.h"

#include <errno.h>
#include <string.h>

/*
 * DNS messages: one question in, at most one address out
 *
 * The question is repeated byte for byte, so that a resolver that varies the case of its letters
 * (a defence against forged answers) finds its own back. Names in a query have no reason to be
 * compressed, and are refused if they are.
 */

#define HEADER_SIZE 12
#define TTL	    60
#define TYPE_OPT    41
#define CLASS_IN    1
#define OPTION_EDE  15 /* extended DNS error, RFC 8914 */
#define EDE_BLOCKED 15

enum flag {
	FLAG_QR = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_AA = 0x0400,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_CD = 0x0010,
};

static const char blocked_text[] = "not allowed by the contract";

static uint16_t get16(const uint8_t *data)
{
	return (uint16_t)(data[0] << 8 | data[1]);
}

static size_t put16(uint8_t *data, unsigned value)
{
	data[0] = (uint8_t)(value >> 8);
	data[1] = (uint8_t)value;
	return 2;
}

static bool is_name_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* The labels from `at` on as text; returns where they end, or 0. */
static size_t read_name(const uint8_t *data, size_t size, size_t at, struct dns_query *query)
{
	size_t start = at;

	query->n_text = 0;
	for (;;) {
		size_t length;

		if (at >= size)
			return 0;
		length = data[at++];
		if (length == 0)
			break;
		if (length > 63 || length > size - at || at + length + 1 - start > 255)
			return 0;
		if (query->n_text > 0)
			query->text[query->n_text++] = '.';
		for (size_t i = 0; i < length; i++)
			query->text[query->n_text++] =
				is_name_char(data[at + i]) ? (char)data[at + i] : '?';
		at += length;
	}
	query->text[query->n_text] = '\0';
	return at;
}

/* The one record that may follow the question: EDNS, or else it is a form error. Its options are
 * walked and not looked at. */
static int read_edns(const uint8_t *data, size_t size, size_t at, struct dns_query *query)
{
	size_t length, end;
	unsigned version;

	if (size - at < 11 || data[at] != 0 || get16(data + at + 1) != TYPE_OPT)
		return DNS_FORMERR;
	version = data[at + 6];
	length = get16(data + at + 9);
	at += 11;
	if (length != size - at)
		return DNS_FORMERR;
	for (end = at + length; at < end;) {
		if (end - at < 4 || get16(data + at + 2) > end - at - 4)
			return DNS_FORMERR;
		at += 4u + get16(data + at + 2);
	}
	query->has_edns = true;
	return version == 0 ? DNS_NOERROR : DNS_BADVERS;
}

int dns_read(const uint8_t *data, size_t size, struct dns_query *ret)
{
	size_t at;
	int code = DNS_NOERROR;

	*ret = (struct dns_query){0};
	if (size < HEADER_SIZE)
		return -EINVAL;
	ret->id = get16(data);
	ret->flags = get16(data + 2);
	if (ret->flags & FLAG_QR)
		return -EINVAL;
	if (ret->flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	if (size > DNS_QUERY_MAX || (ret->flags & FLAG_TC) || get16(data + 4) != 1 ||
	    get16(data + 6) != 0 || get16(data + 8) != 0 || get16(data + 10) > 1)
		return DNS_FORMERR;
	at = read_name(data, size, HEADER_SIZE, ret);
	if (at == 0 || size - at < 4)
		return DNS_FORMERR;
	ret->type = get16(data + at);
	ret->class = get16(data + at + 2);
	at += 4;
	ret->question_size = at - HEADER_SIZE;
	if (get16(data + 10) == 1)
		code = read_edns(data, size, at, ret);
	else if (at != size)
		code = DNS_FORMERR;
	if (code == DNS_NOERROR && ret->class != CLASS_IN)
		code = DNS_REFUSED;
	return code;
}

static size_t write_edns(const struct dns_query *query, enum dns_code code, uint8_t *data)
{
	size_t at = 0, length_at;

	data[at++] = 0;
	at += put16(data + at, TYPE_OPT);
	at += put16(data + at, DNS_ANSWER_MAX);
	data[at++] = (uint8_t)(code >> 4);
	data[at++] = 0; /* version */
	at += put16(data + at, 0);
	length_at = at;
	at += 2;
	if (query->is_blocked) {
		at += put16(data + at, OPTION_EDE);
		at += put16(data + at, 2 + sizeof blocked_text - 1);
		at += put16(data + at, EDE_BLOCKED);
		memcpy(data + at, blocked_text, sizeof blocked_text - 1);
		at += sizeof blocked_text - 1;
	}
	put16(data + length_at, (unsigned)(at - length_at - 2));
	return at;
}

size_t dns_write(const uint8_t *data, const struct dns_query *query, enum dns_code code,
		 const uint8_t *address, size_t address_size, uint8_t ret[DNS_ANSWER_MAX])
{
	size_t at = HEADER_SIZE;

	memset(ret, 0, HEADER_SIZE);
	put16(ret, query->id);
	put16(ret + 2, (FLAG_QR | FLAG_RA | (query->flags & (FLAG_OPCODE | FLAG_RD | FLAG_CD)) |
			((unsigned)code & 15)));
	if (query->question_size > 0) {
		put16(ret + 4, 1);
		memcpy(ret + at, data + HEADER_SIZE, query->question_size);
		at += query->question_size;
	}
	if (address_size > 0 && code == DNS_NOERROR && query->question_size > 0) {
		put16(ret + 6, 1);
		at += put16(ret + at, 0xc000 | HEADER_SIZE);
		at += put16(ret + at, address_size == 4 ? DNS_A : DNS_AAAA);
		at += put16(ret + at, CLASS_IN);
		at += put16(ret + at, 0);
		at += put16(ret + at, TTL);
		at += put16(ret + at, (unsigned)address_size);
		memcpy(ret + at, address, address_size);
		at += address_size;
	}
	if (query->has_edns) {
		put16(ret + 10, 1);
		at += write_edns(query, code, ret + at);
	}
	return at;
}
