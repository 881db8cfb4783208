/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler e2b_list, e2b_list_v1;
/* The query's "limit", 1 to 100. False: the call was answered. */
bool e2b_read_limit(struct api_call *call, size_t *ret);
