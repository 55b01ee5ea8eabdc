// MXFP4 with AVX2: one row at a time for a few tokens, float32 panels for many.
#pragma once

#include "../native/products.h"
#include "mxfp4.h"

namespace whimbrel::WHIMBREL_VARIANT {

static inline void quantise_token(const float* x, int64_t columns, int64_t blocks, int8_t* codes, float* scale,
                           float* offset, int32_t* offset_i) {
    for (int64_t b = 0; b < blocks; ++b) {
        int8_t* place = codes + b / 4 * 128 + b % 4 * 16;
        float largest = 0.f, wild = 0.f;
        const float* from = x + b * 32;
        bool real = b * 32 < columns;
        for (int i = 0; real && i < 32; ++i) {
            float size = from[i] < 0 ? -from[i] : from[i];
            largest = size > largest ? size : largest;
            wild += from[i] * 0.f;  // 0, or not a number
        }
        bool finite = wild == 0.f;
        float inverse = finite && largest >= 1e-36f ? 127.f / largest : 0.f;
        int32_t sum = 0;
        for (int i = 0; i < 32; ++i) {
            float value = inverse > 0.f ? from[i] * inverse + 12582912.f : 12582912.f;
            int32_t bits;
            memcpy(&bits, &value, 4);
            int32_t code = bits - 0x4b400000;  // rounded to nearest, ties to even
            place[i / 2 + i % 2 * 64] = int8_t(code);
            sum += code;
        }
        scale[b] = finite ? largest * (0.5f / 127.f) : NAN;
        offset[b] = -12.f * float(sum);
        offset_i[b] = -12 * sum;
    }
}

static inline __m256 e8m0(__m256i wide) {
    __m256i bits = _mm256_max_epi32(_mm256_slli_epi32(wide, 23), _mm256_set1_epi32(0x00400000));
    __m256i nan = _mm256_cmpeq_epi32(wide, _mm256_set1_epi32(255));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan));
}

static inline float row_int8(const uint8_t* w, const uint8_t* s, int64_t columns, const int8_t* codes,
                             const float* scale, const float* offset) {
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256 sum0 = _mm256_setzero_ps(), sum1 = sum0, correction = sum0;
    uint8_t tail_w[128], tail_s[8];
    for (int64_t blocks = columns / 32, b = 0; b < blocks; b += 8) {
        const uint8_t *from = w + b * 16, *bytes = s + b;
        if (blocks - b < 8) {  // the codes are padded already
            memset(tail_w, 0, sizeof tail_w);
            memset(tail_s, 0, sizeof tail_s);
            memcpy(tail_w, from, size_t(blocks - b) * 16);
            memcpy(tail_s, bytes, size_t(blocks - b));
            from = tail_w;
            bytes = tail_s;
        }
        ahead<128>(from);
        __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
        __m256 factors = _mm256_mul_ps(e8m0(_mm256_cvtepu8_epi32(eight)), _mm256_loadu_ps(scale + b));
        correction = _mm256_fmadd_ps(factors, _mm256_loadu_ps(offset + b), correction);
        __m256i lanes = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
        for (int p = 0; p < 4; ++p) {
            __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + p * 32));
            __m256i lo = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
            __m256i hi = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
            const int8_t* even = codes + b * 32 + p / 2 * 128 + p % 2 * 32;
            __m256i pairs = _mm256_maddubs_epi16(lo, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even)));
            __m256i odd = _mm256_maddubs_epi16(hi, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even + 64)));
            __m256 dot = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_add_epi16(pairs, odd), ones));
            __m256 factor = _mm256_permutevar8x32_ps(factors, lanes);
            lanes = _mm256_add_epi32(lanes, _mm256_set1_epi32(2));
            if (p % 2)
                sum1 = _mm256_fmadd_ps(dot, factor, sum1);
            else
                sum0 = _mm256_fmadd_ps(dot, factor, sum0);
        }
    }
    return lanes_sum(_mm256_add_ps(_mm256_add_ps(sum0, sum1), correction));
}

static inline void panel_f32(const Mxfp4& w, int64_t r0, int64_t rows, float* panel) {
    const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);  // doubled
    const __m128i low = _mm_set1_epi8(15);
    const __m256 half = _mm256_set1_ps(0.5f);
    for (int64_t r = r0; r < r0 + rows; ++r) {
        const uint8_t* packed = w.packed + r * (w.columns / 2);
        const uint8_t* s = w.scales + r * (w.columns / 32);
        for (int64_t b = 0; b < w.columns / 32; ++b, panel += 32) {
            __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + b * 16));
            __m128i lo = _mm_shuffle_epi8(table, _mm_and_si128(v, low));
            __m128i hi = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(v, 4), low));
            __m128i parts[2] = {_mm_unpacklo_epi8(lo, hi), _mm_unpackhi_epi8(lo, hi)};
            __m256 factor = e8m0(_mm256_set1_epi32(s[b]));
            for (int i = 0; i < 4; ++i) {
                __m128i eight = i % 2 ? _mm_srli_si128(parts[i / 2], 8) : parts[i / 2];
                __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), half);
                _mm256_storeu_ps(panel + i * 8, _mm256_mul_ps(value, factor));
            }
        }
    }
}

}  // namespace whimbrel::WHIMBREL_VARIANT
