#pragma once

#include <string>
#include <vector>

#include "c_api/sized_engines.h"
#include "endcap/c_api.h"

namespace endcap::c_api {

// Throws kInvalidArgument for a size that the parameters cannot have; 0, 0 is theirs.
TensorSize ReadSize(const PreprocessParams& params, int32_t height, int32_t width);

// Where one image's results go. Throws kInvalidArgument for what does not fit; `i` names the
// output.
PreprocessOutput ReadOutput(const SizedEngines& engines, const endcap_preprocess_output& output,
                            size_t i);

// Throws kInvalidArgument for a view that cannot be read at all; the core checks pixels and bytes.
ImageView ReadImage(const SizedEngines& engines, const endcap_image& image, size_t i);

// Runs images[i] into outputs[i], size by size; returns the items' messages. All arguments are
// checked before any work.
std::vector<std::string> RunBatch(SizedEngines& engines, std::span<const endcap_image> images,
                                  std::span<const endcap_preprocess_output> outputs, void* stream);

}  // namespace endcap::c_api
