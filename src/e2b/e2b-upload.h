/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* POST /files */
void e2b_upload(struct api_call *call, struct box *box);
/* POST /files/compose */
void e2b_compose(struct api_call *call, struct box *box);
