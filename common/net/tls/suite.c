/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the two suites is faster here: AES-128-GCM by 1.5 times or more where the CPU has instructions for it, elsewhere
 * ChaCha20-Poly1305. Happy path: once in a process, both encrypt records of zeros by turns; the shortest time of each counts.
 * Failure mode: without memory AES is preferred, and the speeds stay unknown. */
#include "peer.h"

#ifdef PSI_HAVE_TLS

#include <pthread.h>
#include <time.h>

enum {
    ROUNDS = 24,         /* number of records of each suite to time: 0.15 ms for both suites if a record takes 3 us */
    NS_MAX = 1000 * 1000 /* no round begins after this time */
};

static struct psi_tls_speed speed = {.first = PSI_TLS_SUITE_AES};
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint16_t psi_tls_suite_faster(uint64_t aes_mb_s, uint64_t chacha_mb_s)
{
    /* a difference below a tenth is noise */
    return chacha_mb_s > aes_mb_s + aes_mb_s / 10 ? PSI_TLS_SUITE_CHACHA : PSI_TLS_SUITE_AES;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void measure(void)
{
    static const uint16_t suites[2] = {PSI_TLS_SUITE_AES, PSI_TLS_SUITE_CHACHA};
    static const uint8_t secret[PSI_TLS_SECRET_BYTES];
    uint8_t record[PSI_TLS_RECORD_BYTES + PSI_TLS_RECORD_MORE_BYTES] = {0};
    struct psi_tls_way ways[2] = {{.cipher = NULL}};
    uint64_t best_ns[2] = {UINT64_MAX, UINT64_MAX};
    bool good = psi_tls_way_begin(&ways[0], suites[0], secret, true) && psi_tls_way_begin(&ways[1], suites[1], secret, true);
    uint64_t began = now_ns();
    uint64_t before = began;
    for (int round = 0; round < ROUNDS && good && before - began < NS_MAX; round++) {
        for (int i = 0; i < 2; i++) {
            good = good && psi_tls_record_seal(&ways[i], SSL3_RT_APPLICATION_DATA, record + PSI_TLS_RECORD_HEAD_BYTES,
                                               PSI_TLS_RECORD_BYTES, record);
            uint64_t now = now_ns();
            best_ns[i] = now - before < best_ns[i] ? now - before : best_ns[i];
            before = now;
        }
    }
    psi_tls_way_end(&ways[0]);
    psi_tls_way_end(&ways[1]);
    psi_openssl.ERR_clear_error();
    if (good) {
        speed.aes_mb_s = (uint64_t)PSI_TLS_RECORD_BYTES * 1000 / (best_ns[0] + 1);
        speed.chacha_mb_s = (uint64_t)PSI_TLS_RECORD_BYTES * 1000 / (best_ns[1] + 1);
        speed.first = psi_tls_suite_faster(speed.aes_mb_s, speed.chacha_mb_s);
        speed.aes_by = psi_cipher_row(PSI_TLS_SUITE_AES)->name;
    }
}

const struct psi_tls_speed *psi_tls_speed(void)
{
    (void)pthread_once(&once, measure);
    return &speed;
}

#endif
