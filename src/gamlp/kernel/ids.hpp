// Ids, strings or integers → rows, by an open-addressing hash table that is built once.
#pragma once
#include <cstdint>
#include <memory>

namespace gamlp {

// An Arrow array of large strings: string i is data[offsets[i] .. offsets[i + 1]).
struct Strings {
    const int64_t *offsets;  // [count + 1]
    const uint8_t *data;
    int64_t count;
    int64_t size;  // bytes of data

    void check() const;  // throws where an offset leads out of the data
    uint64_t hash(int64_t i) const;
    bool same(int64_t i, const Strings &other, int64_t j) const;
    void fetch_place(int64_t i) const { __builtin_prefetch(offsets + i); }
    void fetch_value(int64_t i) const { __builtin_prefetch(data + offsets[i]); }
};

struct Integers {
    const int64_t *values;
    int64_t count;

    void check() const {}
    uint64_t hash(int64_t i) const;
    bool same(int64_t i, const Integers &other, int64_t j) const { return values[i] == other.values[j]; }
    void fetch_place(int64_t i) const { __builtin_prefetch(values + i); }
    void fetch_value(int64_t) const {}
};

// Keeps pointers into the ids, not copies: the owner must keep them. Reading is safe from many threads.
template <class Ids>
class IdTable {
  public:
    explicit IdTable(const Ids &ids);

    // The first row with the same id, or -1.
    void rows(const Ids &queries, int64_t *out) const;
    int64_t distinct() const { return distinct_; }
    int64_t bytes() const { return capacity_ * int64_t(sizeof(Slot)); }

  private:
    struct Slot {
        uint32_t tag;   // half of the hash: a string is looked at only where it is most likely the one
        uint32_t next;  // row + 1; 0: free
    };

    int64_t home(uint64_t hash) const;
    int64_t after(int64_t slot) const { return slot + 1 == capacity_ ? 0 : slot + 1; }
    // From `slot` on, the first that is free or has the tag.
    int64_t probe(int64_t slot, uint32_t tag) const;

    Ids ids_;
    int64_t capacity_;
    int64_t distinct_ = 0;
    std::unique_ptr<Slot[]> slots_;
};

extern template class IdTable<Strings>;
extern template class IdTable<Integers>;

}  // namespace gamlp
