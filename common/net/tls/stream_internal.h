/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a TLS stream share: stream.c (the transport's operations), handshake.c (ClientHello, who the peer is), pipe.c
 * (ciphertext to be sent, and for OpenSSL's handshake), arrive.c (records that come), record.c (one record), schedule.c
 * (secrets), loop.c (what the streams of a net share). "The transport below" carries the ciphertext (TCP). */
#ifndef PSI_TLS_STREAM_INTERNAL_H
#define PSI_TLS_STREAM_INTERNAL_H

#include "../../list.h"
#include "peer.h"
#include "record.h"
#include "stream.h"

#ifdef PSI_HAVE_TLS

enum { PSI_TLS_HOST_BYTES = 48 }; /* room for an IP address as text: "[" INET6_ADDRSTRLEN "]" */

struct psi_tls_loop {
    /* ciphertext: `in` [PSI_TLS_IN_BYTES] has what arrived, `out` [PSI_TLS_OUT_BYTES] what is to be sent; empty between calls */
    uint8_t *in, *out;
    uint8_t *spare;                 /* [PSI_TLS_IN_BYTES] becomes `in` when a stream keeps `in` for itself; NULL: none now */
    size_t out_bytes;               /* bytes in `out`; they belong to the stream whose function is running */
    const uint64_t *turn;           /* number of the event loop's present turn */
    struct psi_tls *const *now;     /* the net's present context (certificates, keys) */
    uint64_t steps_turn;            /* number of the loop's turn to which `steps` belongs */
    unsigned steps;                 /* handshake steps done in that turn */
    unsigned slots, stranger_slots; /* handshake slots in use; stranger_slots: of these, those of peers with unknown addresses */
    struct psi_handshakes handshakes;
    unsigned raw; /* accepted streams of strangers (unknown addresses) that wait for their first slot */
    struct psi_list holders;
    struct psi_list waiting[2];                    /* streams that wait for a handshake slot: [0] strangers, [1] others */
    char known[PSI_TLS_KNOWN][PSI_TLS_HOST_BYTES]; /* ring of known addresses */
    unsigned known_next;
};

enum psi_tls_state {
    PSI_TLS_FRESH,      /* the owner has not begun to read */
    PSI_TLS_HELLO,      /* accepted side: `kept` collects the client's first message (ClientHello) */
    PSI_TLS_WAITS_SLOT, /* accepted side: the ClientHello is complete, no handshake slot is free yet */
    PSI_TLS_HANDSHAKE,
    PSI_TLS_OPEN,
    PSI_TLS_FAILED, /* discards what arrives */
    PSI_TLS_CLOSED
};

/* Why no more plaintext will come. */
enum psi_tls_stop {
    PSI_TLS_GOES_ON,
    PSI_TLS_CLEAN_END, /* the peer has sent close_notify */
    PSI_TLS_END,       /* the TCP connection has ended without close_notify: maybe cut off */
    PSI_TLS_BROKEN     /* the stream failed; the reason is noted */
};

struct psi_tls_stream {
    struct psi_transport raw;    /* the transport below */
    struct psi_transport *outer; /* the transport that the owner uses: plaintext in and out */
    struct psi_tls_loop *loop;
    struct psi_tls_peer peer;
    const char *name;
    SSL *ssl; /* OpenSSL's object, used for the handshake only; NULL before the stream has a slot, and after the handshake */
    struct psi_tls_way from_peer, to_peer; /* keys and counters of the two directions, after the handshake */
    enum psi_tls_state state;
    enum psi_tls_stop stop;
    bool has_slot;
    bool slot_of_stranger;
    bool is_raw;       /* counted in loop->raw */
    bool is_listed;    /* the owner says that the peer's address is in the cluster spec (psi_tls_stream_spec) */
    bool secured;      /* the handshake is over: peer.identity is proved */
    bool heard;        /* dialled stream: the peer's first byte was checked, and is TLS, not plaintext */
    bool ending;       /* the owner has ended the stream: close_notify follows the bytes that are being sent */
    bool told;         /* the event refused() was called, which happens at most once */
    bool under_way;    /* counted in loop->handshakes */
    int raw_end;       /* < 0: how TCP has ended (libuv's error), to be reported after the bytes in `kept`; 0: not ended */
    unsigned textless; /* consecutive records without plaintext, to detect a flood */
    uint8_t *text;     /* during a call: plaintext of the last decrypted record, inside the memory of `in` */
    size_t text_bytes;
    uint8_t *in; /* during a call: ciphertext in the loop's buffer or in `kept` */
    size_t in_bytes;
    /* between calls: bytes that the owner has not read. Plaintext: kept_text bytes at offset kept_at. Ciphertext: kept_bytes -
     * kept_gap bytes at offset kept_at + kept_gap */
    uint8_t *kept;
    size_t kept_at, kept_bytes, kept_text, kept_gap;
    bool kept_is_buffer; /* `kept` was the loop's buffer `in`; after use it may become the loop's `spare` */
    uint8_t *sending;    /* ciphertext that the transport below is sending (until psi_tls_pipe_sent()); NULL: none */
    uint8_t *queued;     /* [queued_bytes] ciphertext to send after `sending`; NULL: none */
    size_t queued_bytes;
    struct psi_list place; /* link in loop->holders (the stream has a slot) or in loop->waiting (it waits for one) */
};

/** Count a new accepted stream. false: refuse it, because too many streams of strangers wait. */
bool psi_tls_raw_take(struct psi_tls_stream *s);
/** True if the peer's address is known: the owner lists it, or a peer at this address has proved a key or certificate. */
bool psi_tls_is_known(const struct psi_tls_stream *s);
void psi_tls_known_add(struct psi_tls_stream *s);
/** Count the start, and later the end, of an accepted stream's handshake. The end is counted once; for other streams never. */
void psi_tls_handshake_begins(struct psi_tls_stream *s);
void psi_tls_handshake_ends(struct psi_tls_stream *s, bool done);
/** Take a handshake slot for the stream. false: no slot is free for it, or peers at its address have enough slots already. */
bool psi_tls_slot_take(struct psi_tls_stream *s);
/** Put the stream into the queue for a handshake slot; the owner's psi_transport_events.again() is called when it has one. */
void psi_tls_slot_wait(struct psi_tls_stream *s);
/** Give back the stream's slot, or leave the queue for one. The freed slot goes to the longest waiting stream, strangers last. */
void psi_tls_slot_give_back(struct psi_tls_stream *s);
/** Count one more handshake step in this turn of the loop. false: the turn has reached its limit; try again in the next turn. */
bool psi_tls_step_take(struct psi_tls_loop *loop);

/** Decrypt into `place` [room > 0] plaintext of one record of an open stream. Returns its length; 0: s->stop says whether more
 * may come. The loop's buffer may then have an answer for the peer, such as an alert. */
size_t psi_tls_text_take(struct psi_tls_stream *s, uint8_t *place, size_t room);

/** Make s->ssl so that OpenSSL reads from s->in and writes into the loop's buffer. false: no memory. */
bool psi_tls_pipe_make(struct psi_tls_stream *s);
/** Encrypt and send all of these bytes. Small pieces are joined to full records, because each record costs about 1 us. The stream
 * must be open and not busy. Returns the number of bytes, or libuv's error. */
ssize_t psi_tls_pipe_write(struct psi_tls_stream *s, const struct psi_iov *iov, size_t count);
/** Write a TLS message as a record into the loop's buffer. Returns 0, or libuv's error. */
int psi_tls_pipe_message(struct psi_tls_stream *s, uint8_t type, const uint8_t *message, size_t n);
/** Write a key update into the loop's buffer: later records are encrypted with the next key. requested: the peer shall change its
 * key, too. Returns 0, or libuv's error. */
int psi_tls_pipe_key_update(struct psi_tls_stream *s, bool requested);
/** Write the loop's buffer to the transport below, and copy what that does not take. Returns 0, or libuv's error. */
int psi_tls_pipe_flush(struct psi_tls_stream *s);
/** Call when the transport below has sent s->sending: gives it the queued bytes, if any. Returns 0, or libuv's error. */
int psi_tls_pipe_sent(struct psi_tls_stream *s);
/** Call at the end of each call of the stream: saves unread bytes in s->kept (a copy, or the loop's buffer). false: no memory. */
bool psi_tls_pipe_keep(struct psi_tls_stream *s);
void psi_tls_pipe_forget(struct psi_tls_stream *s);
/** Set `busy` (the owner must not write now) of the outer transport: false if the stream is open with nothing to send. */
void psi_tls_pipe_busy(struct psi_tls_stream *s);

enum psi_tls_step { PSI_TLS_STEP_WAITS, PSI_TLS_STEP_DONE, PSI_TLS_STEP_FAILED };
/** Check the first bytes, collected in s->kept. DONE: a whole record that begins with a ClientHello. WAITS: more bytes are
 * needed. FAILED: plaintext, too long, or no ClientHello; the reason is noted, and plaintext gets an alert. */
enum psi_tls_step psi_tls_hello_look(struct psi_tls_stream *s);
/** Do one step of the handshake with the bytes in s->in. FAILED without a noted reason: the TCP connection has ended. DONE: both
 * directions have keys. WAITS: more bytes are needed. */
enum psi_tls_step psi_tls_handshake_step(struct psi_tls_stream *s);

#endif
#endif
