/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as a transport. See stream.h; the handshake's policy is in key.c and cert.c, the texts are in why.c.
 *
 * Happy path: read(on) starts the stream. An accepted stream collects the ClientHello, and then waits for a handshake slot. All
 * streams of a loop together do at most PSI_TLS_STEPS_PER_TURN handshake steps in a turn. written(0) tells the owner that the
 * handshake is over. Ciphertext is read into the loop's buffer, and decrypted into the owner's memory ("places"). write()
 * encrypts into another buffer of the loop, and gives it to the transport below.
 *
 *                 ClientHello whole       a slot is free          both Finished
 *     FRESH -> HELLO ---------> WAITS_SLOT ---------> HANDSHAKE ---------> OPEN -> (FAILED) -> CLOSED
 *
 * A stream keeps the beginning of a record, and what came while its owner wants no more (`kept`); and ciphertext that the kernel
 * did not take (`sending`, then `queued`). While ciphertext waits the stream is busy: write() is not called.
 *
 * Failure modes:
 *   the handshake fails     -> the alert is sent, refused() for an accepted stream, arrived(UV_EPROTO)
 *   a record is damaged     -> as for a failed handshake
 *   plain text comes        -> to a client an alert in plain text, which a psd without TLS understands
 *   the peer ends           -> arrived(UV_EOF); why() tells an end with close_notify from one without
 *   the stream keeps bytes  -> epoll does not report them, so again() makes the owner call resume() in the next turn
 *   too many key updates, or too many records without plain text -> an alert, FLOOD */
#include "stream_internal.h"

#include "../../mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifdef PSI_HAVE_TLS

enum { WINDOW_BYTES = 1 << 20 }; /* receive window of an open stream; window_widen() says why */

static struct psi_tls_stream *stream_of(struct psi_transport *raw)
{
    return PSI_CONTAINER_OF(raw, struct psi_tls_stream, raw);
}

/* True if the stream itself keeps bytes, or an end, for its owner. epoll has reported them already, and will not do so again. */
static bool has_inside(const struct psi_tls_stream *s)
{
    const uint8_t *kept = s->kept != NULL ? s->kept + s->kept_at + s->kept_gap : NULL;
    return s->text_bytes > 0 || s->kept_text > 0 || s->raw_end < 0 || s->stop != PSI_TLS_GOES_ON ||
           psi_tls_record_whole(s->in, s->in_bytes) > 0 || psi_tls_record_whole(kept, s->kept_bytes - s->kept_gap) > 0;
}

/* Start or stop reading from the transport below: ciphertext is read only when the stream can use it. */
static int raw_read(struct psi_tls_stream *s)
{
    bool wants = s->state == PSI_TLS_HELLO || s->state == PSI_TLS_FAILED ||
                 (s->state == PSI_TLS_HANDSHAKE && s->kept_bytes == 0) ||
                 (s->state == PSI_TLS_OPEN && s->outer->reading && !has_inside(s));
    wants = wants && s->raw_end == 0;
    return wants == s->raw.reading || s->state == PSI_TLS_CLOSED ? 0 : s->raw.row->read(&s->raw, wants);
}

static void refuse(struct psi_tls_stream *s)
{
    if (!s->told && !s->peer.dials) {
        s->told = true;
        s->outer->events->refused(s->outer, s->peer.reason, s->peer.text);
    }
}

/* End a stream whose failure has been noted: its handshake is over, and what it has read is dropped. */
static void fail(struct psi_tls_stream *s)
{
    s->state = PSI_TLS_FAILED;
    psi_tls_handshake_ends(s, false);
    psi_tls_slot_give_back(s);
    s->in_bytes = s->text_bytes = 0;
    PSI_IGNORE(psi_tls_pipe_keep(s));  /* frees the kept bytes */
    PSI_IGNORE(psi_tls_pipe_flush(s)); /* sends the alert; if that fails, the peer just sees the end of the stream */
    refuse(s);
    s->outer->events->arrived(s->outer, UV_EPROTO);
    PSI_IGNORE(raw_read(s)); /* if this fails, arriving bytes are not discarded; the owner closes after a time */
}

