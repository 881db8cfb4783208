/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"

#include <jansson.h>

/* What the template of a box says, or NULL. */
json_t *template_settings(const struct box *box);
/* A text of it, or NULL. */
const char *template_setting(const struct box *box, const char *name);
/* Its command is started, if there is one, and waited for until it is ready; then, or at once,
 * `done` as box_create() promises it. */
void template_start(struct box *box, box_done *done, void *data);
