#include "triton_util/string_tensor.h"

namespace endcap::triton {

void AppendString(std::vector<std::byte>& tensor, std::string_view text) {
  for (int shift = 0; shift < 32; shift += 8) {
    tensor.push_back(static_cast<std::byte>((text.size() >> shift) & 0xFF));
  }
  for (const char c : text) tensor.push_back(static_cast<std::byte>(c));
}

}  // namespace endcap::triton
