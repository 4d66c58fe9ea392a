// The Python door of the kernel. Every call releases the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "copying.hpp"
#include "crc32.hpp"
#include "csr.hpp"
#include "generate.hpp"
#include "hop.hpp"
#include "ids.hpp"
#include "processor.hpp"
#include "threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<nb::ndim<2>, nb::device::cpu>;
using ConstMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;

struct Loops {
    const char *name;
    gamlp::HopFunction hop;
    gamlp::ScaleFunction scale;
};

constexpr Loops kBaseline{"baseline", gamlp::hop_baseline, gamlp::scale_baseline};

Loops best_loops() {
    [[maybe_unused]] const gamlp::Processor has;
#if defined(GAMLP_AVX512)
    if (has.avx512) return {"avx512", gamlp::hop_avx512, gamlp::scale_avx512};
#endif
#if defined(GAMLP_AVX2)
    if (has.avx2) return {"avx2", gamlp::hop_avx2, gamlp::scale_avx2};
#endif
    return kBaseline;
}

const Loops kLoops = best_loops();

template <class A>
auto data_or_null(const std::optional<A> &array) {
    return array ? array->data() : nullptr;
}

// An std::invalid_argument, ValueError in Python, whose sentence is made of the parts.
template <class... Parts>
void refuse_if(bool wrong, const Parts &...parts) {
    if (!wrong) return;
    std::ostringstream sentence;
    (sentence << ... << parts);
    throw std::invalid_argument(sentence.str());
}

std::string dtype_of(const ConstMatrix &matrix) {
    const auto code = static_cast<nb::dlpack::dtype_code>(matrix.dtype().code);
    const char *kind = code == nb::dlpack::dtype_code::Float ? "float" : code == nb::dlpack::dtype_code::UInt ? "uint" : "int";
    return kind + std::to_string(matrix.dtype().bits);
}

void check_matrix(const char *name, const ConstMatrix &matrix, int storage) {
    static const char *const names[] = {"float32", "float16", "bfloat16"};
    refuse_if(storage < 0 || storage > 2, "storage ", storage, " is none of 0 (float32), 1 (float16), 2 (bfloat16)");
    refuse_if(matrix.itemsize() != (storage == 0 ? 4 : 2), name, " holds ", dtype_of(matrix), ", which cannot be read as ",
              names[storage]);
    refuse_if(matrix.shape(1) > 1 && matrix.stride(1) != 1, "columns of ", name, " must lie side by side, not ",
              matrix.stride(1), " apart");
}

static_assert(gamlp::kBlock < 256, "entries of a piece in a window are counted in a byte");

// Kept by a thread from one call to the next; pages that no window fills are never touched.
void *window_scratch(int64_t bytes) {
    static thread_local std::unique_ptr<gamlp::Zeros<char>> kept;
    if (!kept || int64_t(kept->bytes()) < bytes) {
        kept.reset();
        kept = std::make_unique<gamlp::Zeros<char>>(size_t(bytes));
    }
    return kept->data();
}

