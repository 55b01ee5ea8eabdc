// Products of two matrices whose rows both run along the columns that are summed: y[t, r] = a[r, :] . x[t, :].
// For _each.cpp files only. Tiles of 4 rows by up to 6 tokens stay in registers; the caller hands in as many rows
// as fit the second-level cache.
#pragma once

#include <cmath>
#include <cstring>

#include "whimbrel.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace whimbrel::WHIMBREL_VARIANT {

static inline float bf16_to_f32(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// Rounds to nearest, ties to even; not-a-number stays so.
static inline uint16_t f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void to_bf16(const float* x, uint16_t* out, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512BF16__)
    for (; i + 16 <= n; i += 16)  // numbers below the normal ones become zero
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
#endif
    for (; i < n; ++i) out[i] = f32_to_bf16(x[i]);
}

#if defined(__AVX2__)
// Asks for memory that is read once, in order: far ahead into the second level (which has more misses in
// flight than the first: asking the first alone halves the speed), then closer into the first.
template <int Bytes>
static inline void ahead(const void* p) {
    const char* from = static_cast<const char*>(p);
    for (int i = 0; i < Bytes; i += 64) {
        _mm_prefetch(from + 4096 + i, _MM_HINT_T1);
        _mm_prefetch(from + 512 + i, _MM_HINT_T0);
    }
}
#endif

