// The exported C functions of MXFP4. Arrays are C-contiguous and were checked by the caller.
#include "mxfp4.h"

WHIMBREL_VARIANTS(void mxfp4_product(const Mxfp4& w, const float* x, int64_t count, float* y, int wanted, int& failed))
WHIMBREL_VARIANTS(void mxfp4_experts(Experts& job))

// y f32[count, rows] = x f32[count, columns] times the transpose of the matrix; 0, or 1 without memory.
WHIMBREL_EXPORT int whimbrel_mxfp4_product(const uint8_t* packed, const uint8_t* scales, int64_t rows, int64_t columns,
                                           const float* x, int64_t count, float* y, int rounding) {
    int failed = 0;
    whimbrel::Mxfp4 w{packed, scales, rows, columns};
    WHIMBREL_CALL(mxfp4_product, w, x, count, y, rounding, failed);
    return failed;
}

// One layer of experts; see Experts in mxfp4.h.
WHIMBREL_EXPORT int whimbrel_mxfp4_experts(const float* x, float* y, int64_t tokens, int64_t columns, int64_t inner,
                                           int64_t chosen, int64_t experts, const int64_t* first, const int32_t* token,
                                           const int32_t* slot, const float* weight, const uint8_t* const* matrices,
                                           int activation, float beta, float linear_beta, int rounding) {
    whimbrel::Experts job{x,     y,    tokens, columns,  inner,      chosen, experts,     first,    token,
                          slot,  weight, matrices, activation, beta,   linear_beta, rounding, 0};
    WHIMBREL_CALL(mxfp4_experts, job);
    return job.failed;
}
