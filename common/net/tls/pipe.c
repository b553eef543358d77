/* SPDX-License-Identifier: Apache-2.0 */
/* Moves ciphertext between a TLS stream and the transport below (TCP); in the handshake also to and from OpenSSL, through a BIO.
 *   Out: records, and what OpenSSL writes, collect in the loop's buffer; psi_tls_pipe_flush() sends them in one write. What the
 *   kernel does not take is copied to `sending`, for hold() of the transport below; later ciphertext waits in `queued`.
 *   In: during a call s->in points into the loop's buffer or into `kept`. Bytes that the owner does not take yet stay in `kept`:
 *   up to COPIED_BYTES_MAX as a copy; if there are more, the stream keeps the loop's buffer, and the loop gets another buffer.
 * Failure modes: no memory, or too much queued for a peer that reads nothing: UV_ENOBUFS, and the connection ends. */
#include "stream_internal.h"

#include "../../mem.h"

#include <string.h>

#ifdef PSI_HAVE_TLS

enum {
    QUEUED_BYTES_MAX = 512 << 10, /* limit of `queued`: mostly messages of TLS, as the owner writes nothing while bytes wait */
    COPIED_BYTES_MAX = 32 << 10   /* most unread bytes to copy; for more, the stream takes over the loop's buffer */
};

void psi_tls_pipe_busy(struct psi_tls_stream *s)
{
    s->outer->busy = s->state != PSI_TLS_OPEN || s->sending != NULL;
}

static int queue_add(struct psi_tls_stream *s, const uint8_t *bytes, size_t n)
{
    uint8_t *queued = s->queued_bytes + n > QUEUED_BYTES_MAX ? NULL : psi_realloc(s->queued, s->queued_bytes + n);
    if (queued == NULL) {
        return UV_ENOBUFS;
    }
    memcpy(queued + s->queued_bytes, bytes, n);
    s->queued = queued;
    s->queued_bytes += n;
    return 0;
}

static int queue_send(struct psi_tls_stream *s)
{
    size_t n = s->queued_bytes;
    s->sending = s->queued;
    s->queued = NULL;
    s->queued_bytes = 0;
    int rc = s->raw.row->hold(&s->raw, s->sending, n);
    if (rc != 0) {
        psi_free(s->sending);
        s->sending = NULL;
    }
    return rc;
}

int psi_tls_pipe_flush(struct psi_tls_stream *s)
{
    struct psi_tls_loop *loop = s->loop;
    size_t n = loop->out_bytes;
    size_t taken = 0;
    int rc = 0;
    loop->out_bytes = 0;
    if (n > 0 && s->sending == NULL) {
        struct psi_iov iov = {.base = loop->out, .bytes = n};
        ssize_t sent = s->raw.row->write(&s->raw, &iov, 1);
        taken = sent > 0 ? (size_t)sent : 0;
        rc = sent < 0 && sent != UV_EAGAIN ? (int)sent : 0;
    }
    if (rc == 0 && taken < n) {
        rc = queue_add(s, loop->out + taken, n - taken);
        rc = rc == 0 && s->sending == NULL ? queue_send(s) : rc;
    }
    psi_tls_pipe_busy(s);
    return rc;
}

int psi_tls_pipe_sent(struct psi_tls_stream *s)
{
    psi_free(s->sending);
    s->sending = NULL;
    int rc = s->queued_bytes > 0 ? queue_send(s) : 0;
    psi_tls_pipe_busy(s);
    return rc;
}

/* Encrypt content into a record at the end of the loop's buffer. content may lie there already, just after the record's head. */
static int record_add(struct psi_tls_stream *s, uint8_t type, const uint8_t *content, size_t n)
{
    struct psi_tls_loop *loop = s->loop;
    if (!psi_tls_record_seal(&s->to_peer, type, content, n, loop->out + loop->out_bytes)) {
        loop->out_bytes = 0;
        return UV_EIO;
    }
    loop->out_bytes += n + PSI_TLS_RECORD_MORE_BYTES;
    return 0;
}

