// The indexer's scores: sum over heads of w * max(0, q . k), for a tile of keys against every query token.
#include "matrix_unit.h"
#include "../native/whimbrel.h"
#include "read.h"

namespace {

constexpr int64_t kTile = 192;  // keys: a multiple of every group below
constexpr int kKeys = W == 16 ? 8 : 4;
constexpr int64_t kHeads = 2 * W;

// One query token, ready for the kernels: heads side by side, padded with zeros to kHeads.
struct Query {
    const float* wide;      // [D, Hp], or null
    const uint32_t* pairs;  // [Dp / 2, Hp]: two bfloat16 of neighbouring columns, or null
    const float* w;         // [Hp]
};

static void group_f32(const float* const* keys, const Query& q, int64_t width, int64_t heads, float* out) {
    vf score[kKeys] = {};
    for (int64_t h = 0; h < heads; h += kHeads) {
        vf dot[kKeys][2] = {};
        const float* column = q.wide + h;
        for (int64_t d = 0; d < width; ++d, column += heads) {
            vf q0 = load(column), q1 = load(column + W);
#pragma GCC unroll 8
            for (int i = 0; i < kKeys; ++i) {
                vf key = all(keys[i][d]);
                dot[i][0] += key * q0;
                dot[i][1] += key * q1;
            }
        }
        vf w0 = load(q.w + h), w1 = load(q.w + h + W);
#pragma GCC unroll 8
        for (int i = 0; i < kKeys; ++i) score[i] += larger(dot[i][0], vf{}) * w0 + larger(dot[i][1], vf{}) * w1;
    }
    for (int i = 0; i < kKeys; ++i) out[i] = sum(score[i]);
}

#if defined(__AVX512BF16__)
static void group_bf16(const uint16_t* const* keys, const Query& q, int64_t width, int64_t heads, float* out) {
    vf score[kKeys] = {};
    for (int64_t h = 0; h < heads; h += kHeads) {
        __m512 dot[kKeys][2];
#pragma GCC unroll 8
        for (int i = 0; i < kKeys; ++i) dot[i][0] = dot[i][1] = _mm512_setzero_ps();
        const uint32_t* column = q.pairs + h;
        for (int64_t d = 0; d < width; d += 2, column += heads) {
            __m512bh q0 = (__m512bh)_mm512_loadu_si512(column), q1 = (__m512bh)_mm512_loadu_si512(column + W);
#pragma GCC unroll 8
            for (int i = 0; i < kKeys; ++i) {
                int32_t pair;
                std::memcpy(&pair, keys[i] + d, 4);
                __m512bh key = (__m512bh)_mm512_set1_epi32(pair);
                dot[i][0] = _mm512_dpbf16_ps(dot[i][0], key, q0);
                dot[i][1] = _mm512_dpbf16_ps(dot[i][1], key, q1);
            }
        }
        vf w0 = load(q.w + h), w1 = load(q.w + h + W);
#pragma GCC unroll 8
        for (int i = 0; i < kKeys; ++i)
            score[i] += larger((vf)dot[i][0], vf{}) * w0 + larger((vf)dot[i][1], vf{}) * w1;
    }
    for (int i = 0; i < kKeys; ++i) out[i] = sum(score[i]);
}
#endif

#if WHIMBREL_TILES
// The sums of 16 vectors as one vector: neighbours are added until one place of each is left.
static inline __m512 sums16(__m512* v) {
    for (int i = 0; i < 8; ++i) {  // v[2i], v[2i+1]
        __m512 low = _mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), high = _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]);
        v[i] = _mm512_add_ps(low, high);
    }
    for (int i = 0; i < 4; ++i) {
        __m512d a = _mm512_castps_pd(v[2 * i]), b = _mm512_castps_pd(v[2 * i + 1]);
        v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int i = 0; i < 2; ++i)
        v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88), _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x88), _mm512_shuffle_f32x4(v[0], v[1], 0xdd));
}

// 32 keys of `width` (a multiple of 32) values; rows of one half lie `stride` bytes apart.
WHIMBREL_TILE_CODE static void group_tiles(
    const uint16_t* keys0, int64_t stride0, const uint16_t* keys1, int64_t stride1, const Query& q, int64_t width,
    int64_t heads, float* out) {
    alignas(64) float dots[2][2][16][16];
    __m512 score[2][16];
    for (int i = 0; i < 16; ++i) score[0][i] = score[1][i] = _mm512_setzero_ps();
    for (int64_t h = 0; h < heads; h += 32) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t d = 0; d < width; d += 32) {
            const uint32_t* column = q.pairs + d / 2 * heads + h;
            _tile_loadd(4, keys0 + d, stride0);
            _tile_loadd(6, column, heads * 4);
            _tile_loadd(7, column + 16, heads * 4);
            _tile_loadd(5, keys1 + d, stride1);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, dots[0][0], 64);
        _tile_stored(1, dots[0][1], 64);
        _tile_stored(2, dots[1][0], 64);
        _tile_stored(3, dots[1][1], 64);
        __m512 w0 = _mm512_loadu_ps(q.w + h), w1 = _mm512_loadu_ps(q.w + h + 16), zero = _mm512_setzero_ps();
        for (int half = 0; half < 2; ++half)
            for (int i = 0; i < 16; ++i) {
                __m512 first = _mm512_mul_ps(_mm512_max_ps(_mm512_load_ps(dots[half][0][i]), zero), w0);
                first = _mm512_fmadd_ps(_mm512_max_ps(_mm512_load_ps(dots[half][1][i]), zero), w1, first);
                score[half][i] = _mm512_add_ps(score[half][i], first);
            }
    }
    _mm512_storeu_ps(out, sums16(score[0]));
    _mm512_storeu_ps(out + 16, sums16(score[1]));
}

