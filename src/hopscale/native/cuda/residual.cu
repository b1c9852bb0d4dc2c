// A residual network's energy and its gradient with respect to the image, in one launch.
//
// A block of threads takes one image through all convolutions, forwards and backwards. What a
// convolution reads and writes stays in shared memory. Weights stream past in blocks of 64 x 64, in
// the order of their use, fetched by a warp of their own. Products are those of tensor cores: inputs
// in bfloat16, sums in single precision.
//
// The first convolution of all, from bits to channels, is linear. So it is multiplied into those
// that follow it, which then see features: bits around a pixel, and whether their pixel is inside.
//
// RESIDENT images are worked on by a multiprocessor at once. CLUSTER images share what is fetched:
// otherwise the second-level cache would be read faster than it can be. These and what `tiles.cuh`
// names are given when this is compiled.

#include <tiles.cuh>

constexpr int BLOCKS = 8, SKIPS = 2;  // residual blocks; the first two halve the image
constexpr int THREADS = WORKERS + 32;  // the last warp fetches weights

// Features: 10 for each tap of the convolution that sees them, in groups of 8 as well.
constexpr int FEATURES = 90, FEATURE_GROUPS = 12;
constexpr u32 FEATURE_TILE = H2 * PITCH;
constexpr u32 FEATURE_GROUP = (3 * FEATURE_TILE + TILE) * 16;
constexpr u32 FEATURE_BYTES = FEATURE_GROUPS * FEATURE_GROUP;

// Shared memory: two maps or features, weights, the image with a margin, sums, barriers.
constexpr int PADDED = (HEIGHT + 4) * (WIDTH + 4);

constexpr u32 AT_A = 0, AT_B = AT_A + MAPS;
constexpr u32 AT_RING = AT_B + (FEATURE_BYTES > MAPS ? FEATURE_BYTES : MAPS);
constexpr u32 AT_IMAGE = AT_RING + STAGES * WEIGHTS;
constexpr u32 AT_SUMS = AT_IMAGE + (PADDED * 2 + 15) / 16 * 16;
constexpr u32 AT_BARRIERS = AT_SUMS + 32;
extern "C" __device__ const u32 cluster_size = CLUSTER;
extern "C" __device__ const u32 shared_bytes = AT_BARRIERS + 2 * 8 * STAGES;

// Working memory of an image, in bytes: slopes of the swishes, then the gradient by features.
constexpr u32 SLOPE_TILES = 8 + 2 * (BLOCKS - 1);
constexpr u32 SLOPES = SLOPE_TILES * WORKERS * 64;
extern "C" __device__ const u32 scratch_bytes = SLOPES + 4 * FEATURES * TILE * 4;

// ---------------------------------------------------------------------------------------------

// Features of all pixels at half the image's size. Feature 10 tap + t of a pixel is the bit that tap
// t of the first convolution sees from where `tap` of the next one looks, if that is inside the
// image; feature 10 tap + 9 is whether it is.
__device__ __forceinline__ void features(u32 to, const unsigned short* image, int worker) {
  for (u32 row = worker; row < 4 * FEATURE_TILE; row += WORKERS) {
    const int phase = row / FEATURE_TILE, place = row % FEATURE_TILE;
    const int y = 2 * (2 * (place / PITCH) + (phase >> 1)), x = 2 * (2 * (place % PITCH) + (phase & 1));
    const bool here = place % PITCH < W2 && y < HEIGHT && x < WIDTH;
    const unsigned short* center = image + (y + 2) * (WIDTH + 4) + x + 2;
#pragma unroll
    for (int group = 0; group < FEATURE_GROUPS; ++group) {
      u32 words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int feature = 8 * group + e, tap = feature / 10, t = feature % 10;
        if (feature < FEATURES) {
          const int dy = tap / 3 - 1, dx = tap % 3 - 1;
          const bool inside = here && y + dy >= 0 && y + dy < HEIGHT && x + dx >= 0 && x + dx < WIDTH;
          u32 bits = 0x3f80;  // one
          if (t < 9 && inside) bits = center[(dy + t / 3 - 1) * (WIDTH + 4) + dx + t % 3 - 1];
          words[e / 2] |= (inside ? bits : 0) << (16 * (e % 2));
        }
      }
      const u32 at = to + group * FEATURE_GROUP + row * 16;
      store_words(at, words[0], words[1], words[2], words[3]);
    }
  }
}

