/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of numbers that all clients of a cluster share: put some in, take some out, close it. Taking waits for a number.
 * TensorFlow: q = tf.FIFOQueue(10, tf.int64, shapes=[()], shared_name="numbers"); q.enqueue(x); q.dequeue(). */
#include <inttypes.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: queue TARGET put NUMBER... | take COUNT | close\n"
                            "TARGET: address of any server of the cluster.\n";

static ps_status use(ps_session *s, const char *what, int count, char **words)
{
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, "numbers", PS_I64, PS_SCALAR);
    spec.capacity = 10;
    ps_status st = ps_queue_get(s, &spec, &q);
    if (st == PS_OK && strcmp(what, "close") == 0) {
        return ps_queue_close(q, false, 0);
    }
    bool put = strcmp(what, "put") == 0;
    long rounds = put ? count : strtol(words[0], NULL, 10);
    for (long i = 0; st == PS_OK && i < rounds; i++) {
        int64_t number = put ? strtoll(words[i], NULL, 10) : 0;
        const ps_from from[] = {{&number, sizeof(number)}}; /* one for each component */
        const ps_into into[] = {{&number, sizeof(number)}};
        st = put ? ps_enqueue(q, from, 1, 0) : ps_dequeue(q, into, 1, 0);
        if (st == PS_OK && !put) {
            printf("%" PRId64 "\n", number);
        }
    }
    return st;
}

int main(int argc, char **argv)
{
    ps_session *s = NULL;
    ps_session_options options;
    bool close = argc == 3 && strcmp(argv[2], "close") == 0;
    bool take = argc == 4 && strcmp(argv[2], "take") == 0;
    if (!close && !take && (argc < 4 || strcmp(argv[2], "put") != 0)) {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    ps_session_options_init(&options);
    options.log_level = PS_LOG_WARN;
    options.target = argv[1];
    ps_status st = ps_session_open(&options, &s, NULL, 0);
    st = st == PS_OK ? use(s, argv[2], argc - 3, argv + 3) : st;
    if (st != PS_OK) {
        fprintf(stderr, "queue: %s: %s\n", ps_status_name(st), ps_last_error());
    }
    ps_session_close(s);
    return st == PS_OK && fflush(stdout) == 0 ? 0 : 1;
}
