/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives on an open connection: records with plain text for the owner, and records of TLS itself (alerts, key updates).
 *
 * Happy path: the next whole record of s->in is decrypted into the owner's memory ("place"). A record that is short, or larger
 * than the place, is decrypted where it lies: s->text points at its text until the owner has taken all of it. The owner is told
 * of bytes in a place only when the tags of their records are right. Before that the place may hold bytes that nobody sent.
 *
 * Failure modes, all with PSI_TLS_BROKEN:
 *   a record does not decrypt, or its type is not allowed   -> an alert is written
 *   the peer sends an alert                                 -> no answer
 *   too many key updates or empty records                   -> an alert; reason FLOOD, as each costs as much as a full record
 *   a handshake message is cut between two records          -> an alert: only key updates (5 bytes) and tickets are allowed */
#include "stream_internal.h"

#include <string.h>

#ifdef PSI_HAVE_TLS

enum {
    MESSAGE_HEAD_BYTES = 4,
    ALERT_BYTES = 2,
    PLACED_BYTES_MIN = 1024, /* a shorter record is decrypted where it lies and then copied, which saves a call of the cipher */
    TEXTLESS_MAX = 32        /* most records without plain text in a row, as in OpenSSL's own record layer */
};

static void breaks(struct psi_tls_stream *s, uint8_t alert)
{
    const uint8_t message[ALERT_BYTES] = {SSL3_AL_FATAL, alert};
    s->stop = PSI_TLS_BROKEN;
    /* if the alert cannot be sent, the peer sees the end of the stream */
    PSI_IGNORE(psi_tls_pipe_message(s, SSL3_RT_ALERT, message, sizeof(message)));
}

static void refuse(struct psi_tls_stream *s, int alert)
{
    psi_tls_note(&s->peer, PSI_TLS_DAMAGED, "bytes from %s were changed on the way, or are no TLS: %s",
                 s->peer.dials ? s->name : "the peer", psi_openssl.SSL_alert_desc_string_long(alert));
    breaks(s, (uint8_t)alert);
}

static void alert_came(struct psi_tls_stream *s, const uint8_t *p, size_t n)
{
    if (n != ALERT_BYTES) {
        refuse(s, SSL_AD_DECODE_ERROR);
    } else if (p[1] == SSL_AD_CLOSE_NOTIFY) {
        s->stop = PSI_TLS_CLEAN_END;
    } else if (p[1] != SSL_AD_USER_CANCELLED) { /* USER_CANCELLED is followed by a close_notify */
        psi_tls_note_alert(&s->peer, p[1], s->name);
        s->stop = PSI_TLS_BROKEN;
    }
}

/* Change the key after a key update of the peer, and answer if `requested`. false: no memory, or the answer cannot be sent. */
static bool key_update_came(struct psi_tls_stream *s, bool requested)
{
    s->peer.key_updates++;
    return psi_tls_way_renew(&s->from_peer) && (!requested || psi_tls_pipe_key_update(s, false) == 0);
}

static void messages_came(struct psi_tls_stream *s, const uint8_t *p, size_t n)
{
    while (n > 0 && s->stop == PSI_TLS_GOES_ON) {
        size_t whole = n < MESSAGE_HEAD_BYTES ? SIZE_MAX : MESSAGE_HEAD_BYTES + ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
        if (whole <= n && p[0] == SSL3_MT_NEWSESSION_TICKET && s->peer.dials) {
            p += whole; /* a session ticket is ignored, because sessions are not resumed */
            n -= whole;
        } else if (whole == n && p[0] == SSL3_MT_KEY_UPDATE && n == MESSAGE_HEAD_BYTES + 1 &&
                   p[MESSAGE_HEAD_BYTES] <= SSL_KEY_UPDATE_REQUESTED) { /* a key update must be the last message under its key */
            if (!key_update_came(s, p[MESSAGE_HEAD_BYTES] == SSL_KEY_UPDATE_REQUESTED)) {
                psi_tls_note(&s->peer, PSI_TLS_INTERNAL, "memory is short for a new key");
                breaks(s, SSL_AD_INTERNAL_ERROR);
            }
            return;
        } else {
            refuse(s, SSL_AD_UNEXPECTED_MESSAGE);
        }
    }
}

/* Count a record without plain text. Too many such records in a row, or too many key updates, end the connection. */
static void textless_came(struct psi_tls_stream *s)
{
    const char *whom = s->peer.dials ? s->name : "the peer";
    if (psi_tls_floods(&s->peer)) {
        psi_tls_note(&s->peer, PSI_TLS_FLOOD, "%s changed its key more than %d times per GiB", whom,
                     PSI_TLS_KEY_UPDATES_PER_GIB_MAX);
    } else if (++s->textless > TEXTLESS_MAX) {
        psi_tls_note(&s->peer, PSI_TLS_FLOOD, "%s sent more than %d records in a row that bring nothing", whom, TEXTLESS_MAX);
    } else {
        return;
    }
    breaks(s, SSL_AD_UNEXPECTED_MESSAGE);
}

/* Open a record of `whole` bytes at s->in, and do what its type asks for. Plain text goes to place [room] or, if it is short or
 * has no room there, stays where it lies (s->text). Returns the number of bytes in `place`. */
static size_t record_came(struct psi_tls_stream *s, size_t whole, uint8_t *place, size_t room)
{
    size_t most = psi_tls_record_most(whole);
    bool placed = most >= PLACED_BYTES_MIN && most <= room;
    uint8_t *content = placed ? place : s->in + PSI_TLS_RECORD_HEAD_BYTES;
    uint8_t type = 0;
    size_t n = 0;
    int alert = psi_tls_record_open(&s->from_peer, s->in, whole, content, &type, &n);
    s->in += whole;
    s->in_bytes -= whole;
    if (alert != 0) {
        refuse(s, alert);
    } else if (type == SSL3_RT_APPLICATION_DATA && n > 0) {
        s->textless = 0;
        s->text = placed ? NULL : content;
        s->text_bytes = placed ? 0 : n;
        return placed ? n : 0;
    } else if (type == SSL3_RT_ALERT) {
        alert_came(s, content, n);
    } else if (type == SSL3_RT_HANDSHAKE && n > 0) {
        messages_came(s, content, n);
    } else if (type != SSL3_RT_APPLICATION_DATA) {
        refuse(s, SSL_AD_UNEXPECTED_MESSAGE);
    }
    if (s->stop == PSI_TLS_GOES_ON) {
        textless_came(s);
    }
    return 0;
}

size_t psi_tls_text_take(struct psi_tls_stream *s, uint8_t *place, size_t room)
{
    size_t placed = 0;
    while (s->text_bytes == 0 && placed == 0 && s->stop == PSI_TLS_GOES_ON) {
        size_t whole = psi_tls_record_whole(s->in, s->in_bytes);
        if (whole > 0) {
            placed = record_came(s, whole, place, room);
        } else if (s->raw_end < 0) {
            s->stop = PSI_TLS_END;
        } else {
            return 0;
        }
    }
    if (s->stop != PSI_TLS_GOES_ON) {
        s->in_bytes = 0; /* bytes that follow the end of the stream are dropped */
    }
    if (placed == 0 && s->text_bytes > 0) {
        placed = room < s->text_bytes ? room : s->text_bytes;
        memcpy(place, s->text, placed);
        s->text += placed;
        s->text_bytes -= placed;
    }
    return placed;
}

#endif
