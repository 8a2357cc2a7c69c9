// The C functions as a C program calls them: parameters, images, regions, heads and boxes of any
// kind, in memory of exactly the sizes that are told. What a call says has to fit its status.

#include "endcap/c_api.h"

#include <cmath>

#include "agreement.h"

namespace endcap::fuzz {
namespace {

constexpr endcap_status kLastStatus = static_cast<endcap_status>(ErrorCode::kInternal);
constexpr auto kInvalid = static_cast<endcap_status>(ErrorCode::kInvalidArgument);

// No call may report a defect of the library.
void CheckStatus(endcap_status status, const char* call) {
  Require(status >= 0 && status < kLastStatus, call, " returns ", status, ": ",
          endcap_last_error());
  Require(status == 0 || endcap_last_error()[0] != '\0', call, " fails without a message");
  Require(std::string_view(endcap_status_name(status)) != "unknown", call, " returns ", status);
}

void CheckItem(size_t i, int32_t status) {
  Require(status >= 0 && status < kLastStatus, "item ", i, " has status ", status, ": ",
          endcap_item_error(i));
  Require((status == 0) == (endcap_item_error(i)[0] == '\0'), "item ", i, " has status ", status,
          " and the message '", endcap_item_error(i), "'");
}

class Parameters {
 public:
  void Add(std::string name, std::string value) {
    texts_.emplace_back(std::move(name), std::move(value));
  }
  const std::vector<endcap_parameter>& rows() {
    rows_.clear();
    for (const auto& [name, value] : texts_) rows_.push_back({name.c_str(), value.c_str()});
    return rows_;
  }

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<endcap_parameter> rows_;
};

// One row of a table with a value of its own kind, or any text.
void AddAny(FuzzInput& input, const endcap_parameter_info* table, size_t count,
            Parameters& parameters) {
  const endcap_parameter_info& row = table[input.Size(count - 1)];
  const std::string allowed = row.allowed;
  std::string value = row.value;
  if (input.Bool()) {
    value = allowed.starts_with("one of ") ? allowed.substr(allowed.rfind(' ') + 1)
                                           : std::to_string(input.Integer(-1, 60));
  }
  if (input.Happens(16)) value = input.Text();
  parameters.Add(row.name, value);
}

struct Results {
  std::vector<uint8_t> tensor;
  std::array<float, 8> geometry{};
  int32_t status = -1;
};

endcap_preprocess_output MakeOutput(FuzzInput& input, const endcap_preprocessor* preprocessor,
                                    Results& results) {
  endcap_preprocess_output output = {};
  if (input.Happens(32)) {
    output.height = input.Int(-1, 40);
    output.width = input.Int(-1, 40);
  }
  endcap_tensor_spec spec = {};
  size_t bytes = 16;
  if (endcap_preprocessor_tensor(preprocessor, output.height, output.width, &spec) == 0) {
    constexpr std::array<size_t, 5> kSizes = {1, 1, 4, 2, 4};
    bytes = kSizes[static_cast<size_t>(spec.dtype)];
    for (int i = 0; i < spec.rank; ++i) bytes *= static_cast<size_t>(spec.shape[i]);
  }
  if (input.Happens(8)) bytes = input.Size(64);
  results.tensor.resize(std::min<size_t>(bytes, 1 << 20));
  output.tensor = input.Happens(4) ? nullptr : results.tensor.data();
  output.tensor_bytes = results.tensor.size();
  output.geometry = input.Happens(16) ? nullptr : results.geometry.data();
  output.status = input.Happens(16) ? nullptr : &results.status;
  output.source_index = input.Int(0, 3);
  return output;
}

// Encoded bytes, or pixels in memory of the size that width, height and stride tell.
endcap_image MakeImage(FuzzInput& input, std::vector<uint8_t>& memory) {
  endcap_image image = {};
  image.format = input.Happens(8) ? input.Int(-1, 5) : input.Int(ENDCAP_ENCODED, ENDCAP_GRAY);
  image.on_gpu = input.Happens(4) ? 1 : 0;
  if (image.format == ENDCAP_ENCODED) {
    memory = input.Bytes(2048);
    image.size_bytes = memory.size();
  } else {
    image.width = input.Int(-1, 40);
    image.height = input.Int(-1, 40);
    const int row_bytes = std::max(image.width, 0) * (image.format == ENDCAP_GRAY ? 1 : 3);
    image.row_stride_bytes = row_bytes + input.Int(0, 2);
    const int rows = std::max(image.height, 0);
    memory.resize(rows == 0 ? 0
                            : static_cast<size_t>(image.row_stride_bytes) *
                                      static_cast<size_t>(rows - 1) +
                                  static_cast<size_t>(row_bytes));
    Noise(input.Byte()).Fill(memory);
  }
  image.data = input.Happens(4) ? nullptr : memory.data();
  return image;
}

void RunPreprocessor(FuzzInput& input, endcap_preprocessor* preprocessor) {
  const size_t count = input.Size(3);
  std::vector<std::vector<uint8_t>> memory(count);
  std::vector<Results> results(count);
  std::vector<endcap_image> images;
  std::vector<endcap_preprocess_output> outputs;
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back(MakeOutput(input, preprocessor, results[i]));
    images.push_back(MakeImage(input, memory[i]));
  }
  const endcap_status status =
      endcap_preprocessor_run(preprocessor, images.data(), outputs.data(), count, nullptr);
  CheckStatus(status, "endcap_preprocessor_run");
  if (status != 0) return;
  for (size_t i = 0; i < count; ++i) {
    if (outputs[i].status != nullptr) CheckItem(i, results[i].status);
  }
}

void RunRegions(FuzzInput& input, endcap_preprocessor* preprocessor) {
  const size_t count = input.Size(3);
  std::vector<Results> results(count);
  std::vector<endcap_preprocess_output> outputs;
  std::vector<float> rois;
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back(MakeOutput(input, preprocessor, results[i]));
    for (int edge = 0; edge < 4; ++edge) {
      rois.push_back(static_cast<float>(input.Number(-8.0, 72.0)));
    }
  }
  if (input.Happens(32)) Disturb(input, rois);
  std::vector<uint8_t> memory;
  const endcap_image image = MakeImage(input, memory);
  int32_t image_status = -1;
  const endcap_status status = endcap_preprocessor_run_rois(preprocessor, &image, rois.data(),
                                                            outputs.data(), count, &image_status);
  CheckStatus(status, "endcap_preprocessor_run_rois");
  if (status != 0) return;
  CheckItem(count, image_status);
  for (size_t i = 0; i < count; ++i) {
    if (outputs[i].status != nullptr) CheckItem(i, results[i].status);
  }
}

