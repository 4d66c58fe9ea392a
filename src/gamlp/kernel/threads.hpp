// Work of several threads, and memory that many of them look into at random.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gamlp {

// An exception in any thread reaches the caller, after all threads have ended.
inline void in_parallel(int threads, const std::function<void(int)> &work) {
    std::vector<std::exception_ptr> failures(threads);
    auto guarded = [&](int t) {
        try {
            work(t);
        } catch (...) {
            failures[t] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(threads);
    int started = 1;
    try {
        for (; started < threads; ++started) others.emplace_back(guarded, started);
    } catch (const std::system_error &) {  // no more threads to be had: their work is done here
        for (int t = started; t < threads; ++t) guarded(t);
    }
    guarded(0);
    for (auto &thread : others) thread.join();
    for (auto &failure : failures)
        if (failure) std::rethrow_exception(failure);
}

// Zeros, on huge pages where the system has them: a look at a random place then misses the cache alone, and not the
// tables of pages too.
template <class T>
class Zeros {
  public:
    explicit Zeros(size_t count) : bytes_(count * sizeof(T)) {
        if (count == 0) return;
#if defined(__linux__)
        void *found = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED) throw std::bad_alloc();
        madvise(found, bytes_, MADV_HUGEPAGE);  // a wish: small pages are right too
        data_ = static_cast<T *>(found);
#else
        data_ = static_cast<T *>(std::calloc(count, sizeof(T)));
        if (!data_) throw std::bad_alloc();
#endif
    }
    ~Zeros() {
        if (!data_) return;
#if defined(__linux__)
        munmap(data_, bytes_);
#else
        std::free(data_);
#endif
    }
    Zeros(const Zeros &) = delete;
    Zeros &operator=(const Zeros &) = delete;

    T &operator[](size_t i) { return data_[i]; }
    const T &operator[](size_t i) const { return data_[i]; }
    T *data() { return data_; }
    size_t bytes() const { return bytes_; }

  private:
    T *data_ = nullptr;
    size_t bytes_;
};

}  // namespace gamlp
