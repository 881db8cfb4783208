/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/step.h>

struct step_report;

/* Read all reports that the holder has sent. 0, or the failure that ended the connection. */
int step_read_reports(struct atoll_step *step, struct atoll_error *err);
void step_fill_info(const struct step_report *report, struct atoll_step_info *ret);
