// Rows that lie anywhere, copied as they are.
#pragma once
#include <cstdint>

namespace gamlp {

// Row i of dst is row rows[i] of src, `bytes` of it; rows lie so many bytes apart.
void copy_rows(const uint8_t *src, int64_t src_stride, const int64_t *rows, int64_t count, int64_t bytes, uint8_t *dst,
               int64_t dst_stride);

}  // namespace gamlp