int64_t hop(Vector<int64_t> offsets, Vector<int32_t> neighbours, std::optional<Vector<float>> weights,
            std::optional<Vector<float>> factors, std::optional<Vector<int64_t>> rows, int64_t start, int64_t begin,
            int64_t end, bool loops, ConstMatrix src, Matrix dst, int storage, bool baseline, bool accumulate,
            std::optional<Vector<float>> floors, std::optional<Vector<uint8_t>> nonzero, int window_bits, bool near) {
    check_matrix("src", src, storage);
    check_matrix("dst", ConstMatrix(dst), storage);
    refuse_if(src.shape(1) != dst.shape(1) || src.shape(1) % gamlp::kLanes, "src has ", src.shape(1),
              " columns and dst has ", dst.shape(1), ": they must have as many, a multiple of ", gamlp::kLanes);
    const int64_t block = int64_t(offsets.shape(0)) - 1, stop = start + block;
    const int64_t count = rows ? int64_t(rows->shape(0)) : block, written = rows ? end : start + end;
    refuse_if(begin < 0 || end > count, "rows ", begin, "..", end, " are not among the ", count, " rows there are");
    refuse_if(int64_t(dst.shape(0)) < written, "dst has ", dst.shape(0), " rows, and ", written, " are written");
    refuse_if(loops && int64_t(src.shape(0)) < stop, "src has ", src.shape(0), " rows, and the block ends at ", stop);
    refuse_if(factors && int64_t(factors->shape(0)) < stop, "there are ", factors ? factors->shape(0) : 0,
              " factors, and the block ends at ", stop);
    refuse_if(floors && int64_t(floors->shape(0)) < stop, "there are ", floors ? floors->shape(0) : 0,
              " floors, and the block ends at ", stop);
    refuse_if(weights && weights->shape(0) != neighbours.shape(0), "there are ", weights ? weights->shape(0) : 0,
              " weights for ", neighbours.shape(0), " neighbours");
    refuse_if(nonzero && nonzero->shape(0) < (src.shape(0) + 7) / 8, "there are bits of ",
              nonzero ? 8 * nonzero->shape(0) : 0, " rows, and src has ", src.shape(0));
    // What dst holds may be -0, which a zero that is added turns to +0.
    refuse_if(nonzero && accumulate, "sums that begin with what dst holds do not leave out zero rows");
    gamlp::Hop h{offsets.data(),
                 neighbours.data(),
                 data_or_null(weights),
                 data_or_null(factors),
                 data_or_null(floors),
                 data_or_null(nonzero),
                 data_or_null(rows),
                 int64_t(neighbours.shape(0)),
                 start,
                 begin,
                 end,
                 loops,
                 src.data(),
                 src.stride(0),
                 dst.data(),
                 dst.stride(0),
                 int64_t(src.shape(1)),
                 accumulate};
    h.nodes = int64_t(src.shape(0));
    h.near = near;
    if (window_bits) {
        const int64_t windows = ((std::max(h.nodes, stop) - 1) >> window_bits) + 1;
        refuse_if(rows || nonzero || accumulate || h.width > gamlp::kWindowVectors * gamlp::kLanes,
                  "windows are for all rows, of at most ", gamlp::kWindowVectors * gamlp::kLanes, " columns");
        refuse_if(windows > gamlp::kMostWindows, "2^", window_bits, " rows make ", windows, " windows, and there may be ",
                  gamlp::kMostWindows);
        h.window_bits = window_bits;
        h.scratch = window_scratch(gamlp::window_bytes(windows, bool(weights)));
    }
    nb::gil_scoped_release release;
    return (baseline ? kBaseline : kLoops).hop(h, static_cast<gamlp::Storage>(storage));
}

int64_t scale(ConstMatrix src, int in, Matrix dst, int out, std::optional<Vector<int64_t>> rows,
              std::optional<Vector<float>> row_factors, std::optional<Vector<float>> column_factors, bool baseline,
              std::optional<Vector<float>> row_floors, std::optional<Vector<float>> column_floors) {
    check_matrix("src", src, in);
    check_matrix("dst", ConstMatrix(dst), out);
    const size_t count = dst.shape(0), width = dst.shape(1), given = rows ? rows->shape(0) : src.shape(0);
    refuse_if(src.shape(1) != width, "src has ", src.shape(1), " columns and dst has ", width);
    refuse_if(column_factors && column_factors->shape(0) != width, "there are ",
              column_factors ? column_factors->shape(0) : 0, " column factors for ", width, " columns");
    refuse_if(given != count, given, " rows are given and dst has ", count);
    refuse_if(row_factors && row_factors->shape(0) != count, "there are ", row_factors ? row_factors->shape(0) : 0,
              " row factors for ", count, " rows");
    refuse_if(row_floors && row_floors->shape(0) != count, "there are ", row_floors ? row_floors->shape(0) : 0,
              " row floors for ", count, " rows");
    refuse_if(column_floors && column_floors->shape(0) != width, "there are ",
              column_floors ? column_floors->shape(0) : 0, " column floors for ", width, " columns");
    gamlp::Scale s{src.data(),
                   src.stride(0),
                   dst.data(),
                   dst.stride(0),
                   data_or_null(rows),
                   data_or_null(row_factors),
                   data_or_null(column_factors),
                   data_or_null(row_floors),
                   data_or_null(column_floors),
                   0,
                   int64_t(count),
                   int64_t(width)};
    nb::gil_scoped_release release;
    return (baseline ? kBaseline : kLoops).scale(s, static_cast<gamlp::Storage>(in), static_cast<gamlp::Storage>(out));
}

void nonzero_rows(nb::ndarray<const uint64_t, nb::ndim<2>, nb::device::cpu> values,
                  nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig> bits) {
    const size_t count = values.shape(0), width = values.shape(1);
    refuse_if(bits.shape(0) != (count + 7) / 8, "there are ", bits.shape(0), " bytes for ", count, " rows");
    refuse_if(width > 1 && values.stride(1) != 1, "columns must lie side by side, not ", values.stride(1), " apart");
    const uint64_t *row = values.data();
    const int64_t stride = values.stride(0);
    uint8_t *into = bits.data();
    nb::gil_scoped_release release;
    for (size_t i = 0; i < count; ++i, row += stride) {
        uint64_t found = 0;
        for (size_t column = 0; column < width; ++column) found |= row[column];
        into[i / 8] = uint8_t((i % 8 ? into[i / 8] : 0) | unsigned(found != 0) << i % 8);
    }
}