/* Make room for one more record in the loop's buffer of ciphertext. If the key has encrypted many records, change it first. */
static int record_room(struct psi_tls_stream *s)
{
    int rc = s->to_peer.records < s->peer.tls->key_update_records ? 0 : psi_tls_pipe_key_update(s, false);
    if (rc == 0 && PSI_TLS_OUT_BYTES - s->loop->out_bytes < PSI_TLS_RECORD_BYTES + PSI_TLS_RECORD_MORE_BYTES) {
        rc = psi_tls_pipe_flush(s);
    }
    return rc;
}

int psi_tls_pipe_key_update(struct psi_tls_stream *s, bool requested)
{
    const uint8_t message[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, requested ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED};
    int rc = psi_tls_pipe_message(s, SSL3_RT_HANDSHAKE, message, sizeof(message));
    return rc != 0 ? rc : psi_tls_way_renew(&s->to_peer) ? 0 : UV_ENOMEM;
}

int psi_tls_pipe_message(struct psi_tls_stream *s, uint8_t type, const uint8_t *message, size_t n)
{
    bool room = PSI_TLS_OUT_BYTES - s->loop->out_bytes >= n + PSI_TLS_RECORD_MORE_BYTES;
    int rc = room ? 0 : psi_tls_pipe_flush(s);
    return rc != 0 ? rc : record_add(s, type, message, n);
}

ssize_t psi_tls_pipe_write(struct psi_tls_stream *s, const struct psi_iov *iov, size_t count)
{
    struct psi_tls_loop *loop = s->loop;
    size_t total = 0;
    size_t have = 0; /* bytes gathered in the loop's buffer for the next record, just after its head */
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const uint8_t *at = iov[i].base;
        size_t left = iov[i].bytes;
        total += left;
        while (left > 0 && rc == 0) {
            rc = have == 0 ? record_room(s) : 0;
            size_t part = left < PSI_TLS_RECORD_BYTES - have ? left : PSI_TLS_RECORD_BYTES - have;
            /* a whole record's content is encrypted straight from the owner's memory */
            if (rc == 0 && part == PSI_TLS_RECORD_BYTES) {
                rc = record_add(s, SSL3_RT_APPLICATION_DATA, at, part);
            } else if (rc == 0) {
                uint8_t *content = loop->out + loop->out_bytes + PSI_TLS_RECORD_HEAD_BYTES;
                memcpy(content + have, at, part);
                have += part;
                if (have == PSI_TLS_RECORD_BYTES) {
                    have = 0;
                    rc = record_add(s, SSL3_RT_APPLICATION_DATA, content, PSI_TLS_RECORD_BYTES);
                }
            }
            at += part;
            left -= part;
        }
    }
    if (rc == 0 && have > 0) {
        rc = record_add(s, SSL3_RT_APPLICATION_DATA, loop->out + loop->out_bytes + PSI_TLS_RECORD_HEAD_BYTES, have);
    }
    rc = rc == 0 ? psi_tls_pipe_flush(s) : rc;
    loop->out_bytes = 0;
    return rc != 0 ? rc : (ssize_t)total;
}

void psi_tls_pipe_forget(struct psi_tls_stream *s)
{
    if (s->kept_is_buffer && s->loop->spare == NULL) {
        s->loop->spare = s->kept;
    } else {
        psi_free(s->kept);
    }
    s->kept = NULL;
    s->kept_is_buffer = false;
}

/* Make the loop's buffer `in` the stream's `kept`, and give the loop its spare buffer or a new one. false: no memory. */
static bool buffer_take(struct psi_tls_stream *s)
{
    struct psi_tls_loop *loop = s->loop;
    uint8_t *other = loop->spare != NULL ? loop->spare : psi_malloc(PSI_TLS_IN_BYTES);
    if (other == NULL) {
        return false;
    }
    s->kept = loop->in;
    s->kept_is_buffer = true;
    loop->in = other;
    loop->spare = NULL;
    return true;
}

