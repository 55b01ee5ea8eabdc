// MXFP4 without vectors of our own: float32 panels, which the compiler's vectors multiply.
#pragma once

#include "../native/products.h"
#include "mxfp4.h"

namespace whimbrel::WHIMBREL_VARIANT {

static inline void panel_f32(const Mxfp4& w, int64_t r0, int64_t rows, float* panel) {
    static const float values[16] = {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};
    for (int64_t r = r0; r < r0 + rows; ++r) {
        const uint8_t* packed = w.packed + r * (w.columns / 2);
        const uint8_t* s = w.scales + r * (w.columns / 32);
        for (int64_t b = 0; b < w.columns / 32; ++b, panel += 32, packed += 16) {
            uint32_t bits = s[b] == 255 ? 0x7fc00000u : s[b] == 0 ? 0x00400000u : uint32_t(s[b]) << 23;
            float factor;
            memcpy(&factor, &bits, 4);
            for (int i = 0; i < 16; ++i) {
                panel[2 * i] = values[packed[i] & 15] * factor;
                panel[2 * i + 1] = values[packed[i] >> 4] * factor;
            }
        }
    }
}

}  // namespace whimbrel::WHIMBREL_VARIANT
