#include "cuda/launch.h"
#include "nms/greedy_cuda.h"
#include "postprocess/detection_image_cuda.h"
#include "postprocess/instance_masks_cuda.h"

// Packed masks: the definition is masks/logits.cc and masks/packed.cc, pixel by pixel. A block
// makes a tile of one mask: the logits of the prototype pixels below it, once, in shared memory;
// then its bytes.

namespace endcap {
namespace {

constexpr int kTileBytes = 16;
constexpr int kTileColumns = 8 * kTileBytes;
constexpr int kTileRows = 32;
constexpr uint32_t kThreads = 256;
constexpr uint64_t kMostBlocks = 0x7FFFFFFF;  // of a grid's first axis
// No pixel is narrower than one of a prototype, and its centre lies between two of those.
constexpr uint32_t kMostLogits = (kTileColumns + 2) * (kTileRows + 2);

struct TileShared {
  MaskTap columns[kTileColumns];
  MaskTap rows[kTileRows];
  float logits[kMostLogits];
};

// The prototypes of one image, and the coefficients of one of its detections.
struct MaskSource {
  const HeadImage& head;
  const KeypointColumns& coefficients;
  const MaskAxes& axes;
  uint32_t anchor;

  // Added in the order of the prototypes.
  __device__ float Logit(uint32_t row, uint32_t column) const {
    const auto width = static_cast<uint64_t>(axes.x.prototypes);
    const uint64_t plane = width * static_cast<uint64_t>(axes.y.prototypes);
    const uint64_t pixel = row * width + column;
    float sum = 0.0F;
    for (uint32_t m = 0; m < coefficients.count; ++m) {
      const uint64_t place = uint64_t{coefficients.first_row + m} * head.rows + anchor;
      sum += ReadValue(head, 0, place) * ReadValue(head, 1, m * plane + pixel);
    }
    return SettledLogit(sum);
  }
};

__device__ PixelRange Common(const PixelRange& a, const PixelRange& b) {
  return {max(a.begin, b.begin), min(a.end, b.end)};
}

// A range's prototype pixels. It is not empty.
__device__ PixelRange PrototypesOf(const MaskAxis& axis, const PixelRange& pixels) {
  return {TapAt(axis, pixels.begin).first, TapAt(axis, pixels.end - 1).second + 1};
}

// The part of a mask that a block makes, and what of it lies in the detection's box.
struct Tile {
  PixelRange columns, rows, bytes;
  PixelRange inside_columns, inside_rows;

  __device__ bool empty() const { return inside_columns.empty() || inside_rows.empty(); }
};

__device__ Tile MakeTile(const MaskBatch& masks, uint32_t number, const float4& box) {
  const auto row_bytes = static_cast<int>(masks.row_bytes);
  const int across = (row_bytes + kTileBytes - 1) / kTileBytes;
  const int left = static_cast<int>(number) % across * kTileBytes;
  const int top = static_cast<int>(number) / across * kTileRows;
  Tile tile;
  tile.bytes = {left, min(left + kTileBytes, row_bytes)};
  tile.columns = {8 * left, min(8 * (left + kTileBytes), masks.axes.x.pixels)};
  tile.rows = {top, min(top + kTileRows, masks.axes.y.pixels)};
  const float x = masks.box_units[0];
  const float y = masks.box_units[1];
  tile.inside_columns =
      Common(tile.columns, PixelsBetween(box.x * x, box.z * x, masks.axes.x.pixels));
  tile.inside_rows = Common(tile.rows, PixelsBetween(box.y * y, box.w * y, masks.axes.y.pixels));
  return tile;
}

// Where prototype pixel (row, column) is in TileShared::logits.
struct LogitWindow {
  PixelRange columns, rows;

