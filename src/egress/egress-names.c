/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "egress/core.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>

/*
 * Names and the addresses that stand for them
 *
 * A name gets a number, which is the host part of its IPv4 address and the end of its IPv6 one.
 * The sandbox chooses names, so they are bounded, and found by a hash with a secret key. When all
 * are taken the one that was not asked for or connected to for longest goes; its number rests until
 * all others had their turn, so that an address somebody remembers does not soon mean another name.
 */

#define BUCKETS	     NAMES_MAX
#define NUMBER_FIRST 256	/* no address ends in 0.0 */
#define NUMBERS	     (1u << 17) /* what a /15 has */

struct name {
	struct name *chained;	    /* in its bucket */
	struct name *older, *newer; /* by last use */
	uint32_t number;
	uint32_t holds;
	char text[];
};

struct names {
	struct name *buckets[BUCKETS];
	struct name *by_number[NUMBERS];
	struct name *oldest, *newest;
	size_t n;
	uint32_t next; /* number to try first */
	unsigned char key[crypto_shorthash_KEYBYTES];
};

_Static_assert(NUMBERS - NUMBER_FIRST > NAMES_MAX, "a free number is always found");

struct names *names_new(void)
{
	/* Pages of it are there only once they are used. */
	struct names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	names->next = NUMBER_FIRST;
	crypto_shorthash_keygen(names->key);
	return names;
}

void names_free(struct names *names)
{
	struct name *newer;

	if (!names)
		return;
	for (struct name *name = names->oldest; name; name = newer) {
		newer = name->newer;
		free(name);
	}
	free(names);
}

static struct name **bucket(struct names *names, const char *text)
{
	uint64_t hash;

	_Static_assert(sizeof hash == crypto_shorthash_BYTES, "");
	crypto_shorthash((unsigned char *)&hash, (const unsigned char *)text, strlen(text),
			 names->key);
	return &names->buckets[hash % BUCKETS];
}

static struct name *find(struct names *names, const char *text)
{
	for (struct name *name = *bucket(names, text); name; name = name->chained)
		if (streq(name->text, text))
			return name;
	return NULL;
}

static void take_out(struct names *names, struct name *name)
{
	if (name->older)
		name->older->newer = name->newer;
	else
		names->oldest = name->newer;
	if (name->newer)
		name->newer->older = name->older;
	else
		names->newest = name->older;
}

static void put_newest(struct names *names, struct name *name)
{
	name->newer = NULL;
	name->older = names->newest;
	if (names->newest)
		names->newest->newer = name;
	else
		names->oldest = name;
	names->newest = name;
}

static void touch(struct names *names, struct name *name)
{
	take_out(names, name);
	put_newest(names, name);
}

static bool forget_oldest(struct names *names)
{
	struct name *name = names->oldest;
	struct name **place;

	while (name && name->holds)
		name = name->newer;
	if (!name)
		return false;
	for (place = bucket(names, name->text); *place != name; place = &(*place)->chained)
		;
	*place = name->chained;
	take_out(names, name);
	names->by_number[name->number] = NULL;
	names->n--;
	free(name);
	return true;
}

static uint32_t free_number(struct names *names)
{
	uint32_t number = names->next;

	while (names->by_number[number])
		number = number + 1 == NUMBERS ? NUMBER_FIRST : number + 1;
	names->next = number + 1 == NUMBERS ? NUMBER_FIRST : number + 1;
	return number;
}

uint32_t names_number(struct names *names, const char *text)
{
	struct name *name = find(names, text);
	struct name **place;
	size_t size = strlen(text) + 1;

	if (name) {
		touch(names, name);
		return name->number;
	}
	if (names->n >= NAMES_MAX && !forget_oldest(names))
		return 0;
	name = malloc(sizeof *name + size);
	if (!name)
		return 0;
	memcpy(name->text, text, size);
	name->holds = 0;
	name->number = free_number(names);
	place = bucket(names, text);
	name->chained = *place;
	*place = name;
	names->by_number[name->number] = name;
	put_newest(names, name);
	names->n++;
	return name->number;
}

static bool number_of(const struct network_address *address, uint32_t *ret)
{
	struct in_addr v4;
	struct in6_addr v6;
	const uint8_t *last = address->bytes + 12;

	inet_pton(AF_INET, EGRESS_SYNTHETIC_V4, &v4);
	inet_pton(AF_INET6, EGRESS_SYNTHETIC_V6, &v6);
	if (!network_address_is_v4(address) && memcmp(address->bytes, &v6, 12) != 0)
		return false;
	*ret = (uint32_t)last[0] << 24 | (uint32_t)last[1] << 16 | (uint32_t)last[2] << 8 | last[3];
	*ret -= ntohl(v4.s_addr);
	if (network_address_is_v4(address))
		return *ret < NUMBERS;
	if (*ret >= NUMBERS)
		*ret = 0; /* in the block, and nobody's */
	return true;
}

const char *names_of(struct names *names, const struct network_address *address)
{
	uint32_t number;
	struct name *name;

	if (!number_of(address, &number))
		return NULL;
	name = names->by_number[number];
	if (name)
		touch(names, name);
	return name ? name->text : NULL;
}

void names_hold(struct names *names, const char *text)
{
	struct name *name = find(names, text);

	if (name)
		name->holds++;
}

void names_release(struct names *names, const char *text)
{
	struct name *name = find(names, text);

	if (name && name->holds)
		name->holds--;
}
