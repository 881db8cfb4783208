/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/hold-inner.h"
#include "job/job.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Other network rules for a sandbox that lives
 *
 * They take the place of the contract's, in this holder and in those that follow it: they lie in
 * the record, as the text that they came as. One that cannot be read ends the start; the contract's
 * own might allow more.
 */

#define RULES_MAX ((size_t)1 << 20)
#define FILE_NAME "network"
#define FRESH	  "network.new"

static void put_in_place(struct holder *holder, struct network *rules)
{
	struct network before = holder->job->spec->network;

	holder->job->spec->network = *rules;
	*rules = before;
	network_done(rules);
}

static int save(const struct holder *holder, const struct buf *text)
{
	int dir = holder->record->fd;
	cleanup_fd int fd =
		openat(dir, FRESH, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->used);

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, FRESH, dir, FILE_NAME) < 0)
		r = -errno;
	return r;
}

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
	if (spec_same_network(&rules, &holder->spec->network)) {
		network_done(&rules);
		return 0;
	}
	r = net_check_change(&holder->net, &rules, err);
	if (r == 0 && (r = save(holder, &text)) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, -r, "keep the network's rules");
	if (r < 0) {
		network_done(&rules);
		return r;
	}
	net_change(&holder->net);
	put_in_place(holder, &rules);
	return 0;
}

int hold_load_network(struct holder *holder, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	cleanup_fd int fd =
		openat(holder->record->fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct network rules;
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the network's rules");
	r = spec_read_network(text.data ? text.data : "", &rules, err);
	if (r == 0)
		put_in_place(holder, &rules);
	return r;
}
