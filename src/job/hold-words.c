/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/hold-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int fail_words(struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's words");
}

static int seal_words(const struct buf *words, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-step", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : buf_error(words);

	if (r == 0)
		r = fd_write_all(fd, words->data, words->used);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "keep the step's words") : take_fd(&fd);
}

/* The placeholder of a secret, if the variable is one's. */
static const char *placeholder(const struct holder *holder, const char *variable)
{
	const struct network *network = &holder->spec->network;

	for (size_t i = 0; i < network->n_secrets && i < holder->net.secrets.n; i++) {
		size_t length = strlen(network->secrets[i].name);

		if (!network->secrets[i].is_set &&
		    strncmp(variable, network->secrets[i].name, length) == 0 &&
		    variable[length] == '=')
			return holder->net.secrets.list[i].placeholder;
	}
	return NULL;
}

int hold_take_words(const struct holder *holder, int fd, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(INIT_STEP_MAX), words = BUF_INIT(2 * INIT_STEP_MAX);
	struct init_step_head head;
	size_t at = sizeof head, n_texts;

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_all(fd, &text) < 0 || text.used <= sizeof head)
		return fail_words(err);
	memcpy(&head, text.data, sizeof head);
	buf_add(&words, &head, sizeof head);
	n_texts = 1 + (size_t)head.n_argv + head.n_env;
	for (size_t i = 0; i < n_texts; i++) {
		const char *word = text.data + at, *other = NULL;
		const char *end = at < text.used ? memchr(word, '\0', text.used - at) : NULL;

		if (!end)
			return fail_words(err);
		at += (size_t)(end - word) + 1;
		if (i > head.n_argv)
			other = placeholder(holder, word);
		if (other)
			buf_addf(&words, "%.*s=%s", (int)strcspn(word, "="), word, other);
		else
			buf_add_str(&words, word);
		buf_add_char(&words, '\0');
	}
	return seal_words(&words, err);
}
