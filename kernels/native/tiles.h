// Products on the tile unit (AMX), for the avx512 variant where the processor and the system have it.
#pragma once

#include "whimbrel.h"

namespace whimbrel {

// Whether tiles are there and switched on (the variant `amx` of whimbrel_set_variant).
bool tiles();

namespace amx {

// y[t * ldy + r] for `rows` <= 32 and all tokens. The weights lie in stripes of 16 rows, columns / 32 tiles each:
// weights[stripe][columns / 32][16 pairs of columns][16 rows][2]; a short stripe may hold anything in the rest.
// tokens: bf16 bits [count rounded up to 16, columns]; columns a multiple of 32.
void product(const uint16_t* weights, int64_t rows, int64_t columns, const uint16_t* tokens, int64_t count, float* y,
             int64_t ldy);

}  // namespace amx
}  // namespace whimbrel
