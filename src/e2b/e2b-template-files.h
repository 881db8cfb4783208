/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/e2b-protocol.h"

api_handler e2b_template_files_get, e2b_template_files_put;
/* Frees all tickets. */
void e2b_tickets_done(struct e2b *e2b);
