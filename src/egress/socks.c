/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core.h"

#include <sodium.h>
#include <string.h>

/*
 * What a SOCKS client says: version 5 (RFC 1928, 1929), and 4 with its "a" for names
 *
 * Only CONNECT is done. BIND and UDP ASSOCIATE are refused by the code that says so.
 */

enum {
	V5_NO_PASSWORD = 0,
	V5_PASSWORD = 2,
	V5_NONE_FITS = 0xff,
};
enum {
	COMMAND_CONNECT = 1,
	ADDRESS_V4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_V6 = 4,
};
enum {
	CODE_NOT_SUPPORTED = 7,
	CODE_BAD_ADDRESS = 8,
	CODE_FAILED = 1,
};

static enum socks_result say(struct socks *socks, size_t used, uint8_t a, uint8_t b,
			     enum socks_result result)
{
	socks->used = used;
	socks->reply[0] = a;
	socks->reply[1] = b;
	socks->n_reply = 2;
	return result;
}

size_t socks_reply(const struct socks *socks, uint8_t code, uint8_t ret[10])
{
	memset(ret, 0, 10);
	if (socks->is_v4) {
		ret[1] = code == 0 ? 90 : 91;
		return 8;
	}
	ret[0] = 5;
	ret[1] = code;
	ret[3] = ADDRESS_V4;
	return 10;
}

static enum socks_result refuse(struct socks *socks, size_t used, uint8_t code)
{
	socks->used = used;
	socks->n_reply = socks_reply(socks, code, socks->reply);
	return SOCKS_REPLY;
}

static enum socks_result read_greeting(struct socks *socks, const uint8_t *data, size_t size,
				       bool has_token)
{
	uint8_t wanted = has_token ? V5_PASSWORD : V5_NO_PASSWORD;

	if (size < 2 || size < 2u + data[1])
		return SOCKS_MORE;
	if (memchr(data + 2, wanted, data[1])) {
		socks->step = has_token ? SOCKS_PASSWORD : SOCKS_REQUEST;
		return say(socks, 2u + data[1], 5, wanted, SOCKS_CONTINUE);
	}
	/* Who insists on a password may give any. */
	if (!has_token && memchr(data + 2, V5_PASSWORD, data[1])) {
		socks->step = SOCKS_PASSWORD;
		return say(socks, 2u + data[1], 5, V5_PASSWORD, SOCKS_CONTINUE);
	}
	return say(socks, 2u + data[1], 5, V5_NONE_FITS, SOCKS_REPLY);
}

static bool is_token(const uint8_t *data, size_t size, const char *token)
{
	return !token[0] || (size == strlen(token) && sodium_memcmp(data, token, size) == 0);
}

static enum socks_result read_password(struct socks *socks, const uint8_t *data, size_t size,
				       const char *token)
{
	size_t user, password;

	if (size > 0 && data[0] != 1)
		return SOCKS_BAD;
	if (size < 2 || size < 3u + data[1])
		return SOCKS_MORE;
	user = data[1];
	password = data[2 + user];
	if (size < 3 + user + password)
		return SOCKS_MORE;
	if (!is_token(data + 3 + user, password, token))
		return say(socks, 3 + user + password, 1, 1, SOCKS_REPLY);
	socks->step = SOCKS_REQUEST;
	return say(socks, 3 + user + password, 1, 0, SOCKS_CONTINUE);
}

/* A name, or what is written like an address, which some clients give as a name. */
static bool take_name(struct socks *socks, const char *text, size_t size)
{
	socks->name[0] = '\0';
	if (network_address(text, size, &socks->address) == 0)
		return true;
	return network_name(text, size, socks->name) == 0;
}

static enum socks_result read_request(struct socks *socks, const uint8_t *data, size_t size)
{
	size_t length, head = 4;

	if (size > 0 && data[0] != 5)
		return SOCKS_BAD;
	if (size < 5)
		return SOCKS_MORE;
	switch (data[3]) {
	case ADDRESS_V4:
		length = 4;
		break;
	case ADDRESS_V6:
		length = 16;
		break;
	case ADDRESS_NAME:
		length = data[4];
		head = 5;
		break;
	default:
		return refuse(socks, size, CODE_BAD_ADDRESS);
	}
	if (size < head + length + 2)
		return SOCKS_MORE;
	socks->used = head + length + 2;
	socks->port = (uint16_t)(data[head + length] << 8 | data[head + length + 1]);
	if (data[1] != COMMAND_CONNECT)
		return refuse(socks, socks->used, CODE_NOT_SUPPORTED);
	socks->name[0] = '\0';
	if (data[3] == ADDRESS_V4)
		network_address_of_v4(data + 4, &socks->address);
	else if (data[3] == ADDRESS_V6)
		memcpy(socks->address.bytes, data + 4, 16);
	else if (!take_name(socks, (const char *)data + 5, length))
		return refuse(socks, socks->used, CODE_BAD_ADDRESS);
	return socks->port ? SOCKS_CONNECT : refuse(socks, socks->used, CODE_FAILED);
}

/* Version 4 knows no password but a user's name. */
static enum socks_result read_v4(struct socks *socks, const uint8_t *data, size_t size,
				 const char *token)
{
	const uint8_t *user_end, *name_end;

	socks->is_v4 = true;
	if (size < 9)
		return SOCKS_MORE;
	user_end = memchr(data + 8, 0, size - 8);
	if (!user_end)
		return size < 8 + 256 ? SOCKS_MORE : SOCKS_BAD;
	socks->used = (size_t)(user_end + 1 - data);
	socks->port = (uint16_t)(data[2] << 8 | data[3]);
	socks->name[0] = '\0';
	if (data[4] == 0 && data[5] == 0 && data[6] == 0 && data[7] != 0) {
		size_t left = size - socks->used;

		name_end = memchr(data + socks->used, 0, left);
		if (!name_end)
			return left < 256 ? SOCKS_MORE : SOCKS_BAD;
		if (!take_name(socks, (const char *)user_end + 1,
			       (size_t)(name_end - user_end) - 1))
			return refuse(socks, size, CODE_FAILED);
		socks->used = (size_t)(name_end + 1 - data);
	} else {
		network_address_of_v4(data + 4, &socks->address);
	}
	if (data[1] != COMMAND_CONNECT || socks->port == 0 ||
	    !is_token(data + 8, (size_t)(user_end - data) - 8, token))
		return refuse(socks, socks->used, CODE_FAILED);
	return SOCKS_CONNECT;
}

enum socks_result socks_read(struct socks *socks, const uint8_t *data, size_t size,
			     const char *token)
{
	socks->used = 0;
	socks->n_reply = 0;
	if (size == 0)
		return SOCKS_MORE;
	switch (socks->step) {
	case SOCKS_GREETING:
		if (data[0] == 4)
			return read_v4(socks, data, size, token);
		return data[0] == 5 ? read_greeting(socks, data, size, token[0]) : SOCKS_BAD;
	case SOCKS_PASSWORD:
		return read_password(socks, data, size, token);
	default:
		return read_request(socks, data, size);
	}
}
