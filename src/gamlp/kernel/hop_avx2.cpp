#define GAMLP_HOP hop_avx2
#define GAMLP_SCALE scale_avx2
#include "hop_rows.hpp"
