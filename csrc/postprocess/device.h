#pragma once

#include <memory>
#include <span>
#include <vector>

#include "endcap/postprocess.h"

namespace endcap {

// Carries out the parameters of one Postprocessor on one device, which is chosen once, when the
// Postprocessor is made. Thread-safe.
class PostprocessDevice {
 public:
  PostprocessDevice() = default;
  virtual ~PostprocessDevice() = default;
  PostprocessDevice(const PostprocessDevice&) = delete;
  PostprocessDevice& operator=(const PostprocessDevice&) = delete;

  // Items processed at the same time.
  virtual int threads() const noexcept = 0;

  // As Postprocessor::Run and Postprocessor::Enqueue; lengths, outputs and the memory of the
  // geometry are checked already.
  virtual std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                           std::span<const PostprocessOutput> outputs,
                                           void* stream) = 0;
  virtual void Enqueue(std::span<const PostprocessInput> inputs,
                       std::span<const PostprocessOutput> outputs, void* stream) = 0;
};

std::unique_ptr<PostprocessDevice> MakeCpuPostprocess(const PostprocessParams& params, int threads);

// Throws kUnsupported for an anchor_grid that only the CPU reads, and kCuda when the device cannot
// be used.
std::unique_ptr<PostprocessDevice> MakeCudaPostprocess(const PostprocessParams& params,
                                                       int device_id);

}  // namespace endcap
