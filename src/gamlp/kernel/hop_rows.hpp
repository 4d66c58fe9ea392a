// The hot loop, compiled once per instruction set: a translation unit names GAMLP_HOP and GAMLP_SCALE and includes this file.
// Multiplication and addition are not contracted (-ffp-contract=off), so every instruction set gives the same bytes.
// No standard library templates here: a copy compiled for AVX must not be picked by the linker for all machines.
#include "compilers.hpp"
#include "hop.hpp"

#if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#define GAMLP_F16C 1
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace gamlp {
namespace {

#include "storage.hpp"

// Prefetched into the second cache: the first one's few buffers for misses were the bound of a processor with AVX-512. Others
// are faster with `near`, into the first and further ahead; who calls may try both. The narrower a row, the more edges ahead.
// benchmarks/tried.py compiles these loops with other values, and with plain sums.
#ifdef GAMLP_AHEAD
constexpr int64_t edges_ahead(int, bool = false) { return GAMLP_AHEAD; }
constexpr int cache_of(bool) { return GAMLP_HINT; }
#else
constexpr int64_t edges_ahead(int bytes, bool near = false) {
    return near ? (bytes <= 224 ? 48 : 24) : bytes <= 64 ? 48 : bytes <= 128 ? 32 : 24;
}
constexpr int cache_of(bool near) { return near ? 3 : 2; }  // as __builtin_prefetch has it: 3 all, 2 from the second on
#endif
constexpr int kMost = 16;                  // vectors in a tile: as many sums as there are registers
constexpr int kLevels = 4;                 // of sums of blocks: with kBlock^5 entries they are more than a graph has nodes
constexpr int64_t kRowsCounted = 1 << 16;  // lost values of so many rows fit a lane
constexpr int64_t kKeptEntries = 4096, kKeptRows = 1024;  // of a chunk whose zero rows are left out

// A row's entries: neighbours first..last, and the row itself before the neighbour at `own` if self is not -1.
struct Row {
    int64_t first, own, last, self;
    inline int64_t entries() const { return last - first + (self >= 0); }
    // Entries from..to of them.
    inline Row part(int64_t from, int64_t to) const {
        const int64_t loop = self < 0 ? entries() : own - first;  // where the row itself stands among its entries
        const int64_t begin = first + from - (from > loop), end = first + to - (to > loop);
        const bool inside = self >= 0 && from <= loop && loop < to;
        return {begin, inside ? own : end, end, inside ? self : -1};
    }
};

// Entries whose rows of src are not zero, copied one after the other: what prefetching looks ahead in has no holes. A sum
// that begins at +0 is never -0, and such a sum plus a zero of either sign is itself: the bytes stay.
template <int64_t Size>
struct Kept {
    int32_t neighbours[Size];
    float weights[Size];
    int64_t count = 0;

    static inline bool holds(const Hop &h, int64_t node) { return h.nonzero[node >> 3] >> (node & 7) & 1; }
    // What is left of entries first..last and, if it is not -1, of the row itself. No branch on a bit or on where the row
    // stands among them, which nobody could foresee.
    inline Row add(const Hop &h, int64_t first, int64_t last, int64_t self) {
        const int64_t begun = count;
        int64_t own = begun;
        for (int64_t e = first; e < last; ++e) {
            const int32_t node = h.neighbours[e];
            neighbours[count] = node;
            if (h.weights) weights[count] = h.weights[e];
            const bool kept = holds(h, node);
            count += kept;
            own += kept & (node < self);
        }
        return {begun, own, count, self >= 0 && holds(h, self) ? self : -1};
    }
    inline Hop as_hop(const Hop &h) const {
        Hop some = h;
        some.neighbours = neighbours;
        some.weights = h.weights ? weights : nullptr;
        some.entries = count;
        return some;
    }
};

// sum += the row's entries, one after the other. Inlined wherever it stands: called, it keeps its sums in memory (1.1x).
template <class S, int V, bool Weighted, bool Near = false>
GAMLP_INLINE void sum_entries(const Hop &h, const Row &row, int64_t column, Floats (&sum)[V]) {
    using Element = typename S::Element;
    const Element *src = static_cast<const Element *>(h.src) + column;
    auto add = [&](int64_t node, float weight) GAMLP_INLINED {
        const Element *values = src + node * h.src_stride;
        for (int v = 0; v < V; ++v) {
            Floats x;
            S::load(values + v * kLanes, x);
            if (Weighted)
                sum[v] += x * weight;
            else
                sum[v] += x;
        }
    };
    auto edges = [&](int64_t from, int64_t to) GAMLP_INLINED {
        constexpr int kBytes = V * kLanes * int(sizeof(Element));
        constexpr int64_t kAhead = edges_ahead(kBytes, Near);
        constexpr int kCache = cache_of(Near);
        for (int64_t e = from; e < to; ++e) {
            const int64_t ahead = e + kAhead < h.entries ? e + kAhead : h.entries - 1;
            const char *next = reinterpret_cast<const char *>(src + int64_t(h.neighbours[ahead]) * h.src_stride);
            for (int b = 0; b < kBytes; b += 64) prefetch<kCache>(next + b);
            if (kBytes % 64) prefetch<kCache>(next + kBytes - 1);
            add(h.neighbours[e], Weighted ? h.weights[e] : 1.0f);
        }
    };
    edges(row.first, row.own);
    if (row.self >= 0) add(row.self, 1.0f);
    edges(row.own, row.last);
}

// dst = factor * sum, in the storage type.
template <class S, int V>
GAMLP_INLINE void store_sum(const Floats (&sum)[V], float factor, const float *floor,
                                                     typename S::Element *dst, Lost &lost) {
    const Floats least = Floats{} + (floor ? *floor : 0.0f);
    Words found = {};
    for (int v = 0; v < V; ++v) {
        const Floats x = sum[v] * factor;
        found += Lost::count<S>(x, floor ? &least : nullptr);
        S::store(dst + v * kLanes, x);
    }
    lost.lanes += found;
}

template <class S, int V>
GAMLP_INLINE void begin_sum(const Hop &h, const typename S::Element *dst, Floats (&sum)[V]) {
    if (h.accumulate)
        for (int v = 0; v < V; ++v) S::load(dst + v * kLanes, sum[v]);
}

// sum += the sum of one block. Called: beside the levels of sum_blocks its sums would not stay in registers (2x).
template <class S, int V, bool Weighted>
GAMLP_NOINLINE void add_block(const Hop &h, const Row &row, int64_t column, Floats (&sum)[V]) {
    Floats part[V] = {};
    sum_entries<S, V, Weighted>(h, row, column, part);
    for (int v = 0; v < V; ++v) sum[v] += part[v];
}

// Sums of blocks: of kBlock blocks, of kBlock of these, and so on, in the order in which they come.
template <int V>
struct Levels {
    Floats sums[kLevels][V] = {};  // sums[0]: of blocks since sums[1] was last added to
    int64_t blocks = 0;

    // sums[0] has been given one block more.
    inline void close_block() {
        int64_t done = ++blocks;
        for (int level = 0; level + 1 < kLevels && done % kBlock == 0; ++level, done /= kBlock)
            for (int v = 0; v < V; ++v) {
                sums[level + 1][v] += sums[level][v];
                sums[level][v] = Floats{};
            }
    }
    inline void add_to(Floats (&sum)[V]) {
        for (int level = 0; level + 1 < kLevels; ++level)
            for (int v = 0; v < V; ++v) sums[level + 1][v] += sums[level][v];
        for (int v = 0; v < V; ++v) sum[v] += sums[kLevels - 1][v];
    }
};

// A row of more than kBlock entries. Not inlined, and with nothing of the caller's: rows of ordinary length keep their
// sums in registers.
template <class S, int V, bool Weighted>
GAMLP_NOINLINE void sum_blocks(const Hop &h, const Row &row, int64_t column, float factor, const float *floor,
                                          typename S::Element *dst, Lost &lost) {
    Levels<V> levels;
    const int64_t entries = row.entries();
    for (int64_t from = 0; from < entries; from += kBlock) {
        const int64_t to = from + kBlock < entries ? from + kBlock : entries;
        if (h.nonzero) {
            Kept<kBlock + 1> kept;
            const Row part = row.part(from, to), some = kept.add(h, part.first, part.last, part.self);
            add_block<S, V, Weighted>(kept.as_hop(h), some, column, levels.sums[0]);
        } else {
            add_block<S, V, Weighted>(h, row.part(from, to), column, levels.sums[0]);
        }
        levels.close_block();
    }
    Floats sum[V] = {};
    begin_sum<S, V>(h, dst, sum);
    levels.add_to(sum);
    store_sum<S, V>(sum, factor, floor, dst, lost);
}

template <class S, int V, bool Weighted, bool Near = false>
inline void sum_tile(const Hop &h, const Row &row, int64_t column, float factor, const float *floor,
                     typename S::Element *dst, Lost &lost) {
    if (row.entries() > kBlock) return sum_blocks<S, V, Weighted>(h, row, column, factor, floor, dst, lost);
    Floats sum[V] = {};
    begin_sum<S, V>(h, dst, sum);
    sum_entries<S, V, Weighted, Near>(h, row, column, sum);
    store_sum<S, V>(sum, factor, floor, dst, lost);
}

// The first of first..last that is not below `self`. No branch on what is found: half of them would be mispredicted.
inline int64_t place_of(const int32_t *neighbours, int64_t first, int64_t last, int64_t self) {
    int64_t count = last - first;
    while (count > 1) {
        const int64_t half = count / 2;
        first += half * (neighbours[first + half - 1] < self);
        count -= half;
    }
    return first + (count == 1 && neighbours[first] < self);
}

inline int64_t node_of(const Hop &h, int64_t i) { return h.rows ? h.rows[i] : h.start + i; }

inline Row row_of(const Hop &h, int64_t i) {
    const int64_t self = node_of(h, i), first = h.offsets[self - h.start], last = h.offsets[self - h.start + 1];
    return {first, h.loops ? place_of(h.neighbours, first, last, self) : last, last, h.loops ? self : -1};
}

// Rows to sum, position by position: entries as `all` has them, or, of rows that are one block, as `some` has them.
struct Range {
    const Hop &all, &some;
    const Row *rows;  // or null: found in `all`
    int64_t begin, end;
};

// One tile of a range of rows: how many vectors it has is asked once a range, not once a row.
template <class S, int V, bool Weighted, bool Near>
GAMLP_NOINLINE void sum_range(const Range &range, int64_t column, Lost &lost) {
    const Hop &h = range.all;
    for (int64_t i = range.begin; i < range.end; ++i) {
        const Row row = range.rows ? range.rows[i - range.begin] : row_of(h, i);
        const int64_t self = node_of(h, i);
        auto *dst = static_cast<typename S::Element *>(h.dst) + (h.rows ? i : self) * h.dst_stride + column;
        sum_tile<S, V, Weighted, Near>(row.entries() > kBlock ? h : range.some, row, column,
                                       h.factors ? h.factors[self] : 1.0f, h.floors ? h.floors + self : nullptr, dst, lost);
        if (i % kRowsCounted == 0) lost.add_up();
    }
}

template <class S, bool Weighted>
void sum_vectors(int vectors, const Range &range, int64_t column, Lost &lost) {
    const bool near = range.all.near;
    switch (vectors) {
#define GAMLP_CASE(V)                                                            \
    case V:                                                                      \
        return near ? sum_range<S, V, Weighted, true>(range, column, lost)       \
                    : sum_range<S, V, Weighted, false>(range, column, lost);
        GAMLP_CASE(1) GAMLP_CASE(2) GAMLP_CASE(3) GAMLP_CASE(4) GAMLP_CASE(5) GAMLP_CASE(6)
        GAMLP_CASE(7) GAMLP_CASE(8) GAMLP_CASE(9) GAMLP_CASE(10) GAMLP_CASE(11) GAMLP_CASE(12)
        GAMLP_CASE(13) GAMLP_CASE(14) GAMLP_CASE(15) GAMLP_CASE(16)
#undef GAMLP_CASE
    }
}

// Rows wider than a tile are summed row by row, in tiles that are as even as can be.
template <class S, bool Weighted>
void sum_tiles(const Range &range, Lost &lost) {
    const int vectors = int(range.all.width / kLanes), tiles = (vectors + kMost - 1) / kMost;
    if (tiles <= 1) return sum_vectors<S, Weighted>(vectors, range, 0, lost);
    const int tile = (vectors + tiles - 1) / tiles;
    for (int64_t i = range.begin; i < range.end; ++i) {
        const Row row = range.rows ? range.rows[i - range.begin] : row_of(range.all, i);
        for (int done = 0; done < vectors; done += tile) {
            const int now = vectors - done < tile ? vectors - done : tile;
            sum_vectors<S, Weighted>(now, {range.all, range.some, &row, i, i + 1}, int64_t(done) * kLanes, lost);
        }
    }
}

// Chunks of rows without the entries that are zero; rows of several blocks leave them out block by block.
template <class S, bool Weighted>
void sum_nonzero(const Hop &h, Lost &lost) {
    Row rows[kKeptRows];
    for (int64_t begin = h.begin, end; begin < h.end; begin = end) {
        Kept<kKeptEntries> kept;
        for (end = begin; end < h.end && end - begin < kKeptRows && kept.count + kBlock < kKeptEntries; ++end) {
            const int64_t self = node_of(h, end), first = h.offsets[self - h.start], last = h.offsets[self - h.start + 1];
            const bool one_block = last - first + h.loops <= kBlock;
            rows[end - begin] = one_block ? kept.add(h, first, last, h.loops ? self : -1) : row_of(h, end);
        }
        sum_tiles<S, Weighted>({h, kept.as_hop(h), rows, begin, end}, lost);
    }
}

#include "windows.hpp"

template <class S, bool Weighted>
int64_t sum_rows(const Hop &h) {
    Lost lost;
    if (h.scratch)
        sum_by_windows<S, Weighted>(h, lost);
    else if (h.nonzero)
        sum_nonzero<S, Weighted>(h, lost);
    else
        sum_tiles<S, Weighted>({h, h, nullptr, h.begin, h.end}, lost);
    lost.add_up();
    return lost.total;
}

template <class S>
int64_t sum_any(const Hop &h) {
    return h.weights ? sum_rows<S, true>(h) : sum_rows<S, false>(h);
}

template <class In, class Out>
int64_t scale_rows(const Scale &s) {
    Lost lost;
    const bool floors = s.row_floors || s.column_floors;
    for (int64_t i = s.begin; i < s.end; ++i) {
        const auto *src = static_cast<const typename In::Element *>(s.src) + (s.rows ? s.rows[i] : i) * s.src_stride;
        auto *dst = static_cast<typename Out::Element *>(s.dst) + i * s.dst_stride;
        const float factor = s.row_factors ? s.row_factors[i] : 1.0f;
        const float floor = s.row_floors ? s.row_floors[i] : 1.0f;
        auto convert = [&](const typename In::Element *from, typename Out::Element *into, const float *factors,
                           const float *column_floors) {
            Floats x, c;
            In::load(from, x);
            x *= factor;
            if (factors) {
                Float32::load(factors, c);
                x *= c;
            }
            Floats least = Floats{} + floor;
            if (column_floors) {
                Float32::load(column_floors, c);
                least *= c;
            }
            lost.lanes += Lost::count<Out>(x, floors ? &least : nullptr);
            Out::store(into, x);
        };
        int64_t column = 0;
        for (; column + kLanes <= s.width; column += kLanes)
            convert(src + column, dst + column, s.column_factors ? s.column_factors + column : nullptr,
                    s.column_floors ? s.column_floors + column : nullptr);
        if (const int64_t rest = s.width - column) {
            typename In::Element in[kLanes] = {};
            typename Out::Element out[kLanes];
            float factors[kLanes] = {}, column_floors[kLanes] = {};
            std::memcpy(in, src + column, rest * sizeof in[0]);
            if (s.column_factors) std::memcpy(factors, s.column_factors + column, rest * sizeof factors[0]);
            if (s.column_floors) std::memcpy(column_floors, s.column_floors + column, rest * sizeof factors[0]);
            convert(in, out, s.column_factors ? factors : nullptr, s.column_floors ? column_floors : nullptr);
            std::memcpy(dst + column, out, rest * sizeof out[0]);
        }
        if (i % kRowsCounted == 0) lost.add_up();
    }
    lost.add_up();
    return lost.total;
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

#if defined(GAMLP_HOP)  // else who includes this file takes single tiles of it
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
#endif

}  // namespace gamlp
