// Random graphs row by row: gamlp/kernel/generate.py says what is computed and holds the same in numpy.
#pragma once

#include <cstdint>
#include <vector>

namespace gamlp {

// A permutation of 0..count-1 that can be computed both ways: a row of the table of `permutations`.
struct Permutation {
    uint64_t count, mask, shift, factors[3], summands[2], inverses[3];

    uint64_t step(uint64_t x) const {
        x = (x * factors[0] + summands[0]) & mask;
        x = ((x ^ (x >> shift)) * factors[1] + summands[1]) & mask;
        return ((x ^ (x >> shift)) * factors[2]) & mask;
    }
    uint64_t step_back(uint64_t x) const {
        x = (x * inverses[2]) & mask;
        x = (((x ^ (x >> shift)) - summands[1]) * inverses[1]) & mask;
        return (((x ^ (x >> shift)) - summands[0]) * inverses[0]) & mask;
    }
    uint64_t to(uint64_t x) const {
        do x = step(x);
        while (x >= count);
        return x;
    }
    uint64_t from(uint64_t x) const {
        do x = step_back(x);
        while (x >= count);
        return x;
    }
};
static_assert(sizeof(Permutation) == 11 * 8, "as the table has it");

struct Matching {
    const int64_t *offsets;  // [count + 1]
    int64_t count;
    const int32_t *index;  // hidden place of every 64th stub
    const int64_t *bounds, *firsts;
    const Permutation *joins;  // [classes + 1]
    int64_t classes;
    Permutation hidden;
    int64_t inside, group, closeness, closest;
    uint64_t pair_key;
};

// How many neighbours row begin + i · step has goes to counts[i]; all of them are returned.
std::vector<int32_t> matched_rows(const Matching &m, int64_t begin, int64_t step, int64_t *counts, int64_t rows,
                                  int64_t *kept, int64_t *stubs);

// out[i] = the hidden place of stub i · step.
void index_offsets(const int64_t *offsets, int64_t count, int64_t step, int32_t *out, int64_t places);

// out[i] = centre of label i + noise.
void noisy_rows(const int32_t *labels, int64_t rows, const float *centres, int64_t width, const float *values,
                uint64_t key, int64_t begin, float *out);

}  // namespace gamlp
