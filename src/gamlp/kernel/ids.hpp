// Ids, strings or integers → rows, by an open-addressing hash table that is built once.
#pragma once
#include <cstdint>
#include <memory>

#include "compilers.hpp"
#include "threads.hpp"

namespace gamlp {

// An Arrow array of large strings: string i is data[offsets[i] .. offsets[i + 1]).
struct Strings {
    const int64_t *offsets;  // [count + 1]
    const uint8_t *data;
    int64_t count;
    int64_t size;  // bytes of data

    void check() const;  // throws where an offset leads out of the data
    int64_t longest() const;
    uint64_t hash(int64_t i) const;
    bool same(int64_t i, const Strings &other, int64_t j) const;
    void fetch_place(int64_t i) const { prefetch<3>(offsets + i); }
    void fetch_value(int64_t i) const { prefetch<3>(data + offsets[i]); }
    Strings part(int64_t from, int64_t many) const { return {offsets + from, data, many, size}; }
};

struct Integers {
    const int64_t *values;
    int64_t count;

    void check() const {}
    uint64_t hash(int64_t i) const;
    bool same(int64_t i, const Integers &other, int64_t j) const { return values[i] == other.values[j]; }
    void fetch_place(int64_t i) const { prefetch<3>(values + i); }
    void fetch_value(int64_t) const {}
    Integers part(int64_t from, int64_t many) const { return {values + from, many}; }
};

// A string of up to kShort bytes and its length in two words: one place to look at where Arrow's arrays are two.
struct ShortString {
    uint64_t first, rest;
};
constexpr int64_t kShort = 15;

struct ShortStrings {
    const ShortString *values;
    int64_t count;

    void check() const {}
    uint64_t hash(int64_t i) const;
    bool same(int64_t i, const ShortStrings &other, int64_t j) const {
        return values[i].first == other.values[j].first && values[i].rest == other.values[j].rest;
    }
    void fetch_place(int64_t i) const { prefetch<3>(values + i); }
    void fetch_value(int64_t) const {}
    ShortStrings part(int64_t from, int64_t many) const { return {values + from, many}; }
};

// Strings begin .. begin + many of `strings`, which was checked; a longer one is like no short one.
void shorten(const Strings &strings, int64_t begin, int64_t many, ShortString *out);

// Keeps pointers into the ids, not copies: the owner must keep them. Reading is safe from many threads.
template <class Ids>
class IdTable {
  public:
    explicit IdTable(const Ids &ids);

    // The first row with the same id, or -1; queries were checked.
    void rows(const Ids &queries, int32_t *out) const;
    int64_t distinct() const { return distinct_; }
    int64_t bytes() const { return int64_t(slots_.bytes()); }

  private:
    struct Slot {
        uint32_t tag;   // half of the hash: a string is looked at only where it is most likely the one
        uint32_t next;  // row + 1; 0: free
    };

    static int64_t capacity_of(const Ids &ids);
    int64_t home(uint64_t hash) const;
    int64_t after(int64_t slot) const { return slot + 1 == capacity_ ? 0 : slot + 1; }
    // From `slot` on, the first that is free or has the tag.
    int64_t probe(int64_t slot, uint32_t tag) const;

    Ids ids_;
    int64_t capacity_;
    int64_t distinct_ = 0;
    Zeros<Slot> slots_;
};

extern template class IdTable<Strings>;
extern template class IdTable<Integers>;
extern template class IdTable<ShortStrings>;

// Strings → rows. Where all ids are short they are copied, 16 bytes each, and the strings need not be kept.
class StringTable {
  public:
    explicit StringTable(const Strings &ids);

    bool keeps() const { return long_ != nullptr; }  // whether it points into the ids
    void rows(const Strings &queries, int32_t *out, int threads) const;
    int64_t distinct() const { return long_ ? long_->distinct() : short_->distinct(); }
    int64_t bytes() const;

  private:
    std::unique_ptr<Zeros<ShortString>> values_;
    std::unique_ptr<IdTable<ShortStrings>> short_;
    std::unique_ptr<IdTable<Strings>> long_;
};

class IntegerTable {
  public:
    explicit IntegerTable(const Integers &ids) : table_(ids) {}

    bool keeps() const { return true; }
    void rows(const Integers &queries, int32_t *out, int threads) const;
    int64_t distinct() const { return table_.distinct(); }
    int64_t bytes() const { return table_.bytes(); }

  private:
    IdTable<Integers> table_;
};

}  // namespace gamlp
