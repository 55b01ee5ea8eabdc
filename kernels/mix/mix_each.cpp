// The RMS norm and the attention-residual mix: one token at a time, so that its values stay in the first caches.
#include "../native/lanes.h"
#include "../native/whimbrel.h"

namespace {

// Sums of four vectors side by side: products do not wait for each other, and sums of sums lose less.
struct Dots {
    vf part[4] = {};
    float whole() const { return sum((part[0] + part[1]) + (part[2] + part[3])); }
};

static float dot(const float* a, const float* b, int64_t n) {
    Dots dots;
    int64_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) dots.part[j] += load(a + i + j * W) * load(b + i + j * W);
    float rest = 0;
    for (; i < n; ++i) rest += a[i] * b[i];
    return dots.whole() + rest;
}

}  // namespace

namespace whimbrel::WHIMBREL_VARIANT {

// x, out [rows, width]; w [width].
void rms_norm(const float* x, const float* w, float* out, int64_t rows, int64_t width, float eps) {
    parallel(rows, 1 + 32768 / (width + 1), [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; ++r) {
            const float* in = x + r * width;
            float* row = out + r * width;
            const float factor = 1 / __builtin_sqrtf(dot(in, in, width) / float(width) + eps);
            for (int64_t i = 0; i < width; ++i) row[i] = in[i] * factor * w[i];
        }
    });
}

// candidates [count, tokens, width], query [width], out [tokens, width]. *failed is set when there is no memory.
void mix(const float* candidates, const float* query, float* out, int64_t count, int64_t tokens, int64_t width,
         float eps, int* failed) {
    parallel(tokens, 1, [&](int64_t from, int64_t to) {
        float* share = static_cast<float*>(scratch(4, count * 4));
        if (!share) {
            *failed = 1;
            return;
        }
        for (int64_t t = from; t < to; ++t) {
            float top = -__builtin_inff(), whole = 0;
            for (int64_t n = 0; n < count; ++n) {
                const float* one = candidates + (n * tokens + t) * width;
                share[n] = dot(one, query, width) / __builtin_sqrtf(dot(one, one, width) / float(width) + eps);
                top = share[n] > top ? share[n] : top;
            }
            for (int64_t n = 0; n < count; ++n) whole += share[n] = __builtin_expf(share[n] - top);
            float* row = out + t * width;
            for (int64_t i = 0; i < width; ++i) row[i] = 0;
            for (int64_t n = 0; n < count; ++n) {
                const float* one = candidates + (n * tokens + t) * width;
                const float weight = share[n] / whole;
                for (int64_t i = 0; i < width; ++i) row[i] += weight * one[i];
            }
        }
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
