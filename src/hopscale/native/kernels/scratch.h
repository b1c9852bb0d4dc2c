// Working memory.
#pragma once

#include <vector>

#include "numbers.h"

namespace hopscale {

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
      for (auto* x : {&scratch.weights, &scratch.v, &scratch.weight, &scratch.time})
        x->resize(room);
      for (auto* x : {&scratch.words, &scratch.site, &scratch.bucket}) x->resize(room);
      for (auto* x : {&scratch.unsorted, &scratch.sorted}) x->resize(room);
      scratch.start.resize(2 * room + 1);
      scratch.doubles.resize(room);
      scratch.late.resize(room);
    }
    return scratch;
  }
};

}  // namespace hopscale
