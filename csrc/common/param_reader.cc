#include "common/param_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace endcap {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

namespace {

template <typename T>
bool Parse(std::string_view text, T& value) {
  text = Trim(text);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// Our names, and those of other libraries for the same (ultralytics, torchvision, timm, OpenCV,
// Roboflow), with spaces between.
struct OtherNames {
  std::string_view ours;
  std::string_view theirs;
};
constexpr OtherNames kOtherNames[] = {
    {"size", "imgsz img_size image_size input_size resize crop_size"},
    {"resize_shorter", "resize_size"},
    {"score_threshold", "conf conf_thres confidence score_thresh"},
    {"iou_threshold", "iou iou_thres nms_thresh nms_threshold"},
    {"max_detections", "max_det detections_per_img"},
    {"max_candidates", "max_nms"},
    {"class_agnostic", "agnostic agnostic_nms"},
    {"num_classes", "nc classes"},
    {"top_k", "k topk"},
    {"num_keypoints", "nkpt"},
    {"fit", "letterbox"},
    {"interpolation", "resample"},
    {"mean", "normalize"},
    {"color", "swap_rb"},
    {"ultralytics", "yolo yolov5 yolov8 yolo11 yolo12 yolo26"},
    {"torchvision", "imagenet resnet resnet50"},
    {"rtdetr", "detr"},
    {"yolov5", "yolo5"},
    {"yolov8", "yolo8 yolov9 yolov11 yolo11 yolo12"},
    {"end2end", "yolov10 yolo26"},
    {"classification", "classifier classify"},
    {"yolov8_seg", "segment"},
    {"yolov8_pose", "pose"},
    {"yolov8_obb", "obb"},
    {"bilinear", "linear"},
    {"bicubic", "cubic"},
    {"nhwc", "hwc"},
    {"nchw", "chw"},
    {"float32", "fp32"},
    {"float16", "fp16 half"},
    {"gray", "grey"},
    {"jpeg", "jpg"},
};

// Insertions, deletions and replacements that turn one text into the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool ReadBool(std::string_view name, std::string_view text) {
  const std::string_view word = Trim(text);
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  FailArgument(name, " is '", text, "': give true or false");
}

int64_t ReadInteger(std::string_view name, std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  if (!Parse(text, value) || value < low || value > high) {
    FailArgument(name, " is '", text, "': give a whole number from ", low, " to ", high);
  }
  return value;
}

double ReadNumber(std::string_view name, std::string_view text, double low, double high) {
  double value = 0;
  if (!Parse(text, value) || !(value >= low && value <= high)) {
    FailArgument(name, " is '", text, "': give a number from ", low, " to ", high);
  }
  return value;
}

std::vector<double> ReadNumbers(std::string_view name, std::string_view text, size_t count) {
  std::vector<double> values;
  bool parsed = true;
  for (const std::string_view part : Split(text)) {
    parsed = Parse(part, values.emplace_back()) && std::isfinite(values.back()) && parsed;
  }
  if (values.size() == 1) values.resize(count, values[0]);
  if (!parsed || values.size() != count) {
    FailArgument(name, " is '", text, "': give 1 or ", count, " numbers with commas between");
  }
  return values;
}

std::pair<int, int> ReadSize(std::string_view name, std::string_view text, int high, int low) {
  const auto parts = Split(text);
  int64_t height = 0;
  int64_t width = 0;
  const bool parsed =
      parts.size() <= 2 && Parse(parts.front(), height) && Parse(parts.back(), width);
  if (!parsed || height < low || width < low || height > high || width > high) {
    FailArgument(name, " is '", text, "': give height,width in pixels, each from ", low, " to ",
                 high);
  }
  return {static_cast<int>(height), static_cast<int>(width)};
}

std::string WriteNumber(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  if (error != std::errc()) Fail(ErrorCode::kInternal, "a number could not be written as text");
  return {text, end};
}

std::string WriteBool(bool value) { return value ? "true" : "false"; }

std::string DidYouMean(std::string_view given, EnumNames names) {
  constexpr size_t kMaxLength = 40;  // of a misspelt name
  if (given.empty() || given.size() > kMaxLength) return {};
  std::string lower(given);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::string_view best;
  for (const auto& [ours, theirs] : kOtherNames) {
    const std::vector<std::string_view> others = Split(theirs, ' ');
    if (best.empty() && has(ours) && std::ranges::find(others, lower) != others.end()) best = ours;
  }
  if (best.empty()) {
    size_t least = lower.size() / 3 + 1;  // as many slips, and one more, are another word
    for (const std::string_view name : names) {
      if (const size_t distance = EditDistance(lower, name); distance < least) {
        least = distance;
        best = name;
      }
    }
  }
  return best.empty() ? std::string() : "; did you mean '" + std::string(best) + "'?";
}

std::vector<int> ReadEnumIndices(std::string_view name, std::string_view text, EnumNames names) {
  std::vector<int> indices;
  for (const std::string_view part : Split(text)) {
    indices.push_back(ReadEnumIndex(name, part, names));
  }
  return indices;
}

std::string JoinNames(EnumNames names) {
  std::string joined;
  for (const std::string_view name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

int ReadEnumIndex(std::string_view name, std::string_view text, EnumNames names) {
  const std::string_view word = Trim(text);
  for (size_t i = 0; i < names.size(); ++i) {
    if (word == names[i]) return static_cast<int>(i);
  }
  FailArgument(name, " is '", text, "': give one of ", JoinNames(names), DidYouMean(word, names));
}

}  // namespace endcap
