// The probability of an order of sites.
#pragma once

#include "weights.h"

namespace hopscale {

// The sum of the logarithms of numbers between 2^-110 and 2^110, with one logarithm for eight.
inline double sum_of_logs(const double* x, size_t count) {
  double sum = 0, product = 1;
  for (; count >= 8; count -= 8, x += 8)
    sum += std::log(((x[0] * x[1]) * (x[2] * x[3])) * ((x[4] * x[5]) * (x[6] * x[7])));
  for (; count > 0; --count) product *= *x++;
  return sum + std::log(product);
}

// The site chosen r-th to last; if `backwards`, r-th.
INLINE size_t site_from_end(const int32_t* sites, size_t r, size_t n, size_t length,
                            bool backwards) {
  const int64_t site = sites[backwards ? r : length - 1 - r];
  return static_cast<size_t>(std::clamp<int64_t>(site, 0, static_cast<int64_t>(n) - 1));
}

// The log-probability of an order, with logarithms throughout. A step without weight has
// probability zero.
inline double order_log_prob_slowly(const float* s, size_t n, Balance balance, const int32_t* sites,
                                    const uint8_t* chosen, size_t length, bool backwards) {
  double left = -kInfinity, log_prob = 0;
  for (size_t i = 0; i < n; ++i)
    if (!chosen[i]) left = log_add(left, log_weight(s[i], balance));
  for (size_t r = 0; r < length; ++r) {
    const double own = log_weight(s[site_from_end(sites, r, n, length, backwards)], balance);
    left = log_add(left, own);
    log_prob += own == -kInfinity ? own : own - left;
  }
  return left != left ? left : log_prob;
}

// Writes the weights along an order, from its end, to `scratch.along`, and their sum to `sum`.
// Returns whether none of them is zero.
INLINE bool weights_along(const Scale& scale, const float* s, size_t n, const int32_t* sites,
                          size_t length, bool backwards, Scratch& scratch, double& sum) {
  float* values = room(scratch.values, length);
  double* own = room(scratch.along, length);
  for (size_t r = 0; r < length; ++r)
    values[r] = s[site_from_end(sites, r, n, length, backwards)];
  weights_of(scale, values, length, own);
  double least = 1, total = 0;
#pragma omp simd reduction(+ : total) reduction(min : least)
  for (size_t r = 0; r < length; ++r) {
    total += own[r];
    least = own[r] < least ? own[r] : least;
  }
  sum = total;
  return least > 0;
}

// x[r] becomes before + x[0] + ... + x[r]: four at a time, since each sum waits for the one before.
inline void accumulate(double* x, size_t count, double before) {
  for (; count >= 4; count -= 4, x += 4) {
    const double two = x[0] + x[1], three = two + x[2], four = two + (x[2] + x[3]);
    x[0] += before;
    x[1] = before + two;
    x[2] = before + three;
    x[3] = before += four;
  }
  for (; count > 0; --count, ++x) *x = before += *x;
}

// From the end of the order to its beginning, the weight left to choose from only grows. It begins
// as the weight of all sites not chosen: a difference, unless too little would remain of it.
inline double order_log_prob_from(const Weights& weights, const float* s, size_t n,
                                  const int32_t* sites, const uint8_t* chosen, size_t length,
                                  bool backwards, const Team& team, Scratch& scratch) {
  double taken;
  if (length == 0) return 0;
  if (weights.usable &&
      weights_along(weights.scale, s, n, sites, length, backwards, scratch, taken)) {
    double *own = scratch.along.data(), left = weights.sum - taken;
    if (left < 0.25 * weights.sum)
      left = sum_in_pieces(weights.scale, s, chosen, n, team, scratch);
    if (left + own[0] >= kLeastSum) {
      const double logs = sum_of_logs(own, length);
      accumulate(own, length, left);
      return logs - sum_of_logs(own, length);
    }
  }
  return order_log_prob_slowly(s, n, weights.scale.balance, sites, chosen, length, backwards);
}

inline float order_log_prob(const float* s, size_t n, Balance balance, const int32_t* sites,
                            const uint8_t* chosen, int32_t length, bool backwards,
                            const Team& team) {
  Scratch& scratch = Scratch::here();
  return static_cast<float>(order_log_prob_from(weigh(s, n, balance, team, scratch), s, n, sites,
                                                chosen, clamp_length(length, n), backwards, team,
                                                scratch));
}

}  // namespace hopscale
