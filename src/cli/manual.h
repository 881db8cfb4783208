/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct command;

/* Manual pages in troff: atoll-COMMAND(1) and atoll(1). */
void manual_command(const struct command *command, FILE *out);
void manual_overview(FILE *out);
