/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a C compiler and the device's compiler both compile. */
#ifndef PSK_EVERYWHERE_H
#define PSK_EVERYWHERE_H

#ifdef __CUDACC__
#define PSK_EVERYWHERE static inline __host__ __device__
#else
#define PSK_EVERYWHERE static inline
#endif

#endif