void Preprocess(FuzzInput& input) {
  const endcap_parameter_info* table = nullptr;
  size_t count = 0;
  CheckStatus(endcap_preprocess_parameters(&table, &count), "endcap_preprocess_parameters");
  Parameters parameters;
  const int own = input.Int(0, 5);
  for (int i = 0; i < own; ++i) AddAny(input, table, count, parameters);
  parameters.Add("size", std::to_string(input.Int(1, 40)) + "," + std::to_string(input.Int(1, 40)));
  parameters.Add("resize_shorter", std::to_string(input.Int(20, 60)));
  parameters.Add("max_pixels", "4096");
  parameters.Add("max_side", "256");
  parameters.Add("max_scans", "16");
  const auto& rows = parameters.rows();
  endcap_preprocessor* preprocessor = nullptr;
  const int32_t device = input.Happens(4) ? -2 : ENDCAP_CPU;
  const endcap_status status =
      endcap_preprocessor_new(rows.data(), rows.size(), device, 1, &preprocessor);
  CheckStatus(status, "endcap_preprocessor_new");
  Require((status == 0) == (preprocessor != nullptr), "a handle came with status ", status);
  if (status != 0) return;
  CheckStatus(endcap_preprocessor_check_rois(preprocessor, input.Word(3)),
              "endcap_preprocessor_check_rois");
  if (input.Bool()) {
    RunPreprocessor(input, preprocessor);
  } else {
    RunRegions(input, preprocessor);
  }
  endcap_preprocessor_free(preprocessor);
}

