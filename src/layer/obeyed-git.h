/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct finder;

/* Follow the settings of the host's git: those of the system and of the user, and those of the
 * repositories at and above each writable root, with their submodules. */
int obeyed_find_git(struct finder *finder);
