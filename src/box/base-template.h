/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template `base`: the host's tools, a home of its own
 *
 * A job file without a command and without the workspace's path, which each box has its own of: set
 * them (and whatever a request says about limits) as flags are, which win over the file.
 *
 *	/home/user   the workspace, a layer over a directory that is mostly empty: this is what a
 *	             snapshot, a fork or a pause without memory keeps
 *	the rest     the host's system directories under a layer, /var, and what is made at the top;
 *	             kept as long as the sandbox's first process lives, and no longer
 *
 * Started by root there are two users, user and root, and packages can be installed; an ordinary
 * user has one id, which both names stand for, and system directories stay as they are.
 */
const char *template_base_contract(void);
