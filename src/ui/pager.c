/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/pager.h"

#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The pager: an absolute path, or $PAGER, which is a command line for the shell. */
static const char *choose(bool *ret_is_line)
{
	static const char *const usual[] = {"/usr/bin/less", "/bin/less"};
	const char *wanted = getenv("PAGER");

	*ret_is_line = wanted != NULL;
	if (wanted)
		return *wanted && !streq(wanted, "cat") ? wanted : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (access(usual[i], X_OK) == 0)
			return usual[i];
	return NULL;
}

static _Noreturn void become(const char *program, bool is_line, int input)
{
	dup2(input, STDIN_FILENO);
	signal(SIGPIPE, SIG_DFL);
	/* F: quit if the text fits on one screen. R: pass colours. X: leave the text on the
	 * screen. */
	setenv("LESS", "FRX", 0);
	setenv("LESSHISTFILE", "-", 0);
	if (is_line)
		execl("/bin/sh", "sh", "-c", program, (char *)NULL);
	else
		execl(program, "less", (char *)NULL);
	_exit(127);
}

static void start(struct pager *pager, const char *program, bool is_line)
{
	int ends[2];
	FILE *out;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	out = fdopen(ends[1], "w");
	fflush(stdout);
	pid = out ? fork() : -1;
	if (pid == 0)
		become(program, is_line, ends[0]);
	close(ends[0]);
	if (pid < 0) {
		out ? (void)fclose(out) : (void)close(ends[1]);
		return;
	}
	/* The person may quit the pager early: EPIPE is not a failure. */
	signal(SIGPIPE, SIG_IGN);
	pager->out = out;
	pager->pid = pid;
}

void pager_open(struct pager *pager)
{
	const char *term = getenv("TERM"), *program;
	bool is_line;

	*pager = (struct pager){.out = stdout, .is_terminal = isatty(STDOUT_FILENO)};
	if (!pager->is_terminal)
		return;
	pager->has_colours = !getenv("NO_COLOR") && term && *term && !streq(term, "dumb");
	program = choose(&is_line);
	if (program)
		start(pager, program, is_line);
}

int pager_close(struct pager *pager)
{
	bool has_failed = fflush(pager->out) != 0 || ferror(pager->out);
	int problem = errno;

	if (!pager->pid)
		return has_failed ? -problem : 0;
	fclose(pager->out);
	while (waitpid(pager->pid, NULL, 0) < 0 && errno == EINTR)
		;
	return has_failed && problem != EPIPE ? -problem : 0;
}
