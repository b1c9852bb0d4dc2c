// Maps of channels in shared memory, convolutions of them, and what follows these.
//
// Maps are stored so that a tap of a convolution is a shift of all pixels by one number of rows.
// The network halves the image twice. At its last size, H2 x W2, an image is H2 * PITCH rows of 64
// channels, each line of pixels followed by a zero; such an image is one tile of 64 rows. At twice
// that size, pixels are divided by the parity of their coordinates into four such images. A
// convolution of stride 2 then also sees shifted tiles.
//
// HEIGHT and WIDTH are those of the image, and STAGES the blocks of weights that are held at once;
// they are given when this is compiled.

#pragma once

#include <hopper.cuh>

constexpr int CHANNELS = 64;
constexpr int H1 = (HEIGHT + 1) / 2, W1 = (WIDTH + 1) / 2;
constexpr int H2 = (H1 + 1) / 2, W2 = (W1 + 1) / 2;
constexpr int PITCH = W2 + 1;
constexpr int TILE = 64;  // rows of a tile
static_assert((H2 + 1) * PITCH <= TILE && PITCH < 16, "the image is too large");

constexpr int WORKERS = 128;  // threads

// Maps: for each group of 8 channels, 16 bytes a row; 16 rows of zeros, then four tiles.
constexpr u32 TOP = 16;
constexpr u32 MAP_GROUP = (TOP + 4 * TILE) * 16, MAPS = 8 * MAP_GROUP;

constexpr u32 WEIGHTS = 8192, WEIGHT_GROUP = 1024;  // bytes of a block, and of 8 of its inputs

// ---------------------------------------------------------------------------------------------
// Products.

// sum (+)= rows at `rows` (their groups of 8 numbers `group` bytes apart) times a block of weights.
template <int K = 4>
__device__ __forceinline__ void multiply(Tile& sum, u32 rows, u32 group, u32 weights, bool add) {
  const u32 left = matrix(rows, group), right = matrix(weights, WEIGHT_GROUP);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const u64 a = descriptor(left + k * (2 * group >> 4));
    const u64 b = descriptor(right + k * (2 * WEIGHT_GROUP >> 4));
    multiply_16(sum, a, b, add || k > 0);
  }
}

// The workers' side of the stream of weights.
struct Stream {
  u32 ring, full, empty, next, lane;

  __device__ __forceinline__ u32 take() {  // waits for the next block
    const u32 stage = next % STAGES;
    barrier_wait(full + 8 * stage, next / STAGES & 1);
    ++next;
    return ring + stage * WEIGHTS;
  }
  // The block taken `back` before the last one is free again, as all members are told.
  __device__ __forceinline__ void release(u32 back) {
    barriers_arrive(empty + 8 * ((next - 1 - back) % STAGES), lane);
  }
};

// A worker's place: its rows and columns of a tile.
struct Place {
  int row, column;      // the first of each
  int r[2], c[2];       // coordinates of the pixels
  bool inside[2];       // of an image of the last size
  __device__ __forceinline__ bool inside_phase(int half, int phase) const {
    return inside[half] && 2 * r[half] + (phase >> 1) < H1 && 2 * c[half] + (phase & 1) < W1;
  }
};

__device__ __forceinline__ u32 shifted(u32 maps, int phase, int down, int right) {
  return maps + (TOP + phase * TILE + down * PITCH + right) * 16;
}

