// MXFP4 products and the grouped experts for one variant.
#include "mxfp4.h"

#include "../native/functions.h"
#include "../native/tiles.h"
#if defined(__AVX512BF16__)
#include "rows_avx512.h"
#elif defined(__AVX2__)
#include "rows_avx2.h"
#else
#include "rows_portable.h"
#endif

namespace whimbrel::WHIMBREL_VARIANT {
namespace {

constexpr int64_t kPanel = 32;  // rows that are unpacked together
constexpr int64_t kFewTiles = 12;  // tokens up to which int8 is faster than the tile unit

// What this variant does for `count` tokens of one matrix when at most `wanted` may be rounded.
int rounding_for(int wanted, int64_t count) {
#if defined(__AVX512BF16__)
    if (wanted == kAuto) return count <= (tiles() ? kFewTiles : 32) ? kInt8 : kBf16;
    return wanted;
#elif defined(__AVX2__)
    if (wanted == kAuto) return count <= 12 ? kInt8 : kF32;
    return wanted == kInt8 ? kInt8 : kF32;
#else
    (void)wanted, (void)count;
    return kF32;
#endif
}

// Room for `count` tokens in the caller's scratch memory (slots 0 to 2); false when there is none.
bool reserve(Tokens& all, int64_t count, int64_t columns, bool int8, bool bf16, bool f32) {
    all = Tokens{};
    all.count = count;
    all.columns = columns;
    all.blocks = (columns / 32 + 15) / 16 * 16;
    int64_t blocks = count * all.blocks;
    if (int8) {
        char* memory = static_cast<char*>(scratch(0, size_t(blocks) * (32 + 12)));
        if (!memory) return false;
        all.codes = reinterpret_cast<int8_t*>(memory);
        all.scale = reinterpret_cast<float*>(memory + blocks * 32);
        all.offset = all.scale + blocks;
        all.offset_i = reinterpret_cast<int32_t*>(memory + blocks * 40);
    }
    if (bf16 && !(all.bf16 = static_cast<uint16_t*>(scratch(1, size_t((count + 16) * columns) * 2 + 64)))) return false;
    if (f32 && !(all.f32 = static_cast<float*>(scratch(2, size_t(count * columns) * 4 + 64)))) return false;
    return true;
}

// Writes one token in the form of `rounding`.
void fill(const Tokens& all, int64_t token, const float* x, int rounding) {
    int64_t columns = all.columns;
#if defined(__AVX2__)
    if (rounding == kInt8) {
        int64_t at = token * all.blocks;
        quantise_token(x, columns, all.blocks, const_cast<int8_t*>(all.codes) + at * 32,
                       const_cast<float*>(all.scale) + at, const_cast<float*>(all.offset) + at,
                       const_cast<int32_t*>(all.offset_i) + at);
        return;
    }
#endif
    if (rounding == kBf16)
        to_bf16(x, const_cast<uint16_t*>(all.bf16) + token * columns, columns);
    else
        memcpy(const_cast<float*>(all.f32) + token * columns, x, size_t(columns) * 4);
}

Tokens slice(const Tokens& all, int64_t first, int64_t count, int rounding) {
    Tokens part = all;
    part.rounding = rounding;
    part.count = count;
    if (all.codes) {
        part.codes += first * all.blocks * 32;
        part.scale += first * all.blocks;
        part.offset += first * all.blocks;
        part.offset_i += first * all.blocks;
    }
    if (all.bf16) part.bf16 += first * all.columns;
    if (all.f32) part.f32 += first * all.columns;
    return part;
}

// y[t * ldy + r] for the rows [r0, r1) and all tokens; false without memory.
bool rows(const Mxfp4& w, const Tokens& x, int64_t r0, int64_t r1, float* y, int64_t ldy) {
#if defined(__AVX512BF16__)
    if (x.rounding == kInt8 && x.count > 2) {
        for (int64_t r = r0; r < r1; r += 16) {
            int m = int(r1 - r < 16 ? r1 - r : 16);
            for (int64_t t = 0; t < x.count;) {
                int64_t left = x.count - t;
                int n = int(left < 16 ? left : 16);
                if (n > 12) rows16_int8<16>(w, r, m, x, t, n, y, ldy);
                else if (n > 8) rows16_int8<12>(w, r, m, x, t, n, y, ldy);
                else if (n > 6) rows16_int8<8>(w, r, m, x, t, n, y, ldy);
                else if (n > 4) rows16_int8<6>(w, r, m, x, t, n, y, ldy);
                else if (n > 2) rows16_int8<4>(w, r, m, x, t, n, y, ldy);
                else rows16_int8<2>(w, r, m, x, t, n, y, ldy);
                t += n;
            }
        }
        return true;
    }
#endif
#if defined(__AVX2__)
    if (x.rounding == kInt8) {
        int64_t blocks = w.columns / 32;
        for (int64_t r = r0; r < r1; ++r)
            for (int64_t t = 0; t < x.count; ++t) {
                int64_t at = t * x.blocks;
                y[t * ldy + r] = row_int8(w.packed + r * blocks * 16, w.scales + r * blocks, w.columns,
                                          x.codes + at * 32, x.scale + at, x.offset + at);
            }
        return true;
    }
#endif
    void* panel = scratch(4, size_t(kPanel * w.columns) * 4);
    if (!panel) return false;
    for (int64_t r = r0; r < r1; r += kPanel) {
        int64_t m = r1 - r < kPanel ? r1 - r : kPanel;
#if defined(__AVX512BF16__)
        if (x.rounding == kBf16) {
#if defined(WHIMBREL_HAS_AMX)
            if (tiles()) {
                panel_tiles(w, r, m, static_cast<uint16_t*>(panel));
                amx::product(static_cast<uint16_t*>(panel), m, w.columns, x.bf16, x.count, y + r, ldy);
                continue;
            }
#endif
            panel_bf16(w, r, m, static_cast<uint16_t*>(panel));
            product_bf16(static_cast<uint16_t*>(panel), w.columns, m, x.bf16, w.columns, x.count, w.columns, y + r, ldy);
            continue;
        }
#endif
        panel_f32(w, r, m, static_cast<float*>(panel));
        product_f32(static_cast<float*>(panel), w.columns, m, x.f32, w.columns, x.count, w.columns, y + r, ldy);
    }
    return true;
}

// bf16 panels need scales far from both ends of the range.
int settle(int rounding, const Mxfp4& w) {
#if defined(__AVX512BF16__)
    if (rounding == kBf16 && !scales_are_tame(w.scales, w.rows * (w.columns / 32))) return kF32;
#endif
    (void)w;
    return rounding;
}

void activate(float* gate, const float* up, int64_t n, const Experts& job) {
    if (job.activation == 0) {
        for (int64_t i = 0; i < n; ++i) gate[i] = gate[i] * fast_sigmoid(gate[i]) * up[i];
    } else if (job.linear_beta > 0) {
        float beta = job.beta, linear = job.linear_beta, inverse = 1.f / beta, inverse_linear = 1.f / linear;
        for (int64_t i = 0; i < n; ++i)
            gate[i] = beta * linear * fast_tanh(gate[i] * inverse) * fast_sigmoid(gate[i]) *
                      fast_tanh(up[i] * inverse_linear);
    } else {
        float beta = job.beta, inverse = 1.f / beta;
        for (int64_t i = 0; i < n; ++i)
            gate[i] = beta * fast_tanh(gate[i] * inverse) * fast_sigmoid(gate[i]) * up[i];
    }
}

}  // namespace

void mxfp4_product(const Mxfp4& w, const float* x, int64_t count, float* y, int wanted, int& failed) {
    int rounding = settle(rounding_for(wanted, count), w);
    Tokens all;
    if (rounding == kF32) {
        all = Tokens{};
        all.count = count;
        all.columns = w.columns;
        all.f32 = x;
    } else {
        if (!reserve(all, count, w.columns, rounding == kInt8, rounding == kBf16, false)) {
            failed = 1;
            return;
        }
        parallel(count, count < 8 ? count : 4, [&](int64_t from, int64_t to) {
            for (int64_t t = from; t < to; ++t) fill(all, t, x + t * w.columns, rounding);
        });
    }
    all.rounding = rounding;
    parallel(w.rows, kPanel, [&](int64_t from, int64_t to) {
        if (!rows(w, all, from, to, y, w.rows)) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
    });
}

void mxfp4_experts(Experts& job) {
    int64_t slots = job.first[job.experts], columns = job.columns, inner = job.inner;
    int64_t count = job.experts;
    // inner values and results of all slots, and the rounding of each expert's two steps
    size_t floats = size_t(slots) * size_t(inner + columns);
    float* hidden = static_cast<float*>(scratch(3, floats * 4 + size_t(count) * 8 + 64));
    if (!hidden) {
        job.failed = 1;
        return;
    }
    float* result = hidden + slots * inner;
    int32_t* rounding = reinterpret_cast<int32_t*>(hidden + floats);
    auto matrix = [&](int64_t e, int which) {
        const uint8_t* const* m = job.matrices + e * 6 + which * 2;
        return which == 1 ? Mxfp4{m[0], m[1], columns, inner} : Mxfp4{m[0], m[1], inner, columns};
    };
    bool used[2][4] = {};
    for (int64_t e = 0; e < count; ++e) {
        int plain = rounding_for(job.rounding, job.first[e + 1] - job.first[e]);
        int up = settle(settle(plain, matrix(e, 0)), matrix(e, 2)), down = settle(plain, matrix(e, 1));
        rounding[2 * e] = up;
        rounding[2 * e + 1] = down;
        used[0][up] = used[1][down] = true;
    }
    Tokens all;
    int failed = 0;
    // One step: the tokens of every expert in their form, then items of kPanel rows over all experts.
    auto step = [&](int which, int64_t from_columns, int64_t out_rows, auto source, auto body) {
        const bool* u = used[which];
        if (!reserve(all, slots, from_columns, u[kInt8], u[kBf16], u[kF32])) {
            failed = 1;
            return;
        }
        parallel(count, 1, [&](int64_t from, int64_t to) {
            for (int64_t e = from; e < to; ++e)
                for (int64_t s = job.first[e]; s < job.first[e + 1]; ++s)
                    fill(all, s, source(s), rounding[2 * e + which]);
        });
        int64_t panels = (out_rows + kPanel - 1) / kPanel;
        parallel(count * panels, 1, [&](int64_t from, int64_t to) {
            for (int64_t item = from; item < to; ++item) {
                int64_t e = item / panels, r0 = item % panels * kPanel;
                int64_t r1 = r0 + kPanel < out_rows ? r0 + kPanel : out_rows;
                int64_t first = job.first[e], n = job.first[e + 1] - first;
                Tokens part = slice(all, first, n, rounding[2 * e + which]);
                if (!body(e, part, first, n, r0, r1)) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
            }
        });
    };
    step(
        0, columns, inner, [&](int64_t s) { return job.x + job.token[s] * columns; },
        [&](int64_t e, const Tokens& part, int64_t first, int64_t n, int64_t r0, int64_t r1) {
            float* up = static_cast<float*>(scratch(5, size_t(n) * kPanel * 4));
            if (!up) return false;
            // `rows` writes at column r of its target: shifted so that r0 is the first of the small one.
            if (!rows(matrix(e, 0), part, r0, r1, hidden + first * inner, inner)) return false;
            if (!rows(matrix(e, 2), part, r0, r1, up - r0, kPanel)) return false;
            for (int64_t i = 0; i < n; ++i)
                activate(hidden + (first + i) * inner + r0, up + i * kPanel, r1 - r0, job);
            return true;
        });
    if (!failed)
        step(
            1, inner, columns, [&](int64_t s) { return hidden + s * inner; },
            [&](int64_t e, const Tokens& part, int64_t first, int64_t, int64_t r0, int64_t r1) {
                return rows(matrix(e, 1), part, r0, r1, result + first * columns, columns);
            });
    job.failed = failed;
    if (failed) return;
    parallel(job.tokens, 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
            float* y = job.y + t * columns;
            memset(y, 0, size_t(columns) * 4);
            for (int64_t i = 0; i < job.chosen; ++i) {
                int32_t s = job.slot[t * job.chosen + i];
                if (s < 0) continue;
                float weight = job.weight[t * job.chosen + i];
                const float* part = result + s * columns;
                for (int64_t c = 0; c < columns; ++c) y[c] += weight * part[c];
            }
        }
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
