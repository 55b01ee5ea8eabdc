// The exported measure of the memory's speed.
#include "whimbrel.h"

WHIMBREL_VARIANTS(void read_bytes(const uint8_t* bytes, int64_t n, float* sink))

// Reads n bytes once, through the pool.
WHIMBREL_EXPORT float whimbrel_read(const uint8_t* bytes, int64_t n) {
    float sink = 0;
    WHIMBREL_CALL(read_bytes, bytes, n, &sink);
    return sink;
}
