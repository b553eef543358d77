/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's memory: a budget in bytes for the values of all its runs. Happy path: a run reserves its bytes before it reads
 * anything, and releases them at its end. Failure mode: a reservation above what is left is refused; the error has both numbers.
 */
#include "exec.h"

ps_status psi_exec_reserve(ps_ops *ops, uint64_t bytes, struct psi_err *err)
{
    (void)pthread_mutex_lock(&ops->lock);
    const uint64_t left = ops->memory_bytes - ops->used_bytes;
    ops->used_bytes += bytes <= left ? bytes : 0;
    (void)pthread_mutex_unlock(&ops->lock);
    return bytes <= left
               ? PS_OK
               : psi_fail_as(err, PS_RESOURCE_EXHAUSTED, bytes > ops->memory_bytes ? PS_REASON_TOO_LARGE : PS_REASON_OVERLOADED,
                             "%s: a run takes %llu bytes, and of the executor's memory of %llu bytes %llu are free", ops->name,
                             (unsigned long long)bytes, (unsigned long long)ops->memory_bytes, (unsigned long long)left);
}

void psi_exec_release(ps_ops *ops, uint64_t bytes)
{
    (void)pthread_mutex_lock(&ops->lock);
    PSI_ASSERT(ops->used_bytes >= bytes);
    ops->used_bytes -= bytes;
    (void)pthread_mutex_unlock(&ops->lock);
}
