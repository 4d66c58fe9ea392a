// What benchmarks compile for themselves: a plain read of memory, single tiles of the kernel's own loops (with other
// values of GAMLP_AHEAD, GAMLP_HINT and GAMLP_BLOCK), a cache that is counted instead of timed, delta-coded neighbours.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../src/gamlp/kernel/hop_rows.hpp"

using namespace gamlp;

namespace {

template <class S, int V>
int64_t sum_tiles(const Hop &h) {
    Lost lost;
    for (int64_t i = h.begin; i < h.end; ++i) {
        auto *dst = static_cast<typename S::Element *>(h.dst) + i * h.dst_stride;
        sum_tile<S, V, false>(h, row_of(h, i), 0, h.factors[i], nullptr, dst, lost);
    }
    return 0;
}

// A varint: seven bits a byte, the highest bit set where more follow.
inline uint32_t next_number(const uint8_t *&p) {
    uint32_t number = *p & 127, shift = 7;
    while (*p++ & 128) {
        number |= uint32_t(*p & 127) << shift;
        shift += 7;
    }
    return number;
}

}  // namespace

extern "C" {

// Eight streams of vectors: all that one core can ask of memory.
uint64_t read_memory(const uint64_t *data, size_t words) {
    constexpr int kStreams = 8;
    Words found[kStreams] = {};
    const size_t part = words / kStreams / 4 * 4;
    for (size_t i = 0; i < part; i += 4)
        for (int s = 0; s < kStreams; ++s) {
            Words w;
            __builtin_memcpy(&w, data + s * part + i, sizeof w);
            found[s] |= w;
        }
    for (int s = 1; s < kStreams; ++s) found[0] |= found[s];
    return found[0][0] | found[0][7];
}

// One tile of `vectors` vectors over rows begin..end; strides are as wide as given. Returns -1 for a tile it has not.
int64_t sum_rows_of(int storage, int vectors, const int64_t *offsets, const int32_t *neighbours, int64_t entries,
                    const float *factors, const void *src, void *dst, int64_t stride, int64_t begin, int64_t end) {
    const Hop h{offsets, neighbours, nullptr, factors, nullptr, nullptr, nullptr, entries, 0, begin,
                end,     true,       src,     stride,  dst,     stride,  vectors * kLanes, false};
    if (storage == 0 && vectors == 13) return sum_tiles<Float32, 13>(h);
    if (storage == 0 && vectors == 16) return sum_tiles<Float32, 16>(h);
    if (storage == 1 && vectors == 4) return sum_tiles<Float16, 4>(h);
    if (storage == 1 && vectors == 8) return sum_tiles<Float16, 8>(h);
    if (storage == 1 && vectors == 13) return sum_tiles<Float16, 13>(h);
    if (storage == 1 && vectors == 16) return sum_tiles<Float16, 16>(h);
    return -1;
}

// How many of the entries, in their order, miss a cache of `sets` sets of 16 rows that drops what was not read longest.
int64_t missed_rows(const int32_t *neighbours, int64_t entries, int64_t sets) {
    constexpr int kWays = 16;
    std::vector<int32_t> cache(size_t(sets) * kWays, -1);
    int64_t missed = 0;
    for (int64_t e = 0; e < entries; ++e) {
        const int32_t node = neighbours[e];
        int32_t *set = cache.data() + uint64_t(uint32_t(node) * 2654435769u) * uint64_t(sets) / (uint64_t(1) << 32) * kWays;
        int at = 0;
        while (at < kWays - 1 && set[at] != node) ++at;
        missed += set[at] != node;
        for (; at > 0; --at) set[at] = set[at - 1];
        set[0] = node;
    }
    return missed;
}

// Ascending neighbours as first id and gaps. Returns bytes; `into` has room for five a neighbour.
int64_t encode_gaps(const int64_t *offsets, const int32_t *neighbours, int64_t rows, uint8_t *into) {
    uint8_t *p = into;
    for (int64_t row = 0; row < rows; ++row) {
        uint32_t before = 0;
        for (int64_t e = offsets[row]; e < offsets[row + 1]; ++e) {
            uint32_t gap = uint32_t(neighbours[e]) - before;
            before = uint32_t(neighbours[e]);
            for (; gap > 127; gap >>= 7) *p++ = uint8_t(gap | 128);
            *p++ = uint8_t(gap);
        }
    }
    return p - into;
}

int64_t decode_gaps(const int64_t *offsets, const uint8_t *coded, int64_t rows, int32_t *into) {
    for (int64_t row = 0; row < rows; ++row) {
        uint32_t before = 0;
        for (int64_t e = offsets[row]; e < offsets[row + 1]; ++e) into[e] = int32_t(before += next_number(coded));
    }
    return 0;
}
}
