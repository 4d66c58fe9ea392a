// The hot loop, compiled once per instruction set: a translation unit names GAMLP_HOP and GAMLP_SCALE and includes this file.
// Multiplication and addition are not contracted (-ffp-contract=off), so every instruction set gives the same bytes.
// No standard library templates here: a copy compiled for AVX must not be picked by the linker for all machines.
#include "hop.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace gamlp {
namespace {

typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(32)));
typedef uint16_t Halves __attribute__((vector_size(16), aligned(2), may_alias));

struct Float32 {
    using Element = float;
    static inline void load(const float *p, Floats &out) { out = *reinterpret_cast<const Floats *>(p); }
    static inline int store(float *p, const Floats &v) {
        *reinterpret_cast<Floats *>(p) = v;
        return 0;
    }
};

struct BFloat16 {
    using Element = uint16_t;
    static inline void load(const uint16_t *p, Floats &out) {
        Words w = __builtin_convertvector(*reinterpret_cast<const Halves *>(p), Words) << 16;
        __builtin_memcpy(&out, &w, sizeof w);
    }
    static inline int store(uint16_t *p, const Floats &v) {  // round to nearest, ties to even
        Words w;
        __builtin_memcpy(&w, &v, sizeof w);
        w = (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
        *reinterpret_cast<Halves *>(p) = __builtin_convertvector(w, Halves);
        return 0;
    }
};

#if !defined(__F16C__)
inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fff;
    float f;
    if (magnitude < 0x0400) {  // zero and subnormals: exact in float32
        f = float(magnitude) * 0x1p-24f;
        uint32_t bits;
        __builtin_memcpy(&bits, &f, 4);
        bits |= sign;
        __builtin_memcpy(&f, &bits, 4);
        return f;
    }
    const uint32_t bits = sign | (magnitude >= 0x7c00 ? 0x7f800000u | (magnitude << 13) : (magnitude << 13) + 0x38000000u);
    __builtin_memcpy(&f, &bits, 4);
    return f;
}

inline uint16_t float_to_half(float f) {  // round to nearest, ties to even
    uint32_t bits;
    __builtin_memcpy(&bits, &f, 4);
    const uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) return uint16_t(sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
    if (magnitude < 0x38800000) {  // subnormal: let float32 addition round at 2^-24
        float m;
        __builtin_memcpy(&m, &magnitude, 4);
        m += 0.5f;
        uint32_t rounded;
        __builtin_memcpy(&rounded, &m, 4);
        return uint16_t(sign | (rounded - 0x3f000000));
    }
    return uint16_t(sign | ((magnitude - 0x38000000 + 0x0fff + ((magnitude >> 13) & 1)) >> 13));
}
#endif

