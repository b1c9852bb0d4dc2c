// An Ising model on a rectangle, and the Hamming distance: sums over all sites of int8 states.
#pragma once

#include "chains.h"
#include "scratch.h"

namespace hopscale {

// Rows [begin, end) of spins 2x - 1, with a row more on either side and a column of zeros on
// either end, so that every site has four neighbours: zeros beyond the lattice.
INLINE const int8_t* bordered_spins(const int8_t* x, size_t rows, size_t columns, size_t begin,
                                    size_t end, std::vector<int8_t>& spins) {
  const size_t width = columns + 2;
  spins.assign((end - begin + 2) * width, 0);
  for (size_t r = begin == 0 ? 0 : begin - 1; r < std::min(rows, end + 1); ++r) {
    int8_t* to = spins.data() + (r + 1 - begin) * width + 1;
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

WIDE inline double ising_rows(const int8_t* x, const float* field, size_t rows, size_t columns,
                              size_t begin, size_t end, float down, float right, float* ratios) {
  thread_local std::vector<int8_t> spins;
  const size_t width = columns + 2;
  const int8_t* s = bordered_spins(x, rows, columns, begin, end, spins) + width + 1;
  double total = 0;
  for (size_t r = begin; r < end; ++r, s += width) {
    const float* row = field + r * columns;
    if (ratios == nullptr)
      total += ising_row<false>(s, width, row, columns, down, right, nullptr);
    else
      total += ising_row<true>(s, width, row, columns, down, right, ratios + r * columns);
  }
  return total;
}

inline float ising(const int8_t* x, const float* field, size_t rows, size_t columns, float down,
                   float right, float* ratios, const Team& team) {
  constexpr size_t piece_sites = 32768;
  const size_t piece = std::max<size_t>(1, piece_sites / columns);
  const size_t pieces = (rows + piece - 1) / piece;
  double* sums = room(Scratch::here().sums, pieces);
  team.share(pieces, rows * columns, [=](size_t p) {
    sums[p] = ising_rows(x, field, rows, columns, p * piece, std::min(rows, (p + 1) * piece), down,
                         right, ratios);
  });
  double total = 0;
  for (size_t p = 0; p < pieces; ++p) total += sums[p];
  return static_cast<float>(total);
}

// What flipping the sites `moved` changes in log pi: each of their spins turns over, and a bond
// counts where it has just one end among them.
inline float ising_change(const int8_t* x, const uint8_t* moved, const float* field, size_t rows,
                          size_t columns, float down, float right) {
  const size_t n = rows * columns;
  const auto spin = [x](size_t i) { return static_cast<float>(2 * x[i] - 1); };
  const auto fixed = [=](size_t i) { return moved[i] ? 0.0f : spin(i); };
  const auto gain = [=](size_t i) {
    const size_t r = i / columns, c = i - r * columns;
    float across = 0, along = 0;
    if (r > 0) across += fixed(i - columns);
    if (r + 1 < rows) across += fixed(i + columns);
    if (c > 0) along += fixed(i - 1);
    if (c + 1 < columns) along += fixed(i + 1);
    return -2.0f * spin(i) * (field[i] + down * across + right * along);
  };
  double total = 0;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {  // few sites move: most groups of eight have none
    uint64_t eight;
    std::memcpy(&eight, moved + i, 8);
    if (eight == 0) continue;
    for (size_t j = i; j < i + 8; ++j)
      if (moved[j]) total += static_cast<double>(gain(j));
  }
  for (; i < n; ++i)
    if (moved[i]) total += static_cast<double>(gain(i));
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
