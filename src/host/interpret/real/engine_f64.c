/* The engine of float64. */
typedef double real;
#define ENGINE kas_engine_f64

#include "host/interpret/real/engine.h"
