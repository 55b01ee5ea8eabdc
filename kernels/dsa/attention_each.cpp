// Latent attention: many heads over one row of the cache, so it is two matrix products per block of rows with
// a running softmax between them. Sparse (each token has a list of rows) and dense (all rows up to its own).
#include "../native/whimbrel.h"
#include "products.h"
#include "read.h"

namespace {

using whimbrel::Rows;

constexpr int64_t kAhead = 8;   // rows that are fetched ahead
constexpr int64_t kBatch = 64;  // query tokens that are packed at once

struct Shape {
    const Rows* latents;
    const Rows* pe;  // null where a row of `latents` holds both
    const int64_t* indices;
    int64_t per_token;  // indices of each token
    int64_t tokens, heads, latent, shared, first;
    float scale;
    bool narrow, tiles;
    // What follows from these.
    int64_t together;    // query tokens that go over the same rows together
    int64_t lanes;       // their heads, padded
    int64_t units;       // of one row
    int64_t block;       // rows at once
    int64_t out_stride;  // of one head's sum
    int64_t pair_stride; // of two interleaved rows
};

static Shape plan(Shape s) {
    const int64_t fits = 192 / s.heads;
    s.together = s.indices || fits < 1 ? 1 : least(fits, s.tokens);
    s.lanes = up(s.together * s.heads, 32);
    const int64_t width = s.latent + s.shared;
    s.units = s.tiles ? up(width, 32) / 2 : s.narrow ? up(width, 2) / 2 : width;
    s.block = 96;
    s.out_stride = up(s.latent, 32) + 16;  // the odd number of lines spreads rows over the sets of a cache
    s.pair_stride = up(s.latent, 32) + 16;
    return s;
}

#if WHIMBREL_TILES
// Units [count, lanes] to [lanes, count], 16 x 16 at a time.
static void turn(const uint32_t* from, int64_t count, int64_t lanes, uint32_t* to) {
    for (int64_t k = 0; k < count; k += 16)
        for (int64_t lane = 0; lane < lanes; lane += 16) {
            __m512i a[16], b[16];
            for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(from + (k + i) * lanes + lane);
            for (int i = 0; i < 8; ++i) {
                b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
                b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
            }
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j) {
                    a[4 * i + 2 * j] = _mm512_unpacklo_epi64(b[4 * i + j], b[4 * i + 2 + j]);
                    a[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(b[4 * i + j], b[4 * i + 2 + j]);
                }
            for (int j = 0; j < 4; ++j) {
                __m512i low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88), high = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
                __m512i low2 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
                __m512i high2 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
                b[j] = _mm512_shuffle_i32x4(low, low2, 0x88);
                b[8 + j] = _mm512_shuffle_i32x4(low, low2, 0xdd);
                b[4 + j] = _mm512_shuffle_i32x4(high, high2, 0x88);
                b[12 + j] = _mm512_shuffle_i32x4(high, high2, 0xdd);
            }
            for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (lane + i) * count + k, b[i]);
        }
}
#endif

// Queries times scale * log2(e), heads side by side: [units, lanes].
static bool pack(const Shape& s, const float* q_latent, const float* q_pe, int64_t token, uint32_t* to) {
    const int64_t width = s.latent + s.shared, here = least(s.together, s.tokens - token);
    const float factor = s.scale * 1.44269504f;
#if WHIMBREL_TILES
    if (s.tiles) {
        uint32_t* rows = static_cast<uint32_t*>(whimbrel::scratch(4, (s.lanes * s.units + width) * 4));
        if (!rows) return false;
        float* scaled = reinterpret_cast<float*>(rows + s.lanes * s.units);
        std::memset(rows, 0, s.lanes * s.units * 4);
        for (int64_t lane = 0; lane < here * s.heads; ++lane) {
            const int64_t row = token * s.heads + lane;
            for (int64_t d = 0; d < s.latent; ++d) scaled[d] = factor * q_latent[row * s.latent + d];
            for (int64_t d = 0; d < s.shared; ++d) scaled[s.latent + d] = factor * q_pe[row * s.shared + d];
            narrow_bf16(reinterpret_cast<uint16_t*>(rows + lane * s.units), scaled, width);
        }
        turn(rows, s.lanes, s.units, to);
        return true;
    }
#endif
    std::memset(to, 0, s.units * s.lanes * 4);
    for (int64_t lane = 0; lane < here * s.heads; ++lane) {
        const int64_t row = token * s.heads + lane;
        for (int64_t d = 0; d < width; ++d) {
            const float value = factor * (d < s.latent ? q_latent[row * s.latent + d] : q_pe[row * s.shared + d - s.latent]);
            if (s.narrow)
                reinterpret_cast<uint16_t*>(to)[(d / 2 * s.lanes + lane) * 2 + d % 2] = bf16_bits(value);
            else
                std::memcpy(to + d * s.lanes + lane, &value, 4);
        }
    }
    return true;
}

