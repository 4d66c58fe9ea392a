#define GAMLP_HOP hop_avx512
#define GAMLP_SCALE scale_avx512
#include "hop_rows.hpp"
