#include "postprocess/labels.h"

#include <fstream>

#include "endcap/error.h"
#include "triton_util/string_tensor.h"

namespace endcap::triton {
Labels::Labels(const std::filesystem::path& file, int num_classes) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.ends_with('\r')) line.pop_back();
    names_.push_back(line);
  }
  // An end other than the file's: it could not be opened, or read on.
  if (!stream.eof()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "labels_file '" + file.string() +
            "' cannot be read: give the path of a text file, relative to the model's folder");
  }
  if (names_.size() != static_cast<size_t>(num_classes)) {
    throw Error(ErrorCode::kInvalidArgument,
                "labels_file '" + file.string() + "' has " + std::to_string(names_.size()) +
                    " lines: num_classes=" + std::to_string(num_classes) +
                    " needs one for each class");
  }
}

void Labels::AppendTo(std::vector<std::byte>& buffer, std::span<const int32_t> class_ids) const {
  const std::string none;
  for (const int32_t id : class_ids) {
    const bool named = id >= 0 && static_cast<size_t>(id) < names_.size();
    AppendString(buffer, named ? names_[static_cast<size_t>(id)] : none);
  }
}

}  // namespace endcap::triton
