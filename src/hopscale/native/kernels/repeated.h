// Choosing with replacement.
#pragma once

#include "order.h"

namespace hopscale {

inline double repeated_log_prob_from(const Weights& weights, const float* s, size_t n,
                                     Balance balance, const int32_t* sites, size_t length,
                                     Scratch& scratch) {
  double *own = scratch.doubles.data(), unused;
  if (weights.usable && weights_along(weights, n, sites, length, true, own, unused))
    return sum_of_logs(own, length) - static_cast<double>(length) * std::log(weights.sum);
  double all = -kInfinity, log_prob = 0;
  for (size_t i = 0; i < n; ++i) all = log_add(all, log_weight(s[i], balance));
  for (size_t r = 0; r < length; ++r) {
    const double log_own = log_weight(s[site_from_end(sites, r, n, length, true)], balance);
    log_prob += log_own == -kInfinity ? log_own : log_own - all;
  }
  return all != all ? all : log_prob;
}

inline float repeated_log_prob(const float* s, size_t n, Balance balance, const int32_t* sites,
                               int32_t length) {
  Scratch& scratch = Scratch::here(n);
  return static_cast<float>(repeated_log_prob_from(weigh(s, n, balance, scratch), s, n, balance,
                                                   sites, clamp_length(length, n), scratch));
}

// Where levels spread over the total weight fall among the sites laid end to end. Without usable
// weights, always the heaviest site.
inline float repeated(Key key, const float* s, size_t n, Balance balance, int32_t asked,
                      int32_t* sites, uint8_t* chosen) {
  Scratch& scratch = Scratch::here(n);
  const size_t length = clamp_length(asked, n);
  const Weights weights = weigh(s, n, balance, scratch);
  double* upto = scratch.doubles.data();
  double total = 0;
  size_t last = 0;
  for (size_t i = 0; i < n; ++i) {
    const float w = weights.usable ? weights.of[i] : 0.0f;
    upto[i] = total += w;
    const bool heavier = weights.usable ? w > 0 : s[i] > s[last] || s[last] != s[last];
    last = heavier ? i : last;
  }
  std::memset(chosen, 0, n);
  for (size_t r = 0; r < length; ++r) {
    const double level = (random_word(key, r) + 0.5) * 0x1p-32 * total;
    const auto site = static_cast<size_t>(std::upper_bound(upto, upto + n, level) - upto);
    sites[r] = static_cast<int32_t>(std::min(site, last));
    chosen[sites[r]] = 1;
  }
  std::fill(sites + length, sites + n, 0);
  return static_cast<float>(repeated_log_prob_from(weights, s, n, balance, sites, length, scratch));
}

inline void odd(const int32_t* sites, size_t n, int32_t asked, uint8_t* is_odd) {
  const size_t length = clamp_length(asked, n);
  std::memset(is_odd, 0, n);
  for (size_t r = 0; r < length; ++r)
    is_odd[site_from_end(sites, r, n, length, true)] ^= 1;
}

}  // namespace hopscale
