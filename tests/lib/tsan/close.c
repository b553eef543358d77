/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv closes descriptors by syscall(SYS_close), which ThreadSanitizer does not see: to it the number stays open, and whoever is
 * given it next races with its last user. Linked into all programs that it instruments, this makes of it a close() that it sees.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"), no_sanitize("thread"))) long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_close) {
        return close((int)a[0]);
    }
    return ((long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall"))(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
