/* SPDX-License-Identifier: Apache-2.0 */
/* Where kernel plugins are found, and how they are opened, once per process. */
#ifndef PSK_PLUGIN_H
#define PSK_PLUGIN_H

#include "worker/nn/kernels/kernels.h"

#define PSK_PLACES_MAX 6

/** The plugin called name ("cpu"), found and opened at the first call and kept until the process ends. Looks into PS_PLUGIN_DIR;
 * the directory of the library (or program) with this function, and ../lib; the directory of the program, and ../lib; and the
 * compiled-in PSI_PLUGINDIR, in this order. If PS_PLUGIN_DIR has a file of the plugin, no other place is used, even if that file
 * cannot be opened.
 *
 * Thread   any; the first call opens, others wait.
 * Errors   PS_UNIMPLEMENTED     no usable plugin: the text says what is wrong with existing ones, and where it was looked for
 *          PS_INVALID_ARGUMENT  no plugin's name ([a-z0-9], at most 15 bytes) */
PSI_MUST ps_status psk_plugin_get(const char *name, const struct psk_plugin **out_plugin, struct psi_err *err);
/** Path of an open plugin; NULL: it is not open. Static text; any thread. */
const char *psk_plugin_path(const char *name);
/** Open a plugin from the first of the directories that has a usable one. path [path_bytes] (may be NULL) gets its path, perhaps
 * cut. Sets and removes BLAS settings in the environment. A plugin that was returned is never closed. */
PSI_MUST ps_status psk_plugin_load(const char *name, const char *const *places, size_t place_count,
                                   const struct psk_plugin **out_plugin, char *path, size_t path_bytes, struct psi_err *err);
/** The OPENBLAS_CORETYPE with the fastest kernels on this CPU (AVX-512); NULL: OpenBLAS chooses well by itself. */
const char *psk_blas_coretype(void);

#endif
