/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How E2B's rules become ours
 *
 * There everything is allowed that nothing denies, what is allowed beats what is denied, and what
 * is denied are addresses. Here nothing is allowed by itself and deny beats allow. So:
 *
 *   nothing denied          mode open
 *   some blocks denied      mode open; denied is what remains of the blocks without what is allowed
 *   all denied, addresses   the same: all addresses but the allowed ones are denied
 *   allowed
 *   all denied, names       mode rules: names and addresses with ports 80 and 443. A name goes
 *   allowed                 wherever it leads, so its addresses cannot be denied
 *
 * Addresses that are not public are never reached: a tenant's box has no business in the network
 * of this machine.
 */
#include "box/network.h"

#include <jansson.h> /* before our own json.h */

#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "spec/network.h"
#include "spec/spec.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define LINES_MAX  500 /* of what a contract may have */
#define NAMES_MAX  128
#define HOSTS_MAX  10 /* with rules, as there */
#define VALUE_SIZE 8192
#define TEXT_MAX   (256U << 10)

struct block {
	struct network_address base;
	unsigned bits; /* 96 more for IPv4 */
};

/* Everything that is out there. */
static const struct block everything[] = {
	{{{[10] = 0xff, 0xff}}, 96},
	{{{0x20}}, 3},
};

struct blocks {
	struct block list[LINES_MAX];
	size_t n;
};

struct header {
	const char *host, *name, *value;
};

struct wish {
	struct blocks allowed, denied;
	const char *names[NAMES_MAX];
	size_t n_names;
	struct header headers[64];
	size_t n_headers;
	bool denies_all, allows_all;
	struct atoll_error *err;
};

static int refuse(struct wish *wish, const char *where, const char *what, const char *why)
{
	char shown[96];

	return error_set(wish->err, ATOLL_FAULT_REQUEST, EINVAL, "%s: '%s' %s", where,
			 str_show(what, shown, sizeof shown), why);
}

/* ---- addresses ---- */

static void mask(struct network_address *address, unsigned bits)
{
	for (unsigned i = bits; i < 128; i++)
		address->bytes[i / 8] &= (uint8_t) ~(0x80U >> i % 8);
}

/* "192.0.2.0/24", "2001:db8::1"; false: none, so perhaps a name. */
static bool read_block(const char *text, struct block *ret)
{
	const char *slash = strchr(text, '/');
	size_t size = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long bits;
	bool is_v4;
	char *end;

	if (network_address(text, size, &ret->base) < 0)
		return false;
	is_v4 = network_address_is_v4(&ret->base);
	bits = is_v4 ? 32 : 128;
	if (slash) {
		if (slash[1] < '0' || slash[1] > '9')
			return false;
		bits = strtoul(slash + 1, &end, 10);
		if (*end || bits > (is_v4 ? 32U : 128U))
			return false;
	}
	ret->bits = (unsigned)bits + (is_v4 ? 96 : 0);
	mask(&ret->base, ret->bits);
	return true;
}

/* All of IPv4, or of IPv6: there is no more of the one where the protocol comes from. */
static bool is_all(const struct block *block)
{
	return block->bits == 96 ? network_address_is_v4(&block->base) : block->bits < 3;
}

static bool contains(const struct block *outer, const struct block *inner)
{
	return outer->bits <= inner->bits &&
	       network_block_has(&outer->base, outer->bits, &inner->base);
}

static int add_block(struct wish *wish, struct blocks *blocks, const struct block *block)
{
	if (blocks->n == LINES_MAX)
		return error_set(wish->err, ATOLL_FAULT_REQUEST, EINVAL,
				 "network: these rules need more than %d lines", LINES_MAX);
	blocks->list[blocks->n++] = *block;
	return 0;
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
		return add_block(wish, ret, &block);
	block.bits++;
	upper = block;
	upper.base.bytes[(block.bits - 1) / 8] |= (uint8_t)(0x80U >> (block.bits - 1) % 8);
	r = subtract(wish, block, ret);
	return r < 0 ? r : subtract(wish, upper, ret);
}

/* ---- what is asked for ---- */

