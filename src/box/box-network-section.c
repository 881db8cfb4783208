/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box-network-section.h"

#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network.h"
#include "box/daemon-state.h"

/*
 * What comes of E2B's rules: the section of a contract; box-network.c tells how
 */

#include <stdio.h>
#include <strings.h>

/* Everything that is out there. */
static const struct block everything[] = {
	{{{[10] = 0xff, 0xff}}, 96},
	{{{0x20}}, 3},
};

static bool contains(const struct block *outer, const struct block *inner)
{
	return outer->bits <= inner->bits &&
	       network_block_has(&outer->base, outer->bits, &inner->base);
}

/* What remains of a block without all that is allowed: halves, until each is in or out. */
static int subtract(struct wish *wish, struct block block, struct blocks *ret)
{
	bool is_touched = false;
	struct block upper;
	int r;

	for (size_t i = 0; i < wish->allowed.n; i++) {
		if (contains(&wish->allowed.list[i], &block))
			return 0;
		is_touched = is_touched || contains(&block, &wish->allowed.list[i]);
	}
	if (!is_touched)
		return wish_add_block(wish, ret, &block);
	block.bits++;
	upper = block;
	upper.base.bytes[(block.bits - 1) / 8] |= (uint8_t)(0x80U >> (block.bits - 1) % 8);
	r = subtract(wish, block, ret);
	return r < 0 ? r : subtract(wish, upper, ret);
}

static bool is_within(const char *name, const char *pattern)
{
	size_t n = strlen(name), m;

	if (strcasecmp(name, pattern) == 0)
		return true;
	if (pattern[0] != '*')
		return false;
	m = strlen(pattern) - 1;
	return n > m && strcasecmp(name + n - m, pattern + 1) == 0;
}

/* Can this host be reached at all? Where it cannot, nothing is to be set. */
static bool is_reached(const struct wish *wish, const char *host, bool is_open)
{
	if (is_open)
		return true;
	for (size_t i = 0; i < wish->n_names; i++) {
		if (is_within(host, wish->names[i]))
			return true;
	}
	return false;
}

static void write_blocks(struct json *json, const struct blocks *blocks)
{
	char address[46], text[64];

	for (size_t i = 0; i < blocks->n; i++) {
		const struct block *block = &blocks->list[i];
		bool is_v4 = network_address_is_v4(&block->base);

		network_address_text(&block->base, address);
		snprintf(text, sizeof text, "%s/%u", address, block->bits - (is_v4 ? 96 : 0));
		json_open(json, NULL, '{');
		json_str(json, "host", block->bits == 128 ? address : text);
		json_close(json, '}');
	}
}

static bool is_first(const struct wish *wish, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (strcasecmp(wish->headers[j].host, wish->headers[i].host) == 0)
			return false;
	}
	return true;
}

static void write_line(struct json *json, const char *host, int port, bool is_opened)
{
	json_open(json, NULL, '{');
	json_str(json, "host", host);
	if (port) {
		json_open(json, "ports", '[');
		json_int(json, NULL, port);
		json_close(json, ']');
	}
	if (is_opened)
		json_str(json, "tls", "inspect");
	json_close(json, '}');
}

/* A host with headers is reached over TLS alone: a request in clear would go without them. */
static void write_allowed(struct json *json, const struct wish *wish, bool is_open)
{
	json_open(json, "allow", '[');
	for (size_t i = 0; i < wish->n_headers; i++) {
		if (is_first(wish, i) && is_reached(wish, wish->headers[i].host, is_open))
			write_line(json, wish->headers[i].host, 443, true);
	}
	for (size_t i = 0; !is_open && i < wish->n_names; i++) {
		bool is_written = false;

		for (size_t j = 0; j < wish->n_headers; j++)
			is_written = is_written ||
				     strcasecmp(wish->headers[j].host, wish->names[i]) == 0;
		if (!is_written)
			write_line(json, wish->names[i], 0, false);
	}
	if (!is_open)
		write_blocks(json, &wish->allowed);
	json_close(json, ']');
}

static void write_denied(struct json *json, const struct wish *wish, const struct blocks *blocks,
			 bool is_open)
{
	json_open(json, "deny", '[');
	for (size_t i = 0; i < wish->n_headers; i++) {
		if (is_first(wish, i) && is_reached(wish, wish->headers[i].host, is_open))
			write_line(json, wish->headers[i].host, 80, false);
	}
	write_blocks(json, blocks);
	json_close(json, ']');
}

static void write_headers(struct json *json, const struct wish *wish, const char *dir, bool is_open)
{
	char text[4200];

	json_open(json, "secrets", '[');
	for (size_t i = 0; i < wish->n_headers; i++) {
		if (!is_reached(wish, wish->headers[i].host, is_open))
			continue;
		json_open(json, NULL, '{');
		snprintf(text, sizeof text, "HEADER_%zu", i);
		json_str(json, "name", text);
		json_str(json, "host", wish->headers[i].host);
		json_str(json, "header", wish->headers[i].name);
		snprintf(text, sizeof text, "file:%s/%s-%zu", dir ? dir : "/nowhere", wish->stamp,
			 i);
		json_str(json, "from", text);
		json_bool(json, "set", true);
		json_close(json, '}');
	}
	json_close(json, ']');
}

int wish_write(struct wish *wish, const char *dir, struct buf *out)
{
	bool is_open = wish->allows_all || !wish->denies_all || wish->n_names == 0;
	struct json json = {out};
	struct blocks denied = {0};
	int r = 0;

	if (wish->denies_all && wish->allowed.n == 0 && !wish->allows_all)
		is_open = false; /* nothing at all is simpler said */
	if (is_open && wish->denies_all && !wish->allows_all) {
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(everything); i++)
			r = subtract(wish, everything[i], &denied);
	}
	for (size_t i = 0;
	     r == 0 && is_open && !wish->denies_all && !wish->allows_all && i < wish->denied.n; i++)
		r = subtract(wish, wish->denied.list[i], &denied);
	if (r < 0)
		return r;
	json_open(&json, NULL, '{');
	json_str(&json, "mode", is_open ? "open" : "rules");
	json_bool(&json, "proxy", false); /* programs connect as if there were nothing */
	json_open(&json, "near", '[');	  /* what is this machine's own is nobody's here */
	json_close(&json, ']');
	write_allowed(&json, wish, is_open);
	write_denied(&json, wish, &denied, is_open);
	write_headers(&json, wish, dir, is_open);
	json_close(&json, '}');
	return buf_error(out) < 0 ? error_oom(wish->err) : 0;
}
