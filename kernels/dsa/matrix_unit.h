// The processor's matrix unit (AMX) for code inside an _each.cpp of avx512: 16 x 16 float32 sums of products of
// bfloat16 pairs. Whether it may be used is asked at run time: whimbrel::tiles().
#pragma once
#include "../native/tiles.h"

#if defined(WHIMBREL_HAS_AMX) && defined(__AVX512BF16__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define WHIMBREL_TILES 1
#define WHIMBREL_TILE_CODE __attribute__((target("amx-tile,amx-bf16")))
#include <immintrin.h>

namespace {

struct alignas(64) TileConfig {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Not a local variable: compilers know of the first eight bytes only that the instruction reads.
static const TileConfig kTileConfig;

// All eight tiles as 16 rows of 64 bytes; undone by end_tiles().
WHIMBREL_TILE_CODE inline void begin_tiles() { _tile_loadconfig(&kTileConfig); }

WHIMBREL_TILE_CODE inline void end_tiles() { _tile_release(); }

}  // namespace
#else
#define WHIMBREL_TILES 0
#endif
