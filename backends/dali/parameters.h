#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core.h"
#include "dali/pipeline/operator/op_spec.h"

namespace endcap::operators {

// Return the text of help() for a parameter, from the core's table; "" for an unknown name. A note
// replaces the default value.
std::string PreprocessDoc(std::string_view name);
std::string PostprocessDoc(std::string_view name, std::string_view note = "");

// Returns the parameters in `spec` that are in the table or in `others`, as text, without argument
// inputs. The core has the defaults of absent ones.
//
// DALI stores real numbers as float32: the text is the shortest decimal for that value, which is
// the user's text for up to 6 digits.
Parameters GivenParameters(const ::dali::OpSpec& spec, std::span<const endcap_parameter_info> table,
                           std::initializer_list<std::string_view> others);

}  // namespace endcap::operators
