/* SPDX-License-Identifier: Apache-2.0 */
/* Adds one of the library's own hooks to a session, or reports an error in its arguments. */
#include "hooks.h"

#include "common/mem.h"

#include <string.h>

ps_status psi_hooks_add(ps_session *s, const struct psi_hook *hook, const void *ctx, size_t ctx_bytes, const char *call,
                        struct psi_err *err)
{
    struct psi_hook h = *hook;
    const ps_status st = psi_api_enter(s, false);
    if (st != PS_OK) {
        return st;
    }
    if (err->code == PS_OK && (h.hook.ctx = psi_malloc(ctx_bytes)) == NULL) {
        (void)psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a hook");
    }
    if (err->code != PS_OK) {
        return psi_api_refused(s, err, call);
    }
    memcpy(h.hook.ctx, ctx, ctx_bytes);
    h.release = h.release != NULL ? h.release : psi_free;
    return psi_api_hook_add(s, &h, call);
}
