// The weights of all sites: relative to the largest, in single precision.
//
// Weights under 2^-110 count as zero, so that no product or quotient can overflow. That is right
// unless a choice reaches sites whose weight is negligible beside the largest; `order.h` detects
// this and continues with logarithms in double precision.
#pragma once

#include "chains.h"
#include "scratch.h"

namespace hopscale {

// The largest argument of an exponential: a variable, so that it is applied by one instruction.
struct Bound {
  float most = 80.0f;
};

// Unscaled weights.
struct Plain : Bound {
  static constexpr float shift = 0.0f, one = 1.0f, factor = 1.0f;
};

// The scale of weights: w = g(s) / exp(shift). Barker's weights, which are at most 1, are scaled
// only if all of them are small: exp(-shift) / (1 + exp(-s)) = 1 / (exp(shift) + exp(shift - s)).
// Weights that are given directly, all positive, are multiplied by a power of two.
struct Scale : Bound {
  Balance balance;
  float shift, one, factor;
  bool usable;  // false: only logarithms will do

  Scale(float largest, Balance kind)
      : balance(kind),
        shift(kind == kWeight ? 0.0f : kind == kBarker ? std::min(largest, 0.0f) : largest),
        one(shift == 0.0f ? 1.0f : std::exp(shift)),
        factor(kind == kWeight && largest > 0 ? std::ldexp(1.0f, -std::ilogb(largest)) : 1.0f),
        usable(std::isfinite(shift)) {}
};

struct Weights {
  Scale scale;
  double sum;
  bool usable;
};

template <Balance balance, typename Relative>  // Plain or Scale
INLINE float weight(float s, const Relative& scale) {
  if (balance == kWeight) return s * scale.factor;
  float x = s - scale.shift;
  if (balance == kSqrt) x *= 0.5f;
  const float bounded = scale.most < x ? scale.most : x;  // NaN stays
  const float e = exponential(balance == kBarker ? -bounded : bounded);
  const float w = balance == kBarker ? 1.0f / (scale.one + e) : e;
  return x < kLogLeast ? 0.0f : w;
}

// The call with `balance` a constant, so that loops are compiled for each kind.
#define HOPSCALE_BY_BALANCE(kind, call)                   \
  if ((kind) == kBarker) {                                \
    constexpr Balance balance = kBarker;                  \
    call;                                                 \
  } else if ((kind) == kSqrt) {                           \
    constexpr Balance balance = kSqrt;                    \
    call;                                                 \
  } else if ((kind) == kWeight) {                         \
    constexpr Balance balance = kWeight;                  \
    call;                                                 \
  } else {                                                \
    constexpr Balance balance = kLogWeight;               \
    call;                                                 \
  }

template <Balance balance, typename Relative>
INLINE double add_weights(const Relative& given, const float* s, const uint8_t* taken, size_t n) {
  const Relative scale = given;  // a copy, which no store can change
  double total = 0;
  for (size_t i = 0; i < n; i += kRun) {
    const size_t end = std::min(n, i + kRun);
    float sum = 0;
    if (taken == nullptr) {
#pragma omp simd reduction(+ : sum)
      for (size_t j = i; j < end; ++j) sum += weight<balance>(s[j], scale);
    } else {
#pragma omp simd reduction(+ : sum)
      for (size_t j = i; j < end; ++j) sum += taken[j] ? 0.0f : weight<balance>(s[j], scale);
    }
    total += sum;
  }
  return total;
}

// The weight of all sites, or of those not taken.
WIDE inline double sum_of_weights(const Scale& scale, const float* s, const uint8_t* taken,
                                  size_t n) {
  HOPSCALE_BY_BALANCE(scale.balance, return add_weights<balance>(scale, s, taken, n))
}

WIDE inline void weights_of(const Scale& given, const float* s, size_t count, double* w) {
  const Scale scale = given;
  HOPSCALE_BY_BALANCE(scale.balance, for (size_t i = 0; i < count; ++i) w[i] =
                                         static_cast<double>(weight<balance>(s[i], scale)))
}

// NaN may be missed here: it shows in the sum of the weights.
WIDE inline float largest(const float* s, const uint8_t* taken, size_t n) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  float most = none;
  if (taken == nullptr) {
#pragma omp simd reduction(max : most)
    for (size_t i = 0; i < n; ++i) most = most < s[i] ? s[i] : most;
  } else {
#pragma omp simd reduction(max : most)
    for (size_t i = 0; i < n; ++i) {
      const float one = taken[i] ? none : s[i];
      most = most < one ? one : most;
    }
  }
  return most;
}

// A sum over pieces of a chain that do not depend on the threads, so that the sum does not either.
inline double sum_in_pieces(const Scale& scale, const float* s, const uint8_t* taken, size_t n,
                            const Team& team, Scratch& scratch) {
  constexpr size_t piece = 32 * kRun;
  const size_t pieces = (n + piece - 1) / piece;
  double* sums = room(scratch.sums, pieces);
  team.share(pieces, n, [=, &scale](size_t p) {
    const size_t begin = p * piece;
    sums[p] = sum_of_weights(scale, s + begin, taken == nullptr ? nullptr : taken + begin,
                             std::min(piece, n - begin));
  });
  double total = 0;
  for (size_t p = 0; p < pieces; ++p) total += sums[p];
  return total;
}

// `sum(scale)` at a scale that suits the weights of all sites. Barker's weights are at most 1
// unscaled: another scale is looked for only if the total weight is small.
template <typename Sum>
INLINE Weights scaled(const float* s, size_t n, Balance balance, Sum sum) {
  const bool as_they_are = balance == kBarker || balance == kWeight;
  Scale scale(0.0f, balance);
  double total = as_they_are ? sum(scale) : 0;
  if (!as_they_are || total < kPlenty) {
    scale = Scale(largest(s, nullptr, n), balance);
    total = scale.usable ? sum(scale) : 0;
  }
  return {scale, total, total > 0 && total < kInfinity};
}

inline Weights weigh(const float* s, size_t n, Balance balance, const Team& team,
                     Scratch& scratch) {
  return scaled(s, n, balance, [&](const Scale& scale) {
    return sum_in_pieces(scale, s, nullptr, n, team, scratch);
  });
}

}  // namespace hopscale
