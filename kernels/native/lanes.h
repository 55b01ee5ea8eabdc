// Vectors as wide as the variant's registers, for kernels that are written once for every variant.
// Only for _each.cpp files: everything is local to the file that includes it.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef float vf_any __attribute__((vector_size(W * 4), aligned(4), may_alias));

inline vf load(const float* p) { return *reinterpret_cast<const vf_any*>(p); }
inline void store(float* p, vf v) { *reinterpret_cast<vf_any*>(p) = v; }
inline vf all(float x) { return x - vf{}; }  // not + 0, which would change -0 and so cost an addition
inline vf larger(vf a, vf b) { return a > b ? a : b; }
inline int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Halves are added to halves: the same order whatever surrounds the call.
inline float sum(vf v) {
    float part[W];
    store(part, v);
    for (int step = W / 2; step; step /= 2)
        for (int i = 0; i < step; ++i) part[i] += part[i + step];
    return part[0];
}

// 1.5 * 2^23: adding it rounds to a whole number, which is then in the low bits.
constexpr float kRound = 12582912.0f;

// 2^x for x <= 0, relative error 1e-7; 0 below -126 and for -inf.
inline vf exp2_down(vf x) {
    vf shifted = x + kRound;
    vf f = x - (shifted - kRound);
    vf p = f * 1.5337577575e-4f + 1.3399859890e-3f;
    p = p * f + 9.6185198054e-3f;
    p = p * f + 5.5503290147e-2f;
    p = p * f + 2.4022646248e-1f;
    p = p * f + 6.9314718246e-1f;
    p = p * f + 1.0f;
    vf scaled = (vf)((vi)p + ((vi)shifted << 23));
    return x < -126.0f ? vf{} : scaled;
}

// e^x for x <= 0, relative error 1e-7 (the argument is reduced in two parts); 0 below -87.
inline vf exp_down(vf x) {
    vf shifted = x * 1.44269504f + kRound;
    vf n = shifted - kRound;
    vf f = x - n * 0.693359375f;
    f = f + n * 2.12194440e-4f;
    vf p = f * 1.3829420786e-3f + 8.3747711033e-3f;
    p = p * f + 4.1668359190e-2f;
    p = p * f + 1.6666421294e-1f;
    p = p * f + 4.9999991059e-1f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    vf scaled = (vf)((vi)p + ((vi)shifted << 23));
    return x < -87.0f ? vf{} : scaled;
}

inline float bf16_value(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

// To nearest, ties to even; NaN stays NaN.
inline uint16_t bf16_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t((bits >> 16) | 64);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace
