// An Ising model on a rectangle, and the Hamming distance: sums over all sites of int8 states.
#pragma once

#include "scratch.h"

namespace hopscale {

// Spins 2x - 1 with a border of zeros, so that every site has four neighbours.
INLINE const int8_t* bordered_spins(const int8_t* x, size_t rows, size_t columns,
                                    std::vector<int8_t>& spins) {
  const size_t width = columns + 2;
  spins.assign((rows + 2) * width, 0);
  for (size_t r = 0; r < rows; ++r) {
    int8_t* to = spins.data() + (r + 1) * width + 1;
    for (size_t c = 0; c < columns; ++c) to[c] = static_cast<int8_t>(2 * x[r * columns + c] - 1);
  }
  return spins.data();
}

// A row's share of log pi, sum_i s_i (h_i + pull_i / 2), for each bond is seen from both ends; and
// the row's log-ratios -2 s_i (h_i + pull_i), unless `ratios` is null.
template <bool with_ratios>
INLINE float ising_row(const int8_t* s, size_t width, const float* field, size_t columns, float down,
                       float right, float* ratios) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t c = 0; c < columns; ++c) {
    const auto spin = static_cast<float>(s[c]);
    // Sums of two spins fit in a byte, where they are cheapest.
    const auto along = static_cast<int8_t>(s[c + 1] + *(s + c - 1));
    const auto across = static_cast<int8_t>(s[c + width] + *(s + c - width));
    const float pull = right * static_cast<float>(along) + down * static_cast<float>(across);
    sum += spin * (field[c] + 0.5f * pull);
    if (with_ratios) ratios[c] = -2.0f * spin * (field[c] + pull);
  }
  return sum;
}

WIDE inline float ising(const int8_t* x, const float* field, size_t rows, size_t columns,
                        float down, float right, float* ratios) {
  thread_local std::vector<int8_t> spins;
  const size_t width = columns + 2;
  const int8_t* s = bordered_spins(x, rows, columns, spins) + width + 1;
  double total = 0;
  for (size_t r = 0; r < rows; ++r, s += width, field += columns) {
    if (ratios == nullptr) {
      total += ising_row<false>(s, width, field, columns, down, right, nullptr);
    } else {
      total += ising_row<true>(s, width, field, columns, down, right, ratios);
      ratios += columns;
    }
  }
  return static_cast<float>(total);
}

WIDE inline float hamming(const int8_t* x, const int8_t* origin, size_t n) {
  size_t total = 0;
  for (size_t i = 0; i < n; i += 128) {  // as many ones as an int8 holds
    uint8_t different = 0;
    const size_t end = std::min(n, i + 128);
#pragma omp simd reduction(+ : different)
    for (size_t j = i; j < end; ++j) different += x[j] != origin[j];
    total += different;
  }
  return static_cast<float>(total);
}

}  // namespace hopscale
