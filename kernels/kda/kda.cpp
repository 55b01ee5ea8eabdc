// Kimi delta attention: the exported functions. Each returns 0, or 1 when there is no memory.
#include "../native/whimbrel.h"

WHIMBREL_VARIANTS(void kda_decode(float* state, const float* q, const float* k, const float* v, const float* g,
                                  const float* beta, float* out, int64_t heads, int64_t keys, int64_t values,
                                  int* failed))
WHIMBREL_VARIANTS(void kda_prefill(float* state, const float* q, const float* k, const float* v, const float* g,
                                   const float* beta, float* out, int64_t tokens, int64_t heads, int64_t keys,
                                   int64_t values, int64_t chunk, int64_t most, int* failed))

WHIMBREL_EXPORT int whimbrel_kda_decode(float* state, const float* q, const float* k, const float* v, const float* g,
                                        const float* beta, float* out, int64_t heads, int64_t keys, int64_t values) {
    int failed = 0;
    WHIMBREL_CALL(kda_decode, state, q, k, v, g, beta, out, heads, keys, values, &failed);
    return failed;
}

WHIMBREL_EXPORT int whimbrel_kda_prefill(float* state, const float* q, const float* k, const float* v, const float* g,
                                         const float* beta, float* out, int64_t tokens, int64_t heads, int64_t keys,
                                         int64_t values, int64_t chunk, int64_t most) {
    int failed = 0;
    WHIMBREL_CALL(kda_prefill, state, q, k, v, g, beta, out, tokens, heads, keys, values, chunk, most, &failed);
    return failed;
}
