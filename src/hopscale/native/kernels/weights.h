// The weights of all sites.
#pragma once

#include "scratch.h"

namespace hopscale {

struct Weights {
  const float* of;      // a whole number of blocks, zeros after the last site
  double sum, squares;
  bool usable;          // false: only logarithms will do
};

template <Balance balance>
INLINE Weights weigh_as(const float* s, size_t n, float shift, float* w) {
  const float one = std::exp(shift);
  double total = 0, total_squares = 0;
  for (size_t i = 0; i < n; i += kRun) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum, squares)
    for (size_t j = i; j < std::min(n, i + kRun); ++j) {
      float x = s[j] - shift;
      if (balance == kSqrt) x *= 0.5f;
      const float e = exponential(balance == kBarker ? (x > 80.0f ? -80.0f : -x) : x);
      const float weight = balance == kBarker ? 1.0f / (one + e) : e;
      w[j] = x < kLogLeast ? 0.0f : weight;
      sum += w[j];
      squares += w[j] * w[j];
    }
    total += sum;
    total_squares += squares;
  }
  std::fill(w + n, w + whole_blocks(n), 0.0f);
  return {w, total, total_squares, total > 0 && total < kInfinity};
}

// NaN may be passed over here: it comes to light in the sum of the weights.
WIDE inline float largest(const float* s, size_t n) {
  float most = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < n; ++i) most = most < s[i] ? s[i] : most;
  return most;
}

WIDE inline Weights weigh_from(const float* s, size_t n, Balance balance, float shift, float* w) {
  if (balance == kBarker) return weigh_as<kBarker>(s, n, shift, w);
  if (balance == kSqrt) return weigh_as<kSqrt>(s, n, shift, w);
  return weigh_as<kLogWeight>(s, n, shift, w);
}

// Weights relative to the largest; Barker's, being at most 1, only if all of them are small:
// exp(-shift) / (1 + exp(-s)) = 1 / (exp(shift) + exp(shift - s)).
inline Weights weigh(const float* s, size_t n, Balance balance, Scratch& scratch) {
  float shift = largest(s, n);
  if (balance == kBarker) shift = std::min(shift, 0.0f);
  if (!std::isfinite(shift)) return {nullptr, 0, 0, false};
  return weigh_from(s, n, balance, shift, scratch.weights.data());
}

WIDE inline double weight_not_chosen(const float* w, const uint8_t* chosen, size_t n) {
  double total = 0;
  for (size_t i = 0; i < n; i += kRun) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = i; j < std::min(n, i + kRun); ++j) sum += chosen[j] ? 0.0f : w[j];
    total += sum;
  }
  return total;
}

}  // namespace hopscale
