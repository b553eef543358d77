/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PSI_CLONES before a static function makes gcc and clang emit it for the base CPU, AVX2 and AVX-512 and choose at load time.
 * Static functions only (clang 14 emits no external symbol for an exported one), reached through a plain function or a table of
 * the same file. Empty under ThreadSanitizer, where the resolvers would run before its runtime is up and crash.
 */
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

/** The widest vectors of this CPU: 0 those of every CPU, 1 AVX2, 2 AVX-512. */
static inline unsigned psi_vectors(void)
{
    return __builtin_cpu_supports("avx512f") ? 2 : (unsigned)(__builtin_cpu_supports("avx2") != 0);
}

#endif
