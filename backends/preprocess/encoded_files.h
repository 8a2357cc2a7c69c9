#pragma once

#include <vector>

#include "triton_util/input_tensor.h"

namespace endcap::triton {

// The encoded files of a request's input `encoded`: one a BYTES element, or one a row of UINT8.
// Throws kInvalidArgument unless there is one for each item.
std::vector<Bytes> EncodedFiles(const InputTensor& encoded);

}  // namespace endcap::triton
