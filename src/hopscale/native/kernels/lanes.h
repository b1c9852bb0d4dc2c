// Vectors of eight chains: their random words and exponentials. Compilers split them up if the
// processor has shorter vectors.
#pragma once

#include "numbers.h"

// Functions that take or return vectors are inlined, so how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace hopscale {

constexpr size_t kVector = 8;
typedef float Floats8 __attribute__((vector_size(32)));
typedef int32_t Ints8 __attribute__((vector_size(32)));
typedef uint32_t Words8 __attribute__((vector_size(32)));
typedef uint64_t Long4 __attribute__((vector_size(32)));

constexpr size_t kVectors = 2;  // side by side: one computes while the other waits
constexpr size_t kLanes = kVector * kVectors;
#define LANES _Pragma("GCC unroll 2") for (size_t v = 0; v < kVectors; ++v)

// The keys of kLanes chains.
struct Keys {
  Words8 a[kVectors], b[kVectors];
};

INLINE Floats8 all(float value) { return Floats8{} + value; }
INLINE Floats8 choose(Ints8 flags, Floats8 yes, Floats8 no) {
  return (Floats8)((flags & (Ints8)yes) | (~flags & (Ints8)no));
}
INLINE Floats8 masked(Ints8 flags, Floats8 yes) { return (Floats8)(flags & (Ints8)yes); }
INLINE Floats8 smaller(Floats8 x, float bound) { return choose(x < bound, x, all(bound)); }
INLINE Floats8 larger(Floats8 x, float bound) { return choose(x > bound, x, all(bound)); }
// The numbers at eight places of two concatenated vectors.
#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, Ints8{__VA_ARGS__})
#endif

INLINE bool any(Ints8 flags) {
  const auto f = (Long4)flags;
  return ((f[0] | f[1]) | (f[2] | f[3])) != 0;
}

// Threefry-2x32 of (0, i) for the key and the count i of every lane: both halves of the result.
INLINE void threefry_lanes(const Keys& key, const Words8* i, Words8* x, Words8* y) {
  constexpr int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Words8 keys[kVectors][3];
  LANES {
    keys[v][0] = key.a[v];
    keys[v][1] = key.b[v];
    keys[v][2] = key.a[v] ^ key.b[v] ^ 0x1BD11BDAu;
    x[v] = key.a[v];
    y[v] = key.b[v] + i[v];
  }
#pragma GCC unroll 5
  for (uint32_t group = 0; group < 5; ++group) {
#pragma GCC unroll 4
    for (int turn : turns[group % 2]) {
      LANES x[v] += y[v];
      LANES y[v] = y[v] << turn | y[v] >> (32 - turn);
      LANES y[v] ^= x[v];
    }
    LANES x[v] += keys[v][(group + 1) % 3];
    LANES y[v] += keys[v][(group + 2) % 3] + (group + 1);
  }
}

// Word i of jax.random.bits for the key and the count of every lane.
INLINE void words_of_lanes(const Keys& key, const Words8* i, Words8* words) {
  Words8 x[kVectors], y[kVectors];
  threefry_lanes(key, i, x, y);
  LANES words[v] = x[v] ^ y[v];
}

// The counts of all lanes: the same for all, or consecutive.
struct Counts {
  Words8 i[kVectors];
};
INLINE Counts equal_counts(size_t i) {
  Counts counts;
  LANES counts.i[v] = Words8{} + static_cast<uint32_t>(i);
  return counts;
}
INLINE Counts counts_from(size_t i) {
  Counts counts = equal_counts(i);
  LANES counts.i[v] += Words8{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<uint32_t>(v * kVector);
  return counts;
}

INLINE Keys fold_in(const Keys& key, uint32_t data) {
  Keys folded;
  threefry_lanes(key, equal_counts(data).i, folded.a, folded.b);
  return folded;
}

INLINE Floats8 exponential(Floats8 x) { return exponential_of<Floats8, Words8>(x); }

}  // namespace hopscale
