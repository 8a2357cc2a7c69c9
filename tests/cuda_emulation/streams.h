#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_emulation/runtime.h"
#include "observed.h"

// Work waits in its stream until somebody waits for it. Positions count a stream's work.
struct CUstream_st {
  struct Work {
    std::function<void()> function;
    endcap::emulation::Known before;  // what the host did until it asked for the work
  };
  std::deque<std::unique_ptr<Work>> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  int number = 0;  // of all streams
  bool captures = false;
  bool capture_is_invalid = false;
  bool is_blocking = false;  // synchronizes with the legacy default stream
  // 0 while it does not capture.
  uint64_t capture_id() const { return captures ? static_cast<uint64_t>(number) + 1 : 0; }
  endcap::emulation::Observed observed;  // who does the work
  endcap::emulation::Known work_done;
};

struct CUevent_st {
  struct Recorded {
    std::shared_ptr<CUstream_st> stream;
    uint64_t position = 0;
  };
  std::vector<Recorded> recorded;  // empty: never recorded; several by cuCtxRecordEvent
  uint64_t capture = 0;            // the capture that it was recorded in, or 0
};

namespace endcap::emulation {

using Stream = std::shared_ptr<CUstream_st>;

// One at a time: the emulation is for results, not for speed. All functions below want the lock.
std::recursive_mutex& Lock();
using Guard = std::lock_guard<std::recursive_mutex>;

// Null for what is no stream.
Stream Find(cudaStream_t handle);

void Push(const Stream& stream, std::function<void()> work);
// Does the work before `position`, and what it waits for; the caller knows of it then.
void RunUntil(CUstream_st& stream, uint64_t position);
// All of the work of all streams.
void RunAll();

// The caller knows of all work that was done.
void KnowAll();

// The number of the stream whose work is being done.
int RunningStream();

// All streams there are.
std::vector<Stream> AllStreams();

// Why a call that uses the device is refused: a fault that was injected, or, for calls that are
// `unsafe` while anybody captures, a capture that the calling thread does not ignore (relaxed
// mode).
enum class Call : uint8_t { kSafe, kUnsafe };
cudaError_t Refusal(Call call);
#define ENDCAP_REFUSE(call)                                         \
  do {                                                              \
    const cudaError_t refusal = ::endcap::emulation::Refusal(call); \
    if (refusal != cudaSuccess) return refusal;                     \
  } while (false)
// Notes that CUDA would have invalidated a capture; returns `error`.
cudaError_t HarmCapture(cudaError_t error);

// What cudaGetLastError gives next, unless it is cudaSuccess; returns it.
cudaError_t Note(cudaError_t error);

int DeviceCount();

}  // namespace endcap::emulation
