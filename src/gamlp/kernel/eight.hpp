// Eight values at a time: the vectors that gcc and clang share, or a struct that calculates like them. Included by
// storage.hpp, inside an anonymous namespace, once per instruction set.
#if defined(GAMLP_VECTORS)
typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(32)));
typedef int32_t Integers __attribute__((vector_size(32)));
typedef uint16_t Halves __attribute__((vector_size(16), aligned(2), may_alias));
// Not a template: as an argument of one a type loses its attributes.
#define GAMLP_CONVERT(values, To) __builtin_convertvector(values, To)
#else
template <class T>
struct Eight {
    T lane[8];

    Eight() = default;  // {}: zeros
    Eight(T all) {  // not explicit: a number may stand beside a vector
        for (T &one : lane) one = all;
    }
    template <class U>
    explicit Eight(const Eight<U> &other) {
        for (int i = 0; i < 8; ++i) lane[i] = T(other.lane[i]);
    }
    T operator[](int i) const { return lane[i]; }

#define GAMLP_EACH(op)                                                                \
    friend inline Eight operator op(const Eight &a, const Eight &b) {                 \
        Eight found;                                                                  \
        for (int i = 0; i < 8; ++i) found.lane[i] = T(a.lane[i] op b.lane[i]);        \
        return found;                                                                 \
    }                                                                                 \
    inline Eight &operator op##=(const Eight &other) { return *this = *this op other; }
    GAMLP_EACH(+) GAMLP_EACH(-) GAMLP_EACH(*) GAMLP_EACH(&) GAMLP_EACH(|)
#undef GAMLP_EACH
#define GAMLP_EACH(op)                                                                \
    friend inline Eight operator op(const Eight &a, int bits) {                       \
        Eight found;                                                                  \
        for (int i = 0; i < 8; ++i) found.lane[i] = T(a.lane[i] op bits);             \
        return found;                                                                 \
    }
    GAMLP_EACH(<<) GAMLP_EACH(>>)
#undef GAMLP_EACH
    friend inline Eight operator~(const Eight &a) {
        Eight found;
        for (int i = 0; i < 8; ++i) found.lane[i] = T(~a.lane[i]);
        return found;
    }
// All bits where it is so, none where not.
#define GAMLP_EACH(op)                                                                \
    friend inline Eight<int32_t> operator op(const Eight &a, const Eight &b) {        \
        Eight<int32_t> found;                                                         \
        for (int i = 0; i < 8; ++i) found.lane[i] = -int32_t(a.lane[i] op b.lane[i]); \
        return found;                                                                 \
    }
    GAMLP_EACH(<) GAMLP_EACH(<=) GAMLP_EACH(>) GAMLP_EACH(>=)
#undef GAMLP_EACH
};
using Floats = Eight<float>;
using Words = Eight<uint32_t>;
using Integers = Eight<int32_t>;
using Halves = Eight<uint16_t>;
#define GAMLP_CONVERT(values, To) To(values)
#endif
