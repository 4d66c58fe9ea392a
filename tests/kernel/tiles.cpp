// Single tiles of the kernel's loops as a program of its own, for compilers and processors that Python is not run with:
// a question on the standard input, its answer on the standard output. See test_compilers.py.
#include <cstdio>
#include <vector>

#include "../../src/gamlp/kernel/hop_rows.hpp"

using namespace gamlp;

namespace {

template <class T>
std::vector<T> take(size_t count) {
    std::vector<T> values(count);
    if (std::fread(values.data(), sizeof(T), count, stdin) != count) throw "the question ends early";
    return values;
}

constexpr int kVectors = 4;

template <class S>
int64_t sum(const Hop &h) {
    Lost lost;
    for (int64_t i = h.begin; i < h.end; ++i) {
        auto *dst = static_cast<typename S::Element *>(h.dst) + i * h.dst_stride;
        if (h.weights)
            sum_tile<S, kVectors, true>(h, row_of(h, i), 0, h.factors[i], nullptr, dst, lost);
        else
            sum_tile<S, kVectors, false>(h, row_of(h, i), 0, h.factors[i], nullptr, dst, lost);
    }
    lost.add_up();
    return lost.total;
}

template <class S>
int64_t convert(const Scale &s, bool widen) {
    return widen ? scale_rows<S, Float32>(s) : scale_rows<Float32, S>(s);
}

// storage, rows, entries, weighted; then offsets, neighbours, weights, factors, src
void answer_hop() {
    const auto head = take<int64_t>(4);
    const auto offsets = take<int64_t>(size_t(head[1]) + 1);
    const auto neighbours = take<int32_t>(size_t(head[2]));
    const auto weights = take<float>(head[3] ? size_t(head[2]) : 0), factors = take<float>(size_t(head[1]));
    const int64_t width = kVectors * kLanes, size = head[0] == 0 ? 4 : 2;
    const auto src = take<uint8_t>(size_t(head[1] * width * size));
    std::vector<uint8_t> dst(src.size());
    Hop h{};
    h.offsets = offsets.data();
    h.neighbours = neighbours.data();
    h.weights = head[3] ? weights.data() : nullptr;
    h.factors = factors.data();
    h.entries = head[2];
    h.end = head[1];
    h.loops = true;
    h.src = src.data();
    h.dst = dst.data();
    h.src_stride = h.dst_stride = h.width = width;
    const int64_t lost = head[0] == 0 ? sum<Float32>(h) : head[0] == 1 ? sum<Float16>(h) : sum<BFloat16>(h);
    std::fwrite(&lost, sizeof lost, 1, stdout);
    std::fwrite(dst.data(), 1, dst.size(), stdout);
}

// storage, rows, columns, whether to float32 or from it; then src
void answer_scale() {
    const auto head = take<int64_t>(4);
    const int64_t half = 2, full = 4;
    const auto src = take<uint8_t>(size_t(head[1] * head[2] * (head[3] ? half : full)));
    std::vector<uint8_t> dst(size_t(head[1] * head[2] * (head[3] ? full : half)));
    Scale s{};
    s.src = src.data();
    s.dst = dst.data();
    s.src_stride = s.dst_stride = s.width = head[2];
    s.end = head[1];
    const int64_t lost = head[0] == 1 ? convert<Float16>(s, head[3]) : convert<BFloat16>(s, head[3]);
    std::fwrite(&lost, sizeof lost, 1, stdout);
    std::fwrite(dst.data(), 1, dst.size(), stdout);
}

}  // namespace

int main(int, char **words) {
    words[1][0] == 'h' ? answer_hop() : answer_scale();
    return 0;
}
