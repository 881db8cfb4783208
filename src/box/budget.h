/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct daemon;

void budget_tick(struct daemon *daemon, bool writes);
