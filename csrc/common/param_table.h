#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/param_reader.h"
#include "endcap/params.h"

namespace endcap {

// One parameter of a params struct `P`: how it is read from text and written back.
template <typename P>
struct ParamField {
  std::string_view name;
  std::string allowed;  // a phrase for people
  std::function<void(P&, std::string_view)> read;
  std::function<std::string(const P&)> write;
  std::string_view meaning = {};  // a phrase for people
};

// The same field with its meaning.
template <typename P>
ParamField<P> Means(std::string_view meaning, ParamField<P> field) {
  field.meaning = meaning;
  return field;
}

template <typename P>
using ParamTable = std::vector<ParamField<P>>;

// In the makers below, `get` returns a reference to the field: [](auto& p) -> auto& {...}.

template <typename P, typename Get>
ParamField<P> EnumField(std::string_view name, EnumNames names, Get get) {
  using E = std::remove_reference_t<decltype(get(std::declval<P&>()))>;
  return {name, "one of " + JoinNames(names),
          [=](P& p, std::string_view text) { get(p) = ReadEnum<E>(name, text, names); },
          [=](const P& p) { return WriteEnum(get(p), names); }};
}

template <typename P, typename Get>
ParamField<P> BoolField(std::string_view name, Get get) {
  return {name, "true or false",
          [=](P& p, std::string_view text) { get(p) = ReadBool(name, text); },
          [=](const P& p) { return WriteBool(get(p)); }};
}

template <typename P, typename Get>
ParamField<P> IntegerField(std::string_view name, int64_t low, int64_t high, Get get) {
  using Integer = std::remove_reference_t<decltype(get(std::declval<P&>()))>;
  return {name, "a whole number from " + std::to_string(low) + " to " + std::to_string(high),
          [=](P& p, std::string_view text) {
            get(p) = static_cast<Integer>(ReadInteger(name, text, low, high));
          },
          [=](const P& p) { return std::to_string(get(p)); }};
}

template <typename P, typename Get>
ParamField<P> NumberField(std::string_view name, double low, double high, Get get) {
  return {name, "a number from " + WriteNumber(low) + " to " + WriteNumber(high),
          [=](P& p, std::string_view text) { get(p) = ReadNumber(name, text, low, high); },
          [=](const P& p) { return WriteNumber(get(p)); }};
}

// Two fields: height and width.
template <typename P, typename GetHeight, typename GetWidth>
ParamField<P> SizeField(std::string_view name, int high, GetHeight height, GetWidth width,
                        int low = 1) {
  return {name, "height,width in pixels, or one number for both",
          [=](P& p, std::string_view text) {
            const auto [h, w] = ReadSize(name, text, high, low);
            height(p) = h;
            width(p) = w;
          },
          [=](const P& p) { return std::to_string(height(p)) + "," + std::to_string(width(p)); }};
}

// Sets one parameter by name. `what` names the table in the error for an unknown name, `others` are
// the names that the caller handles itself.
template <typename P>
void SetParam(const ParamTable<P>& table, std::string_view what, P& params, std::string_view name,
              std::string_view text, std::string_view others = "") {
  std::vector<std::string_view> names;
  if (!others.empty()) names.push_back(others);
  for (const ParamField<P>& field : table) {
    if (field.name == name) return field.read(params, text);
    names.push_back(field.name);
  }
  FailArgument("'", name, "' is not a ", what, " parameter: there are ", JoinNames(names),
               DidYouMean(name, names));
}

template <typename P>
std::vector<ParameterInfo> DescribeParams(const ParamTable<P>& table, const P& params) {
  std::vector<ParameterInfo> rows;
  for (const ParamField<P>& field : table) {
    rows.push_back({field.name, field.meaning, field.allowed, field.write(params)});
  }
  return rows;
}

}  // namespace endcap
