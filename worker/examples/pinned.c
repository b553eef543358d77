/* SPDX-License-Identifier: Apache-2.0 */
/* A variable on a ps, a sum on worker 0, and a sum of both on worker 1. The workers compute the sums, values travel between the
 * tasks, and this program gets the last sum. The workers are servers that execute operations (`local`, or `pstrain --serve`). */
#include <ps.h>
#include <ps_plan.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    float result = 0;
    ps_session *s = ps_session_open_args(&argc, argv, "A sum on two workers: [FIRST [MORE]], which are 1 and 2");
    ps_plan *p = ps_plan_new(s);

    ps_device_push(s, "/job:ps"); /* with tf.device("/job:ps"): */
    ps_variable *a = ps_variable_make(s, "a", PS_SCALAR, ps_constant(argc > 1 ? strtod(argv[1], NULL) : 1), NULL);
    ps_device_pop(s);

    ps_device_push(s, "/job:worker"); /* its task 0 */
    ps_value b = ps_plan_add(p, ps_plan_variable(p, a), ps_plan_scalar(p, PS_F32, argc > 2 ? strtod(argv[2], NULL) : 2));
    ps_device_pop(s);

    ps_device_push(s, "/job:worker/task:1");
    ps_value c = ps_plan_add(p, ps_plan_variable(p, a), b);
    ps_device_pop(s);

    ps_status st = ps_plan_eval(c, &result, sizeof(result));
    if (st == PS_OK) {
        printf("%.1f\n", (double)result);
    }
    ps_session_fail(s, st, ps_last_error()); /* PS_OK: does nothing */
    return ps_session_close(s);
}
