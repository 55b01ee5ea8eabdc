// How the kernels read cached rows of any kind as float32 or bfloat16. Only for _each.cpp files.
#pragma once
#include "../native/lanes.h"
#include "cache.h"


namespace {

inline const char* row_at(const whimbrel::Rows& rows, int64_t i) {
    if (!rows.table) return rows.data + i * rows.row_stride;
    return rows.data + rows.table[i / rows.page_size] * rows.page_stride + i % rows.page_size * rows.row_stride;
}

inline float e4m3_value(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 127) == 127) return __builtin_nanf("");
    float size = exponent ? __builtin_ldexpf(float(8 + mantissa), exponent - 10) : __builtin_ldexpf(float(mantissa), -9);
    return code & 128 ? -size : size;
}

// n codes to float32, each times `scale`.
inline void widen_e4m3(float* to, const uint8_t* codes, int64_t n, float scale) {
    int64_t i = 0;
#if defined(__AVX512F__) && defined(__AVX512BW__)
    const __m512 tiny = _mm512_set1_ps(0x1p120f * 1.0f);
    const __m512 factor = _mm512_mul_ps(tiny, _mm512_set1_ps(scale));
    const bool direct = scale < 256.0f;  // 2^120 * scale stays finite
    for (; direct && i + 16 <= n; i += 16) {
        __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)));
        __m512i size = _mm512_and_si512(code, _mm512_set1_epi32(127));
        __m512i sign = _mm512_slli_epi32(_mm512_and_si512(code, _mm512_set1_epi32(128)), 24);
        // Exponent and mantissa placed as a float32 that is 2^120 too small (also right below the normal range).
        __m512 value = _mm512_castsi512_ps(_mm512_or_si512(_mm512_slli_epi32(size, 20), sign));
        __mmask16 odd = _mm512_cmpeq_epi32_mask(size, _mm512_set1_epi32(127));
        value = _mm512_mul_ps(value, factor);
        _mm512_storeu_ps(to + i, _mm512_mask_mov_ps(value, odd, _mm512_set1_ps(__builtin_nanf(""))));
    }
#endif
    for (; i < n; ++i) to[i] = e4m3_value(codes[i]) * scale;
}

inline void widen_bf16(float* to, const uint16_t* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = bf16_value(from[i]);
}

// One row as float32.
inline void read_f32(float* to, const whimbrel::Rows& rows, const char* row) {
    int64_t n = rows.width;
    if (rows.kind == whimbrel::kFloat32) {
        std::memcpy(to, row, n * 4);
    } else if (rows.kind == whimbrel::kBfloat16) {
        widen_bf16(to, reinterpret_cast<const uint16_t*>(row), n);
    } else if (rows.kind == whimbrel::kKey8) {
        float scale;
        std::memcpy(&scale, row + n, 4);
        widen_e4m3(to, reinterpret_cast<const uint8_t*>(row), n, scale);
    } else {
        float scales[4];
        std::memcpy(scales, row + 512, 16);
        for (int part = 0; part < 4; ++part)
            widen_e4m3(to + 128 * part, reinterpret_cast<const uint8_t*>(row) + 128 * part, 128, scales[part]);
        widen_bf16(to + 512, reinterpret_cast<const uint16_t*>(row + 528), 64);
    }
}

inline void narrow_bf16(uint16_t* to, const float* from, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512BF16__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
#endif
    for (; i < n; ++i) to[i] = bf16_bits(from[i]);
}

// The same as bfloat16; `room` holds width floats.
inline void read_bf16(uint16_t* to, const whimbrel::Rows& rows, const char* row, float* room) {
    if (rows.kind == whimbrel::kBfloat16) {
        std::memcpy(to, row, int64_t(rows.width) * 2);
        return;
    }
    read_f32(room, rows, row);
    narrow_bf16(to, room, rows.width);
}

}  // namespace
