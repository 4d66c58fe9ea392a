// One hop over a range of rows: dst[i] = factors[i] * sum_j w[i,j] * src[j], neighbours in ascending order and in blocks:
// kBlock entries are summed by themselves, then sums of kBlock blocks, and so on, so that long rows keep their digits.
// And rows from one storage to another: dst[i, c] = src[rows[i], c] * row_factors[i] * column_factors[c].
#pragma once
#include <cstdint>

namespace gamlp {

enum class Storage : int { float32 = 0, float16 = 1, bfloat16 = 2 };

constexpr int kLanes = 8;  // floats in a vector; a row's width is a multiple of it
#ifndef GAMLP_BLOCK
#define GAMLP_BLOCK 128
#endif
constexpr int64_t kBlock = GAMLP_BLOCK;  // entries of a row (neighbours and itself) that are summed by themselves

struct Hop {
    const int64_t *offsets;     // [rows + 1] of this block, from 0
    const int32_t *neighbours;  // [entries], ascending within a row, no self-loops
    const float *weights;       // [entries] or null
    const float *factors;       // [n] or null
    const float *floors;        // [n] or null: values above their row's floor must not turn to zero
    const uint8_t *nonzero;     // [n / 8] or null: rows of src whose bit (lowest first) is 0 hold zeros and are not read
    const int64_t *rows;        // global row numbers to compute, or null for all of begin..end
    int64_t entries;
    int64_t start;       // global number of the block's first row
    int64_t begin, end;  // rows of the block, or positions in `rows`
    bool loops;          // add the row itself, weight 1, in its ascending place
    const void *src;     // row g at src + g * src_stride
    int64_t src_stride;  // in elements
    void *dst;           // row g at dst + g * dst_stride; with `rows`, position i at dst + i * dst_stride
    int64_t dst_stride;
    int64_t width;    // columns, a multiple of kLanes
    bool accumulate;  // sums begin with what dst holds: entries of a row may come in several goes, kBlock in all
    bool near = false;        // rows are fetched into all caches and further ahead: faster on some processors
    int64_t nodes = 0;        // rows of src
    int window_bits = 0;      // with scratch: rows of src are read in windows of 2^window_bits rows
    void *scratch = nullptr;  // or window_bytes() of memory of this thread's own; not with rows, nonzero or accumulate
};

// Windows of a hop: so many entries and pieces (rows, or blocks of long rows) are summed window by window at a time, and a
// state has at most so many windows.
constexpr int64_t kWindowEntries = 1 << 22, kWindowPieces = 1 << 17, kWindowAhead = 128, kMostWindows = 64;
constexpr int kWindowVectors = 4;  // rows of at most so many vectors: wider ones miss a page less often than lines

inline int64_t window_bytes(int64_t windows, bool weighted) {
    return kWindowPieces * (kWindowVectors * kLanes * 4 + windows) +
           windows * (kWindowEntries + kWindowAhead) * (weighted ? 8 : 4);
}

struct Scale {
    const void *src;
    int64_t src_stride;
    void *dst;
    int64_t dst_stride;
    const int64_t *rows;          // rows of src, or null for the same rows
    const float *row_factors;     // or null
    const float *column_factors;  // or null
    const float *row_floors;      // or null; a value above row_floors[i] * column_floors[c] must not turn to zero
    const float *column_floors;   // or null
    int64_t begin, end, width;    // any width
};

// Both return the number of values that the storage cannot hold: those that it turns to infinity (or that are no finite
// numbers), and, where there are floors, those above them that it turns to zero.
using HopFunction = int64_t (*)(const Hop &, Storage);
using ScaleFunction = int64_t (*)(const Scale &, Storage in, Storage out);

int64_t hop_baseline(const Hop &, Storage);
int64_t hop_avx2(const Hop &, Storage);
int64_t hop_avx512(const Hop &, Storage);
int64_t scale_baseline(const Scale &, Storage, Storage);
int64_t scale_avx2(const Scale &, Storage, Storage);
int64_t scale_avx512(const Scale &, Storage, Storage);

}  // namespace gamlp
