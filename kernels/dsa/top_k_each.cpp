// The k largest of a row, exactly: a threshold from a histogram of the values' leading bits (from a sample for
// long rows), one pass that keeps what reaches it, and a radix selection among the kept. Values are compared as
// whole numbers in the same order; -inf and NaN become 0 and are never taken; of equals the lowest position
// comes first because every step keeps the order of positions.
#include "../native/lanes.h"
#include "../native/whimbrel.h"

namespace {

constexpr int64_t kLong = 65536;   // from here on a sample pays
constexpr int64_t kSample = 8192;
constexpr uint32_t kLowest = 0x00800000;  // the order of the most negative finite value

struct Found {
    uint32_t order, position;
};

static inline uint32_t order_of(float value) {
    value += 0.0f;  // the two zeros are equal
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (!(value > -__builtin_inff())) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static inline float value_of(uint32_t order) {
    uint32_t bits = order >> 31 ? order & 0x7fffffffu : ~order;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Four counters side by side: equal neighbours do not wait for each other.
struct Histogram {
    uint32_t bin[4][2048];
    void clear() { std::memset(bin, 0, sizeof bin); }
    void gather() {
        for (int i = 0; i < 2048; ++i) bin[0][i] += bin[1][i] + bin[2][i] + bin[3][i];
    }
    // The highest bin such that it and those above hold at least `wanted`; `above`: those strictly above.
    int border(int64_t wanted, int64_t* above) const {
        *above = 0;
        int i = 2047;
        for (; i > 0 && *above + bin[0][i] < wanted; --i) *above += bin[0][i];
        return i;
    }
};

// Moves the `wanted` largest of list[0..n) (1 <= wanted <= n, positions ascending) to `to`, in no order of
// values but with equals by position. `list` is used up.
static void select(Found* list, int64_t n, int64_t wanted, Found* to, Histogram& counts) {
    static const int kShift[3] = {21, 10, 0}, kMask[3] = {2047, 2047, 1023};
    for (int level = 0; level < 3 && wanted < n; ++level) {
        const int shift = kShift[level], mask = kMask[level];
        counts.clear();
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; ++j) ++counts.bin[j][list[i + j].order >> shift & mask];
        for (; i < n; ++i) ++counts.bin[0][list[i].order >> shift & mask];
        counts.gather();
        int64_t above;
        const uint32_t border = counts.border(wanted, &above);
        if (counts.bin[0][border] == n) continue;
        int64_t kept = 0;
        for (i = 0; i < n; ++i) {
            const Found one = list[i];
            const uint32_t bin = one.order >> shift & mask;
            *to = one;
            to += bin > border;
            list[kept] = one;
            kept += bin == border;
        }
        wanted -= above;
        n = kept;
    }
    std::memcpy(to, list, wanted * sizeof(Found));
}

// Largest first; stable, so that equals stay in the order of their positions.
static void sort_down(Found* list, int64_t n, Found* room) {
    uint32_t start[3][2049] = {};
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t order = ~list[i].order;
        ++start[0][(order & 2047) + 1];
        ++start[1][(order >> 11 & 2047) + 1];
        ++start[2][(order >> 22) + 1];
    }
    Found *from = list, *to = room;
    for (int pass = 0; pass < 3; ++pass) {
        uint32_t* at = start[pass];
        for (int i = 0; i < 2048; ++i) at[i + 1] += at[i];
        const int shift = 11 * pass;
        for (int64_t i = 0; i < n; ++i) to[at[~from[i].order >> shift & 2047]++] = from[i];
        Found* swap = from;
        from = to;
        to = swap;
    }
    std::memcpy(list, room, n * sizeof(Found));
}

// Everything that is at least `border`, in order of positions: the number, or -1 when it is more than `most`.
// `to` has room for most + 64.
static int64_t keep(const float* values, int64_t n, float border, Found* to, int64_t most) {
    int64_t kept = 0, i = 0;
#if defined(__AVX512F__)
    const __m512 limit = _mm512_set1_ps(border);
    for (; i + 64 <= n; i += 64) {
        uint64_t reach = 0;
        for (int j = 0; j < 4; ++j)
            reach |= uint64_t(_mm512_cmp_ps_mask(_mm512_loadu_ps(values + i + 16 * j), limit, _CMP_GE_OQ)) << (16 * j);
        if (kept > most) return -1;
        for (; reach; reach &= reach - 1) {
            const uint32_t at = uint32_t(i) + __builtin_ctzll(reach);
            to[kept++] = {order_of(values[at]), at};
        }
    }
#elif defined(__AVX2__)
    const __m256 limit = _mm256_set1_ps(border);
    for (; i + 32 <= n; i += 32) {
        uint32_t reach = 0;
        for (int j = 0; j < 4; ++j)
            reach |= uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(values + i + 8 * j), limit, _CMP_GE_OQ))) << (8 * j);
        if (kept > most) return -1;
        for (; reach; reach &= reach - 1) {
            const uint32_t at = uint32_t(i) + __builtin_ctz(reach);
            to[kept++] = {order_of(values[at]), at};
        }
    }
