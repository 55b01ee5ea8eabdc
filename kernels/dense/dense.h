// Dense products: what the exported functions and the variants share.
#pragma once

#include "../native/whimbrel.h"

namespace whimbrel {

// A matrix [rows, columns] as float32, as bf16 bits, or as int8 codes with one float32 for 64 columns of a row.
struct Dense {
    const float* f32;      // or nullptr
    const uint16_t* bf16;  // or nullptr
    const int8_t* codes;
    const float* scales;   // [rows, ceil(columns / 64)]
    int64_t rows, columns;
};

}  // namespace whimbrel
