/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and compares security identifiers. Called by the readers of access control lists
 * and SDDL, and by the planner.
 */
#include "nt/sid.h"

#include "nt/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AUTHORITY_LIMIT (UINT64_C(1) << 48)

const struct nt_sid nt_sid_everyone = {.authority = 1, .n_subs = 1, .subs = {0}};
const struct nt_sid nt_sid_creator_owner = {.authority = 3, .n_subs = 1, .subs = {0}};
const struct nt_sid nt_sid_creator_group = {.authority = 3, .n_subs = 1, .subs = {1}};
const struct nt_sid nt_sid_owner_rights = {.authority = 3, .n_subs = 1, .subs = {4}};
const struct nt_sid nt_sid_anonymous = {.authority = 5, .n_subs = 1, .subs = {7}};
const struct nt_sid nt_sid_authenticated = {.authority = 5, .n_subs = 1, .subs = {11}};
const struct nt_sid nt_sid_restricted = {.authority = 5, .n_subs = 1, .subs = {12}};
const struct nt_sid nt_sid_system = {.authority = 5, .n_subs = 1, .subs = {18}};
const struct nt_sid nt_sid_administrators = {.authority = 5, .n_subs = 2, .subs = {32, 544}};
const struct nt_sid nt_sid_users = {.authority = 5, .n_subs = 2, .subs = {32, 545}};

bool nt_sid_equal(const struct nt_sid *a, const struct nt_sid *b)
{
	return a->authority == b->authority && a->n_subs == b->n_subs &&
	       memcmp(a->subs, b->subs, a->n_subs * sizeof *a->subs) == 0;
}

struct nt_sid nt_sid_from_random(const uint8_t random[12])
{
	struct nt_sid sid = {.authority = 5, .n_subs = 5, .subs = {21, NT_SID_TAG}};

	for (size_t i = 0; i < 3; i++)
		sid.subs[2 + i] = read_u32(random + 4 * i);
	sid.subs[4] |= UINT32_C(1) << 31;
	return sid;
}

bool nt_sid_is_ours(const struct nt_sid *sid)
{
	return sid->authority == 5 && sid->n_subs == 5 && sid->subs[0] == 21 &&
	       sid->subs[1] == NT_SID_TAG && sid->subs[4] >> 31;
}

/* A decimal number without leading zeros and at most `max`. Returns the number of digits, or 0. */
static size_t parse_decimal(const char *text, size_t size, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;
	size_t n = 0;

	while (n < size && text[n] >= '0' && text[n] <= '9') {
		unsigned digit = (unsigned)(text[n] - '0');

		if (n == 1 && text[0] == '0')
			return 0;
		if (value > (max - digit) / 10)
			return 0;
		value = value * 10 + digit;
		n++;
	}
	*ret = value;
	return n;
}

/* "0x" and exactly twelve digits, as Windows writes an authority that needs more than 32 bits. */
static size_t parse_hex_authority(const char *text, size_t size, uint64_t *ret)
{
	uint64_t value = 0;

	if (size < 14 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
		return 0;
	for (size_t i = 2; i < 14; i++) {
		char c = text[i];
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'F')
			digit = (unsigned)(c - 'A') + 10;
		else
			return 0;
		value = value << 4 | digit;
	}
	*ret = value;
	return 14;
}

static size_t parse_authority(const char *text, size_t size, uint64_t *ret)
{
	size_t n = parse_hex_authority(text, size, ret);

	return n ? n : parse_decimal(text, size, AUTHORITY_LIMIT - 1, ret);
}

int nt_sid_parse(const char *text, size_t size, struct nt_sid *ret)
{
	struct nt_sid sid = {0};
	size_t at = 4, n;

	if (size < 5 || (text[0] != 'S' && text[0] != 's') || memcmp(text + 1, "-1-", 3) != 0)
		return -EINVAL;
	n = parse_authority(text + at, size - at, &sid.authority);
	if (n == 0)
		return -EINVAL;
	at += n;
	while (at + 1 < size && text[at] == '-') {
		uint64_t sub;

		n = parse_decimal(text + at + 1, size - at - 1, UINT32_MAX, &sub);
		if (n == 0 || sid.n_subs == NT_SID_SUBS_MAX)
			return -EINVAL;
		sid.subs[sid.n_subs++] = (uint32_t)sub;
		at += 1 + n;
	}
	if (sid.n_subs == 0)
		return -EINVAL;
	*ret = sid;
	return (int)at;
}

size_t nt_sid_text(const struct nt_sid *sid, char *ret)
{
	unsigned long long authority = sid->authority;
	int n = snprintf(ret, NT_SID_TEXT_SIZE, authority >> 32 ? "S-1-0x%012llx" : "S-1-%llu",
			 authority);

	for (size_t i = 0; i < sid->n_subs; i++)
		n += snprintf(ret + n, NT_SID_TEXT_SIZE - (size_t)n, "-%u", sid->subs[i]);
	return (size_t)n;
}

int nt_sid_unpack(const uint8_t *data, size_t size, struct nt_sid *ret)
{
	struct nt_sid sid = {0};

	/* A SID without sub-authorities names nobody, and has no text. */
	if (size < 8 || data[0] != 1 || data[1] == 0 || data[1] > NT_SID_SUBS_MAX ||
	    size < 8 + 4U * data[1])
		return -EINVAL;
	sid.n_subs = data[1];
	for (size_t i = 2; i < 8; i++)
		sid.authority = sid.authority << 8 | data[i];
	for (size_t i = 0; i < sid.n_subs; i++)
		sid.subs[i] = read_u32(data + 8 + 4 * i);
	*ret = sid;
	return 8 + 4 * sid.n_subs;
}

size_t nt_sid_size(const struct nt_sid *sid)
{
	return 8 + 4U * sid->n_subs;
}

size_t nt_sid_pack(const struct nt_sid *sid, uint8_t *ret)
{
	ret[0] = 1;
	ret[1] = sid->n_subs;
	for (size_t i = 0; i < 6; i++)
		ret[2 + i] = (uint8_t)(sid->authority >> (40 - 8 * i));
	for (size_t i = 0; i < sid->n_subs; i++)
		write_u32(ret + 8 + 4 * i, sid->subs[i]);
	return nt_sid_size(sid);
}