#if defined(__AVX512F__)
using Lanes = __m512;
static constexpr int kLanes = 16;
static inline Lanes lanes_zero() { return _mm512_setzero_ps(); }
static inline Lanes lanes_load(const float* p) { return _mm512_loadu_ps(p); }
static inline Lanes lanes_part(const float* p, int n) { return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p); }
static inline Lanes lanes_fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
static inline float lanes_sum(Lanes a) { return _mm512_reduce_add_ps(a); }
#elif defined(__AVX2__)
using Lanes = __m256;
static constexpr int kLanes = 8;
static inline Lanes lanes_zero() { return _mm256_setzero_ps(); }
static inline Lanes lanes_load(const float* p) { return _mm256_loadu_ps(p); }
static inline Lanes lanes_part(const float* p, int n) {
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index));
}
static inline Lanes lanes_fma(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
static inline float lanes_sum(Lanes a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
#else
static constexpr int kLanes = 4;
struct Lanes {
    float v[kLanes];
};
static inline Lanes lanes_zero() { return Lanes{}; }
static inline Lanes lanes_load(const float* p) {
    Lanes a;
    memcpy(a.v, p, sizeof a.v);
    return a;
}
static inline Lanes lanes_part(const float* p, int n) {
    Lanes a{};
    for (int i = 0; i < n; ++i) a.v[i] = p[i];
    return a;
}
static inline Lanes lanes_fma(Lanes a, Lanes b, Lanes c) {
    for (int i = 0; i < kLanes; ++i) c.v[i] += a.v[i] * b.v[i];
    return c;
}
static inline float lanes_sum(Lanes a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
#endif

#if defined(__AVX512F__)
static constexpr int kTileRows = 4;
#else
static constexpr int kTileRows = 2;  // sixteen registers only
#endif

// One tile; rows and tokens beyond `rows` and `tokens` repeat the last one and are not stored.
template <int N>
static inline void tile_f32(const float* a, int64_t lda, int rows, const float* x, int64_t ldx, int tokens,
                            int64_t columns, float* y, int64_t ldy, bool add) {
    constexpr int M = kTileRows;
    const float* w[M];
    const float* u[N];
    Lanes sum[M][N];
    for (int i = 0; i < M; ++i) w[i] = a + (i < rows ? i : rows - 1) * lda;
    for (int j = 0; j < N; ++j) u[j] = x + (j < tokens ? j : tokens - 1) * ldx;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) sum[i][j] = lanes_zero();
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
        Lanes v[M];
        for (int i = 0; i < M; ++i) v[i] = lanes_load(w[i] + c);
        for (int j = 0; j < N; ++j) {
            Lanes token = lanes_load(u[j] + c);
            for (int i = 0; i < M; ++i) sum[i][j] = lanes_fma(v[i], token, sum[i][j]);
        }
    }
    if (int rest = int(columns - c)) {
        Lanes v[M];
        for (int i = 0; i < M; ++i) v[i] = lanes_part(w[i] + c, rest);
        for (int j = 0; j < N; ++j) {
            Lanes token = lanes_part(u[j] + c, rest);
            for (int i = 0; i < M; ++i) sum[i][j] = lanes_fma(v[i], token, sum[i][j]);
        }
    }
    for (int j = 0; j < N; ++j)
        for (int i = 0; i < M; ++i)
            if (j < tokens && i < rows) y[j * ldy + i] = lanes_sum(sum[i][j]) + (add ? y[j * ldy + i] : 0.f);
}

// Columns that are multiplied before the next tile: those of a tile of tokens stay in the first-level cache
// while the rows pass. Sums of the pieces are added in y.
static constexpr int64_t kChunkBytes = 4096;

static inline int64_t chunk(int64_t left, int64_t most) { return left < most + most / 2 ? left : most; }

// y[t * ldy + r] for r in [0, rows), t in [0, tokens); float32 throughout.
static inline void product_f32(const float* a, int64_t lda, int64_t rows, const float* x, int64_t ldx, int64_t tokens,
                        int64_t columns, float* y, int64_t ldy) {
    constexpr int M = kTileRows;
    int64_t most = tokens > 6 ? kChunkBytes / 4 : columns;
    for (int64_t c = 0, n; c < columns; c += n) {
        n = chunk(columns - c, most);
        for (int64_t t = 0; t < tokens;) {
            int64_t left = tokens - t;
            int wide = left >= 5 ? 6 : left >= 3 ? 4 : int(left);
            int real = int(left < wide ? left : wide);
            for (int64_t r = 0; r < rows; r += M) {
                int m = int(rows - r < M ? rows - r : M);
                const float *ar = a + r * lda + c, *xt = x + t * ldx + c;
                float* out = y + t * ldy + r;
                switch (wide) {
                    case 1: tile_f32<1>(ar, lda, m, xt, ldx, real, n, out, ldy, c > 0); break;
                    case 2: tile_f32<2>(ar, lda, m, xt, ldx, real, n, out, ldy, c > 0); break;
                    case 4: tile_f32<4>(ar, lda, m, xt, ldx, real, n, out, ldy, c > 0); break;
                    default: tile_f32<6>(ar, lda, m, xt, ldx, real, n, out, ldy, c > 0);
                }
            }
            t += real;
        }
    }
}

#if defined(__AVX512BF16__)
static inline __m512bh bf16_load(const uint16_t* p) { return (__m512bh)_mm512_loadu_si512(p); }

template <int N>
static inline void tile_bf16(const uint16_t* a, int64_t lda, int rows, const uint16_t* x, int64_t ldx, int tokens,
                             int64_t columns, float* y, int64_t ldy) {
    constexpr int M = 4;
    const uint16_t* w[M];
    const uint16_t* u[N];
    __m512 sum[M][N];
    for (int i = 0; i < M; ++i) w[i] = a + (i < rows ? i : rows - 1) * lda;
    for (int j = 0; j < N; ++j) u[j] = x + (j < tokens ? j : tokens - 1) * ldx;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) sum[i][j] = _mm512_setzero_ps();
    int64_t c = 0;
    for (; c + 32 <= columns; c += 32) {
        __m512bh v[M];
        for (int i = 0; i < M; ++i) v[i] = bf16_load(w[i] + c);
        for (int j = 0; j < N; ++j) {
            __m512bh token = bf16_load(u[j] + c);
            for (int i = 0; i < M; ++i) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], v[i], token);
        }
    }
    if (c < columns) {
        __mmask32 mask = (1u << (columns - c)) - 1;
        __m512bh v[M];
        for (int i = 0; i < M; ++i) v[i] = (__m512bh)_mm512_maskz_loadu_epi16(mask, w[i] + c);
        for (int j = 0; j < N; ++j) {
            __m512bh token = (__m512bh)_mm512_maskz_loadu_epi16(mask, u[j] + c);
            for (int i = 0; i < M; ++i) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], v[i], token);
        }
    }
    for (int j = 0; j < N; ++j)
        for (int i = 0; i < M; ++i)
            if (j < tokens && i < rows) y[j * ldy + i] = _mm512_reduce_add_ps(sum[i][j]);
}

static inline void product_bf16(const uint16_t* a, int64_t lda, int64_t rows, const uint16_t* x, int64_t ldx,
                         int64_t tokens, int64_t columns, float* y, int64_t ldy) {
    for (int64_t t = 0; t < tokens;) {
        int64_t left = tokens - t;
        int wide = left >= 5 ? 6 : left >= 3 ? 4 : int(left);
        int real = int(left < wide ? left : wide);
        for (int64_t r = 0; r < rows; r += 4) {
            int m = int(rows - r < 4 ? rows - r : 4);
            const uint16_t *ar = a + r * lda, *xt = x + t * ldx;
            float* out = y + t * ldy + r;
            switch (wide) {
                case 1: tile_bf16<1>(ar, lda, m, xt, ldx, real, columns, out, ldy); break;
                case 2: tile_bf16<2>(ar, lda, m, xt, ldx, real, columns, out, ldy); break;
                case 4: tile_bf16<4>(ar, lda, m, xt, ldx, real, columns, out, ldy); break;
                default: tile_bf16<6>(ar, lda, m, xt, ldx, real, columns, out, ldy);
            }
        }
        t += real;
    }
}
#endif

}  // namespace whimbrel::WHIMBREL_VARIANT
