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
/** A bar of `cells` characters: `full` for the part (0 to 1) that is done, `empty` for the rest. buf [cells + 1]; returns it. */
const char *cli_bar(double part, int cells, char full, char empty, char *buf);
enum { CLI_ERR_BYTES = 4096 /* of an err buffer: a few paths fit */ };
/** printf into err (CLI_ERR_BYTES; cut). Returns -1. */
int cli_error(char *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Steady clock. */
int64_t cli_clock_ms(void);

#endif
