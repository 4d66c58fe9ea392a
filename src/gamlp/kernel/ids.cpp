#include "ids.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

namespace gamlp {
namespace {

// Ids of a block have their cache lines under way at the same time: a lookup is three misses, and otherwise waits.
constexpr int64_t kBlock = 64;

// All four are drawn for each process: whoever writes the ids cannot choose ones that collide. No result depends on
// them, as rows are found by comparing ids.
struct Secrets {
    uint64_t word[4];
    Secrets() {
        std::random_device device;
        for (uint64_t &w : word) w = (uint64_t(device()) << 32 | device()) | 1;
    }
};

const Secrets &secrets() {
    static const Secrets drawn;
    return drawn;
}

inline uint64_t mix(uint64_t a, uint64_t b) {
    const Product product = multiply(a, b);
    return product.low ^ product.high;
}

template <class T>
inline uint64_t load(const uint8_t *p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

inline uint64_t hash_bytes(const uint8_t *p, uint64_t length, const uint64_t *s) {
    uint64_t state = s[0] ^ length, rest = length, a = 0, b = 0;
    for (; rest > 16; p += 16, rest -= 16) state = mix(load<uint64_t>(p) ^ s[1], load<uint64_t>(p + 8) ^ state);
    // What is left is read from both ends: with the length, the two words tell every byte.
    if (rest >= 8) {
        a = load<uint64_t>(p);
        b = load<uint64_t>(p + rest - 8);
    } else if (rest >= 4) {
        a = load<uint32_t>(p);
        b = load<uint32_t>(p + rest - 4);
    } else if (rest > 0) {
        a = uint64_t(p[0]) << 16 | uint64_t(p[rest / 2]) << 8 | p[rest - 1];
    }
    return mix(mix(a ^ s[1], b ^ state) ^ s[2], s[3]);
}

}  // namespace

void Strings::check() const {
    bool good = offsets[0] >= 0 && offsets[count] <= size;
    for (int64_t i = 0; i < count; ++i) good &= offsets[i] <= offsets[i + 1];
    if (!good) throw std::invalid_argument("an offset leads out of the strings");
}

int64_t Strings::longest() const {
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) found = std::max(found, offsets[i + 1] - offsets[i]);
    return found;
}

uint64_t Strings::hash(int64_t i) const {
    return hash_bytes(data + offsets[i], uint64_t(offsets[i + 1] - offsets[i]), secrets().word);
}

bool Strings::same(int64_t i, const Strings &other, int64_t j) const {
    const int64_t length = offsets[i + 1] - offsets[i];
    if (other.offsets[j + 1] - other.offsets[j] != length) return false;
    return length == 0 || std::memcmp(data + offsets[i], other.data + other.offsets[j], size_t(length)) == 0;
}

uint64_t Integers::hash(int64_t i) const {
    const uint64_t *s = secrets().word;
    return mix(mix(uint64_t(values[i]) ^ s[0], s[1]) ^ s[2], s[3]);
}

uint64_t ShortStrings::hash(int64_t i) const {
    const uint64_t *s = secrets().word;
    return mix(mix(values[i].first ^ s[0], values[i].rest ^ s[1]) ^ s[2], s[3]);
}

void shorten(const Strings &strings, int64_t begin, int64_t many, ShortString *out) {
    auto low = [](uint64_t word, int64_t bytes) { return bytes >= 8 ? word : word & ((uint64_t(1) << (8 * bytes)) - 1); };
    for (int64_t k = 0; k < many; ++k) {
        const int64_t at = strings.offsets[begin + k], length = strings.offsets[begin + k + 1] - at;
        if (length > kShort) {
            out[k] = {0, UINT64_MAX};
            continue;
        }
        uint64_t word[2] = {0, 0};
        if (at + 16 <= strings.size) {
            std::memcpy(word, strings.data + at, 16);
            word[0] = low(word[0], length);
            word[1] = length > 8 ? low(word[1], length - 8) : 0;
        } else if (length > 0) {
            std::memcpy(word, strings.data + at, size_t(length));
        }
        out[k] = {word[0], word[1] | uint64_t(length) << 56};
    }
}

// Five ids to eight slots: 12.8 bytes an id. Slots are picked by a multiplication, so that it need not be a power of
// two, which could take twice as much.
template <class Ids>
int64_t IdTable<Ids>::capacity_of(const Ids &ids) {
    if (ids.count >= int64_t(INT32_MAX)) throw std::invalid_argument("too many ids");
    ids.check();
    return ids.count + ids.count * 3 / 5 + 1;
}

template <class Ids>
IdTable<Ids>::IdTable(const Ids &ids) : ids_(ids), capacity_(capacity_of(ids)), slots_(size_t(capacity_)) {
    uint64_t hashes[kBlock];
    for (int64_t base = 0; base < ids.count; base += kBlock) {
        const int64_t many = std::min(kBlock, ids.count - base);
        for (int64_t k = 0; k < many; ++k) {
            hashes[k] = ids.hash(base + k);
            prefetch<3, 1>(&slots_[home(hashes[k])]);
        }
        for (int64_t k = 0; k < many; ++k) {
            const uint32_t tag = uint32_t(hashes[k]);
            int64_t slot = probe(home(hashes[k]), tag);
            while (slots_[slot].next && !ids.same(base + k, ids, slots_[slot].next - 1)) slot = probe(after(slot), tag);
            if (slots_[slot].next) continue;  // the first row with an id keeps its place
            slots_[slot] = {tag, uint32_t(base + k + 1)};
            ++distinct_;
        }
    }
}

template <class Ids>
void IdTable<Ids>::rows(const Ids &queries, int32_t *out) const {
    uint32_t tags[kBlock];
    int64_t at[kBlock];
    for (int64_t base = 0; base < queries.count; base += kBlock) {
        const int64_t many = std::min(kBlock, queries.count - base);
        for (int64_t k = 0; k < many; ++k) {
            const uint64_t hash = queries.hash(base + k);
            tags[k] = uint32_t(hash);
            at[k] = home(hash);
            prefetch<3>(&slots_[at[k]]);
        }
        for (int64_t k = 0; k < many; ++k) {
            at[k] = probe(at[k], tags[k]);
            if (slots_[at[k]].next) ids_.fetch_place(slots_[at[k]].next - 1);
        }
        for (int64_t k = 0; k < many; ++k)
            if (slots_[at[k]].next) ids_.fetch_value(slots_[at[k]].next - 1);
        for (int64_t k = 0; k < many; ++k) {
            int64_t slot = at[k];
            while (slots_[slot].next && !queries.same(base + k, ids_, slots_[slot].next - 1))
                slot = probe(after(slot), tags[k]);
            out[base + k] = int32_t(slots_[slot].next) - 1;
        }
    }
}

// The high half of a product spreads the hash over any number of slots; the tag is of its low bits, so the two are
// independent.
template <class Ids>
int64_t IdTable<Ids>::home(uint64_t hash) const {
    return int64_t(multiply(hash, uint64_t(capacity_)).high);
}

template <class Ids>
int64_t IdTable<Ids>::probe(int64_t slot, uint32_t tag) const {
    while (slots_[slot].next && slots_[slot].tag != tag) slot = after(slot);
    return slot;
}

template class IdTable<Strings>;
template class IdTable<Integers>;
template class IdTable<ShortStrings>;

namespace {

constexpr int64_t kLeast = 1 << 14;  // queries that are worth a thread
constexpr int64_t kShortened = 512;  // queries that are shortened together: 8 KiB

// work(begin, end) of parts of `count` queries, in threads.
void in_parts(int64_t count, int threads, const std::function<void(int64_t, int64_t)> &work) {
    threads = int(std::max<int64_t>(1, std::min<int64_t>(threads, count / kLeast)));
    in_parallel(threads, [&](int t) { work(count * t / threads, count * (t + 1) / threads); });
}

}  // namespace

StringTable::StringTable(const Strings &ids) {
    ids.check();
    if (ids.longest() > kShort) {
        long_.reset(new IdTable<Strings>(ids));
        return;
    }
    values_.reset(new Zeros<ShortString>(size_t(ids.count)));
    shorten(ids, 0, ids.count, values_->data());
    short_.reset(new IdTable<ShortStrings>(ShortStrings{values_->data(), ids.count}));
}

void StringTable::rows(const Strings &queries, int32_t *out, int threads) const {
    queries.check();
    in_parts(queries.count, threads, [&](int64_t begin, int64_t end) {
        if (long_) {
            long_->rows(queries.part(begin, end - begin), out + begin);
            return;
        }
        ShortString some[kShortened];
        for (int64_t at = begin; at < end; at += kShortened) {
            const int64_t many = std::min(kShortened, end - at);
            shorten(queries, at, many, some);
            short_->rows(ShortStrings{some, many}, out + at);
        }
    });
}

int64_t StringTable::bytes() const {
    return long_ ? long_->bytes() : short_->bytes() + int64_t(values_->bytes());
}

void IntegerTable::rows(const Integers &queries, int32_t *out, int threads) const {
    in_parts(queries.count, threads, [&](int64_t begin, int64_t end) {
        table_.rows(queries.part(begin, end - begin), out + begin);
    });
}

}  // namespace gamlp
