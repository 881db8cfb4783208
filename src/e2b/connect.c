/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/connect.h"

#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* Envelopes, codes and base64 of the Connect protocol: pure functions. See connect.h. */

static const struct {
	const char *name;
	unsigned status;
} codes[RPC_CODES] = {
	[RPC_CANCELED] = {"canceled", 499},
	[RPC_UNKNOWN] = {"unknown", 500},
	[RPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[RPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[RPC_NOT_FOUND] = {"not_found", 404},
	[RPC_ALREADY_EXISTS] = {"already_exists", 409},
	[RPC_PERMISSION_DENIED] = {"permission_denied", 403},
	[RPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[RPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[RPC_ABORTED] = {"aborted", 409},
	[RPC_OUT_OF_RANGE] = {"out_of_range", 400},
	[RPC_UNIMPLEMENTED] = {"unimplemented", 501},
	[RPC_INTERNAL] = {"internal", 500},
	[RPC_UNAVAILABLE] = {"unavailable", 503},
	[RPC_DATA_LOSS] = {"data_loss", 500},
	[RPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};

const char *rpc_code_name(enum rpc_code code)
{
	return codes[code].name;
}

unsigned rpc_code_status(enum rpc_code code)
{
	return codes[code].status;
}

/* ---- envelopes ---- */

int connect_next(const char *data, size_t size, size_t max, struct connect_envelope *ret)
{
	const unsigned char *head = (const unsigned char *)data;
	size_t length;

	if (size < CONNECT_HEAD)
		return 0;
	/* The server offers no compression, and a client's stream has no last envelope. */
	if (head[0] != 0)
		return -EBADMSG;
	length = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
	if (length > max)
		return -EMSGSIZE;
	if (size - CONNECT_HEAD < length)
		return 0;
	*ret = (struct connect_envelope){head[0], data + CONNECT_HEAD, length,
					 CONNECT_HEAD + length};
	return 1;
}

void connect_head(unsigned flags, size_t size, char ret[CONNECT_HEAD])
{
	ret[0] = (char)flags;
	ret[1] = (char)(size >> 24);
	ret[2] = (char)(size >> 16);
	ret[3] = (char)(size >> 8);
	ret[4] = (char)size;
}

/* ---- base64 ---- */

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

static size_t without_padding(const char *text, size_t size)
{
	if (size % 4 == 0 && size > 0 && text[size - 1] == '=')
		size -= text[size - 2] == '=' ? 2 : 1;
	return size;
}

int connect_decode(const char *text, size_t size, char **ret, size_t *ret_size)
{
	cleanup_free char *data = NULL;
	size_t used = 0, n = without_padding(text, size);
	uint32_t bits = 0;

	if (n % 4 == 1)
		return -EINVAL;
	data = malloc(n / 4 * 3 + 3);
	if (!data)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int value = value_of(text[i]);

		if (value < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 != 0)
			data[used++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	data[used] = '\0';
	*ret = take_ptr(data);
	*ret_size = used;
	return 0;
}

int connect_basic_user(const char *field, char **ret)
{
	cleanup_free char *text = NULL;
	size_t size;
	char *colon;
	int r;

	if (strncasecmp(field, "basic ", 6) != 0)
		return -EINVAL;
	r = connect_decode(field + 6, strlen(field + 6), &text, &size);
	if (r < 0)
		return r;
	if (memchr(text, '\0', size))
		return -EINVAL;
	colon = strchr(text, ':');
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	*ret = take_ptr(text);
	return 0;
}

bool connect_number(const char *text, uint64_t *ret)
{
	uint64_t value = 0;
	size_t n = strlen(text);

	if (n == 0 || n > 10)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*ret = value;
	return true;
}
