/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/template.h"

void build_run(struct build *build, const char *user, const char *command,
	       const char *const *arguments, build_ran *done);
/* Nothing of it is told any more. */
void build_run_drop(struct build *build);
