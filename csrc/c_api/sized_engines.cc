#include "c_api/sized_engines.h"

#include <algorithm>

#include "common/fail.h"
#include "endcap/c_api.h"

namespace endcap::c_api {

namespace {

TensorSize GetSize(const std::shared_ptr<Preprocessor>& preprocessor) {
  return {preprocessor->params().height, preprocessor->params().width};
}

}  // namespace

SizedEngines::SizedEngines(const PreprocessParams& params, int32_t device, int threads)
    : params_(params),
      device_(device == ENDCAP_CPU ? DeviceId{} : DeviceId{Device::kCuda, device}),
      threads_(threads),
      own_(std::make_shared<Preprocessor>(params, device_, threads)) {}

PreprocessParams SizedEngines::MakeParams(TensorSize size) const {
  PreprocessParams params = params_;
  params.height = size.height;
  params.width = size.width;
  Validate(params);
  return params;
}

std::shared_ptr<Preprocessor> SizedEngines::Get(TensorSize size) {
  if (size == GetSize(own_)) return own_;
  // What is dropped waits for its work on a GPU, which others need not do.
  std::shared_ptr<Preprocessor> dropped;
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(recent_, size, GetSize);
  if (known != recent_.end()) {
    std::rotate(known, known + 1, recent_.end());
    return recent_.back();
  }
  recent_.push_back(std::make_shared<Preprocessor>(MakeParams(size), device_, threads_));
  if (recent_.size() > kKept) {
    dropped = std::move(recent_.front());
    recent_.erase(recent_.begin());
  }
  return recent_.back();
}

}  // namespace endcap::c_api
