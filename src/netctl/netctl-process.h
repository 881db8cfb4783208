/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct netctl;

#define NETCTL_PROGRAM "atoll-egress"

/* Start net->program with its end of the channel; sets net->pid and net->pid_fd. */
int netctl_spawn(struct netctl *net, int channel_fd, struct atoll_error *err);
/* Kill and reap egress. Returns its status as waitpid() does; -1 if unknown. */
int netctl_reap(struct netctl *net);
