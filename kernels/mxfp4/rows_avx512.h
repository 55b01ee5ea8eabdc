// MXFP4 with AVX-512: one row at a time for one token, sixteen rows at a time for a few.
#pragma once

#include "../native/products.h"
#include "mxfp4.h"

namespace whimbrel::WHIMBREL_VARIANT {

// A block's tokens as int8 codes; see Tokens for the layout. Values that are not finite make the scale NaN.
static inline void quantise_token(const float* x, int64_t columns, int64_t blocks, int8_t* codes, float* scale,
                           float* offset, int32_t* offset_i) {
    const __m128i split = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    int64_t real = columns / 32;
    for (int64_t b = 0; b < real; ++b) {
        __m512 v0 = _mm512_loadu_ps(x + b * 32), v1 = _mm512_loadu_ps(x + b * 32 + 16);
        __m512 size = _mm512_max_ps(_mm512_abs_ps(v0), _mm512_abs_ps(v1));
        float largest = _mm512_reduce_max_ps(size);
        bool wild = _mm512_cmp_ps_mask(v0, v1, _CMP_UNORD_Q) != 0 || !(largest < 3.4e38f);
        float inverse = wild || largest < 1e-36f ? 0.f : 127.f / largest;
        __m512i i0 = _mm512_cvtps_epi32(_mm512_mul_ps(v0, _mm512_set1_ps(inverse)));
        __m512i i1 = _mm512_cvtps_epi32(_mm512_mul_ps(v1, _mm512_set1_ps(inverse)));
        if (wild) i0 = i1 = _mm512_setzero_si512();
        __m128i c0 = _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(i0), split);
        __m128i c1 = _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(i1), split);
        int8_t* place = codes + b / 4 * 128 + b % 4 * 16;
        _mm_store_si128(reinterpret_cast<__m128i*>(place), _mm_unpacklo_epi64(c0, c1));
        _mm_store_si128(reinterpret_cast<__m128i*>(place + 64), _mm_unpackhi_epi64(c0, c1));
        int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(i0, i1));
        scale[b] = wild ? NAN : largest * (0.5f / 127.f);
        offset[b] = -12.f * float(sum);
        offset_i[b] = -12 * sum;
    }
    for (int64_t b = real; b < blocks; ++b) {
        int8_t* place = codes + b / 4 * 128 + b % 4 * 16;
        memset(place, 0, 16);
        memset(place + 64, 0, 16);
        scale[b] = offset[b] = 0.f;
        offset_i[b] = 0;
    }
}

static inline __m512i code_table() {
    // Twice the magnitude, plus 12: 0 .. 24, unsigned for the unsigned-by-signed product.
    return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

static inline __m512 e8m0(__m128i bytes) {
    __m512i wide = _mm512_cvtepu8_epi32(bytes);
    __m512i bits = _mm512_max_epi32(_mm512_slli_epi32(wide, 23), _mm512_set1_epi32(0x00400000));  // 0: 2^-127
    __mmask16 nan = _mm512_cmpeq_epi32_mask(wide, _mm512_set1_epi32(255));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(nan, bits, _mm512_set1_epi32(0x7fc00000)));
}

