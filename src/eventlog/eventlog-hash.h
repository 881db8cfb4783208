/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"

#include <stdbool.h>

struct file_hashes;
struct notice_file;

struct file_hashes *file_hashes_new(void);
void file_hashes_free(struct file_hashes *hashes);
/* Returns 1 with the hash; 0 if a process reads the file now: call again after file_hashes_move();
 * or a negative errno. `fd` may be -1, and stays the caller's. */
int file_hashes_find(struct file_hashes *hashes, const struct notice_file *file, int fd,
		     unsigned char ret[HASH_SIZE]);
/* End the process that reads files, unless it is at work. The next file starts another one. */
void file_hashes_stop_reader(struct file_hashes *hashes);
int file_hashes_fd(const struct file_hashes *hashes); /* to be polled for reading, or -1 */
/* Receive the hashes that are ready; with `waits`, wait for at least one. False if no file is being
 * read. */
bool file_hashes_move(struct file_hashes *hashes, bool waits);
