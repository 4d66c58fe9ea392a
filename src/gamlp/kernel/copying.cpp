#include "copying.hpp"

#include <algorithm>
#include <cstring>

#include "compilers.hpp"

namespace gamlp {

// A processor copies a row in order: without asking ahead it waits for the first line of each.
void copy_rows(const uint8_t *src, int64_t src_stride, const int64_t *rows, int64_t count, int64_t bytes, uint8_t *dst,
               int64_t dst_stride) {
    constexpr int64_t line = 64, asked = 4096;  // bytes that are on their way at a time
    const int64_t ahead = std::clamp<int64_t>(asked / std::max<int64_t>(bytes, 1), 4, 64);
    for (int64_t i = 0; i < count; ++i) {
        if (i + ahead < count) {
            const uint8_t *next = src + rows[i + ahead] * src_stride;
            for (int64_t at = 0; at < bytes; at += line) prefetch<3>(next + at);
        }
        std::memcpy(dst + i * dst_stride, src + rows[i] * src_stride, size_t(bytes));
    }
}

}  // namespace gamlp
