// What compilers spell differently: functions that are or are not inlined, prefetching, products of 128 bits, eight values at
// a time. gcc and clang have all of it; others, MSVC among them, get plain C++ that gives the same bytes, more slowly.
// GAMLP_PLAIN asks any compiler for the latter: tests/kernel/test_compilers.py does.
// Functions are static: a copy that was compiled for AVX must not be picked by the linker for all machines.
#pragma once
#include <cstdint>
#include <cstring>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(GAMLP_PLAIN)
#define GAMLP_VECTORS 1
#define GAMLP_INLINE __attribute__((always_inline)) inline
#define GAMLP_INLINED __attribute__((always_inline))  // of a lambda, behind its parameters
#define GAMLP_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#include <intrin.h>
#define GAMLP_INLINE __forceinline
#define GAMLP_INLINED [[msvc::forceinline]]
#define GAMLP_NOINLINE __declspec(noinline)
#else
#define GAMLP_INLINE inline
#define GAMLP_INLINED
#define GAMLP_NOINLINE
#endif

namespace gamlp {

// Caches, as __builtin_prefetch counts them: 3 all, 2 from the second on.
template <int Caches, int Write = 0>
static GAMLP_INLINE void prefetch(const void *address) {
#if defined(GAMLP_VECTORS)
    __builtin_prefetch(address, Write, Caches);
#elif defined(_MSC_VER) && defined(_M_X64)
    _mm_prefetch(static_cast<const char *>(address), Caches == 3 ? _MM_HINT_T0 : _MM_HINT_T1);
#else
    (void)address;
#endif
}

struct Product {
    uint64_t low, high;
};

static inline Product multiply(uint64_t a, uint64_t b) {
#if defined(GAMLP_VECTORS) && defined(__SIZEOF_INT128__)
    const unsigned __int128 whole = static_cast<unsigned __int128>(a) * b;
    return {uint64_t(whole), uint64_t(whole >> 64)};
#elif defined(_MSC_VER) && defined(_M_X64)
    Product found;
    found.low = _umul128(a, b, &found.high);
    return found;
#else
    const uint64_t a0 = uint32_t(a), a1 = a >> 32, b0 = uint32_t(b), b1 = b >> 32;
    const uint64_t crossed = a1 * b0 + (a0 * b0 >> 32);  // at most (2^32 - 1)^2 + 2^32 - 1: it fits
    const uint64_t other = a0 * b1 + uint32_t(crossed);
    return {a * b, a1 * b1 + (crossed >> 32) + (other >> 32)};
#endif
}

}  // namespace gamlp
