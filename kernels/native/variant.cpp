// Which variant of the kernels runs: what was compiled, what the processor has, what was asked for.
#include "whimbrel.h"

#include <atomic>

namespace whimbrel {
namespace {

std::atomic<int> chosen{-1};

bool usable(int wanted) {
    if (wanted == 0) return true;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
#if defined(WHIMBREL_HAS_AVX2)
    if (wanted == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
#if defined(WHIMBREL_HAS_AVX512)
    if (wanted == 2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
#endif
#endif
    return false;
}

}  // namespace

Variant variant() {
    int now = chosen.load(std::memory_order_relaxed);
    if (now < 0) {
        now = usable(2) ? 2 : usable(1) ? 1 : 0;
        chosen.store(now, std::memory_order_relaxed);
    }
    return static_cast<Variant>(now);
}

}  // namespace whimbrel

// A hash of the sources that this library was built from.
WHIMBREL_EXPORT const char* whimbrel_sources() { return WHIMBREL_SOURCES; }

WHIMBREL_EXPORT int whimbrel_variant() { return static_cast<int>(whimbrel::variant()); }

WHIMBREL_EXPORT int whimbrel_usable(int wanted) { return whimbrel::usable(wanted); }

// 0 when `wanted` (-1: the best) is in use from now on, 1 when it cannot be.
WHIMBREL_EXPORT int whimbrel_set_variant(int wanted) {
    if (wanted >= 0 && !whimbrel::usable(wanted)) return 1;
    whimbrel::chosen.store(wanted < 0 ? -1 : wanted);
    return 0;
}