template <class T>
nb::object hand_over(std::unique_ptr<T[]> &data, size_t count) {
    T *raw = data.release();
    nb::capsule owner(raw, [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(raw, {count}, owner));
}

template <class Index>
nb::tuple csr(Vector<Index> rows, Vector<Index> columns, std::optional<Vector<float>> weights, int64_t start,
              int64_t stop, bool symmetric, bool drop_loops, int threads) {
    const size_t count = rows.shape(0);
    refuse_if(columns.shape(0) != count || (weights && weights->shape(0) != count),
              "rows, columns and weights differ in length: ", count, ", ", columns.shape(0), " and ",
              weights ? weights->shape(0) : count);
    gamlp::Edges edges{rows.data(), columns.data(), sizeof(Index) == 8, data_or_null(weights), int64_t(rows.shape(0)),
                       start,       stop,           symmetric,          drop_loops};
    gamlp::Csr built;
    {
        nb::gil_scoped_release release;
        built = gamlp::build_csr(edges, threads);
    }
    const size_t total = size_t(built.offsets[stop - start]);
    nb::object values = weights ? hand_over(built.weights, total) : nb::none();
    nb::object neighbours = hand_over(built.neighbours, total);
    return nb::make_tuple(hand_over(built.offsets, size_t(stop - start + 1)), neighbours, values);
}

template <class T>
using Filled = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const uint64_t, nb::shape<-1, 11>, nb::c_contig, nb::device::cpu>;

const gamlp::Permutation *permutations(const uint64_t *table) {
    return reinterpret_cast<const gamlp::Permutation *>(table);
}

nb::object matched_rows(Vector<int64_t> offsets, Vector<int32_t> index, Vector<int64_t> bounds, Vector<int64_t> firsts,
                        Table joins, Vector<uint64_t> hidden, int64_t inside, int64_t group, int64_t closeness,
                        int64_t closest, uint64_t pair_key, int64_t begin, int64_t step, Filled<int64_t> counts,
                        Filled<int64_t> kept, Filled<int64_t> stubs) {
    const int64_t count = int64_t(offsets.shape(0)) - 1, classes = int64_t(bounds.shape(0)) - 1;
    const int64_t rows = int64_t(counts.shape(0));
    refuse_if(hidden.shape(0) != 11 || kept.shape(0) != 3 || stubs.shape(0) != 2 || classes < 1 || group < 1 ||
                  int64_t(firsts.shape(0)) != classes + 1 || int64_t(joins.shape(0)) != classes + 1,
              "the parts of the matching do not fit");
    refuse_if(begin < 0 || step < 1 || (rows && begin + (rows - 1) * step >= count), "rows from ", begin, " by ", step,
              " are not among the ", count, " rows there are");
    const gamlp::Matching m{offsets.data(), count,   index.data(), bounds.data(), firsts.data(),
                            permutations(joins.data()), classes, *permutations(hidden.data()),
                            inside,         group,   closeness,    closest,       pair_key};
    std::vector<int32_t> *found = new std::vector<int32_t>;
    nb::capsule owner(found, [](void *p) noexcept { delete static_cast<std::vector<int32_t> *>(p); });
    {
        nb::gil_scoped_release release;
        *found = gamlp::matched_rows(m, begin, step, counts.data(), rows, kept.data(), stubs.data());
    }
    return nb::cast(nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>(found->data(), {found->size()}, owner));
}

void noisy_rows(Vector<int32_t> labels, nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> centres,
                Vector<float> values, uint64_t key, int64_t begin,
                nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    refuse_if(out.shape(0) != labels.shape(0) || out.shape(1) != centres.shape(1) || values.shape(0) != 1 << 12,
              "labels, centres and values do not fit the rows");
    nb::gil_scoped_release release;
    gamlp::noisy_rows(labels.data(), int64_t(labels.shape(0)), centres.data(), int64_t(centres.shape(1)), values.data(),
                      key, begin, out.data());
}

nb::tuple spread(Vector<int32_t> rows, Vector<int32_t> columns, std::optional<Vector<float>> weights, bool symmetric,
                 int64_t width, int64_t count) {
    const size_t edges = rows.shape(0);
    refuse_if(columns.shape(0) != edges || (weights && weights->shape(0) != edges),
              "rows, columns and weights differ in length: ", edges, ", ", columns.shape(0), " and ",
              weights ? weights->shape(0) : edges);
    refuse_if(width < 1 || count < 1, count, " ranges of ", width, " rows");
    gamlp::Spread found;
    {
        nb::gil_scoped_release release;
        found = gamlp::spread(rows.data(), columns.data(), data_or_null(weights), int64_t(edges), symmetric, width, count);
    }
    const size_t total = size_t(found.begin[count]);
    nb::object values = weights ? hand_over(found.weights, total) : nb::none();
    nb::object own = hand_over(found.rows, total), others = hand_over(found.columns, total);
    return nb::make_tuple(hand_over(found.begin, size_t(count + 1)), own, others, values);
}

// The arrays of the ids, kept as long as their table: it points into them.
struct StringArrays {
    Vector<int64_t> offsets;
    Vector<uint8_t> data;
    gamlp::Strings view() const {
        if (offsets.shape(0) == 0) throw std::invalid_argument("strings need one offset more than there are strings, and there is none");
        return {offsets.data(), data.data(), int64_t(offsets.shape(0)) - 1, int64_t(data.shape(0))};
    }
};

struct IntegerArray {
    Vector<int64_t> values;
    gamlp::Integers view() const { return {values.data(), int64_t(values.shape(0))}; }
};

template <class Arrays, class Table>
struct Ids {
    using View = decltype(Arrays().view());
    std::optional<Arrays> kept;
    std::unique_ptr<Table> table;

    explicit Ids(Arrays arrays) : kept(std::move(arrays)) {
        const View view = kept->view();
        {
            nb::gil_scoped_release release;
            table.reset(new Table(view));
        }
        if (!table->keeps()) kept.reset();
    }

    nb::object rows(const Arrays &queries, int threads) const {
        const View view = queries.view();
        std::unique_ptr<int32_t[]> found(new int32_t[size_t(view.count)]);
        {
            nb::gil_scoped_release release;
            table->rows(view, found.get(), threads);
        }
        return hand_over(found, size_t(view.count));
    }

    int64_t distinct() const { return table->distinct(); }
    int64_t bytes() const { return table->bytes(); }
};

using StringIds = Ids<StringArrays, gamlp::StringTable>;
using ConstBytes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::device::cpu>;

void copy_rows(ConstBytes src, Vector<int64_t> rows, Bytes dst) {
    const size_t count = dst.shape(0), width = dst.shape(1);
    refuse_if(src.shape(1) != width, "rows of src have ", src.shape(1), " bytes and those of dst ", width);
    refuse_if(rows.shape(0) != count, rows.shape(0), " rows are given and dst has ", count);
    refuse_if(width > 1 && (src.stride(1) != 1 || dst.stride(1) != 1), "bytes of a row must lie side by side");
    nb::gil_scoped_release release;
    gamlp::copy_rows(src.data(), src.stride(0), rows.data(), int64_t(count), int64_t(width), dst.data(), dst.stride(0));
}

using IntegerIds = Ids<IntegerArray, gamlp::IntegerTable>;

}  // namespace

