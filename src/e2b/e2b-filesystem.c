/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filesystem.Filesystem: stat, list, make, move, remove
 *
 * The guest works inside, as the user. This file reads the requests and writes the answers.
 */
#include "e2b/e2b-filesystem.h"

#include "base/error.h"
#include "base/scope.h"
#include "e2b/connect-call.h"
#include "e2b/connect-message.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"
#include "e2b/e2b-objects.h"
#include "httpd/httpd.h"

#include <stdlib.h>

#define ANSWER_MAX (64U << 20)
#define DEPTH_MAX  1000

static bool read_path(struct rpc *rpc, const char *name, const char **ret)
{
	if (!rpc_text(rpc, rpc->request, name, ret))
		return false;
	if (!*ret)
		*ret = "";
	return true;
}

static void write_listed(struct json *json, const struct guest_entry *entry)
{
	e2b_write_entry(json, NULL, entry);
}

static void listing_over(struct rpc *rpc)
{
	listing_free(rpc->own);
	rpc->own = NULL;
}

/* The answer may take long; `has_ended` makes sure that nothing else is sent. */
static void answer_entries(struct rpc *rpc, struct guest_list *list)
{
	rpc->own = listing_answer(rpc->call, rpc->box->tenant, list, "{\"entries\":[", "]}",
				  write_listed);
	rpc->has_ended = true;
	if (rpc->own)
		rpc->over = listing_over;
}

static void answer_entry(struct rpc *rpc, const struct guest_entry *entry)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	e2b_write_entry(&json, "entry", entry);
	json_close(&json, '}');
	rpc_answer(rpc, &out);
}

/* ---- answers of the guest ---- */

static void on_entry(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		     void *data)
{
	struct rpc *rpc = data;

	if (rpc_is_over(rpc))
		;
	else if (err->fault != ATOLL_FAULT_NONE)
		rpc_fail_error(rpc, err);
	else if (n == 0)
		rpc_fail(rpc, RPC_INTERNAL, "the guest has told nothing");
	else
		answer_entry(rpc, &entries[0]);
	rpc_unref(rpc);
}

static void on_entries(struct guest_list *list, const struct atoll_error *err, void *data)
{
	struct rpc *rpc = data;

	if (rpc_is_over(rpc))
		guest_list_free(list);
	else if (!list)
		rpc_fail_error(rpc, err);
	else
		answer_entries(rpc, list);
	rpc_unref(rpc);
}

/* Clients expect not_found for a missing source, and another code for all other errors. */
static void on_moved(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		     void *data)
{
	struct rpc *rpc = data;

	if (rpc_is_over(rpc) || err->fault == ATOLL_FAULT_NONE || err->errnum == ENOENT ||
	    err->errnum == ESRCH || err->errnum == EINVAL || err->errnum == ENOTCONN ||
	    err->errnum == EAGAIN) {
		on_entry(entries, n, err, data);
		return;
	}
	rpc_fail(rpc, RPC_INTERNAL, "%s", err->text);
	rpc_unref(rpc);
}

static void on_removed(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		       void *data)
{
	struct rpc *rpc = data;

	(void)entries;
	(void)n;
	if (rpc_is_over(rpc))
		;
	else if (err->fault != ATOLL_FAULT_NONE && err->errnum != ENOENT)
		rpc_fail_error(rpc, err);
	else
		rpc_answer_empty(rpc);
	rpc_unref(rpc);
}

/* ---- methods ---- */

static void do_stat(struct rpc *rpc)
{
	const char *path;

	if (read_path(rpc, "path", &path))
		guest_stat(rpc->box, rpc->user, path, on_entry, rpc_ref(rpc));
}

static void list_dir(struct rpc *rpc)
{
	const char *path;
	int64_t depth = 1;

	if (!read_path(rpc, "path", &path) ||
	    !rpc_number(rpc, rpc->request, "depth", 0, UINT32_MAX, &depth))
		return;
	if (depth == 0)
		depth = 1;
	guest_list(rpc->box, rpc->user, path, (uint32_t)(depth < DEPTH_MAX ? depth : DEPTH_MAX),
		   on_entries, rpc_ref(rpc));
}

static void make_dir(struct rpc *rpc)
{
	const char *path;

	if (read_path(rpc, "path", &path))
		guest_make_dir(rpc->box, rpc->user, path, on_entry, rpc_ref(rpc));
}

static void move(struct rpc *rpc)
{
	const char *from, *to;

	if (read_path(rpc, "source", &from) && read_path(rpc, "destination", &to))
		guest_move(rpc->box, rpc->user, from, to, on_moved, rpc_ref(rpc));
}

static void do_remove(struct rpc *rpc)
{
	const char *path;

	if (read_path(rpc, "path", &path))
		guest_remove(rpc->box, rpc->user, path, on_removed, rpc_ref(rpc));
}

const struct rpc_method e2b_filesystem_methods[] = {
	{"filesystem.Filesystem/Stat", RPC_UNARY, do_stat},
	{"filesystem.Filesystem/ListDir", RPC_UNARY, list_dir},
	{"filesystem.Filesystem/MakeDir", RPC_UNARY, make_dir},
	{"filesystem.Filesystem/Move", RPC_UNARY, move},
	{"filesystem.Filesystem/Remove", RPC_UNARY, do_remove},
	{0},
};
