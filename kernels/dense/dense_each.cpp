// Dense products with bf16 and int8 weights, and the short convolution, for one variant.
#include "dense.h"

#include "../native/functions.h"
#include "../native/products.h"
#include "../native/tiles.h"

namespace whimbrel::WHIMBREL_VARIANT {
namespace {

constexpr int64_t kPanel = 32, kGroup = 64;

#if defined(__AVX512F__)
constexpr int kFew = 4;  // tokens up to which a row is read once and multiplied as it comes, in float32

// Even columns, then odd ones, of every 32 (bf16) or as they are (int8); zero up to a multiple of 64 columns.
void spread(const float* x, int64_t columns, int64_t padded, bool split, float* out) {
    memset(out + columns / 32 * 32, 0, size_t(padded - columns / 32 * 32) * 4);
    if (!split) {
        memcpy(out, x, size_t(columns) * 4);
        return;
    }
    for (int64_t c = 0; c < columns; ++c) out[c / 32 * 32 + c % 2 * 16 + c % 32 / 2] = x[c];
}

template <int N>
void row_bf16(const uint16_t* w, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy) {
    const __m512i high = _mm512_set1_epi32(int(0xffff0000));
    __m512 even[N], odd[N];
    for (int j = 0; j < N; ++j) even[j] = odd[j] = _mm512_setzero_ps();
    auto add = [&](__m512i v, int64_t c) {
        __m512 first = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
        __m512 second = _mm512_castsi512_ps(_mm512_and_si512(v, high));
        for (int j = 0; j < N; ++j) {
            even[j] = _mm512_fmadd_ps(first, _mm512_loadu_ps(x + j * ldx + c), even[j]);
            odd[j] = _mm512_fmadd_ps(second, _mm512_loadu_ps(x + j * ldx + c + 16), odd[j]);
        }
    };
    int64_t c = 0;
    for (; c + 32 <= columns; c += 32) {
        ahead<64>(w + c);
        add(_mm512_loadu_si512(w + c), c);
    }
    if (c < columns) add(_mm512_maskz_loadu_epi16((1u << (columns - c)) - 1, w + c), c);
    for (int j = 0; j < N; ++j) y[j * ldy] = _mm512_reduce_add_ps(_mm512_add_ps(even[j], odd[j]));
}

template <int N>
void row_int8(const int8_t* w, const float* scales, int64_t columns, const float* x, int64_t ldx, float* y,
              int64_t ldy) {
    __m512 sum[N];
    for (int j = 0; j < N; ++j) sum[j] = _mm512_setzero_ps();
    for (int64_t c = 0, g = 0; c < columns; c += kGroup, ++g) {
        ahead<64>(w + c);
        __m512 part[N];
        for (int i = 0; i < 4; ++i) {
            int64_t at = c + i * 16, left = columns - at;
            if (left <= 0) break;
            __m128i bytes = left >= 16 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + at))
                                       : _mm_maskz_loadu_epi8(__mmask16((1u << left) - 1), w + at);
            __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
            for (int j = 0; j < N; ++j) {
                __m512 token = _mm512_loadu_ps(x + j * ldx + at);
                part[j] = i ? _mm512_fmadd_ps(value, token, part[j]) : _mm512_mul_ps(value, token);
            }
        }
        __m512 factor = _mm512_set1_ps(scales[g]);
        for (int j = 0; j < N; ++j) sum[j] = _mm512_fmadd_ps(part[j], factor, sum[j]);
    }
    for (int j = 0; j < N; ++j) y[j * ldy] = _mm512_reduce_add_ps(sum[j]);
}
#elif defined(__AVX2__)
constexpr int kFew = 2;

void spread(const float* x, int64_t columns, int64_t padded, bool split, float* out) {
    (void)split;
    memcpy(out, x, size_t(columns) * 4);
    memset(out + columns, 0, size_t(padded - columns) * 4);
}

