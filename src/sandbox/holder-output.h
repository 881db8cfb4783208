/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-detached.h"

/* Make pipes for the step. `stdio` gets the command's ends, which the caller closes, also after a
 * failure. */
int holder_output_open(struct detached_step *step, int stdio[3], struct atoll_error *err);
bool holder_output_should_poll(const struct output_stream *stream);
/* Read what is there, at most a few times. */
void holder_output_read(struct holder *holder, struct detached_step *step, int stream);
/* The step has ended: read what its pipes contain now, and close them. */
void holder_output_finish(struct holder *holder, struct detached_step *step);
/* Compute `need` of both streams again, after a change of the watchers. */
void holder_output_needs(struct detached_step *step);
void holder_output_free(struct holder *holder, struct detached_step *step);
