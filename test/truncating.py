# SPDX-License-Identifier: Apache-2.0
"""
A race that truncates: a C program for tests of the guard, and how often it must be tried

K is the mean number of calls per success on commit d598071, measured as an ordinary user on Linux 6.18 with 2 busy CPUs over
60 files each (20 .envrc, 20 hooks, 20 protected ones; all were emptied: 36111 calls of openat2, 11343 of open). On an idle machine it
is 7 and 73.
"""

TRUNCATE = r"""
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* KIND CALLS TARGET...: up to CALLS calls per target, until it is empty. */
static volatile struct open_how how;
static volatile char path[] = "Xa"; /* "Xa" and "Xb" are links to the good file and to the target */
static volatile int stop;
static int is_openat2, mode;

static void wait_a_bit(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

static void *flip(void *unused)
{
	for (unsigned n = 1; !stop; n = n * 1103515245 + 12345) {
		if (is_openat2) {
			how.flags = O_RDONLY;
			wait_a_bit(n >> 20 & 1023);
			how.flags = O_RDONLY | O_TRUNC;
		} else {
			path[1] = 'a';
			wait_a_bit(n >> 20 & 1023);
			path[1] = 'b';
		}
		wait_a_bit(n >> 16 & 1023);
	}
	return unused;
}

int main(int argc, char **argv)
{
	long calls = atol(argv[2]), all = 0, emptied = 0, opened = 0;
	pthread_t thread;
	struct stat st;

	is_openat2 = !strcmp(argv[1], "openat2");
	mode = !strcmp(argv[1], "open to read") ? O_RDONLY : 3;
	/* A private place: not /tmp, which the guard looks after if the workspace lies beneath. */
	if (chdir("/dev/shm") < 0 || access(".", W_OK) < 0 || mkdir("race", 0755) < 0 || chdir("race") < 0)
		if (chdir(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp") < 0)
			return 3;
	unlink("Xa");
	close(open("good", O_CREAT | O_WRONLY, 0644));
	if (symlink("good", "Xa") < 0)
		return 4;
	for (int i = 3; i < argc; i++) {
		long n = 0;

		unlink("Xb");
		symlink(argv[i], "Xb");
		path[1] = is_openat2 ? 'b' : 'a';
		stop = 0;
		pthread_create(&thread, NULL, flip, NULL);
		do {
			int fd = is_openat2 ? syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how) : open(path, mode | O_TRUNC);

			if (fd >= 0)
				opened++, close(fd);
			n++;
		} while (n < calls && stat(argv[i], &st) == 0 && st.st_size);
		stop = 1;
		pthread_join(thread, NULL);
		all += n;
		if (stat(argv[i], &st) < 0 || !st.st_size)
			emptied++;
	}
	printf("%ld calls, %ld opened, %ld emptied\n", all, opened, emptied);
	return 0;
}
"""

K_OPENAT2 = 602
K_OPEN = 189
