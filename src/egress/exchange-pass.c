/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdint.h>
#include <string.h>

#define BODY_S	    900	 /* a body in which nothing moves */
#define OPAQUE_S    3600 /* a WebSocket in which nothing moves */
#define HALF_DONE_S 300	 /* the same, closed by one side */

#define PACKED_MAX (4 * LANE_MAX)

/* ---- rates and totals ---- */

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How much may move by the rates; notes when to try again. */
static size_t paced(struct exchange *ex)
{
	int64_t again = 0;
	size_t most = flow_may_move(ex->flow, &again);

	if (most == 0)
		ex->again_ns = again;
	return most;
}

static void count(struct exchange *ex, size_t sent, size_t received)
{
	const char *reason;

	if (!flow_count(ex->flow, sent, received, &reason))
		exchange_finish(ex, ATOLL_CONN_ALLOWED, reason);
}

static size_t fill_server(struct exchange *ex)
{
	size_t n;

	if (!ex->outer.may_read || lane_size(&ex->inner.out) >= lane_max())
		return 0;
	n = side_fill(&ex->outer, smaller(paced(ex), lane_max()));
	if (n > 0)
		count(ex, 0, n);
	return n;
}

static size_t flush_server(struct exchange *ex)
{
	size_t n;

	if (!ex->outer.may_write || lane_size(&ex->outer.out) == 0)
		return 0;
	n = side_flush(&ex->outer, paced(ex));
	ex->n_sent += n;
	if (n > 0)
		count(ex, n, 0);
	return n;
}

/* ---- bodies ---- */

/* A body that is passed on as it is needs no lane. Returns how many bytes of it may be read; 0
 * where it has to be looked at, or something waits before it. */
static size_t direct(const struct body *body, const struct lane *from, const struct lane *to)
{
	if (body->is_done || lane_size(from) > 0 || lane_size(to) > 0)
		return 0;
	if (body->framing == HTTP_LENGTH)
		return body->left < lane_max() ? (size_t)body->left : lane_max();
	return body->framing == HTTP_TO_END ? lane_max() : 0;
}

static void skip(struct body *body, size_t size)
{
	if (body->framing == HTTP_LENGTH) {
		body->left -= size;
		body->is_done = body->left == 0;
	}
}

static bool pass_request_directly(struct exchange *ex)
{
	size_t most = direct(&ex->request, &ex->inner.in, &ex->outer.out), n, written = 0;

	if (most == 0 || !ex->inner.may_read)
		return false;
	n = side_pass(&ex->inner, &ex->outer, smaller(most, paced(ex)), &written);
	skip(&ex->request, n);
	ex->n_sent += written;
	if (written > 0)
		count(ex, written, 0);
	return n > 0;
}

static bool pass_answer_directly(struct exchange *ex)
{
	size_t most = direct(&ex->answer, &ex->outer.in, &ex->inner.out), n, written;

	if (most == 0 || ex->has_secrets || !ex->outer.may_read)
		return false;
	n = side_pass(&ex->outer, &ex->inner, smaller(most, paced(ex)), &written);
	skip(&ex->answer, n);
	ex->is_answered = ex->answer.is_done;
	if (n > 0)
		count(ex, 0, n);
	return n > 0;
}

static void add_content(struct lane *to, enum http_framing framing, struct http_slice content)
{
	if (content.size == 0)
		return;
	lane_tidy(to);
	if (framing == HTTP_CHUNKED)
		buf_addf(&to->buf, "%zx\r\n", content.size);
	buf_add(&to->buf, content.at, content.size);
	if (framing == HTTP_CHUNKED)
		buf_add_str(&to->buf, "\r\n");
}

static int add_trailers(struct lane *to, struct http_slice trailers)
{
	int r;

	buf_add_str(&to->buf, "0\r\n");
	r = http_copy_trailers(trailers.at, trailers.size, &to->buf);
	buf_add_str(&to->buf, "\r\n");
	return r;
}

