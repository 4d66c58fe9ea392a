// Which instructions this processor has and its system allows.
#pragma once
#include "compilers.hpp"

namespace gamlp {

struct Processor {
    bool avx2 = false, avx512 = false;  // with conversions of float16
    bool products = false;              // without carries, and SSE4.1

    Processor() {
#if defined(GAMLP_VECTORS) && defined(__x86_64__)
        const bool halves = __builtin_cpu_supports("f16c");
        avx2 = halves && __builtin_cpu_supports("avx2");
        avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
        products = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#elif defined(_MSC_VER) && defined(_M_X64)
        int most[4], first[4], seventh[4] = {};
        __cpuid(most, 0);
        __cpuid(first, 1);
        if (most[0] >= 7) __cpuidex(seventh, 7, 0);
        auto bit = [](int word, int at) { return (word >> at & 1) != 0; };
        const uint64_t kept = bit(first[2], 27) ? _xgetbv(0) : 0;  // registers that the system saves
        const bool halves = bit(first[2], 29) && (kept & 0x06) == 0x06;
        avx2 = halves && bit(seventh[1], 5);
        avx512 = avx2 && bit(seventh[1], 16) && bit(seventh[1], 31) && (kept & 0xe6) == 0xe6;
        products = bit(first[2], 1) && bit(first[2], 19);
#endif
    }
};

}  // namespace gamlp
