/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/volume.h"
#include "e2b/e2b.h"

/* What is in a volume: each asks for its token, not for a key. */
void volume_content_list(struct api_call *call);
void volume_content_make_dir(struct api_call *call);
void volume_content_stat(struct api_call *call);
void volume_content_change(struct api_call *call);
void volume_content_remove(struct api_call *call);
void volume_content_read(struct api_call *call);
void volume_content_write(struct api_call *call);