static bool pass_request(struct exchange *ex)
{
	struct lane *from = &ex->inner.in, *to = &ex->outer.out;
	bool moved = false;

	while (!ex->request.is_done && lane_size(from) > 0 && lane_size(to) < lane_max()) {
		struct body_piece piece;
		int r = body_step(&ex->request, lane_data(from), lane_size(from), &piece);

		if (r >= 0)
			add_content(to, ex->request.framing, piece.content);
		if (r >= 0 && piece.trailers.size > 0)
			r = add_trailers(to, piece.trailers);
		if (r < 0) {
			exchange_refuse(ex, 400, ATOLL_CONN_REFUSED,
					"a request whose body is no sequence of chunks");
			return false;
		}
		lane_take(from, piece.used);
		if (piece.used == 0)
			break;
		moved = true;
	}
	return moved;
}

int exchange_filter(struct exchange *ex, struct http_slice *content, bool is_end)
{
	static struct buf work = BUF_INIT(2 * LANE_LIMIT);
	int r = 0;

	work.used = 0;
	if (content->size > 0)
		r = swap_filter(&ex->filter, ex->flow->egress->swap, ex->host, content->at,
				content->size, &work);
	if (is_end)
		swap_filter_end(&ex->filter, &work);
	*content = (struct http_slice){work.data, work.used};
	if (r == 0)
		r = buf_error(&work);
	work.failed = 0;
	return r;
}

void exchange_drop_answer(struct exchange *ex)
{
	swap_filter_done(&ex->filter);
	decoder_free(ex->decoder);
	ex->decoder = NULL;
	buf_done(&ex->packed);
	ex->packed = (struct buf)BUF_INIT(PACKED_MAX);
	ex->packed_start = 0;
	ex->is_unpacking = false;
}

/* Content as the server means it, to the client. */
static int pass_content(struct exchange *ex, struct http_slice content, bool is_end)
{
	int r = ex->has_secrets ? exchange_filter(ex, &content, is_end) : 0;

	if (r == 0)
		add_content(&ex->inner.out, ex->client_framing, content);
	return r;
}