static void end_came(struct psi_tls_stream *s)
{
    if (s->state < PSI_TLS_OPEN && s->raw_end == UV_EOF) {
        psi_tls_note(&s->peer, PSI_TLS_ENDED,
                     s->peer.dials ? "%s closed the connection in the TLS handshake: does the server use TLS? Its log says more"
                                   : "it closed the connection in the TLS handshake",
                     s->name);
        refuse(s);
    }
    psi_tls_slot_give_back(s);
    s->outer->events->arrived(s->outer, s->raw_end < 0 ? s->raw_end : UV_EOF);
}

static size_t places_join(struct psi_space *places, size_t count)
{
    size_t last = 0;
    for (size_t i = 1; i < count; i++) {
        if ((uint8_t *)places[last].base + places[last].bytes == places[i].base) {
            places[last].bytes += places[i].bytes;
        } else {
            places[++last] = places[i];
        }
    }
    return last + 1;
}

/* Copy decrypted bytes into the owner's places. Returns their number; *out_full: the places are full. */
static size_t places_fill(struct psi_tls_stream *s, const struct psi_space *places, size_t count, bool *out_full)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t have = 0; have < places[i].bytes;) {
            size_t n = psi_tls_text_take(s, (uint8_t *)places[i].base + have, places[i].bytes - have);
            if (n == 0) {
                *out_full = false;
                return total;
            }
            have += n;
            total += n;
        }
    }
    *out_full = true;
    return total;
}

/* Decrypt into the places of the stream's owner, as long as the owner reads and bytes are there. */
static void deliver(struct psi_tls_stream *s)
{
    bool full = true;
    while (full && s->state == PSI_TLS_OPEN && s->outer->reading && s->stop == PSI_TLS_GOES_ON && has_inside(s)) {
        struct psi_space places[PSI_READ_PLACES_MAX];
        size_t count = s->outer->events->space(s->outer, places);
        if (count == 0) {
            s->outer->events->again(s->outer);
            return;
        }
        size_t n = places_fill(s, places, places_join(places, count), &full);
        if (psi_tls_pipe_flush(s) != 0 && s->stop == PSI_TLS_GOES_ON) { /* sends the answer to a key update */
            s->stop = PSI_TLS_END;
        }
        if (n > 0) {
            s->peer.bytes_in += n;
            s->outer->events->arrived(s->outer, (ssize_t)n);
        }
    }
    if (s->state != PSI_TLS_OPEN || !s->outer->reading) {
        return;
    }
    if (s->stop == PSI_TLS_BROKEN) {
        fail(s);
    } else if (s->stop != PSI_TLS_GOES_ON) {
        end_came(s);
    }
}

/* Let the peer send WINDOW_BYTES without waiting. Otherwise the kernel's receive window is 64 KiB at first, and grows with the
 * size of single reads. This side reads up to 128 KiB at a time, and would find such a window full. While it is full, sending
 * costs the receiver's CPU a timer and an interrupt for each segment. */
static void window_widen(struct psi_tls_stream *s)
{
    /* SO_RCVLOWAT makes the kernel reserve so much room; SO_RCVBUF would need root for that. The second value, 1, lets the kernel
     * report each byte again at once, and keeps the room. */
    static const int bytes[] = {WINDOW_BYTES, 1};
    uv_os_fd_t fd = -1;
    const bool is_open = uv_fileno(&s->raw.u.handle, &fd) == 0;
    for (size_t i = 0; is_open && i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        /* if the kernel refuses it, the connection is only slower */
        PSI_IGNORE(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes[i], sizeof(bytes[i])));
    }
}

static void handshake(struct psi_tls_stream *s)
{
    enum psi_tls_step step = PSI_TLS_STEP_FAILED;
    if (s->ssl != NULL && s->in_bytes == 0 && s->raw_end == 0) {
        return; /* no bytes have come for the handshake */
    }
    if (!psi_tls_step_take(s->loop)) {
        s->outer->events->again(s->outer);
        return;
    }
    if (s->ssl == NULL && !psi_tls_pipe_make(s)) {
        psi_tls_note(&s->peer, PSI_TLS_INTERNAL, "memory is short for a TLS connection");
    } else {
        step = psi_tls_handshake_step(s);
    }
    if (step == PSI_TLS_STEP_FAILED && s->peer.reason == PSI_TLS_NONE) {
        end_came(s);
    } else if (step == PSI_TLS_STEP_FAILED) {
        fail(s);
    } else if (step == PSI_TLS_STEP_WAITS) {
        PSI_IGNORE(psi_tls_pipe_flush(s)); /* if it fails, the next read reports why */
    } else {
        s->state = PSI_TLS_OPEN;
        psi_tls_handshake_ends(s, true);
        if (!s->peer.dials) {
            psi_tls_known_add(s);
        }
        psi_tls_slot_give_back(s);
        window_widen(s);
        PSI_IGNORE(psi_tls_pipe_flush(s)); /* if it fails, the next read reports why */
        if (!s->outer->busy) {
            s->outer->events->written(s->outer, 0);
        }
    }
}

