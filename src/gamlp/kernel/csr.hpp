// Edge list → CSR rows, neighbours ascending, duplicates merged.
#pragma once
#include <cstdint>
#include <memory>

namespace gamlp {

struct Edges {
    const void *rows, *columns;  // int32 or int64
    bool wide;                   // int64
    const float *weights;        // or null
    int64_t count;
    int64_t start, stop;  // rows outside are passed over
    bool symmetric;       // also the reversed edge
    bool drop_loops;
};

struct Csr {
    std::unique_ptr<int64_t[]> offsets;     // [stop - start + 1]
    std::unique_ptr<int32_t[]> neighbours;  // [offsets[stop - start]]
    std::unique_ptr<float[]> weights;       // the same, or null
};

// Unweighted duplicates merge to one entry; weighted ones add up in double, in the order of the list. A neighbour that
// is not in [0, 2^31 - 1) is an std::invalid_argument.
Csr build_csr(const Edges &edges, int threads);

// Edges by range of `width` rows, in the order of the list within a range; `symmetric`: each edge both ways, one after
// the other. `begin[k]` is where range k starts; weights are null where edges have none.
struct Spread {
    std::unique_ptr<int32_t[]> rows, columns;
    std::unique_ptr<float[]> weights;
    std::unique_ptr<int64_t[]> begin;  // [count + 1]
};

Spread spread(const int32_t *rows, const int32_t *columns, const float *weights, int64_t edges, bool symmetric,
              int64_t width, int64_t count);

}  // namespace gamlp
