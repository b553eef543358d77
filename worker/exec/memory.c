/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's memory: a budget in bytes for the values of all its runs, and spares: memory of large values, kept for reuse.
 *
 * Happy path: a run reserves its bytes before it reads anything, and releases them at its end. A value takes the newest spare of
 * its size; memory that is freed becomes a spare. A plan has values of the same sizes in each run, so its second run computes in
 * memory that the process already has. (malloc() would return such memory to the system at each free(), and a step of two layers,
 * 784 x 100 and 100 x 10, would take 120 page faults.)
 *
 * Failure modes: a reservation of more than is left is refused; the error has both numbers. If there are too many spares, the
 * oldest are freed. Spares need at most SPARE_BYTES_MAX and a quarter of the executor's memory, in addition to that memory. */
#include "exec.h"

#include "common/mem.h"

#include <string.h>

enum { SPARE_BYTES_MIN = 64 << 10, SPARE_BYTES_MAX = 16 << 20 }; /* least bytes of one spare; most bytes of all spares */

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

static uint64_t spare_bytes_max(const ps_ops *ops)
{
    return ops->memory_bytes / 4 < SPARE_BYTES_MAX ? ops->memory_bytes / 4 : SPARE_BYTES_MAX;
}

/* Under ops->lock: take spare i out of the list. */
static void *take_spare(ps_ops *ops, uint32_t i)
{
    void *memory = ops->spares[i].memory;
    ops->spare_bytes -= ops->spares[i].bytes;
    ops->spare_count--;
    memmove(&ops->spares[i], &ops->spares[i + 1], (ops->spare_count - i) * sizeof(ops->spares[0]));
    return memory;
}

void *psi_exec_memory_new(ps_ops *ops, uint64_t bytes)
{
    void *memory = NULL;
    if (bytes >= SPARE_BYTES_MIN) {
        (void)pthread_mutex_lock(&ops->lock);
        for (uint32_t i = ops->spare_count; i > 0 && memory == NULL; i--) {
            memory = ops->spares[i - 1].bytes == bytes ? take_spare(ops, i - 1) : NULL;
        }
        (void)pthread_mutex_unlock(&ops->lock);
    }
    return memory != NULL ? memory : psi_aligned_malloc(PSI_CACHE_LINE, bytes);
}

/* Under ops->lock: if one more spare of `bytes` bytes exceeds the limits, take out the oldest, to be freed; else NULL. */
static void *take_surplus(ps_ops *ops, uint64_t bytes)
{
    const bool full = ops->spare_count == PSI_EXEC_SPARES_MAX || ops->spare_bytes + bytes > spare_bytes_max(ops);
    return full ? take_spare(ops, 0) : NULL;
}

void psi_exec_memory_free(ps_ops *ops, void *memory, uint64_t bytes)
{
    if (memory == NULL || bytes < SPARE_BYTES_MIN || bytes > spare_bytes_max(ops)) {
        psi_free(memory);
        return;
    }
    (void)pthread_mutex_lock(&ops->lock);
    for (void *surplus = NULL; (surplus = take_surplus(ops, bytes)) != NULL;) {
        psi_free(surplus);
    }
    ops->spares[ops->spare_count++] = (struct psi_exec_spare){.memory = memory, .bytes = bytes};
    ops->spare_bytes += bytes;
    (void)pthread_mutex_unlock(&ops->lock);
}

void psi_exec_spares_free(ps_ops *ops)
{
    while (ops->spare_count > 0) {
        psi_free(take_spare(ops, 0));
    }
}