// Along one axis: from where features see a pixel. A bit at `pixel` is that of tap t of the first
// convolution at pixel - t, which tap d of the next one sees from (pixel - t - d) / 2: d is 0 where
// that is even, and -1 or 1 where it is odd. `at` is where in the working memory.
struct Seen {
  int at[6];
  bool any[6];
  __device__ __forceinline__ Seen(
      int pixel, int size, int half, int phase, int tap, int bit, int pitch) {
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      const int t = k / 2 - 1, y = pixel - t, odd = y & 1, d = odd * (2 * (k % 2) - 1);
      const int row = (y - d) >> 1;
      any[k] = y >= 0 && y < size && row >= 0 && row < half && (odd || k % 2 == 0);
      at[k] = ((row & 1) * phase + (d + 1) * tap + (t + 1) * bit) * TILE + (row >> 1) * pitch;
    }
  }
};
// The gradient at a pixel: the sum over all features that are its bit.
__device__ __forceinline__ float gathered(const float* by_feature, int i, int j) {
  const Seen down(i, HEIGHT, H1, 2 * FEATURES, 30, 3, PITCH);
  const Seen right(j, WIDTH, W1, FEATURES, 10, 1, 1);
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 6; ++k) {
#pragma unroll
    for (int l = 0; l < 6; ++l) {
      float value = 0.0f;
      if (down.any[k] && right.any[l]) value = by_feature[down.at[k] + right.at[l]];
      sum += value;
    }
  }
  return sum;
}

// A batch, its innermost axis first, and how far apart images, weights and vectors have what belongs
// to neighbours along an axis: 0 where it is the same. `launch.cc` has the same declaration.
struct Batch {
  u32 size[4], images[4], weights[4], vectors[4];
};
__device__ __forceinline__ u32 place_of(u32 index, const u32 (&size)[4], const u32 (&stride)[4]) {
  u32 place = 0;
#pragma unroll
  for (int axis = 0; axis < 4; ++axis) {
    place += index % size[axis] * stride[axis];
    index /= size[axis];
  }
  return place;
}

