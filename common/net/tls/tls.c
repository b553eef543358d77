/* SPDX-License-Identifier: Apache-2.0 */
/* The names of failure reasons, and a check whether a stream begins with TLS. Compiled also into builds without TLS. */
#include "stream.h"

const char *psi_tls_reason_name(enum psi_tls_reason reason)
{
    static const char *const names[] = {
#define NAME_(name, text) [PSI_TLS_##name] = (text),
        PSI_TLS_REASONS(NAME_)
#undef NAME_
    };
    return (unsigned)reason < PSI_TLS_REASON_COUNT ? names[reason] : "unknown";
}

enum psi_tls_first psi_tls_first(const uint8_t *p, size_t n)
{
    enum { ALERT = 21, HANDSHAKE = 22, VERSION_MAJOR = 3 }; /* bytes of a TLS record's head: RFC 8446, 5.1 */
    if (n < 2 || p[1] != VERSION_MAJOR) {
        return PSI_TLS_FIRST_OTHER;
    }
    return p[0] == HANDSHAKE ? PSI_TLS_FIRST_HELLO : p[0] == ALERT ? PSI_TLS_FIRST_ALERT : PSI_TLS_FIRST_OTHER;
}
