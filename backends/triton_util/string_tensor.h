#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace endcap::triton {

// Appends one element of a BYTES tensor: its length in 4 bytes, little-endian, then its characters.
void AppendString(std::vector<std::byte>& tensor, std::string_view text);

}  // namespace endcap::triton