// A 3 x 3 convolution of stride 1 at the last size; the tile that it reads is at `from`.
__device__ __forceinline__ void convolve(Tile& sum, u32 from, Stream& stream, bool add) {
  for (int tap = 0; tap < 9; ++tap) {
    const u32 weights = stream.take();
    begin();
    const int shift = (tap / 3 - 1) * PITCH + tap % 3 - 1;
    multiply(sum, from + shift * 16, MAP_GROUP, weights, add || tap > 0);
    commit();
    wait<1>();
    if (tap > 0) stream.release(1);
  }
}
// The same at twice the size: four tiles.
__device__ __forceinline__ void convolve_phases(
    Tile (&sums)[4], u32 maps, Stream& stream, bool add) {
  for (int tap = 0; tap < 9; ++tap) {
    const u32 weights = stream.take();
    begin();
#pragma unroll
    for (int phase = 0; phase < 4; ++phase) {
      const int y = (phase >> 1) + tap / 3 - 1, x = (phase & 1) + tap % 3 - 1;
      const u32 from = shifted(maps, (y & 1) * 2 + (x & 1), y >> 1, x >> 1);
      multiply(sums[phase], from, MAP_GROUP, weights, add || tap > 0);
    }
    commit();
    wait<1>();
    if (tap > 0) stream.release(1);
  }
}
__device__ __forceinline__ void finish(Stream& stream) {
  wait<0>();
  stream.release(0);
}

// ---------------------------------------------------------------------------------------------
// What follows products.

// A swish and its derivative: x s(x), and s(x) (1 + x (1 - s(x))).
__device__ __forceinline__ float swish(float x, float& slope) {
  const float s = fmaf(0.5f, near_tanh(0.5f * x), 0.5f);
  const float value = x * s;
  slope = fmaf(value, 1.0f - s, s);
  return value;
}

// Numbers that follow products are loaded before these are waited for.
struct Vector {  // of a worker's columns
  float2 pairs[8];
  __device__ __forceinline__ Vector(const float* from, const Place& place) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      pairs[j] = *reinterpret_cast<const float2*>(from + place.column + 8 * j);
  }
};
struct Slopes {  // of a tile, as pairs of half precision
  u32 words[16];
  __device__ __forceinline__ Slopes() {}
  __device__ __forceinline__ explicit Slopes(const uint4* from) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const uint4 four = from[q * WORKERS];
      words[4 * q] = four.x, words[4 * q + 1] = four.y;
      words[4 * q + 2] = four.z, words[4 * q + 3] = four.w;
    }
  }
  __device__ __forceinline__ void save(uint4* to) const {
#pragma unroll
    for (int q = 0; q < 4; ++q)
      to[q * WORKERS] =
          make_uint4(words[4 * q], words[4 * q + 1], words[4 * q + 2], words[4 * q + 3]);
  }
};
// Where a worker stores columns 8 j + ... of one of its rows.
__device__ __forceinline__ u32 stored_at(u32 tile, const Place& place, int half, int j) {
  return tile + j * MAP_GROUP + (place.row + 8 * half) * 16 + (place.column & 7) * 2;
}

// sum + bias -> its swish, stored; the slope is saved. `kept` is added before, and is the result.
template <bool ADD, bool KEEP>
__device__ __forceinline__ void forth(
    Tile& sum, const Vector& bias, Tile& kept, u32 tile, const Place& place,
    const bool (&inside)[2], uint4* saved) {
  Slopes slopes;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      float x = sum[i] + bias.pairs[j].x, y = sum[i + 1] + bias.pairs[j].y, slope_x, slope_y;
      if (ADD) x += kept[i], y += kept[i + 1];
      x = swish(x, slope_x), y = swish(y, slope_y);
      if (KEEP) kept[i] = x, kept[i + 1] = y;
      slopes.words[2 * j + half] = halves(slope_x, slope_y);
      store_word(stored_at(tile, place, half, j), inside[half] ? packed(x, y) : 0);
    }
  }
  slopes.save(saved);
}

// sum times the slope, stored. `kept` is added before, and is the result.
template <bool ADD>
__device__ __forceinline__ void back(
    Tile& sum, const Slopes& slopes, Tile& kept, u32 tile, const Place& place,
    const bool (&inside)[2]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      float x, y;
      unpack(slopes.words[2 * j + half], x, y);
      if (ADD) {
        x *= sum[i] + kept[i], y *= sum[i + 1] + kept[i + 1];
        kept[i] = x, kept[i + 1] = y;
      } else {
        x *= sum[i], y *= sum[i + 1];
      }
      store_word(stored_at(tile, place, half, j), inside[half] ? packed(x, y) : 0);
    }
  }
}
