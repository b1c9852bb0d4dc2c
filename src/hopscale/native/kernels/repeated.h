// Choosing with replacement.
#pragma once

#include "order.h"
#include "table.h"

namespace hopscale {

inline double repeated_log_prob_from(const Weights& weights, const float* s, size_t n,
                                     const int32_t* sites, size_t length, Scratch& scratch) {
  double unused;
  if (length == 0) return 0;
  if (weights.usable && weights_along(weights.scale, s, n, sites, length, true, scratch, unused))
    return sum_of_logs(scratch.along.data(), length) -
           static_cast<double>(length) * std::log(weights.sum);
  const Balance balance = weights.scale.balance;
  double all = -kInfinity, log_prob = 0;
  for (size_t i = 0; i < n; ++i) all = log_add(all, log_weight(s[i], balance));
  for (size_t r = 0; r < length; ++r) {
    const double log_own = log_weight(s[site_from_end(sites, r, n, length, true)], balance);
    log_prob += log_own == -kInfinity ? log_own : log_own - all;
  }
  return all != all ? all : log_prob;
}

inline float repeated_log_prob(const float* s, size_t n, Balance balance, const int32_t* sites,
                               int32_t length, const Team& team) {
  Scratch& scratch = Scratch::here();
  return static_cast<float>(repeated_log_prob_from(weigh(s, n, balance, team, scratch), s, n, sites,
                                                   clamp_length(length, n), scratch));
}

// The draws of a race's first round, all of them kept. Without usable weights, always the heaviest
// site.
inline float repeated(Key key, const float* s, size_t n, Balance balance, int32_t asked,
                      int32_t* sites, uint8_t* chosen, const Team& team) {
  constexpr size_t piece = 1024;  // draws
  Scratch& scratch = Scratch::here();
  const size_t length = clamp_length(asked, n);
  Table table;
  const Weights weights = scaled(s, n, balance, [&](const Scale& scale) {
    return tabulate(scale, s, nullptr, n, team, scratch, table);
  });
  if (weights.usable) {
    team.share((length + piece - 1) / piece, 8 * length, [=, &table](size_t p) {
      draw_sites(table, key, static_cast<uint32_t>(p * piece),
                 std::min(piece, length - p * piece), sites + p * piece);
    });
  } else {
    size_t heaviest = 0;
    for (size_t i = 1; i < n; ++i)
      if (s[i] > s[heaviest] || s[heaviest] != s[heaviest]) heaviest = i;
    std::fill(sites, sites + length, static_cast<int32_t>(heaviest));
  }
  std::memset(chosen, 0, n);
  for (size_t r = 0; r < length; ++r) chosen[sites[r]] = 1;
  std::fill(sites + length, sites + n, 0);
  return static_cast<float>(repeated_log_prob_from(weights, s, n, sites, length, scratch));
}

inline void odd(const int32_t* sites, size_t n, int32_t asked, uint8_t* is_odd) {
  const size_t length = clamp_length(asked, n);
  std::memset(is_odd, 0, n);
  for (size_t r = 0; r < length; ++r)
    is_odd[site_from_end(sites, r, n, length, true)] ^= 1;
}

}  // namespace hopscale
