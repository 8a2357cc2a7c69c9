#include "preprocess/cuda/fused_plan.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/fail.h"
#include "endcap/decode.h"
#include "preprocess/cuda/fused_span.h"

namespace endcap {
namespace {

constexpr int kPixels = 256;
constexpr size_t kChannels = 3;

ChannelNormalize MakeNormalize(const PreprocessParams& params, size_t channel) {
  return {params.ResolvedScale(), params.mean[channel], params.std[channel]};
}

// What 8-bit pixels become: elements [3][256], their bits, of the numbers convert(channel, pixel).
template <typename Convert>
std::vector<uint8_t> MakeElements(DType dtype, Convert convert) {
  std::vector<uint8_t> bytes(kChannels * size_t{kPixels} * GetElementSize(dtype));
  WithElementType(dtype, [&](auto element) {
    uint8_t* to = bytes.data();
    for (size_t c = 0; c < kChannels; ++c) {
      for (int pixel = 0; pixel < kPixels; ++pixel, to += sizeof(element)) {
        element = StoreAs<decltype(element)>(convert(c, pixel));
        std::memcpy(to, &element, sizeof(element));
      }
    }
  });
  return bytes;
}

// As the CPU's rows have them.
std::vector<uint8_t> MakeElementTable(const PreprocessParams& params) {
  return MakeElements(params.dtype,
                      [&](size_t c, int pixel) { return MakeNormalize(params, c).Exact(pixel); });
}

// Fills in how the kernel normalises: `normalize`, `split`, `single` and `padding`. kSplit only
// where it gives the elements of the table for each of the 256 pixels.
void SetNormalize(const PreprocessParams& params, FusedLaunch& launch) {
  const std::vector<uint8_t> table = MakeElementTable(params);
  const size_t bytes = GetElementSize(params.dtype);
  for (size_t c = 0; c < kChannels; ++c) {
    const ChannelNormalize normalize = MakeNormalize(params, c);
    launch.single[c] = normalize.InSingle();
    Split(normalize, launch.split[c]);
    const size_t pad = (c * size_t{kPixels} + static_cast<size_t>(params.pad_value)) * bytes;
    launch.padding[c] = 0;
    std::memcpy(&launch.padding[c], table.data() + pad, bytes);
  }
  const std::vector<uint8_t> by_split = MakeElements(params.dtype, [&](size_t c, int pixel) {
    return launch.split[c].ApplyFused(static_cast<float>(pixel));
  });
  launch.normalize = SelectArithmetic(params) == ResizeArithmetic::kFloat ? FusedNormalize::kSingle
                     : by_split == table                                  ? FusedNormalize::kSplit
                                                                          : FusedNormalize::kTable;
}

constexpr size_t kBlockAlignment = 16;
constexpr int kWarp = 32;
// Few enough for small tensors, enough to read rows together.
constexpr int kMinThreads = 64;
// Words of taps that are kept from batch to batch: those of about ten sizes of large images. They
// are uploaded with each batch, so that more of them would cost time.
constexpr size_t kMaxKeptWords = size_t{1} << 15;

size_t Align(size_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

int ThreadsFor(int width) {
  const int quads = (width + kFusedQuad - 1) / kFusedQuad;
  return std::clamp((quads + kWarp - 1) / kWarp * kWarp, kMinThreads, kFusedMaxThreads);
}

// Whether each row of the tensor, and each of its planes, begins where four elements can be stored
// at once.
bool AllowsVectorStores(const void* output, const FusedLaunch& launch) {
  const size_t bytes = kFusedQuad * GetElementSize(launch.dtype);
  return launch.width % kFusedQuad == 0 && reinterpret_cast<uintptr_t>(output) % bytes == 0;
}

}  // namespace

FusedPlan::FusedPlan(const PreprocessParams& params) : params_(params) {
  launch_.height = params.height;
  launch_.width = params.width;
  launch_.channels = params.channels();
  launch_.planar = params.layout == Layout::kNchw;
  launch_.dtype = params.dtype;
  launch_.arithmetic = SelectArithmetic(params);
  launch_.threads = ThreadsFor(params.width);
  SetNormalize(params, launch_);
  if (launch_.normalize == FusedNormalize::kTable) element_table_ = MakeElementTable(params);
}

void FusedPlan::Clear() {
  images_.clear();
  if (words_.size() > kMaxKeptWords) {
    words_.clear();
    taps_.clear();
  }
  std::fill(std::begin(launch_.variant_count), std::end(launch_.variant_count), 0);
  launch_.staged_bytes = 0;
  launch_.copied_row_bytes = 0;
}

void FusedPlan::AddBlank(void* output) {
  FusedImage image;
  image.output = output;
  image.vector_stores = AllowsVectorStores(output, launch_);
  if (!images_.empty()) image.variant = images_.back().variant;  // no launch for it alone
  ++launch_.variant_count[static_cast<int>(image.variant)];
  images_.push_back(image);
}

void FusedPlan::MakeBlank(size_t image) { images_.at(image).source = FusedSource::kBlank; }

void FusedPlan::Add(const FusedImage& pixels, const Placement& placement, int orientation,
                    void* output) {
  FusedImage image = pixels;
  const OrientationTransform transform = GetOrientationTransform(orientation);
  image.output = output;
  image.vector_stores = AllowsVectorStores(output, launch_);
  image.swap_axes = transform.swap_axes;
  image.from_right = transform.from_right;
  image.from_bottom = transform.from_bottom;
  image.swap_red_blue = (pixels.source == FusedSource::kBgr) != (params_.color == Color::kBgr) &&
                        params_.color != Color::kGray;
  const int width = transform.swap_axes ? pixels.height : pixels.width;
  const int height = transform.swap_axes ? pixels.width : pixels.height;
  const FusedTaps& taps = GetTaps(placement, width, height);
  image.columns = taps.columns;
  image.rows = taps.rows;
  image.fixed_weights = taps.fixed_weights;
  image.sum_scale = taps.sum_scale;
  image.out_x = placement.out_x;
  image.out_y = placement.out_y;
  image.visible_w = placement.visible_w;
  image.visible_h = placement.visible_h;
  ReserveRows(image);
  images_.push_back(image);
}

const FusedTaps& FusedPlan::GetTaps(const Placement& placement, int width, int height) {
  const auto [entry, is_new] = taps_.try_emplace({width, height, placement});
  if (is_new) entry->second = AppendTaps(params_, placement, width, height, words_);
  return entry->second;
}

// Reserves shared memory for the rows that the widest run of columns reads.
void FusedPlan::ReserveRows(FusedImage& image) {
  const bool copied = (image.source == FusedSource::kRgb || image.source == FusedSource::kBgr) &&
                      !image.swap_axes && launch_.channels == 3;
  image.variant = FusedVariant::kStaged;
  if (copied && ReserveRows(image, FusedVariant::kCopied)) {
    image.variant = FusedVariant::kCopied;
  } else if (!ReserveRows(image, image.variant)) {
    image.variant = FusedVariant::kInPlace;
  }
  ++launch_.variant_count[static_cast<int>(image.variant)];
}

// Returns false where not even one row fits with that variant.
bool FusedPlan::ReserveRows(const FusedImage& image, FusedVariant variant) {
  const FusedQuads quads = VisibleQuads(image.out_x, image.visible_w);
  const auto firsts = static_cast<size_t>(image.columns.first);
  const auto first_of = [&](int column) { return words_[firsts + static_cast<size_t>(column)]; };
  int row_bytes = StagedRowBytes(variant, {0, 1});  // the least that a row takes
  for (int block = 0; block < quads.end; block += launch_.threads) {
    const int begin = std::max(block, quads.first) - quads.first;
    const int end = std::min(block + launch_.threads, quads.end) - quads.first;
    if (begin >= end) continue;
    // Flipped or not, the span may begin up to a group early.
    for (const bool flip : {false, true}) {
      const FusedSpan span = ComputeSpan(image.columns, first_of(kFusedQuad * begin),
                                         first_of(kFusedQuad * end - 1), flip);
      row_bytes = std::max(row_bytes, StagedRowBytes(variant, span));
    }
  }
  if (FusedBuffers(variant) * row_bytes > kFusedMaxStagedBytes) return false;
  if (variant == FusedVariant::kCopied) {
    row_bytes = launch_.copied_row_bytes = std::max(launch_.copied_row_bytes, row_bytes);
  }
  row_bytes *= FusedBuffers(variant);
  const int rows =
      std::min({kFusedMaxStagedRows, image.rows.taps, kFusedMaxStagedBytes / row_bytes});
  launch_.staged_bytes = std::max(launch_.staged_bytes, rows * row_bytes);
  return true;
}

size_t FusedPlan::tables_offset() const noexcept {
  return Align(images_.size() * sizeof(FusedImage));
}

size_t FusedPlan::element_table_offset() const noexcept {
  return Align(tables_offset() + words_.size() * sizeof(int32_t));
}

size_t FusedPlan::block_bytes() const noexcept {
  return element_table_offset() + element_table_.size();
}

void FusedPlan::WriteBlock(uint8_t* block) const {
  const auto write = [block](size_t offset, const auto& values) {
    if (!values.empty()) {
      std::memcpy(block + offset, values.data(), values.size() * sizeof(values[0]));
    }
  };
  write(0, images_);
  write(tables_offset(), words_);
  write(element_table_offset(), element_table_);
}

FusedLaunch FusedPlan::Launch(const uint8_t* device_block) const {
  FusedLaunch launch = launch_;
  launch.images = reinterpret_cast<const FusedImage*>(device_block);
  launch.image_count = static_cast<int32_t>(images_.size());
  launch.tables = reinterpret_cast<const int32_t*>(device_block + tables_offset());
  if (!element_table_.empty()) launch.table = device_block + element_table_offset();
  return launch;
}

}  // namespace endcap
