/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-inner.h"

#include <sys/types.h>

#include <atoll/step.h>
#include <signal.h>

/* Where the sandbox has it (isolate/). */
#define PROGRAM "/run/atoll/guest"

/* Nothing is kept of such a step, and it ends with its socket: there is no need to stay attached,
 * which would be a descriptor more for each box. */
int guest_start(struct box *box, const char *user, int channel_fd, uint32_t *ret_step,
		struct atoll_error *err)
{
	char *argv[] = {(char *)PROGRAM, NULL};
	struct atoll_step_options options = {.argv = argv, .user = user, .channel_fd = channel_fd};
	struct atoll_step *step = NULL;
	int r = atoll_step_start(box->sandbox, &options, &step, err);

	if (r < 0)
		return r;
	*ret_step = atoll_step_info(step)->number;
	atoll_step_detach(step);
	return 0;
}

void guest_kill(struct box *box, uint32_t number)
{
	struct atoll_step *step = NULL;

	if (!number || atoll_step_attach(box->sandbox, number, &step, NULL) < 0)
		return;
	atoll_step_signal(step, SIGKILL, true);
	atoll_step_detach(step);
}