// One row, one token.
static inline float row_int8(const uint8_t* w, const uint8_t* s, int64_t columns, const int8_t* codes,
                             const float* scale, const float* offset) {
    const __m512i table = code_table(), low = _mm512_set1_epi8(15);
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i step = _mm512_set1_epi32(4);
    __m512 sum0 = _mm512_setzero_ps(), sum1 = sum0, correction = sum0;
    int64_t blocks = columns / 32, b = 0;
    auto quarter = [&](__m512i v, const int8_t* even, __m512 factors, __m512i lanes, __m512 sum) {
        __m512i lo = _mm512_shuffle_epi8(table, _mm512_and_si512(v, low));
        __m512i hi = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(v, 4), low));
        __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), lo, _mm512_load_si512(even));
        dot = _mm512_dpbusd_epi32(dot, hi, _mm512_load_si512(even + 64));
        return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_permutexvar_ps(lanes, factors), sum);
    };
    for (; b + 16 <= blocks; b += 16) {
        __m512 factors = _mm512_mul_ps(e8m0(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + b))),
                                       _mm512_load_ps(scale + b));
        correction = _mm512_fmadd_ps(factors, _mm512_load_ps(offset + b), correction);
        const uint8_t* from = w + b * 16;
        const int8_t* even = codes + b * 32;
        ahead<256>(from);
        __m512i lanes = spread;
        sum0 = quarter(_mm512_loadu_si512(from), even, factors, lanes, sum0);
        lanes = _mm512_add_epi32(lanes, step);
        sum1 = quarter(_mm512_loadu_si512(from + 64), even + 128, factors, lanes, sum1);
        lanes = _mm512_add_epi32(lanes, step);
        sum0 = quarter(_mm512_loadu_si512(from + 128), even + 256, factors, lanes, sum0);
        lanes = _mm512_add_epi32(lanes, step);
        sum1 = quarter(_mm512_loadu_si512(from + 192), even + 384, factors, lanes, sum1);
    }
    if (b < blocks) {
        int left = int(blocks - b);
        __m128i bytes = _mm_maskz_loadu_epi8(__mmask16((1u << left) - 1), s + b);
        __m512 factors = _mm512_mul_ps(e8m0(bytes), _mm512_load_ps(scale + b));
        correction = _mm512_fmadd_ps(factors, _mm512_load_ps(offset + b), correction);
        __m512i lanes = spread;
        for (int q = 0; q * 4 < left; ++q) {
            int have = left - q * 4 < 4 ? (left - q * 4) * 16 : 64;
            __mmask64 mask = have == 64 ? ~0ull : (1ull << have) - 1;
            __m512i v = _mm512_maskz_loadu_epi8(mask, w + b * 16 + q * 64);
            sum0 = quarter(v, codes + b * 32 + q * 128, factors, lanes, sum0);
            lanes = _mm512_add_epi32(lanes, step);
        }
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum0, sum1), correction));
}

// Sixteen rows of one block as four vectors: dword r of vector j holds columns 8j .. 8j + 7 of row r.
static inline void gather_block(const uint8_t* const* row, int64_t byte, __m512i out[4]) {
    __m512i a[4];
    for (int d = 0; d < 4; ++d) {
        auto part = [&](int r) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r] + byte)); };
        a[d] = _mm512_castsi128_si512(part(d));
        a[d] = _mm512_inserti32x4(a[d], part(4 + d), 1);
        a[d] = _mm512_inserti32x4(a[d], part(8 + d), 2);
        a[d] = _mm512_inserti32x4(a[d], part(12 + d), 3);
    }
    __m512i t0 = _mm512_unpacklo_epi32(a[0], a[1]), t1 = _mm512_unpackhi_epi32(a[0], a[1]);
    __m512i t2 = _mm512_unpacklo_epi32(a[2], a[3]), t3 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(t0, t2);
    out[1] = _mm512_unpackhi_epi64(t0, t2);
    out[2] = _mm512_unpacklo_epi64(t1, t3);
    out[3] = _mm512_unpackhi_epi64(t1, t3);
}

// Scale bytes of sixteen rows and sixteen blocks, transposed: out[block] holds the rows.
static inline void gather_scales(const uint8_t* s, int64_t stride, int rows, int64_t b, int blocks, __m128i out[16]) {
    __mmask16 mask = blocks >= 16 ? 0xffff : __mmask16((1u << blocks) - 1);
    __m128i a[16], t[16];
    for (int r = 0; r < 16; ++r) a[r] = _mm_maskz_loadu_epi8(mask, s + (r < rows ? r : rows - 1) * stride + b);
    for (int r = 0; r < 8; ++r) {
        t[2 * r] = _mm_unpacklo_epi8(a[r], a[r + 8]);
        t[2 * r + 1] = _mm_unpackhi_epi8(a[r], a[r + 8]);
    }
    for (int r = 0; r < 8; ++r) {
        a[2 * r] = _mm_unpacklo_epi8(t[r], t[r + 8]);
        a[2 * r + 1] = _mm_unpackhi_epi8(t[r], t[r + 8]);
    }
    for (int r = 0; r < 8; ++r) {
        t[2 * r] = _mm_unpacklo_epi8(a[r], a[r + 8]);
        t[2 * r + 1] = _mm_unpackhi_epi8(a[r], a[r + 8]);
    }
    for (int r = 0; r < 8; ++r) {
        out[2 * r] = _mm_unpacklo_epi8(t[r], t[r + 8]);
        out[2 * r + 1] = _mm_unpackhi_epi8(t[r], t[r + 8]);
    }
}