WHIMBREL_TILE_CODE static void tile_tiles(
    const uint16_t* const* keys, uint16_t* room, const Query& q, int64_t n, int64_t width, int64_t heads, float* out) {
    const uint16_t* half[kTile / 16];
    int64_t stride[kTile / 16];
    for (int64_t i = 0; i < up(n, 32); i += 16) {
        bool even = true;
        stride[i / 16] = (keys[i + 1] - keys[i]) * 2;
        for (int j = 1; j < 16; ++j) even = even && (keys[i + j] - keys[i + j - 1]) * 2 == stride[i / 16];
        half[i / 16] = keys[i];
        if (even && stride[i / 16] >= 0) continue;
        for (int j = 0; j < 16; ++j) std::memmove(room + (i + j) * width, keys[i + j], width * 2);
        half[i / 16] = room + i * width;
        stride[i / 16] = width * 2;
    }
    begin_tiles();
    for (int64_t i = 0; i < n; i += 32)
        group_tiles(half[i / 16], stride[i / 16], half[i / 16 + 1], stride[i / 16 + 1], q, width, heads, out + i);
    end_tiles();
}
#endif

}  // namespace

namespace whimbrel::WHIMBREL_VARIANT {

// q [T, H, D], w [T, H], out [T, keys.length]; *failed is set when there is no memory.
void scores(const Rows* keys, const float* q, const float* w, int64_t tokens, int64_t heads, int64_t first, float* out, int* failed) {
    const int64_t width = keys->width, count = keys->length;
    const int64_t padded = up(heads, kHeads);
#if defined(__AVX512BF16__)
    const bool narrow = keys->kind != kFloat32;
#else
    const bool narrow = false;
#endif
#if WHIMBREL_TILES
    const bool use_tiles = narrow && tiles();
#else
    const bool use_tiles = false;
#endif
    const int64_t columns = narrow ? up(width, use_tiles ? 32 : 2) : width;
    const int64_t per_query = (narrow ? columns / 2 : columns) * padded;
    float* packed = static_cast<float*>(scratch(0, (per_query + padded) * tokens * 4));
    if (!packed) {
        *failed = 1;
        return;
    }
    parallel(tokens, 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
            float* own = packed + (per_query + padded) * t;
            std::memset(own, 0, (per_query + padded) * 4);
            for (int64_t h = 0; h < heads; ++h) {
                const float* head = q + (t * heads + h) * width;
                if (narrow) {
                    uint16_t* pairs = reinterpret_cast<uint16_t*>(own);
                    for (int64_t d = 0; d < width; ++d) pairs[(d / 2 * padded + h) * 2 + d % 2] = bf16_bits(head[d]);
                } else {
                    for (int64_t d = 0; d < width; ++d) own[d * padded + h] = head[d];
                }
                own[per_query + h] = w[t * heads + h];
            }
        }
    });
    const int64_t reach = least(count, first + tokens);
    parallel((reach + kTile - 1) / kTile, 1, [&](int64_t from, int64_t to) {
        const bool copy = keys->kind != (narrow ? kBfloat16 : kFloat32) || columns != width;
        char* room = static_cast<char*>(scratch(4, kTile * columns * (narrow ? 2 : 4) + width * 4));
        if (!room) {
            *failed = 1;
            return;
        }
        float* row_room = reinterpret_cast<float*>(room + kTile * columns * (narrow ? 2 : 4));
        const char* at[kTile + 32];
        alignas(64) float found[kTile + 32];
        for (int64_t tile = from; tile < to; ++tile) {
            const int64_t begin = tile * kTile, n = least(kTile, reach - begin);
            for (int64_t i = 0; i < n; ++i) {
                at[i] = row_at(*keys, begin + i);
                if (!copy) continue;
                if (narrow) {
                    uint16_t* own = reinterpret_cast<uint16_t*>(room) + i * columns;
                    read_bf16(own, *keys, at[i], row_room);
                    std::memset(own + width, 0, (columns - width) * 2);
                    at[i] = reinterpret_cast<char*>(own);
                } else {
                    read_f32(reinterpret_cast<float*>(room) + i * columns, *keys, at[i]);
                    at[i] = room + i * columns * 4;
                }
            }
            for (int64_t i = n; i < up(n, 32); ++i) at[i] = at[n - 1];
            for (int64_t t = 0; t < tokens; ++t) {
                const int64_t visible = least(n, first + t + 1 - begin);
                if (visible <= 0) continue;
                const float* own = packed + (per_query + padded) * t;
                Query query{own, reinterpret_cast<const uint32_t*>(own), own + per_query};
#if WHIMBREL_TILES
                if (use_tiles)
                    tile_tiles(reinterpret_cast<const uint16_t* const*>(at), reinterpret_cast<uint16_t*>(room), query,
                               n, columns, padded, found);
                else
#endif
#if defined(__AVX512BF16__)
                    if (narrow)
                    for (int64_t i = 0; i < n; i += kKeys)
                        group_bf16(reinterpret_cast<const uint16_t* const*>(at + i), query, columns, padded, found + i);
                else
#endif
                    for (int64_t i = 0; i < n; i += kKeys)
                        group_f32(reinterpret_cast<const float* const*>(at + i), query, columns, padded, found + i);
                std::memcpy(out + t * count + begin, found, visible * 4);
            }
        }
    });
    parallel(tokens, 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t)
            for (int64_t s = first + t + 1; s < count; ++s) out[t * count + s] = -__builtin_inff();
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
