/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a TLS stream is made of: stream.c (the row), handshake.c (ClientHello, who the peer is), pipe.c (ciphertext to the row
 * below and for OpenSSL's handshake), arrive.c (records that come), record.c (one record), loop.c (what the streams of a net
 * share). For common/net/tls/ only.
 */
#ifndef PSI_TLS_STREAM_INTERNAL_H
#define PSI_TLS_STREAM_INTERNAL_H

#include "../../list.h"
#include "peer.h"
#include "record.h"
#include "stream.h"

#ifdef PSI_HAVE_TLS

enum { PSI_TLS_HOST_BYTES = 48 }; /* of an IP address as text: "[" INET6_ADDRSTRLEN "]" */

struct psi_tls_loop {
    uint8_t *in, *out; /* PSI_TLS_IN_BYTES, PSI_TLS_OUT_BYTES; empty between calls of a stream */
    size_t out_bytes;  /* in out, of the stream whose call it is */
    const uint64_t *turn;
    struct psi_tls *const *now; /* the net's context */
    uint64_t steps_turn;        /* the turn that steps belong to */
    unsigned steps;
    unsigned slots, stranger_slots; /* that are taken */
    struct psi_handshakes handshakes;
    unsigned raw;                                  /* accepted streams of strangers that had no slot yet */
    struct psi_list holders;                       /* streams that have a slot */
    struct psi_list waiting[2];                    /* those that wait for one: strangers, others */
    char known[PSI_TLS_KNOWN][PSI_TLS_HOST_BYTES]; /* addresses, a ring */
    unsigned known_next;
};

enum psi_tls_state {
    PSI_TLS_FRESH,      /* its owner does not read yet */
    PSI_TLS_HELLO,      /* accepted: collects the ClientHello in kept */
    PSI_TLS_WAITS_SLOT, /* accepted: has it */
    PSI_TLS_HANDSHAKE,
    PSI_TLS_OPEN,
    PSI_TLS_FAILED, /* discards what arrives */
    PSI_TLS_CLOSED
};

/* Why there is no more plain text. */
enum psi_tls_stop {
    PSI_TLS_GOES_ON,
    PSI_TLS_CLEAN_END, /* close_notify came */
    PSI_TLS_END,       /* the row below has ended without it */
    PSI_TLS_BROKEN     /* the reason is written down */
};

struct psi_tls_stream {
    struct psi_transport raw;    /* the row below */
    struct psi_transport *outer; /* this stream, for its owner */
    struct psi_tls_loop *loop;
    struct psi_tls_peer peer;
    const char *name;                      /* the peer's address */
    SSL *ssl;                              /* of the handshake: NULL before its slot, and when it is over */
    struct psi_tls_way from_peer, to_peer; /* of an open one */
    enum psi_tls_state state;
    enum psi_tls_stop stop;
    bool has_slot;
    bool slot_of_stranger;
    bool is_raw;       /* is counted in loop->raw */
    bool is_listed;    /* no stranger: the owner's list has its address */
    bool secured;      /* the handshake is over: peer.identity is who it is */
    bool heard;        /* bytes came */
    bool ending;       /* the end of the stream follows what is sending */
    bool told;         /* refused() has been called */
    bool under_way;    /* is counted in loop->handshakes */
    int raw_end;       /* < 0: the row below has ended, behind the kept bytes */
    unsigned textless; /* records in a row that brought no plain text */
    uint8_t *text;     /* plain text for the owner during a call: of the last record that was opened, in the same memory as in */
    size_t text_bytes;
    uint8_t *in; /* ciphertext during a call, in the loop's buffer or in kept */
    size_t in_bytes;
    uint8_t *kept; /* between calls, from kept_at on: text [kept_text], or nothing; in, kept_gap bytes behind the begin of text */
    size_t kept_at, kept_bytes, kept_text, kept_gap;
    uint8_t *sending; /* ciphertext: the row below has it as its hold */
    uint8_t *queued;  /* ciphertext behind it */
    size_t queued_bytes;
    struct psi_list place; /* in loop->holders or loop->waiting */
};