static int take_allowed(struct wish *wish, const char *text)
{
	struct block block;

	if (streq(text, "*")) {
		wish->allows_all = true;
		return 0;
	}
	if (read_block(text, &block)) {
		if (is_all(&block)) {
			wish->allows_all = true;
			return 0;
		}
		if (!network_block_is_public(&block.base, block.bits))
			return refuse(wish, "network.allowOut", text,
				      "is not public: nothing in this machine's own network can be "
				      "reached");
		return add_block(wish, &wish->allowed, &block);
	}
	if (strchr(text, '/') || strchr(text, ':'))
		return refuse(wish, "network.allowOut", text, "is no address, block or name");
	if (wish->n_names == NAMES_MAX)
		return refuse(wish, "network.allowOut", text, "is one name too many (128)");
	wish->names[wish->n_names++] = text;
	return 0;
}

static int take_denied(struct wish *wish, const char *text)
{
	struct block block;

	if (!read_block(text, &block))
		return refuse(wish, "network.denyOut", text,
			      "is no address and no block; names cannot be denied");
	if (is_all(&block)) {
		wish->denies_all = true;
		return 0;
	}
	return add_block(wish, &wish->denied, &block);
}

static int take_list(struct wish *wish, const json_t *network, const char *name,
		     int (*take)(struct wish *wish, const char *text))
{
	json_t *list = json_object_get(network, name), *item;
	size_t i;
	int r = 0;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return refuse(wish, "network", name, "is no list");
	json_array_foreach(list, i, item)
	{
		if (r == 0 && json_is_string(item))
			r = take(wish, json_string_value(item));
		else if (r == 0)
			r = refuse(wish, "network", name, "has something else than texts in it");
	}
	return r;
}

static int take_header(struct wish *wish, const char *host, const char *name, const json_t *value)
{
	struct header *header = wish->headers;
	const char *text = json_string_value(value);

	if (!text || !*text || strlen(text) >= VALUE_SIZE)
		return refuse(wish, "network.rules", name, "has no value of 1 to 8191 bytes");
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			return refuse(wish, "network.rules", name,
				      "has a value that cannot stand in a header");
	}
	if (text[0] == ' ' || ends_with(text, " "))
		return refuse(wish, "network.rules", name, "has a value with spaces around it");
	/* The last word about a header counts. */
	while (header < wish->headers + wish->n_headers &&
	       (strcasecmp(header->host, host) != 0 || strcasecmp(header->name, name) != 0))
		header++;
	if (header == wish->headers + ARRAY_SIZE(wish->headers))
		return refuse(wish, "network.rules", name, "is one header too many (64)");
	if (header == wish->headers + wish->n_headers)
		wish->n_headers++;
	*header = (struct header){host, name, text};
	return 0;
}

static int take_rule(struct wish *wish, const char *host, const json_t *rule)
{
	json_t *transform = json_object_get(rule, "transform"), *headers, *value;
	const char *name;
	int r = 0;

	json_object_foreach((json_t *)rule, name, value)
	{
		if (!streq(name, "transform"))
			return refuse(wish, "network.rules", name, "is nothing that a rule can do");
	}
	json_object_foreach(transform, name, value)
	{
		if (!streq(name, "headers"))
			return refuse(wish, "network.rules", name,
				      "is nothing that can be transformed; headers are");
	}
	headers = json_object_get(transform, "headers");
	json_object_foreach(headers, name, value)
	{
		if (r == 0)
			r = take_header(wish, host, name, value);
	}
	return r;
}

static int take_rules(struct wish *wish, const json_t *network)
{
	json_t *rules = json_object_get(network, "rules"), *list, *rule;
	const char *host;
	int r = 0;
	size_t i;

	if (!rules || json_is_null(rules))
		return 0;
	if (!json_is_object(rules))
		return refuse(wish, "network", "rules", "is no object");
	if (json_object_size(rules) > HOSTS_MAX)
		return refuse(wish, "network", "rules", "has more than 10 hosts");
	json_object_foreach(rules, host, list)
	{
		struct block ignored;

		if (strchr(host, '*') || read_block(host, &ignored))
			return refuse(
				wish, "network.rules", host,
				"is not one host by its name: headers are set for one at a time");
		json_array_foreach(list, i, rule)
		{
			if (r == 0)
				r = take_rule(wish, host, rule);
		}
	}
	return r;
}

