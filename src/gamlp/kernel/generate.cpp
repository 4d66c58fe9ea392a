// Stubs of some rows at a time, in steps: their other ends by arithmetic, then two lookups that are prefetched.
#include "generate.hpp"

#include <algorithm>

#include "compilers.hpp"

namespace gamlp {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr int64_t kWhole = 1 << 16, kStepBits = 6, kNoise = 1 << 12;
constexpr size_t kBatch = 2048;  // stubs that are looked up together
constexpr int64_t kAhead = 24;   // places prefetched ahead
constexpr int64_t kShort = 96;   // entries that are sorted by counting

uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

struct Stub {
    int64_t at;  // the stub at the other end, then its hidden place
    int32_t row, kind;
};

// Rows that are made together: their hidden places and the stubs of all.
struct Batch {
    std::vector<int64_t> hidden;
    std::vector<Stub> stubs;
    std::vector<int32_t> nodes;  // of one row
    std::vector<int8_t> kinds;
};

// Stubs first..last of one kind, numbered in its range `place`.
template <int kKind>
void join(const Matching &m, int32_t row, int64_t place, int64_t first, int64_t last, std::vector<Stub> &out) {
    const Permutation &q = m.joins[place];
    const int64_t base = m.firsts[place];
    for (int64_t stub = first; stub < last; ++stub) {
        const uint64_t local = uint64_t(stub - base), half = local >> 1;
        if (half >= q.count) continue;  // of an odd number one is left over
        const int64_t other = base + int64_t(local & 1 ? 2 * q.from(half) : 2 * q.to(half) + 1);
        // Exact: below 2^52, and a quotient is no nearer to the next whole number than 2^-16.
        const double at = kKind == 1 ? double((other + 1) * kWhole - 1) / double(m.inside)
                                     : double(other * kWhole) / double(kWhole - m.inside);
        out.push_back({int64_t(at), row, kKind});
    }
}

void join_group(const Matching &m, int32_t row, int64_t hidden, int64_t own, std::vector<Stub> &out) {
    const int64_t place = hidden * m.classes / m.count, first = m.bounds[place], size = m.bounds[place + 1] - first;
    const int64_t groups = std::max<int64_t>(1, size / m.group), group = (hidden - first) * groups / size;
    const int64_t from = first + (group * size + groups - 1) / groups;
    const int64_t to = first + ((group + 1) * size + groups - 1) / groups;
    for (int64_t other = from; other < to; ++other) {
        if (other == hidden) continue;
        const int64_t least = std::min(own, m.offsets[other + 1] - m.offsets[other]);
        const uint64_t low = uint64_t(std::min(hidden, other)), high = uint64_t(std::max(hidden, other));
        const uint64_t drawn = mixed(m.pair_key + (low << 32 | high) * kGolden) >> 32;
        if (int64_t(drawn) < std::min(least * m.closeness, m.closest)) out.push_back({other, row, 0});
    }
}

// From the stub at the other end to its hidden place.
void look_up(const Matching &m, std::vector<Stub> &stubs) {
    const int64_t count = int64_t(stubs.size());
    for (int64_t i = 0; i < count; ++i) {
        if (i + 2 * kAhead < count && stubs[i + 2 * kAhead].kind) prefetch<2>(m.index + (stubs[i + 2 * kAhead].at >> kStepBits));
        if (i + kAhead < count && stubs[i + kAhead].kind) prefetch<2>(m.offsets + m.index[stubs[i + kAhead].at >> kStepBits] + 1);
        Stub &stub = stubs[i];
        if (!stub.kind) continue;
        int64_t hidden = m.index[stub.at >> kStepBits];
        while (m.offsets[hidden + 1] <= stub.at) ++hidden;
        stub.at = hidden;
    }
}

// Sorts a short row by counting for each entry how many are smaller, which vectorises. Of equal entries the first is
// kept: they count alike, and what they leave free behind them stays empty.
int64_t sort_short(const int32_t *nodes, const int8_t *kinds, int64_t count, int64_t *kept, std::vector<int32_t> &out) {
    int32_t sorted[kShort];
    int8_t kind[kShort];
    std::fill_n(sorted, count, -1);
    for (int64_t i = count - 1; i >= 0; --i) {
        const int32_t node = nodes[i];
        int32_t smaller = 0;
        for (int64_t j = 0; j < count; ++j) smaller += nodes[j] < node;
        sorted[smaller] = node;
        kind[smaller] = kinds[i];
    }
    const size_t before = out.size();
    out.resize(before + size_t(count));
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (sorted[i] < 0) continue;
        out[before + size_t(total++)] = sorted[i];
        ++kept[int(kind[i])];
    }
    out.resize(before + size_t(total));
    return total;
}

