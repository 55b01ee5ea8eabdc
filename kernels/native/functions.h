// exp, sigmoid and tanh in float32, written so that the compiler turns a loop over them into vectors.
// For _each.cpp files only. Errors: exp 1e-7, sigmoid 2e-7, tanh 2e-7, all relative. Not-a-number stays so.
// The polynomials are those of the Cephes library (S. Moshier).
#pragma once

#include <cstring>

#include "whimbrel.h"

namespace whimbrel::WHIMBREL_VARIANT {

static inline float fast_exp(float x) {
    x = x > 88.f ? 88.f : x;
    x = x < -87.f ? -87.f : x;
    float shifted = x * 1.44269504f + 12582912.f;  // rounds to a whole number in the low bits
    float n = shifted - 12582912.f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.f;
    int32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = int32_t(uint32_t(bits) << 23) + 0x3f800000;
    float power;
    memcpy(&power, &bits, 4);
    return p * power;
}

static inline float fast_sigmoid(float x) { return 1.f / (1.f + fast_exp(-x)); }

static inline float fast_tanh(float x) {
    float size = x < 0 ? -x : x;
    float large = 1.f - 2.f / (fast_exp(2.f * size) + 1.f);
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x;
    large = x < 0 ? -large : large;
    return size < 0.625f ? small : large;
}

}  // namespace whimbrel::WHIMBREL_VARIANT
