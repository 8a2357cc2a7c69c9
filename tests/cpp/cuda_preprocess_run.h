#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

// The same images on the CPU and on the emulated GPU.

namespace endcap::testing {

// Before the library is looked for, which happens once a process.
inline const bool kLibraryIsNamed = setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, 1) == 0;

inline constexpr DeviceId kGpu{Device::kCuda, 0};

// A run whose tensors may not be complete yet.
class CudaRun {
 public:
  CudaRun(Preprocessor& preprocessor, const std::vector<ImageView>& images, void* stream)
      : target_{0, stream}, results_(images.size()) {
    std::vector<PreprocessOutput> outputs;
    for (size_t i = 0; i < images.size(); ++i) {
      TensorView view = ImageTensor(preprocessor.params(), nullptr, Device::kCuda);
      results_.tensors[i].resize(view.size_bytes());
      memory_.push_back(AllocateCuda(view.size_bytes(), target_));
      view.data = memory_.back().get();
      outputs.push_back(
          {view, results_.geometry[i].data(), &results_.status[i], static_cast<int>(i)});
    }
    results_.items = preprocessor.Run(images, outputs, stream);
  }

  Results Fetch() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      CopyCuda(results_.tensors[i].data(), memory_[i].get(), results_.tensors[i].size(), target_);
    }
    SynchronizeCuda(target_);
    return results_;
  }

 private:
  CudaTarget target_;
  Results results_;
  std::vector<std::shared_ptr<void>> memory_;
};

inline Results OnGpu(const PreprocessParams& params, const std::vector<ImageView>& images) {
  Preprocessor preprocessor(params, kGpu, 2);
  return CudaRun(preprocessor, images, nullptr).Fetch();
}

inline void ExpectSame(const Results& results, const Results& expected) {
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    EXPECT_TRUE(results.tensors[i] == expected.tensors[i]) << "tensor " << i;
    EXPECT_EQ(results.geometry[i], expected.geometry[i]) << "geometry " << i;
    EXPECT_EQ(results.status[i], expected.status[i]) << "status " << i;
    EXPECT_EQ(results.items[i].status.code, expected.items[i].status.code);
    EXPECT_EQ(results.items[i].status.message, expected.items[i].status.message);
  }
}

inline PreprocessParams Sized(int height, int width) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  return params;
}

class PreprocessOnGpu : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(DescribeCuda().available) << DescribeCuda().reason; }
};

}  // namespace endcap::testing
