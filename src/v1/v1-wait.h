/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "v1/v1-state.h"

#include <stdatomic.h>

/* A request that is answered later, when its client may have gone. The first member of the
 * request's own struct, which the callback frees. */
struct v1_wait {
	struct api_call *call; /* NULL: the client has gone */
	atomic_bool is_gone;   /* the same, for threads */
	char box[BOX_ID_SIZE];
	struct daemon *daemon;
};
/* Allocates `size` zeroed bytes that begin with a struct v1_wait. NULL: 503 was answered. */
void *v1_wait_new(struct api_call *call, size_t size, const struct box *box);
/* Returns the call that is to be answered now, or NULL if the client has gone. */
struct api_call *v1_wait_end(struct v1_wait *wait);
/* The box, if it is still there and does not end. */
struct box *v1_wait_box(const struct v1_wait *wait);

/* The tenant's box that the path names: any, or one that runs. NULL: the call was answered. */
struct box *v1_box(struct api_call *call);
struct box *v1_running_box(struct api_call *call);

/* Work on a thread, and then the answer. The first member of the work's own struct. */
struct v1_work {
	struct v1_wait wait;
	struct work_item item;
	char sandbox[ATOLL_ID_SIZE];
	struct atoll_error error;
	int result; /* of `run` */
	/* On the thread. */
	int (*run)(struct v1_work *work, struct atoll_error *err);
	/* After a success, if the client has not gone. */
	void (*answer)(struct v1_work *work, struct api_call *call);
	void (*free)(struct v1_work *work); /* frees the members of the own struct; may be NULL */
	struct tenant *tenant;
	uint64_t reserved; /* bytes of tenant->scratch: the file becomes no larger */
	bool compares;	   /* compares files in memory: WORK_COMPARE */
};
void *v1_work_new(struct api_call *call, size_t size, const struct box *box);
void v1_work_submit(struct v1_work *work);
/* For struct atoll_export_limits: `work` is a struct v1_work; true while its client waits. */
bool v1_work_is_wanted(void *work);
/* The answer will be a file of at most `bytes` bytes, or fewer if the disk has fewer
 * (work->reserved): tenant_reserve_scratch(). False: 429 or 507 was answered, and `work` was
 * freed. */
bool v1_work_reserve(struct v1_work *work, uint64_t bytes);
/* A file without a name, for answers of any size: a descriptor or a negative errno. */
int v1_scratch(const struct v1_work *work, struct atoll_error *err);
/* Answers with the whole file, and closes it. */
void v1_answer_file(struct api_call *call, const char *type, int fd);
/* The same for a file of v1_scratch(): its bytes are counted for the tenant until they are sent. */
void v1_answer_scratch(struct api_call *call, const char *type, int fd);
/* Answers by 204. */
void v1_done(struct api_call *call);
