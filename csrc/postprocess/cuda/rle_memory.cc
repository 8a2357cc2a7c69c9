#include "postprocess/cuda/rle_memory.h"

#include <algorithm>
#include <string>

#include "masks/masks.h"

namespace endcap {
namespace {

using Asked = unsigned long long;
constexpr size_t kAsked = 2;  // words and bytes

// 256 MiB of scratch, 128 MiB of text.
constexpr RleCapacity kSmall = {size_t{64} << 20, size_t{128} << 20};

// Twice as much while that is modest, so that it is not asked for often.
size_t Grown(size_t had, Asked asked, size_t modest) {
  if (asked <= had) return had;
  const size_t more = 2 * had <= modest ? 2 * had : std::max(modest, had + had / 4);
  return asked <= modest ? std::max<size_t>(asked, std::min(more, modest))
                         : std::max<size_t>(asked, more);
}

size_t Share(size_t all, size_t images) { return (all + images - 1) / images; }

const Asked* AskedIn(const uint8_t* noted) { return reinterpret_cast<const Asked*>(noted); }

// The CPU's result before it reaches a logit that is not finite: it goes mask by mask, where
// nobody wants bits.
bool EncodesFirst(const DetectionRecord& record, const PostprocessOutput& output) {
  const bool packs =
      output.tensors.size() > kExtraOutput + 2 && output.tensors[kExtraOutput + 1].data != nullptr;
  return record.fault == DetectionFault::kMaskLogit && !packs;
}

// The limit of an image's first `count` strings.
void CheckTexts(const RunLengthText* texts, size_t count, const DetectionRecord& record) {
  size_t bytes = 0;
  for (size_t n = 0; n < count; ++n) {
    bytes += texts[n].bytes;
    CheckRleBytes(bytes, n + 1, record.mask_width, record.mask_height);
  }
}

}  // namespace

bool WantsRunLengths(std::span<const PostprocessOutput> outputs) noexcept {
  return std::ranges::any_of(outputs, [](const auto& output) { return output.rle != nullptr; });
}

void BlankOutputs(std::span<const TensorSpec> specs, const PostprocessOutput& output,
                  ErrorCode code, const CudaTarget& target) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView& view = output.tensors[i];
    if (view.data == nullptr) continue;
    const int byte = specs[i].name == "detection_indices" ? 0xFF : 0;
    CheckCuda(Cuda().fill(target.device_id, view.data, byte, view.size_bytes(), target.stream));
  }
  const TensorView& status = output.tensors.back();
  const auto value = static_cast<int32_t>(code);
  if (status.data != nullptr) CopyCuda(status.data, &value, sizeof(value), target);
  SynchronizeCuda(target);
  if (output.rle != nullptr) output.rle->clear();
}

bool RleCapacity::IsSmall() const noexcept {
  return words <= kSmall.words && bytes <= kSmall.bytes;
}

size_t RleCapacities::Together() {
  const std::lock_guard lock(mutex_);
  const size_t by_words = kSmall.words / std::max(of_image_.words, kSmallestRle.words);
  const size_t by_bytes = kSmall.bytes / std::max(of_image_.bytes, kSmallestRle.bytes);
  return std::max<size_t>(1, std::min(by_words, by_bytes));
}

RleCapacity RleCapacities::First(size_t images) {
  const std::lock_guard lock(mutex_);
  return {std::min(std::max(of_image_.words, kSmallestRle.words) * images, kSmall.words),
          std::min(std::max(of_image_.bytes, kSmallestRle.bytes) * images, kSmall.bytes)};
}

void RleCapacities::Keep(const RleCapacity& needed, size_t images) {
  const std::lock_guard lock(mutex_);
  of_image_.words = std::max(of_image_.words, Share(needed.words, images));
  of_image_.bytes = std::max(of_image_.bytes, Share(needed.bytes, images));
}

CudaRunLengths::CudaRunLengths(size_t images, size_t rows, RleCapacity room,
                               const CudaTarget& target)
    : images_(images),
      rows_(rows),
      room_(room),
      target_(target),
      noted_bytes_((kAsked + images) * sizeof(Asked) + images * rows * sizeof(RunLengthText)),
      noted_(AllocateCuda(noted_bytes_, target)),
      scratch_(AllocateCuda(room.words * sizeof(uint32_t), target)),
      text_(AllocateCuda(room.bytes, target)) {
  CheckCuda(Cuda().fill(target.device_id, noted_.get(), 0, noted_bytes_, target.stream));
}

RunLengthMemory CudaRunLengths::memory() const noexcept {
  auto* asked = static_cast<Asked*>(noted_.get());
  return {static_cast<uint32_t*>(scratch_.get()),
          room_.words,
          static_cast<char*>(text_.get()),
          room_.bytes,
          asked,
          asked + 1,
          asked + kAsked,
          reinterpret_cast<RunLengthText*>(asked + kAsked + images_)};
}

void CudaRunLengths::CopyNoted(uint8_t* pinned) const {
  CopyCuda(pinned, noted_.get(), noted_bytes_, target_);
}

bool CudaRunLengths::Fits(const uint8_t* noted, RleCapacity& room) const noexcept {
  const auto* asked = AskedIn(noted);
  room = {Grown(room_.words, asked[0], kSmall.words), Grown(room_.bytes, asked[1], kSmall.bytes)};
  return asked[0] <= room_.words && asked[1] <= room_.bytes;
}

void CudaRunLengths::Read(const uint8_t* noted, std::span<const DetectionRecord> records,
                          std::span<const TensorSpec> specs,
                          std::span<const PostprocessOutput> outputs, PinnedBuffer& pinned,
                          std::vector<PostprocessItem>& items) const {
  const auto* asked = AskedIn(noted);
  const auto text_bytes = static_cast<size_t>(asked[1]);
  pinned.Reserve(text_bytes);
  CopyCuda(pinned.data(), text_.get(), text_bytes, target_);
  SynchronizeCuda(target_);
  const auto* texts = reinterpret_cast<const RunLengthText*>(asked + kAsked + images_);
  const auto* text = reinterpret_cast<const char*>(pinned.data());
  for (size_t i = 0; i < outputs.size(); ++i, texts += rows_) {
    if (outputs[i].rle == nullptr) continue;
    outputs[i].rle->clear();
    const auto count = static_cast<size_t>(items[i].num_detections);
    try {
      CheckTexts(texts, EncodesFirst(records[i], outputs[i]) ? records[i].element : count,
                 records[i]);
      for (const RunLengthText& each : std::span(texts, count)) {
        outputs[i].rle->emplace_back(text + each.at, each.bytes);
      }
    } catch (...) {
      items[i] = {};
      items[i].status = MakeStatusFromCurrentException();
      BlankOutputs(specs, outputs[i], items[i].status.code, target_);
    }
  }
}

}  // namespace endcap