/* ---- loop.c ---- */
/** An accepted stream begins. false: it is refused, because so many streams of strangers are there already. */
bool psi_tls_raw_take(struct psi_tls_stream *s);
/** The peer's address is known: the owner's list has it, or a peer has proved a key or certificate from there. */
bool psi_tls_is_known(const struct psi_tls_stream *s);
/** The peer has proved a key or certificate: its address is known from now on. */
void psi_tls_known_add(struct psi_tls_stream *s);
/** Count an accepted stream: its handshake begins, or is over, once; may be called again. */
void psi_tls_handshake_begins(struct psi_tls_stream *s);
void psi_tls_handshake_ends(struct psi_tls_stream *s, bool done);
/** Take a handshake slot for the stream. false: none is free for it, or peers of that address have enough of them. */
bool psi_tls_slot_take(struct psi_tls_stream *s);
/** Wait for a handshake slot: psi_transport_events.again() says that the stream has one. */
void psi_tls_slot_wait(struct psi_tls_stream *s);
/** Give the stream's handshake slot back, and end its wait for one. The slot goes to the stream that waits longest and may have
 * it, strangers last; that stream is driven again. */
void psi_tls_slot_give_back(struct psi_tls_stream *s);
/** Count one more handshake step in this turn. false: there were enough, and the step must wait for another turn. */
bool psi_tls_step_take(struct psi_tls_loop *loop);

/* ---- arrive.c ---- */
/** Plain text into the place [room > 0], of one record. Returns its bytes; 0: s->stop says whether more may come. An answer may
 * lie in the loop's buffer. The stream is open. */
size_t psi_tls_text_take(struct psi_tls_stream *s, uint8_t *place, size_t room);

/* ---- pipe.c ---- */
/** Makes s->ssl, which reads s->in and writes the loop's buffer. false: memory is short. */
bool psi_tls_pipe_make(struct psi_tls_stream *s);
/** Encrypt and send all of these bytes. Small pieces are gathered into full records, because a record costs about 1 us beside its
 * bytes. The stream is open and not busy. Returns the count of bytes, or libuv's error. */
ssize_t psi_tls_pipe_write(struct psi_tls_stream *s, const struct psi_iov *iov, size_t count);
/** A message of TLS itself, as a record in the loop's buffer. 0, or libuv's error. */
int psi_tls_pipe_message(struct psi_tls_stream *s, uint8_t type, const uint8_t *message, size_t n);
/** A key update as a record in the loop's buffer; records behind it have the next key. requested: the peer is asked to update
 * too. 0, or libuv's error. */
int psi_tls_pipe_key_update(struct psi_tls_stream *s, bool requested);
/** The loop's buffer goes to the row below; what that does not take stays with the stream. 0, or libuv's error: the connection is
 *  broken. */
int psi_tls_pipe_flush(struct psi_tls_stream *s);
/** The row below has taken the bytes in s->sending: give it the queued ones, if there are any. 0, or libuv's error. */
int psi_tls_pipe_sent(struct psi_tls_stream *s);
/** Copy bytes that are not read yet, plain text and ciphertext, out of the loop's buffer. false: memory is short. */
bool psi_tls_pipe_keep(struct psi_tls_stream *s);
/** Tell the owner whether it may write. */
void psi_tls_pipe_busy(struct psi_tls_stream *s);

/* ---- handshake.c ---- */
enum psi_tls_step { PSI_TLS_STEP_WAITS, PSI_TLS_STEP_DONE, PSI_TLS_STEP_FAILED };
/** Look at the kept bytes of an accepted connection: DONE, a whole ClientHello; FAILED, it is none. What the peer is to be told
 * of that lies in the loop's buffer. */
enum psi_tls_step psi_tls_hello_look(struct psi_tls_stream *s);
/** One step with the bytes in s->in. FAILED without a reason: the row below has ended. DONE: s->ssl is gone, both directions have
 * their keys. */
enum psi_tls_step psi_tls_handshake_step(struct psi_tls_stream *s);

#endif
#endif
