#include "preprocess/cuda/context.h"

#include <utility>

#include "cuda_library/kernel_table.h"

namespace endcap {

CudaPreprocessContext::CudaPreprocessContext(const PreprocessParams& params, int device_id)
    : device_id_(device_id),
      host_images_(device_id),
      host_block_(device_id),
      device_images_(device_id),
      device_block_(device_id),
      upload_stream_(device_id),
      uploaded_(device_id),
      done_(device_id),
      plan_(params) {}

CudaPreprocessContext::~CudaPreprocessContext() {
  upload_stream_.WaitUnlessBroken();
  done_.WaitUnlessBroken();
}

void CudaPreprocessContext::Begin() {
  uploaded_.Wait();
  if (nvjpeg_ != nullptr) nvjpeg_->Wait();
  done_.OrderAfter(upload_stream_.get());
  plan_.Clear();
}

void CudaPreprocessContext::ReserveImages(size_t host_bytes, size_t device_bytes) {
  host_images_.Reserve(host_bytes);
  device_images_.Reserve(device_bytes, upload_stream_.get());
}

NvjpegSource& CudaPreprocessContext::nvjpeg() {
  if (nvjpeg_ == nullptr) nvjpeg_ = std::make_unique<NvjpegSource>(device_id_);
  return *nvjpeg_;
}

void CudaPreprocessContext::Upload(size_t offset, size_t bytes) const {
  CheckCuda(Cuda().copy(device_id_, device_images_.data() + offset, host_images_.data() + offset,
                        bytes, upload_stream_.get()));
}

void CudaPreprocessContext::Launch(void* stream) {
  const size_t bytes = plan_.block_bytes();
  host_block_.Reserve(bytes);
  device_block_.Reserve(bytes, upload_stream_.get());
  plan_.WriteBlock(host_block_.data());
  CheckCuda(Cuda().copy(device_id_, device_block_.data(), host_block_.data(), bytes,
                        upload_stream_.get()));
  uploaded_.Record(upload_stream_.get());
  uploaded_.OrderAfter(stream);
  if (nvjpeg_ != nullptr) nvjpeg_->OrderBefore(stream);
  const FusedLaunch launch = plan_.Launch(device_block_.data());
  const int32_t code = Kernels().preprocess(device_id_, &launch, stream);
  done_.Record(stream);  // also after a failure: a part may run
  CheckCuda(code);
}

std::unique_ptr<CudaPreprocessContext> CudaContextPool::Take() {
  constexpr int kMinContexts = 2;
  {
    const std::lock_guard lock(mutex_);
    if (made_ >= kMinContexts && !idle_.empty()) {
      std::unique_ptr<CudaPreprocessContext> context = std::move(idle_.front());
      idle_.pop_front();
      return context;
    }
    ++made_;
  }
  return std::make_unique<CudaPreprocessContext>(params_, device_id_);
}

void CudaContextPool::Return(std::unique_ptr<CudaPreprocessContext> context) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

}  // namespace endcap