struct Float16 {
    using Element = uint16_t;
    static inline void load(const uint16_t *p, Floats &out) {
#if defined(__F16C__)
        out = (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
#else
        for (int i = 0; i < kLanes; ++i) out[i] = half_to_float(p[i]);
#endif
    }
    static inline int store(uint16_t *p, const Floats &v) {
#if defined(__F16C__)
        _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
        for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(v[i]);
#endif
        int overflown = 0;
        for (int i = 0; i < kLanes; ++i) overflown += (p[i] & 0x7c00) == 0x7c00;
        return overflown;
    }
};

constexpr int64_t kAhead = 16;  // edges; 8 and 32 were no better
constexpr int kMost = 16;       // vectors in a tile: as many sums as there are registers

template <class S, int V, bool Weighted>
inline int sum_tile(const Hop &h, int64_t first, int64_t own, int64_t last, int64_t self, int64_t column, float factor,
                    typename S::Element *dst) {
    using Element = typename S::Element;
    const Element *src = static_cast<const Element *>(h.src) + column;
    Floats sum[V] = {};
    if (h.accumulate)
        for (int v = 0; v < V; ++v) S::load(dst + v * kLanes, sum[v]);
    auto add = [&](int64_t node, float weight) {
        const Element *row = src + node * h.src_stride;
        for (int v = 0; v < V; ++v) {
            Floats x;
            S::load(row + v * kLanes, x);
            if (Weighted)
                sum[v] += x * weight;
            else
                sum[v] += x;
        }
    };
    auto edges = [&](int64_t from, int64_t to) {
        for (int64_t e = from; e < to; ++e) {
            const int64_t ahead = e + kAhead < h.entries ? e + kAhead : h.entries - 1;
            const char *next = reinterpret_cast<const char *>(src + int64_t(h.neighbours[ahead]) * h.src_stride);
            constexpr int kBytes = V * kLanes * int(sizeof(Element));
            for (int b = 0; b < kBytes; b += 64) __builtin_prefetch(next + b, 0, 3);
            if (kBytes % 64) __builtin_prefetch(next + kBytes - 1, 0, 3);
            add(h.neighbours[e], Weighted ? h.weights[e] : 1.0f);
        }
    };
    edges(first, own);
    if (self >= 0) add(self, 1.0f);
    edges(own, last);
    int overflown = 0;
    for (int v = 0; v < V; ++v) {
        sum[v] *= factor;
        overflown += S::store(dst + v * kLanes, sum[v]);
    }
    return overflown;
}

template <class S, bool Weighted>
inline int sum_vectors(int vectors, const Hop &h, int64_t first, int64_t own, int64_t last, int64_t self, int64_t column,
                       float factor, typename S::Element *dst) {
    switch (vectors) {
#define GAMLP_CASE(V) \
    case V: return sum_tile<S, V, Weighted>(h, first, own, last, self, column, factor, dst);
        GAMLP_CASE(1) GAMLP_CASE(2) GAMLP_CASE(3) GAMLP_CASE(4) GAMLP_CASE(5) GAMLP_CASE(6)
        GAMLP_CASE(7) GAMLP_CASE(8) GAMLP_CASE(9) GAMLP_CASE(10) GAMLP_CASE(11) GAMLP_CASE(12)
        GAMLP_CASE(13) GAMLP_CASE(14) GAMLP_CASE(15) GAMLP_CASE(16)
#undef GAMLP_CASE
    }
    return 0;
}

inline int64_t place_of(const int32_t *neighbours, int64_t first, int64_t last, int64_t self) {
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (neighbours[middle] < self)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

template <class S, bool Weighted>
int64_t sum_rows(const Hop &h) {
    const int vectors = int(h.width / kLanes);
    const int tiles = (vectors + kMost - 1) / kMost;
    const int wide = (vectors + tiles - 1) / tiles;
    int64_t overflown = 0;
    for (int64_t i = h.begin; i < h.end; ++i) {
        const int64_t row = h.rows ? h.rows[i] - h.start : i;
        const int64_t self = h.start + row;
        const int64_t first = h.offsets[row], last = h.offsets[row + 1];
        const int64_t own = h.loops ? place_of(h.neighbours, first, last, self) : last;
        const float factor = h.factors ? h.factors[self] : 1.0f;
        auto *dst = static_cast<typename S::Element *>(h.dst) + (h.rows ? i : self) * h.dst_stride;
        for (int done = 0; done < vectors; done += wide) {
            const int now = vectors - done < wide ? vectors - done : wide;
            overflown += sum_vectors<S, Weighted>(now, h, first, own, last, h.loops ? self : -1, int64_t(done) * kLanes,
                                                factor, dst + int64_t(done) * kLanes);
        }
    }
    return overflown;
}

template <class S>
int64_t sum_any(const Hop &h) {
    return h.weights ? sum_rows<S, true>(h) : sum_rows<S, false>(h);
}

template <class In, class Out>
int64_t scale_rows(const Scale &s) {
    int64_t overflown = 0;
    for (int64_t i = s.begin; i < s.end; ++i) {
        const auto *src = static_cast<const typename In::Element *>(s.src) + (s.rows ? s.rows[i] : i) * s.src_stride;
        auto *dst = static_cast<typename Out::Element *>(s.dst) + i * s.dst_stride;
        const float factor = s.row_factors ? s.row_factors[i] : 1.0f;
        int64_t column = 0;
        Floats x, c;
        for (; column + kLanes <= s.width; column += kLanes) {
            In::load(src + column, x);
            x *= factor;
            if (s.column_factors) {
                Float32::load(s.column_factors + column, c);
                x *= c;
            }
            overflown += Out::store(dst + column, x);
        }
        if (const int64_t rest = s.width - column) {
            typename In::Element in[kLanes] = {};
            typename Out::Element out[kLanes];
            float factors[kLanes] = {};
            __builtin_memcpy(in, src + column, rest * sizeof in[0]);
            In::load(in, x);
            x *= factor;
            if (s.column_factors) {
                __builtin_memcpy(factors, s.column_factors + column, rest * sizeof factors[0]);
                Float32::load(factors, c);
                x *= c;
            }
            overflown += Out::store(out, x);
            __builtin_memcpy(dst + column, out, rest * sizeof out[0]);
        }
    }
    return overflown;
}

template <class In>
int64_t scale_from(const Scale &s, Storage out) {
    switch (out) {
        case Storage::float32: return scale_rows<In, Float32>(s);
        case Storage::float16: return scale_rows<In, Float16>(s);
        case Storage::bfloat16: return scale_rows<In, BFloat16>(s);
    }
    return 0;
}

}  // namespace

int64_t GAMLP_SCALE(const Scale &s, Storage in, Storage out) {
    switch (in) {
        case Storage::float32: return scale_from<Float32>(s, out);
        case Storage::float16: return scale_from<Float16>(s, out);
        case Storage::bfloat16: return scale_from<BFloat16>(s, out);
    }
    return 0;
}

int64_t GAMLP_HOP(const Hop &h, Storage storage) {
    switch (storage) {
        case Storage::float32: return sum_any<Float32>(h);
        case Storage::float16: return sum_any<Float16>(h);
        case Storage::bfloat16: return sum_any<BFloat16>(h);
    }
    return 0;
}

}  // namespace gamlp
