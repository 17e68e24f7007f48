/* Compares numbers by their relative error. */
#ifndef KAS_TESTS_UNIT_SCORE_NEAR_H
#define KAS_TESTS_UNIT_SCORE_NEAR_H

#include <math.h>
#include <stdio.h>

static void assert_near(const char *what, double found, double expected, double tolerance)
{
    const double error = fabs(found - expected) / fmax(fabs(expected), 1e-30);
    printf("%-14s %.10g, in float64 %.10g: %.1e\n", what, found, expected, error);
    if (!(error <= tolerance))
        fail_msg("%s: %.10g, expected %.10g, error %.1e, tolerance %.0e", what, found, expected,
                 error, tolerance);
}

#endif
