/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/volume.h"

#include <atoll/error.h>
#include <stdbool.h>

struct daemon;

/* `item.done` has been set. 0, or -ENOMEM, -EINVAL: it does not begin. */
int volume_job_start(struct daemon *daemon, const struct volume *volume, struct volume_job *job,
		     enum volume_op op, const char *path, struct atoll_error *err);
/* What it holds; also fine on one that was never started, if it was all zeros and fd -1. */
void volume_job_done(struct volume_job *job);
/* What was written of a draft that is not to be. */
void volume_draft_drop(const struct volume_job *job);
/* Removes a tree that nobody changes any more. */
void volume_remove_tree(int dir_fd, const char *name);
/* Is there room on the disk for more? */
bool volume_has_room(int fd);
