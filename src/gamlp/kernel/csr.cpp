// Two passes that stay in cache: scatter edges into buckets of neighbouring rows, then sort each bucket by itself.
#include "csr.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "compilers.hpp"
#include "threads.hpp"

namespace gamlp {
namespace {

struct Entry {
    uint32_t row, column;  // row counted from `start`
};

constexpr int64_t kBucketEntries = 1 << 15;  // 256 KiB: a bucket is sorted inside the second-level cache
constexpr int64_t kMostBuckets = 1 << 11;

// Uninitialised, on huge pages where the system grants them: fewer faults, and fewer misses of the page table while entries
// are scattered to two thousand places.
template <class T>
std::unique_ptr<T[]> on_huge_pages(int64_t count) {
    std::unique_ptr<T[]> data(new T[size_t(count)]);
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t kPage = 2 << 20;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data.get()), end = begin + size_t(count) * sizeof(T);
    const uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
    if (first < last) madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);  // a wish, not a need
#endif
    return data;
}

void check_column(int64_t column) {
    if (column < 0 || column >= INT32_MAX)
        throw std::invalid_argument("neighbour " + std::to_string(column) + " is not a node number from 0 to " +
                                    std::to_string(INT32_MAX - 1));
}

template <class Index, class Emit>
void for_each_entry(const Edges &e, int64_t from, int64_t to, Emit emit) {
    const auto *rows = static_cast<const Index *>(e.rows), *columns = static_cast<const Index *>(e.columns);
    for (int64_t i = from; i < to; ++i) {
        const int64_t r = rows[i], c = columns[i];
        if (e.drop_loops && r == c) continue;
        if (r >= e.start && r < e.stop) emit(r - e.start, c, i);
        if (e.symmetric && c >= e.start && c < e.stop) emit(c - e.start, r, i);
    }
}

struct Buckets {
    int shift;
    int64_t count;
    std::vector<int64_t> begin;  // [count + 1]
    std::unique_ptr<Entry[]> entries;
    std::unique_ptr<float[]> weights;
};

// Stable: within a bucket, entries keep the order of the list whatever the number of threads.
template <class Index>
Buckets scatter(const Edges &e, int threads) {
    const int64_t rows = e.stop - e.start;
    Buckets b{0, 1, {}, nullptr, nullptr};
    const int64_t wanted = std::min(kMostBuckets, e.count * (e.symmetric ? 2 : 1) / kBucketEntries + 1);
    while ((rows >> b.shift) >= wanted && (int64_t(1) << b.shift) < rows) ++b.shift;
    b.count = std::max<int64_t>(1, (rows + (int64_t(1) << b.shift) - 1) >> b.shift);
    std::vector<std::vector<int64_t>> place(threads, std::vector<int64_t>(b.count, 0));
    auto part = [&](int t) { return e.count * t / threads; };
    in_parallel(threads, [&](int t) {
        auto &mine = place[t];
        for_each_entry<Index>(e, part(t), part(t + 1), [&](int64_t r, int64_t, int64_t) { ++mine[r >> b.shift]; });
    });
    b.begin.assign(b.count + 1, 0);
    int64_t total = 0;
    for (int64_t k = 0; k < b.count; ++k) {
        b.begin[k] = total;
        for (int t = 0; t < threads; ++t) {
            const int64_t here = place[t][k];
            place[t][k] = total;
            total += here;
        }
    }
    b.begin[b.count] = total;
    b.entries = on_huge_pages<Entry>(total);
    if (e.weights) b.weights = on_huge_pages<float>(total);
    in_parallel(threads, [&](int t) {
        auto &mine = place[t];
        for_each_entry<Index>(e, part(t), part(t + 1), [&](int64_t r, int64_t c, int64_t i) {
            check_column(c);
            const int64_t at = mine[r >> b.shift]++;
            b.entries[at] = {uint32_t(r), uint32_t(c)};
            if (e.weights) b.weights[at] = e.weights[i];
        });
    });
    return b;
}

struct Scratch {
    std::vector<int64_t> next;
    std::vector<int32_t> columns;
    std::vector<std::pair<int32_t, float>> pairs;
};

