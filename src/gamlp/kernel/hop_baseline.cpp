#define GAMLP_HOP hop_baseline
#define GAMLP_SCALE scale_baseline
#include "hop_rows.hpp"
