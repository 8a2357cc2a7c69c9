// fn.endcap.nms: boxes and scores -> the indices of the kept boxes.
#include <algorithm>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core.h"
#include "dali/core/format.h"
#include "stateless.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using ::dali::GPUBackend;
using ::dali::TensorList;
using ::dali::TensorListShape;
using ::dali::Workspace;

constexpr int kBoxes = 0, kScores = 1, kClassIds = 2;

// Returns the double of the user's text; DALI stores the nearest float32.
double RestoreDouble(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double written = 0;
  std::from_chars(std::begin(text), end, written);
  return written;
}

// One image's arrays.
struct Candidates {
  const float* boxes = nullptr;        // [count][4]
  const float* scores = nullptr;       // [count]
  const int32_t* class_ids = nullptr;  // [count], or null
  size_t count = 0;
};

template <typename Backend>
Candidates ReadSample(const Workspace& ws, int sample) {
  const auto reject = [sample](const char* wanted) {
    throw std::invalid_argument(::dali::make_string("sample ", sample, ": give ", wanted));
  };
  const auto& boxes = ws.Input<Backend>(kBoxes);
  const auto& shape = boxes.tensor_shape(sample);
  if (boxes.type() != DALI_FLOAT || shape.size() != 2 || shape[1] != 4) {
    reject("boxes as float [N, 4], their x1, y1, x2, y2");
  }
  const auto& scores = ws.Input<Backend>(kScores);
  if (scores.type() != DALI_FLOAT || scores.tensor_shape(sample) != shape.first(1)) {
    reject("scores as float [N], one for each box");
  }
  Candidates candidates = {boxes.template tensor<float>(sample),
                           scores.template tensor<float>(sample), nullptr,
                           static_cast<size_t>(shape[0])};
  if (ws.NumInput() <= kClassIds) return candidates;
  const auto& class_ids = ws.Input<Backend>(kClassIds);
  if (class_ids.type() != DALI_INT32 || class_ids.tensor_shape(sample) != shape.first(1)) {
    reject("class_ids as int32 [N], one for each box");
  }
  candidates.class_ids = class_ids.template tensor<int32_t>(sample);
  return candidates;
}

class NmsOperator : public StatelessOperator {
 public:
  explicit NmsOperator(const ::dali::OpSpec& spec)
      : StatelessOperator(spec),
        iou_threshold_(RestoreDouble(spec.GetArgument<float>("iou_threshold"))),
        max_detections_(spec.GetArgument<int64_t>("max_detections")) {
    CheckVersion();
    // Rejects invalid arguments now instead of at the first batch.
    int64_t kept_count = 0;
    Check(endcap_nms(nullptr, nullptr, nullptr, 0, iou_threshold_, max_detections_, nullptr,
                     &kept_count));
  }

  // The number of kept boxes is known after the run only.
  bool SetupImpl(std::vector<::dali::OutputDesc>&, const Workspace&) override { return false; }

 protected:
  double iou_threshold_;
  int64_t max_detections_;
};

class NmsCpu : public NmsOperator {
 public:
  using NmsOperator::NmsOperator;

  void RunImpl(Workspace& ws) override {
    const int count = ws.GetInputBatchSize(kBoxes);
    // All are read before the first task is added, because tasks must not outlive their data.
    std::vector<Candidates> candidates(count);
    for (int i = 0; i < count; ++i) candidates[i] = ReadSample<CPUBackend>(ws, i);
    std::vector<std::vector<int64_t>> kept(count);
    std::vector<SampleResult> results(count);
    auto& pool = ws.GetThreadPool();
    for (int i = 0; i < count; ++i) {
      pool.AddWork([&, i](int) { results[i] = Run(candidates[i], kept[i]); },
                   static_cast<int64_t>(candidates[i].count));
    }
    pool.RunAll();
    CheckResults(results, true);
    TensorListShape<> shape(count, 1);
    for (int i = 0; i < count; ++i) {
      shape.set_tensor_shape(i, {static_cast<int64_t>(kept[i].size())});
    }
    auto& output = ws.Output<CPUBackend>(0);
    output.Resize(shape, DALI_INT64);
    for (int i = 0; i < count; ++i) {
      std::copy(kept[i].begin(), kept[i].end(), output.mutable_tensor<int64_t>(i));
    }
  }

