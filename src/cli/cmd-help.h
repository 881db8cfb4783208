/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* What `atoll` prints without a command: all commands, and examples. */
void help_overview(FILE *out);
