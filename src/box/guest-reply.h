/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>

struct guest_head;
struct guest_part;
struct guest_reply;

/* Of an answer in one packet. -EBADMSG, -ENOMEM. */
int reply_read(struct guest_part *part, struct guest_reply *ret);
/* The entries of a packet, behind the string of an answer if part_read_path() was called. */
int part_read(struct guest_part *part, struct guest_reply *ret);
int part_read_path(struct guest_part *part, const char **ret);
void reply_done(struct guest_reply *reply);
/* A copy of a packet; `*ret` NULL: no memory. Checks that head and size agree. */
int part_new(const struct guest_head *head, const char *packet, struct guest_part **ret);
void parts_free(struct guest_part *part);
/* In words, with the path that it is about. */
void reply_error(int errnum, const char *path, struct atoll_error *err);
/* What a descriptor from inside has to be. */
bool reply_fd_is_file(int fd);
bool reply_fd_is_connection(int fd);
