// The exported face of quantise_each.cpp.
#include "../native/whimbrel.h"

WHIMBREL_VARIANTS(void mxfp4_quantise(const float* w, int64_t blocks, uint8_t* packed, uint8_t* scales, double* error,
                                       int* failed))

// w f32[blocks, 32] -> packed u8[blocks, 16], scales u8[blocks], error f64[2]: the sum of the squared errors and
// the largest error. 1 where a value is not finite, else 0. On the caller's thread: who has many matrices runs
// several at a time.
WHIMBREL_EXPORT int whimbrel_mxfp4_quantise(const float* w, int64_t blocks, uint8_t* packed, uint8_t* scales,
                                            double* error) {
    int failed = 0;
    WHIMBREL_CALL(mxfp4_quantise, w, blocks, packed, scales, error, &failed);
    return failed;
}
