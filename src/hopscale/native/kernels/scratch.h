// Working memory.
#pragma once

#include <vector>

#include "numbers.h"

namespace hopscale {

// Room for `count` numbers. It only grows, so that a running sampler never allocates.
template <typename T>
INLINE T* room(std::vector<T>& memory, size_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

// Working memory of a thread.
struct Scratch {
  std::vector<float> upto;                    // a table's sums down its columns
  std::vector<int32_t> edges;                 // and over them
  std::vector<int32_t> drawn;                 // sites, repeats among them
  std::vector<double> along, sums;            // weights along an order; of pieces of a chain
  std::vector<float> values;                  // along an order
  std::vector<float> totals;                  // the weights of sites of several values
  std::vector<std::pair<double, int32_t>> clocks;  // of the sites left over, rarely needed

  static Scratch& here() {
    thread_local Scratch scratch;
    return scratch;
  }
};

}  // namespace hopscale