template <int N>
void row_bf16(const uint16_t* w, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy) {
    __m256 sum[N][2];
    for (int j = 0; j < N; ++j) sum[j][0] = sum[j][1] = _mm256_setzero_ps();
    auto add = [&](const uint16_t* from, int64_t c) {
        for (int i = 0; i < 2; ++i) {
            __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * 8));
            __m256 value = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
            for (int j = 0; j < N; ++j)
                sum[j][i] = _mm256_fmadd_ps(value, _mm256_loadu_ps(x + j * ldx + c + i * 8), sum[j][i]);
        }
    };
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) {
        if (c % 32 == 0) ahead<64>(w + c);
        add(w + c, c);
    }
    if (c < columns) {
        uint16_t tail[16] = {};
        memcpy(tail, w + c, size_t(columns - c) * 2);
        add(tail, c);
    }
    for (int j = 0; j < N; ++j) y[j * ldy] = lanes_sum(_mm256_add_ps(sum[j][0], sum[j][1]));
}

template <int N>
void row_int8(const int8_t* w, const float* scales, int64_t columns, const float* x, int64_t ldx, float* y,
              int64_t ldy) {
    __m256 sum[N];
    for (int j = 0; j < N; ++j) sum[j] = _mm256_setzero_ps();
    for (int64_t c = 0, g = 0; c < columns; c += kGroup, ++g) {
        int8_t tail[kGroup];
        const int8_t* from = w + c;
        if (columns - c < kGroup) {
            memset(tail, 0, sizeof tail);
            memcpy(tail, from, size_t(columns - c));
            from = tail;
        }
        ahead<64>(w + c);
        __m256 part[N];
        for (int i = 0; i < 8; ++i) {
            __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * 8));
            __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
            for (int j = 0; j < N; ++j) {
                __m256 token = _mm256_loadu_ps(x + j * ldx + c + i * 8);
                part[j] = i ? _mm256_fmadd_ps(value, token, part[j]) : _mm256_mul_ps(value, token);
            }
        }
        for (int j = 0; j < N; ++j) sum[j] = _mm256_fmadd_ps(part[j], _mm256_set1_ps(scales[g]), sum[j]);
    }
    for (int j = 0; j < N; ++j) y[j * ldy] = lanes_sum(sum[j]);
}
#else
constexpr int kFew = 0;
#endif

#if defined(__AVX2__)
template <int N>
void few(const Dense& w, const float* x, int64_t ldx, int64_t r0, int64_t r1, float* y) {
    for (int64_t r = r0; r < r1; ++r) {
        if (w.bf16)
            row_bf16<N>(w.bf16 + r * w.columns, w.columns, x, ldx, y + r, w.rows);
        else
            row_int8<N>(w.codes + r * w.columns, w.scales + r * ((w.columns + kGroup - 1) / kGroup), w.columns, x, ldx,
                        y + r, w.rows);
    }
}
#endif

void panel_f32(const Dense& w, int64_t r0, int64_t rows, float* panel) {
    int64_t groups = (w.columns + kGroup - 1) / kGroup;
    for (int64_t r = r0; r < r0 + rows; ++r, panel += w.columns) {
        if (w.bf16) {
            const uint16_t* from = w.bf16 + r * w.columns;
            for (int64_t c = 0; c < w.columns; ++c) panel[c] = bf16_to_f32(from[c]);
            continue;
        }
        const int8_t* from = w.codes + r * w.columns;
        for (int64_t g = 0; g < groups; ++g) {
            float factor = w.scales[r * groups + g];
            int64_t end = (g + 1) * kGroup < w.columns ? (g + 1) * kGroup : w.columns;
            for (int64_t c = g * kGroup; c < end; ++c) panel[c] = float(from[c]) * factor;
        }
    }
}

