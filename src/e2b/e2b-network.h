/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler e2b_put_network;
/* Checks `network` and `allow_internet_access` of a request. *ret gets the text to be stored, which
 * the caller frees; it may be NULL. False: the call was answered. */
bool e2b_read_network(struct api_call *call, json_t *network, bool has_internet, char **ret);
/* True: the box sets headers, so it cannot be forked; the call was answered. */
bool e2b_sets_headers(struct api_call *call, const struct box *box);
