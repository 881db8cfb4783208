/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One spelling for names and addresses
 *
 * Addresses are read and written here and not by the C library, because libraries differ in what
 * they let pass ("010.1", zones, brackets), and whoever is strict on one side only has a gap.
 */
#include "spec/network-inner.h"

#include <errno.h>
#include <stdio.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* ---- names ---- */

/* Do some readers take a name that ends so for an IPv4 address: "127.1", "0x7f.1", "2130706433"? */
static bool is_numeric_label(const char *label, size_t size)
{
	bool is_hex = size >= 2 && label[0] == '0' && label[1] == 'x';

	for (size_t i = is_hex ? 2 : 0; i < size; i++)
		if (is_hex ? str_hex_value(label[i]) < 0 : !is_digit(label[i]))
			return false;
	return true;
}

static const char *label_problem(const char *label, size_t size)
{
	if (size == 0)
		return "there is nothing between two dots, or in front of one";
	if (size > 63)
		return "a part between two dots is longer than 63 characters";
	if (label[0] == '-' || label[size - 1] == '-')
		return "a part of it begins or ends with '-'";
	for (size_t i = 0; i < size; i++)
		if (!is_digit(label[i]) && !(label[i] >= 'a' && label[i] <= 'z') &&
		    label[i] != '-' && label[i] != '_')
			return "letters, digits, '-', '_' and dots make a name";
	return NULL;
}

const char *network_name_problem(const char *text, size_t size, char ret[NETWORK_NAME_MAX])
{
	char name[NETWORK_NAME_MAX];
	const char *problem = NULL;
	size_t start = 0;

	if (size > 0 && text[size - 1] == '.')
		size--;
	if (size == 0)
		return "it is empty";
	if (size >= NETWORK_NAME_MAX)
		return "it is longer than 253 characters";
	for (size_t i = 0; i < size; i++)
		name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
	name[size] = '\0';
	for (size_t i = 0; i <= size && !problem; i++) {
		if (i < size && name[i] != '.')
			continue;
		problem = label_problem(name + start, i - start);
		if (!problem && i == size && is_numeric_label(name + start, i - start))
			problem = "it looks like an address, which is written as four numbers up "
				  "to 255 without zeros in front";
		start = i + 1;
	}
	if (!problem)
		memcpy(ret, name, size + 1);
	return problem;
}

int network_name(const char *text, size_t size, char ret[NETWORK_NAME_MAX])
{
	return network_name_problem(text, size, ret) ? -EINVAL : 0;
}

/* ---- addresses ---- */

static bool read_v4(const char *text, size_t size, uint8_t ret[4])
{
	size_t at = 0;

	for (int i = 0; i < 4; i++) {
		unsigned value = 0;
		size_t start;

		if (i > 0 && (at == size || text[at++] != '.'))
			return false;
		start = at;
		while (at < size && is_digit(text[at]) && at - start < 3)
			value = value * 10 + (unsigned)(text[at++] - '0');
		if (at == start || value > 255 || (at - start > 1 && text[start] == '0'))
			return false;
		ret[i] = (uint8_t)value;
	}
	return at == size;
}

/* A group of up to four hexadecimal digits; 0 if there is none. */
static size_t read_group(const char *text, size_t size, uint8_t ret[2])
{
	unsigned value = 0;
	size_t n = 0;

	while (n < size && n < 4 && str_hex_value(text[n]) >= 0)
		value = value << 4 | (unsigned)str_hex_value(text[n++]);
	ret[0] = (uint8_t)(value >> 8);
	ret[1] = (uint8_t)value;
	return n;
}

static bool read_v6(const char *text, size_t size, uint8_t ret[16])
{
	size_t at = 0, used = 0, gap = SIZE_MAX, n;

	memset(ret, 0, 16);
	if (size >= 2 && text[0] == ':' && text[1] == ':') {
		gap = 0;
		at = 2;
	}
	while (at < size) {
		if (used <= 12 && read_v4(text + at, size - at, ret + used)) {
			used += 4;
			break;
		}
		n = used <= 14 ? read_group(text + at, size - at, ret + used) : 0;
		if (n == 0)
			return false;
		used += 2;
		at += n;
		if (at == size)
			break;
		if (text[at++] != ':' || at == size)
			return false;
		if (text[at] != ':')
			continue;
		if (gap != SIZE_MAX)
			return false;
		gap = used;
		at++;
	}
	if (gap == SIZE_MAX)
		return used == 16;
	/* "::" stands for one group at least. */
	if (used > 14)
		return false;
	memmove(ret + 16 - (used - gap), ret + gap, used - gap);
	memset(ret + gap, 0, 16 - used);
	return true;
}

int network_address(const char *text, size_t size, struct network_address *ret)
{
	struct network_address address = {{[10] = 0xff, [11] = 0xff}};

	if (!read_v4(text, size, address.bytes + 12)) {
		if (size >= 2 && text[0] == '[' && text[size - 1] == ']') {
			text++;
			size -= 2;
		}
		if (!read_v6(text, size, address.bytes))
			return -EINVAL;
	}
	*ret = address;
	return 0;
}