/* Use the bytes in s->in for the handshake, or decrypt them, as far as the limits of this turn allow. */
static void drive(struct psi_tls_stream *s)
{
    if (s->state == PSI_TLS_HANDSHAKE) {
        handshake(s);
    }
    if (s->state == PSI_TLS_OPEN) {
        deliver(s);
    }
    if ((s->state == PSI_TLS_HANDSHAKE || s->state == PSI_TLS_OPEN) && !psi_tls_pipe_keep(s)) {
        psi_tls_note(&s->peer, PSI_TLS_INTERNAL, "memory is short for what arrived");
        fail(s);
    }
    if (raw_read(s) != 0) {
        s->raw_end = UV_EBADF;
        s->outer->events->again(s->outer);
    }
}

/* Make the bytes in s->kept, which an earlier call has saved, available again: plaintext as s->text, ciphertext as s->in. */
static void kept_take(struct psi_tls_stream *s)
{
    if (s->kept != NULL) {
        s->text = s->kept + s->kept_at;
        s->text_bytes = s->kept_text;
        s->in = s->text + s->kept_gap;
        s->in_bytes = s->kept_bytes - s->kept_gap;
        s->kept_bytes = s->kept_text = s->kept_gap = 0;
    }
}

/* Take in n bytes that came into the loop's buffer. The saved beginning of a record is copied in front of them. */
static void loop_take(struct psi_tls_stream *s, size_t n)
{
    if (s->kept_bytes > 0) {
        memcpy(s->loop->in, s->kept + s->kept_at, s->kept_bytes);
    }
    s->in = s->loop->in;
    s->in_bytes = s->kept_bytes + n;
    s->kept_bytes = 0;
    psi_tls_pipe_forget(s);
}

/* Call when bytes of a ClientHello have come into `kept`: goes on once the message is whole. */
static void hello_came(struct psi_tls_stream *s)
{
    enum psi_tls_step step = psi_tls_hello_look(s);
    if (step == PSI_TLS_STEP_FAILED) {
        fail(s);
    } else if (step == PSI_TLS_STEP_DONE && psi_tls_slot_take(s)) {
        s->state = PSI_TLS_HANDSHAKE;
        kept_take(s);
        drive(s);
    } else if (step == PSI_TLS_STEP_DONE) {
        s->state = PSI_TLS_WAITS_SLOT;
        psi_tls_slot_wait(s);
        PSI_IGNORE(raw_read(s)); /* stopping cannot fail */
    }
}

static size_t on_raw_space(struct psi_transport *raw, struct psi_space places[PSI_READ_PLACES_MAX])
{
    struct psi_tls_stream *s = stream_of(raw);
    if (s->state == PSI_TLS_HELLO) {
        s->kept = s->kept != NULL ? s->kept : psi_malloc(PSI_TLS_HELLO_BYTES_MAX);
        places[0] = (struct psi_space){.base = s->kept + s->kept_bytes, .bytes = PSI_TLS_HELLO_BYTES_MAX - s->kept_bytes};
        return s->kept != NULL && places[0].bytes > 0 ? 1 : 0;
    }
    places[0] = (struct psi_space){.base = s->loop->in + s->kept_bytes, .bytes = PSI_TLS_IN_BYTES - s->kept_bytes};
    return places[0].bytes > 0 ? 1 : 0;
}

