#include "host/train/prune.h"

#include <math.h>

double kas_prune_lambda(double theta, int epoch, int epochs)
{
    double x = epochs > 1 ? (double)epoch / (epochs - 1) : 1;
    return theta + (1 - theta) * x;
}

bool kas_prune_now(double theta, int epoch, int epochs, double accuracy, double best)
{
    if (!isfinite(accuracy))
        return true;
    if (!(best >= 0) || epoch >= epochs - 1)
        return false;
    return accuracy < kas_prune_lambda(theta, epoch, epochs) * best;
}
