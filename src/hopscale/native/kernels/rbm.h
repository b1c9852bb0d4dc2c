// The inputs of an RBM's hidden units.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hopscale {

// The inputs of the hidden units after some visible units were flipped: for each of these, a row of
// the weights is added or subtracted.
inline void rbm_inputs(const float* before, const int8_t* x, const uint8_t* moved,
                       const float* by_visible, size_t visible, size_t hidden, float* after) {
  for (size_t j = 0; j < hidden; ++j) after[j] = before[j];
  for (size_t i = 0; i < visible; ++i) {
    if (!moved[i]) continue;
    const float* row = by_visible + i * hidden;
    const float sign = x[i] ? -1.0f : 1.0f;
#pragma omp simd
    for (size_t j = 0; j < hidden; ++j) after[j] += sign * row[j];
  }
}

}  // namespace hopscale
