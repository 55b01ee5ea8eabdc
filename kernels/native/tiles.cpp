// Whether the matrix unit (AMX) may be used: the system hands out its registers on request only.
#include "tiles.h"

#include <atomic>
#include <cstdlib>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "whimbrel.h"

namespace whimbrel {
namespace {

bool granted() {
#if defined(__x86_64__) && defined(__linux__)
    const char* text = getenv("WHIMBREL_TILES");
    if (text && text[0] == '0') return false;
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBfloat16 | kTiles)) != (kBfloat16 | kTiles)) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

std::atomic<int> allowed{-1};

}  // namespace

bool tiles() {
    int now = allowed.load(std::memory_order_relaxed);
    if (now < 0) {
        now = granted();
        allowed.store(now);
    }
    return now == 1;
}

}  // namespace whimbrel

WHIMBREL_EXPORT int whimbrel_tiles() { return whimbrel::tiles(); }

// 0 turns the matrix unit off, -1 asks again: for tests and comparisons.
WHIMBREL_EXPORT void whimbrel_set_tiles(int wanted) { whimbrel::allowed.store(wanted < 0 ? -1 : 0); }
