/* SPDX-License-Identifier: Apache-2.0 */
/* Fed numbers are split over the workers, which add and print their parts; the sum of these sums comes back. The workers are
 * servers that execute operations (`pstrain --serve`, or the example `local`). */
#include <ps.h>
#include <ps_plan.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS_MAX = 64, COUNT_MAX = 10000, DIGITS_A_LINE = 37 };

int main(int argc, char **argv)
{
    static ps_fetched out;
    static double ones[COUNT_MAX];
    ps_value part[WORKERS_MAX];
    ps_run_options options;
    ps_session *s = ps_session_open_args(&argc, argv, "A split sum: [COUNT [WORKERS [TRACE_FILE]]], 1000 ones, 2 workers");
    ps_plan *p = ps_plan_new(s);
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000, workers = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
    if (count < 1 || count > COUNT_MAX || workers < 1 || workers > WORKERS_MAX) {
        ps_session_fail(s, PS_INVALID_ARGUMENT, "COUNT: 1 to 10000; WORKERS: 1 to 64");
        return ps_session_close(s);
    }

    ps_status st = ps_session_status(s);
    ps_device_push(s, "/job:ps/task:0");
    ps_value input = ps_plan_placeholder(p, "input", PS_I32, PS_SHAPE(-1));
    ps_device_pop(s);
    ps_plan_split(p, input, 0, (uint32_t)workers, part);
    for (int k = 0; st == PS_OK && k < workers; k++) {
        char device[PS_DEVICE_BYTES];
        snprintf(device, sizeof(device), "/job:worker/task:%d", k);
        ps_device_push(s, device);
        ps_value sum = ps_plan_reduce_sum(p, part[k]);
        part[k] = ps_plan_print(p, part[k], &sum, 1, "portion is");
        ps_device_pop(s);
    }
    ps_value total = ps_plan_reduce_sum(p, ps_plan_stack(p, part, (size_t)workers));
    for (long i = 0; st == PS_OK && i < count; i++) {
        ones[i] = 1;
    }
    ps_feed feed = ps_feed_of(input, PS_F64, PS_SHAPE(count), ones, (size_t)count * sizeof(*ones));
    ps_run_options_init(&options), options.trace_level = PS_FULL_TRACE, options.trace_file = argc > 3 ? argv[3] : NULL;
    st = st == PS_OK ? ps_plan_run(p, &feed, 1, &total, 1, &out, &options) : st;
    for (int k = 0; st == PS_OK && k < workers; k++) {
        puts(ps_value_requested_device(part[k]));
    }
    if (st == PS_OK) {
        printf("%d\n'%s'\n", *(const int32_t *)out.data, ps_value_requested_device(total));
        st = ps_plan_run(p, &feed, 1, &part[workers - 1], 1, &out, NULL); /* a second run gets a part; it writes no trace */
    }
    for (long i = 0; st == PS_OK && i < out.shape.dims[0]; i++) { /* as numpy prints an array of up to 1000 elements */
        const char *before = i == 0 ? "[" : i % DIGITS_A_LINE == 0 ? "\n " : " ";
        printf("%s%d%s", before, ((const int32_t *)out.data)[i], i + 1 == out.shape.dims[0] ? "]\n" : "");
    }
    ps_session_fail(s, st, ps_last_error()); /* PS_OK: does nothing */
    return ps_session_close(s);
}
