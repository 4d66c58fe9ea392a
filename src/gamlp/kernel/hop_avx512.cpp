#define GAMLP_HOP hop_avx512
#include "hop_rows.hpp"
