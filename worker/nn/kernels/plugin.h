/* SPDX-License-Identifier: Apache-2.0 */
/* Where kernel plugins are found, and how they are opened: once per process. */
#ifndef PSK_PLUGIN_H
#define PSK_PLUGIN_H

#include "worker/nn/kernels/kernels.h"

#define PSK_PLACES_MAX 6

/**
 * The plugin called name ("cpu"); finds and opens it at the first call and keeps it for the life of the process. Looks into
 * PS_PLUGIN_DIR, the directory of the library (or program) that holds this function, the directory of the program, the ../lib of
 * both, and the compiled-in PSI_LIBDIR, in this order. Where PS_PLUGIN_DIR has a file of that plugin it is that one or none: the
 * others are not looked at where it cannot be used.
 *
 * Thread   any; the first one opens, others wait.
 * Errors   PS_UNIMPLEMENTED  no usable plugin: the text says what is wrong with those that exist, and where it looked
 *          PS_INVALID_ARGUMENT  not a plugin's name ([a-z0-9], at most 15 bytes)
 */
PSI_MUST ps_status psk_plugin_get(const char *name, const struct psk_plugin **out_plugin, struct psi_err *err);
/** Path of an open plugin, or NULL when it is not open. Static text; any thread. */
const char *psk_plugin_path(const char *name);
/** Open a plugin from the first of the given directories that has a usable one. path (may be NULL) gets its path, cut at
 *  path_bytes. Sets and removes BLAS settings in the environment. Never closes a plugin that it returned. */
PSI_MUST ps_status psk_plugin_load(const char *name, const char *const *places, size_t place_count,
                                   const struct psk_plugin **out_plugin, char *path, size_t path_bytes, struct psi_err *err);
/** The OPENBLAS_CORETYPE with the fastest kernels on this CPU (AVX-512), or NULL when OpenBLAS finds out by itself. */
const char *psk_blas_coretype(void);

#endif
