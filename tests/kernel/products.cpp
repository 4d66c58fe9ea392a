// Pairs of numbers on the standard input, the low and the high half of each product on the output. See test_compilers.py.
#include <cstdio>

#include "../../src/gamlp/kernel/compilers.hpp"

int main() {
    unsigned long long a, b;
    while (std::scanf("%llu %llu", &a, &b) == 2) {
        const gamlp::Product p = gamlp::multiply(a, b);
        std::printf("%llu %llu\n", static_cast<unsigned long long>(p.low), static_cast<unsigned long long>(p.high));
    }
}