/* Decompress until the client's lane is full. */
static int unpack(struct exchange *ex)
{
	static struct buf plain = BUF_INIT(2 * DECODE_PIECE);

	while (ex->decoder && ex->is_unpacking && lane_size(&ex->inner.out) < lane_max()) {
		size_t used;
		int r;

		plain.used = 0;
		r = decoder_step(ex->decoder, ex->packed.data + ex->packed_start,
				 ex->packed.used - ex->packed_start, &used, &plain);
		if (r < 0)
			return r;
		ex->packed_start += used;
		ex->is_unpacking = r > 0;
		r = buf_error(&plain);
		if (r == 0)
			r = pass_content(ex, (struct http_slice){plain.data, plain.used}, false);
		OPENSSL_cleanse(plain.data, plain.used);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pack_in(struct exchange *ex, struct http_slice content)
{
	ex->packed.used = ex->packed_start = 0;
	buf_add(&ex->packed, content.at, content.size);
	ex->is_unpacking = content.size > 0;
	return buf_error(&ex->packed);
}

/* The body is complete: what was held back goes out, and the end as the client expects it. */
static int finish_answer(struct exchange *ex, struct http_slice trailers)
{
	static const struct http_slice nothing = {0}, line_end = {"\r\n", 2};
	int r = ex->decoder && !decoder_is_done(ex->decoder) ? -EBADMSG : 0;

	if (r == 0)
		r = pass_content(ex, nothing, true);
	if (r < 0)
		return r;
	/* Behind a body a value would be seen as well. It lies in our own lane. */
	if (ex->has_secrets)
		swap_hide(ex->flow->egress->swap, ex->host, (char *)trailers.at, trailers.size);
	ex->is_answered = true;
	if (ex->client_framing != HTTP_CHUNKED)
		return 0;
	return add_trailers(&ex->inner.out, trailers.size > 0 ? trailers : line_end);
}

/* One step of the body, or of what is left of it to decompress; 1 if there was one. */
static int answer_step(struct exchange *ex)
{
	struct lane *from = &ex->outer.in;
	struct body_piece piece;
	int r = unpack(ex);

	if (r < 0 || ex->is_unpacking || ex->is_answered)
		return r;
	if (ex->answer.is_done)
		return finish_answer(ex, (struct http_slice){0}) < 0 ? -EBADMSG : 1;
	if (lane_size(from) == 0 || lane_size(&ex->inner.out) >= lane_max())
		return 0;
	r = body_step(&ex->answer, lane_data(from), lane_size(from), &piece);
	if (r < 0)
		return r;
	r = ex->decoder ? pack_in(ex, piece.content) : pass_content(ex, piece.content, false);
	if (r == 0 && piece.trailers.size > 0)
		r = finish_answer(ex, piece.trailers);
	if (r < 0)
		return r;
	lane_take(from, piece.used);
	return piece.used > 0;
}

/* The server closed, and that may be the end of the body. */
static bool end_answer(struct exchange *ex)
{
	/* A TLS stream that just breaks off is no end: somebody may have cut it. Nor is one whose
	 * reset was already told to who wrote. */
	return !ex->answer.is_done && !ex->is_unpacking && lane_size(&ex->outer.in) == 0 &&
	       ex->outer.is_ended && !(ex->is_refusing && !ex->is_tls) &&
	       body_end(&ex->answer) == 0;
}

static bool pass_answer(struct exchange *ex)
{
	bool moved = false;
	int r;

	do {
		while ((r = answer_step(ex)) > 0)
			moved = true;
	} while (r == 0 && end_answer(ex));
	if (r < 0)
		exchange_finish(ex, ATOLL_CONN_FAILED,
				ex->decoder
					? "the server's answer is not as its Content-Encoding says"
					: "the server's answer is no sequence of chunks");
	return moved;
}

/* ---- a request and its answer ---- */

static const struct http_slice method_head = {"HEAD", 4}, method_other = {"", 0};

static enum http_result parse_answer(struct exchange *ex, struct http_head *ret,
				     const char **ret_why)
{
	struct lane *in = &ex->outer.in;

	return http_read_answer(lane_data(in), lane_size(in),
				ex->is_head_request ? method_head : method_other, ret, ret_why);
}

static bool read_answer(struct exchange *ex)
{
	struct http_head head;
	const char *why;
	enum http_result result;

	ex->outer.has_line = false;
	result = parse_answer(ex, &head, &why);
	if (result == HTTP_OK && ex->has_secrets) {
		swap_hide(ex->flow->egress->swap, ex->host, lane_data(&ex->outer.in), head.size);
		result = parse_answer(ex, &head, &why);
	}
	if (result == HTTP_MORE)
		return false;
	if (result == HTTP_BAD || exchange_take_answer(ex, &head, &why) < 0) {
		exchange_refuse(ex, 502, ATOLL_CONN_FAILED, "the server's answer has %s", why);
		return true;
	}
	lane_take(&ex->outer.in, head.size);
	/* After an interim answer the next one may be there already. */
	ex->outer.has_line = lane_size(&ex->outer.in) > 0;
	exchange_set_deadline(ex, ex->phase == PHASE_OPAQUE ? OPAQUE_S
				  : ex->has_answer	    ? BODY_S
							    : ANSWER_S);
	return true;
}

static void server_gone(struct exchange *ex)
{
	/* It closed an idle connection while the next request was on its way to it. */
	if (ex->is_reused && ex->n_sent == 0 && !ex->has_answer) {
		exchange_connect(ex);
		return;
	}
	exchange_refuse(ex, 502, ex->has_answer ? ATOLL_CONN_ALLOWED : ATOLL_CONN_FAILED,
			ex->has_answer || lane_size(&ex->outer.in) > 0
				? "the server closed within its answer"
				: "the server closed without an answer");
}

static void end_request(struct exchange *ex)
{
	bool is_all_sent = ex->request.is_done && lane_size(&ex->outer.out) == 0;

	/* More than was asked for would be taken for the answer to the next request. */
	if (ex->closes_server || !is_all_sent || ex->outer.is_ended || ex->outer.error ||
	    lane_size(&ex->outer.in) > 0)
		exchange_drop_server(ex, !is_all_sent);
	if (!ex->closes_client && ex->request.is_done) {
		exchange_next(ex);
		return;
	}
	ex->phase = PHASE_LAST;
	ex->verdict = ATOLL_CONN_ALLOWED;
	ex->reason[0] = '\0';
	exchange_set_deadline(ex, BODY_S);
}

static bool pass_out(struct exchange *ex)
{
	bool moved = false;

	if (ex->is_refusing)
		return false;
	if (pass_request_directly(ex))
		return true;
	/* Once all of the request is there, only the end of the client is of interest. */
	if (!ex->request.is_done || lane_size(&ex->inner.in) == 0)
		moved = side_fill(&ex->inner, SIZE_MAX) > 0;
	moved = pass_request(ex) || moved;
	if (ex->phase != PHASE_PASS || ex->is_finished)
		return true;
	if (flush_server(ex) > 0)
		moved = true;
	return moved;
}

static bool pass_in(struct exchange *ex)
{
	bool moved;

	if (ex->has_answer && pass_answer_directly(ex))
		return true;
	moved = fill_server(ex) > 0;
	if (!ex->has_answer && (ex->outer.has_line || lane_size(&ex->outer.in) >= HTTP_HEAD_MAX))
		moved = read_answer(ex) || moved;
	if (ex->phase == PHASE_PASS && !ex->is_finished && ex->has_answer)
		moved = pass_answer(ex) || moved;
	return moved;
}

/* The server's stream has ended or failed before the answer did. */
static bool check_server(struct exchange *ex)
{
	if ((ex->has_answer && ex->answer.is_done) || !(ex->outer.is_ended || ex->outer.error))
		return false;
	/* It takes no more; what it had to say may still come. */
	if (ex->outer.is_write_error && !ex->is_refusing && ex->n_sent > 0) {
		ex->is_refusing = ex->closes_client = true;
		ex->outer.is_write_error = false;
		ex->outer.error = 0;
		ex->outer.may_read = true;
		lane_clear(&ex->outer.out, ex->has_secrets);
		return true;
	}
	/* Not before what it said has been passed on. */
	if (ex->has_answer && lane_size(&ex->inner.out) > 0)
		return false;
	server_gone(ex);
	return true;
}

bool exchange_step_pass(struct exchange *ex)
{
	bool out = pass_out(ex), in = false;

	if (ex->phase == PHASE_PASS && !ex->is_finished)
		in = pass_in(ex);
	if (ex->phase == PHASE_PASS && !ex->is_finished)
		in = check_server(ex) || in;
	if (ex->phase != PHASE_PASS || ex->is_finished)
		return true;
	if (side_flush(&ex->inner, SIZE_MAX) > 0)
		in = true;
	if (ex->inner.error) {
		exchange_finish(ex, ATOLL_CONN_ALLOWED, NULL);
		return true;
	}
	if (ex->inner.is_ended && !ex->request.is_done && lane_size(&ex->inner.in) == 0) {
		exchange_finish(ex, ATOLL_CONN_ALLOWED, "the program closed within its request");
		return true;
	}
	if (ex->is_answered) {
		end_request(ex);
		return true;
	}
	/* Bytes of a head that trickles in do not count. */
	if (ex->has_answer ? in || out : out)
		exchange_set_deadline(ex, ex->has_answer ? BODY_S : ANSWER_S);
	return in || out;
}

static bool move_lane(struct lane *from, struct lane *to)
{
	size_t size = lane_size(from);

	if (size == 0 || lane_size(to) >= lane_max())
		return false;
	lane_tidy(to);
	buf_add(&to->buf, lane_data(from), size);
	lane_take(from, size);
	return true;
}

/* One direction has ended and is passed on: the other side is told. */
static bool pass_end(struct side *from, struct side *to)
{
	if (!from->is_ended || to->stream->is_write_closed || lane_size(&from->in) > 0 ||
	    lane_size(&to->out) > 0)
		return false;
	stream_shut(to->stream);
	return true;
}

bool exchange_step_opaque(struct exchange *ex)
{
	bool moved = side_fill(&ex->inner, SIZE_MAX) > 0;

	moved = move_lane(&ex->inner.in, &ex->outer.out) || moved;
	moved = flush_server(ex) > 0 || moved;
	moved = fill_server(ex) > 0 || moved;
	moved = (ex->has_secrets ? exchange_pass_frames(ex)
				 : move_lane(&ex->outer.in, &ex->inner.out)) ||
		moved;
	moved = side_flush(&ex->inner, SIZE_MAX) > 0 || moved;
	moved = pass_end(&ex->inner, &ex->outer) || moved;
	moved = pass_end(&ex->outer, &ex->inner) || moved;
	if (ex->inner.error || ex->outer.error ||
	    (ex->flow->client.is_write_closed && ex->server.is_write_closed))
		exchange_finish(ex, ATOLL_CONN_ALLOWED, NULL);
	if (moved)
		exchange_set_deadline(ex, ex->inner.is_ended || ex->outer.is_ended ? HALF_DONE_S
										   : OPAQUE_S);
	return moved;
}