// `vectors` has 64 numbers each: two biases a block, the last layer's weights, and its bias first.
// Of the batch, `same_weights` in succession have the same weights.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) __cluster_dims__(CLUSTER)
residual_pass(
    const float* __restrict__ images, const char* __restrict__ weights,
    const float* __restrict__ vectors, float* __restrict__ energies, float* __restrict__ gradients,
    char* scratch, u32 weight_blocks, u32 same_weights, const Batch batch) {
  char* const memory = shared_memory();
  const u32 base = address(memory), thread = threadIdx.x, member = member_of_cluster();
  // Clusters share weights. What is left of the last one does its last image again.
  const u32 padded = (same_weights + CLUSTER - 1) / CLUSTER * CLUSTER;
  const u32 first = blockIdx.x / padded * same_weights;
  const u32 image = first + min(blockIdx.x % padded, same_weights - 1);
  weights += static_cast<u64>(place_of(first, batch.size, batch.weights)) * weight_blocks * WEIGHTS;
  vectors += place_of(image, batch.size, batch.vectors) * (2 * BLOCKS + 2) * CHANNELS;
  images += static_cast<u64>(place_of(image, batch.size, batch.images)) * HEIGHT * WIDTH;
  gradients += static_cast<u64>(image) * HEIGHT * WIDTH;
  scratch += static_cast<u64>(image) * (SLOPES + 4 * FEATURES * TILE * 4);
  const u32 maps_a = base + AT_A, maps_b = base + AT_B;
  const u32 full = base + AT_BARRIERS, empty = full + 8 * STAGES;

  if (thread == 0) {
    for (u32 stage = 0; stage < STAGES; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, WORKERS / 32 * CLUSTER);
    }
    barriers_are_made();
  }
  auto* bits = reinterpret_cast<unsigned short*>(memory + AT_IMAGE);
  for (int p = thread; p < PADDED; p += THREADS) {
    const int y = p / (WIDTH + 4) - 2, x = p % (WIDTH + 4) - 2;
    const bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
    bits[p] = packed(inside ? images[y * WIDTH + x] : 0.0f, 0.0f) & 0xffff;
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();

  if (thread >= WORKERS) {
    if (thread == WORKERS) {
      for (u32 i = 0; i < weight_blocks; ++i) {
        const u32 stage = i % STAGES;
        if (i >= STAGES) barrier_wait(empty + 8 * stage, (i / STAGES - 1) & 1);
        fetch<WEIGHTS>(base + AT_RING + stage * WEIGHTS, weights + static_cast<u64>(i) * WEIGHTS,
                       full + 8 * stage, member);
      }
    }
    __syncwarp();
    cluster_arrive();
    cluster_wait();
    return;
  }

  Stream stream = {base + AT_RING, full, empty, 0, thread % 32};
  Place place;
  place.row = thread / 32 * 16 + thread % 32 / 4, place.column = thread % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = place.row + 8 * half;
    place.r[half] = row / PITCH, place.c[half] = row % PITCH;
    place.inside[half] = place.r[half] < H2 && place.c[half] < W2;
  }
  auto* slopes = reinterpret_cast<uint4*>(scratch) + thread;
  const auto slopes_of = [&](int tile) { return slopes + tile * 4 * WORKERS; };
  const auto zero_top = [&](u32 maps) {
    store_words(maps + thread / TOP * MAP_GROUP + thread % TOP * 16, 0, 0, 0, 0);
  };

  // Block 0, at half the image's size.
  zero_top(maps_a);
  features(maps_b, bits, thread);
  meet();
  {
    Tile sums[4];
    Vector bias(vectors, place);
    {
      const u32 low = stream.take(), high = stream.take();
      begin();
#pragma unroll
      for (int phase = 0; phase < 4; ++phase) {
        const u32 from = maps_b + phase * FEATURE_TILE * 16;
        multiply<4>(sums[phase], from, FEATURE_GROUP, low, false);
        multiply<2>(sums[phase], from + 8 * FEATURE_GROUP, FEATURE_GROUP, high, true);
      }
      commit();
      wait<0>();
      stream.release(1), stream.release(0);
    }
#pragma unroll
    for (int phase = 0; phase < 4; ++phase) {
      keep(sums[phase]);
      const bool inside[2] = {place.inside_phase(0, phase), place.inside_phase(1, phase)};
      forth<false, false>(sums[phase], bias, sums[phase], shifted(maps_a, phase, 0, 0), place,
                          inside, slopes_of(phase));
    }
    meet();
    const u32 skip = stream.take();
    begin();
#pragma unroll
    for (int phase = 0; phase < 4; ++phase)
      multiply(sums[phase], maps_b + phase * FEATURE_TILE * 16, FEATURE_GROUP, skip, false);
    commit();
    finish(stream);
    convolve_phases(sums, maps_a, stream, true);
    bias = Vector(vectors + CHANNELS, place);
    finish(stream);
    meet();  // all have read the features, which make room
    zero_top(maps_b);
#pragma unroll
    for (int phase = 0; phase < 4; ++phase) {
      keep(sums[phase]);
      const bool inside[2] = {place.inside_phase(0, phase), place.inside_phase(1, phase)};
      forth<false, false>(sums[phase], bias, sums[phase],
                          shifted(maps_b, phase, 0, 0), place, inside, slopes_of(4 + phase));
    }
    meet();
  }

  // Block 1 halves the image again.
  Tile sum, kept;
  const u32 one = shifted(maps_a, 0, 0, 0), other = shifted(maps_a, 2, 0, 0);
  Vector bias(vectors + 2 * CHANNELS, place);
  for (int tap = 0; tap < 9; ++tap) {
    const u32 block = stream.take();
    begin();
    const int dy = tap / 3 - 1, dx = tap % 3 - 1;
    const u32 from = shifted(maps_b, (dy & 1) * 2 + (dx & 1), dy >> 1, dx >> 1);
    multiply(sum, from, MAP_GROUP, block, tap > 0);
    commit();
    wait<1>();
    if (tap > 0) stream.release(1);
  }
  finish(stream);
  keep(sum);
  forth<false, false>(sum, bias, kept, one, place, place.inside, slopes_of(8));
  bias = Vector(vectors + 3 * CHANNELS, place);
  meet();
  {
    const u32 skip = stream.take();
    begin();
    multiply(sum, shifted(maps_b, 0, 0, 0), MAP_GROUP, skip, false);
    commit();
    finish(stream);
  }
  convolve(sum, one, stream, true);
  finish(stream);
  keep(sum);
  forth<false, true>(sum, bias, kept, other, place, place.inside, slopes_of(9));
  meet();

  // The other blocks.