bool psi_tls_pipe_keep(struct psi_tls_stream *s)
{
    uint8_t *from = s->text_bytes > 0 ? s->text : s->in;
    /* distance from the unread plaintext to the next ciphertext: the plaintext and the rest of its record (type, padding, tag) */
    size_t gap = s->text_bytes > 0 ? (size_t)(s->in - s->text) : 0;
    size_t n = s->text_bytes + s->in_bytes > 0 ? gap + s->in_bytes : 0;
    if (n == 0) {
        psi_tls_pipe_forget(s);
        s->kept_at = 0;
    } else if (s->kept != NULL || (n > COPIED_BYTES_MAX && buffer_take(s))) {
        /* the kept bytes stay where they are, because nothing is read from the transport below while bytes are kept */
        s->kept_at = (size_t)(from - s->kept);
    } else {
        s->kept = psi_malloc(n);
        if (s->kept == NULL) {
            return false;
        }
        memcpy(s->kept, from, n);
        s->kept_at = 0;
    }
    s->kept_bytes = n;
    s->kept_text = s->text_bytes;
    s->kept_gap = gap;
    s->in = s->text = NULL;
    s->in_bytes = s->text_bytes = 0;
    return true;
}

static int on_write(BIO *bio, const char *bytes, int n)
{
    struct psi_tls_stream *s = psi_openssl.BIO_get_data(bio);
    struct psi_tls_loop *loop = s->loop;
    size_t left = n > 0 ? (size_t)n : 0;
    psi_openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    while (left > 0) {
        size_t room = PSI_TLS_OUT_BYTES - loop->out_bytes;
        size_t part = left < room ? left : room;
        memcpy(loop->out + loop->out_bytes, bytes, part);
        loop->out_bytes += part;
        bytes += part;
        left -= part;
        if (left > 0 && psi_tls_pipe_flush(s) != 0) {
            return -1;
        }
    }
    return n;
}

static int on_read(BIO *bio, char *bytes, int n)
{
    struct psi_tls_stream *s = psi_openssl.BIO_get_data(bio);
    size_t want = n > 0 ? (size_t)n : 0;
    psi_openssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (s->in_bytes == 0) {
        if (s->raw_end < 0) {
            return 0;
        }
        psi_openssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    want = want < s->in_bytes ? want : s->in_bytes;
    memcpy(bytes, s->in, want);
    s->in += want;
    s->in_bytes -= want;
    return (int)want;
}

static long on_ctrl(BIO *bio, int command, long number, void *pointer)
{
    const struct psi_tls_stream *s = psi_openssl.BIO_get_data(bio);
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF) { /* with 0, OpenSSL would report the end of TCP as a failed system call without a reason */
        return s->in_bytes == 0 && s->raw_end < 0;
    }
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method; /* of psd's BIO; made once in a process, never freed */

static void method_make(void)
{
    BIO_METHOD *made = psi_openssl.BIO_meth_new(psi_openssl.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "psd");
    if (made != NULL && psi_openssl.BIO_meth_set_read(made, on_read) == 1 &&
        psi_openssl.BIO_meth_set_write(made, on_write) == 1 && psi_openssl.BIO_meth_set_ctrl(made, on_ctrl) == 1) {
        method = made;
    }
}

bool psi_tls_pipe_make(struct psi_tls_stream *s)
{
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, method_make);
    SSL *ssl = psi_openssl.SSL_new(s->peer.tls->ctx);
    BIO *bio = method != NULL ? psi_openssl.BIO_new(method) : NULL;
    if (ssl == NULL || bio == NULL || psi_openssl.SSL_set_ex_data(ssl, 0, &s->peer) != 1) {
        psi_openssl.SSL_free(ssl);
        (void)psi_openssl.BIO_free(bio);
        return false;
    }
    psi_openssl.BIO_set_data(bio, s);
    psi_openssl.BIO_set_init(bio, 1);
    psi_openssl.SSL_set_bio(ssl, bio, bio); /* ssl owns it now */
    if (s->peer.dials) {
        psi_openssl.SSL_set_connect_state(ssl);
    } else {
        psi_openssl.SSL_set_accept_state(ssl);
    }
    s->ssl = ssl;
    return true;
}

#endif
