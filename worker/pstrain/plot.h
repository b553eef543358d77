/* SPDX-License-Identifier: Apache-2.0 */
/* Learning curves as a picture, one SVG file. */
#ifndef PSTRAIN_PLOT_H
#define PSTRAIN_PLOT_H

#include <stdint.h>

enum { PLOT_POINTS = 400, PLOT_CURVES = 2 };

/* A curve of at most PLOT_POINTS points. When they are used up, neighbours are averaged: a point stands for `each` values then.
 */
struct plot_curve {
    const char *name;
    double x[PLOT_POINTS], y[PLOT_POINTS];
    int count;
    int64_t each, pending; /* values of a point; of the next point so far */
    double sum_x, sum_y;   /* sums over the pending values */
};
struct plot_panel {
    const char *title, *unit; /* of the vertical axis */
    struct plot_curve curves[PLOT_CURVES];
};

/** Add a value; one that is not finite is left out. */
void plot_add(struct plot_curve *curve, double x, double y);
/** Write the panels that have a point, one below the other, over one horizontal axis with this text. 0, or -1 with errno; the
 * file is whole or untouched. */
int plot_write(const char *path, const char *x_text, const struct plot_panel *panels, int count);

#endif
