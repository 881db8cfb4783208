/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-wait.h"

#include <stdlib.h>

static void forget_call(struct api_call *call, bool is_broken)
{
	struct e2b_wait *wait = call->own;

	(void)is_broken;
	wait->call = NULL;
}

struct e2b_wait *e2b_wait_new(struct api_call *call)
{
	struct e2b_wait *wait = calloc(1, sizeof *wait);

	if (!wait) {
		api_refuse(call, 500, "no memory");
		return NULL;
	}
	wait->call = call;
	call->own = wait;
	call->over = forget_call;
	return wait;
}

struct api_call *e2b_wait_end(struct e2b_wait *wait)
{
	struct api_call *call = wait->call;

	if (call) {
		call->own = NULL;
		call->over = NULL;
	}
	free(wait->text);
	free(wait);
	return call;
}
