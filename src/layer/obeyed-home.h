/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct finder;

/* Follow the links of the caller's home, and the places that the caller's environment names. */
int obeyed_find_home(struct finder *finder);
