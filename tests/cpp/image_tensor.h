#pragma once

#include "endcap/preprocess.h"

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

}  // namespace endcap::testing
