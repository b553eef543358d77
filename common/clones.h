/* SPDX-License-Identifier: Apache-2.0 */
/* A static function with PSI_CLONES before it is compiled in three versions: for the base CPU, AVX2 and AVX-512. One version is
 * chosen at load time. The function must be static, because clang 14 emits no external symbol for a function with versions.
 * PSI_CLONES is empty under ThreadSanitizer, whose runtime starts only after the choice. */
#ifndef PSI_CLONES_H
#define PSI_CLONES_H

#if defined(__SANITIZE_THREAD__)
#define PSI_CLONES
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PSI_CLONES
#endif
#endif
#ifndef PSI_CLONES
#define PSI_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#endif

/** Which vector instructions this CPU has: 2: AVX-512; 1: AVX2; 0: only those that every CPU has. */
static inline unsigned psi_vectors(void)
{
    return __builtin_cpu_supports("avx512f") ? 2 : (unsigned)(__builtin_cpu_supports("avx2") != 0);
}

#endif