// Ascending order, 11 bits at a time; `room` holds n.
static void sort(int64_t* values, int64_t n, int64_t* room) {
    int64_t highest = 0;
    for (int64_t i = 0; i < n; ++i) highest = values[i] > highest ? values[i] : highest;
    for (int shift = 0; highest >> shift; shift += 11) {
        uint32_t start[2049] = {};
        for (int64_t i = 0; i < n; ++i) ++start[(values[i] >> shift & 2047) + 1];
        for (int i = 0; i < 2048; ++i) start[i + 1] += start[i];
        for (int64_t i = 0; i < n; ++i) room[start[values[i] >> shift & 2047]++] = values[i];
        std::memcpy(values, room, n * 8);
    }
}

static void prefetch(const char* row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}

// Rows positions[0..n) (or begin..begin+n) into `rows` [n, units], and for bfloat16 interleaved two by two.
static void gather(const Shape& s, const int64_t* positions, int64_t begin, int64_t n, uint32_t* rows, uint32_t* pairs, float* room) {
    const int64_t padded = up(n, 32), bytes = s.latents->kind == whimbrel::kFloat32 ? 4 : 2;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = positions ? positions[i] : begin + i;
        if (i + kAhead < n) {
            const int64_t next = positions ? positions[i + kAhead] : begin + i + kAhead;
            prefetch(row_at(*s.latents, next), s.pe ? s.latent * bytes : s.latents->row_stride);
            if (s.pe) prefetch(row_at(*s.pe, next), s.shared * bytes);
        }
        const char* latent = row_at(*s.latents, at);
        uint32_t* to = rows + i * s.units;
        if (!s.narrow) {
            read_f32(reinterpret_cast<float*>(to), *s.latents, latent);
            if (s.pe) read_f32(reinterpret_cast<float*>(to) + s.latent, *s.pe, row_at(*s.pe, at));
            continue;
        }
        uint16_t* values = reinterpret_cast<uint16_t*>(to);
        read_bf16(values, *s.latents, latent, room);
        if (s.pe) read_bf16(values + s.latent, *s.pe, row_at(*s.pe, at), room);
        for (int64_t d = s.latent + s.shared; d < s.units * 2; ++d) values[d] = 0;
    }
    std::memset(rows + n * s.units, 0, (padded - n) * s.units * 4);
    if (!s.narrow) return;
#if defined(__AVX512BF16__)
    alignas(64) static const uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                  8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int64_t i = 0; i < padded; i += 2) {
        const uint32_t* a = rows + i * s.units;
        const uint32_t* b = a + s.units;
        uint32_t* to = pairs + i / 2 * s.pair_stride;
        for (int64_t d = 0; d < s.latent; d += 32) {  // past the latent: columns that nobody reads
            const int64_t left = least(16, s.units - d / 2);
            const __mmask16 in = __mmask16((1u << left) - 1);
            __m512i x = _mm512_maskz_loadu_epi32(in, a + d / 2), y = _mm512_maskz_loadu_epi32(in, b + d / 2);
            _mm512_storeu_si512(to + d, _mm512_permutex2var_epi16(x, low, y));
            _mm512_storeu_si512(to + d + 16, _mm512_permutex2var_epi16(x, high, y));
        }
    }
#endif
}

// One step of the running softmax: scores [n, lanes] become weights (in place), the highest score, the sum and
// the factor for what was added up before are brought up to date. True if any factor is not one.
static bool soften(const Shape& s, float* scores, int64_t n, float* highest, float* total, float* factor) {
    bool changed = false;
    for (int64_t lane = 0; lane < s.lanes; lane += W) {
        const vf before = load(highest + lane);
        vf top = before;
        for (int64_t i = 0; i < n; ++i) top = larger(top, load(scores + i * s.lanes + lane));
        const vf base = top == -__builtin_inff() ? vf{} : top;  // nothing visible yet
        vf added = {};
        for (int64_t i = 0; i < n; ++i) {
            const vf weight = exp2_down(load(scores + i * s.lanes + lane) - base);
            store(scores + i * s.lanes + lane, weight);
            added += weight;
        }
        const vf keep = exp2_down(before - base);
        store(total + lane, load(total + lane) * keep + added);
        store(highest + lane, top);
        store(factor + lane, keep);
        for (int i = 0; i < W; ++i) changed = changed || keep[i] != 1.0f;
    }
    return changed;
}

