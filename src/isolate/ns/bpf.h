/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writing a classic BPF program
 *
 * Jumps in such a program go forwards only, so it is written from its end: a step is made after the
 * steps that may follow it, and is told their places. Every target is known when a jump is written,
 * and there is nothing to patch afterwards. A place is a number that stays valid until
 * bpf_finish().
 *
 * Only loads, comparisons with constants, AND and returns are offered. Since 5.11 the kernel tries
 * a seccomp program on every call number when it is loaded, remembers those that are allowed
 * whatever the arguments, and does not run the program for them again. It can try these
 * instructions and no others.
 */
struct bpf {
	struct sock_filter *program;
	size_t size;
	size_t used; /* at the end of `program` */
	bool is_too_long;
};

/* Numbers from `first` up to the next range's `first` lead to `target`. */
struct bpf_range {
	uint32_t first;
	unsigned target;
};

void bpf_init(struct bpf *bpf, struct sock_filter *program, size_t size);

/* Each writes one step and returns its place. */
unsigned bpf_return(struct bpf *bpf, uint32_t value);
unsigned bpf_load(struct bpf *bpf, uint32_t offset, unsigned next);
unsigned bpf_and(struct bpf *bpf, uint32_t mask, unsigned next);
/* `test` is BPF_JEQ, BPF_JGE, BPF_JGT or BPF_JSET, of the loaded word with `value`. */
unsigned bpf_if(struct bpf *bpf, uint16_t test, uint32_t value, unsigned yes, unsigned no);

/* A binary search of the loaded word among ranges in ascending order, of which the first begins at
 * 0. Uses `ranges` up: its content is lost. */
unsigned bpf_search(struct bpf *bpf, struct bpf_range *ranges, size_t n);

/* Moves the program, whose first step is the one written last, to the start of the memory and
 * returns its length. One that was too long is replaced by a single step that kills the caller. */
size_t bpf_finish(struct bpf *bpf);
