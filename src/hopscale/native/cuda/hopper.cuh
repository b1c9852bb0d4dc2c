// Instructions of Hopper GPUs for which CUDA has no functions: barriers in shared memory, copies to
// a cluster, products by tensor cores, conversions.
//
// CLUSTER blocks of threads form a cluster; it is given when this is compiled. Tests put functions
// of the same names in place of these, to run kernels on a CPU.

#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// ---------------------------------------------------------------------------------------------
// Shared memory, as 32-bit addresses.

__device__ __forceinline__ char* shared_memory() {
  extern __shared__ __align__(128) char memory[];
  return memory;
}
__device__ __forceinline__ u32 address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void store_word(u32 at, u32 value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}
__device__ __forceinline__ void store_words(u32 at, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// ---------------------------------------------------------------------------------------------
// Barriers. One in shared memory has phases: a phase is complete when as many have arrived as it
// was made for, and all bytes that were announced have come.

__device__ __forceinline__ void barrier_init(u32 at, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count));
}
__device__ __forceinline__ void barriers_are_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Waits until the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(u32 at, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n}" ::"r"(at), "r"(parity) : "memory");
}
// At the barriers of all members of the cluster, one lane for each. There is no branch: products are
// instructions of whole warps.
__device__ __forceinline__ void barriers_arrive(u32 at, u32 lane) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b32 there;\n"
      "setp.lt.u32 p, %1, %2;\n"
      "@p mapa.shared::cluster.u32 there, %0, %1;\n"
      "@p mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at),
      "r"(lane), "n"(CLUSTER) : "memory");
}
__device__ __forceinline__ u32 member_of_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// What the first 128 threads of a block wrote to shared memory is seen by all of them, and by tensor
// cores.
__device__ __forceinline__ void meet() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 128;" ::: "memory");
}
// BYTES for all members of a cluster; each fetches its share for all of them.
template <u32 BYTES>
__device__ __forceinline__ void fetch(u32 to, const char* from, u32 barrier, u32 member) {
  constexpr u32 share = BYTES / CLUSTER;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(BYTES)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to + member * share), "l"(from + member * share),
      "r"(share), "r"(barrier), "h"(static_cast<unsigned short>((1 << CLUSTER) - 1)) : "memory");
}

// ---------------------------------------------------------------------------------------------
// Numbers: two in half the width in a word, the first in the low bits; an approximate tanh.

__device__ __forceinline__ u32 packed(float low, float high) {  // bfloat16
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ u32 halves(float low, float high) {  // half precision
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ void unpack(u32 both, float& low, float& high) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
      : "=f"(low), "=f"(high) : "r"(both));
}
__device__ __forceinline__ float near_tanh(float x) {
  float t;
  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(x));
  return t;
}

// ---------------------------------------------------------------------------------------------
// Products of 64 x 16 and 16 x 64 numbers. Each of 128 threads has 32 numbers of the result: of rows
// g and g + 8 of its warp's 16, with g = lane / 4, in columns 8 j + 2 (lane % 4) and the next; the
// order is (j, row, column).

typedef float Tile[32];

// The place of a matrix, as tensor cores take it: in units of 16 bytes, its address in the low bits,
// then the distance of groups of 8 columns, then that of 8 rows. In a cluster an address begins with
// the member's number, which tensor cores do not take.
__device__ __forceinline__ u32 matrix(u32 at, u32 group) {
  return (at & 0x3ffff) >> 4 | (group >> 4) << 16;
}
__device__ __forceinline__ u64 descriptor(u32 matrix) {
  return matrix | static_cast<u64>(128 >> 4) << 32;
}

#define ALL32(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7), X(8), X(9), X(10), X(11), X(12), \
    X(13), X(14), X(15), X(16), X(17), X(18), X(19), X(20), X(21), X(22), X(23), X(24), X(25),    \
    X(26), X(27), X(28), X(29), X(30), X(31)
#define RESULT(i) "+f"(sum[i])

// sum (+)= a b. It is begun here, and done when it has been waited for.
__device__ __forceinline__ void multiply_16(Tile& sum, u64 a, u64 b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, "
      "0;\n}"
      : ALL32(RESULT)
      : "l"(a), "l"(b), "r"(static_cast<u32>(add)));
}
#undef RESULT
#undef ALL32

__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits for all but the last LEFT groups of products that were committed.
template <int LEFT>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void keep(Tile& sum) {  // no use of it moves before this
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}
