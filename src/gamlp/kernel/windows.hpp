// Rows of a state that is larger than the processor's tables of pages, window by window. Included by hop_rows.hpp, inside
// its anonymous namespace, once per instruction set.
//
// A processor knows where some 2,000 pages lie, 4 GB of huge pages; in a state of 7 GB every neighbour is then a walk
// through the tables of a machine and of its host (60 million lines a second where 150 are read in a gigabyte). So many
// rows are begun together, and their neighbours in the first window of the state are added to all of them before any in
// the second. Neighbours ascend, and so do windows: every sum gets its entries in the same order, and the same bytes.

// Entries of a chunk of rows, sorted by window; a piece is a row, or a block of a row that has several.
struct Pieces {
    const int windows;
    int64_t count = 0, entries = 0;
    int64_t places[kMostWindows] = {}, begun[kMostWindows] = {};
    Floats *sums;     // [kWindowPieces, vectors]
    uint8_t *counts;  // [windows, kWindowPieces]
    int32_t *nodes;   // [windows, kWindowEntries + kWindowAhead]
    float *weights;   // the same

    Pieces(const Hop &h, int windows)
        : windows(windows),
          sums(static_cast<Floats *>(h.scratch)),
          counts(reinterpret_cast<uint8_t *>(sums + kWindowPieces * kWindowVectors)),
          nodes(reinterpret_cast<int32_t *>(counts + kWindowPieces * windows)),
          weights(reinterpret_cast<float *>(nodes + windows * (kWindowEntries + kWindowAhead))) {}

    static inline int64_t pieces_of(int64_t entries) { return entries <= kBlock ? 1 : (entries + kBlock - 1) / kBlock; }
    inline bool has_room(int64_t more) const {
        return entries + more <= kWindowEntries && count + pieces_of(more) <= kWindowPieces;
    }
    template <bool Weighted>
    inline void put(const Hop &h, int64_t node, float weight) {
        const int window = int(node >> h.window_bits);
        const int64_t at = window * (kWindowEntries + kWindowAhead) + places[window]++;
        nodes[at] = int32_t(node);
        if (Weighted) weights[at] = weight;
    }
    template <bool Weighted>
    inline void add_piece(const Hop &h, const Row &row) {
        for (int64_t e = row.first; e < row.own; ++e) put<Weighted>(h, h.neighbours[e], Weighted ? h.weights[e] : 1.0f);
        if (row.self >= 0) put<Weighted>(h, row.self, 1.0f);
        for (int64_t e = row.own; e < row.last; ++e) put<Weighted>(h, h.neighbours[e], Weighted ? h.weights[e] : 1.0f);
        for (int w = 0; w < windows; ++w) {
            counts[w * kWindowPieces + count] = uint8_t(places[w] - begun[w]);
            begun[w] = places[w];
        }
        ++count;
    }
    template <bool Weighted>
    inline void add_row(const Hop &h, const Row &row) {
        const int64_t all = row.entries();
        if (all <= kBlock) add_piece<Weighted>(h, row);
        for (int64_t from = 0; all > kBlock && from < all; from += kBlock)
            add_piece<Weighted>(h, row.part(from, from + kBlock < all ? from + kBlock : all));
        entries += all;
    }
    // Prefetching looks past the end.
    inline void end_windows() {
        for (int w = 0; w < windows; ++w)
            for (int64_t i = 0; i < kWindowAhead; ++i) nodes[w * (kWindowEntries + kWindowAhead) + places[w] + i] = 0;
    }
    inline void clear() {
        count = entries = 0;
        for (int w = 0; w < windows; ++w) places[w] = begun[w] = 0;
    }
};
static_assert(edges_ahead(16) <= kWindowAhead, "a list ends in rows to look ahead at");

template <class S, int V, bool Weighted>
GAMLP_NOINLINE void sum_pieces(const Hop &h, const Pieces &pieces) {
    using Element = typename S::Element;
    constexpr int kBytes = V * kLanes * int(sizeof(Element));
    const Element *src = static_cast<const Element *>(h.src);
    for (int w = 0; w < pieces.windows; ++w) {
        const int32_t *node = pieces.nodes + w * (kWindowEntries + kWindowAhead);
        const float *weight = pieces.weights + w * (kWindowEntries + kWindowAhead);
        for (int64_t p = 0; p < pieces.count; ++p) {
            const int count = pieces.counts[w * kWindowPieces + p];
            if (w && !count) continue;
            Floats sum[V] = {};
            if (w)
                for (int v = 0; v < V; ++v) sum[v] = pieces.sums[p * V + v];
            for (int i = 0; i < count; ++i, ++node, ++weight) {
                const char *next = reinterpret_cast<const char *>(src + int64_t(node[edges_ahead(kBytes)]) * h.src_stride);
                for (int b = 0; b < kBytes; b += 64) prefetch<cache_of(false)>(next + b);
                if (kBytes % 64) prefetch<cache_of(false)>(next + kBytes - 1);
                const Element *values = src + int64_t(*node) * h.src_stride;
                for (int v = 0; v < V; ++v) {
                    Floats x;
                    S::load(values + v * kLanes, x);
                    if (Weighted)
                        sum[v] += x * *weight;
                    else
                        sum[v] += x;
                }
            }
            for (int v = 0; v < V; ++v) pieces.sums[p * V + v] = sum[v];
        }
    }
}

template <class S, int V, bool Weighted>
void sum_by_windows_of(const Hop &h, Lost &lost) {
    const int64_t stop = h.start + h.end, rows = h.nodes > stop ? h.nodes : stop;
    Pieces pieces(h, int(((rows - 1) >> h.window_bits) + 1));
    for (int64_t begin = h.begin, end; begin < h.end; begin = end) {
        pieces.clear();
        for (end = begin; end < h.end; ++end) {
            const Row row = row_of(h, end);
            if (!pieces.has_room(row.entries())) break;
            pieces.add_row<Weighted>(h, row);
        }
        if (end == begin) {  // a row that is too long for the lists
            sum_range<S, V, Weighted, false>({h, h, nullptr, begin, ++end}, 0, lost);
            continue;
        }
        pieces.end_windows();
        sum_pieces<S, V, Weighted>(h, pieces);
        const Floats *from = pieces.sums;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t self = h.start + i, entries = h.offsets[i + 1] - h.offsets[i] + h.loops;
            Floats sum[V];
            if (entries <= kBlock) {
                for (int v = 0; v < V; ++v) sum[v] = *from++;
            } else {
                Levels<V> levels;
                for (int64_t done = 0; done < entries; done += kBlock) {
                    for (int v = 0; v < V; ++v) levels.sums[0][v] += *from++;
                    levels.close_block();
                }
                for (int v = 0; v < V; ++v) sum[v] = Floats{};
                levels.add_to(sum);
            }
            store_sum<S, V>(sum, h.factors ? h.factors[self] : 1.0f, h.floors ? h.floors + self : nullptr,
                            static_cast<typename S::Element *>(h.dst) + self * h.dst_stride, lost);
            if (i % kRowsCounted == 0) lost.add_up();
        }
    }
}

template <class S, bool Weighted>
void sum_by_windows(const Hop &h, Lost &lost) {
    switch (h.width / kLanes) {
        case 1: return sum_by_windows_of<S, 1, Weighted>(h, lost);
        case 2: return sum_by_windows_of<S, 2, Weighted>(h, lost);
        case 3: return sum_by_windows_of<S, 3, Weighted>(h, lost);
        case 4: return sum_by_windows_of<S, 4, Weighted>(h, lost);
    }
    static_assert(kWindowVectors == 4, "a case for every width");
}
