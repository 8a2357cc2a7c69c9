#include <vector>

#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/roi_targets.h"
#include "preprocess/rois_to_tensors.h"

namespace endcap {
namespace {

// Regions that one thread works on: all of a file, which is decoded once, or one of an image that
// is decoded already.
struct Share {
  size_t image = 0;
  size_t first = 0;
  size_t count = 0;
  ItemStatus image_status;
};

std::vector<Share> MakeShares(std::span<const RoiImage> images) {
  std::vector<Share> shares;
  for (size_t i = 0; i < images.size(); ++i) {
    const size_t count = images[i].rois.size();
    if (images[i].image.format == PixelFormat::kEncoded || count == 0) {
      shares.push_back({i, 0, count, {}});
      continue;
    }
    for (size_t roi = 0; roi < count; ++roi) shares.push_back({i, roi, 1, {}});
  }
  return shares;
}

void CheckImage(const PreprocessParams& params, const RoiImage& image) {
  if (image.rois.size() != image.outputs.size()) {
    FailArgument(image.rois.size(), " rois came with ", image.outputs.size(), " outputs");
  }
  CheckRoiTensors(params, static_cast<int64_t>(image.rois.size()));
  if (!WantsTensors(image)) return;
  for (size_t i = 0; i < image.outputs.size(); ++i) {
    CheckHostOutput(params, image.outputs[i].image, i);
  }
}

void RunShare(const PreprocessParams& params, const RoiImage& image, Share& share,
              RoiItem& item) noexcept {
  const std::span<ItemStatus> statuses = std::span(item.rois).subspan(share.first, share.count);
  try {
    int64_t decode_ns = 0;
    const JpegDecoder decoder = RoisToTensors(params, image, share.first, statuses, decode_ns);
    // Only a file's one share has a decoder to tell of.
    if (decoder != JpegDecoder::kAuto) {
      item.decoder = decoder;
      item.decode_ns = decode_ns;
    }
  } catch (...) {
    share.image_status = MakeStatusFromCurrentException();
    for (size_t i = 0; i < share.count; ++i) {
      statuses[i] = share.image_status;
      WriteBlank(image.outputs[share.first + i]);
    }
  }
  for (size_t i = 0; i < share.count; ++i) {
    WriteStatus(image.outputs[share.first + i], statuses[i]);
  }
}

}  // namespace

void CheckRoiCount(const PreprocessParams& params, int64_t count) {
  if (count > params.max_rois) {
    FailArgument("the image came with ", count, " rois; max_rois allows ", params.max_rois,
                 ": give them in several calls, or a greater max_rois");
  }
}

void CheckRoiTensors(const PreprocessParams& params, int64_t count) {
  CheckRoiCount(params, count);
  const TensorSpec spec = PreprocessOutputs(params)[0];
  TensorView tensor;
  tensor.dtype = spec.dtype;
  tensor.shape = spec.shape;
  tensor.rank = spec.rank;
  // Both are small enough for their product.
  const int64_t bytes = count * static_cast<int64_t>(tensor.size_bytes());
  if (bytes > params.max_roi_bytes) {
    FailArgument("the tensors of ", count, " rois take ", bytes, " bytes; max_roi_bytes allows ",
                 params.max_roi_bytes, ": give them in several calls, or a greater max_roi_bytes");
  }
}

std::vector<RoiItem> Preprocessor::RunRois(std::span<const RoiImage> images) {
  std::vector<RoiItem> items(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    CheckImage(params_, images[i]);
    items[i].rois.resize(images[i].rois.size());
  }
  std::vector<Share> shares = MakeShares(images);
  pool_.ParallelFor(static_cast<int>(shares.size()), [&](int i) {
    Share& share = shares[static_cast<size_t>(i)];
    RunShare(params_, images[share.image], share, items[share.image]);
  });
  for (const Share& share : shares) {
    if (items[share.image].status.ok()) items[share.image].status = share.image_status;
  }
  for (RoiItem& item : items) SettleRoiItem(item);
  return items;
}

}  // namespace endcap
