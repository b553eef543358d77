/* SPDX-License-Identifier: Apache-2.0 */
/* Items that all clients of a cluster share out: each item is handed to one client, and handed out again if that client dies.
 * Start any number of clients with these items, at any time. */
#include <inttypes.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: work TARGET EPOCHS ITEM...\n"
                            "TARGET: address of any server of the cluster.\n";

static ps_status share_out(ps_session *s, uint32_t epochs, uint32_t count, const char *const *items)
{
    ps_work *w = NULL;
    ps_work_item item;
    ps_status st = ps_work_get(s, "work", items, NULL, count, epochs, 0, &w);
    while (st == PS_OK && (st = ps_work_next(w, &item, 0)) == PS_OK) {
        printf("%s, epoch %" PRIu32 "%s\n", item.data, item.epoch, item.again > 0 ? ", again" : "");
        fflush(stdout); /* a real program works on the item here */
        st = ps_work_done(w, &item);
    }
    return st == PS_OUT_OF_RANGE ? PS_OK : st; /* all items are done */
}

int main(int argc, char **argv)
{
    ps_session *s = NULL;
    ps_session_options options;
    long epochs = argc > 3 ? strtol(argv[2], NULL, 10) : 0;
    if (epochs < 1 || epochs > INT32_MAX) {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    ps_session_options_init(&options);
    options.log_level = PS_LOG_WARN;
    options.target = argv[1];
    ps_status st = ps_session_open(&options, &s, NULL, 0);
    st = st == PS_OK ? share_out(s, (uint32_t)epochs, (uint32_t)(argc - 3), (const char *const *)(argv + 3)) : st;
    if (st != PS_OK) {
        fprintf(stderr, "work: %s: %s\n", ps_status_name(st), ps_last_error());
    }
    ps_session_close(s);
    return st == PS_OK ? 0 : 1;
}
