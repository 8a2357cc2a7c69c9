#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core.h"
#include "dali/pipeline/operator/op_spec.h"

namespace endcap::operators {

// What help() shows of a parameter: the core's own words. "" for a name that its table lacks. With
// a note, that stands in place of the default.
std::string PreprocessDoc(std::string_view name);
std::string PostprocessDoc(std::string_view name, std::string_view note = "");

// The parameters that `spec` was given, of the table's names and `others`, as text. Those that come
// as argument inputs are left out. What was not given is left to the core, whose defaults count.
//
// DALI keeps real numbers as float32: the text is the shortest decimal that stands for one, which
// is what the user wrote for up to 6 digits.
Parameters GivenParameters(const ::dali::OpSpec& spec, std::span<const endcap_parameter_info> table,
                           std::initializer_list<std::string_view> others);

}  // namespace endcap::operators
