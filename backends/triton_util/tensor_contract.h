#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "endcap/tensor_view.h"

namespace endcap::triton {

// One form that a model's tensor may take in config.pbtxt; dims without the batch dimension, -1 for
// a dimension known at run time only.
struct TensorForm {
  std::string data_type;  // "TYPE_FP32"
  std::vector<int64_t> dims;
};

// What the parameters of a model ask of one of its tensors.
struct TensorContract {
  std::string name;
  std::vector<TensorForm> forms;  // the first one is the default
  bool optional = false;          // an input that a request, or the config, may leave out
  std::string determined_by;      // the parameters behind it, for messages: "num_classes=80"
  // An output that is not in class order names here the one that is: the server's classification
  // takes an element's place for its class, so that only there a label_filename tells the truth.
  std::string labels_belong_to;
};

TensorContract MakeContract(const TensorSpec& spec, std::string determined_by = {});

// Which list of config.pbtxt is meant.
enum class TensorSide { kInput, kOutput };

// Holds the `input` or `output` list of a model's config to the contracts. An absent list becomes
// all of them, and a missing data_type, missing dims and dims of -1 are filled in where the
// contracts know them, if `complete` is true; what the config does give must fit. Outputs may be a
// subset. Throws kInvalidArgument with an error message that names the tensor, what the config says
// and what the parameters ask for.
void Settle(nlohmann::json& list, TensorSide side, std::span<const TensorContract> contracts,
            bool complete);

}  // namespace endcap::triton
