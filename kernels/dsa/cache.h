// Cached rows as they are handed to the kernels: a matrix, or a pool of pages with a table.
#pragma once
#include <cstdint>

namespace whimbrel {

enum RowKind : int32_t {
    kFloat32 = 0,
    kBfloat16 = 1,
    kKey8 = 2,     // `width` e4m3, then one float32 scale
    kLatent8 = 3,  // 512 e4m3, 4 float32 scales (one per 128), 64 bfloat16: width 576
};

// Strides in bytes; row i is row i % page_size of page table[i / page_size], or row i where there is no table.
struct Rows {
    const char* data;
    const int32_t* table;
    int64_t row_stride, page_stride, page_size, length;
    int32_t kind, width;
};

}  // namespace whimbrel
