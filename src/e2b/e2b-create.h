/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler e2b_create, e2b_create_v1;
/* A member of a body; *ret stays as it is if the member is missing. False: it has another type, and
 * the call was answered. */
bool e2b_read_seconds(struct api_call *call, json_t *body, const char *name, uint64_t *ret);
bool e2b_read_bool(struct api_call *call, json_t *body, const char *name, bool *ret);
