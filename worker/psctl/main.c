/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: look at, steer and end a psd cluster. Reads flags and verb (flags.c); the function in the verb's row (verbs.c) connects,
 * acts and prints. Exit 1: something failed or a task is down; 2: a wrong command line; the reason goes to standard error. */
#include "psctl.h"

#include <errno.h>
#include <fcntl.h>

static enum psctl_exit run(struct psctl *c, int argc, char **argv)
{
    enum psctl_exit code = psctl_parse(c, argc, argv);
    if (code != PSCTL_OK) {
        return code;
    }
    if (c->version) {
        (void)printf("psctl %s\n", ps_version());
        return PSCTL_OK;
    }
    if (c->help && c->verb == NULL) {
        psctl_usage(c, stdout);
        return PSCTL_OK;
    }
    if (c->help) {
        psctl_verb_usage(c->verb);
        return PSCTL_OK;
    }
    return c->verb->run != NULL ? c->verb->run(c) : psctl_rounds(c, c->verb->show);
}

/* Open /dev/null as each of descriptors 0 to 2 that is closed. Otherwise a socket could get its number, and printed text would go
 * to a task. 0 is write-only, 1 and 2 read-only, so that using them still fails. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY); /* open() takes the lowest free number, which is fd */
        }
    }
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    ps_wipe_freed();
    struct psctl c = {.verbs = psctl_verbs};
    enum psctl_exit code = run(&c, argc, argv);
    psctl_disconnect(&c);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)fprintf(stderr, "psctl: cannot write to standard output\n");
        code = PSCTL_FAILED;
    }
    return (int)code;
}
