/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: numbers and errors for people. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

/** "3d 4h", "12min 5s", "1.2s", in the units that settings have. Returns buf. */
const char *cli_duration(uint64_t ms, char *buf, size_t n);
/** "12.3 MiB". Returns buf. */
const char *cli_bytes(double bytes, char *buf, size_t n);
/** A bar of `cells` characters: `full` for the done part (0 to 1), `empty` for the rest. Returns buf [cells + 1]. */
const char *cli_bar(double part, int cells, char full, char empty, char *buf);
enum { CLI_ERR_BYTES = 4096 /* of an err buffer: fits a few paths */ };
/** printf into err (CLI_ERR_BYTES), which cuts it. Returns -1. */
int cli_error(char *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Milliseconds of a steady clock. */
int64_t cli_clock_ms(void);

#endif
