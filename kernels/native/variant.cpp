// Which variant of the kernels runs: what was compiled, what the processor has, what was asked for.
#include "tiles.h"

#include <atomic>
#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace whimbrel {
namespace {

std::atomic<int> chosen{-1};  // 3 is avx512 with tiles

// The system keeps the tile registers of those that asked for them only.
bool tiles_granted() {
#if defined(__linux__) && defined(__x86_64__) && defined(WHIMBREL_HAS_AMX)
    static const bool granted = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
        constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
        if ((d & kBf16) == 0 || (d & kTile) == 0) return false;
        if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 1u << 27) == 0) return false;  // xgetbv is there
        unsigned low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        constexpr unsigned kState = 3u << 17;
        if ((low & kState) != kState) return false;
        constexpr long kRequest = 0x1023, kTileData = 18;
        return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    }();
    return granted;
#else
    return false;
#endif
}

bool usable(int wanted) {
    if (wanted == 0) return true;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
#if defined(WHIMBREL_HAS_AVX2)
    if (wanted == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
#if defined(WHIMBREL_HAS_AVX512)
    if (wanted == 2 || wanted == 3)
        return (wanted == 2 || tiles_granted()) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
#endif
#endif
    return false;
}

}  // namespace

static int now() {
    int value = chosen.load(std::memory_order_relaxed);
    if (value < 0) {
        value = usable(3) ? 3 : usable(2) ? 2 : usable(1) ? 1 : 0;
        chosen.store(value, std::memory_order_relaxed);
    }
    return value;
}

Variant variant() {
    int value = now();
    return static_cast<Variant>(value < 2 ? value : 2);
}

bool tiles() { return now() == 3; }

}  // namespace whimbrel

// A hash of the sources that this library was built from.
WHIMBREL_EXPORT const char* whimbrel_sources() { return WHIMBREL_SOURCES; }

WHIMBREL_EXPORT int whimbrel_variant() { return whimbrel::now(); }

WHIMBREL_EXPORT int whimbrel_usable(int wanted) { return whimbrel::usable(wanted); }

// 0 when `wanted` (-1: the best) is in use from now on, 1 when it cannot be.
WHIMBREL_EXPORT int whimbrel_set_variant(int wanted) {
    if (wanted >= 0 && !whimbrel::usable(wanted)) return 1;
    whimbrel::chosen.store(wanted < 0 ? -1 : wanted);
    return 0;
}