NB_MODULE(_native, m) {
    m.attr("instructions") = kLoops.name;
    m.attr("block") = gamlp::kBlock;
    m.def("hop", &hop, "dst[i] = factors[i] * sum of neighbours' rows.", nb::kw_only(), "offsets"_a, "neighbours"_a,
          "weights"_a.none(), "factors"_a.none(), "rows"_a.none(), "start"_a, "begin"_a, "end"_a, "loops"_a, "src"_a, "dst"_a, "storage"_a,
          "baseline"_a = false, "accumulate"_a = false, "floors"_a = nb::none(), "nonzero"_a = nb::none(),
          "window_bits"_a = 0, "near"_a = false);
    m.def("nonzero_rows", &nonzero_rows, "Bits of rows that hold another bit than those of +0.", "values"_a, "bits"_a.noconvert());
    m.def("scale", &scale, "dst[i, c] = src[rows[i], c] * row_factors[i] * column_factors[c].", "src"_a, "src_storage"_a,
          "dst"_a, "dst_storage"_a, "rows"_a.none(), "row_factors"_a.none(), "column_factors"_a.none(),
          "baseline"_a = false, "row_floors"_a = nb::none(), "column_floors"_a = nb::none());
    m.def("copy_rows", &copy_rows, "dst[i] = src[rows[i]], bytes as they are.", "src"_a, "rows"_a, "dst"_a.noconvert());
    m.def(
        "add_up",
        [](Vector<int32_t> places, std::optional<Vector<float>> weights, nb::ndarray<double, nb::ndim<1>, nb::c_contig> sums) {
            refuse_if(weights && weights->shape(0) != places.shape(0), "there are ", weights ? weights->shape(0) : 0,
                      " weights for ", places.shape(0), " places");
            const int32_t *at = places.data();
            const float *weight = data_or_null(weights);
            double *sum = sums.data();
            const uint32_t most = uint32_t(sums.shape(0));
            const size_t count = places.shape(0);
            nb::gil_scoped_release release;
            for (size_t i = 0; i < count; ++i) {
                if (uint32_t(at[i]) >= most) throw std::out_of_range("a place outside of the sums");
                sum[at[i]] += weight ? weight[i] : 1.0;
            }
        },
        "sums[places[i]] += weights[i], or 1.", "places"_a, "weights"_a.none(), "sums"_a.noconvert());
    m.def(
        "crc32",
        [](Vector<uint8_t> data, uint32_t crc, bool baseline) {
            nb::gil_scoped_release release;
            return (baseline ? gamlp::crc32_by_tables : gamlp::crc32)(crc, data.data(), data.shape(0));
        },
        "CRC-32 of bytes, going on from crc.", "data"_a, "crc"_a = 0, "baseline"_a = false);
    m.def(
        "permute",
        [](Vector<uint64_t> table, int64_t begin, Filled<int64_t> out) {
            refuse_if(table.shape(0) != 11, "a permutation has 11 numbers, not ", table.shape(0));
            const gamlp::Permutation permutation = *permutations(table.data());
            nb::gil_scoped_release release;
            for (size_t i = 0; i < out.shape(0); ++i) out.data()[i] = int64_t(permutation.to(uint64_t(begin) + i));
        },
        "out[i] = where begin + i goes.", "table"_a, "begin"_a, "out"_a.noconvert());
    m.def(
        "index_offsets",
        [](Vector<int64_t> offsets, int64_t step, Filled<int32_t> out) {
            nb::gil_scoped_release release;
            gamlp::index_offsets(offsets.data(), int64_t(offsets.shape(0)) - 1, step, out.data(), int64_t(out.shape(0)));
        },
        "The row of every step-th entry.", "offsets"_a, "step"_a, "out"_a.noconvert());
    m.def("matched_rows", &matched_rows, "Neighbours of rows of a random graph.");
    m.def("noisy_rows", &noisy_rows, "Centres of labels with noise.");
    const char *text = "Edge list to CSR: (offsets, neighbours, weights or None).";
    m.def("csr", &csr<int32_t>, text, "rows"_a, "columns"_a, "weights"_a.none(), "start"_a, "stop"_a, "symmetric"_a,
          "drop_loops"_a, "threads"_a);
    m.def("csr", &csr<int64_t>, text, "rows"_a, "columns"_a, "weights"_a.none(), "start"_a, "stop"_a, "symmetric"_a,
          "drop_loops"_a, "threads"_a);
    m.def("spread", &spread, "Edges by range of rows: (begin of every range, rows, columns, weights or None).", "rows"_a,
          "columns"_a, "weights"_a.none(), "symmetric"_a, "width"_a, "count"_a);
    nb::class_<StringIds>(m, "StringIds", "Strings (Arrow's offsets and bytes; long ones are not copied) to rows.")
        .def("__init__", [](StringIds *self, Vector<int64_t> offsets, Vector<uint8_t> data) {
            new (self) StringIds(StringArrays{offsets, data});
        }, "offsets"_a, "data"_a)
        .def("rows", [](const StringIds &self, Vector<int64_t> offsets, Vector<uint8_t> data, int threads) {
            return self.rows(StringArrays{offsets, data}, threads);
        }, "offsets"_a, "data"_a, "threads"_a = 1)
        .def_prop_ro("distinct", &StringIds::distinct)
        .def_prop_ro("bytes", &StringIds::bytes);
    nb::class_<IntegerIds>(m, "IntegerIds", "64-bit integers (not copied) to rows.")
        .def("__init__", [](IntegerIds *self, Vector<int64_t> values) { new (self) IntegerIds(IntegerArray{values}); },
             "values"_a)
        .def("rows", [](const IntegerIds &self, Vector<int64_t> values, int threads) {
            return self.rows(IntegerArray{values}, threads);
        }, "values"_a, "threads"_a = 1)
        .def_prop_ro("distinct", &IntegerIds::distinct)
        .def_prop_ro("bytes", &IntegerIds::bytes);
}
