/* SPDX-License-Identifier: Apache-2.0 */
/* Learning curves as a picture, one SVG file. */
#ifndef PSTRAIN_PLOT_H
#define PSTRAIN_PLOT_H

#include <stdint.h>

enum { PLOT_POINTS = 400, PLOT_CURVES = 2 };

/* A curve of at most PLOT_POINTS points. When all are used, pairs are merged: each is the mean of twice as many values. */
struct plot_curve {
    const char *name;
    double x[PLOT_POINTS], y[PLOT_POINTS];
    int count;
    int64_t each, pending; /* how many values make a point; how many have come for the next one */
    double sum_x, sum_y;   /* sums over the pending values */
};
struct plot_panel {
    const char *title, *unit; /* title, and unit of the vertical axis */
    struct plot_curve curves[PLOT_CURVES];
};

/** Add the value y at x to a curve. A value that is not finite is left out. */
void plot_add(struct plot_curve *curve, double x, double y);
/** Write the SVG file: panels with a point, one below the other. x_text: name of their x axis. -1: errno; the old file stays. */
int plot_write(const char *path, const char *x_text, const struct plot_panel *panels, int count);

#endif
