/* SPDX-License-Identifier: Apache-2.0 */
/* For all programs: durations, sizes, progress bars and errors as texts for people; and a clock, cli_clock_ms(). */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

/** Write a duration as "3d 4h", "2h 3min", "12min 5s" or "1.2s". Returns buf. */
const char *cli_duration(uint64_t ms, char *buf, size_t n);
/** Write a number of bytes as "12.3 MiB". Returns buf. */
const char *cli_bytes(double bytes, char *buf, size_t n);
/** Write a bar of `cells` characters: `full` for the done part (0 to 1), `empty` for the rest. Returns buf [cells + 1]. */
const char *cli_bar(double part, int cells, char full, char empty, char *buf);
enum { CLI_ERR_BYTES = 4096 }; /* size of an err buffer, which has room for a few paths */
/** Write a text, as printf() does, to err [CLI_ERR_BYTES]; a longer text is cut. Returns -1, for the caller to return. */
int cli_error(char *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t cli_clock_ms(void);

#endif
