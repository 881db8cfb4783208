/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a message: JSON in the form that protobuf has for it. */
#include "e2b/connect-message.h"

#include "e2b/connect-call.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"

#include <errno.h>
#include <stdlib.h>

json_t *rpc_field(json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	char other[64];
	size_t n = 0;

	if (!value) {
		for (const char *c = name; *c && n + 3 < sizeof other; c++) {
			if (*c >= 'A' && *c <= 'Z')
				other[n++] = '_';
			other[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
		}
		other[n] = '\0';
		value = json_object_get(object, other);
	}
	return json_is_null(value) ? NULL : value;
}

static bool is_wrong(struct rpc *rpc, const char *name, const char *what)
{
	rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s is no %s", name, what);
	return false;
}

bool rpc_text(struct rpc *rpc, json_t *object, const char *name, const char **ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_string(value))
		return is_wrong(rpc, name, "text");
	*ret = json_string_value(value);
	return true;
}

bool rpc_bool(struct rpc *rpc, json_t *object, const char *name, bool *ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_boolean(value))
		return is_wrong(rpc, name, "true or false");
	if (value)
		*ret = json_is_true(value);
	return true;
}

bool rpc_number(struct rpc *rpc, json_t *object, const char *name, int64_t min, int64_t max,
		int64_t *ret)
{
	json_t *value = rpc_field(object, name);
	int64_t number;
	char *end;

	if (!value)
		return true;
	if (json_is_integer(value)) {
		number = json_integer_value(value);
	} else if (json_is_string(value) && json_string_length(value) > 0) {
		errno = 0;
		number = strtoll(json_string_value(value), &end, 10);
		if (*end || errno)
			return is_wrong(rpc, name, "number");
	} else {
		return is_wrong(rpc, name, "number");
	}
	if (number < min || number > max)
		return is_wrong(rpc, name, "number that makes sense");
	*ret = number;
	return true;
}

bool rpc_object(struct rpc *rpc, json_t *object, const char *name, json_t **ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_object(value))
		return is_wrong(rpc, name, "object");
	*ret = value;
	return true;
}