static void on_raw_arrived(struct psi_transport *raw, ssize_t n)
{
    struct psi_tls_stream *s = stream_of(raw);
    if (n < 0) {
        s->raw_end = (int)n;
        PSI_IGNORE(raw_read(s)); /* stopping cannot fail */
        if (n == UV_EOF && (s->state == PSI_TLS_HANDSHAKE || s->state == PSI_TLS_OPEN)) {
            kept_take(s);
            drive(s); /* drive() finds out whether close_notify came before the end */
        } else {
            end_came(s);
        }
    } else if (s->state == PSI_TLS_HELLO) {
        s->kept_bytes += (size_t)n;
        hello_came(s);
    } else if (s->state == PSI_TLS_HANDSHAKE || s->state == PSI_TLS_OPEN) {
        loop_take(s, (size_t)n);
        drive(s);
    }
}

static void on_raw_written(struct psi_transport *raw, int status)
{
    struct psi_tls_stream *s = stream_of(raw);
    int rc = psi_tls_pipe_sent(s);
    status = status != 0 ? status : rc;
    if (s->state == PSI_TLS_CLOSED || (status == 0 && s->sending != NULL)) {
        return;
    }
    if (status == 0 && s->ending) {
        PSI_IGNORE(s->raw.row->end(&s->raw)); /* fails only if the peer is gone */
    } else if (s->state == PSI_TLS_OPEN) {
        s->outer->events->written(s->outer, status);
    }
}

static void on_raw_again(struct psi_transport *raw)
{
    (void)raw; /* never called: the transport below is a socket's, which keeps no bytes of its own */
}

static void on_raw_holds(struct psi_transport *raw, bool on)
{
    struct psi_transport *outer = stream_of(raw)->outer;
    outer->events->holds(outer, on);
}

static void on_raw_refused(struct psi_transport *raw, enum psi_tls_reason reason, const char *text)
{
    (void)raw; /* never called: a plain socket refuses no peer */
    (void)reason;
    (void)text;
}

static void on_raw_closed(struct psi_transport *raw)
{
    struct psi_transport *outer = stream_of(raw)->outer;
    outer->events->closed(outer);
}

static const struct psi_transport_events raw_events = {.space = on_raw_space,
                                                       .arrived = on_raw_arrived,
                                                       .written = on_raw_written,
                                                       .again = on_raw_again,
                                                       .holds = on_raw_holds,
                                                       .refused = on_raw_refused,
                                                       .closed = on_raw_closed};

static int tls_open(struct psi_transport *tr, uv_loop_t *loop, int fd)
{
    struct psi_tls_stream *s = tr->stream;
    tr->busy = true;
    return s->raw.row->open(&s->raw, loop, fd);
}

static int tls_read(struct psi_transport *tr, bool on)
{
    struct psi_tls_stream *s = tr->stream;
    tr->reading = on;
    if (on && s->state == PSI_TLS_FRESH) {
        s->state = s->peer.dials ? PSI_TLS_HANDSHAKE : PSI_TLS_HELLO;
        if (!s->peer.dials) {
            psi_tls_handshake_begins(s);
        }
        if (!s->peer.dials && !psi_tls_raw_take(s)) {
            psi_tls_note(&s->peer, PSI_TLS_TOO_MANY, "%u connections of strangers wait for a handshake already", s->loop->raw);
        }
        if (s->peer.dials || s->peer.reason != PSI_TLS_NONE) {
            /* resume() will start the handshake or fail: here the owner is calling, and must not be called back */
            tr->events->again(tr);
        }
    } else if (on && s->state == PSI_TLS_OPEN && has_inside(s)) {
        tr->events->again(tr);
    }
    return raw_read(s);
}

static void tls_resume(struct psi_transport *tr)
{
    struct psi_tls_stream *s = tr->stream;
    if (s->state == PSI_TLS_HELLO && s->peer.reason != PSI_TLS_NONE) {
        fail(s);
        return;
    }
    if (s->state == PSI_TLS_WAITS_SLOT && s->has_slot) {
        s->state = PSI_TLS_HANDSHAKE;
    }
    if (s->state == PSI_TLS_HANDSHAKE || s->state == PSI_TLS_OPEN) {
        kept_take(s);
        drive(s);
    }
}

static ssize_t tls_write(struct psi_transport *tr, const struct psi_iov *iov, size_t count)
{
    return tr->busy ? UV_EAGAIN : psi_tls_pipe_write(tr->stream, iov, count);
}

static size_t tls_held(const struct psi_transport *tr)
{
    const struct psi_tls_stream *s = tr->stream;
    return s->sending != NULL ? s->raw.row->held(&s->raw) + s->queued_bytes : 0;
}

