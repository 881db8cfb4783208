/* SPDX-License-Identifier: Apache-2.0 */
#include "box/base-template.h"

/*
 * Limits are for many on one machine; a request may say others. There is no limit of time, which is
 * the box's to keep, nor of what a command prints, of which only a window is kept. Memory bounds
 * what is written outside the workspace, too: that is a tmpfs. The network has rules, and nobody is
 * allowed until a box's own rules say so: then there is a way out to be given. Nothing near the
 * machine is reached by it, whatever a tenant allows himself.
 */
const char *template_base_contract(void)
{
	return "workspace: {at: /home/user, mode: layer}\n"
	       "users:\n"
	       "- {name: user, uid: 1000, gid: 1000, home: /home/user}\n"
	       "- {name: root, uid: 0, gid: 0, home: /root}\n"
	       "root: layer\n"
	       "guest: on\n"
	       "network: {mode: rules, proxy: false, near: []}\n"
	       "limits:\n"
	       "  memory: 512M\n"
	       "  pids: 512\n"
	       "  disk: 1G\n"
	       "  files: 200000\n"
	       "  open-files: 65536\n"
	       "  wall: unlimited\n"
	       "  cpu: unlimited\n"
	       "  output: unlimited\n"
	       "audit: {record: steps}\n";
}