#if defined(__AVX512BF16__)
// Rows of int8 as bf16 [rows, columns], rounded after the scale.
void panel_bf16(const Dense& w, int64_t r0, int64_t rows, uint16_t* panel) {
    int64_t groups = (w.columns + kGroup - 1) / kGroup;
    for (int64_t r = r0; r < r0 + rows; ++r, panel += w.columns) {
        const int8_t* from = w.codes + r * w.columns;
        int64_t c = 0;
        for (; c + 16 <= w.columns; c += 16) {
            if (c % 64 == 0) ahead<64>(from + c);
            __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + c));
            __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
            value = _mm512_mul_ps(value, _mm512_set1_ps(w.scales[r * groups + c / kGroup]));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + c), (__m256i)_mm512_cvtneps_pbh(value));
        }
        for (; c < w.columns; ++c)
            panel[c] = f32_to_bf16(float(from[c]) * w.scales[r * groups + c / kGroup]);
    }
}

// Rows of bf16 [rows, columns] in the layout of tiles.h; rows beyond the last repeat it.
void panel_tiles(const uint16_t* w, int64_t rows, int64_t columns, uint16_t* panel) {
    for (int64_t first = 0; first < rows; first += 16) {
        const uint16_t* row[16];
        for (int r = 0; r < 16; ++r) row[r] = w + (first + r < rows ? first + r : rows - 1) * columns;
        for (int64_t c = 0; c < columns; c += 32, panel += 512) {
            __m512i a[16], t[16];
            for (int r = 0; r < 16; ++r) a[r] = _mm512_loadu_si512(row[r] + c);
            // Four times four dwords inside each quarter, then the quarters among the rows.
            for (int r = 0; r < 16; r += 4) {
                t[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
                t[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
                t[r + 2] = _mm512_unpacklo_epi32(a[r + 2], a[r + 3]);
                t[r + 3] = _mm512_unpackhi_epi32(a[r + 2], a[r + 3]);
            }
            for (int r = 0; r < 16; r += 4) {
                a[r] = _mm512_unpacklo_epi64(t[r], t[r + 2]);
                a[r + 1] = _mm512_unpackhi_epi64(t[r], t[r + 2]);
                a[r + 2] = _mm512_unpacklo_epi64(t[r + 1], t[r + 3]);
                a[r + 3] = _mm512_unpackhi_epi64(t[r + 1], t[r + 3]);
            }
            for (int d = 0; d < 4; ++d) {  // a[4i + d], quarter q: rows 4i .. 4i + 3 of pair 4q + d
                __m512i low = _mm512_shuffle_i32x4(a[d], a[4 + d], 0x88), high = _mm512_shuffle_i32x4(a[d], a[4 + d], 0xdd);
                __m512i low2 = _mm512_shuffle_i32x4(a[8 + d], a[12 + d], 0x88);
                __m512i high2 = _mm512_shuffle_i32x4(a[8 + d], a[12 + d], 0xdd);
                _mm512_store_si512(panel + d * 32, _mm512_shuffle_i32x4(low, low2, 0x88));
                _mm512_store_si512(panel + (8 + d) * 32, _mm512_shuffle_i32x4(low, low2, 0xdd));
                _mm512_store_si512(panel + (4 + d) * 32, _mm512_shuffle_i32x4(high, high2, 0x88));
                _mm512_store_si512(panel + (12 + d) * 32, _mm512_shuffle_i32x4(high, high2, 0xdd));
            }
        }
    }
}
#endif

}  // namespace

// y f32[count, rows]; `round` allows the tokens (and the products of int8 codes with their scales) in bf16.
void dense_product(const Dense& w, const float* x, int64_t count, float* y, int round, int& failed) {
    int64_t columns = w.columns;
#if defined(__AVX2__)
    if (count <= kFew && !w.f32) {
        int64_t padded = (columns + kGroup - 1) / kGroup * kGroup;
        float* tokens = static_cast<float*>(scratch(0, size_t(count * padded) * 4));
        if (!tokens) {
            failed = 1;
            return;
        }
        for (int64_t t = 0; t < count; ++t)
            spread(x + t * columns, columns, padded, w.bf16 != nullptr, tokens + t * padded);
        parallel(w.rows, kPanel, [&](int64_t from, int64_t to) {
            switch (count) {
                case 1: few<1>(w, tokens, padded, from, to, y); break;
                case 2: few<2>(w, tokens, padded, from, to, y); break;
#if defined(__AVX512F__)
                case 3: few<3>(w, tokens, padded, from, to, y); break;
                default: few<4>(w, tokens, padded, from, to, y);
#endif
            }
        });
        return;
    }
#endif
#if defined(__AVX512BF16__)
    if (round && !w.f32) {
        uint16_t* tokens = static_cast<uint16_t*>(scratch(0, size_t((count + 16) * columns) * 2));
        if (!tokens) {
            failed = 1;
            return;
        }
        parallel(count, 4, [&](int64_t from, int64_t to) {
            to_bf16(x + from * columns, tokens + from * columns, (to - from) * columns);
        });
        parallel(w.rows, kPanel, [&](int64_t from, int64_t to) {
            for (int64_t r = from; r < to; r += kPanel) {
                int64_t m = to - r < kPanel ? to - r : kPanel;
                const uint16_t* rows = w.bf16 + r * columns;
                if (!w.bf16) {
                    uint16_t* panel = static_cast<uint16_t*>(scratch(4, size_t(m * columns) * 2));
                    if (!panel) {
                        __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
                        return;
                    }
                    panel_bf16(w, r, m, panel);
                    rows = panel;
                }
#if defined(WHIMBREL_HAS_AMX)
                if (tiles() && columns % 32 == 0) {
                    uint16_t* panel = static_cast<uint16_t*>(scratch(6, size_t(kPanel * columns) * 2));
                    if (!panel) {
                        __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
                        return;
                    }
                    panel_tiles(rows, m, columns, panel);
                    amx::product(panel, m, columns, tokens, count, y + r, w.rows);
                    continue;
                }
#endif
                product_bf16(rows, columns, m, tokens, columns, count, columns, y + r, w.rows);
            }
        });
        return;
    }
#endif
    (void)round;
    parallel(w.rows, kPanel, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; r += kPanel) {
            int64_t m = to - r < kPanel ? to - r : kPanel;
            if (w.f32) {
                product_f32(w.f32 + r * columns, columns, m, x, columns, count, columns, y + r, w.rows);
                continue;
            }
            float* panel = static_cast<float*>(scratch(4, size_t(m * columns) * 4));
            if (!panel) {
                __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
                return;
            }
            panel_f32(w, r, m, panel);
            product_f32(panel, columns, m, x, columns, count, columns, y + r, w.rows);
        }
    });
}

