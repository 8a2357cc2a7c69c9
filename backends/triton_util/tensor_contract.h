#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "endcap/tensor_view.h"

namespace endcap::triton {

// A data type and dims of a tensor in config.pbtxt, without the batch dimension; -1 for a dimension
// that is known at run time only.
struct TensorForm {
  std::string data_type;  // "TYPE_FP32"
  std::vector<int64_t> dims;
};

// The forms that a model's parameters allow for one of its tensors.
struct TensorContract {
  std::string name;
  std::vector<TensorForm> forms;  // the first one is the default
  bool optional = false;          // an input that a request, or the config, may omit
  std::string determined_by;      // the parameters that determine it: "num_classes=80"
  // For an output whose elements are not in class order, the one whose elements are. The server's
  // classification takes an element's index for its class, so label_filename is valid only there.
  std::string labels_belong_to;
};

TensorContract MakeContract(const TensorSpec& spec, std::string determined_by = {});

// A list of tensors in config.pbtxt.
enum class TensorSide { kInput, kOutput };

// Checks the `input` or `output` list of a model's config against the contracts. If `complete`, an
// absent list becomes all contracts, and missing data types, missing dims and dims of -1 are filled
// in from them. Outputs may be a subset. Throws kInvalidArgument with the name of the tensor, the
// form in the config and the forms that are allowed.
void CompleteTensorList(nlohmann::json& list, TensorSide side,
                        std::span<const TensorContract> contracts, bool complete);

}  // namespace endcap::triton