 private:
  SampleResult Run(const Candidates& c, std::vector<int64_t>& kept) const {
    kept.resize(c.count);
    int64_t kept_count = 0;
    const endcap_status call = endcap_nms(c.boxes, c.scores, c.class_ids, c.count, iou_threshold_,
                                          max_detections_, kept.data(), &kept_count);
    kept.resize(static_cast<size_t>(kept_count));
    return {call, 0, call != 0 ? endcap_last_error() : ""};
  }
};

class NmsGpu : public NmsOperator {
 public:
  explicit NmsGpu(const ::dali::OpSpec& spec)
      : NmsOperator(spec), device_(spec.GetArgument<int>("device_id")) {}

  void RunImpl(Workspace& ws) override {
    const int count = ws.GetInputBatchSize(kBoxes);
    TensorList<GPUBackend> kept;  // one for each box
    kept.set_order(ws.stream());
    kept.Resize(ws.GetInputShape(kScores), DALI_INT64);
    TensorList<GPUBackend> counts_on_gpu;
    counts_on_gpu.set_order(ws.stream());
    counts_on_gpu.Resize(::dali::uniform_list_shape(count, {1}), DALI_INT64);
    for (int i = 0; i < count; ++i) {
      const Candidates c = ReadSample<GPUBackend>(ws, i);
      Check(endcap_nms_cuda(c.boxes, c.scores, c.class_ids, c.count, iou_threshold_,
                            max_detections_, device_, ws.stream(), kept.mutable_tensor<int64_t>(i),
                            counts_on_gpu.mutable_tensor<int64_t>(i)));
    }
    TensorList<CPUBackend> counts;
    counts.Copy(counts_on_gpu, ws.stream());
    ::dali::AccessOrder::host().wait(ws.stream());
    ws.Output<GPUBackend>(0).Copy(Truncate(kept, counts), ws.stream());
  }

 private:
  // Returns the first counts[i] values of each sample, in the same memory.
  static TensorList<GPUBackend> Truncate(TensorList<GPUBackend>& samples,
                                         const TensorList<CPUBackend>& counts) {
    TensorList<GPUBackend> cut(samples.num_samples());
    cut.set_pinned(samples.is_pinned());
    cut.set_device_id(samples.device_id());
    cut.set_order(samples.order());
    cut.set_type(DALI_INT64);
    for (int i = 0; i < samples.num_samples(); ++i) {
      const int64_t count = counts.tensor<int64_t>(i)[0];
      if (count < 0) {
        FailItem(kInvalidArgumentStatus, i, samples.num_samples(), "a score is NaN: give numbers");
      }
      const std::shared_ptr<void> memory(std::shared_ptr<void>(), samples.raw_mutable_tensor(i));
      cut.SetSample(i, memory, count * sizeof(int64_t), samples.is_pinned(), {count}, DALI_INT64,
                    samples.device_id(), samples.order());
    }
    return cut;
  }

  int device_;
};

}  // namespace

DALI_REGISTER_OPERATOR(endcap__Nms, NmsCpu, ::dali::CPU);
DALI_REGISTER_OPERATOR(endcap__Nms, NmsGpu, ::dali::GPU);

DALI_SCHEMA(endcap__Nms)
    .DocStr(R"(Exact greedy non-maximum suppression of each sample's boxes, as ``endcap.nms``.

A box goes when its IoU with a kept box is greater than the threshold; equal scores go to the lower
index. With ``class_ids`` only boxes of one class suppress each other, as ``endcap.batched_nms``.

Returns int64 [K], the indices of the kept boxes, best score first. On the GPU the call waits, to
learn K.)")
    .NumInput(2, 3)
    .NumOutput(1)
    .InputDox(0, "boxes", "TensorList of float", "[N, 4] = x1, y1, x2, y2, any unit.")
    .InputDox(1, "scores", "TensorList of float", "[N].")
    .InputDox(2, "class_ids", "TensorList of int32", "[N].")
    .AddOptionalArg("iou_threshold", "a number from 0 to 1", 0.7F)
    .AddOptionalArg<int64_t>("max_detections", "at most that many are kept; -1 for all", -1)
    .MakeStateless();

}  // namespace endcap::operators
