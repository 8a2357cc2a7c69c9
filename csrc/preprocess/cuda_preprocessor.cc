#include <memory>
#include <string>
#include <utility>

#include "common/fail.h"
#include "cuda/runtime.h"
#include "decode/jpeg_decoder_choice.h"
#include "endcap/preprocess.h"
#include "preprocess/cuda_batch.h"
#include "preprocess/cuda_context.h"
#include "preprocess/cuda_roi_batch.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/roi_targets.h"

namespace endcap {
namespace {

bool AllowsNvjpeg(const PreprocessParams& params) {
  return params.decode == DecodeMode::kFast &&
         (params.jpeg_decoder == JpegDecoder::kAuto || params.jpeg_decoder == JpegDecoder::kNvjpeg);
}

}  // namespace

struct CudaPreprocessor::Engine {
  Engine(const PreprocessParams& checked_params, int id, int threads)
      : params(checked_params), device_id(id), pool(threads), contexts(checked_params, id) {
    std::string why_not;
    if (AllowsNvjpeg(params)) nvjpeg = OpenNvjpeg(why_not);
    CheckJpegDecoder(params.decode, params.jpeg_decoder, nvjpeg, why_not);
  }

  // Whether nvJPEG can be used; the first context keeps what was opened.
  bool OpenNvjpeg(std::string& why_not) {
    std::unique_ptr<CudaPreprocessContext> context = contexts.Take();
    try {
      context->nvjpeg();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCuda) throw;
      why_not = error.what();
    }
    contexts.Return(std::move(context));
    return why_not.empty();
  }

  void CheckOutput(const TensorView& view, size_t item) const {
    CheckOutputShape(params, view, item);
    if (view.device != Device::kCuda || view.device_id != device_id) {
      FailArgument("output ", item, " is not memory of device cuda:", device_id);
    }
  }

  // `refused`: the images that the JPEG engine accepted and then failed to decode.
  std::vector<PreprocessItem> RunBatch(const CudaImage::DecodeContext& decode_context,
                                       std::span<const ImageView> images,
                                       std::span<const PreprocessOutput> outputs, void* stream,
                                       std::vector<size_t>& refused) {
    CudaBatch batch(params, decode_context, pool, images, outputs);
    batch.Open();
    std::unique_ptr<CudaPreprocessContext> context = contexts.Take();
    context->Begin();
    batch.Upload(*context);
    std::vector<PreprocessItem> items = batch.Finish(context->plan());
    context->Launch(stream);
    contexts.Return(std::move(context));
    refused = batch.refused();
    return items;
  }

  void CheckRois(const RoiImage& image) const {
    if (image.rois.size() != image.outputs.size()) {
      FailArgument(image.rois.size(), " rois came with ", image.outputs.size(), " outputs");
    }
    CheckRoiTensors(params, static_cast<int64_t>(image.rois.size()));
    if (!WantsTensors(image)) return;
    for (size_t i = 0; i < image.outputs.size(); ++i) CheckOutput(image.outputs[i].image, i);
  }

  std::vector<RoiItem> RunRois(std::span<const RoiImage> images, void* stream) {
    CudaRoiBatch batch(params, device_id, pool, images);
    batch.Open();
    std::unique_ptr<CudaPreprocessContext> context = contexts.Take();
    context->Begin();
    batch.Upload(*context);
    std::vector<RoiItem> items = batch.Finish(*context);
    if (context->plan().image_count() > 0) context->Launch(stream);
    contexts.Return(std::move(context));
    return items;
  }

  // Only decoding showed that the JPEG engine does not take these files of `auto`: they are decoded
  // by CPU threads, in a batch of their own, whose tensors replace the blank ones.
  void RunAgain(const std::vector<size_t>& indices, std::span<const ImageView> images,
                std::span<const PreprocessOutput> outputs, void* stream,
                std::vector<PreprocessItem>& items) {
    std::vector<ImageView> views;
    std::vector<PreprocessOutput> places;
    for (const size_t i : indices) {
      views.push_back(images[i]);
      places.push_back(outputs[i]);
    }
    std::vector<size_t> refused;
    std::vector<PreprocessItem> again =
        RunBatch({device_id, /*nvjpeg=*/false, 1}, views, places, stream, refused);
    for (size_t k = 0; k < indices.size(); ++k) items[indices[k]] = std::move(again[k]);
  }

  PreprocessParams params;
  int device_id;
  ThreadPool pool;
  CudaContextPool contexts;
  bool nvjpeg = false;
};

CudaPreprocessor::CudaPreprocessor(const PreprocessParams& params, int device_id, int threads) {
  Validate(params);
  RequireCuda(device_id);
  engine_ = std::make_unique<Engine>(params, device_id, threads);
}

CudaPreprocessor::~CudaPreprocessor() = default;

const PreprocessParams& CudaPreprocessor::params() const noexcept { return engine_->params; }
int CudaPreprocessor::threads() const noexcept { return engine_->pool.thread_count(); }
int CudaPreprocessor::device_id() const noexcept { return engine_->device_id; }

std::vector<PreprocessItem> CudaPreprocessor::Run(std::span<const ImageView> images,
                                                  std::span<const PreprocessOutput> outputs,
                                                  void* stream) {
  if (images.size() != outputs.size()) {
    FailArgument(images.size(), " images came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) engine_->CheckOutput(outputs[i].image, i);
  if (images.empty()) return {};
  RefuseCapture({engine_->device_id, stream}, "preprocess");

  const auto batch_size = static_cast<int>(images.size());
  std::vector<size_t> refused;
  std::vector<PreprocessItem> items = engine_->RunBatch(
      {engine_->device_id, engine_->nvjpeg, batch_size}, images, outputs, stream, refused);
  if (engine_->params.jpeg_decoder == JpegDecoder::kAuto && !refused.empty()) {
    engine_->RunAgain(refused, images, outputs, stream, items);
  }
  return items;
}

std::vector<RoiItem> CudaPreprocessor::RunRois(std::span<const RoiImage> images, void* stream) {
  for (const RoiImage& image : images) engine_->CheckRois(image);
  if (images.empty()) return {};
  RefuseCapture({engine_->device_id, stream}, "preprocess");
  return engine_->RunRois(images, stream);
}

}  // namespace endcap
