#include "c_api/sized_engines.h"

#include <algorithm>

#include "common/fail.h"
#include "endcap/c_api.h"

namespace endcap::c_api {

PreprocessEngine::PreprocessEngine(const PreprocessParams& params, int32_t device, int threads)
    : size_{params.height, params.width} {
  if (device == ENDCAP_CPU) {
    cpu_ = std::make_unique<Preprocessor>(params, threads);
  } else {
    cuda_ = std::make_unique<CudaPreprocessor>(params, device, threads);
  }
}

std::vector<PreprocessItem> PreprocessEngine::Run(std::span<const ImageView> images,
                                                  std::span<const PreprocessOutput> outputs,
                                                  void* stream) {
  return cpu_ ? cpu_->Run(images, outputs) : cuda_->Run(images, outputs, stream);
}

RoiItem PreprocessEngine::RunRois(const RoiImage& image) {
  if (!cpu_) {
    Fail(ErrorCode::kUnsupported,
         "rois are cut out by the CPU only: make the preprocessor with device ", ENDCAP_CPU);
  }
  return std::move(cpu_->RunRois({&image, 1}).front());
}

SizedEngines::SizedEngines(const PreprocessParams& params, int32_t device, int threads)
    : params_(params),
      device_(device),
      threads_(threads),
      own_(std::make_shared<PreprocessEngine>(params, device, threads)) {}

PreprocessParams SizedEngines::MakeParams(TensorSize size) const {
  PreprocessParams params = params_;
  params.height = size.height;
  params.width = size.width;
  Validate(params);
  return params;
}

std::shared_ptr<PreprocessEngine> SizedEngines::Of(TensorSize size) {
  if (size == own_->size()) return own_;
  // What is dropped waits for its work on a GPU, which others need not do.
  std::shared_ptr<PreprocessEngine> dropped;
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(recent_, size, &PreprocessEngine::size);
  if (known != recent_.end()) {
    std::rotate(known, known + 1, recent_.end());
    return recent_.back();
  }
  recent_.push_back(std::make_shared<PreprocessEngine>(MakeParams(size), device_, threads_));
  if (recent_.size() > kKept) {
    dropped = std::move(recent_.front());
    recent_.erase(recent_.begin());
  }
  return recent_.back();
}

}  // namespace endcap::c_api
