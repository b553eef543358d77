/* SPDX-License-Identifier: Apache-2.0 */
/* One function per optimizer, for table.c only: the contract of psd_optim_apply() without the kind. */
#ifndef PSD_OPTIM_KERNELS_H
#define PSD_OPTIM_KERNELS_H

#include "optim.h"

typedef void (*psd_optim_apply_fn)(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var,
                                   void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);

void psd_sgd_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                   const void *grad, size_t elements);
void psd_momentum_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var,
                        void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements);
void psd_adagrad_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                       const void *grad, size_t elements);
void psd_adam_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                    const void *grad, size_t elements);

#endif
