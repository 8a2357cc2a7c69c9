#include <memory>
#include <string>
#include <utility>

#include "common/fail.h"
#include "cuda_runtime/runtime.h"
#include "decode/planes.h"
#include "preprocess/cuda/context.h"
#include "preprocess/cuda/device_batch.h"
#include "preprocess/device.h"

namespace endcap {
namespace {

bool AllowsNvjpeg(const PreprocessParams& params) {
  return params.decode == DecodeMode::kFast && params.damaged == Damaged::kReject &&
         (params.jpeg_decoder == JpegDecoder::kAuto || params.jpeg_decoder == JpegDecoder::kNvjpeg);
}

class CudaPreprocess final : public PreprocessDevice {
 public:
  CudaPreprocess(const PreprocessParams& params, int device_id, int threads)
      : params_(params), device_id_(device_id), pool_(threads), contexts_(params, device_id) {
    std::string why_not;
    if (AllowsNvjpeg(params_)) nvjpeg_ = OpenNvjpeg(why_not);
    CheckJpegDecoder(params_.decode, params_.jpeg_decoder, nvjpeg_, why_not);
  }

  int threads() const noexcept override { return pool_.thread_count(); }

  std::vector<PreprocessItem> Run(std::span<const PreprocessInput> inputs, void* stream) override {
    RefuseCapture({device_id_, stream}, "preprocess");
    std::vector<size_t> refused;
    std::vector<PreprocessItem> items =
        RunBatch(nvjpeg_, static_cast<int>(inputs.size()), inputs, stream, refused);
    if (params_.jpeg_decoder == JpegDecoder::kAuto && !refused.empty()) {
      RunAgain(refused, inputs, stream, items);
    }
    return items;
  }

 private:
  // Whether nvJPEG can be used; the first context keeps what was opened.
  bool OpenNvjpeg(std::string& why_not) {
    std::unique_ptr<CudaPreprocessContext> context = contexts_.Take();
    try {
      context->nvjpeg();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCuda) throw;
      why_not = error.what();
    }
    contexts_.Return(std::move(context));
    return why_not.empty();
  }

  // `refused`: the images that the JPEG engine accepted and then failed to decode.
  std::vector<PreprocessItem> RunBatch(bool nvjpeg, int batch_size,
                                       std::span<const PreprocessInput> inputs, void* stream,
                                       std::vector<size_t>& refused) {
    DeviceBatch batch(params_, {device_id_, nvjpeg, batch_size}, pool_, inputs);
    batch.Open();
    std::unique_ptr<CudaPreprocessContext> context = contexts_.Take();
    context->Begin();
    batch.Upload(*context);
    std::vector<PreprocessItem> items = batch.Finish(context->plan());
    if (context->plan().image_count() > 0) context->Launch(stream);
    contexts_.Return(std::move(context));
    refused = batch.refused();
    return items;
  }

  // Only decoding showed that the JPEG engine does not take these files of `auto`: they are decoded
  // by CPU threads, in a batch of their own, whose tensors replace the blank ones.
  void RunAgain(const std::vector<size_t>& indices, std::span<const PreprocessInput> inputs,
                void* stream, std::vector<PreprocessItem>& items) {
    std::vector<PreprocessInput> again;
    again.reserve(indices.size());
    for (const size_t i : indices) again.push_back(inputs[i]);
    std::vector<size_t> refused;
    std::vector<PreprocessItem> results =
        RunBatch(/*nvjpeg=*/false, /*batch_size=*/1, again, stream, refused);
    for (size_t k = 0; k < indices.size(); ++k) items[indices[k]] = std::move(results[k]);
  }

  PreprocessParams params_;
  int device_id_;
  ThreadPool pool_;
  CudaContextPool contexts_;
  bool nvjpeg_ = false;
};

}  // namespace

std::unique_ptr<PreprocessDevice> MakeCudaPreprocess(const PreprocessParams& params, int device_id,
                                                     int threads) {
  RequireCuda(device_id);
  return std::make_unique<CudaPreprocess>(params, device_id, threads);
}

}  // namespace endcap
