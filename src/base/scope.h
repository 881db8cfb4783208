/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Things that release themselves at the end of the scope. A descriptor that is not open is
 * negative; take_fd() and take_ptr() hand ownership on. */

#define cleanup_with(fn) __attribute__((cleanup(fn)))
#define cleanup_fd	 cleanup_with(scope_close_fd)
#define cleanup_free	 cleanup_with(scope_free)

static inline void scope_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void scope_free(void *ptr)
{
	free(*(void **)ptr);
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define take_ptr(ptr)                                                                              \
	({                                                                                         \
		__typeof__(ptr) *take_from_ = &(ptr);                                              \
		__typeof__(ptr) taken_ = *take_from_;                                              \
		*take_from_ = NULL;                                                                \
		taken_;                                                                            \
	})

#define container_of(pointer, type, member)                                                        \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof *(array))
