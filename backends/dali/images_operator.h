#pragma once

#include <vector>

#include "core.h"
#include "image_arguments.h"
#include "stateless.h"

namespace endcap::operators {

// A batch of images -> images, geometry, status, for preprocess and resize_normalize. On the CPU
// each sample is a task of DALI's thread pool; on a GPU the batch is one call on the workspace's
// stream.
class ImagesOperator : public StatelessOperator {
 public:
  // on_gpu: whether the outputs are in memory of the pipeline's GPU. Throws for invalid parameters,
  // as the core does.
  ImagesOperator(const ::dali::OpSpec& spec, bool on_gpu);

  bool SetupImpl(std::vector<::dali::OutputDesc>& outputs, const ::dali::Workspace& ws) override;
  void RunImpl(::dali::Workspace& ws) override;

 protected:
  // Returns views of the batch's images. Throws for a type or dims that do not fit.
  virtual std::vector<endcap_image> ReadImages(const ::dali::Workspace& ws) const = 0;

 private:
  ::dali::TensorShape<> GetSampleShape(int sample, int count) const;
  void RunSamples(::dali::Workspace& ws, const std::vector<endcap_image>& images);
  void RunBatch(::dali::Workspace& ws, const std::vector<endcap_image>& images);
  SampleResult RunSample(const endcap_image& image, ::dali::Workspace& ws, int sample);

  PreprocessorHandle preprocessor_;
  endcap_tensor_spec default_tensor_ = {};  // of the parameters' size
  ImageArguments arguments_;
  bool on_gpu_;
  bool strict_;  // a bad image ends the pipeline
  ::dali::TensorLayout layout_;
  // Of the current batch: SetupImpl sets them for RunImpl.
  std::vector<ImageSize> sizes_;
  std::vector<ImageRois> rois_;
  std::vector<size_t> tensor_bytes_;
};

}  // namespace endcap::operators
