/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* A call that waits for box/. The callback of box/ comes even if the client has gone before. */
struct e2b_wait {
	struct api_call *call; /* NULL: the client has gone */
	char id[BOX_ID_SIZE];
	uint64_t timeout_s;
	int step;
	char *text; /* freed with the wait */
};
/* NULL: no memory, and the call was answered. */
struct e2b_wait *e2b_wait_new(struct api_call *call);
/* Frees `wait`. Returns the call that is to be answered, or NULL if the client has gone. */
struct api_call *e2b_wait_end(struct e2b_wait *wait);
