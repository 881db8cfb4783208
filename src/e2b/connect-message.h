/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/connect-call.h"

/* Members of a message, by either of their names ("watcherId", "watcher_id"); null counts as
 * missing, and *ret stays as it is then. False: the member has another type, and the call was
 * answered. */
json_t *rpc_field(json_t *object, const char *name);
bool rpc_text(struct rpc *rpc, json_t *object, const char *name, const char **ret);
bool rpc_bool(struct rpc *rpc, json_t *object, const char *name, bool *ret);
bool rpc_number(struct rpc *rpc, json_t *object, const char *name, int64_t min, int64_t max,
		int64_t *ret);
bool rpc_object(struct rpc *rpc, json_t *object, const char *name, json_t **ret);