static int take_rest(struct wish *wish, const json_t *network)
{
	json_t *proxy = json_object_get(network, "egressProxy");
	json_t *ports = json_object_get(network, "httpsPorts");

	if (proxy && !json_is_null(proxy))
		return refuse(wish, "network", "egressProxy",
			      "is not to be had: connections leave by this machine's own way");
	if (json_array_size(ports) > 0)
		return refuse(wish, "network", "httpsPorts",
			      "is not to be had: ports inside are spoken to in plain HTTP");
	return 0;
}

static int check_sense(struct wish *wish)
{
	if (wish->n_names > 0 && !wish->denies_all)
		return refuse(wish, "network.allowOut", wish->names[0],
			      "is a name, and names are only told apart if everything else is "
			      "denied: add 0.0.0.0/0 to denyOut");
	return 0;
}

/* ---- what comes of it ---- */

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
		snprintf(text, sizeof text, "file:%s/%zu", dir ? dir : "/nowhere", i);
		json_str(json, "from", text);
		json_bool(json, "set", true);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static int write_section(struct wish *wish, const char *dir, struct buf *out)
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
	write_allowed(&json, wish, is_open);
	write_denied(&json, wish, &denied, is_open);
	write_headers(&json, wish, dir, is_open);
	json_close(&json, '}');
	return buf_error(out) < 0 ? error_oom(wish->err) : 0;
}

/* ---- values, in files ---- */

static int write_value(int dir_fd, size_t number, const char *value)
{
	cleanup_fd int fd = -EBADF;
	size_t size = strlen(value);
	char name[24];

	snprintf(name, sizeof name, "%zu", number);
	unlinkat(dir_fd, name, 0);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && write(fd, value, size) == (ssize_t)size ? 0 : -(errno ? errno : EIO);
}

static int write_values(const struct wish *wish, const char *dir)
{
	cleanup_fd int fd = -EBADF;
	int r = 0;

	if (wish->n_headers == 0)
		return 0;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_set(wish->err, ATOLL_FAULT_HOST, errno, "create '%s'", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(wish->err, ATOLL_FAULT_HOST, errno, "open '%s'", dir);
	for (size_t i = 0; r == 0 && i < wish->n_headers; i++)
		r = write_value(fd, i, wish->headers[i].value);
	return r < 0 ? error_set(wish->err, ATOLL_FAULT_HOST, -r, "write to '%s'", dir) : 0;
}

/* Hosts and headers are looked at by the one who will have to read them. */
static int check_section(const char *section, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX + 64);
	struct spec *spec = spec_new("/", "/", err);
	int r;

	if (!spec)
		return -ENOMEM;
	buf_addf(&text, "{\"network\":%s}", section);
	r = buf_error(&text) < 0 ? error_oom(err)
				 : spec_load(spec, "network", "/", text.data, text.used, err);
	spec_free(spec);
	if (r < 0 && err)
		err->errnum = EINVAL;
	return r;
}

static int translate(struct wish *wish, const json_t *network, const char *dir, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(TEXT_MAX);
	int r = take_list(wish, network, "allowOut", take_allowed);

	if (r == 0)
		r = take_list(wish, network, "denyOut", take_denied);
	if (r == 0)
		r = take_rules(wish, network);
	if (r == 0)
		r = take_rest(wish, network);
	if (r == 0)
		r = check_sense(wish);
	if (r == 0)
		r = write_section(wish, dir, &out);
	if (r == 0)
		r = check_section(out.data, wish->err);
	if (r == 0 && dir)
		r = write_values(wish, dir);
	if (r < 0)
		return r;
	*ret = buf_take(&out);
	return *ret ? 0 : error_oom(wish->err);
}

int box_network_section(const char *network, bool has_internet, const char *secrets_dir, char **ret,
			struct atoll_error *err)
{
	json_t *object =
		network ? json_loads(network, JSON_REJECT_DUPLICATES, NULL) : json_object();
	struct wish *wish = calloc(1, sizeof *wish);
	int r;

	if (!wish || !json_is_object(object)) {
		r = object && !json_is_object(object)
			    ? error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "network: is no object")
			    : error_oom(err);
	} else {
		wish->err = err;
		wish->denies_all = !has_internet;
		r = translate(wish, object, secrets_dir, ret);
	}
	json_decref(object);
	free(wish);
	return r;
}