int64_t sort_long(const int32_t *nodes, const int8_t *kinds, int64_t count, int64_t *kept, std::vector<int32_t> &out) {
    std::vector<int64_t> keys(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) keys[size_t(i)] = int64_t(nodes[i]) << 2 | kinds[i];
    std::sort(keys.begin(), keys.end());
    int64_t total = 0, last = -1;
    for (const int64_t key : keys) {
        if (key >> 2 == last) continue;
        last = key >> 2;
        out.push_back(int32_t(last));
        ++kept[key & 3];
        ++total;
    }
    return total;
}

// Sorted rows without loops and repeats; of equal entries the first kind counts.
void finish(const Matching &m, Batch &b, int64_t *counts, int64_t *kept, std::vector<int32_t> &out) {
    b.nodes.resize(b.stubs.size());
    b.kinds.resize(b.stubs.size());
    size_t next = 0;
    for (size_t row = 0; row < b.hidden.size(); ++row) {
        int64_t count = 0;
        for (; next < b.stubs.size() && size_t(b.stubs[next].row) == row; ++next) {
            const Stub &stub = b.stubs[next];
            if (stub.at == b.hidden[row]) continue;
            b.nodes[size_t(count)] = int32_t(m.hidden.from(uint64_t(stub.at)));
            b.kinds[size_t(count++)] = int8_t(stub.kind);
        }
        counts[row] = (count <= kShort ? sort_short : sort_long)(b.nodes.data(), b.kinds.data(), count, kept, out);
    }
    b.stubs.clear();
    b.hidden.clear();
}

}  // namespace

std::vector<int32_t> matched_rows(const Matching &m, int64_t begin, int64_t step, int64_t *counts, int64_t rows,
                                  int64_t *kept, int64_t *stubs) {
    std::vector<int32_t> out;
    out.reserve(size_t(double(rows) / double(m.count) * double(m.offsets[m.count]) * 1.3) + 1024);
    std::vector<int64_t> hidden(static_cast<size_t>(std::min<int64_t>(rows, 1024)));
    Batch batch;
    for (int64_t first = 0; first < rows; first += int64_t(hidden.size())) {
        const int64_t last = std::min(rows, first + int64_t(hidden.size()));
        for (int64_t i = first; i < last; ++i) {
            hidden[i - first] = int64_t(m.hidden.to(uint64_t(begin + i * step)));
            prefetch<2>(m.offsets + hidden[i - first]);
        }
        int64_t done = first;
        for (int64_t i = first; i < last; ++i) {
            const int64_t h = hidden[i - first], from = m.offsets[h], to = m.offsets[h + 1];
            const int64_t inside = from * m.inside / kWhole, inside_end = to * m.inside / kWhole;
            const int32_t row = int32_t(batch.hidden.size());
            batch.hidden.push_back(h);
            join_group(m, row, h, to - from, batch.stubs);
            join<1>(m, row, h * m.classes / m.count, inside, inside_end, batch.stubs);
            join<2>(m, row, m.classes, from - inside, to - inside_end, batch.stubs);
            stubs[0] += inside_end - inside;
            stubs[1] += to - from - inside_end + inside;
            if (batch.stubs.size() >= kBatch || i + 1 == last) {
                look_up(m, batch.stubs);
                finish(m, batch, counts + done, kept, out);
                done = i + 1;
            }
        }
    }
    return out;
}

void index_offsets(const int64_t *offsets, int64_t count, int64_t step, int32_t *out, int64_t places) {
    int64_t hidden = 0;
    for (int64_t i = 0; i < places; ++i) {
        while (hidden + 1 < count && offsets[hidden + 1] <= i * step) ++hidden;
        out[i] = int32_t(hidden);
    }
}

void noisy_rows(const int32_t *labels, int64_t rows, const float *centres, int64_t width, const float *values,
                uint64_t key, int64_t begin, float *out) {
    const int64_t words = (width + 3) / 4;
    for (int64_t i = 0; i < rows; ++i) {
        const float *centre = centres + int64_t(labels[i]) * width;
        float *row = out + i * width;
        uint64_t number = key + uint64_t(begin + i) * uint64_t(words) * kGolden;
        for (int64_t column = 0; column < width; column += 4, number += kGolden) {
            uint64_t drawn = mixed(number);
            const int64_t end = std::min(width, column + 4);
            for (int64_t c = column; c < end; ++c, drawn >>= 16) row[c] = centre[c] + values[drawn % kNoise];
        }
    }
}

}  // namespace gamlp
