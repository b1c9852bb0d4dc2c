// Random words, exponentials and logarithms, written so that compilers make vectors of them.
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
constexpr size_t kRun = 1024;           // sites summed in single precision, then on in double
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

}  // namespace hopscale
