#include "postprocess/cuda_run_lengths.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "masks/rle.h"

namespace endcap {
namespace {

using Asked = unsigned long long;

// Of a detection or two in the picture; what is wanted more of grows with the first call.
constexpr size_t kWordsOfImage = size_t{1} << 16;
constexpr size_t kBytesOfImage = size_t{1} << 14;

size_t Grown(size_t had, Asked asked) {
  return asked <= had ? had : std::max(2 * had, static_cast<size_t>(asked));
}

// No detection, with the status of what went wrong.
void WriteBlank(std::span<const TensorSpec> specs, const PostprocessOutput& output, ErrorCode code,
                const CudaTarget& target) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView& view = output.tensors[i];
    if (view.data == nullptr) continue;
    const int byte = specs[i].name == "detection_indices" ? 0xFF : 0;
    CheckCuda(Cuda().fill(target.device_id, view.data, byte, view.size_bytes(), target.stream));
  }
  const TensorView& status = output.tensors.back();
  const auto value = static_cast<int32_t>(code);
  if (status.data != nullptr) CopyCuda(status.data, &value, sizeof(value), target);
}

// The first `count` strings of an image.
void ToStrings(const RunLengthText* texts, size_t count, const char* text,
               std::vector<std::string>& strings) {
  strings.resize(count);
  for (size_t n = 0; n < count; ++n) strings[n].assign(text + texts[n].at, texts[n].bytes);
}

}  // namespace

bool WantsRunLengths(std::span<const PostprocessOutput> outputs) noexcept {
  return std::ranges::any_of(outputs, [](const auto& output) { return output.rle != nullptr; });
}

RunLengthRoom RunLengthRoom::Guess(size_t images, size_t images_of_launch) noexcept {
  return {kWordsOfImage * images_of_launch, kBytesOfImage * images};
}

CudaRunLengths::CudaRunLengths(size_t images, size_t launches, size_t rows, RunLengthRoom room,
                               const CudaTarget& target)
    : launches_(launches),
      rows_(rows),
      room_(room),
      target_(target),
      noted_bytes_((1 + launches) * sizeof(Asked) + images * rows * sizeof(RunLengthText)),
      noted_(AllocateCuda(noted_bytes_, target)),
      scratch_(AllocateCuda(room.words * sizeof(uint32_t), target)),
      text_(AllocateCuda(room.bytes, target)) {
  CheckCuda(Cuda().fill(target.device_id, noted_.get(), 0, noted_bytes_, target.stream));
}

RunLengthMemory CudaRunLengths::OfLaunch(size_t launch) const noexcept {
  auto* asked = static_cast<Asked*>(noted_.get());
  return {static_cast<uint32_t*>(scratch_.get()),
          room_.words,
          static_cast<char*>(text_.get()),
          room_.bytes,
          asked + 1 + launch,
          asked};
}

RunLengthText* CudaRunLengths::texts() const noexcept {
  return reinterpret_cast<RunLengthText*>(static_cast<Asked*>(noted_.get()) + 1 + launches_);
}

void CudaRunLengths::CopyNoted(uint8_t* pinned) const {
  CopyCuda(pinned, noted_.get(), noted_bytes_, target_);
}

bool CudaRunLengths::HadRoom(const uint8_t* noted, RunLengthRoom& room) const noexcept {
  const auto* asked = reinterpret_cast<const Asked*>(noted);
  const Asked words = *std::max_element(asked + 1, asked + 1 + launches_);
  room = {Grown(room_.words, words), Grown(room_.bytes, asked[0])};
  return words <= room_.words && asked[0] <= room_.bytes;
}

void CudaRunLengths::Read(const uint8_t* noted, std::span<const DetectionRecord> records,
                          std::span<const TensorSpec> specs,
                          std::span<const PostprocessOutput> outputs, PinnedBuffer& pinned,
                          std::vector<PostprocessItem>& items) const {
  const auto* asked = reinterpret_cast<const Asked*>(noted);
  const auto* texts = reinterpret_cast<const RunLengthText*>(asked + 1 + launches_);
  const auto text_bytes = static_cast<size_t>(asked[0]);
  pinned.Reserve(text_bytes);
  CopyCuda(pinned.data(), text_.get(), text_bytes, target_);
  SynchronizeCuda(target_);
  const auto* text = reinterpret_cast<const char*>(pinned.data());
  for (size_t i = 0; i < outputs.size(); ++i, texts += rows_) {
    if (outputs[i].rle == nullptr) continue;
    outputs[i].rle->clear();
    PostprocessItem& item = items[i];
    const auto count = static_cast<size_t>(item.num_detections);
    try {
      size_t bytes = 0;
      for (size_t n = 0; n < count; ++n) {
        bytes += texts[n].bytes;
        CheckRleBytes(bytes, n + 1, records[i].mask_width, records[i].mask_height);
      }
      ToStrings(texts, count, text, *outputs[i].rle);
    } catch (...) {
      item = {};
      item.status = StatusOfCurrentException();
      outputs[i].rle->clear();
      WriteBlank(specs, outputs[i], item.status.code, target_);
    }
  }
}

}  // namespace endcap
