#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cuda_emulation/fibers.h"

// The language of kernels: keywords, built-in variables and functions.

#define __global__
#define __device__
#define __host__
#if defined(ENDCAP_CUDA_RACES)
#define __shared__ [[maybe_unused]] static thread_local
#else
#define __shared__ [[maybe_unused]] static
#endif
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define threadIdx (::endcap::emulation::Current().thread_index)
#define blockIdx (::endcap::emulation::Current().block_index)
#define blockDim (::endcap::emulation::Current().block)
#define gridDim (::endcap::emulation::Current().grid)
inline constexpr int warpSize = endcap::emulation::kWarpSize;

inline void __syncthreads() { endcap::emulation::Barrier(0); }
inline int __syncthreads_count(int predicate) {
  return endcap::emulation::Barrier(predicate != 0 ? 1 : 0);
}
inline int __syncthreads_or(int predicate) {
  return endcap::emulation::Barrier(predicate != 0 ? 1 : 0) != 0 ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { endcap::emulation::WarpBarrier(mask); }

namespace endcap::emulation {

template <typename T>
uint64_t Pack(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t packed = 0;
  std::memcpy(&packed, &value, sizeof(T));
  return packed;
}

template <typename T>
T Unpack(uint64_t packed) {
  T value;
  std::memcpy(&value, &packed, sizeof(T));
  return value;
}

// The value of lane `source` of the running thread's section of `width` lanes; its own where there
// is no such lane.
template <typename T>
T FromLane(unsigned mask, T value, int source, int width) {
  const Lanes lanes = PendingRequest(mask, Pack(value));
  const int section = Lane() / width * width;
  if (source < section || source >= section + width) return value;
  return Unpack<T>(lanes[static_cast<size_t>(source)]);
}

}  // namespace endcap::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int section = endcap::emulation::Lane() / width * width;
  return endcap::emulation::FromLane(mask, value, section + (source & (width - 1)), width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = endcap::emulation::Lane();
  return endcap::emulation::FromLane(mask, value, lane - static_cast<int>(delta), width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  return endcap::emulation::FromLane(mask, value, endcap::emulation::Lane() ^ lane_mask, width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const auto lanes = endcap::emulation::PendingRequest(mask, predicate != 0 ? 1 : 0);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) ballot |= static_cast<unsigned>(lanes[i]) << i;
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}

namespace endcap::emulation {

// The atomic functions of CUDA order nothing but themselves.
template <typename T, typename Change>
T ChangeAtomically(T* address, Change change) {
  const std::atomic_ref<T> value(*address);
  T old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) continue;
  return old;
}

}  // namespace endcap::emulation

template <typename T, typename V>
T atomicAdd(T* address, V value) {
  return endcap::emulation::ChangeAtomically(
      address, [=](T old) { return static_cast<T>(old + static_cast<T>(value)); });
}
template <typename T, typename V>
T atomicMax(T* address, V value) {
  return endcap::emulation::ChangeAtomically(
      address, [=](T old) { return std::max(old, static_cast<T>(value)); });
}
template <typename T, typename V>
T atomicMin(T* address, V value) {
  return endcap::emulation::ChangeAtomically(
      address, [=](T old) { return std::min(old, static_cast<T>(value)); });
}
template <typename T, typename V>
T atomicAnd(T* address, V value) {
  return endcap::emulation::ChangeAtomically(
      address, [=](T old) { return static_cast<T>(old & static_cast<T>(value)); });
}

#define __NV_ATOMIC_RELAXED 0
#define __NV_THREAD_SCOPE_DEVICE 0
template <typename T>
T __nv_atomic_load_n(T* address, int, int) {
  return std::atomic_ref<T>(*address).load(std::memory_order_relaxed);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31U));
}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
// Exact where the product and the sum of it are numbers of double.
inline float __fmaf_rd(float a, float b, float c) {
  const double exact = static_cast<double>(a) * b + c;
  const auto nearest = static_cast<float>(exact);
  return nearest > exact ? std::nextafter(nearest, -INFINITY) : nearest;
}
inline float __fadd_rd(float a, float b) { return __fmaf_rd(a, 1.0F, b); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    bytes |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7U) & 0xFFU) << 8 * i;
  }
  return bytes;
}
inline unsigned __dp2a_lo(unsigned halves, unsigned bytes, unsigned sum) {
  return sum + (halves & 0xFFFFU) * (bytes & 0xFFU) + (halves >> 16) * (bytes >> 8 & 0xFFU);
}
inline unsigned __dp2a_hi(unsigned halves, unsigned bytes, unsigned sum) {
  return __dp2a_lo(halves, bytes >> 16, sum);
}

// CUDA has these without a namespace.
template <typename A, typename B>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