// Sixteen rows, N tokens: `t` is the first of them; those beyond `tokens` repeat the last and are not stored.
template <int N>
static inline void rows16_int8(const Mxfp4& w, int64_t r0, int rows, const Tokens& x, int64_t t, int tokens, float* y,
                        int64_t ldy) {
    const __m512i table = code_table(), low = _mm512_set1_epi8(15);
    int64_t blocks = w.columns / 32, half = w.columns / 2, stride = x.blocks;
    const uint8_t* row[16];
    for (int r = 0; r < 16; ++r) row[r] = w.packed + (r0 + (r < rows ? r : rows - 1)) * half;
    const uint8_t* next = w.packed + (r0 + 16) * half;  // prefetched in the order of memory
    const int8_t* codes[N];
    const float* scale[N];
    const int32_t* offset[N];
    __m512 sum[N];
    for (int j = 0; j < N; ++j) {
        int64_t token = t + (j < tokens ? j : tokens - 1);
        codes[j] = x.codes + token * stride * 32;
        scale[j] = x.scale + token * stride;
        offset[j] = x.offset_i + token * stride;
        sum[j] = _mm512_setzero_ps();
    }
    for (int64_t group = 0; group < blocks; group += 16) {
        int here = int(blocks - group < 16 ? blocks - group : 16);
        __m128i bytes[16];
        gather_scales(w.scales + r0 * blocks, blocks, rows, group, here, bytes);
        for (int k = 0; k < here; ++k) {
            int64_t b = group + k;
            _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
            _mm_prefetch(reinterpret_cast<const char*>(next + 64), _MM_HINT_T1);
            _mm_prefetch(reinterpret_cast<const char*>(next + 128), _MM_HINT_T1);
            _mm_prefetch(reinterpret_cast<const char*>(next + 192), _MM_HINT_T1);
            next += 256;
            __m512i v[4], lo[4], hi[4];
            gather_block(row, b * 16, v);
            for (int j = 0; j < 4; ++j) {
                lo[j] = _mm512_shuffle_epi8(table, _mm512_and_si512(v[j], low));
                hi[j] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(v[j], 4), low));
            }
            __m512 factor = e8m0(bytes[k]);
            int64_t place = b / 4 * 128 + b % 4 * 16;
            for (int j = 0; j < N; ++j) {
                const int32_t* q = reinterpret_cast<const int32_t*>(codes[j] + place);
                __m512i dot = _mm512_set1_epi32(offset[j][b]);
                for (int i = 0; i < 4; ++i) {
                    dot = _mm512_dpbusd_epi32(dot, lo[i], _mm512_set1_epi32(q[i]));
                    dot = _mm512_dpbusd_epi32(dot, hi[i], _mm512_set1_epi32(q[16 + i]));
                }
                sum[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(factor, _mm512_set1_ps(scale[j][b])),
                                         sum[j]);
            }
        }
    }
    __mmask16 mask = rows >= 16 ? 0xffff : __mmask16((1u << rows) - 1);
    for (int j = 0; j < N; ++j)
        if (j < tokens) _mm512_mask_storeu_ps(y + (t + j) * ldy + r0, mask, sum[j]);
}

// Thirty-two weights of one block as bf16 bits in the order of the columns, without the scale.
static inline __m512i block_bf16(const uint8_t* packed) {
    static const uint16_t values[32] = {
        0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040,
        0xc080, 0xc0c0, 0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0,
        0xc000, 0xc040, 0xc080, 0xc0c0};  // twice over: the fifth bit of an index is anything
    __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)));
    __m512i index = _mm512_or_si512(byte, _mm512_slli_epi32(byte, 12));
    return _mm512_permutexvar_epi16(index, _mm512_loadu_si512(values));
}

// Whether every scale keeps a weight a normal bf16: then adding to the exponent is the exact product.
static inline bool scales_are_tame(const uint8_t* s, int64_t n) {
    int64_t i = 0;
    const __m512i least = _mm512_set1_epi8(16), span = _mm512_set1_epi8(char(224));
    for (; i + 64 <= n; i += 64) {
        __m512i shifted = _mm512_sub_epi8(_mm512_loadu_si512(s + i), least);
        if (_mm512_cmpgt_epu8_mask(shifted, span)) return false;
    }
    for (; i < n; ++i)
        if (s[i] < 16 || s[i] > 240) return false;
    return true;
}

