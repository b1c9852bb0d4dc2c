// Choosing sites by weight, one chain at a time: the arithmetic behind `select_ffi.cc`.
//
// A race gives site i the arrival time T_i = -log(1 - v_i) / w_i and takes the first R arrivals.
// Almost no site is among them, so almost no site needs its time: since 1 - exp(-t w) <= t w, a
// site that arrives by time t has v <= t w. One multiplication and one comparison a site leave
// slightly more than R candidates, and only those get a logarithm and a place in the sort.
//
// Weights are single-precision numbers relative to the largest. That fails when the choice reaches
// sites whose weight is nothing beside the largest; each function notices and redoes the chain with
// logarithms in double precision. The constants below say when the quick way can be trusted:
//   - weights under 2^-110 count as zero, so that no product or quotient here can overflow;
//   - such a site arrives no sooner than 2^-33 / 2^-110 = 2^77, so arrivals before 2^76 are right;
//   - sums over 2^-64 are right to single precision, whatever small weights are missing from them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

// Functions marked WIDE hold the loops over all sites. They are compiled once for each vector
// width, and the loader picks. (Sanitizers cannot run that early. -DWIDE= builds for one width.)
#ifdef WIDE
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define WIDE
#endif
#define INLINE inline __attribute__((always_inline))

namespace hopscale {

using std::size_t;

// What the numbers given for the sites mean: log w itself, or a log-ratio s with
// w = 1 / (1 + exp(-s)) (Barker) or w = exp(s / 2).
enum Balance : int32_t { kLogWeight = 0, kBarker = 1, kSqrt = 2 };

struct Key {
  uint32_t a, b;
};

constexpr size_t kBlock = 128;          // sites that get their random words at a time
constexpr size_t kRun = 1024;           // sites summed in single precision, before going on in double
constexpr float kLogLeast = -76.0f;     // log of the least weight that counts, about 2^-110
constexpr float kLate = 0x1p76f;        // arrivals up to this time can be trusted
constexpr double kLeastSum = 0x1p-64;   // and sums from this on
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

INLINE size_t whole_blocks(size_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

INLINE size_t clamp_length(int32_t length, size_t n) {
  return length < 1 ? 1 : std::min(static_cast<size_t>(length), n);
}

template <typename To, typename From>
INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Working memory of a thread. It only grows, so that a sampler in its stride never allocates.
struct Scratch {
  std::vector<float> weights;                    // of every site
  std::vector<uint32_t> words;                   // of every site
  std::vector<uint32_t> site, bucket, start;     // of the candidates; of the buckets
  std::vector<float> v, weight, time;            // of the candidates
  std::vector<uint64_t> unsorted, sorted;        // keys of the candidates
  std::vector<double> doubles;                   // weights along an order, or summed over sites
  std::vector<std::pair<double, int32_t>> late;  // log-times of all sites, rarely needed

  static Scratch& here(size_t n) {
    thread_local Scratch scratch;
    const size_t room = whole_blocks(n) + kBlock;
    if (scratch.weights.size() < room) {
      for (auto* x : {&scratch.weights, &scratch.v, &scratch.weight, &scratch.time}) x->resize(room);
      for (auto* x : {&scratch.words, &scratch.site, &scratch.bucket}) x->resize(room);
      for (auto* x : {&scratch.unsorted, &scratch.sorted}) x->resize(room);
      scratch.start.resize(2 * room + 1);
      scratch.doubles.resize(room);
      scratch.late.resize(room);
    }
    return scratch;
  }
};

// ---- Numbers -----------------------------------------------------------------------------------

// Words i, i + stride, ... of jax.random.bits(key, (n,), uint32): Threefry-2x32, 20 rounds, the two
// halves of the answer folded into one. Each step hangs on the one before; several words abreast
// keep the processor busy meanwhile.
template <uint32_t abreast>
INLINE void random_words(Key key, uint32_t i, uint32_t stride, uint32_t* words) {
#define EACH _Pragma("GCC unroll 4") for (uint32_t k = 0; k < abreast; ++k)
  const uint32_t keys[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
  constexpr int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  uint32_t x[abreast], y[abreast];
  EACH x[k] = keys[0];
  EACH y[k] = keys[1] + i + k * stride;
#pragma GCC unroll 5
  for (uint32_t group = 0; group < 5; ++group) {
#pragma GCC unroll 4
    for (int turn : turns[group % 2]) {
      EACH x[k] += y[k];
      EACH y[k] = y[k] << turn | y[k] >> (32 - turn);
      EACH y[k] ^= x[k];
    }
    EACH x[k] += keys[(group + 1) % 3];
    EACH y[k] += keys[(group + 2) % 3] + group + 1;
  }
  EACH words[k * stride] = x[k] ^ y[k];
#undef EACH
}

INLINE uint32_t random_word(Key key, size_t i) {
  uint32_t word;
  random_words<1>(key, static_cast<uint32_t>(i), 1, &word);
  return word;
}

INLINE float uniform_number(uint32_t word) {
  const float v = (static_cast<float>(word) + 0.5f) * 0x1p-32f;
  return v < 1.0f - 0x1p-24f ? v : 1.0f - 0x1p-24f;
}

// exp(x) for |x| <= 80, to about two units in the last place; NaN stays NaN, and other x give some
// number or other. x = k log 2 + r: adding 1.5 * 2^23 rounds to the integer k, and leaves it in the
// low bits, from where it is shifted into an exponent.
INLINE float exponential(float x) {
  constexpr float round = 0x1.8p23f, log2_high = 0x1.62e4p-1f, log2_low = 1.42860677e-6f;
  const float shifted = x * 1.44269504f + round;
  const float k = shifted - round;
  const float r = (x - k * log2_high) - k * log2_low;
  const float square = r * r;
  float sum = square * (1.0f / 720) + (r * (1.0f / 120) + 1.0f / 24);
  sum = square * sum + (r * (1.0f / 6) + 0.5f);
  sum = square * sum + (r + 1.0f);
  return sum * bit_cast<float>((bit_cast<uint32_t>(shifted) << 23) + 0x3F800000u);
}

// -log(1 - v) for 0 < v < 1, to about two units in the last place however small v is.
// 1 - v = 2^k (1 + f) with f within a third of 0, and log(1 + f) = 2 artanh(f / (2 + f)).
INLINE float exponential_time(float v) {
  constexpr int32_t two_thirds = 0x3F2AAAAB;
  const int32_t bits = bit_cast<int32_t>(1.0f - v);
  const int32_t k = (bits - two_thirds) >> 23;
  // With k = 0, f is -v itself: the rounding of 1 - v does not matter.
  const float f = k == 0 ? -v : bit_cast<float>(bits - k * (1 << 23)) - 1.0f;
  const float z = f / (2.0f + f), square = z * z;
  float sum = square * (2.0f / 11) + 2.0f / 9;
  sum = sum * square + 2.0f / 7;
  sum = sum * square + 2.0f / 5;
  sum = (sum * square + 2.0f / 3) * square + 2.0f;
  return -(static_cast<float>(k) * 0.693147181f + z * sum);
}

// Log-weight in double precision, for the chains where single precision does not do.
INLINE double log_weight(float s, Balance balance) {
  const double x = s;
  if (balance == kBarker) return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
  return balance == kSqrt ? 0.5 * x : x;
}

// log(exp(a) + exp(b)); NaN if either is.
INLINE double log_add(double a, double b) {
  if (a != a || b != b) return kNaN;
  if (a < b) std::swap(a, b);
  return b == -kInfinity ? a : a + std::log1p(std::exp(b - a));
}

// ---- Weights of all sites ----------------------------------------------------------------------

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

// ---- The probability of an order ---------------------------------------------------------------

// The sum of the logarithms of numbers between 2^-110 and 2^110: one logarithm for eight of them.
inline double sum_of_logs(const double* x, size_t count) {
  double sum = 0, product = 1;
  for (; count >= 8; count -= 8, x += 8)
    sum += std::log(((x[0] * x[1]) * (x[2] * x[3])) * ((x[4] * x[5]) * (x[6] * x[7])));
  for (; count > 0; --count) product *= *x++;
  return sum + std::log(product);
}

// The site chosen r-th to last; backwards, r-th.
INLINE size_t site_from_end(const int32_t* sites, size_t r, size_t n, size_t length, bool backwards) {
  const int64_t site = sites[backwards ? r : length - 1 - r];
  return static_cast<size_t>(std::clamp<int64_t>(site, 0, static_cast<int64_t>(n) - 1));
}

// With logarithms throughout. A step that no weight is left for has probability zero.
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

// Weights along an order, from its end, to `own`; their sum; and whether none of them is zero.
INLINE bool weights_along(const Weights& weights, size_t n, const int32_t* sites, size_t length,
                          bool backwards, double* own, double& sum) {
  double least = 1, total = 0;
  for (size_t r = 0; r < length; ++r)
    own[r] = weights.of[site_from_end(sites, r, n, length, backwards)];
#pragma omp simd reduction(+ : total) reduction(min : least)
  for (size_t r = 0; r < length; ++r) {
    total += own[r];
    least = own[r] < least ? own[r] : least;
  }
  sum = total;
  return least > 0;
}

// From the end of the order to its beginning, what is left to choose from only grows. It begins as
// the weight of all sites not chosen: a difference, unless too little would remain of it.
inline double order_log_prob_from(const Weights& weights, const float* s, size_t n, Balance balance,
                                  const int32_t* sites, const uint8_t* chosen, size_t length,
                                  bool backwards, Scratch& scratch) {
  double *own = scratch.doubles.data(), taken;
  if (weights.usable && weights_along(weights, n, sites, length, backwards, own, taken)) {
    double left = weights.sum - taken;
    if (left < 0.25 * weights.sum) left = weight_not_chosen(weights.of, chosen, n);
    if (left + own[0] >= kLeastSum) {
      const double logs = sum_of_logs(own, length);
      for (size_t r = 0; r < length; ++r) own[r] = left += own[r];
      return logs - sum_of_logs(own, length);
    }
  }
  return order_log_prob_slowly(s, n, balance, sites, chosen, length, backwards);
}

inline float order_log_prob(const float* s, size_t n, Balance balance, const int32_t* sites,
                            const uint8_t* chosen, int32_t length, bool backwards) {
  Scratch& scratch = Scratch::here(n);
  return static_cast<float>(order_log_prob_from(weigh(s, n, balance, scratch), s, n, balance, sites,
                                                chosen, clamp_length(length, n), backwards,
                                                scratch));
}

// ---- Candidates and sorting --------------------------------------------------------------------

// Keys hold what to sort by in the high half and the site in the low one, which settles ties.
INLINE uint64_t sort_key(uint32_t by, uint32_t site) { return uint64_t{by} << 32 | site; }

INLINE size_t bucket_count(size_t keys) {
  size_t buckets = 64;
  while (buckets < keys) buckets *= 2;
  return buckets;
}

// scratch.unsorted[0, count) into scratch.sorted, by way of scratch.bucket, which should grow with
// the key and spread the keys about evenly. That only makes it quick: the order is that of the keys.
inline void sort_keys(Scratch& scratch, size_t count, size_t buckets) {
  uint32_t* start = scratch.start.data();
  std::fill(start, start + buckets + 1, 0);
  for (size_t c = 0; c < count; ++c) ++start[scratch.bucket[c] + 1];
  uint32_t fullest = 0;
  for (size_t b = 1; b <= buckets; ++b) {
    fullest = std::max(fullest, start[b]);
    start[b] += start[b - 1];
  }
  uint64_t* keys = scratch.sorted.data();
  for (size_t c = 0; c < count; ++c) keys[start[scratch.bucket[c]]++] = scratch.unsorted[c];
  if (fullest > 32) return std::sort(keys, keys + count);
  for (size_t c = 1; c < count; ++c) {
    const uint64_t key = keys[c];
    size_t to = c;
    for (; to > 0 && keys[to - 1] > key; --to) keys[to] = keys[to - 1];
    keys[to] = key;
  }
}

// The choice is the first `length` of the sorted keys.
inline void write_choice(const uint64_t* keys, size_t n, size_t length, int32_t* sites,
                         uint8_t* chosen) {
  std::memset(chosen, 0, n);
  for (size_t r = 0; r < length; ++r) {
    sites[r] = static_cast<int32_t>(keys[r] & 0xFFFFFFFFu);
    chosen[sites[r]] = 1;
  }
  std::fill(sites + length, sites + n, 0);
}

// Appends `first` + k for every bit k of `bits` and returns the new count. Six at a time whether
// or not there are as many: what is too much is overwritten, and the processor need not guess.
INLINE size_t append_set_bits(uint32_t bits, uint32_t first, uint32_t* out, size_t count) {
  const size_t end = count + static_cast<size_t>(__builtin_popcount(bits));
  do {
#pragma GCC unroll 6
    for (int k = 0; k < 6; ++k) {
      out[count++] = first + static_cast<uint32_t>(__builtin_ctz(bits | 1u << 31));
      bits &= bits - 1;
    }
  } while (bits);
  return end;
}

// Draws a word for every site and lists, in order, the sites whose word passes the test.
template <typename Test>
INLINE size_t draw(Key key, size_t n, Scratch& scratch, Test passes) {
  size_t count = 0;
  uint32_t bit[32];
  for (uint32_t j = 0; j < 32; ++j) bit[j] = 1u << j;
  for (size_t i = 0; i < n; i += kBlock) {
    uint32_t* words = scratch.words.data() + i;
    const auto first = static_cast<uint32_t>(i);
#pragma GCC ivdep
    for (uint32_t j = 0; j < kBlock / 4; ++j)
      random_words<4>(key, first + j, kBlock / 4, words + j);
    for (uint32_t r = 0; r < kBlock; r += 32) {
      uint32_t hits = 0;
      for (size_t j = 0; j < 32; ++j) hits |= passes(i + r + j, words[r + j]) ? bit[j] : 0u;
      count = append_set_bits(hits, first + r, scratch.site.data(), count);
    }
  }
  return count;
}

// ---- The race ----------------------------------------------------------------------------------

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

// ---- Without weights ---------------------------------------------------------------------------

WIDE inline size_t words_up_to(Key key, uint32_t bound, size_t n, Scratch& scratch) {
  return draw(key, n, scratch, [=](size_t i, uint32_t word) __attribute__((always_inline)) {
    return (word <= bound) & (i < n);
  });
}

// The sites of the `length` smallest words: nearly all of them lie below a bound known beforehand.
inline void uniform(Key key, size_t n, int32_t asked, int32_t* sites, uint8_t* chosen) {
  Scratch& scratch = Scratch::here(n);
  const size_t length = clamp_length(asked, n);
  const double wanted = static_cast<double>(length) + 4 * std::sqrt(static_cast<double>(length)) + 4;
  const double fraction = wanted / static_cast<double>(n);
  uint32_t bound = fraction < 0.9 ? static_cast<uint32_t>(fraction * 0x1p32) : ~0u;
  size_t count = words_up_to(key, bound, n, scratch);
  if (count < length) count = words_up_to(key, bound = ~0u, n, scratch);
  const size_t buckets = bucket_count(count);
  for (size_t c = 0; c < count; ++c) {
    const uint32_t word = scratch.words[scratch.site[c]];
    scratch.unsorted[c] = sort_key(word, scratch.site[c]);
    scratch.bucket[c] = static_cast<uint32_t>(word * uint64_t{buckets} / (uint64_t{bound} + 1));
  }
  sort_keys(scratch, count, buckets);
  write_choice(scratch.sorted.data(), n, length, sites, chosen);
}

// ---- With replacement --------------------------------------------------------------------------

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

// ---- Many chains -------------------------------------------------------------------------------

// Calls body(chain) for every chain, on this thread and on up to `helpers` tasks handed to
// `schedule`. All of them draw from one counter. The caller waits for chains that others have
// begun, never for a task to begin: a task that comes late finds the counter spent and touches
// nothing but it. So nothing depends on when, or whether, the tasks run.
template <typename Schedule, typename Body>
void for_each_chain(size_t chains, size_t sites, size_t helpers, Schedule schedule, Body body) {
  constexpr size_t worth_sharing = 20000, worth_fetching = 2000;
  const size_t grain = std::max<size_t>(1, worth_fetching / std::max<size_t>(1, sites));
  const size_t pieces = (chains + grain - 1) / grain;
  helpers = chains * sites < worth_sharing || pieces < 2 ? 0 : std::min(helpers, pieces - 1);
  if (helpers == 0) {
    for (size_t chain = 0; chain < chains; ++chain) body(chain);
    return;
  }
  struct State {
    std::atomic<size_t> next{0}, done{0};
  };
  const auto state = std::make_shared<State>();
  auto work = [state, body, chains, grain, pieces] {
    for (size_t piece; (piece = state->next.fetch_add(1)) < pieces; state->done.fetch_add(1))
      for (size_t c = piece * grain; c < std::min(chains, (piece + 1) * grain); ++c) body(c);
  };
  for (size_t helper = 0; helper < helpers; ++helper) schedule(work);
  work();
  while (state->done.load() < pieces) std::this_thread::yield();
}

}  // namespace hopscale
