/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box-network.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network-section.h"
#include "box/box-types.h"
#include "box/daemon-state.h"
#include "box/host-addresses.h"
#include "box/secret-place.h"
#include "box/secret.h"
#include "spec/spec.h"

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

#include <jansson.h> /* before our own json.h */

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOSTS_MAX  10 /* with rules, as there */
#define VALUE_SIZE 8192

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

int wish_add_block(struct wish *wish, struct blocks *blocks, const struct block *block)
{
	if (blocks->n == WISH_LINES)
		return error_set(wish->err, ATOLL_FAULT_REQUEST, EINVAL,
				 "network: these rules need more than %d lines", WISH_LINES);
	blocks->list[blocks->n++] = *block;
	return 0;
}

/* ---- what is asked for ---- */

static int parse_allowed(struct wish *wish, const char *text)
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
		if (!network_block_is_public(&block.base, block.bits) ||
		    (block.bits == 128 && box_host_has(&block.base)))
			return refuse(
				wish, "network.allowOut", text,
				"is not public, or this machine's own: nothing in its network "
				"can be reached");
		return wish_add_block(wish, &wish->allowed, &block);
	}
	if (strchr(text, '/') || strchr(text, ':'))
		return refuse(wish, "network.allowOut", text, "is no address, block or name");
	if (wish->n_names == WISH_NAMES)
		return refuse(wish, "network.allowOut", text, "is one name too many (128)");
	wish->names[wish->n_names++] = text;
	return 0;
}

static int parse_denied(struct wish *wish, const char *text)
{
	struct block block;

	if (!read_block(text, &block))
		return refuse(wish, "network.denyOut", text,
			      "is no address and no block; names cannot be denied");
	if (is_all(&block)) {
		wish->denies_all = true;
		return 0;
	}
	return wish_add_block(wish, &wish->denied, &block);
}

static int parse_list(struct wish *wish, const json_t *network, const char *name,
		      int (*parse)(struct wish *wish, const char *text))
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
			r = parse(wish, json_string_value(item));
		else if (r == 0)
			r = refuse(wish, "network", name, "has something else than texts in it");
	}
	return r;
}

static int parse_header(struct wish *wish, const char *host, const char *name, const json_t *value)
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

static int parse_rule(struct wish *wish, const char *host, const json_t *rule)
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
			r = parse_header(wish, host, name, value);
	}
	return r;
}

static int parse_rules(struct wish *wish, const json_t *network)
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
				r = parse_rule(wish, host, rule);
		}
	}
	return r;
}

static int parse_rest(struct wish *wish, const json_t *network)
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

/* ---- values, in files ---- */

static int write_value(const struct wish *wish, int dir_fd, size_t number, const char *value)
{
	cleanup_fd int fd = -EBADF;
	size_t size = strlen(value);
	char name[40];

	snprintf(name, sizeof name, "%s-%zu", wish->stamp, number);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && write(fd, value, size) == (ssize_t)size ? 0 : -(errno ? errno : EIO);
}

/* Names of stored secrets become what they stand for, in the file alone. */
static int write_header(const struct wish *wish, int dir_fd, size_t i)
{
	char value[SECRET_VALUE_MAX + 1];
	int r = secret_expand(wish->tenant, wish->headers[i].value, value, wish->err);

	if (r == 0 && dir_fd >= 0)
		r = write_value(wish, dir_fd, i, value);
	else if (r < 0)
		r = -EINVAL;
	sodium_memzero(value, sizeof value);
	return r;
}

static int check_values(const struct wish *wish)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < wish->n_headers; i++)
		r = write_header(wish, -1, i);
	return r;
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
		r = write_header(wish, fd, i);
	return r < 0 ? error_set(wish->err, ATOLL_FAULT_HOST, -r, "write to '%s'", dir) : 0;
}

/* Hosts and headers are looked at by the one who will have to read them. */
static int check_section(const char *section, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(WISH_TEXT + 64);
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
	cleanup_buf struct buf out = BUF_INIT(WISH_TEXT);
	int r = parse_list(wish, network, "allowOut", parse_allowed);

	if (r == 0)
		r = parse_list(wish, network, "denyOut", parse_denied);
	if (r == 0)
		r = parse_rules(wish, network);
	if (r == 0)
		r = parse_rest(wish, network);
	if (r == 0)
		r = check_sense(wish);
	if (r == 0)
		r = wish_write(wish, dir, &out);
	if (r == 0)
		r = check_section(out.data, wish->err);
	if (r == 0)
		r = check_values(wish);
	if (r == 0 && dir)
		r = write_values(wish, dir);
	if (r < 0)
		return r;
	*ret = buf_take(&out);
	return *ret ? 0 : error_oom(wish->err);
}

int box_network_section(struct tenant *tenant, const char *network, bool has_internet,
			const char *secrets_dir, char **ret, struct atoll_error *err)
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
		wish->tenant = tenant;
		wish->denies_all = !has_internet;
		wish->stamp[0] = NETWORK_STAMP;
		daemon_random_hex(wish->stamp + 1, sizeof wish->stamp - 2);
		r = translate(wish, object, secrets_dir, ret);
	}
	json_decref(object);
	free(wish);
	return r;
}
