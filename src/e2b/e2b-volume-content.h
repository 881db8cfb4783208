/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* The files of a volume. Each handler checks the token of the volume; the routes need no key. */
api_handler e2b_volume_list, e2b_volume_make_dir, e2b_volume_stat, e2b_volume_change,
	e2b_volume_remove, e2b_volume_read, e2b_volume_write;
