// Random words, exponentials and logarithms, written so that compilers vectorise them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

// Functions marked WIDE hold the loops over all sites. They are compiled once for each vector
// width, and the loader picks. (Sanitizers cannot run that early. -DWIDE= builds for one width.)
#ifdef WIDE
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12 && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "arch=x86-64-v3", "default"), noinline))
#else
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#endif
#else
#define WIDE
#endif
#define INLINE inline __attribute__((always_inline))

// The call with `constant` the number of values if there are few, so that loops over them are
// unrolled; else 0.
#define HOPSCALE_BY_VALUES(values, call) \
  if ((values) == 3) {                   \
    constexpr size_t constant = 3;       \
    call;                                \
  } else if ((values) == 4) {            \
    constexpr size_t constant = 4;       \
    call;                                \
  } else if ((values) == 5) {            \
    constexpr size_t constant = 5;       \
    call;                                \
  } else {                               \
    constexpr size_t constant = 0;       \
    call;                                \
  }

namespace hopscale {

using std::size_t;

// The meaning of the numbers given for the sites: log w itself, or a log-ratio s with
// w = 1 / (1 + exp(-s)) (Barker) or w = exp(s / 2); within the kernels also w itself.
enum Balance : int32_t { kLogWeight = 0, kBarker = 1, kSqrt = 2, kWeight = 3 };

struct Key {
  uint32_t a, b;
};

constexpr size_t kBlock = 128;         // random words made at a time
constexpr size_t kRun = 1024;          // sites summed in single precision, then on in double
constexpr float kLogLeast = -76.0f;    // log of the least weight that counts, about 2^-110
constexpr double kLeastSum = 0x1p-64;  // sums from this on are accurate without weights below that
constexpr double kPlenty = 0x1p-20;    // from this on, the largest weight is not looked for
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

INLINE size_t whole_blocks(size_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

INLINE size_t clamp_length(int32_t length, size_t n) {
  return length < 0 ? 0 : std::min(static_cast<size_t>(length), n);
}

template <typename To, typename From>
INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Threefry-2x32, 20 rounds, of (0, i), (0, i + stride), ... Each step depends on the one before;
// several counts abreast keep the processor busy.
template <uint32_t abreast>
INLINE void threefry(Key key, uint32_t i, uint32_t stride, uint32_t* x, uint32_t* y) {
#define EACH _Pragma("GCC unroll 4") for (uint32_t k = 0; k < abreast; ++k)
  const uint32_t keys[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
  constexpr int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
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
#undef EACH
}

// Words [first, first + kBlock) of jax.random.bits(key, (n,), uint32): the two halves of a Threefry
// result folded into one.
WIDE inline void block_of_words(Key key, uint32_t first, uint32_t* words) {
  constexpr uint32_t quarter = kBlock / 4;
#pragma GCC ivdep
  for (uint32_t j = 0; j < quarter; ++j) {
    uint32_t x[4], y[4];
    threefry<4>(key, first + j, quarter, x, y);
    for (uint32_t k = 0; k < 4; ++k) words[j + k * quarter] = x[k] ^ y[k];
  }
}

INLINE uint32_t random_word(Key key, size_t i) {
  uint32_t x, y;
  threefry<1>(key, static_cast<uint32_t>(i), 1, &x, &y);
  return x ^ y;
}

// jax.random.fold_in.
INLINE Key fold_in(Key key, uint32_t data) {
  Key folded;
  threefry<1>(key, data, 1, &folded.a, &folded.b);
  return folded;
}

INLINE float uniform_number(uint32_t word) {
  const float v = (static_cast<float>(word) + 0.5f) * 0x1p-32f;
  return v < 1.0f - 0x1p-24f ? v : 1.0f - 0x1p-24f;
}

// exp(x) for |x| <= 80, to under three units in the last place. NaN stays NaN; for other x the
// result is arbitrary. With x = k log 2 + r, adding 1.5 * 2^23 rounds to the integer k and leaves
// it in the low bits, from where it is shifted into an exponent. exp(r) is the polynomial of the
// form 1 + r + r^2 (a + b r + c r^2 + d r^3) with the smallest maximal relative error, 1.03e-7.
template <typename Float, typename Word>  // one number, or a vector of them
INLINE Float exponential_of(Float x) {
  constexpr float round = 0x1.8p23f, log2_high = 0x1.62e4p-1f, log2_low = 1.42860677e-6f;
  const Float shifted = x * 1.44269504f + round;
  const Float k = shifted - round;
  const Float r = (x - k * log2_high) - k * log2_low;
  const Float square = r * r;
  Float sum = square * (r * 8.31474593e-3f + 4.18904371e-2f) + (r * 0.166670899f + 0.499992306f);
  sum = square * sum + (r + 1.0f);
  return sum * bit_cast<Float>((bit_cast<Word>(shifted) << 23) + 0x3F800000u);
}
INLINE float exponential(float x) { return exponential_of<float, uint32_t>(x); }

// log(x) for positive x that is not subnormal, to about two units in the last place. With x = 2^k m
// and m around 1, log m = 2 artanh(t) for t = (m - 1) / (m + 1), at most 0.172.
INLINE float logarithm(float x) {
  constexpr uint32_t root = 0x3F3504F3u;  // of a half
  const uint32_t bits = bit_cast<uint32_t>(x) - root;
  const auto k = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float m = bit_cast<float>((bits & 0x7FFFFFu) + root);
  const float t = (m - 1.0f) / (m + 1.0f), square = t * t;
  float sum = square * (1.0f / 9) + 1.0f / 7;
  sum = square * sum + 1.0f / 5;
  sum = square * sum + 1.0f / 3;
  return k * 0x1.62e4p-1f + (2.0f * t + (2.0f * t * square * sum + k * 1.42860677e-6f));
}

// Log-weight in double precision, for chains for which single precision is not enough.
INLINE double log_weight(float s, Balance balance) {
  const double x = s;
  if (balance == kWeight) return std::log(x);
  if (balance == kBarker) return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
  return balance == kSqrt ? 0.5 * x : x;
}

// log(exp(a) + exp(b)); NaN if either is.
INLINE double log_add(double a, double b) {
  if (a != a || b != b) return kNaN;
  if (a < b) std::swap(a, b);
  return b == -kInfinity || a == kInfinity ? a : a + std::log1p(std::exp(b - a));
}

}  // namespace hopscale