// Sorts bucket k; its merged columns are left at the front of its own entries (as int32), its row counts in offsets.
int64_t sort_bucket(const Buckets &b, int64_t k, int64_t rows, int64_t *offsets, Scratch &s) {
    const int64_t first = k << b.shift, last = std::min(rows, (k + 1) << b.shift);
    const int64_t begin = b.begin[k], end = b.begin[k + 1], size = end - begin;
    s.next.assign(last - first + 1, 0);
    for (int64_t i = begin; i < end; ++i) ++s.next[b.entries[i].row - first + 1];
    for (int64_t r = 1; r <= last - first; ++r) s.next[r] += s.next[r - 1];
    std::vector<int64_t> &next = s.next;
    const bool weighted = bool(b.weights);
    if (weighted)
        s.pairs.resize(size);
    else
        s.columns.resize(size);
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = next[b.entries[i].row - first]++;
        if (weighted)
            s.pairs[at] = {int32_t(b.entries[i].column), b.weights[i]};
        else
            s.columns[at] = int32_t(b.entries[i].column);
    }
    auto *out = reinterpret_cast<int32_t *>(b.entries.get() + begin);
    int64_t kept = 0, from = 0;
    for (int64_t r = 0; r < last - first; ++r) {
        const int64_t to = next[r], before = kept;
        if (weighted) {
            std::stable_sort(s.pairs.begin() + from, s.pairs.begin() + to,
                             [](const auto &a, const auto &c) { return a.first < c.first; });
            for (int64_t i = from; i < to;) {
                double sum = 0;
                const int32_t column = s.pairs[i].first;
                for (; i < to && s.pairs[i].first == column; ++i) sum += s.pairs[i].second;
                b.weights[begin + kept] = float(sum);
                std::memcpy(out + kept++, &column, sizeof column);
            }
        } else {
            std::sort(s.columns.begin() + from, s.columns.begin() + to);
            for (int64_t i = from; i < to; ++i)
                if (i == from || s.columns[i] != s.columns[i - 1]) std::memcpy(out + kept++, &s.columns[i], 4);
        }
        offsets[first + r + 1] = kept - before;
        from = to;
    }
    return kept;
}

template <class Index>
Csr build(const Edges &e, int threads) {
    const int64_t rows = e.stop - e.start;
    Buckets b = scatter<Index>(e, threads);
    Csr csr;
    csr.offsets.reset(new int64_t[rows + 1]);
    csr.offsets[0] = 0;
    std::vector<int64_t> kept(b.count);
    std::atomic<int64_t> turn{0};
    in_parallel(threads, [&](int) {
        Scratch scratch;
        for (int64_t k; (k = turn++) < b.count;) kept[k] = sort_bucket(b, k, rows, csr.offsets.get(), scratch);
    });
    for (int64_t r = 0; r < rows; ++r) csr.offsets[r + 1] += csr.offsets[r];
    const int64_t total = csr.offsets[rows];
    csr.neighbours = on_huge_pages<int32_t>(total);
    if (e.weights) csr.weights = on_huge_pages<float>(total);
    turn = 0;
    in_parallel(threads, [&](int) {
        for (int64_t k; (k = turn++) < b.count;) {
            const int64_t at = csr.offsets[std::min(rows, k << b.shift)];
            std::memcpy(csr.neighbours.get() + at, b.entries.get() + b.begin[k], kept[k] * sizeof(int32_t));
            if (e.weights) std::memcpy(csr.weights.get() + at, b.weights.get() + b.begin[k], kept[k] * sizeof(float));
        }
    });
    return csr;
}

}  // namespace

Csr build_csr(const Edges &e, int threads) {
    threads = std::max(1, threads);
    return e.wide ? build<int64_t>(e, threads) : build<int32_t>(e, threads);
}

Spread spread(const int32_t *rows, const int32_t *columns, const float *weights, int64_t edges, bool symmetric,
              int64_t width, int64_t count) {
    // r / width by a multiplication, exact for 32 bits: a division costs as much as all the rest.
    const uint64_t inverse = width > 1 ? UINT64_MAX / uint64_t(width) + 1 : 0;
    auto range = [&](int32_t r) {
        const uint64_t k = width > 1 ? multiply(inverse, uint32_t(r)).high : uint32_t(r);
        if (r < 0 || int64_t(k) >= count) throw std::invalid_argument("row " + std::to_string(r) + " is in no range");
        return k;
    };
    Spread found;
    found.begin.reset(new int64_t[count + 1]());
    int64_t *next = found.begin.get() + 1;
    for (int64_t i = 0; i < edges; ++i) {
        ++next[range(rows[i])];
        if (symmetric) ++next[range(columns[i])];
    }
    for (int64_t k = 0; k < count; ++k) next[k] += next[k - 1];
    const int64_t total = found.begin[count];
    found.rows.reset(new int32_t[total]);
    found.columns.reset(new int32_t[total]);
    if (weights) found.weights.reset(new float[total]);
    std::vector<int64_t> place(found.begin.get(), found.begin.get() + count);
    auto put = [&](int32_t r, int32_t c, int64_t i) {
        const int64_t at = place[range(r)]++;
        found.rows[at] = r;
        found.columns[at] = c;
        if (weights) found.weights[at] = weights[i];
    };
    for (int64_t i = 0; i < edges; ++i) {
        put(rows[i], columns[i], i);
        if (symmetric) put(columns[i], rows[i], i);
    }
    return found;
}

}  // namespace gamlp