// A tensor with the shape of a row of a table, or almost, in memory of exactly its size.
endcap_tensor MakeTensor(FuzzInput& input, const endcap_tensor_spec& spec,
                         std::vector<uint8_t>& memory) {
  endcap_tensor tensor = {};
  tensor.dtype = input.Happens(4) ? input.Int(-1, 5) : spec.dtype;
  tensor.rank = input.Happens(4) ? input.Int(-1, 5) : spec.rank;
  tensor.on_gpu = input.Happens(2) ? 1 : 0;
  constexpr std::array<size_t, 7> kSizes = {1, 1, 1, 4, 2, 4, 1};  // from dtype -1 on
  size_t bytes = kSizes[static_cast<size_t>(tensor.dtype + 1)];
  for (int i = 0; i < ENDCAP_MAX_RANK; ++i) {
    tensor.shape[i] = spec.shape[i] < 0 ? input.Int(0, 30) : spec.shape[i];
    if (input.Happens(2)) tensor.shape[i] = input.Integer(-1, 40);
    if (i < tensor.rank) bytes *= static_cast<size_t>(std::max<int64_t>(tensor.shape[i], 0));
  }
  memory.resize(std::min<size_t>(bytes, 1 << 20));
  Noise noise(input.Byte());
  for (size_t i = 0; i + 4 <= memory.size(); i += 4) {
    const float number = noise.Number(0.0, input.empty() ? 1.0 : 30.0, 255);
    std::memcpy(memory.data() + i, &number, sizeof(number));
  }
  // A shape that promises more than there is would be the caller's mistake.
  if (bytes > memory.size()) tensor.shape[0] = -1;
  tensor.data = input.Happens(4) ? nullptr : memory.data();
  return tensor;
}

std::vector<endcap_tensor> MakeTensors(FuzzInput& input, const endcap_tensor_spec* rows,
                                       size_t count, std::vector<std::vector<uint8_t>>& memory) {
  std::vector<endcap_tensor> tensors;
  memory.resize(count);
  for (size_t i = 0; i < count; ++i) tensors.push_back(MakeTensor(input, rows[i], memory[i]));
  return tensors;
}

void RunPostprocessor(FuzzInput& input, endcap_postprocessor* postprocessor) {
  const endcap_tensor_spec* heads = nullptr;
  const endcap_tensor_spec* outputs = nullptr;
  size_t head_count = 0;
  size_t output_count = 0;
  CheckStatus(endcap_postprocessor_inputs(postprocessor, &heads, &head_count), "inputs");
  CheckStatus(endcap_postprocessor_outputs(postprocessor, &outputs, &output_count), "outputs");
  std::vector<std::vector<uint8_t>> head_memory;
  std::vector<std::vector<uint8_t>> output_memory;
  const auto head = MakeTensors(input, heads, head_count, head_memory);
  const auto output = MakeTensors(input, outputs, output_count, output_memory);
  std::array<float, 8> geometry = {1, 1, 0, 0, 64, 48, 1, 0};
  if (input.Happens(32)) Disturb(input, std::span(geometry).first(4));
  endcap_postprocess_item item = {};
  item.head = input.Happens(4) ? nullptr : head.data();
  item.outputs = input.Happens(4) ? nullptr : output.data();
  item.geometry = input.Bool() ? geometry.data() : nullptr;
  item.geometry_on_gpu = input.Happens(4) ? 1 : 0;
  item.status = input.Happens(8) ? input.Int(-1, 9) : 0;
  const endcap_status status =
      endcap_postprocessor_run(postprocessor, &item, input.Happens(8) ? 0 : 1, nullptr, 1);
  CheckStatus(status, "endcap_postprocessor_run");
}