#endif
    for (; i < n; ++i) {
        if (kept > most) return -1;
        to[kept] = {order_of(values[i]), uint32_t(i)};
        kept += values[i] >= border;
    }
    return kept > most ? -1 : kept;
}

struct Room {
    Histogram counts;
    Found sample[kSample], chosen[kSample];
};

// A value that a little more than `wanted` of the row reach, judged by a sample; 0 (no order) when it has none.
static uint32_t guess(const float* values, int64_t n, int64_t wanted, Room& room) {
    const int64_t step = n / kSample;
    int64_t kept = 0;
    for (int64_t i = 0; i < kSample; ++i) {
        const uint32_t order = order_of(values[i * step]);
        room.sample[kept] = {order, uint32_t(i)};
        kept += order != 0;
    }
    // Twice what is wanted and eight samples more: short by less than one row in thousands.
    const int64_t rank = 2 * wanted * kSample / n + 8;
    if (rank >= kept) return 0;
    select(room.sample, kept, rank, room.chosen, room.counts);
    uint32_t lowest = room.chosen[0].order;
    for (int64_t i = 1; i < rank; ++i) lowest = room.chosen[i].order < lowest ? room.chosen[i].order : lowest;
    return lowest;
}

// The selected of one row in `to`, largest first: their number. -1 when there is no memory.
static int64_t row(const float* values, int64_t n, int64_t k, Found** to) {
    Room* room = static_cast<Room*>(whimbrel::scratch(4, sizeof(Room)));
    if (!room) return -1;
    Found* list = nullptr;
    int64_t kept = -1;
    if (n >= kLong && k < n / 16) {
        const int64_t most = 6 * k + 8192;
        list = static_cast<Found*>(whimbrel::scratch(5, (most + 64) * sizeof(Found)));
        if (!list) return -1;
        if (const uint32_t border = guess(values, n, k, *room)) kept = keep(values, n, value_of(border), list, most);
        if (kept < k) kept = -1;
    }
    if (kept < 0) {
        room->counts.clear();
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; ++j) ++room->counts.bin[j][order_of(values[i + j]) >> 21];
        for (; i < n; ++i) ++room->counts.bin[0][order_of(values[i]) >> 21];
        room->counts.gather();
        int64_t finite = 0, above;
        for (uint32_t bin = kLowest >> 21; bin < 2048; ++bin) finite += room->counts.bin[0][bin];
        if (k > finite) k = finite;
        if (!k) return 0;
        uint32_t border = uint32_t(room->counts.border(k, &above)) << 21;
        if (border < kLowest) border = kLowest;
        const int64_t most = above + room->counts.bin[0][border >> 21];
        list = static_cast<Found*>(whimbrel::scratch(5, (most + 64) * sizeof(Found)));
        if (!list) return -1;
        kept = keep(values, n, value_of(border), list, most);
    }
    Found* chosen = static_cast<Found*>(whimbrel::scratch(6, (kept + 1 + k) * sizeof(Found)));
    if (!chosen) return -1;
    select(list, kept, k, chosen, room->counts);
    sort_down(chosen, k, chosen + kept + 1);
    *to = chosen;
    return k;
}

}  // namespace

namespace whimbrel::WHIMBREL_VARIANT {

// out [rows, k], -1 where there are no more. *failed is set when there is no memory.
void top_k(const float* scores, int64_t rows, int64_t count, int64_t k, int64_t* out, int* failed) {
    parallel(rows, 1, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; ++r) {
            Found* chosen = nullptr;
            const int64_t n = k ? row(scores + r * count, count, k, &chosen) : 0;
            if (n < 0) {
                *failed = 1;
                return;
            }
            for (int64_t i = 0; i < n; ++i) out[r * k + i] = chosen[i].position;
            for (int64_t i = n; i < k; ++i) out[r * k + i] = -1;
        }
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
