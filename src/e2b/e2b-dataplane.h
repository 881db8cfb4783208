/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* For api_protocol: files and processes, the interpreter, any other port inside, and signed URLs. A
 * box that is paused and `wakes` is woken first; a request for another box that does not run is
 * answered by 502. */
void e2b_serve_data_plane(struct api_call *call, const struct api_data_plane *plane);
/* Answers by 502: there is no such box. */
void e2b_refuse_unknown_box(struct api_call *call, const char *id);
