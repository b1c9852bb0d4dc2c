// Choosing sites by weight, without replacement, one chain at a time.
//
// A race gives site i the arrival time T_i = -log(1 - v_i) / w_i and takes the first R arrivals.
// Almost no site is among them, so almost no site needs its time: since 1 - exp(-t w) <= t w, a
// site that arrives by time t has v <= t w. One multiplication and one comparison a site leave
// slightly more than R candidates, and only those get a logarithm and a place in the sort.
//
// Weights are single-precision numbers relative to the largest. That fails when the choice reaches
// sites whose weight is nothing beside the largest; each function notices and redoes the chain with
// logarithms in double precision. Constants in numbers.h say when the quick way can be trusted:
//   - weights under 2^-110 count as zero, so that no product or quotient here can overflow;
//   - such a site arrives no sooner than 2^-33 / 2^-110 = 2^77, so arrivals before 2^76 are right;
//   - sums over 2^-64 are right to single precision, whatever small weights are missing from them.
#pragma once

#include "candidates.h"
#include "order.h"

namespace hopscale {

// The number of sites expected to arrive by a time, and its derivative.
WIDE inline std::pair<double, double> expected_arrivals(const float* w, size_t n, float time) {
  double arrivals = 0, rate = 0;
  for (size_t i = 0; i < n; i += kRun) {
    float first = 0, second = 0;
#pragma omp simd reduction(+ : first, second)
    for (size_t j = i; j < std::min(n, i + kRun); ++j) {
      const float x = time * w[j];
      const float e = x > 76.0f ? 0.0f : exponential(-x);
      first += x < 1e-3f ? x : 1.0f - e;
      second += w[j] * e;
    }
    arrivals += first;
    rate += second;
  }
  return {arrivals, rate};
}

// A time by which about `wanted` sites arrive.
//
// Were the weights distributed as Gamma with their mean and variance, sum(1 - exp(-t w)) = wanted
// would have a solution in closed form, and it agrees with the true one to second order in the
// fraction of sites that arrive. When that is not enough, Newton's method: the sum is concave in t,
// so that the steps approach from below and never overshoot.
inline float finishing_time(const Weights& weights, size_t n, double wanted, double slack,
                            bool closed_form) {
  const double fraction = wanted / static_cast<double>(n);
  if (fraction > 0.9) return kLate;
  const double mean = weights.sum / static_cast<double>(n);
  const double spread = static_cast<double>(n) * weights.squares / (weights.sum * weights.sum) - 1;
  if (closed_form && spread * fraction < 0.3) {
    const double shape = std::max(spread, 1e-6);
    return static_cast<float>(std::expm1(-std::log1p(-fraction) * shape) / (shape * mean));
  }
  double time = wanted / weights.sum;
  for (int step = 0; step < 30 && time < kLate; ++step) {
    const auto [arrivals, rate] = expected_arrivals(weights.of, n, static_cast<float>(time));
    if (arrivals > wanted - slack) break;
    time = rate > 0 ? time + (wanted - arrivals) / rate : kLate;
  }
  return static_cast<float>(std::min<double>(time, kLate));
}

// The sites that may arrive by `time`. A little later than that, lest rounding lose one; and a site
// without weight may slip in, whose time is infinite.
WIDE inline size_t candidates(Key key, const float* w, size_t n, float time, Scratch& scratch) {
  const float bound = time * (0x1p32f * (1 + 0x1p-16f));
  return draw(key, n, scratch, [=](size_t i, uint32_t word) __attribute__((always_inline)) {
    return static_cast<float>(word) <= bound * w[i];
  });
}

// Arrival times of the candidates, and buckets to sort them: t / (t + typical) spreads exponential
// times about evenly, and 1 - typical / (t + typical) cannot decrease, even rounded.
WIDE inline void arrival_times(const float* weights, Scratch& scratch, size_t count, float time,
                               float typical, size_t buckets) {
  const float scale = static_cast<float>(buckets) / (1.0f - typical / (time + typical));
  const int32_t last = static_cast<int32_t>(buckets) - 1;
  float *v = scratch.v.data(), *w = scratch.weight.data(), *times = scratch.time.data();
  for (size_t c = 0; c < count; ++c) {
    v[c] = uniform_number(scratch.words[scratch.site[c]]);
    w[c] = weights[scratch.site[c]];
  }
  uint32_t* bucket = scratch.bucket.data();
  for (size_t c = 0; c < count; ++c) {
    const float t = exponential_time(v[c]) / w[c];
    times[c] = t;
    const float place = scale * (1.0f - typical / (t + typical));
    const int32_t b = static_cast<int32_t>(place < 1e9f ? place : 1e9f);
    bucket[c] = static_cast<uint32_t>(b < last ? b : last);
  }
}

// The first arrivals, in order, at the head of scratch.sorted: at least `length` of them, or the
// answer is false. Three standard deviations more than needed are asked for, so that one attempt
// nearly always does; the third looks at all sites.
inline bool run_race(Key key, const Weights& weights, size_t n, size_t length, Scratch& scratch) {
  const double deviation = std::sqrt(static_cast<double>(length));
  const auto typical = static_cast<float>(static_cast<double>(n) / weights.sum);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const double wanted = static_cast<double>(length) + 3 * attempt * (deviation + 1);
    const float time =
        attempt == 3 ? kLate : finishing_time(weights, n, wanted, 0.5 * deviation, attempt == 1);
    const size_t count = candidates(key, weights.of, n, time, scratch);
    const size_t buckets = bucket_count(count);
    arrival_times(weights.of, scratch, count, time, typical, buckets);
    size_t arrived = 0;
    for (size_t c = 0; c < count; ++c) {
      scratch.unsorted[arrived] = sort_key(bit_cast<uint32_t>(scratch.time[c]), scratch.site[c]);
      scratch.bucket[arrived] = scratch.bucket[c];
      arrived += scratch.time[c] <= time;
    }
    if (arrived >= length) {
      sort_keys(scratch, arrived, buckets);
      return true;
    }
    if (time >= kLate) break;
  }
  return false;
}

// By the logarithms of the times. Sites without weight come last, in order.
inline void run_race_slowly(Key key, const float* s, size_t n, Balance balance, Scratch& scratch) {
  for (size_t i = 0; i < n; ++i) {
    const double v = uniform_number(random_word(key, i));
    const double time = std::log(-std::log1p(-v)) - log_weight(s[i], balance);
    scratch.late[i] = {time != time ? kInfinity : time, static_cast<int32_t>(i)};
  }
  std::sort(scratch.late.begin(), scratch.late.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i)
    scratch.sorted[i] = sort_key(0, static_cast<uint32_t>(scratch.late[i].second));
}

inline float race(Key key, const float* s, size_t n, Balance balance, int32_t asked, int32_t* sites,
                  uint8_t* chosen) {
  Scratch& scratch = Scratch::here(n);
  const size_t length = clamp_length(asked, n);
  Weights weights = weigh(s, n, balance, scratch);
  weights.usable = weights.usable && run_race(key, weights, n, length, scratch);
  if (!weights.usable) run_race_slowly(key, s, n, balance, scratch);
  write_choice(scratch.sorted.data(), n, length, sites, chosen);
  return static_cast<float>(
      order_log_prob_from(weights, s, n, balance, sites, chosen, length, false, scratch));
}

}  // namespace hopscale
