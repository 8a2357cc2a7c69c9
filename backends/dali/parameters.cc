#include "parameters.h"

#include <charconv>
#include <stdexcept>
#include <vector>

namespace endcap::operators {
namespace {

std::string ToText(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {text, end};
}

std::string ToText(int64_t value) { return std::to_string(value); }

template <typename T>
std::string ToText(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text.append(text.empty() ? "" : ",").append(ToText(value));
  return text;
}

std::string ToText(::dali::DALIDataType type) {
  switch (type) {
    case DALI_FLOAT:
      return "float32";
    case DALI_FLOAT16:
      return "float16";
    case DALI_UINT8:
      return "uint8";
    case DALI_INT8:
      return "int8";
    default:
      throw std::invalid_argument(
          "dtype is a type that endcap does not make: give types.FLOAT, types.FLOAT16, types.UINT8 "
          "or types.INT8");
  }
}

std::string GetValue(const ::dali::OpSpec& spec, const std::string& name) {
  switch (spec.GetSchema().GetArgumentType(name)) {
    case DALI_BOOL:
      return spec.GetArgument<bool>(name) ? "true" : "false";
    case DALI_INT32:
    case DALI_INT64:
      return ToText(spec.GetArgument<int64_t>(name));
    case DALI_FLOAT:
      return ToText(spec.GetArgument<float>(name));
    case DALI_INT_VEC:
      // As 64-bit integers, so that the core can reject values out of range.
      return ToText(spec.GetRepeatedArgument<int64_t>(name));
    case DALI_FLOAT_VEC:
      return ToText(spec.GetRepeatedArgument<float>(name));
    case DALI_DATA_TYPE:
      return ToText(spec.GetArgument<::dali::DALIDataType>(name));
    default:
      return spec.GetArgument<std::string>(name);
  }
}

// note: replaces the default value unless it is empty.
std::string FormatDoc(std::span<const endcap_parameter_info> table, std::string_view name,
                      std::string_view note = "") {
  for (const endcap_parameter_info& row : table) {
    if (name != row.name) continue;
    std::string doc = row.meaning;
    doc.append(": ").append(row.allowed);
    if (!note.empty()) return doc.append(" (").append(note).append(")");
    if (row.value[0] != '\0') doc.append(" (").append(row.value).append(" by default)");
    return doc;
  }
  return "";
}

}  // namespace

std::string PreprocessDoc(std::string_view name) { return FormatDoc(PreprocessTable(), name); }

std::string PostprocessDoc(std::string_view name, std::string_view note) {
  return FormatDoc(PostprocessTable(), name, note);
}

Parameters GivenParameters(const ::dali::OpSpec& spec, std::span<const endcap_parameter_info> table,
                           std::initializer_list<std::string_view> others) {
  Parameters given;
  const auto add = [&](const std::string& name) {
    if (spec.HasArgument(name)) given.emplace_back(name, GetValue(spec, name));
  };
  for (const std::string_view name : others) add(std::string(name));
  for (const endcap_parameter_info& row : table) add(row.name);
  return given;
}

}  // namespace endcap::operators
