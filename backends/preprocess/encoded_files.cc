#include "preprocess/encoded_files.h"

#include <string>
#include <utility>

#include "endcap/error.h"

namespace endcap::triton {

std::vector<Bytes> EncodedFiles(const InputTensor& encoded) {
  const bool strings = encoded.data_type() == TRITONSERVER_TYPE_BYTES;
  std::vector<Bytes> files = strings ? encoded.Strings() : encoded.Blobs();
  if (std::cmp_not_equal(files.size(), encoded.item_count())) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' has " + std::to_string(files.size()) + " elements for " +
                    std::to_string(encoded.item_count()) + " images; it takes one for each");
  }
  return files;
}

}  // namespace endcap::triton