static int tls_hold(struct psi_transport *tr, const void *bytes, size_t n)
{
    (void)tr; /* never called: write() takes all bytes, so nothing is left for a hold */
    (void)bytes;
    (void)n;
    return UV_ENOTSUP;
}

static int tls_end(struct psi_transport *tr)
{
    struct psi_tls_stream *s = tr->stream;
    if (s->state == PSI_TLS_OPEN) {
        static const uint8_t close_notify[] = {SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY};
        PSI_IGNORE(psi_tls_pipe_message(s, SSL3_RT_ALERT, close_notify, sizeof(close_notify)));
        PSI_IGNORE(psi_tls_pipe_flush(s)); /* the end of the stream follows, even if the alert could not be sent */
    }
    s->ending = true;
    return s->sending != NULL ? 0 : s->raw.row->end(&s->raw);
}

static void tls_close(struct psi_transport *tr)
{
    struct psi_tls_stream *s = tr->stream;
    if (s->state == PSI_TLS_WAITS_SLOT) {
        psi_tls_note(&s->peer, PSI_TLS_TOO_MANY,
                     "its turn did not come in time: %u handshakes are under way, %u of them strangers', %u connections wait; at "
                     "most %d of one address and %d of strangers are",
                     s->loop->slots, s->loop->stranger_slots, s->loop->raw, PSI_TLS_SLOTS_PER_ADDRESS,
                     PSI_TLS_SLOTS - PSI_TLS_SLOTS_KEPT);
        refuse(s);
    } else if (s->state == PSI_TLS_HELLO || s->state == PSI_TLS_HANDSHAKE) {
        psi_tls_note(&s->peer, PSI_TLS_TOO_SLOW, "its part of the TLS handshake did not come in time");
        refuse(s);
    }
    psi_tls_handshake_ends(s, false);
    psi_tls_slot_give_back(s);
    s->state = PSI_TLS_CLOSED;
    tr->reading = false;
    s->raw.row->close(&s->raw);
}

static const char *tls_why(const struct psi_transport *tr)
{
    const struct psi_tls_stream *s = tr->stream;
    if (s->peer.reason != PSI_TLS_NONE) {
        return s->peer.text;
    }
    return s->raw_end == UV_EOF && s->stop == PSI_TLS_END ? "closed by peer without the end of TLS" : NULL;
}

const struct psi_transport_row psi_tls_row = {.name = "tls",
                                              .crc = false,
                                              .try_bytes = PSI_TLS_TRY_BYTES,
                                              .open = tls_open,
                                              .read = tls_read,
                                              .write = tls_write,
                                              .hold = tls_hold,
                                              .held = tls_held,
                                              .end = tls_end,
                                              .close = tls_close,
                                              .resume = tls_resume,
                                              .why = tls_why};

ps_status psi_tls_stream_make(struct psi_transport *tr, const struct psi_tls_stream_spec *spec, struct psi_err *err)
{
    struct psi_tls *tls = spec->tls;
    struct psi_tls_stream *s = psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a TLS connection");
    }
    if (spec->dials && tls->keys != NULL) {
        const char *role = tls->dial_role[0] != '\0' ? tls->dial_role : NULL;
        const struct psi_key *key = psi_keys_first_use(tls->keys, role, tls->now_s());
        if (key != NULL) {
            psi_key_identity(key, &s->peer.identity);
            s->peer.key_line = key->line;
        } else if (!tls->has_cert) {
            psi_free(s);
            return psi_keys_no_use(tls->keys, role, tls->now_s(), err);
        }
    }
    (void)snprintf(s->peer.expect, sizeof(s->peer.expect), "%s", spec->expect != NULL ? spec->expect : "");
    s->peer.tls = psi_tls_ref(tls);
    s->peer.dials = spec->dials;
    s->is_listed = spec->is_listed;
    s->raw.row = spec->below;
    s->raw.events = &raw_events;
    s->outer = tr;
    s->loop = spec->loop;
    s->name = spec->peer;
    psi_list_init(&s->place);
    tr->row = &psi_tls_row;
    tr->stream = s;
    return PS_OK;
}

