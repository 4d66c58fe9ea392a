// CRC-32 as zlib, gzip and PNG have it, several times as fast as zlib where the processor multiplies without carry.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gamlp {

// Goes on from `crc`, 0 at the beginning.
uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size);

// The same without special instructions.
uint32_t crc32_by_tables(uint32_t crc, const uint8_t *data, size_t size);

}  // namespace gamlp
