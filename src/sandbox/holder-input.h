/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-detached.h"

/* Accept bytes from offset `at` on; bytes that were accepted before are skipped. */
void holder_input_add(struct detached_step *step, uint64_t at, const char *data, size_t size);
/* Close the input once all accepted bytes are written. */
void holder_input_end(struct detached_step *step);
bool holder_input_should_poll(const struct detached_step *step);
/* Write accepted bytes until the pipe is full. */
void holder_input_write(struct detached_step *step);
/* Close the input and free the bytes that were not written. */
void holder_input_drop(struct detached_step *step);
