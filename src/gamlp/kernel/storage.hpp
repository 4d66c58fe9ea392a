// How values are stored: eight at a time from and to float32, and how many of them a storage could not hold. Included by
// hop_rows.hpp, inside its anonymous namespace, once per instruction set.
#include "eight.hpp"

// Each storage says which |values|, as bits, it turns to infinity (kInfinite and above) and to zero (kZero and below).
struct Float32 {
    using Element = float;
    static constexpr uint32_t kInfinite = 0x7f800000, kZero = 0;
    static inline void load(const float *p, Floats &out) { out = *reinterpret_cast<const Floats *>(p); }
    static inline void store(float *p, const Floats &v) { *reinterpret_cast<Floats *>(p) = v; }
};

struct BFloat16 {
    using Element = uint16_t;
    static constexpr uint32_t kInfinite = 0x7f7f8000, kZero = 0x8000;
    static inline void load(const uint16_t *p, Floats &out) {
        Words w = GAMLP_CONVERT(*reinterpret_cast<const Halves *>(p), Words) << 16;
        std::memcpy(&out, &w, sizeof w);
    }
    static inline void store(uint16_t *p, const Floats &v) {  // round to nearest, ties to even
        Words w;
        std::memcpy(&w, &v, sizeof w);
        w = (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
        *reinterpret_cast<Halves *>(p) = GAMLP_CONVERT(w, Halves);
    }
};

// float16 by integers, eight at a time, where the processor has no instruction for it. Signed comparisons: a magnitude has
// 31 bits, and SSE2 compares no unsigned numbers.
inline Integers pick(const Integers &mask, const Integers &one, const Integers &other) {
    return (mask & one) | (~mask & other);
}

inline void widen_halves(const uint16_t *p, Floats &out) {
    const Integers bits = GAMLP_CONVERT(*reinterpret_cast<const Halves *>(p), Integers);
    const Integers magnitude = bits & 0x7fff, no_number = magnitude >= 0x7c00;
    const Floats tiny = GAMLP_CONVERT(magnitude, Floats) * 0x1p-24f;  // zero and subnormals: exact
    Integers small;
    std::memcpy(&small, &tiny, sizeof small);
    const Integers ordinary = (magnitude << 13) + 0x38000000 + (no_number & 0x38000000);
    const Integers whole = pick(magnitude < 0x0400, small, ordinary) | ((bits & 0x8000) << 16);
    std::memcpy(&out, &whole, sizeof whole);
}

inline void narrow_to_halves(uint16_t *p, const Floats &v) {  // round to nearest, ties to even
    Integers bits;
    std::memcpy(&bits, &v, sizeof bits);
    const Integers magnitude = bits & 0x7fffffff;
    Floats tiny;  // subnormal: let float32 addition round at 2^-24
    std::memcpy(&tiny, &magnitude, sizeof tiny);
    tiny += 0.5f;
    Integers small;
    std::memcpy(&small, &tiny, sizeof small);
    const Integers ordinary = (magnitude - 0x38000000 + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
    Integers whole = pick(magnitude < 0x38800000, small - 0x3f000000, ordinary);
    whole = pick(magnitude >= 0x477ff000, 0x7c00 + ((magnitude > 0x7f800000) & 0x0200), whole);
    *reinterpret_cast<Halves *>(p) = GAMLP_CONVERT(whole | ((bits >> 16) & 0x8000), Halves);
}

struct Float16 {
    using Element = uint16_t;
    static constexpr uint32_t kInfinite = 0x477ff000, kZero = 0x33000000;  // 65520; 2^-25
#if defined(GAMLP_F16C)
    static inline void load(const uint16_t *p, Floats &out) {
        const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
        std::memcpy(&out, &wide, sizeof out);
    }
    static inline void store(uint16_t *p, const Floats &v) {
        __m256 wide;
        std::memcpy(&wide, &v, sizeof wide);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
#elif defined(__aarch64__)  // every 64-bit ARM converts; it need not calculate in float16
    static inline void load(const uint16_t *p, Floats &out) {
        const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(p));
        const float32x4_t parts[2] = {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
        std::memcpy(&out, parts, sizeof out);
    }
    static inline void store(uint16_t *p, const Floats &v) {
        float32x4_t parts[2];
        std::memcpy(parts, &v, sizeof parts);
        vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(parts[0]), parts[1])));
    }
#else
    static inline void load(const uint16_t *p, Floats &out) { widen_halves(p, out); }
    static inline void store(uint16_t *p, const Floats &v) { narrow_to_halves(p, v); }
#endif
};

// How many values a storage could not hold. Lanes are counted apart and added up now and then: a row costs little.
struct Lost {
    Words lanes = {};
    int64_t total = 0;

    // Those that turn infinite; with `floor`, also those above it that turn to zero.
    template <class S>
    static inline Words count(const Floats &v, const Floats *floor) {
        Words bits;
        std::memcpy(&bits, &v, sizeof bits);
        bits &= 0x7fffffffu;
        Words found = Words(bits >= S::kInfinite);
        if (S::kZero && floor) {
            Words least;
            std::memcpy(&least, floor, sizeof least);
            found |= Words(bits <= S::kZero) & Words(bits > least);
        }
        return found & 1u;
    }
    inline void add_up() {
        for (int i = 0; i < kLanes; ++i) total += lanes[i];
        lanes = Words{};
    }
};
