#include "postprocess/labels.h"

#include <fstream>

#include "endcap/error.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

// Where the last part of a path begins. Throws for a path with an empty part.
size_t LastPart(const std::string& path, std::string_view separator,
                const std::filesystem::path& file, size_t line_number) {
  size_t begin = 0;
  while (true) {
    const size_t end = path.find(separator, begin);
    if (begin == path.size() || end == begin) {
      throw Error(ErrorCode::kInvalidArgument,
                  "labels_file '" + file.string() + "' line " + std::to_string(line_number) +
                      " is '" + path + "', a path with an empty part: write the names from the " +
                      "root to the class, with one '" + std::string(separator) + "' between two");
    }
    if (end == std::string::npos) return begin;
    begin = end + separator.size();
  }
}

}  // namespace

Labels::Labels(const std::filesystem::path& file, int num_classes, std::string_view separator) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.ends_with('\r')) line.pop_back();
    lines_.push_back({line});
  }
  // An end other than the file's: it could not be opened, or read on.
  if (!stream.eof()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "labels_file '" + file.string() +
            "' cannot be read: give the path of a text file, relative to the model's folder");
  }
  if (lines_.size() != static_cast<size_t>(num_classes)) {
    throw Error(ErrorCode::kInvalidArgument,
                "labels_file '" + file.string() + "' has " + std::to_string(lines_.size()) +
                    " lines: num_classes=" + std::to_string(num_classes) +
                    " needs one for each class");
  }
  if (separator.empty()) return;
  for (size_t i = 0; i < lines_.size(); ++i) {
    lines_[i].name_begin = LastPart(lines_[i].path, separator, file, i + 1);
  }
}

std::string_view Labels::GetPath(int32_t class_id) const noexcept {
  const bool named = class_id >= 0 && static_cast<size_t>(class_id) < lines_.size();
  return named ? std::string_view(lines_[static_cast<size_t>(class_id)].path) : std::string_view();
}

std::string_view Labels::GetName(int32_t class_id) const noexcept {
  const std::string_view path = GetPath(class_id);
  return path.empty() ? path : path.substr(lines_[static_cast<size_t>(class_id)].name_begin);
}

void Labels::AppendNames(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const {
  for (const int32_t id : class_ids) AppendString(buffer, GetName(id));
}

void Labels::AppendPaths(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const {
  for (const int32_t id : class_ids) AppendString(buffer, GetPath(id));
}

}  // namespace endcap::triton
