/* SPDX-License-Identifier: Apache-2.0 */
/* Variables placed in turn on the ps tasks, a sum and two products computed where they are pinned, and the log of placements.
 * The workers are servers that execute operations (`local`, or `pstrain --serve`). */
#include <ps.h>
#include <ps_plan.h>
#include <stdio.h>
#include <stdlib.h>

enum { VARIABLES_MAX = 100 };

int main(int argc, char **argv)
{
    static ps_fetched out[VARIABLES_MAX + 3];
    ps_value value[VARIABLES_MAX + 3]; /* the variables, the sum, two products */
    ps_session *s = ps_session_open_args(&argc, argv, "Placement by a replica_device_setter: [VARIABLES [FIRST]]");
    ps_plan *p = ps_plan_new(s);
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;
    double first = argc > 2 ? strtod(argv[2], NULL) : 1;
    ps_status st = count >= 2 && count <= VARIABLES_MAX ? PS_OK : ps_session_fail(s, PS_INVALID_ARGUMENT, "VARIABLES: 2 to 100");

    ps_setter_options setter;
    ps_setter_options_init(&setter), setter.ps_tasks = ps_ps_count(s);
    setter.ps_device = "/job:ps", setter.worker_device = "/job:worker";
    ps_device_push_setter(s, &setter);
    for (int i = 0; st == PS_OK && i < count; i++, st = ps_session_status(s)) {
        char name[16];
        snprintf(name, sizeof(name), "v%d", i + 1);
        value[i] = ps_plan_variable(p, ps_variable_make(s, name, PS_SCALAR, ps_constant(first + i), NULL)); /* placed in turn */
    }
    if (st == PS_OK) {
        ps_value sum = value[count] = ps_plan_add(p, value[0], value[1]);     /* runs at /job:worker, so at its task 0 */
        ps_device_push(s, "/task:1");                                         /* innermost scope, inside the setter */
        value[count + 1] = ps_plan_mul(p, ps_plan_scalar(p, PS_F32, 2), sum); /* /job:worker/task:1 */
        ps_device_push(s, "/cpu:0");                                          /* a third scope, inside /task:1 */
        value[count + 2] = ps_plan_mul(p, ps_plan_scalar(p, PS_F32, 3), sum); /* runs at /job:worker/task:1/cpu:0 */
        ps_device_pop(s), ps_device_pop(s);
        st = ps_plan_run(p, NULL, 0, value, (size_t)count + 3, out, NULL);
    }
    ps_device_pop(s);
    for (int i = 0; st == PS_OK && i < count + 3; i++) {
        printf("%s at %s = %g\n", ps_value_name(value[i]), ps_value_device(value[i]), (double)*(const float *)out[i].data);
    }
    ps_session_fail(s, st, ps_last_error()); /* PS_OK: does nothing */
    return ps_session_close(s);
}
