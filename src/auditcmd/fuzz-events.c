/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/describe.h"
#include "auditcmd/events.h"
#include "auditcmd/processes.h"
#include "base/scope.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Reads any bytes as a log, describes the events, builds the process tree. The texts must
 * contain no control character. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct buf *text)
{
	for (size_t i = 0; i < text->used; i++)
		if ((unsigned char)text->data[i] < 0x20 || text->data[i] == 0x7f)
			abort();
}

static void describe_event(const struct event *event, struct description *words)
{
	describe(event, words);
	check_text(&words->who);
	check_text(&words->what);
	check_text(&words->allow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_description struct description words = DESCRIPTION_INIT;
	cleanup_fd int fd = memfd_create("log", MFD_CLOEXEC);
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};
	struct processes *processes = processes_new();
	char path[64];
	int r;

	if (fd < 0 || !processes || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (events_open_path("", path, &events, NULL) < 0)
		abort();
	while ((r = events_next(events, &event, NULL)) != 0) {
		if (r < 0)
			continue;
		describe_event(&event, &words);
		processes_add(processes, &event);
	}
	processes_finish(processes);
	processes_free(processes);
	return 0;
}
