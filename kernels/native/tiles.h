// The matrix unit of some processors (AMX): 16 x 16 float32 sums of products of bfloat16 pairs.
#pragma once
#include <cstdint>

#if defined(__AVX512BF16__) && defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define WHIMBREL_TILES 1
#define WHIMBREL_TILE_CODE __attribute__((target("amx-tile,amx-bf16")))
#include <immintrin.h>

namespace {

// All eight tiles as 16 rows of 64 bytes; undone by end_tiles().
struct alignas(64) TileConfig {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Not a local variable: compilers know of the first eight bytes only that the instruction reads.
static const TileConfig kTileConfig;

WHIMBREL_TILE_CODE inline void begin_tiles() { _tile_loadconfig(&kTileConfig); }

WHIMBREL_TILE_CODE inline void end_tiles() { _tile_release(); }

}  // namespace
#else
#define WHIMBREL_TILES 0
#endif

namespace whimbrel {
// Whether the processor has it and the system lets us use it (asked once); WHIMBREL_TILES=0 says no.
bool tiles();
}  // namespace whimbrel
