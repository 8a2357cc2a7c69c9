#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace endcap {

// Parameters as text, as config.pbtxt, the command line and Python pass them.
//   numbers   "0.25"           lists    "0.485,0.456,0.406"
//   size      "640" or "480,640" (height, width)
//   booleans  "true"/"false"   enums    the names of the parameter table
using ParameterList = std::vector<std::pair<std::string, std::string>>;

// One row of a parameter table.
struct ParameterInfo {
  std::string_view name;
  std::string_view meaning;  // a phrase
  std::string_view allowed;  // a phrase: what values may be given
  std::string value;         // the value as text, which parses to the same value
};

}  // namespace endcap
