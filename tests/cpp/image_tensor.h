#pragma once

#include <array>
#include <vector>

#include "endcap/preprocess.h"
#include "jpeg_writer.h"

namespace endcap::testing {

// A view of one image's tensor at `data`.
inline TensorView ImageTensor(const PreprocessParams& params, void* data,
                              Device device = Device::kCpu) {
  const TensorSpec spec = PreprocessOutputs(params)[0];
  TensorView view;
  view.data = data;
  view.dtype = spec.dtype;
  view.shape = spec.shape;
  view.rank = spec.rank;
  view.device = device;
  return view;
}

// What a run leaves behind, each tensor in memory of exactly its size.
struct Results {
  std::vector<Bytes> tensors;
  std::vector<std::array<float, 8>> geometry;
  std::vector<int32_t> status;
  std::vector<PreprocessItem> items;

  explicit Results(size_t count) : tensors(count), geometry(count), status(count, -1) {}

  // Outputs of a run that writes here; without tensors unless they are wanted.
  std::vector<PreprocessOutput> Outputs(const PreprocessParams& params, bool wants_tensors = true) {
    std::vector<PreprocessOutput> outputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      TensorView view = ImageTensor(params, nullptr);
      if (wants_tensors) {
        tensors[i].assign(view.size_bytes(), 0xEE);
        view.data = tensors[i].data();
      }
      outputs.push_back({view, geometry[i].data(), &status[i], static_cast<int>(i)});
    }
    return outputs;
  }
};

inline Results Preprocess(Preprocessor& preprocessor, const std::vector<ImageView>& images,
                          bool wants_tensors = true) {
  Results results(images.size());
  results.items = preprocessor.Run(images, results.Outputs(preprocessor.params(), wants_tensors));
  return results;
}

inline Results OnCpu(const PreprocessParams& params, const std::vector<ImageView>& images) {
  Preprocessor preprocessor(params, 2);
  return Preprocess(preprocessor, images);
}

}  // namespace endcap::testing
