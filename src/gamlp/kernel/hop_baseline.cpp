#define GAMLP_HOP hop_baseline
#include "hop_rows.hpp"
