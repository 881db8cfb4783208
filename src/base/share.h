/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Work that two can share
 *
 * Calls `one` for each number below `n`, in any order: by the caller, and by a second thread beside
 * it, which is there only for that. What they call must not mind: no memory is allocated by it, and
 * nothing is written but what belongs to its number. Where there can be no second thread the caller
 * does all. All is done when it returns.
 */
void share_work(size_t n, void (*one)(size_t i, void *data), void *data);
