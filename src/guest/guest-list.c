/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_ENTRIES 64
#define PACKET_FULL  40000 /* one more entry fits, whatever it holds */

struct list {
	struct work work;
	struct walk walk;
	uint32_t depth;
	struct buf packet;
	uint16_t n_in_packet;
	size_t n, bytes;
	char path[PATH_SIZE];
};

static void send_packet(struct list *list)
{
	struct guest_head head = {
		.id = list->work.id, .kind = GUEST_SAYS_ENTRIES, .n = list->n_in_packet};

	list->bytes += list->packet.used;
	say(list->work.server, &head, &list->packet, -1);
	list->n_in_packet = 0;
}

/* What vanished meanwhile is passed over. */
static int add(struct list *list, const char *name)
{
	size_t before = list->packet.used;
	struct stat st;
	int r = put_entry(&list->packet, name, list->walk.path, list->walk.look, &st);

	if (r < 0) {
		list->packet.used = before;
		return r == -ENOMEM || r == -E2BIG ? r : 0;
	}
	list->n++;
	list->n_in_packet++;
	if (list->packet.used > PACKET_FULL)
		send_packet(list);
	if (list->n > GUEST_LIST_MAX || list->bytes > GUEST_LIST_BYTES_MAX)
		return -E2BIG;
	if (!S_ISDIR(st.st_mode) || list->walk.n_levels >= list->depth)
		return 0;
	r = walk_enter(&list->walk, name);
	/* One that may not be read is shown as if it were empty. */
	return r == -E2BIG || r == -ENOMEM || r == -EMFILE ? r : 0;
}

static enum work_state step(struct work *work)
{
	struct list *list = (struct list *)(void *)work;
	const char *name;
	int r = 0;

	for (int i = 0; i < STEP_ENTRIES && r == 0; i++) {
		int place = walk_next(&list->walk, &name);

		if (place == WALK_END) {
			answer(work->server, work->id, 0, list->path, &list->packet,
			       list->n_in_packet, -1);
			return WORK_DONE;
		}
		if (place == WALK_ENTRY)
			r = add(list, name);
	}
	if (r == 0)
		return WORK_ON;
	answer(work->server, work->id, -r, list->path, NULL, 0, -1);
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct list *list = (struct list *)(void *)work;

	walk_close(&list->walk);
	buf_done(&list->packet);
	free(list);
}

void ask_list(struct question *question)
{
	struct list *list = calloc(1, sizeof *list);
	int r = list ? path_of(question, question->args[0], list->path) : -ENOMEM;

	if (r == 0)
		r = location_check(question, list->path, false);
	if (r == 0)
		r = walk_open(&list->walk, list->path);
	if (r < 0) {
		answer(question->server, question->id, -r, list ? list->path : "", NULL, 0, -1);
		if (list)
			end(&list->work);
		return;
	}
	walk_look_ahead(&list->walk);
	list->work =
		(struct work){.id = question->id, .is_question = true, .step = step, .end = end};
	list->depth = question->number ? question->number : 1;
	list->packet.limit = GUEST_PACKET_MAX - sizeof(struct guest_head) - GUEST_STRING_MAX;
	work_start(question->server, &list->work);
}
