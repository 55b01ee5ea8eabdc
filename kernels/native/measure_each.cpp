// Reads memory as fast as the threads can: the mark that products are held against.
#include "products.h"

namespace whimbrel::WHIMBREL_VARIANT {

void read_bytes(const uint8_t* bytes, int64_t n, float* sink) {
    int64_t lines = n / 256;
    parallel(lines, 512, [&](int64_t from, int64_t to) {
        Lanes a = lanes_zero(), b = a, c = a, d = a;
        Lanes zero = lanes_zero();
        constexpr int step = kLanes * 4;
        for (const uint8_t *p = bytes + from * 256, *end = bytes + to * 256; p < end; p += step * 4) {
#if defined(__AVX2__)
            ahead<step * 4>(p);
#endif
            auto load = [&](int i) { return lanes_load(reinterpret_cast<const float*>(p + i * step)); };
            a = lanes_fma(load(0), zero, a);
            b = lanes_fma(load(1), zero, b);
            c = lanes_fma(load(2), zero, c);
            d = lanes_fma(load(3), zero, d);
        }
        float sum = lanes_sum(a) + lanes_sum(b) + lanes_sum(c) + lanes_sum(d);
        if (sum > 1e30f) *sink = sum;
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
