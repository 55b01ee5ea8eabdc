// Sparse latent attention: the exported functions.
#include "../native/whimbrel.h"
#include "cache.h"

WHIMBREL_VARIANTS(void scores(const Rows* keys, const float* q, const float* w, int64_t tokens, int64_t heads,
                              int64_t first, float* out, int* failed))
WHIMBREL_VARIANTS(void attention(const Rows* latents, const Rows* pe, const float* q_latent, const float* q_pe,
                                 const int64_t* indices, int64_t per_token, int64_t tokens, int64_t heads,
                                 int64_t latent, int64_t shared, int64_t first, float scale, float* out, int* failed))
WHIMBREL_VARIANTS(void top_k(const float* scores, int64_t rows, int64_t count, int64_t k, int64_t* out, int* failed))

// Every function returns 0, or 1 when there is no memory.

WHIMBREL_EXPORT int whimbrel_scores(const whimbrel::Rows* keys, const float* q, const float* w, int64_t tokens,
                                    int64_t heads, int64_t first, float* out) {
    int failed = 0;
    WHIMBREL_CALL(scores, keys, q, w, tokens, heads, first, out, &failed);
    return failed;
}

WHIMBREL_EXPORT int whimbrel_attention(const whimbrel::Rows* latents, const whimbrel::Rows* pe, const float* q_latent,
                                       const float* q_pe, const int64_t* indices, int64_t per_token, int64_t tokens,
                                       int64_t heads, int64_t latent, int64_t shared, int64_t first, float scale,
                                       float* out) {
    int failed = 0;
    WHIMBREL_CALL(attention, latents, pe, q_latent, q_pe, indices, per_token, tokens, heads, latent, shared, first,
                  scale, out, &failed);
    return failed;
}

WHIMBREL_EXPORT int whimbrel_top_k(const float* scores, int64_t rows, int64_t count, int64_t k, int64_t* out) {
    int failed = 0;
    WHIMBREL_CALL(top_k, scores, rows, count, k, out, &failed);
    return failed;
}
