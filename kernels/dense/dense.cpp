// The exported C functions of the dense products. Arrays are C-contiguous and were checked by the caller.
#include "dense.h"

WHIMBREL_VARIANTS(void dense_product(const Dense& w, const float* x, int64_t count, float* y, int round, int& failed))
WHIMBREL_VARIANTS(void short_conv(const float* x, const float* weight, const float* history, float* y, float* last,
                                  int64_t count, int64_t channels))

// y f32[count, rows] = x f32[count, columns] times the transpose of float32 [rows, columns]; 1 without memory.
WHIMBREL_EXPORT int whimbrel_f32_product(const float* w, int64_t rows, int64_t columns, const float* x, int64_t count,
                                         float* y) {
    int failed = 0;
    whimbrel::Dense matrix{w, nullptr, nullptr, nullptr, rows, columns};
    WHIMBREL_CALL(dense_product, matrix, x, count, y, 0, failed);
    return failed;
}

// The same with bf16 [rows, columns]; `round` allows the tokens in bf16.
WHIMBREL_EXPORT int whimbrel_bf16_product(const uint16_t* w, int64_t rows, int64_t columns, const float* x,
                                          int64_t count, float* y, int round) {
    int failed = 0;
    whimbrel::Dense matrix{nullptr, w, nullptr, nullptr, rows, columns};
    WHIMBREL_CALL(dense_product, matrix, x, count, y, round, failed);
    return failed;
}

// And with int8 codes [rows, columns] and scales [rows, ceil(columns / 64)].
WHIMBREL_EXPORT int whimbrel_int8_product(const int8_t* codes, const float* scales, int64_t rows, int64_t columns,
                                          const float* x, int64_t count, float* y, int round) {
    int failed = 0;
    whimbrel::Dense matrix{nullptr, nullptr, codes, scales, rows, columns};
    WHIMBREL_CALL(dense_product, matrix, x, count, y, round, failed);
    return failed;
}

WHIMBREL_EXPORT void whimbrel_short_conv(const float* x, const float* weight, const float* history, float* y,
                                         float* last, int64_t count, int64_t channels) {
    WHIMBREL_CALL(short_conv, x, weight, history, y, last, count, channels);
}
