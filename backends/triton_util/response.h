#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "endcap/tensor_view.h"
#include "triton_util/errors.h"
#include "triton_util/instance.h"
#include "triton_util/metrics.h"
#include "triton_util/request.h"
#include "triton_util/tensors.h"

namespace endcap::triton {

// Memory that the server provided for an output.
struct OutputMemory {
  void* data = nullptr;
  MemoryPlace place;
};

// The response to one request. It is created by the first output, or by Send or Fail.
class ResponseSink {
 public:
  explicit ResponseSink(TRITONBACKEND_Request* request) noexcept : request_(request) {}

  // Whether no response has been sent.
  bool open() const noexcept { return !sent_; }
  // Whether a response without an error has been sent.
  bool succeeded() const noexcept { return succeeded_; }

  // Adds an output and returns its memory, which belongs to the response: at `preferred` or
  // elsewhere. Throws ApiError; kInvalidArgument if the server provides an address that is not
  // aligned for the elements, which happens in a client's shared memory.
  OutputMemory AddOutput(std::string_view name, TRITONSERVER_DataType data_type,
                         std::span<const int64_t> shape, size_t size_bytes,
                         const MemoryPlace& preferred);
  // The same for an output of every item: shape [item_count, ...spec] when batched, else [...spec].
  OutputMemory AddOutput(const TensorSpec& spec, int64_t item_count, bool batched,
                         const MemoryPlace& preferred);

  // Sends the response; the sink is then closed. Throws ApiError.
  void Send();
  // Sends an error in place of the outputs; does nothing on a closed sink. An error of the server
  // is logged.
  void Fail(const Failure& failure) noexcept;

 private:
  TRITONBACKEND_Response* Current();

  TRITONBACKEND_Request* request_;
  ResponseHandle response_;
  bool sent_ = false;
  bool succeeded_ = false;
};

// Results of one request that the core cannot write directly into the response: one block in memory
// of the core's device, which is copied after the core's work. From a GPU all copies are
// asynchronous; those to memory that is not pinned go through pinned memory, so that one
// synchronisation is enough.
class OutputStaging {
 public:
  // place: where the core writes.
  OutputStaging(const ExecutionContext& execution_context, const MemoryPlace& place) noexcept
      : execution_context_(execution_context), place_(place) {}

  // Adds a result of `bytes` to the block and returns its offset. to: its destination in memory of
  // `to_place`; null: it is not copied.
  size_t Add(size_t bytes, void* to, const MemoryPlace& to_place);

  // Allocates the block, after the last Add. Throws kOutOfMemory, kCuda.
  void Allocate();
  std::byte* data() const noexcept { return data_; }

  // From a GPU, enqueues the copies on the instance's stream; from host memory, copies. Throws
  // kCuda.
  void Copy();
  // Completes the copies; call it after the stream has been synchronised.
  void Finish() noexcept;

 private:
  struct Part {
    size_t offset;
    size_t bytes;
    void* to;
    MemoryPlace to_place;
  };

  // Whether the part goes from a GPU to host memory that is not pinned.
  bool IsMirrored(const Part& part) const noexcept;
  void CopyToMirror(size_t begin, size_t end);

  ExecutionContext execution_context_;
  MemoryPlace place_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> device_block_;
  std::vector<std::byte> host_block_;
  std::shared_ptr<uint8_t> mirror_;  // pinned memory for the mirrored parts of device_block_
};

// Copies host memory into an output, and synchronises if that is on a GPU. Throws kCuda.
void WriteOutput(std::span<const std::byte> bytes, void* to, const MemoryPlace& to_place,
                 const ExecutionContext& execution_context);

// The outputs of one request. The core writes into the memory of the response if the server
// provides it on the core's device, else into staging memory, which is copied when the work is
// done.
class RequestOutputs {
 public:
  // The memory of one output.
  struct Placement {
    MemoryPlace core;               // where the core writes
    MemoryPlace preferred;          // where the response should have it, unless its reader decides
    bool even_if_unwanted = false;  // the core writes it, also if the request does not want it
  };

  RequestOutputs(const Request& request, ResponseSink& sink,
                 const ExecutionContext& execution_context, bool batched) noexcept
      : request_(request),
        sink_(&sink),
        batched_(batched),
        host_(execution_context, {}),
        device_(execution_context, execution_context.memory()) {}

  // Adds an output of every item to the response if the request wants it. Counts a spill if the
  // server promised GPU memory and provides other memory. Throws as ResponseSink::AddOutput.
  void Add(const TensorSpec& spec, int64_t item_count, const Placement& placement,
           StageCounters& counters);
  // Allocates the staging memory, after the last Add. Throws kOutOfMemory, kCuda.
  void Allocate();
  // Returns the items of the n-th output that was added; absent ones if it has no memory.
  OutputItems operator[](size_t output) const noexcept;

  // After the core's call, see OutputStaging.
  void Copy();
  void Finish() noexcept;

 private:
  struct Output {
    TensorSpec spec;
    MemoryPlace place;
    void* in_place = nullptr;
    bool staged = false;
    size_t offset = 0;
  };

  OutputStaging& StagingAt(const MemoryPlace& place) noexcept {
    return place.on_gpu() ? device_ : host_;
  }

  Request request_;
  ResponseSink* sink_;
  bool batched_;
  OutputStaging host_;
  OutputStaging device_;
  std::vector<Output> outputs_;
};

}  // namespace endcap::triton
