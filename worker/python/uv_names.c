/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the libc data that libuv's static library uses, for the shared libraries of the wheel. Debian's static library is
 * compiled for programs: it expects environ, stderr and in6addr_any at a fixed distance from its code, which a shared library
 * cannot promise. In the wheel's copy of the static library these three symbols are renamed to those defined here. libuv reads
 * environ when it starts a process, and writes to stderr before it aborts: copies of pointers suffice. */
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern HIDDEN char **psw_environ;
extern HIDDEN FILE *psw_stderr;
extern HIDDEN const struct in6_addr psw_in6addr_any;

char **psw_environ;
FILE *psw_stderr;
const struct in6_addr psw_in6addr_any = IN6ADDR_ANY_INIT;

__attribute__((constructor)) static void take(void)
{
    psw_environ = environ;
    psw_stderr = stderr;
}
