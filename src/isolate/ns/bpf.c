/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/bpf.h"

#include <linux/seccomp.h>
#include <string.h>

/* A conditional jump skips at most 255 steps. Stay below by the two that reach() may put between.
 */
#define SKIP_MAX 253

/* How many single numbers are compared one after the other at the foot of a search. More make a
 * shorter program and a longer way through it. */
#define SINGLES_MAX 4

void bpf_init(struct bpf *bpf, struct sock_filter *program, size_t size)
{
	*bpf = (struct bpf){.program = program, .size = size};
}

/* A place is counted from the end of the program. */
static struct sock_filter *at(struct bpf *bpf, unsigned place)
{
	return &bpf->program[bpf->size - 1 - place];
}

static unsigned put(struct bpf *bpf, struct sock_filter step)
{
	if (bpf->used == bpf->size) {
		bpf->is_too_long = true;
		return 0;
	}
	*at(bpf, bpf->used) = step;
	return bpf->used++;
}

/* How many steps the one to be written next has to skip. */
static size_t skip(const struct bpf *bpf, unsigned target)
{
	return bpf->used - 1 - target;
}

static unsigned jump(struct bpf *bpf, unsigned target)
{
	return put(bpf, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, skip(bpf, target)));
}

/* What follows a step that does not jump has to stand right behind it. */
static void be_next(struct bpf *bpf, unsigned next)
{
	if (skip(bpf, next) > 0)
		jump(bpf, next);
}

/* A place near enough for a conditional jump that leads to `target`. */
static unsigned reach(struct bpf *bpf, unsigned target)
{
	if (skip(bpf, target) <= SKIP_MAX)
		return target;
	if (BPF_CLASS(at(bpf, target)->code) == BPF_RET)
		return put(bpf, *at(bpf, target));
	return jump(bpf, target);
}

unsigned bpf_return(struct bpf *bpf, uint32_t value)
{
	return put(bpf, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
}

unsigned bpf_load(struct bpf *bpf, uint32_t offset, unsigned next)
{
	be_next(bpf, next);
	return put(bpf, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

unsigned bpf_and(struct bpf *bpf, uint32_t mask, unsigned next)
{
	be_next(bpf, next);
	return put(bpf, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
}

unsigned bpf_if(struct bpf *bpf, uint16_t test, uint32_t value, unsigned yes, unsigned no)
{
	yes = reach(bpf, yes);
	no = reach(bpf, no);
	return put(bpf, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, skip(bpf, yes),
						     skip(bpf, no)));
}

/* How many of the ranges are all one target but for a few single numbers. */
static size_t count_alike(const struct bpf_range *ranges, size_t n)
{
	size_t singles = 0, i;

	for (i = 1; i < n; i++) {
		if (ranges[i].target == ranges[0].target)
			continue;
		if (singles == SINGLES_MAX || i + 1 == n ||
		    ranges[i + 1].first - ranges[i].first != 1)
			break;
		singles++;
	}
	return i;
}

static unsigned search_tree(struct bpf *bpf, const struct bpf_range *ranges, size_t n)
{
	size_t half = n / 2;
	unsigned below, above;

	if (n == 1)
		return ranges[0].target;
	above = search_tree(bpf, ranges + half, n - half);
	below = search_tree(bpf, ranges, half);
	return bpf_if(bpf, BPF_JGE, ranges[half].first, above, below);
}

/*
 * One number amid others of a different kind would cost two comparisons, at its beginning and at
 * its end. Picking it out costs one, which makes the search a quarter shorter, and a kernel takes
 * its time for each instruction when it compiles them (0.4 us). So ranges that differ by a few such
 * numbers are joined first.
 */
unsigned bpf_search(struct bpf *bpf, struct bpf_range *ranges, size_t n)
{
	size_t joined = 0;

	for (size_t i = 0, alike; i < n; i += alike) {
		unsigned target = ranges[i].target;

		alike = count_alike(ranges + i, n - i);
		for (size_t k = i + alike; k-- > i;)
			if (ranges[k].target != ranges[i].target)
				target = bpf_if(bpf, BPF_JEQ, ranges[k].first, ranges[k].target,
						target);
		ranges[joined++] = (struct bpf_range){ranges[i].first, target};
	}
	return search_tree(bpf, ranges, joined);
}

size_t bpf_finish(struct bpf *bpf)
{
	if (bpf->is_too_long) {
		bpf->used = 0;
		bpf_return(bpf, SECCOMP_RET_KILL_PROCESS);
	}
	memmove(bpf->program, at(bpf, bpf->used - 1), bpf->used * sizeof(*bpf->program));
	return bpf->used;
}
