/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function per optimizer, for table.c only: the contract of psd_optim_apply() without the kind. Its loops are written
 * once, as macros of the variable's type and the gradient's.
 */
#ifndef PSD_OPTIM_KERNELS_H
#define PSD_OPTIM_KERNELS_H

#include "optim.h"

#include "common/clones.h"
#include "common/half.h"

#define PSD_SAME(x) (x)
#define PSD_INLINE static inline __attribute__((always_inline))

/* Kernels go line by line and ask for each line this much earlier: memory that is not in cache comes a tenth to a quarter faster,
 * since the processor's own prefetchers stop at the end of each 4 KiB. Past the end of an array it does no harm.
 * PSD_AHEAD_ONE: of a kernel with one array, into the second cache; two and more arrays are slower that way. */
enum { PSD_LINE_BYTES = 64, PSD_AHEAD_BYTES = 4096, PSD_AHEAD_ONE_BYTES = 16384 };
#define PSD_AHEAD(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_BYTES)
#define PSD_AHEAD_ONE(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_ONE_BYTES, 0, 2)

typedef void (*psd_optim_apply_fn)(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                                   void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);

void psd_sgd_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                   void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);
void psd_momentum_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                        void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);
void psd_adagrad_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                       void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);
void psd_adam_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                    void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);

#endif
