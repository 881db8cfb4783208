/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct spec;

/* Hide what default secrets of the home lead to by a link, where it lies in a place that the
 * contract shows. Called once, when a contract is finished; each result is one more `hide` line. */
int secret_links_hide(struct spec *spec, struct atoll_error *err);
