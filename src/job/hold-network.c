/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/hold-inner.h"
#include "job/job.h"
#include "spec/spec.h"

#include <errno.h>
#include <unistd.h>

/*
 * Other network rules for a sandbox that lives
 *
 * They take the place of the contract's in this holder. The next one, if this one ends, begins with
 * the contract's again: whoever has set them sets them anew.
 */

#define RULES_MAX ((size_t)1 << 20)

int hold_set_network(struct holder *holder, int fd, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	struct network rules;
	int r = fd < 0 ? -EPROTO : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the network's rules");
	r = hold_open_cell(holder, err);
	if (r == 0)
		r = spec_read_network(text.data ? text.data : "", &rules, err);
	if (r < 0)
		return r;
	r = net_check_change(&holder->net, &rules, err);
	if (r == 0) {
		struct network before = holder->job->spec->network;

		net_change(&holder->net);
		holder->job->spec->network = rules;
		rules = before;
	}
	network_done(&rules);
	return r;
}