void psi_tls_stream_free(struct psi_transport *tr)
{
    struct psi_tls_stream *s = tr->stream;
    if (s == NULL) {
        return;
    }
    tr->stream = NULL;
    psi_openssl.SSL_free(s->ssl);
    psi_openssl.ERR_clear_error();
    psi_tls_way_end(&s->from_peer);
    psi_tls_way_end(&s->to_peer);
    explicit_bzero(s->peer.secrets, sizeof(s->peer.secrets));
    psi_openssl.X509_free(s->peer.cert);
    psi_openssl.OPENSSL_sk_pop_free((OPENSSL_STACK *)s->peer.chain, (OPENSSL_sk_freefunc)(void *)psi_openssl.X509_free);
    psi_tls_unref(s->peer.tls);
    psi_free(s->kept);
    psi_free(s->sending);
    psi_free(s->queued);
    psi_free(s);
}

const struct psi_identity *psi_tls_stream_identity(const struct psi_transport *tr)
{
    static const struct psi_identity anybody = {.kind = PSI_IDENTITY_ANYBODY};
    const struct psi_tls_stream *s = tr->stream;
    return s->secured ? &s->peer.identity : &anybody;
}

bool psi_tls_stream_shakes_hands(const struct psi_transport *tr)
{
    return tr->stream->state <= PSI_TLS_HANDSHAKE;
}

bool psi_tls_stream_is_refused(const struct psi_transport *tr)
{
    const struct psi_tls_stream *s = tr->stream;
    return s->peer.dials && s->peer.reason == PSI_TLS_REFUSED_BY_PEER;
}

void psi_tls_stream_revoke(struct psi_transport *tr)
{
    static const uint8_t revoked[] = {SSL3_AL_FATAL, SSL_AD_CERTIFICATE_REVOKED};
    struct psi_tls_stream *s = tr->stream;
    if (s->state == PSI_TLS_OPEN) {
        s->state = PSI_TLS_FAILED;
        /* if the alert cannot be sent, the peer just sees the end of the stream */
        PSI_IGNORE(psi_tls_pipe_message(s, SSL3_RT_ALERT, revoked, sizeof(revoked)));
        PSI_IGNORE(psi_tls_pipe_flush(s));
    }
}

bool psi_tls_stream_allowed(const struct psi_transport *tr, const struct psi_tls *now, char *why, size_t n)
{
    const struct psi_tls_stream *s = tr->stream;
    (void)snprintf(why, n, "%s", "");
    if (!s->secured) {
        return true; /* a peer is checked when its handshake is over */
    }
    if (now == NULL) {
        (void)snprintf(why, n, "keys and certificates are no longer configured");
        return false;
    }
    return s->peer.identity.kind == PSI_IDENTITY_KEY ? psi_tls_key_allowed(now, s->peer.tls, &s->peer.identity, why, n)
                                                     : psi_tls_cert_allowed(now, &s->peer, why, n);
}

void psi_tls_stream_move(struct psi_transport *tr, struct psi_tls *now)
{
    struct psi_tls_stream *s = tr->stream;
    if (s->secured && now != NULL && s->peer.tls != now) {
        psi_tls_unref(s->peer.tls);
        s->peer.tls = psi_tls_ref(now);
    }
}

#else

ps_status psi_tls_stream_make(struct psi_transport *tr, const struct psi_tls_stream_spec *spec, struct psi_err *err)
{
    (void)tr;
    (void)spec;
    return psi_openssl_load(err);
}

void psi_tls_stream_free(struct psi_transport *tr)
{
    PSI_ASSERT(tr->stream == NULL);
}

const struct psi_identity *psi_tls_stream_identity(const struct psi_transport *tr)
{
    static const struct psi_identity anybody = {.kind = PSI_IDENTITY_ANYBODY};
    (void)tr;
    return &anybody;
}

bool psi_tls_stream_shakes_hands(const struct psi_transport *tr)
{
    (void)tr;
    return false;
}

bool psi_tls_stream_is_refused(const struct psi_transport *tr)
{
    (void)tr;
    return false;
}

void psi_tls_stream_revoke(struct psi_transport *tr)
{
    (void)tr;
}

bool psi_tls_stream_allowed(const struct psi_transport *tr, const struct psi_tls *now, char *why, size_t n)
{
    (void)tr;
    (void)now;
    (void)snprintf(why, n, "this build has no TLS");
    return false;
}

void psi_tls_stream_move(struct psi_transport *tr, struct psi_tls *now)
{
    (void)tr;
    (void)now;
}

#endif
