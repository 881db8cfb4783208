/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress-inner.h"

#include <string.h>

/*
 * The first message of a TLS client (RFC 8446, 4.1.2)
 *
 * It may be spread over several records, and these over any number of packets. What it says must
 * fit together to the last byte: a server that reads more leniently than we do would otherwise see
 * another name than we did.
 */

#define LOOK_MAX       16384
#define TYPE_HANDSHAKE 22
#define CLIENT_HELLO   1
#define EXTENSION_SNI  0
#define EXTENSION_ECH  0xfe0d
#define RECORD_MAX     16384

struct view {
	const uint8_t *data;
	size_t size;
};

static bool take(struct view *view, size_t size, struct view *ret)
{
	if (size > view->size)
		return false;
	*ret = (struct view){view->data, size};
	view->data += size;
	view->size -= size;
	return true;
}

static bool take_number(struct view *view, size_t bytes, size_t *ret)
{
	struct view number;

	if (!take(view, bytes, &number))
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | number.data[i];
	return true;
}

/* What stands behind its length, which is `bytes` long. */
static bool take_sized(struct view *view, size_t bytes, struct view *ret)
{
	size_t size;

	return take_number(view, bytes, &size) && take(view, size, ret);
}

static bool read_server_name(struct view extension, struct hello *ret)
{
	struct view list, name;
	size_t type;

	if (!take_sized(&extension, 2, &list) || extension.size != 0 || list.size == 0)
		return false;
	/* One name of type 0; no other type was ever defined, and two of one are forbidden. */
	if (!take_number(&list, 1, &type) || type != 0 || !take_sized(&list, 2, &name) ||
	    list.size != 0)
		return false;
	if (network_name((const char *)name.data, name.size, ret->name) < 0) {
		ret->name[0] = '\0';
		ret->has_bad_name = true;
	}
	return true;
}

static bool read_extensions(struct view all, struct hello *ret)
{
	bool has_name = false;

	while (all.size > 0) {
		struct view extension;
		size_t type;

		if (!take_number(&all, 2, &type) || !take_sized(&all, 2, &extension))
			return false;
		if (type == EXTENSION_SNI) {
			if (has_name || !read_server_name(extension, ret))
				return false;
			has_name = true;
		} else if (type == EXTENSION_ECH) {
			ret->has_ech = true;
		}
	}
	return true;
}

static bool read_body(struct view body, struct hello *ret)
{
	struct view part;

	/* Version, random, session, ciphers, compressions. */
	if (!take(&body, 2, &part) || part.data[0] != 3 || !take(&body, 32, &part) ||
	    !take_sized(&body, 1, &part) || part.size > 32 || !take_sized(&body, 2, &part) ||
	    part.size < 2 || part.size % 2 != 0 || !take_sized(&body, 1, &part) || part.size < 1)
		return false;
	if (body.size == 0) /* a client of the last century */
		return true;
	return take_sized(&body, 2, &part) && body.size == 0 && read_extensions(part, ret);
}

/* Append the content of the records to `message`, until it is complete. */
static enum hello_result join_records(struct view in, uint8_t message[LOOK_MAX], size_t *ret_size)
{
	size_t used = 0, wanted = 4;

	while (used < wanted) {
		size_t length, content;

		if (in.size > 0 && in.data[0] != TYPE_HANDSHAKE)
			return used == 0 ? HELLO_NOT_TLS : HELLO_BAD;
		/* 3.x of all x: some clients say 3.1 here, some 3.3, and 3.0 was seen. */
		if (in.size > 1 && in.data[1] != 3)
			return used == 0 ? HELLO_NOT_TLS : HELLO_BAD;
		if (in.size < 5)
			return HELLO_MORE;
		length = (size_t)in.data[3] << 8 | in.data[4];
		if (length == 0 || length > RECORD_MAX)
			return HELLO_BAD;
		in.data += 5;
		in.size -= 5;
		content = length < in.size ? length : in.size;
		if (content > LOOK_MAX - used)
			return HELLO_BAD;
		memcpy(message + used, in.data, content);
		used += content;
		if (used >= 1 && message[0] != CLIENT_HELLO)
			return HELLO_BAD;
		if (used >= 4) {
			wanted = 4 +
				 ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
			if (wanted > LOOK_MAX)
				return HELLO_BAD;
		}
		if (content < length && used < wanted)
			return HELLO_MORE;
		in.data += content;
		in.size -= content;
		/* A client waits for the server's answer; nothing else is in its last record. */
		if (used > wanted || (used == wanted && content < length))
			return HELLO_BAD;
	}
	*ret_size = used;
	return HELLO_OK;
}

enum hello_result hello_read(const uint8_t *data, size_t size, struct hello *ret)
{
	uint8_t message[LOOK_MAX];
	enum hello_result result;
	size_t used;

	*ret = (struct hello){0};
	if (size == 0)
		return HELLO_MORE;
	result = join_records((struct view){data, size}, message, &used);
	if (result == HELLO_MORE && size >= LOOK_MAX)
		return HELLO_BAD;
	if (result != HELLO_OK)
		return result;
	return read_body((struct view){message + 4, used - 4}, ret) ? HELLO_OK : HELLO_BAD;
}