#pragma unroll 1
  for (int block = SKIPS; block < BLOCKS; ++block) {
    bias = Vector(vectors + 2 * block * CHANNELS, place);
    convolve(sum, other, stream, false);
    finish(stream);
    keep(sum);
    forth<false, false>(sum, bias, kept, one, place, place.inside, slopes_of(6 + 2 * block));
    bias = Vector(vectors + (2 * block + 1) * CHANNELS, place);
    meet();
    convolve(sum, one, stream, false);
    finish(stream);
    keep(sum);
    forth<true, true>(sum, bias, kept, other, place, place.inside, slopes_of(7 + 2 * block));
    meet();
  }

  // The energy: the mean over pixels, and a linear map. Its gradient, to begin with.
  const float* leave = vectors + 2 * BLOCKS * CHANNELS;
  constexpr float SHARE = 1.0f / (H2 * W2);
  const u32 here = shifted(maps_b, 0, 0, 0), there = shifted(maps_b, 2, 0, 0);
  float energy = 0.0f;
  const Vector weight(leave, place);
  const Slopes last(slopes_of(7 + 2 * (BLOCKS - 1)));
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 w = weight.pairs[j];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      float x, y;
      unpack(last.words[2 * j + half], x, y);
      energy += place.inside[half] ? kept[i] * w.x + kept[i + 1] * w.y : 0.0f;
      kept[i] = x * w.x * SHARE, kept[i + 1] = y * w.y * SHARE;
      store_word(stored_at(here, place, half, j),
                 place.inside[half] ? packed(kept[i], kept[i + 1]) : 0);
    }
  }
  auto* sums_of_warps = reinterpret_cast<float*>(memory + AT_SUMS);
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) energy += __shfl_xor_sync(0xffffffff, energy, lanes);
  if (thread % 32 == 0) sums_of_warps[thread / 32] = energy;
  meet();
  if (thread == 0) {
    const float total =
        (sums_of_warps[0] + sums_of_warps[1]) + (sums_of_warps[2] + sums_of_warps[3]);
    energies[image] = fmaf(total, SHARE, leave[CHANNELS]);
  }

  // Back.
  const auto back_phases = [&](Tile (&sums)[4], const uint4* saved, u32 maps) {
    Slopes slopes(saved);
    finish(stream);
#pragma unroll
    for (int phase = 0; phase < 4; ++phase) {
      Slopes following;
      if (phase < 3) following = Slopes(saved + (phase + 1) * 4 * WORKERS);
      keep(sums[phase]);
      const bool inside[2] = {place.inside_phase(0, phase), place.inside_phase(1, phase)};
      back<false>(sums[phase], slopes, sums[phase], shifted(maps, phase, 0, 0), place, inside);
      slopes = following;
    }
  };
#pragma unroll 1
  for (int block = BLOCKS - 1; block >= SKIPS; --block) {
    const Slopes middle(slopes_of(6 + 2 * block));
    convolve(sum, here, stream, false);
    finish(stream);
    keep(sum);
    back<false>(sum, middle, sum, there, place, place.inside);
    const Slopes before(slopes_of(5 + 2 * block));
    meet();
    convolve(sum, there, stream, false);
    finish(stream);
    keep(sum);
    back<true>(sum, before, kept, here, place, place.inside);
    meet();
  }
  const Slopes middle(slopes_of(8));
  convolve(sum, here, stream, false);
  finish(stream);
  keep(sum);
  back<false>(sum, middle, sum, there, place, place.inside);
  meet();
  {
    // Transposed with stride 2: pixels of each parity see the taps that reach them.
    Tile sums[4];
    constexpr int FIRST[4] = {4, 3, 1, 0};
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
      const u32 block = stream.take();
      begin();
      const int dy = tap / 3 - 1, dx = tap % 3 - 1, phase = (dy & 1) * 2 + (dx & 1);
      const u32 from = there + ((dy < 0) * PITCH + (dx < 0)) * 16;
      multiply(sums[phase], from, MAP_GROUP, block, tap != FIRST[phase]);
      commit();
      wait<1>();
      if (tap > 0) stream.release(1);
    }
    finish(stream);
    const u32 skip = stream.take();
    begin();
    multiply(sums[0], here, MAP_GROUP, skip, true);
    commit();
    back_phases(sums, slopes_of(4), maps_a);
    meet();
    convolve_phases(sums, maps_a, stream, false);
    back_phases(sums, slopes_of(0), maps_b);
    meet();
  }
  auto* by_feature = reinterpret_cast<float*>(scratch + SLOPES);
  const u32 low = stream.take(), high = stream.take(), skip = stream.take();
#pragma unroll 1
  for (int phase = 0; phase < 4; ++phase) {
    Tile first, rest;
    begin();
    multiply(first, shifted(maps_b, phase, 0, 0), MAP_GROUP, low, false);
    multiply(first, shifted(maps_a, phase, 0, 0), MAP_GROUP, skip, true);
    multiply(rest, shifted(maps_b, phase, 0, 0), MAP_GROUP, high, false);
    commit();
    wait<0>();
    keep(first), keep(rest);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int feature = i / 4 * 8 + place.column + i % 2, row = place.row + i / 2 % 2 * 8;
      float* at = by_feature + (phase * FEATURES + feature) * TILE + row;
      *at = first[i];
      if (feature + 64 < FEATURES) at[64 * TILE] = rest[i];
    }
  }
  __syncwarp();
  cluster_arrive();  // nothing of the other members is needed any more
  meet();
  for (int p = thread; p < HEIGHT * WIDTH; p += WORKERS)
    gradients[p] = gathered(by_feature, p / WIDTH, p % WIDTH);
  __syncwarp();
  cluster_wait();
}
