// How many cache lines a machine reads at random: the bound of a hop whose rows are a line each. Two loops only: one
// touches a line of every row that is asked for, so many ahead of use. Nothing is summed but a byte.
//   gather BYTES LINES THREADS → best lines a second, over hints and distances
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <int Hint>
static uint64_t touch(const char *rows, const uint32_t *wanted, size_t begin, size_t end, size_t ahead) {
    uint64_t sum = 0;
    for (size_t i = begin; i < end; ++i) {
        __builtin_prefetch(rows + size_t(wanted[i + ahead]) * 64, 0, Hint);
        sum += uint8_t(rows[size_t(wanted[i]) * 64]);
    }
    return sum;
}

int main(int count, char **words) {
    if (count != 4) return 2;
    const size_t bytes = std::strtoull(words[1], nullptr, 10) / 64 * 64, lines = std::strtoull(words[2], nullptr, 10);
    const int threads = std::atoi(words[3]);
    char *rows = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (rows == MAP_FAILED) return 1;
    madvise(rows, bytes, MADV_HUGEPAGE);
    std::memset(rows, 1, bytes);
    constexpr size_t kMost = 64;
    std::vector<uint32_t> wanted(lines + kMost);
    uint64_t state = 88172645463325252ull;
    for (auto &row : wanted) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        row = uint32_t((state >> 20) % (bytes / 64));
    }
    using Loop = uint64_t (*)(const char *, const uint32_t *, size_t, size_t, size_t);
    double best = 1e30;
    uint64_t kept = 0;
    for (Loop loop : {Loop(touch<3>), Loop(touch<2>), Loop(touch<0>)})
        for (size_t ahead : {size_t(12), size_t(24), size_t(48)})
            for (int round = 0; round < 2; ++round) {
                std::vector<std::thread> all;
                std::vector<uint64_t> sums(threads);
                const double begun = now();
                for (int t = 0; t < threads; ++t)
                    all.emplace_back([&, t] { sums[t] = loop(rows, wanted.data(), lines * t / threads, lines * (t + 1) / threads, ahead); });
                for (auto &one : all) one.join();
                const double took = now() - begun;
                if (took < best) best = took;
                for (uint64_t sum : sums) kept += sum;
            }
    std::printf("%.0f %llu\n", lines / best, static_cast<unsigned long long>(kept));
}