#if defined(__AVX512BF16__)
// Weights [n, lanes] to pairs of neighbouring rows [n / 2, lanes]; rows past n count as zero.
static void pair_weights(const Shape& s, const float* weights, int64_t n, uint32_t* pairs) {
    for (int64_t i = 0; i < up(n, 32); i += 2)
        for (int64_t lane = 0; lane < s.lanes; lane += 16) {
            __m512 a = i < n ? _mm512_loadu_ps(weights + i * s.lanes + lane) : _mm512_setzero_ps();
            __m512 b = i + 1 < n ? _mm512_loadu_ps(weights + (i + 1) * s.lanes + lane) : _mm512_setzero_ps();
            __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
            __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
            _mm512_storeu_si512(pairs + i / 2 * s.lanes + lane, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
}
#endif

static void query_times_rows(const Shape& s, const uint32_t* rows, const uint32_t* packed, int64_t n, float* scores) {
#if WHIMBREL_TILES
    if (s.tiles) {
        multiply_tiles(rows, s.units, packed, s.lanes, scores, s.lanes, up(n, 32), s.units, s.lanes, false);
        return;
    }
#endif
#if defined(__AVX512BF16__)
    if (s.narrow) {
        multiply<Bfloat16Pair>(rows, s.units, 1, packed, s.lanes, scores, s.lanes, n, s.units, s.lanes, false);
        return;
    }
#endif
    multiply<Float32>(rows, s.units, 1, packed, s.lanes, scores, s.lanes, n, s.units, s.lanes, false);
}

// Rows [begin, end) of the list (or of the cache), for the tokens from `token` on. `sums` [lanes, out_stride],
// `highest` and `total` [lanes] are the partial result. False when there is no memory.
static bool attend(const Shape& s, const uint32_t* packed, int64_t token, int64_t begin, int64_t end, float* sums, float* highest, float* total) {
    const int64_t block = s.block, live = least(s.together, s.tokens - token) * s.heads;
    for (int64_t lane = 0; lane < s.lanes; ++lane) highest[lane] = -__builtin_inff(), total[lane] = 0;
    // 64 units more than needed: the last vectors of a row may reach past it.
    uint32_t* rows = static_cast<uint32_t*>(whimbrel::scratch(4, (block * s.units + 64 + s.latent + s.shared) * 4));
    uint32_t* pairs = static_cast<uint32_t*>(whimbrel::scratch(5, (block / 2 * s.pair_stride + 64 + block * s.lanes) * 4));
    float* scores = static_cast<float*>(whimbrel::scratch(6, (block + 1) * s.lanes * 4));
    int64_t* list = static_cast<int64_t*>(whimbrel::scratch(7, s.indices ? (end - begin + 1) * 16 : 16));
    if (!rows || !pairs || !scores || !list) return false;
    float* room = reinterpret_cast<float*>(rows + block * s.units + 64);
    float* factor = scores + block * s.lanes;
    uint32_t* weights = pairs + block / 2 * s.pair_stride + 64;
    int64_t count = end - begin;
    if (s.indices) {
        count = 0;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t at = s.indices[token * s.per_token + i];
            if (at >= 0) list[count++] = at;
        }
        sort(list, count, list + (end - begin));
    }
    const int64_t wide = up(s.latent, 32);
    for (int64_t at = 0; at < count; at += block) {
        const int64_t n = least(block, count - at);
        gather(s, s.indices ? list + at : nullptr, begin + at, n, rows, pairs, room);
        query_times_rows(s, rows, packed, n, scores);
        if (!s.indices)
            for (int64_t lane = 0; lane < live; ++lane) {
                const int64_t visible = s.first + token + lane / s.heads + 1 - begin - at;
                for (int64_t i = visible < 0 ? 0 : visible; i < n; ++i) scores[i * s.lanes + lane] = -__builtin_inff();
            }
        const bool again = at > 0;
        if (soften(s, scores, n, highest, total, factor) && again)
            for (int64_t lane = 0; lane < live; ++lane) {
                if (factor[lane] == 1.0f) continue;
                float* own = sums + lane * s.out_stride;
                for (int64_t l = 0; l < wide; l += W) store(own + l, load(own + l) * factor[lane]);
            }
#if defined(__AVX512BF16__)
        if (s.narrow) {
            pair_weights(s, scores, n, weights);
            const int64_t units = up(n, 32) / 2;
#if WHIMBREL_TILES
            if (s.tiles) {
                uint32_t* turned = weights + block / 2 * s.lanes;
                turn(weights, units, s.lanes, turned);
                multiply_tiles(turned, units, pairs, s.pair_stride, sums, s.out_stride, s.lanes, units, wide, again);
                continue;
            }
#endif
            multiply<Bfloat16Pair>(weights, 1, s.lanes, pairs, s.pair_stride, sums, s.out_stride, live, units, wide, again);
            continue;
        }
#endif
        multiply<Float32>(reinterpret_cast<uint32_t*>(scores), 1, s.lanes, rows, s.units, sums, s.out_stride, live, n, wide, again);
    }
    return true;
}

}  // namespace

