/* The engine of float32. */
typedef float real;
#define ENGINE kas_engine_f32

#include "host/interpret/real/engine.h"
