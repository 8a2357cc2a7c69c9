#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fail.h"

namespace endcap {

// Reads one parameter from text. `name` is used in the messages of errors. All throw
// kInvalidArgument with the name, what came and what is allowed.
bool ReadBool(std::string_view name, std::string_view text);
int64_t ReadInteger(std::string_view name, std::string_view text, int64_t low, int64_t high);
double ReadNumber(std::string_view name, std::string_view text, double low, double high);
std::string_view Trim(std::string_view text);  // without surrounding spaces
// The parts between separators; one empty part of an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator = ',');
// 1 or `count` numbers with commas between; one number is used for all.
std::vector<double> ReadNumbers(std::string_view name, std::string_view text, size_t count);
// "640" or "480,640".
std::pair<int, int> ReadSize(std::string_view name, std::string_view text, int high, int low = 1);

// The shortest decimal that reads back as the same double.
std::string WriteNumber(double value);
std::string WriteBool(bool value);

// Text of an enum: position in the list = value of the enum.
using EnumNames = std::span<const std::string_view>;
int ReadEnumIndex(std::string_view name, std::string_view text, EnumNames names);
// "; did you mean NAME?" with the one of `names` that a wrong name is close to, or that says the
// same in another library; empty without one.
std::string DidYouMean(std::string_view given, EnumNames names);
// The positions of one or more names with commas between.
std::vector<int> ReadEnumIndices(std::string_view name, std::string_view text, EnumNames names);
std::string JoinNames(EnumNames names);

template <typename E>
E ReadEnum(std::string_view name, std::string_view text, EnumNames names) {
  return static_cast<E>(ReadEnumIndex(name, text, names));
}

template <typename E>
std::string WriteEnum(E value, EnumNames names) {
  return std::string(names[static_cast<size_t>(value)]);
}

}  // namespace endcap
