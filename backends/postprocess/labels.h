#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace endcap::triton {

// The class names of a classifier: one a line, in the order of the class ids. A line may be the
// class's path in a taxonomy, from the root to the class itself.
class Labels {
 public:
  Labels() = default;  // no names: every label is empty
  // separator: the text between the parts of a path; empty where lines are names. Throws
  // kInvalidArgument when the file cannot be read, does not have num_classes lines, or has a path
  // with an empty part.
  Labels(const std::filesystem::path& file, int num_classes, std::string_view separator = {});

  // The labels of `class_ids` as the elements of a BYTES tensor, appended to `buffer`: names, of a
  // path the last part.
  void AppendNames(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const;
  // The same for whole lines.
  void AppendPaths(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const;

 private:
  struct Line {
    std::string path;
    size_t name_begin = 0;
  };

  std::string_view GetPath(int32_t class_id) const noexcept;
  std::string_view GetName(int32_t class_id) const noexcept;

  std::vector<Line> lines_;  // by class id
};

}  // namespace endcap::triton