static inline void panel_bf16(const Mxfp4& w, int64_t r0, int64_t rows, uint16_t* panel) {
    const __m512i digits = _mm512_set1_epi16(0x7fff);
    for (int64_t r = r0; r < r0 + rows; ++r) {
        const uint8_t* packed = w.packed + r * (w.columns / 2);
        const uint8_t* s = w.scales + r * (w.columns / 32);
        for (int64_t b = 0; b < w.columns / 32; ++b, panel += 32) {
            _mm_prefetch(reinterpret_cast<const char*>(packed + b * 16 + 4096), _MM_HINT_T1);
            __m512i v = block_bf16(packed + b * 16);
            __m512i exponent = _mm512_set1_epi16(int16_t((int(s[b]) - 127) * 128));
            v = _mm512_mask_add_epi16(v, _mm512_test_epi16_mask(v, digits), v, exponent);
            _mm512_store_si512(panel, v);
        }
    }
}

// The layout of tiles.h: stripes of sixteen rows; rows beyond the last repeat it.
static inline void panel_tiles(const Mxfp4& w, int64_t r0, int64_t rows, uint16_t* panel) {
    static const uint16_t values[16] = {0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
                                        0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};
    __m256i once = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
    const __m512i table = _mm512_broadcast_i64x4(once);  // twice: the fifth bit of an index is anything
    const __m512i digits = _mm512_set1_epi16(0x7fff), bias = _mm512_set1_epi32(127);
    int64_t blocks = w.columns / 32, half = w.columns / 2;
    for (int64_t first = 0; first < rows; first += 16) {
        int here = int(rows - first < 16 ? rows - first : 16);
        const uint8_t* row[16];
        for (int r = 0; r < 16; ++r) row[r] = w.packed + (r0 + first + (r < here ? r : here - 1)) * half;
        const uint8_t* next = row[0] + 32 * half;
        for (int64_t group = 0; group < blocks; group += 16) {
            int many = int(blocks - group < 16 ? blocks - group : 16);
            __m128i bytes[16];
            gather_scales(w.scales + (r0 + first) * blocks, blocks, here, group, many, bytes);
            for (int k = 0; k < many; ++k, next += 256) {
                for (int line = 0; line < 256; line += 64)
                    _mm_prefetch(reinterpret_cast<const char*>(next + line), _MM_HINT_T1);
                __m512i exponent = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes[k]), bias), 7);
                exponent = _mm512_mask_blend_epi16(0xaaaaaaaa, exponent, _mm512_slli_epi32(exponent, 16));
                __m512i v[4];
                gather_block(row, (group + k) * 16, v);
                auto pair = [&](__m512i low, __m512i high) {
                    __m512i index = _mm512_mask_blend_epi16(0xaaaaaaaa, low, high);
                    __m512i value = _mm512_permutexvar_epi16(index, table);
                    value = _mm512_mask_add_epi16(value, _mm512_test_epi16_mask(value, digits), value, exponent);
                    _mm512_store_si512(panel, value);
                    panel += 32;
                };
                for (int j = 0; j < 4; ++j) {
                    pair(v[j], _mm512_slli_epi32(v[j], 12));
                    pair(_mm512_srli_epi32(v[j], 8), _mm512_slli_epi32(v[j], 4));
                    pair(_mm512_srli_epi32(v[j], 16), _mm512_srli_epi32(v[j], 4));
                    pair(_mm512_srli_epi32(v[j], 24), _mm512_srli_epi32(v[j], 12));
                }
            }
        }
    }
}

static inline void panel_f32(const Mxfp4& w, int64_t r0, int64_t rows, float* panel) {
    for (int64_t r = r0; r < r0 + rows; ++r) {
        const uint8_t* packed = w.packed + r * (w.columns / 2);
        const uint8_t* s = w.scales + r * (w.columns / 32);
        for (int64_t b = 0; b < w.columns / 32; ++b, panel += 32) {
            __m512i v = block_bf16(packed + b * 16);
            __m512 factor = _mm512_broadcastss_ps(_mm512_castps512_ps128(e8m0(_mm_set1_epi8(char(s[b])))));
            __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v));
            __m512i second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1));
            _mm512_store_ps(panel, _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(first, 16)), factor));
            _mm512_store_ps(panel + 16, _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(second, 16)), factor));
        }
    }
}

}  // namespace whimbrel::WHIMBREL_VARIANT