// y[t, c] = SiLU(sum over j of weight[c, j] * u[t - 3 + j, c]), u = the three rows of history, then x.
void short_conv(const float* x, const float* weight, const float* history, float* y, float* last, int64_t count,
                int64_t channels) {
    constexpr int64_t kPiece = 256;
    auto row = [&](int64_t t) { return t < 0 ? history + (t + 3) * channels : x + t * channels; };
    parallel(channels, kPiece * 4, [&](int64_t begin, int64_t end) {
        for (int64_t c0 = begin; c0 < end; c0 += kPiece) {
            int64_t n = end - c0 < kPiece ? end - c0 : kPiece;
            float taps[4][kPiece];
            for (int64_t c = 0; c < n; ++c)
                for (int j = 0; j < 4; ++j) taps[j][c] = weight[(c0 + c) * 4 + j];
            for (int64_t t = 0; t < count; ++t) {
                const float *u0 = row(t - 3) + c0, *u1 = row(t - 2) + c0, *u2 = row(t - 1) + c0, *u3 = row(t) + c0;
                float* out = y + t * channels + c0;
                for (int64_t c = 0; c < n; ++c) {
                    float sum = taps[0][c] * u0[c] + taps[1][c] * u1[c] + taps[2][c] * u2[c] + taps[3][c] * u3[c];
                    out[c] = sum * fast_sigmoid(sum);
                }
            }
            for (int64_t i = 0; i < 3; ++i)
                memcpy(last + i * channels + c0, row(count - 3 + i) + c0, size_t(n) * 4);
        }
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
