/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATOLL_BASE_CONFINE_H
#define ATOLL_BASE_CONFINE_H

#include "base/error.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How a program of ours that reads strangers' bytes locks itself in
 *
 *   confine_limit()         what it may use
 *   confine_capabilities()  none, and none can come back
 *   confine_ruleset()       Landlock: what may be opened
 *   confine_load()          seccomp: which calls may be made
 *
 * In this order, because each forbids what the earlier ones need. Each program has its own file
 * that says what it keeps: archive/archive-confine.c and egress/egress-confine.c, which try out
 * that the rest is gone, and monitor/monitor-confine.c.
 */

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

/* An RLIMIT_, never above what it is. Memory is not limited under the address sanitizer, which
 * reserves terabytes. */
int confine_limit(int which, uint64_t value);

/* All but those of `keep` (1 << CAP_...) that there are; and no_new_privs, and not to be dumped. */
int confine_capabilities(uint32_t keep, struct atoll_error *err);

/* A Landlock ruleset that handles every right the kernel knows, so that what no rule grants is
 * refused; other programs' signals and abstract sockets, too. -ENOSYS: there is no Landlock. */
int confine_ruleset(bool may_connect, uint64_t *ret_handled);
/* What is beneath a directory. */
int confine_allow(int ruleset, int dir_fd, uint64_t rights);
/* Connecting to this port, of a ruleset without `may_connect`. 0 also where the kernel knows of no
 * such right (before 6.7): then every port can be connected to. */
int confine_allow_port(int ruleset, uint64_t port);

/* ---- seccomp ---- */

struct confine_filter {
	struct sock_filter steps[256];
	size_t n; /* may count more than there is room for; confine_load() refuses that */
};

#define FILTER_LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FILTER_RETURN(what)  BPF_STMT(BPF_RET | BPF_K, what)
#define FILTER_ERROR(errnum) (SECCOMP_RET_ERRNO | (errnum))
/* Skip `yes` steps if it is so, else `no`. */
#define FILTER_IF(value, yes, no)      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define FILTER_IF_FROM(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, yes, no)
#define FILTER_IF_ANY(bits, yes, no)   BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define FILTER_STEP(filter, ...)       confine_step(filter, (struct sock_filter)__VA_ARGS__)

void confine_step(struct confine_filter *filter, struct sock_filter one);
/* First: calls by another architecture's numbers end the program. Leaves the number loaded, which
 * the next ones compare. */
void confine_begin(struct confine_filter *filter);
void confine_answer(struct confine_filter *filter, const uint16_t *calls, size_t n,
		    uint32_t answer);
/* Memory that is not executable. */
void confine_answer_memory(struct confine_filter *filter);
/* fcntl() with these commands. */
void confine_answer_fcntl(struct confine_filter *filter, const uint32_t *commands, size_t n);
/* abort() may end this process, nobody another. */
void confine_answer_abort(struct confine_filter *filter);
/* What nothing has answered is not there (ENOSYS). */
int confine_load(struct confine_filter *filter, struct atoll_error *err);

#endif
