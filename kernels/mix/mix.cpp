// Residuals: the exported functions.
#include "../native/whimbrel.h"

WHIMBREL_VARIANTS(void rms_norm(const float* x, const float* w, float* out, int64_t rows, int64_t width, float eps))
WHIMBREL_VARIANTS(void mix(const float* candidates, const float* query, float* out, int64_t count, int64_t tokens,
                           int64_t width, float eps, int* failed))

WHIMBREL_EXPORT void whimbrel_rms_norm(const float* x, const float* w, float* out, int64_t rows, int64_t width,
                                       float eps) {
    WHIMBREL_CALL(rms_norm, x, w, out, rows, width, eps);
}

// Returns 0, or 1 when there is no memory.
WHIMBREL_EXPORT int whimbrel_mix(const float* candidates, const float* query, float* out, int64_t count,
                                 int64_t tokens, int64_t width, float eps) {
    int failed = 0;
    WHIMBREL_CALL(mix, candidates, query, out, count, tokens, width, eps, &failed);
    return failed;
}
