// An Ising model on a rectangle, and the Hamming distance: sums over all sites of int8 states.
#pragma once

#include "chains.h"
#include "scratch.h"

namespace hopscale {

// Returns a row's share of log pi, sum_i s_i (h_i + pull_i / 2): each bond is counted from both
// ends. With ratios, also writes the row's log-ratios -2 s_i (h_i + pull_i).
template <bool with_ratios>
INLINE float ising_row(const float* above, const float* s, const float* below, const float* field,
                       size_t columns, float down, float right, float* ratios) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t c = 0; c < columns; ++c) {
    const float pull = right * (*(s + c - 1) + s[c + 1]) + down * (above[c] + below[c]);
    sum += s[c] * (field[c] + 0.5f * pull);
    if (with_ratios) ratios[c] = -2.0f * s[c] * (field[c] + pull);
  }
  return sum;
}

// Rows [begin, end). Four rows of spins 2x - 1 are kept at a time, with a zero on either end, so
// that every site has four neighbours, zeros beyond the lattice. The fourth is written a row before
// it is read, because reading what has only just been written makes the processor wait.
WIDE inline double ising_rows(const int8_t* x, const float* field, size_t rows, size_t columns,
                              size_t begin, size_t end, float down, float right, float* ratios) {
  thread_local std::vector<float> spins;
  const size_t width = columns + 2;
  spins.assign(4 * width, 0.0f);
  const auto spins_of = [&](size_t r) { return spins.data() + (r + 4) % 4 * width + 1; };
  const auto write = [&](size_t r) {
    float* to = spins_of(r);
    const int8_t* from = x + r * columns;
    if (r >= rows)
      std::fill_n(to, columns, 0.0f);
    else
      for (size_t c = 0; c < columns; ++c) to[c] = static_cast<float>(2 * from[c] - 1);
  };
  if (begin > 0) write(begin - 1);
  write(begin);
  write(begin + 1);
  double total = 0;
  for (size_t r = begin; r < end; ++r) {
    write(r + 2);
    const float *above = spins_of(r - 1), *here = spins_of(r), *below = spins_of(r + 1);
    const float* row = field + r * columns;
    if (ratios == nullptr)
      total += ising_row<false>(above, here, below, row, columns, down, right, nullptr);
    else
      total += ising_row<true>(above, here, below, row, columns, down, right, ratios + r * columns);
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

// The change in log pi if the sites `moved` are flipped: each of their spins changes sign, and a
// bond counts if it has just one end among them.
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
