#include "common/param_reader.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace endcap {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

template <typename T>
bool Parse(std::string_view text, T& value) {
  text = Trim(text);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

std::vector<std::string_view> SplitCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

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
  for (const std::string_view part : SplitCommas(text)) {
    double value = 0;
    if (!Parse(part, value) || !std::isfinite(value)) {
      FailArgument(name, " is '", text, "': give 1 or ", count, " numbers with commas between");
    }
    values.push_back(value);
  }
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count) {
    FailArgument(name, " is '", text, "': give 1 or ", count, " numbers with commas between");
  }
  return values;
}

std::pair<int, int> ReadSize(std::string_view name, std::string_view text, int high) {
  const auto parts = SplitCommas(text);
  int64_t height = 0;
  int64_t width = 0;
  const bool parsed =
      parts.size() <= 2 && Parse(parts.front(), height) && Parse(parts.back(), width);
  if (!parsed || height < 1 || width < 1 || height > high || width > high) {
    FailArgument(name, " is '", text, "': give height,width in pixels, each from 1 to ", high);
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

std::vector<int> ReadEnumIndices(std::string_view name, std::string_view text, EnumNames names) {
  std::vector<int> indices;
  for (const std::string_view part : SplitCommas(text)) {
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
  FailArgument(name, " is '", text, "': give one of ", JoinNames(names));
}

}  // namespace endcap
