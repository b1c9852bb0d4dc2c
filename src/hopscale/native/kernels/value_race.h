// Sites of several values, chosen without replacement, and the values they take, in one call.
//
// A site u with weight W_u takes value v with probability w_uv / W_u, so that W_u cancels from the
// probability of a choice: log q = sum_r log w_{u_r v_r} - log(weight left to choose from at r).
#pragma once

#include "race.h"
#include "value_draws.h"

namespace hopscale {

// The log-probability below, with logarithms of all weights.
inline double order_values_slowly(const Values& of, const int8_t* to, const int32_t* sites,
                                  const uint8_t* chosen, size_t length, bool backwards,
                                  const Team& team) {
  float* totals = room(Scratch::here().totals, of.n);
  log_totals(of, totals, team);
  const auto asked = static_cast<int32_t>(length);
  const double order =
      order_log_prob(totals, of.n, kLogWeight, sites, chosen, asked, backwards, team);
  return order + static_cast<double>(values_log_prob(of, totals, to, chosen));
}

// The log-probability of an order of sites and of the values they take, given the weights along it
// and the sum of the weights of all sites.
inline float order_values_from(const Values& of, const Along& along, double sum, const int8_t* to,
                               const int32_t* sites, const uint8_t* chosen, const Team& team) {
  const size_t length = along.length;
  if (length == 0) return 0.0f;
  if (along.fine && sum > 0 && sum < 0x1p100) {
    double left = sum;
    for (size_t r = 0; r < length; ++r) left -= along.totals[r];
    if (left >= 0.25 * sum) {  // else too little would remain of a difference
      accumulate(along.totals, length, left);
      return static_cast<float>(sum_of_logs(along.taken, length) -
                                sum_of_logs(along.totals, length));
    }
  }
  return static_cast<float>(
      order_values_slowly(of, to, sites, chosen, length, along.backwards, team));
}

// The same, given only the log-ratios: for the sites that are not in the order, only the sum of
// their weights is needed.
inline float order_values(const Values& of, const int8_t* to, const int32_t* sites,
                          const uint8_t* chosen, int32_t asked, bool backwards, const Team& team) {
  const double sum = sum_of_totals(of, team);
  const Along along = weigh_along(of, to, sites, clamp_length(asked, of.n), backwards);
  return order_values_from(of, along, sum, to, sites, chosen, team);
}

// Sites without replacement, in order, the values they take, and the log-probability of both.
inline float race_values(Key key, const Values& of, int32_t asked, int32_t* sites, uint8_t* chosen,
                         int8_t* drawn, const Team& team) {
  Scratch& scratch = Scratch::here();
  float* totals = room(scratch.totals, of.n);
  const bool fine = plain_totals(of, totals, team);
  if (!fine) log_totals(of, totals, team);
  const Balance kind = fine ? kWeight : kLogWeight;
  Table table{};
  const Weights weights = scaled(totals, of.n, kind, [&](const Scale& scale) {
    return tabulate(scale, totals, nullptr, of.n, team, scratch, table);
  });
  choose(table, key, totals, of.n, kind, clamp_length(asked, of.n), weights.usable, sites, chosen,
         team, scratch);
  const Along along = draw_values(of, key, sites, asked, drawn);
  const double sum = fine ? weights.sum / static_cast<double>(weights.scale.factor) : 0;
  return order_values_from(of, along, sum, drawn, sites, chosen, team);
}

}  // namespace hopscale
