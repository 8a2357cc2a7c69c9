#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda_emulation/runtime.h"

// Work waits in its stream until somebody waits for it. Positions count a stream's work.
struct CUstream_st {
  std::deque<std::function<void()>> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
};

struct CUevent_st {
  std::shared_ptr<CUstream_st> stream;  // null: never recorded
  uint64_t position = 0;
};

namespace endcap::emulation {

using Stream = std::shared_ptr<CUstream_st>;

// One at a time: the emulation is for answers, not for speed. All functions below want the lock.
std::recursive_mutex& Lock();
using Guard = std::lock_guard<std::recursive_mutex>;

// Null for what is no stream.
Stream Find(cudaStream_t handle);

void Push(const Stream& stream, std::function<void()> work);
// Does the work before `position`, and what it waits for.
void RunUntil(CUstream_st& stream, uint64_t position);
// All of the work of all streams.
void RunAll();

// What cudaGetLastError gives next, unless it is cudaSuccess; returns it.
cudaError_t Note(cudaError_t error);

int DeviceCount();

}  // namespace endcap::emulation
