// Products on the tile unit; see tiles.h.
#include "tiles.h"

#include <immintrin.h>
#include <string.h>

namespace whimbrel::amx {
namespace {

struct alignas(64) Config {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
};

void put(const float* tile, int64_t tokens, int64_t rows, float* y, int64_t ldy) {
    for (int64_t t = 0; t < tokens; ++t) memcpy(y + t * ldy, tile + t * 16, size_t(rows) * 4);
}

}  // namespace

void product(const uint16_t* weights, int64_t rows, int64_t columns, const uint16_t* tokens, int64_t count, float* y,
             int64_t ldy) {
    Config config;
    for (int i = 0; i < 8; ++i) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
    int64_t blocks = columns / 32, row_bytes = columns * 2;
    const uint16_t* second = weights + blocks * 512;
    bool wide = rows > 16;
    alignas(64) float spill[4][256];
    for (int64_t t = 0; t < count; t += 32) {
        const uint16_t *a0 = tokens + t * columns, *a1 = a0 + 16 * columns;
        bool tall = count - t > 16;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        if (wide && tall) {
            for (int64_t b = 0; b < blocks; ++b) {
                _tile_loadd(4, a0 + b * 32, row_bytes);
                _tile_loadd(6, weights + b * 512, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_loadd(7, second + b * 512, 64);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, a1 + b * 32, row_bytes);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        } else {
            for (int64_t b = 0; b < blocks; ++b) {
                _tile_loadd(4, a0 + b * 32, row_bytes);
                _tile_loadd(6, weights + b * 512, 64);
                _tile_dpbf16ps(0, 4, 6);
                if (wide) {
                    _tile_loadd(7, second + b * 512, 64);
                    _tile_dpbf16ps(1, 4, 7);
                }
                if (tall) {
                    _tile_loadd(5, a1 + b * 32, row_bytes);
                    _tile_dpbf16ps(2, 5, 6);
                }
            }
        }
        if (count - t >= 32 && rows == 32) {
            _tile_stored(0, y + t * ldy, ldy * 4);
            _tile_stored(1, y + t * ldy + 16, ldy * 4);
            _tile_stored(2, y + (t + 16) * ldy, ldy * 4);
            _tile_stored(3, y + (t + 16) * ldy + 16, ldy * 4);
            continue;
        }
        _tile_stored(0, spill[0], 64);
        _tile_stored(1, spill[1], 64);
        _tile_stored(2, spill[2], 64);
        _tile_stored(3, spill[3], 64);
        for (int i = 0; i < 4; ++i) {
            int64_t t0 = t + i / 2 * 16, r0 = i % 2 * 16;
            int64_t nt = count - t0 < 16 ? count - t0 : 16, nr = rows - r0 < 16 ? rows - r0 : 16;
            if (nt > 0 && nr > 0) put(spill[i], nt, nr, y + t0 * ldy + r0, ldy);
        }
    }
    _tile_release();
}

}  // namespace whimbrel::amx
