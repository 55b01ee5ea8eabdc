// Small matrix products in registers for the attention kernels, float32 or pairs of bfloat16. Only for
// _each.cpp files. A unit is four bytes: one float32, or two bfloat16 that are multiplied and added together.
#pragma once
#include "../native/lanes.h"
#include "matrix_unit.h"

namespace {

constexpr int kRowsAtOnce = W == 16 ? 6 : 4;
constexpr int kVectorsAtOnce = W == 16 ? 4 : 2;

struct Float32 {
    static vf load_units(const uint32_t* p) { return load(reinterpret_cast<const float*>(p)); }
    static vf repeat(const uint32_t* p) { return all(*reinterpret_cast<const float*>(p)); }
    static vf add(vf sum, vf a, vf b) { return sum + a * b; }
};

#if defined(__AVX512BF16__)
struct Bfloat16Pair {
    static vf load_units(const uint32_t* p) { return (vf)_mm512_loadu_si512(p); }
    static vf repeat(const uint32_t* p) { return (vf)_mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p)); }
    static vf add(vf sum, vf a, vf b) { return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b); }
};
#endif

// c[r, :] (+)= sum over k of a(r, k) * b[k, :] for R rows and V vectors of columns.
template <class Unit, int R, int V>
static inline void block(const uint32_t* a, int64_t a_row, int64_t a_unit, const uint32_t* b, int64_t b_row, float* c,
                         int64_t c_row, int64_t units, bool add) {
    vf sums[R][V];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] = add ? load(c + r * c_row + v * W) : vf{};
    for (int64_t k = 0; k < units; ++k, a += a_unit, b += b_row) {
        vf column[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) column[v] = Unit::load_units(b + v * W);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            vf value = Unit::repeat(a + r * a_row);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sums[r][v] = Unit::add(sums[r][v], value, column[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store(c + r * c_row + v * W, sums[r][v]);
}

template <class Unit, int V>
static void columns(const uint32_t* a, int64_t a_row, int64_t a_unit, const uint32_t* b, int64_t b_row, float* c,
                    int64_t c_row, int64_t rows, int64_t units, bool add) {
    int64_t r = 0;
    for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce)
        block<Unit, kRowsAtOnce, V>(a + r * a_row, a_row, a_unit, b, b_row, c + r * c_row, c_row, units, add);
    for (; r < rows; ++r) block<Unit, 1, V>(a + r * a_row, a_row, a_unit, b, b_row, c + r * c_row, c_row, units, add);
}

// c [rows, count] (+)= a(r, k) b[k, :]; `count` is a multiple of W. The units of b are taken in blocks that
// stay in the first cache for all rows.
template <class Unit>
static void multiply(const uint32_t* a, int64_t a_row, int64_t a_unit, const uint32_t* b, int64_t b_row, float* c,
                     int64_t c_row, int64_t rows, int64_t units, int64_t count, bool add) {
    constexpr int64_t kUnits = 96;
    for (int64_t k = 0; k < units; k += kUnits) {
        const int64_t now = least(kUnits, units - k);
        const uint32_t* from = b + k * b_row;
        const uint32_t* left = a + k * a_unit;
        int64_t n = 0;
        for (; n + kVectorsAtOnce * W <= count; n += kVectorsAtOnce * W)
            columns<Unit, kVectorsAtOnce>(left, a_row, a_unit, from + n, b_row, c + n, c_row, rows, now, add || k);
        for (; n < count; n += W)
            columns<Unit, 1>(left, a_row, a_unit, from + n, b_row, c + n, c_row, rows, now, add || k);
    }
}

#if WHIMBREL_TILES
// The same with the matrix unit: a[r, :] as rows of units, everything a multiple of 32 (units: of 16).
WHIMBREL_TILE_CODE static void multiply_tiles(const uint32_t* a, int64_t a_row, const uint32_t* b, int64_t b_row,
                                              float* c, int64_t c_row, int64_t rows, int64_t units, int64_t count,
                                              bool add) {
    for (int64_t n = 0; n < count; n += 32)
        for (int64_t r = 0; r < rows; r += 32) {
            float* to = c + r * c_row + n;
            if (add) {
                _tile_loadd(0, to, c_row * 4);
                _tile_loadd(1, to + 16, c_row * 4);
                _tile_loadd(2, to + 16 * c_row, c_row * 4);
                _tile_loadd(3, to + 16 * c_row + 16, c_row * 4);
            } else {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
            }
            const uint32_t* left = a + r * a_row;
            const uint32_t* right = b + n;
            for (int64_t k = 0; k < units; k += 16, left += 16, right += 16 * b_row) {
                _tile_loadd(4, left, a_row * 4);
                _tile_loadd(6, right, b_row * 4);
                _tile_loadd(7, right + 16, b_row * 4);
                _tile_loadd(5, left + 16 * a_row, a_row * 4);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, to, c_row * 4);
            _tile_stored(1, to + 16, c_row * 4);
            _tile_stored(2, to + 16 * c_row, c_row * 4);
            _tile_stored(3, to + 16 * c_row + 16, c_row * 4);
        }
}
#endif

}  // namespace
