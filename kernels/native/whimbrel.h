// What every kernel in C++ stands on: exports, the variants of the processor, threads, scratch memory.
//
// Files. Every .cpp below kernels/ is compiled into one library, libwhimbrel.so:
//   name.cpp       once, for the plain processor: the exported C functions, checks of nothing (Python checks);
//   name_each.cpp  once for each variant (portable, avx2, avx512) with that variant's flags, and with
//                  WHIMBREL_VARIANT defined as the variant's name;
//   name_amx.cpp   once with the flags of avx512 and of the tile unit (tiles.h).
// A pair looks like this:
//
//   // op_each.cpp
//   #include "../native/whimbrel.h"
//   namespace whimbrel::WHIMBREL_VARIANT {
//   void op(const float* x, float* y, int64_t n) { ... intrinsics under #if defined(__AVX512F__) ... }
//   }
//   // op.cpp
//   #include "../native/whimbrel.h"
//   WHIMBREL_VARIANTS(void op(const float* x, float* y, int64_t n))
//   WHIMBREL_EXPORT void whimbrel_op(const float* x, float* y, int64_t n) { WHIMBREL_CALL(op, x, y, n); }
//
// In an _each.cpp everything is in that namespace, `static`, or a lambda, and no template of the standard
// library is used: the linker keeps one copy of an inline function, and it might be the one with AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

#define WHIMBREL_EXPORT extern "C" __attribute__((visibility("default")))

#if defined(WHIMBREL_HAS_AVX512)
#define WHIMBREL_IF_AVX512(...) __VA_ARGS__
#else
#define WHIMBREL_IF_AVX512(...)
#endif
#if defined(WHIMBREL_HAS_AVX2)
#define WHIMBREL_IF_AVX2(...) __VA_ARGS__
#else
#define WHIMBREL_IF_AVX2(...)
#endif

// Declares a function of every variant that was compiled.
#define WHIMBREL_VARIANTS(...)                                        \
    namespace whimbrel {                                              \
    namespace portable { __VA_ARGS__; }                               \
    WHIMBREL_IF_AVX2(namespace avx2 { __VA_ARGS__; })                 \
    WHIMBREL_IF_AVX512(namespace avx512 { __VA_ARGS__; })             \
    }

// Calls the function of the variant in use; an expression statement whose value is dropped.
#define WHIMBREL_CALL(name, ...)                                                                          \
    do {                                                                                                  \
        WHIMBREL_IF_AVX512(if (whimbrel::variant() == whimbrel::Variant::avx512) {                        \
            whimbrel::avx512::name(__VA_ARGS__);                                                          \
            break;                                                                                        \
        })                                                                                                \
        WHIMBREL_IF_AVX2(if (whimbrel::variant() == whimbrel::Variant::avx2) {                            \
            whimbrel::avx2::name(__VA_ARGS__);                                                            \
            break;                                                                                        \
        })                                                                                                \
        whimbrel::portable::name(__VA_ARGS__);                                                            \
    } while (0)

namespace whimbrel {

enum class Variant : int { portable = 0, avx2 = 1, avx512 = 2 };

// The variant in use: the best that this processor has and that was compiled, unless set otherwise.
Variant variant();

// --- threads -------------------------------------------------------------------------------------------
// One pool for the process. Idle threads sleep on a condition variable. Each thread starts with one
// contiguous part of the range and takes it from the front; who is done takes from the back of another's
// part. A call from inside a call, or while another thread uses the pool, runs on the caller alone.
// A child after fork() starts a pool of its own.

using Body = void (*)(void* context, int64_t begin, int64_t end);

// Runs body over [0, count) in pieces of at most `grain`; returns when all is done. The body must not throw.
void parallel_raw(int64_t count, int64_t grain, Body body, void* context);

int threads();

// Memory of the calling thread, 64-byte aligned, contents undefined, valid until the thread asks for the same
// slot (0..7) again. nullptr when there is none. Slots 0..3 are for the caller of parallel, 4..7 for its body.
void* scratch(int slot, size_t bytes);

namespace {

// parallel(count, grain, [&](int64_t begin, int64_t end) { ... });
template <class F>
inline void parallel(int64_t count, int64_t grain, const F& body) {
    parallel_raw(
        count, grain,
        [](void* context, int64_t begin, int64_t end) { (*static_cast<const F*>(context))(begin, end); },
        const_cast<F*>(&body));
}

}  // namespace
}  // namespace whimbrel
