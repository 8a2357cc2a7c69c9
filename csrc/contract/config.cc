#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "endcap/contract.h"

namespace endcap {
namespace {

using Json = nlohmann::json;
using Dims = std::vector<int64_t>;

constexpr const char* kUnsetType = "TYPE_INVALID";

std::string Text(const Dims& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
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
  return std::ranges::equal(given, expected,
                            [](int64_t a, int64_t b) { return a == b || a == -1 || b == -1; });
}

// Returns the shape that the backend sees: `reshape` of the config replaces `dims`.
Dims ShapeInConfig(const Json& entry) {
  if (const auto reshape = entry.find("reshape"); reshape != entry.end()) {
    return reshape->value("shape", Dims{});
  }
  return entry.value("dims", Dims{});
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

// The `input` or `output` list of a config and its contracts.
struct TensorList {
  const char* side;
  Json& entries;
  const std::vector<TensorContract>& contracts;
  std::vector<ConfigProblem>& problems;

  void Complete(bool complete);

 private:
  void CompleteEntry(int index, const TensorContract& contract, bool complete);
  void Add(int index, const char* field, std::string message) {
    problems.push_back({side, index, field, std::move(message)});
  }
};

void TensorList::CompleteEntry(int index, const TensorContract& contract, bool complete) {
  Json& entry = entries[static_cast<size_t>(index)];
  if (!contract.labels_belong_to.empty() && !entry.value("label_filename", "").empty()) {
    Add(index, "label_filename",
        "output '" + contract.name +
            "' has a label_filename in the config, but its elements are not in the order of the "
            "classes: give the label_filename to output '" +
            contract.labels_belong_to + "'");
  }
  const std::string data_type = entry.value("data_type", kUnsetType);
  const Dims shape = ShapeInConfig(entry);
  const bool shape_given = !shape.empty() || entry.contains("reshape");
  bool type_fits = false;
  for (const TensorForm& form : contract.forms) {
    if (data_type != kUnsetType && data_type != form.data_type) continue;
    type_fits = true;
    if (shape_given && !Fits(shape, form.dims)) continue;
    if (complete) {
      entry["data_type"] = form.data_type;
      FillDims(entry, form.dims);
    }
    return;
  }
  const std::string given = (data_type == kUnsetType ? "" : data_type + " ") + Text(shape);
  Add(index, type_fits ? "dims" : "data_type",
      std::string(side) + " '" + contract.name + "' is " + given + " in the config: give " +
          Text(contract) +
          (contract.determined_by.empty() ? "" : ", or change " + contract.determined_by));
}

Json MakeEntry(const TensorContract& contract) {
  Json entry{{"name", contract.name},
             {"data_type", contract.forms.front().data_type},
             {"dims", contract.forms.front().dims}};
  if (contract.forms.front().dims.empty()) {  // config.pbtxt needs at least one
    entry["dims"] = Dims{1};
    entry["reshape"]["shape"] = Dims{};
  }
  if (contract.optional) entry["optional"] = true;
  return entry;
}

void TensorList::Complete(bool complete) {
  if (entries.is_null()) entries = Json::array();
  if (entries.empty() && complete) {
    for (const TensorContract& contract : contracts) entries.push_back(MakeEntry(contract));
    return;
  }
  std::string names;
  for (const TensorContract& each : contracts) names += (names.empty() ? "" : ", ") + each.name;
  for (int index = 0; std::cmp_less(index, entries.size()); ++index) {
    const std::string name = entries[static_cast<size_t>(index)].value("name", "");
    const auto contract = std::ranges::find(contracts, name, &TensorContract::name);
    if (contract == contracts.end()) {
      Add(index, "name",
          "the config has an " + std::string(side) + " '" + name + "': this model's are " + names);
    } else {
      CompleteEntry(index, *contract, complete);
    }
  }
  if (std::string_view(side) != "input") return;
  for (const TensorContract& contract : contracts) {
    const auto is_it = [&](const Json& entry) { return entry.value("name", "") == contract.name; };
    if (contract.optional || std::ranges::any_of(entries, is_it)) continue;
    Add(-1, "",
        "input '" + contract.name + "' is missing in the config: add it as " + Text(contract));
  }
}

void CheckModel(const Json& config, const ModelContract& contract,
                std::vector<ConfigProblem>& problems) {
  const int max_batch_size = config.value("max_batch_size", 0);
  if (!contract.takes_batches && max_batch_size > 0) {
    problems.push_back({"", -1, "max_batch_size",
                        "max_batch_size is " + std::to_string(max_batch_size) +
                            " in a config with input 'rois', tile or merge: images have different "
                            "numbers of regions, so their tensors have no shape in common; give "
                            "max_batch_size: 0"});
  }
  if (contract.takes_sequences && !config.contains("sequence_batching")) {
    problems.push_back({"", -1, "sequence_batching",
                        "the frames of a sequence have to come one after the other: add "
                        "sequence_batching { max_sequence_idle_microseconds: 10000000 oldest { "
                        "max_candidate_sequences: 1024 } } to config.pbtxt"});
  }
  // A cascade that called itself would wait until its own request leaves `max_in_flight`.
  for (const auto& [parameter, model] : contract.models) {
    if (model != config.value("name", "")) continue;
    problems.push_back({"parameters", -1, parameter,
                        parameter + " names '" + model +
                            "', which is this model, and a cascade cannot call itself: name "
                            "another model"});
  }
}

}  // namespace

bool ListsTensor(const Json& config, const char* list, std::string_view name) {
  const Json entries = config.value(list, Json::array());
  return std::ranges::any_of(entries,
                             [name](const Json& entry) { return entry.value("name", "") == name; });
}

std::vector<ConfigProblem> CompleteConfig(Json& config, const ModelContract& contract,
                                          bool complete) {
  std::vector<ConfigProblem> problems;
  CheckModel(config, contract, problems);
  TensorList{"input", config["input"], contract.inputs, problems}.Complete(complete);
  TensorList{"output", config["output"], contract.outputs, problems}.Complete(complete);
  return problems;
}

}  // namespace endcap
