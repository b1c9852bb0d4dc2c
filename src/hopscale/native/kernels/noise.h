// Keys and random words of many steps at once, one lane per chain.
#pragma once

#include "chains.h"

namespace hopscale {

INLINE Key key_of(const uint32_t* keys, size_t i) { return {keys[2 * i], keys[2 * i + 1]}; }

// Keys of steps: fold in the step, then the chain.
WIDE inline void step_keys(const uint32_t* keys, const int32_t* steps, const int32_t* chains,
                           size_t begin, size_t end, uint32_t* own) {
#pragma GCC ivdep
  for (size_t i = begin; i < end; ++i) {
    const Key by_step = fold_in(key_of(keys, i), static_cast<uint32_t>(steps[i]));
    const Key found = fold_in(by_step, static_cast<uint32_t>(chains[i]));
    own[2 * i] = found.a;
    own[2 * i + 1] = found.b;
  }
}

// jax.random.bits(key, (count,), uint32) of keys [begin, end).
WIDE inline void random_words(const uint32_t* keys, size_t count, size_t begin, size_t end,
                              uint32_t* words) {
  for (size_t k = 0; k < count; ++k) {
#pragma GCC ivdep
    for (size_t i = begin; i < end; ++i) words[i * count + k] = random_word(key_of(keys, i), k);
  }
}

// Calls body(begin, end) over [0, count), in pieces that are divided among the team.
template <typename Body>
void in_pieces(const Team& team, size_t count, Body body) {
  constexpr size_t piece = 1024;
  team.share((count + piece - 1) / piece, 8 * count,
             [=](size_t p) { body(p * piece, std::min(count, (p + 1) * piece)); });
}

}  // namespace hopscale
