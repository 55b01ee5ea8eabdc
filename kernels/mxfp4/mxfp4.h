// MXFP4 products: what the exported functions, the grouped experts and the variants share.
#pragma once

#include "../native/whimbrel.h"

namespace whimbrel {

struct Mxfp4 {
    const uint8_t* packed;  // [rows, columns / 2], even column in the low nibble
    const uint8_t* scales;  // [rows, columns / 32]
    int64_t rows, columns;  // columns a multiple of 32
};

enum Rounding : int { kAuto = 0, kInt8 = 1, kBf16 = 2, kF32 = 3 };

// The tokens of one product, in the form that the kernel of their number wants.
struct Tokens {
    int rounding;  // kInt8, kBf16 or kF32
    int64_t count, columns;
    const float* f32;       // [count, columns]
    const uint16_t* bf16;   // [count, columns]
    const int8_t* codes;    // [count, blocks * 32], 128 columns at a time: 64 even ones, then 64 odd ones
    const float* scale;     // [count, blocks], halved: the table of weights is doubled
    const float* offset;    // [count, blocks]: -12 * sum of the block's codes
    const int32_t* offset_i;  // the same
    int64_t blocks;         // columns / 32, rounded up to a multiple of 16
};

// All of one layer's experts; tokens of one expert lie side by side ("slots").
struct Experts {
    const float* x;         // [tokens, columns]
    float* y;               // [tokens, columns]
    int64_t tokens, columns, inner;
    int64_t chosen;         // experts per token
    int64_t experts;        // in use
    const int64_t* first;   // [experts + 1]: slots of expert e are first[e] .. first[e + 1]
    const int32_t* token;   // [slots]: the token of a slot
    const int32_t* slot;    // [tokens, chosen]: the slot of a token's choice, -1 for none
    const float* weight;    // [tokens, chosen]
    const uint8_t* const* matrices;  // [experts, 6]: packed and scales of w1, w2, w3
    int activation;         // 0 SwiGLU, 1 SiTU
    float beta, linear_beta;  // linear_beta 0: none
    int rounding;
    int failed;             // 1: no memory
};

}  // namespace whimbrel
