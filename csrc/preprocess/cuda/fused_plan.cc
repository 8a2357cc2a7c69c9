#include "preprocess/cuda/fused_plan.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/fail.h"
#include "endcap/decode.h"
#include "preprocess/cuda/fused_span.h"

namespace endcap {
namespace {

constexpr size_t kPixels = 256;
constexpr size_t kChannels = 3;

ChannelNormalize MakeNormalize(const PreprocessParams& params, size_t channel) {
  return {params.ResolvedScale(), params.mean[channel], params.std[channel]};
}

// Calls visit with a value of the type that the tensor's elements have.
template <typename Visit>
void WithElementType(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kUint8:
      return visit(uint8_t{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kFloat32:
    case DType::kInt32:  // not a tensor's; Validate refuses them
    case DType::kInt64:
      break;
  }
  visit(float{});
}

template <typename T, typename Convert>
void AppendElements(std::vector<uint8_t>& bytes, Convert convert) {
  for (size_t pixel = 0; pixel < kPixels; ++pixel) {
    const T element = convert(static_cast<int>(pixel));
    const size_t end = bytes.size();
    bytes.resize(end + sizeof(T));
    std::memcpy(bytes.data() + end, &element, sizeof(T));
  }
}

// The elements that 8-bit pixels become, as the CPU's rows have them: [3][256], their bits.
std::vector<uint8_t> ElementTable(const PreprocessParams& params) {
  std::vector<uint8_t> table;
  WithElementType(params.dtype, [&](auto element) {
    using T = decltype(element);
    for (size_t c = 0; c < kChannels; ++c) {
      const ChannelNormalize normalize = MakeNormalize(params, c);
      AppendElements<T>(table, [&](int pixel) { return StoreAs<T>(normalize.Exact(pixel)); });
    }
  });
  return table;
}

// Fills in how the kernel normalises: `normalize`, `split`, `single` and `padding`. kSplit only
// where it gives the elements of the table for each of the 256 pixels.
void SetNormalize(const PreprocessParams& params, FusedLaunch& launch) {
  const std::vector<uint8_t> table = ElementTable(params);
  std::vector<uint8_t> by_split;
  const size_t bytes = GetElementSize(params.dtype);
  for (size_t c = 0; c < kChannels; ++c) {
    const ChannelNormalize normalize = MakeNormalize(params, c);
    launch.single[c] = normalize.InSingle();
    Split(normalize, launch.split[c]);
    WithElementType(params.dtype, [&](auto element) {
      using T = decltype(element);
      AppendElements<T>(by_split, [&](int pixel) {
        return StoreAs<T>(launch.split[c].ApplyFused(static_cast<float>(pixel)));
      });
    });
    const size_t pad = (c * kPixels + static_cast<size_t>(params.pad_value)) * bytes;
    launch.padding[c] = 0;
    std::memcpy(&launch.padding[c], table.data() + pad, bytes);
  }
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
  if (launch_.normalize == FusedNormalize::kTable) element_table_ = ElementTable(params);
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
  const Key key = {width,
                   height,
                   placement.resized_w,
                   placement.resized_h,
                   placement.crop_x,
                   placement.crop_y,
                   placement.out_x,
                   placement.out_y,
                   placement.visible_w,
                   placement.visible_h};
  const auto [entry, is_new] = taps_.try_emplace(key);
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
