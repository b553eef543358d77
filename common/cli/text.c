/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and errors for people. No failure modes: a text that does not fit is cut. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *cli_duration(uint64_t ms, char *buf, size_t n)
{
    unsigned long long s = ms / 1000;
    if (s < 60) {
        (void)snprintf(buf, n, "%llu.%llus", s, (unsigned long long)(ms % 1000 / 100));
    } else if (s < 3600) {
        (void)snprintf(buf, n, "%llumin %llus", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(buf, n, "%lluh %llumin", s / 3600, s % 3600 / 60);
    } else {
        (void)snprintf(buf, n, "%llud %lluh", s / 86400, s % 86400 / 3600);
    }
    return buf;
}

const char *cli_bytes(double bytes, char *buf, size_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(buf, n, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
    return buf;
}

const char *cli_bar(double part, int cells, char full, char empty, char *buf)
{
    int done = part <= 0 ? 0 : part >= 1 ? cells : (int)(part * cells);
    memset(buf, full, (size_t)done);
    memset(buf + done, empty, (size_t)(cells - done));
    buf[cells] = '\0';
    return buf;
}

int cli_error(char *err, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(err, CLI_ERR_BYTES, format, ap);
    va_end(ap);
    return -1;
}

int64_t cli_clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