  __device__ float At(const float* logits, int row, int column) const {
    return logits[static_cast<uint32_t>(row - rows.begin) * columns.size() +
                  static_cast<uint32_t>(column - columns.begin)];
  }
};

// The logits below the tile. The first that is not finite is noted: detection, then place.
__device__ LogitWindow MakeLogits(const MaskSource& source, const Tile& tile, uint32_t detection,
                                  CandidateState& state, TileShared& shared) {
  const LogitWindow window = {PrototypesOf(source.axes.x, tile.inside_columns),
                              PrototypesOf(source.axes.y, tile.inside_rows)};
  const uint32_t width = window.columns.size();
  for (uint32_t i = threadIdx.x; i < width * window.rows.size(); i += kThreads) {
    const MaskPlace place = {static_cast<uint32_t>(window.rows.begin) + i / width,
                             static_cast<uint32_t>(window.columns.begin) + i % width};
    const float logit = source.Logit(place.row, place.column);
    shared.logits[i] = logit;
    if (IsFinite(logit)) continue;
    const uint64_t number = uint64_t{detection} << 32U | place.number();
    // Where a network gives nothing but NaN, nearly all threads come here, and few with a greater
    // one.
    const auto noted = *static_cast<volatile unsigned long long*>(&state.bad_logit);
    if (~number > noted) atomicMax(&state.bad_logit, static_cast<unsigned long long>(~number));
  }
  return window;
}

__device__ void MakeTaps(const MaskAxes& axes, const Tile& tile, TileShared& shared) {
  const auto t = static_cast<int>(threadIdx.x);
  if (t < tile.inside_columns.end - tile.columns.begin) {
    shared.columns[t] = TapAt(axes.x, tile.columns.begin + t);
  }
  if (t < tile.inside_rows.end - tile.rows.begin) {
    shared.rows[t] = TapAt(axes.y, tile.rows.begin + t);
  }
}

// The byte whose first pixel is `first` in the tile, of a row that is inside.
__device__ uint8_t PackByte(const Tile& tile, const LogitWindow& window, const TileShared& shared,
                            const MaskTap& row, int first) {
  uint32_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    const int x = tile.columns.begin + first + i;
    if (x < tile.inside_columns.begin || x >= tile.inside_columns.end) continue;
    const MaskTap& column = shared.columns[first + i];
    const float upper =
        Interpolate(window.At(shared.logits, row.first, column.first),
                    window.At(shared.logits, row.first, column.second), column.weight);
    const float lower =
        Interpolate(window.At(shared.logits, row.second, column.first),
                    window.At(shared.logits, row.second, column.second), column.weight);
    if (Interpolate(upper, lower, row.weight) > 0.0F) bits |= 0x80U >> i;
  }
  return static_cast<uint8_t>(bits);
}

// Calls write(row in the tile, byte in the tile, the byte's address) for each byte of the tile.
template <typename Write>
__device__ void ForEachByte(const MaskBatch& masks, const Tile& tile, uint8_t* mask, Write write) {
  const uint32_t width = tile.bytes.size();
  for (uint32_t i = threadIdx.x; i < width * tile.rows.size(); i += kThreads) {
    const auto row = static_cast<int>(i / width);
    const auto byte = static_cast<int>(i % width);
    const uint64_t line = static_cast<uint32_t>(tile.rows.begin + row);
    write(row, byte, mask + line * masks.row_bytes + tile.bytes.begin + byte);
  }
}

// Grid: x has the tiles of each of max_rows masks, y the images.
__global__ void __launch_bounds__(kThreads)
    WriteMasks(const __grid_constant__ HeadBatch heads,
               const __grid_constant__ DetectionBatch batch,
               const __grid_constant__ MaskBatch masks, uint32_t tiles) {
  __shared__ TileShared shared;
  const uint32_t image = blockIdx.y;
  const uint32_t detection = blockIdx.x / tiles;
  uint8_t* packed = batch.images[image].masks;
  if (packed == nullptr) return;
  const uint64_t bytes = uint64_t{masks.row_bytes} * static_cast<uint32_t>(masks.axes.y.pixels);
  uint8_t* mask = packed + detection * bytes;
  const uint32_t rows = batch.kept_rows[image];
  const bool is_there = rows != kNoRows && detection < rows;
  const size_t kept = size_t{image} * batch.kept_capacity + detection;
  const float4 box = is_there ? static_cast<const NmsBox*>(batch.kept)[kept].xyxy : float4{};
  const Tile tile = MakeTile(masks, blockIdx.x % tiles, box);
  if (!is_there || tile.empty()) {
    ForEachByte(masks, tile, mask, [](int /*row*/, int /*byte*/, uint8_t* to) { *to = 0; });
    return;
  }
  const MaskSource source = {heads.images[image], batch.keypoints, masks.axes,
                             batch.kept_anchors[kept]};
  MakeTaps(masks.axes, tile, shared);
  const LogitWindow window = MakeLogits(source, tile, detection, heads.states[image], shared);
  __syncthreads();
  ForEachByte(masks, tile, mask, [&](int row, int byte, uint8_t* to) {
    const int y = tile.rows.begin + row;
    const bool is_inside = y >= tile.inside_rows.begin && y < tile.inside_rows.end;
    *to = is_inside ? PackByte(tile, window, shared, shared.rows[row], 8 * byte) : 0;
  });
}

__device__ DetectionRecord LogitFault(const HeadBatch& heads, const DetectionBatch& batch,
                                      const MaskBatch& masks, uint32_t image) {
  const uint64_t number = ~uint64_t{heads.states[image].bad_logit};
  const auto detection = static_cast<uint32_t>(number >> 32U);
  const MaskPlace place = MaskPlace::Of(static_cast<uint32_t>(number));
  const uint32_t anchor = batch.kept_anchors[size_t{image} * batch.kept_capacity + detection];
  const MaskSource source = {heads.images[image], batch.keypoints, masks.axes, anchor};
  DetectionRecord record = Fault(DetectionFault::kMaskLogit, detection,
                                 source.Logit(place.row, place.column), place.number());
  record.input = static_cast<int32_t>(anchor);
  return record;
}

// A block for each image: mask_size, and an end to those that have failed now.
__global__ void __launch_bounds__(kThreads)
    SettleMasks(const __grid_constant__ HeadBatch heads,
                const __grid_constant__ DetectionBatch batch,
                const __grid_constant__ MaskBatch masks) {
  const uint32_t image = blockIdx.x;
  const bool had_failed = batch.kept_rows[image] == kNoRows;
  const bool fails = !had_failed && heads.states[image].bad_logit != 0;
  int32_t* size = masks.sizes[image];
  if (threadIdx.x == 0 && size != nullptr) {
    size[0] = had_failed || fails ? 0 : masks.axes.y.pixels;
    size[1] = had_failed || fails ? 0 : masks.axes.x.pixels;
  }
  if (!fails) return;
  const DetectionRecord record = LogitFault(heads, batch, masks, image);
  __syncthreads();  // before kept_rows changes
  WriteFault(heads, batch, image, record);
  const uint64_t bytes = uint64_t{masks.row_bytes} * static_cast<uint32_t>(masks.axes.y.pixels);
  uint8_t* packed = batch.images[image].masks;
  for (uint64_t i = threadIdx.x; i < bytes * batch.max_rows; i += kThreads) packed[i] = 0;
}

}  // namespace

void LaunchMasks(const DetectionLaunch& launch, cudaStream_t stream) {
  const MaskBatch& masks = launch.masks;
  const auto height = static_cast<uint32_t>(masks.axes.y.pixels);
  const uint32_t across = (masks.row_bytes + kTileBytes - 1) / kTileBytes;
  const uint32_t tiles = across * ((height + kTileRows - 1) / kTileRows);
  const auto images = static_cast<uint32_t>(launch.heads.count);
  const uint64_t blocks = uint64_t{tiles} * launch.detections.max_rows;
  if (blocks > kMostBlocks) {
    Fail(ErrorCode::kUnsupported, launch.detections.max_rows, " masks of ", masks.axes.x.pixels,
         "x", height, " pixels are too many for a GPU: lower max_detections");
  }
  Launch(WriteMasks, dim3(static_cast<uint32_t>(blocks), images), kThreads, 0, stream, launch.heads,
         launch.detections, masks, tiles);
  Launch(SettleMasks, images, kThreads, 0, stream, launch.heads, launch.detections, masks);
}

}  // namespace endcap
