/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-network.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Replaced network rules of a live sandbox (HOLDER_NETWORK)
 *
 * The new rules replace the contract's in this holder and in later ones: the file `network` in the
 * record has their text. A later holder that cannot read the file does not start, because the
 * contract's own rules may allow more. The order: write `network.new`, change the live network,
 * rename the file.
 */

#define RULES_MAX (1U << 20)
#define FILE_NAME "network"
#define FRESH	  "network.new"

static int save(const struct holder *holder, const struct buf *text)
{
	cleanup_fd int fd = openat(holder->record->fd, FRESH,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->used);

	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int put_in_place(const struct holder *holder, struct atoll_error *err)
{
	const int dir = holder->record->fd;

	return renameat(dir, FRESH, dir, FILE_NAME) < 0
		       ? error_set(err, ATOLL_FAULT_HOST, errno, "store the network rules")
		       : 0;
}

/* No step was started, none runs, nothing is frozen: ending the cell loses no files in /tmp and no
 * process, so the cell can be built again. */
static bool is_unused(struct holder *holder)
{
	struct atoll_error err;

	return holder->n_steps == 0 && holder_count_running(holder) == 0 && !holder->is_frozen &&
	       (!holder->is_live || holder_ask_init(holder, INIT_REST, &err) == 0);
}

static void swap(struct network *a, struct network *b)
{
	struct network other = *a;

	*a = *b;
	*b = other;
}

static int build_anew(struct holder *holder, struct atoll_error *err)
{
	if (err)
		*err = (struct atoll_error){0};
	holder_close_cell(holder, NULL);
	return holder->stays ? holder_open_cell(holder, err) : 0;
}

/* Change the network of the loaded contract: everything that is built later uses it. After a
 * failure the old rules stay. */
static int change(struct holder *holder, struct network *other, struct atoll_error *err)
{
	struct network *network = &((struct spec *)holder->spec)->network;
	int r;

	swap(network, other);
	r = holder->is_live ? netctl_replace(&holder->net, other, err) : build_anew(holder, err);
	if (r == -EOPNOTSUPP && is_unused(holder))
		r = build_anew(holder, err);
	if (r < 0)
		swap(network, other);
	holder_eventlog_drop_plan(holder);
	return r;
}

static int read_rules(const struct holder *holder, int fd, struct buf *text, struct network *ret,
		      struct atoll_error *err)
{
	int r = fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -EBADMSG : fd_read_all(fd, text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the network rules");
	return spec_read_network(holder->spec, text->data ? text->data : "", text->used, ret, err);
}

int holder_set_network(struct holder *holder, int fd, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	struct network other;
	int r = read_rules(holder, fd, &text, &other, err);

	if (r < 0)
		return r;
	if (!spec_same_network(&other, &holder->spec->network)) {
		r = save(holder, &text);
		r = r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the network rules")
			  : change(holder, &other, err);
		if (r == 0)
			r = put_in_place(holder, err);
		if (r == 0 && holder->eventlog)
			eventlog_decision(holder->eventlog, "network", "other rules");
	}
	network_done(&other);
	return r;
}

int holder_load_network(struct holder *holder, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	cleanup_fd int fd =
		openat(holder->record->fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct network other;
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	r = read_rules(holder, fd, &text, &other, err);
	if (r < 0)
		return r;
	swap(&((struct spec *)holder->spec)->network, &other);
	network_done(&other);
	return 0;
}