bool network_address_is_v4(const struct network_address *address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

/* As RFC 5952 wants it: lower case, the longest run of at least two zero groups left out. */
void network_address_text(const struct network_address *address, char ret[46])
{
	const uint8_t *b = address->bytes;
	int best = -1, best_length = 1;
	size_t used = 0;

	if (network_address_is_v4(address)) {
		snprintf(ret, 46, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
		return;
	}
	for (int i = 0; i < 8; i++) {
		int length = 0;

		while (i + length < 8 && !b[2 * (i + length)] && !b[2 * (i + length) + 1])
			length++;
		if (length > best_length) {
			best = i;
			best_length = length;
		}
	}
	for (int i = 0; i < 8; i++) {
		if (i == best) {
			used += (size_t)snprintf(ret + used, 46 - used, "::");
			i += best_length - 1;
			continue;
		}
		used += (size_t)snprintf(ret + used, 46 - used, "%s%x",
					 i && i != best + best_length ? ":" : "",
					 b[2 * i] << 8 | b[2 * i + 1]);
	}
}

bool network_block_has(const struct network_address *base, unsigned bits,
		       const struct network_address *address)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(base->bytes, address->bytes, whole) != 0)
		return false;
	return rest == 0 ||
	       ((base->bytes[whole] ^ address->bytes[whole]) & (0xff00 >> rest & 0xff)) == 0;
}

/* ---- which of them are odd ---- */

struct block {
	uint8_t bytes[16];
	unsigned bits;
	const char *what;
};

/* clang-format off */
#define V4(a, b, c, d, bits_, what_) {{[10] = 0xff, 0xff, a, b, c, d}, 96 + (bits_), what_}

static const char metadata_service[] = "metadata service";

/* The first that fits counts. The blocks are those of the firewall of `atoll setup`, and what
 * else nobody serves from. Blocks for documentation are not odd: nobody can be there. */
static const struct block odd_blocks[] = {
	V4(169, 254, 169, 254, 32, metadata_service),
	V4(169, 254, 170, 2, 32, metadata_service),	/* containers at Amazon */
	V4(169, 254, 170, 23, 32, metadata_service),
	V4(100, 100, 100, 200, 32, metadata_service),	/* Alibaba */
	V4(168, 63, 129, 16, 32, metadata_service),	/* Azure; public by its number */
	V4(192, 0, 0, 192, 32, metadata_service),	/* Oracle */
	V4(0, 0, 0, 0, 8, "this host"),
	V4(10, 0, 0, 0, 8, "private"),
	V4(100, 64, 0, 0, 10, "shared (CGNAT)"),
	V4(127, 0, 0, 0, 8, "loopback"),
	V4(169, 254, 0, 0, 16, "link-local"),
	V4(172, 16, 0, 0, 12, "private"),
	V4(192, 0, 0, 0, 24, "reserved"),
	V4(192, 88, 99, 0, 24, "reserved"),
	V4(192, 168, 0, 0, 16, "private"),
	V4(198, 18, 0, 0, 15, "reserved for tests"),
	V4(224, 0, 0, 0, 4, "multicast"),
	V4(240, 0, 0, 0, 4, "reserved"),
	{{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, metadata_service},
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, metadata_service}, /* Google */
	{{0}, 128, "unspecified"},
	{{[15] = 1}, 128, "loopback"},
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, "of a local NAT64"},
	{{0x20, 0x01, 0x00, 0x00}, 32, "carrying another (Teredo)"},
	{{0x20, 0x01, 0x00, 0x02, 0x00, 0x00}, 48, "reserved for tests"},
	{{0x20, 0x01, 0x00, 0x10}, 28, "reserved"},
	{{0x20, 0x01, 0x00, 0x20}, 28, "reserved"},
	{{0x20, 0x02}, 16, "carrying another (6to4)"},
	{{0xfc}, 7, "private"},
	{{0xfe, 0x80}, 10, "link-local"},
	{{0xfe, 0xc0}, 10, "private"},
	{{0xff}, 8, "multicast"},
};
/* clang-format on */

static bool is_in(const struct block *block, const struct network_address *address)
{
	struct network_address base;

	memcpy(base.bytes, block->bytes, sizeof base.bytes);
	return network_block_has(&base, block->bits, address);
}

bool network_carried(const struct network_address *address, struct network_address *ret)
{
	static const struct block nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96, NULL};

	if (!is_in(&nat64, address))
		return false;
	network_address_of_v4(address->bytes + 12, ret);
	return true;
}

const char *network_address_oddity(const struct network_address *address)
{
	struct network_address carried;

	if (network_carried(address, &carried))
		address = &carried;
	for (size_t i = 0; i < ARRAY_SIZE(odd_blocks); i++)
		if (is_in(&odd_blocks[i], address))
			return odd_blocks[i].what;
	/* All that was ever given out of IPv6 begins with the bits 001. Elsewhere are more ways to
	 * write an IPv4 address ("::127.0.0.1"), and what is yet to be decided. */
	if (!network_address_is_v4(address) && (address->bytes[0] & 0xe0) != 0x20)
		return "reserved";
	return NULL;
}

bool network_block_is_public(const struct network_address *base, unsigned bits)
{
	if (network_address_oddity(base))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(odd_blocks); i++) {
		struct network_address odd;

		memcpy(odd.bytes, odd_blocks[i].bytes, sizeof odd.bytes);
		if (network_block_has(base, bits, &odd))
			return false;
	}
	return network_address_is_v4(base) ? bits >= 96 : bits >= 3;
}

bool network_is_metadata(const struct network_address *address)
{
	const char *oddity = network_address_oddity(address);

	return oddity && streq(oddity, metadata_service);
}

bool network_is_synthetic(const struct network_address *address)
{
	/* As in egress.h. */
	static const struct block blocks[] = {
		{{[10] = 0xff, 0xff, 198, 18}, 96 + 15, NULL},
		{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, 0xa7, 0x01}, 96, NULL},
	};

	return is_in(&blocks[0], address) || is_in(&blocks[1], address);
}

bool network_is_loopback(const struct network_address *address)
{
	static const struct block blocks[] = {
		{{[10] = 0xff, 0xff, 127}, 96 + 8, NULL},
		{{[15] = 1}, 128, NULL},
	};

	return is_in(&blocks[0], address) || is_in(&blocks[1], address);
}
