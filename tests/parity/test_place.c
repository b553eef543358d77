/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device strings, nested scopes and setters against what TensorFlow computed (place_vectors.h, made by place_vectors.py):
 * equality.
 */
#include "common/placement.h"

#include "place_vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(place_devices); i++) {
        struct psi_device d;
        struct psi_err err = {0};
        char text[PSI_DEVICE_BYTES] = "";
        ps_status st = psi_device_parse(place_devices[i].text, &d, &err);
        if (place_devices[i].canonical == NULL) {
            assert_int_equal(st, PS_INVALID_ARGUMENT);
            assert_non_null(strstr(err.text, place_devices[i].text));
        } else if (st != PS_OK || strcmp(psi_device_format(&d, text, sizeof(text)), place_devices[i].canonical) != 0) {
            fail_msg("'%s' gives '%s' %s, TensorFlow '%s'", place_devices[i].text, text, err.text, place_devices[i].canonical);
        }
    }
}

static void test_merges(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(place_merges); i++) {
        struct psi_device outer;
        struct psi_device inner;
        char text[PSI_DEVICE_BYTES];
        assert_int_equal(psi_device_parse(place_merges[i].outer, &outer, NULL), PS_OK);
        assert_int_equal(psi_device_parse(place_merges[i].inner, &inner, NULL), PS_OK);
        psi_device_merge(&outer, &inner, &outer);
        assert_string_equal(psi_device_format(&outer, text, sizeof(text)), place_merges[i].merged);
    }
}

static void test_ps_ops(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(place_ps_ops); i++) {
        assert_true(psi_is_ps_op(place_ps_ops[i]));
    }
    assert_int_equal(COUNT(place_ps_ops), 13);
}

static void test_scripts(void **state)
{
    (void)state;
    struct psi_placer p;
    size_t placed = 0;
    psi_placer_init(&p);
    for (size_t i = 0; i < COUNT(place_steps); i++) {
        ps_status st = PS_OK;
        struct psi_request_place place;
        char text[PSI_DEVICE_BYTES];
        const struct psi_setter setter = {.ps_tasks = place_steps[i].tasks,
                                          .ps_device = place_steps[i].a,
                                          .worker_device = place_steps[i].b,
                                          .merge_devices = place_steps[i].merge};
        switch (place_steps[i].what) {
        case 'D':
        case 'N':
            st = psi_placer_push(&p, place_steps[i].a, NULL);
            break;
        case 'S':
            st = psi_placer_push_setter(&p, &setter, NULL);
            break;
        case 'O':
            st = psi_placer_pop(&p, NULL);
            break;
        case 'E':
            psi_placer_fini(&p);
            break;
        default:
            psi_placer_place(&p, place_steps[i].a, 8, &place);
            placed++;
            if (strcmp(psi_device_format(&place.device, text, sizeof(text)), place_steps[i].b) != 0) {
                fail_msg("step %zu: %s at '%s', TensorFlow puts it at '%s'", i, place_steps[i].a, text, place_steps[i].b);
            }
        }
        assert_int_equal(st, PS_OK);
    }
    assert_true(placed > 300 && p.depth == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_ps_ops),
        cmocka_unit_test(test_scripts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
