#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace endcap::triton {

// The class names of a classifier: one a line, in the order of the class ids.
class Labels {
 public:
  Labels() = default;  // no names: every label is empty
  // Throws kInvalidArgument when the file cannot be read or does not have num_classes lines.
  Labels(const std::filesystem::path& file, int num_classes);

  // The labels of `class_ids` as the elements of a BYTES tensor, appended to `buffer`.
  void AppendTo(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace endcap::triton
