#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/item_views.h"
#include "triton_util/memory_place.h"
#include "triton_util/metrics.h"
#include "triton_util/output_staging.h"
#include "triton_util/request.h"
#include "triton_util/response_sink.h"

namespace endcap::triton {

// The outputs of one request. The core writes them into the response's own memory where the server
// gives memory of the right place, else beside it, and they are copied when the work is done.
class RequestOutputs {
 public:
  // What an output asks for.
  struct Wish {
    MemoryPlace core;               // where the core writes
    MemoryPlace preferred;          // where it should end, if the reader has no other wish
    bool even_if_unwanted = false;  // the core needs room though the request does not ask for it
  };

  RequestOutputs(const Request& request, ResponseSink& sink,
                 const ExecutionContext& execution_context, bool batched) noexcept
      : request_(request),
        sink_(&sink),
        batched_(batched),
        host_(execution_context, {}),
        device_(execution_context, execution_context.memory()) {}

  // Adds an output of every item to the response if the request wants it. A GPU's memory that was
  // promised and not given counts as a spill. Throws as ResponseSink::AddOutput.
  void Add(const TensorSpec& spec, int64_t item_count, const Wish& wish, StageCounters& counters);
  // Reserves what is beside the response, after the last Add. Throws kOutOfMemory, kCuda.
  void Allocate();
  // The items of the n-th output that was added; absent ones where nobody wants it.
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
