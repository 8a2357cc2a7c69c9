#include "triton_util/tensor_contract.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "endcap/error.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

using Json = nlohmann::json;
using Dims = std::vector<int64_t>;

constexpr const char* kUnsetType = "TYPE_INVALID";

std::string SideName(TensorSide side) { return side == TensorSide::kInput ? "input" : "output"; }

std::string Text(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + "]";
}

std::string Text(const TensorContract& contract) {
  std::string text;
  for (const TensorForm& form : contract.forms) {
    text += (text.empty() ? "" : " or ") + form.data_type + " " + Text(form.dims);
  }
  return text;
}

bool Fits(const Dims& given, const Dims& expected) {
  return std::equal(given.begin(), given.end(), expected.begin(), expected.end(),
                    [](int64_t a, int64_t b) { return a == b || a == -1 || b == -1; });
}

// Returns the shape that the backend sees: `reshape` of the config replaces `dims`.
Dims ShapeInConfig(const Json& entry) {
  if (const auto reshape = entry.find("reshape"); reshape != entry.end()) {
    return reshape->value("shape", Dims{});
  }
  return entry.value("dims", Dims{});
}

bool FormFits(const TensorForm& form, const std::string& data_type, const Dims& shape,
              bool shape_given) {
  return (data_type == kUnsetType || data_type == form.data_type) &&
         (!shape_given || Fits(shape, form.dims));
}

void FillDims(Json& entry, const Dims& expected) {
  if (entry.contains("reshape")) return;
  Dims dims = entry.value("dims", Dims{});
  dims.resize(expected.size(), -1);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) dims[i] = expected[i];
  }
  entry["dims"] = dims;
}

void RejectLabels(const Json& entry, const TensorContract& contract) {
  if (contract.labels_belong_to.empty() || entry.value("label_filename", "").empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "output '" + contract.name +
                  "' has a label_filename in the config, but its elements are not in the order of "
                  "the classes: give the label_filename to output '" +
                  contract.labels_belong_to + "'");
}

void CompleteEntry(Json& entry, TensorSide side, const TensorContract& contract, bool complete) {
  const std::string data_type = entry.value("data_type", kUnsetType);
  const Dims shape = ShapeInConfig(entry);
  const bool shape_given = !shape.empty() || entry.contains("reshape");
  for (const TensorForm& form : contract.forms) {
    if (!FormFits(form, data_type, shape, shape_given)) continue;
    if (complete) {
      entry["data_type"] = form.data_type;
      FillDims(entry, form.dims);
    }
    return;
  }
  const std::string given = data_type == kUnsetType ? Text(shape) : data_type + " " + Text(shape);
  throw Error(ErrorCode::kInvalidArgument,
              SideName(side) + " '" + contract.name + "' is " + given + " in the config: give " +
                  Text(contract) +
                  (contract.determined_by.empty() ? "" : ", or change " + contract.determined_by));
}

Json NewEntry(TensorSide side, const TensorContract& contract) {
  Json entry{{"name", contract.name},
             {"data_type", contract.forms.front().data_type},
             {"dims", contract.forms.front().dims}};
  if (contract.forms.front().dims.empty()) {  // config.pbtxt needs at least one
    entry["dims"] = Dims{1};
    entry["reshape"]["shape"] = Dims{};
  }
  if (side == TensorSide::kInput && contract.optional) entry["optional"] = true;
  return entry;
}

void RequireInputs(const Json& list, std::span<const TensorContract> contracts) {
  for (const TensorContract& contract : contracts) {
    const bool listed = std::any_of(list.begin(), list.end(), [&](const Json& entry) {
      return entry.value("name", "") == contract.name;
    });
    if (listed || contract.optional) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        "input '" + contract.name + "' is missing in the config: add it as " + Text(contract));
  }
}

}  // namespace

TensorContract MakeContract(const TensorSpec& spec, std::string determined_by) {
  Dims dims(spec.shape.begin(), spec.shape.begin() + spec.rank);
  TensorContract contract;
  contract.name = spec.name;
  contract.forms = {{ConfigName(spec.dtype), std::move(dims)}};
  contract.determined_by = std::move(determined_by);
  return contract;
}

void CompleteTensorList(Json& list, TensorSide side, std::span<const TensorContract> contracts,
                        bool complete) {
  if (list.is_null()) list = Json::array();
  if (list.empty() && complete) {
    for (const TensorContract& contract : contracts) list.push_back(NewEntry(side, contract));
    return;
  }
  for (Json& entry : list) {
    const std::string name = entry.value("name", "");
    const auto contract = std::find_if(contracts.begin(), contracts.end(),
                                       [&](const TensorContract& c) { return c.name == name; });
    if (contract == contracts.end()) {
      std::string names;
      for (const TensorContract& c : contracts) names += (names.empty() ? "" : ", ") + c.name;
      throw Error(ErrorCode::kInvalidArgument, "the config has an " + SideName(side) + " '" + name +
                                                   "': this model's are " + names);
    }
    RejectLabels(entry, *contract);
    CompleteEntry(entry, side, *contract, complete);
  }
  if (side == TensorSide::kInput) RequireInputs(list, contracts);
}

}  // namespace endcap::triton
