// Bytes are coefficients of a polynomial over GF(2), and the CRC is its remainder modulo P. Folding: x^128·A + B has the
// same remainder as A·(x^128 mod P) + B, and with carry-less multiplication 16 bytes are folded onto the next in two
// instructions (Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009).
#include "crc32.hpp"

#include <array>
#include <cstring>

#include "processor.hpp"

#if defined(GAMLP_VECTORS) && defined(__x86_64__)
#include <immintrin.h>
#define GAMLP_FOLDS 1
#define GAMLP_FOLDING __attribute__((target("pclmul,sse4.1")))
#elif defined(_MSC_VER) && defined(_M_X64)  // which has every instruction everywhere
#define GAMLP_FOLDS 1
#define GAMLP_FOLDING
#endif

namespace gamlp {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

Tables make_tables() {
    Tables tables{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0u);
        tables[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; ++i)
        for (int t = 1; t < 8; ++t) tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
    return tables;
}

const Tables kTables = make_tables();

#if GAMLP_FOLDS
// a·k, the low and the high half each by its own power of x, added to b.
GAMLP_FOLDING inline __m128i fold(__m128i a, __m128i k, __m128i b) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)), b);
}

// At least 64 bytes, a multiple of 16. `crc` is inverted, as it is inside the sum.
GAMLP_FOLDING uint32_t fold_all(uint32_t crc, const uint8_t *data, size_t size) {
    // x^(4·128±32), x^(128±32), x^64 mod P, then P and x^64 / P, all with their bits reversed.
    const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i to_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i reduce = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low_32 = _mm_setr_epi32(~0, 0, ~0, 0);

    auto load = [](const uint8_t *at) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at)); };
    __m128i a = _mm_xor_si128(load(data), _mm_cvtsi32_si128(int(crc)));
    __m128i b = load(data + 16), c = load(data + 32), d = load(data + 48);
    data += 64, size -= 64;
    for (; size >= 64; data += 64, size -= 64) {
        a = fold(a, by_four, load(data));
        b = fold(b, by_four, load(data + 16));
        c = fold(c, by_four, load(data + 32));
        d = fold(d, by_four, load(data + 48));
    }
    a = fold(fold(fold(a, by_one, b), by_one, c), by_one, d);
    for (; size >= 16; data += 16, size -= 16) a = fold(a, by_one, load(data));

    // 128 bits → 64 → 32 (Barrett).
    __m128i x = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_one, 0x10));
    x = _mm_xor_si128(_mm_srli_si128(x, 4), _mm_clmulepi64_si128(_mm_and_si128(x, low_32), to_64, 0x00));
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x, low_32), reduce, 0x10);
    q = _mm_clmulepi64_si128(_mm_and_si128(q, low_32), reduce, 0x00);
    return uint32_t(_mm_extract_epi32(_mm_xor_si128(x, q), 1));
}

const bool kFolds = Processor().products;
#endif

}  // namespace

uint32_t crc32_by_tables(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        const uint32_t low = crc ^ (uint32_t(data[0]) | uint32_t(data[1]) << 8 | uint32_t(data[2]) << 16 | uint32_t(data[3]) << 24);
        crc = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^ kTables[4][low >> 24] ^
              kTables[3][data[4]] ^ kTables[2][data[5]] ^ kTables[1][data[6]] ^ kTables[0][data[7]];
    }
    for (; size; ++data, --size) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 255];
    return ~crc;
}

uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size) {
#if GAMLP_FOLDS
    if (kFolds && size >= 64) {
        const size_t whole = size / 16 * 16;
        crc = ~fold_all(~crc, data, whole);
        data += whole, size -= whole;
    }
#endif
    return crc32_by_tables(crc, data, size);
}

}  // namespace gamlp