namespace whimbrel::WHIMBREL_VARIANT {

// out [T, H, L]. `indices` [T, per_token] or null for dense attention. *failed is set when there is no memory.
void attention(const Rows* latents, const Rows* pe, const float* q_latent, const float* q_pe, const int64_t* indices,
               int64_t per_token, int64_t tokens, int64_t heads, int64_t latent, int64_t shared, int64_t first,
               float scale, float* out, int* failed) {
    Shape s{};
    s.latents = latents, s.pe = pe, s.indices = indices, s.per_token = per_token, s.tokens = tokens, s.heads = heads;
    s.latent = latent, s.shared = shared, s.first = first, s.scale = scale;
#if defined(__AVX512BF16__)
    s.narrow = latents->kind != kFloat32;
#endif
#if WHIMBREL_TILES
    s.tiles = s.narrow && whimbrel::tiles();
#endif
    s = plan(s);
    const int64_t packed_size = s.units * s.lanes, part_size = s.lanes * (s.out_stride + 2);
    for (int64_t base = 0; base < tokens; base += kBatch) {
        const int64_t batch = least(kBatch, tokens - base), groups = (batch + s.together - 1) / s.together;
        const int64_t longest = indices ? per_token : least(latents->length, first + base + batch);
        // The cut depends on the shape alone, never on the number of threads: the same bits on every machine.
        int64_t cut = groups >= 8 ? longest : up((longest + 31) / 32, s.block);
        if (cut < 3 * s.block) cut = 3 * s.block;
        const int64_t parts = longest > cut ? (longest + cut - 1) / cut : 1;
        uint32_t* packed = static_cast<uint32_t*>(scratch(0, groups * packed_size * 4));
        float* partial = static_cast<float*>(scratch(1, groups * parts * part_size * 4));
        if (!packed || !partial) {
            *failed = 1;
            return;
        }
        parallel(groups, 1, [&](int64_t from, int64_t to) {
            for (int64_t g = from; g < to; ++g)
                if (!pack(s, q_latent, q_pe, base + g * s.together, packed + g * packed_size)) *failed = 1;
        });
        parallel(groups * parts, 1, [&](int64_t from, int64_t to) {
#if WHIMBREL_TILES
            if (s.tiles) begin_tiles();
#endif
            for (int64_t item = from; item < to; ++item) {
                const int64_t g = item / parts, begin = item % parts * cut, token = base + g * s.together;
                int64_t end = longest;
                if (!indices) end = least(end, first + least(token + s.together, tokens));
                end = least(end, begin + cut);
                float* own = partial + item * part_size;
                float* highest = own + s.lanes * s.out_stride;
                if (end < begin) end = begin;
                if (!attend(s, packed + g * packed_size, token, begin, end, own, highest, highest + s.lanes)) *failed = 1;
            }
#if WHIMBREL_TILES
            if (s.tiles) end_tiles();
#endif
        });
        if (*failed) return;
        parallel(batch * heads, 8, [&](int64_t from, int64_t to) {
            for (int64_t row = from; row < to; ++row) {
                const int64_t g = row / heads / s.together, lane = row - g * s.together * heads;
                const float* own = partial + g * parts * part_size;
                float top = -__builtin_inff(), whole = 0;
                for (int64_t p = 0; p < parts; ++p) {
                    const float here = own[p * part_size + s.lanes * s.out_stride + lane];
                    top = here > top ? here : top;
                }
                float* to_row = out + (base * heads + row) * latent;
                std::memset(to_row, 0, latent * 4);
                for (int64_t p = 0; p < parts; ++p) {
                    const float* part = own + p * part_size;
                    const float here = part[s.lanes * s.out_stride + lane], sum = part[s.lanes * (s.out_stride + 1) + lane];
                    if (!(sum > 0)) continue;
                    const float factor = exp2_down(all(here - top))[0];
                    whole += factor * sum;
                    const float* values = part + lane * s.out_stride;
                    for (int64_t l = 0; l < latent; ++l) to_row[l] += factor * values[l];
                }
                const float inverse = whole > 0 ? 1 / whole : 0;
                for (int64_t l = 0; l < latent; ++l) to_row[l] *= inverse;
            }
        });
    }
}

}  // namespace whimbrel::WHIMBREL_VARIANT
