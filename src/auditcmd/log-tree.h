/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct events;
struct log_request;
struct pager;

/* `atoll log --tree`: the processes as a tree. */
int log_tree(struct events *events, const struct log_request *request, struct pager *pager,
	     struct atoll_error *err);