void Postprocess(FuzzInput& input) {
  const endcap_parameter_info* table = nullptr;
  size_t count = 0;
  CheckStatus(endcap_postprocess_parameters(&table, &count), "endcap_postprocess_parameters");
  Parameters parameters;
  parameters.Add("num_classes", std::to_string(input.Int(1, 8)));
  parameters.Add("max_detections", std::to_string(input.Int(1, 12)));
  parameters.Add("prototype_size", std::to_string(input.Int(1, 12)));
  parameters.Add("input_size", std::to_string(input.Int(1, 48)));
  const std::string families = table[0].allowed;  // "one of yolov5, yolov8, ..."
  size_t begin = families.find("of ") + 3;
  for (int skip = input.Int(0, 9); skip > 0; --skip) {
    const size_t comma = families.find(", ", begin);
    if (comma != std::string::npos) begin = comma + 2;
  }
  parameters.Add("head", families.substr(begin, families.find(',', begin) - begin));
  const int own = input.Int(0, 4);
  for (int i = 0; i < own; ++i) AddAny(input, table, count, parameters);
  const auto& rows = parameters.rows();
  endcap_postprocessor* postprocessor = nullptr;
  const endcap_status status =
      endcap_postprocessor_new(rows.data(), rows.size(), ENDCAP_CPU, 1, &postprocessor);
  CheckStatus(status, "endcap_postprocessor_new");
  Require((status == 0) == (postprocessor != nullptr), "a handle came with status ", status);
  if (status != 0) return;
  RunPostprocessor(input, postprocessor);
  endcap_postprocessor_free(postprocessor);
}

void Suppress(FuzzInput& input) {
  const size_t count = input.Size(40);
  Noise noise(input.Byte());
  std::vector<float> boxes(4 * count);
  std::vector<float> scores(count);
  std::vector<int32_t> classes(count);
  for (float& value : boxes) value = noise.Number(0.0, 40.0, 80);
  for (float& value : scores) value = noise.Number(0.0, 1.0, 20);
  for (int32_t& value : classes) value = noise.Below(3);
  Disturb(input, boxes);
  Disturb(input, scores);
  std::vector<int64_t> kept(count);
  int64_t kept_count = -1;
  const int64_t limit = input.Int(-2, 20);
  const endcap_status status = endcap_nms(
      boxes.data(), scores.data(), input.Bool() ? classes.data() : nullptr, count,
      input.Number(-0.1, 1.1), limit, kept.data(), input.Happens(4) ? nullptr : &kept_count);
  CheckStatus(status, "endcap_nms");
  if (status == 0) {
    Require(kept_count >= 0 && kept_count <= static_cast<int64_t>(count), kept_count, " are kept");
    Require(limit < 0 || kept_count <= limit, kept_count, " are kept of at most ", limit);
  }
}

void PassNulls() {
  Require(endcap_preprocessor_run(nullptr, nullptr, nullptr, 0, nullptr) == kInvalid &&
              endcap_postprocessor_run(nullptr, nullptr, 0, nullptr, 1) == kInvalid &&
              endcap_preprocessor_new(nullptr, 1, ENDCAP_CPU, 1, nullptr) == kInvalid &&
              endcap_nms(nullptr, nullptr, nullptr, 1, 0.5, -1, nullptr, nullptr) == kInvalid,
          "NULL is taken");
  endcap_preprocessor_free(nullptr);
  endcap_postprocessor_free(nullptr);
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  switch (input.Int(0, 7)) {
    case 0:
    case 1:
    case 2:
      Preprocess(input);
      break;
    case 3:
    case 4:
    case 5:
      Postprocess(input);
      break;
    case 6:
      Suppress(input);
      break;
    default:
      PassNulls();
      break;
  }
  return 0;
}
