// The instructions of `native/cuda/hopper.cuh` on a CPU, so that kernels written with them run in
// tests: the same names, and what they are said to do.
//
// The threads of a cluster take turns, in an order drawn at random. What a GPU may do later is done
// at a random time: copies arrive at any moment, products are computed when they are committed or
// only when they are waited for. Shared memory is NaN until it is written. It is an error if warps
// write and read the same place of it, by the functions below, without a meeting in between. What
// kernels read and write by pointers is not looked at.
//
// With WIDE, numbers that are stored as bfloat16 keep the digits that it drops: what differs from an
// exact computation is then no rounding.

#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)

typedef unsigned int u32;
typedef unsigned long long u64;
struct float2 {
  float x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
using std::min;
struct Index {
  u32 x;
};
static Index threadIdx, blockIdx;  // of the thread whose turn it is

typedef float Tile[32];

namespace emulated {

constexpr u32 BASE = 1024;    // where a block's shared memory begins
constexpr u32 MEMBER = 24;    // from which bit on an address has the member's number
constexpr size_t STACK = 1 << 18;

inline float number(unsigned short bits) {
  const u32 word = static_cast<u32>(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

struct Product {
  float* sum;
  u64 a, b;
  bool add;
};

// Where some threads wait for each other.
struct Meeting {
  u32 size, here = 0, turn = 0;
};

struct Barrier {
  u32 count, pending, phase = 0;
  long bytes = 0;  // announced, less those that came
  void settle() {
    if (pending == 0 && bytes == 0) pending = count, ++phase;
  }
};

// Who used two bytes of shared memory last, and before which meeting.
struct Used {
  u32 written = 0, read = 0;  // the number of the meeting to come, from 1 on
  u32 writer = 0, readers = 0;  // a warp; a bit for each
};

struct Block {
  std::vector<char> memory;
  std::vector<Used> used;
  std::vector<float> wide;  // what is stored in each two bytes
  std::map<u32, Barrier> barriers;
  Meeting all, workers;
  std::vector<Meeting> warps;
};

struct Thread {
  u32 member, number;
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  std::vector<std::vector<Product>> groups;  // committed, not computed
  std::vector<Product> open;
  u32 cluster_turn = 0;
  float shown = 0.0f;
  bool done = false;
};

struct Copy {
  u32 to, bytes, barrier, member;
  const char* from;
};

// One cluster of blocks, and the thread whose turn it is.
struct Machine {
  std::vector<Block> blocks;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Copy> copies;
  Meeting cluster;
  Thread* now = nullptr;
  ucontext_t scheduler;
  std::mt19937 random;
  u64 changes = 0;  // of what a thread may wait for
  std::string error;
  std::function<void()> kernel;
  u32 packed_word = 0;
  float packed_from[2];
};
inline Machine machine;

inline void yield() { swapcontext(&machine.now->context, &machine.scheduler); }
inline void fail(const std::string& text) {
  if (machine.error.empty()) machine.error = text;
  for (;;) yield();
}
template <class Condition>
void until(Condition condition) {
  while (!condition()) yield();
}
inline void attend(Meeting& meeting) {
  const u32 mine = meeting.turn;
  if (++meeting.here == meeting.size) {
    meeting.here = 0, ++meeting.turn, ++machine.changes;
  } else {
    until([&] { return meeting.turn != mine; });
  }
}

inline Block& block() { return machine.blocks[machine.now->member]; }
// An address of this block as a place in its memory.
inline u32 place(u32 at, u32 bytes) {
  const u32 offset = (at & ((1u << MEMBER) - 1)) - BASE;
  if (at >> MEMBER != machine.now->member) fail("an address of another block");
  if (offset + bytes > block().memory.size()) fail("an address outside of shared memory");
  return offset;
}
inline Barrier& barrier(u32 member, u32 at) {
  const auto found = machine.blocks[member].barriers.find(at & ((1u << MEMBER) - 1));
  if (found == machine.blocks[member].barriers.end()) fail("no barrier here");
  return found->second;
}
inline void arrive(Barrier& barrier) {
  if (barrier.pending == 0) fail("more arrive at a barrier than it is for");
  --barrier.pending, ++machine.changes;
  barrier.settle();
}

inline void write(Block& block, u32 place, const void* from, u32 bytes) {
  std::memcpy(block.memory.data() + place, from, bytes);
  for (u32 i = 0; i < bytes; i += 2) {
    unsigned short bits;
    std::memcpy(&bits, static_cast<const char*>(from) + i, 2);
    block.wide[(place + i) / 2] = number(bits);
  }
}

inline Used& used(u32 place) { return block().used[place / 2]; }
inline void note_write(u32 place, u32 bytes) {
  const u32 warp = machine.now->number / 32, meeting = block().workers.turn + 1;
  for (u32 at = place; at < place + bytes; at += 2) {
    Used& here = used(at);
    if (here.read == meeting && (here.readers & ~(1u << warp))) fail("written where others read");
    if (here.written == meeting && here.writer != warp) fail("written where others write");
    here.written = meeting, here.writer = warp;
  }
}
inline void note_read(u32 place) {
  const u32 warp = machine.now->number / 32, meeting = block().workers.turn + 1;
  Used& here = used(place);
  if (here.written == meeting && here.writer != warp) fail("read where others write");
  if (here.read != meeting) here.read = meeting, here.readers = 0;
  here.readers |= 1u << warp;
}

inline void deliver(const Copy& copy) {
  const u32 offset = (copy.to & ((1u << MEMBER) - 1)) - BASE;
  for (u32 member = 0; member < machine.blocks.size(); ++member) {
    write(machine.blocks[member], offset, copy.from, copy.bytes);
    Barrier& there = barrier(member, copy.barrier);
    there.bytes -= copy.bytes;
    there.settle();
  }
  ++machine.changes;
}

// A matrix of 16 columns, as its descriptor says: groups of 8 x 8 numbers, a row in 16 bytes.
struct Matrix {
  u32 start, columns, rows;
  explicit Matrix(u64 d)
      : start((d & 0x3fff) << 4), columns((d >> 16 & 0x3fff) << 4), rows((d >> 32 & 0x3fff) << 4) {}
  float at(u32 row, u32 column) const {
    const u32 at = start + column / 8 * columns + row / 8 * rows + row % 8 * 16 + column % 8 * 2;
    const u32 from = place(at | machine.now->member << MEMBER, 2);
    note_read(from);
    return block().wide[from / 2];
  }
};

inline void compute(const Product& product) {
  const Matrix a(product.a), b(product.b);
  const u32 lane = machine.now->number % 32, warp = machine.now->number / 32;
  float rows[2][16];
  for (u32 half = 0; half < 2; ++half)
    for (u32 k = 0; k < 16; ++k) rows[half][k] = a.at(warp * 16 + lane / 4 + 8 * half, k);
  for (u32 column = 0; column < 16; ++column) {
    const u32 n = column / 2 * 8 + lane % 4 * 2 + column % 2;
    float sums[2] = {0.0f, 0.0f};
    for (u32 k = 0; k < 16; ++k) {
      const float weight = b.at(n, k);
      for (u32 half = 0; half < 2; ++half) sums[half] += rows[half][k] * weight;
    }
    for (u32 half = 0; half < 2; ++half) {
      float& sum = product.sum[column / 2 * 4 + half * 2 + column % 2];
      sum = (product.add ? sum : 0.0f) + sums[half];
    }
  }
}
inline void compute_first() {
  auto& groups = machine.now->groups;
  for (const Product& product : groups.front()) compute(product);
  groups.erase(groups.begin());
}

inline void start_thread() {
  machine.kernel();
  machine.now->done = true;
  ++machine.changes;
  yield();
}

inline void turn_of(Thread& thread, u32 first_block) {
  machine.now = &thread;
  threadIdx.x = thread.number;
  blockIdx.x = first_block + thread.member;
  swapcontext(&machine.scheduler, &thread.context);
}

// Runs one cluster to its end, or to an error.
inline void run_cluster(u32 first_block, u32 members, u32 threads, u32 shared) {
  machine.blocks.assign(members, Block());
  machine.threads.clear();
  machine.copies.clear();
  machine.cluster = {members * threads};
  for (u32 member = 0; member < members; ++member) {
    Block& block = machine.blocks[member];
    block.memory.assign(shared, '\xff');
    block.wide.assign(shared / 2, NAN);
    block.used.assign(shared / 2, Used());
    block.all = {threads}, block.workers = {128};
    block.warps.assign(threads / 32, {32});
    for (u32 number = 0; number < threads; ++number) {
      auto thread = std::make_unique<Thread>();
      thread->member = member, thread->number = number;
      thread->stack = std::make_unique<char[]>(STACK);
      getcontext(&thread->context);
      thread->context.uc_stack.ss_sp = thread->stack.get();
      thread->context.uc_stack.ss_size = STACK;
      makecontext(&thread->context, start_thread, 0);
      machine.threads.push_back(std::move(thread));
    }
  }
  while (machine.error.empty()) {
    const u64 before = machine.changes;
    std::shuffle(machine.threads.begin(), machine.threads.end(), machine.random);
    bool done = true;
    for (auto& thread : machine.threads) {
      if (!thread->done) turn_of(*thread, first_block);
      done &= thread->done;
      if (!machine.copies.empty() && machine.random() % 64 == 0) {
        const auto which = machine.copies.begin() + machine.random() % machine.copies.size();
        const Copy copy = *which;
        machine.copies.erase(which);
        deliver(copy);
      }
    }
    if (done && machine.copies.empty()) return;
    if (machine.changes == before && machine.copies.empty()) machine.error = "all threads wait";
  }
}

// Runs a kernel; returns what went wrong, or nothing.
template <class Kernel>
std::string launch(u32 grid, u32 members, u32 threads, u32 shared, u32 seed, Kernel kernel) {
  machine.random.seed(seed);
  machine.error.clear();
  machine.kernel = kernel;
  for (u32 first = 0; first < grid && machine.error.empty(); first += members)
    run_cluster(first, members, threads, shared);
  return machine.error;
}

}  // namespace emulated

// ---------------------------------------------------------------------------------------------
// The functions of `hopper.cuh`, and those of CUDA that kernels use.

inline void __syncthreads() { emulated::attend(emulated::block().all); }
inline void __syncwarp() { emulated::attend(emulated::block().warps[threadIdx.x / 32]); }
inline float __shfl_xor_sync(u32, float value, int lanes) {
  using namespace emulated;
  machine.now->shown = value;
  __syncwarp();
  for (const auto& other : machine.threads) {
    if (other->member == machine.now->member && other->number == (threadIdx.x ^ lanes)) {
      value = other->shown;
    }
  }
  __syncwarp();
  return value;
}

inline char* shared_memory() { return emulated::block().memory.data(); }
inline u32 address(const void* p) {
  const auto offset = static_cast<const char*>(p) - shared_memory();
  return emulated::machine.now->member << emulated::MEMBER | (emulated::BASE + offset);
}
inline void store_word(u32 at, u32 value) {
  using namespace emulated;
  const u32 to = place(at, 4);
  note_write(to, 4);
  write(block(), to, &value, 4);
#ifdef WIDE
  if (value != 0 && value == machine.packed_word)
    for (u32 i = 0; i < 2; ++i) block().wide[to / 2 + i] = machine.packed_from[i];
#endif
}
inline void store_words(u32 at, u32 a, u32 b, u32 c, u32 d) {
  const u32 words[] = {a, b, c, d}, to = emulated::place(at, 16);
  emulated::note_write(to, 16);
  emulated::write(emulated::block(), to, words, 16);
}

inline void barrier_init(u32 at, u32 count) {
  emulated::place(at, 8);
  emulated::block().barriers[at & ((1u << emulated::MEMBER) - 1)] = {count, count};
}
inline void barriers_are_made() {}
inline void barrier_wait(u32 at, u32 parity) {
  using namespace emulated;
  const Barrier& here = barrier(machine.now->member, at);
  until([&] { return (here.phase & 1) != parity; });
}
inline void barriers_arrive(u32 at, u32 lane) {
  if (lane < CLUSTER) emulated::arrive(emulated::barrier(lane, at));
}
inline u32 member_of_cluster() { return emulated::machine.now->member; }
inline void cluster_arrive() {
  using namespace emulated;
  machine.now->cluster_turn = machine.cluster.turn;
  if (++machine.cluster.here == machine.cluster.size)
    machine.cluster.here = 0, ++machine.cluster.turn, ++machine.changes;
}
inline void cluster_wait() {
  using namespace emulated;
  until([] { return machine.cluster.turn != machine.now->cluster_turn; });
}
inline void meet() { emulated::attend(emulated::block().workers); }
template <u32 BYTES>
void fetch(u32 to, const char* from, u32 barrier, u32 member) {
  using namespace emulated;
  constexpr u32 share = BYTES / CLUSTER;
  place(to, BYTES);
  Barrier& here = emulated::barrier(machine.now->member, barrier);
  here.bytes += BYTES;
  arrive(here);
  machine.copies.push_back({to + member * share, share, barrier, member, from + member * share});
}

inline u32 packed(float low, float high) {
  const auto rounded = [](float x) {
    u32 word;
    std::memcpy(&word, &x, 4);
    return std::isnan(x) ? 0x7fffu : (word + 0x7fff + (word >> 16 & 1)) >> 16;
  };
  emulated::machine.packed_from[0] = low, emulated::machine.packed_from[1] = high;
  return emulated::machine.packed_word = rounded(low) | rounded(high) << 16;
}
inline u32 halves(float low, float high) {
  const _Float16 both[2] = {static_cast<_Float16>(low), static_cast<_Float16>(high)};
  u32 word;
  std::memcpy(&word, both, 4);
  return word;
}
inline void unpack(u32 word, float& low, float& high) {
  _Float16 both[2];
  std::memcpy(both, &word, 4);
  low = static_cast<float>(both[0]), high = static_cast<float>(both[1]);
}
inline float near_tanh(float x) { return std::tanh(x); }

inline u32 matrix(u32 at, u32 group) { return (at & 0x3ffff) >> 4 | (group >> 4) << 16; }
inline u64 descriptor(u32 matrix) { return matrix | static_cast<u64>(128 >> 4) << 32; }
inline void multiply_16(Tile& sum, u64 a, u64 b, bool add) {
  emulated::machine.now->open.push_back({sum, a, b, add});
}
inline void begin() {}
inline void commit() {
  using namespace emulated;
  Thread& now = *machine.now;
  now.groups.push_back(std::move(now.open));
  now.open.clear();
  if (machine.random() % 2)
    while (!now.groups.empty()) compute_first();
}
template <int LEFT>
void wait() {
  while (emulated::machine.now->groups.size() > LEFT) emulated::compute_first();
  __syncwarp();
}
inline void keep(Tile&) {}
