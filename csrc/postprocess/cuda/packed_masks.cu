#include "cuda_runtime/launch.h"
#include "postprocess/cuda/kernels.h"
#include "postprocess/cuda/mask_logits.cuh"

// Packed masks: the definition is masks/masks_scalar.cc, pixel by pixel. A block
// makes a tile of one mask: the logits of the prototype pixels below it, once, in shared memory;
// then its bytes. Where prototypes are larger than the mask, and too many lie below a tile, each
// pixel makes its own.

namespace endcap {
namespace {

constexpr int kTileBytes = 16;
constexpr int kTileColumns = 8 * kTileBytes;
constexpr int kTileRows = 32;
constexpr uint32_t kPackThreads = 256;
constexpr uint64_t kMaxBlocks = 0x7FFFFFFF;  // of a grid's first axis
// Where no pixel is narrower than one of a prototype: its centre lies between two of those.
constexpr uint32_t kMaxLogits = (kTileColumns + 2) * (kTileRows + 2);

struct TileShared {
  MaskTap columns[kTileColumns];
  MaskTap rows[kTileRows];
  float logits[kMaxLogits];
};

__device__ PixelRange Common(const PixelRange& a, const PixelRange& b) {
  return {max(a.begin, b.begin), min(a.end, b.end)};
}

// The part of a mask that a block makes, and what of it lies in the detection's box.
struct Tile {
  PixelRange columns, rows, bytes;
  PixelRange inside_columns, inside_rows;
  bool columns_follow, rows_follow;  // of the box, in another tile

  __device__ bool empty() const { return inside_columns.empty() || inside_rows.empty(); }
};

__device__ Tile MakeTile(const MaskBatch& masks, const DetectionImage& image, uint32_t number,
                         const float4& box) {
  const auto row_bytes = static_cast<int>(masks.row_bytes);
  const int across = (row_bytes + kTileBytes - 1) / kTileBytes;
  const int left = static_cast<int>(number) % across * kTileBytes;
  const int top = static_cast<int>(number) / across * kTileRows;
  Tile tile;
  tile.bytes = {left, min(left + kTileBytes, row_bytes)};
  tile.columns = {8 * left, min(8 * (left + kTileBytes), masks.axes.x.pixels)};
  tile.rows = {top, min(top + kTileRows, masks.axes.y.pixels)};
  const MaskPixels inside = GetPixels(masks, image, masks.axes, box);
  tile.inside_columns = Common(tile.columns, inside.columns);
  tile.inside_rows = Common(tile.rows, inside.rows);
  tile.columns_follow = inside.columns.end > tile.columns.end;
  tile.rows_follow = inside.rows.end > tile.rows.end;
  return tile;
}

// The prototype pixels below a range, and those between it and the range that follows.
__device__ PixelRange PrototypesUpTo(const MaskAxis& axis, const PixelRange& pixels, bool follows) {
  const PixelRange below = GetPrototypes(axis, pixels);
  return {below.begin, follows ? max(below.end, TapAt(axis, pixels.end).first) : below.end};
}

// The prototype pixels below a tile. Their logits are in TileShared::logits where there is room.
struct LogitWindow {
  PixelRange columns, rows;

  __device__ bool fits() const { return uint64_t{columns.size()} * rows.size() <= kMaxLogits; }
  __device__ float At(const float* logits, int row, int column) const {
    return logits[static_cast<uint32_t>(row - rows.begin) * columns.size() +
                  static_cast<uint32_t>(column - columns.begin)];
  }
};

// The logits below the tile. The first that is not finite is noted: detection, then place.
__device__ LogitWindow MakeTileLogits(const MaskSource& source, const Tile& tile,
                                      uint32_t detection, CandidateState& state,
                                      TileShared& shared) {
  const LogitWindow window = {
      PrototypesUpTo(source.axes.x, tile.inside_columns, tile.columns_follow),
      PrototypesUpTo(source.axes.y, tile.inside_rows, tile.rows_follow)};
  const uint32_t width = window.columns.size();
  const uint32_t count = width * window.rows.size();
  const bool fits = window.fits();
  for (uint32_t i = threadIdx.x; i < count; i += kPackThreads) {
    const MaskPlace place = {static_cast<uint32_t>(window.rows.begin) + i / width,
                             static_cast<uint32_t>(window.columns.begin) + i % width};
    const float logit = source.Logit(place.row, place.column);
    if (fits) shared.logits[i] = logit;
    if (!IsFinite(logit)) NoteBadLogit(state, detection, place);
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

// The byte whose first pixel is `first` in the tile, of a row that is inside. at(row, column): the
// logit of a prototype pixel, kUnroll pixels of which are worked on at once.
template <int kUnroll, typename At>
__device__ uint8_t PackByte(const Tile& tile, const TileShared& shared, const MaskTap& row,
                            int first, At at) {
  uint32_t bits = 0;
#pragma unroll kUnroll
  for (int i = 0; i < 8; ++i) {
    const int x = tile.columns.begin + first + i;
    if (x < tile.inside_columns.begin || x >= tile.inside_columns.end) continue;
    const MaskTap& column = shared.columns[first + i];
    const float upper =
        Interpolate(at(row.first, column.first), at(row.first, column.second), column.weight);
    const float lower =
        Interpolate(at(row.second, column.first), at(row.second, column.second), column.weight);
    if (Interpolate(upper, lower, row.weight) > 0.0F) bits |= 0x80U >> i;
  }
  return static_cast<uint8_t>(bits);
}

// Calls write(row in the tile, byte in the tile, the byte's address) for each byte of the tile.
template <typename Write>
__device__ void ForEachByte(const MaskBatch& masks, const Tile& tile, uint8_t* mask, Write write) {
  const uint32_t width = tile.bytes.size();
  for (uint32_t i = threadIdx.x; i < width * tile.rows.size(); i += kPackThreads) {
    const auto row = static_cast<int>(i / width);
    const auto byte = static_cast<int>(i % width);
    const uint64_t line = static_cast<uint32_t>(tile.rows.begin + row);
    write(row, byte, mask + line * masks.row_bytes + tile.bytes.begin + byte);
  }
}

// Grid: x has the tiles of each of max_rows masks, y the images.
__global__ void __launch_bounds__(kPackThreads)
    WritePacked(const __grid_constant__ HeadBatch heads,
                const __grid_constant__ DetectionBatch batch,
                const __grid_constant__ MaskBatch masks, uint32_t tiles) {
  __shared__ TileShared shared;
  const uint32_t image = blockIdx.y;
  const uint32_t detection = blockIdx.x / tiles;
  const DetectionImage& target = batch.images[image];
  if (target.masks == nullptr) return;
  const uint64_t bytes = uint64_t{masks.row_bytes} * static_cast<uint32_t>(masks.axes.y.pixels);
  uint8_t* mask = target.masks + detection * bytes;
  const uint32_t rows = batch.kept_rows[image];
  const bool is_there = rows != kNoRows && detection < rows;
  const size_t kept = size_t{image} * batch.kept_capacity + detection;
  const float4 box = is_there ? GetMaskBox(heads, batch, kept) : float4{};
  const Tile tile = MakeTile(masks, target, blockIdx.x % tiles, box);
  if (!is_there || tile.empty()) {
    ForEachByte(masks, tile, mask, [](int /*row*/, int /*byte*/, uint8_t* to) { *to = 0; });
    return;
  }
  const MaskSource source = MakeMaskSource(heads, batch, masks, masks.axes, image, detection);
  MakeTaps(masks.axes, tile, shared);
  const LogitWindow window = MakeTileLogits(source, tile, detection, heads.states[image], shared);
  __syncthreads();
  const auto write = [&]<int kUnroll>(auto at) {
    ForEachByte(masks, tile, mask, [&](int row, int byte, uint8_t* to) {
      const int y = tile.rows.begin + row;
      const bool is_inside = y >= tile.inside_rows.begin && y < tile.inside_rows.end;
      *to = is_inside ? PackByte<kUnroll>(tile, shared, shared.rows[row], 8 * byte, at) : 0;
    });
  };
  if (window.fits()) {
    write.template operator()<8>(
        [&](int row, int column) { return window.At(shared.logits, row, column); });
  } else {
    write.template operator()<1>([&](int row, int column) {
      return source.Logit(static_cast<uint32_t>(row), static_cast<uint32_t>(column));
    });
  }
}

}  // namespace

void LaunchPackedMasks(const DetectionLaunch& launch, cudaStream_t stream) {
  const MaskBatch& masks = launch.masks;
  const auto height = static_cast<uint32_t>(masks.axes.y.pixels);
  const uint32_t across = (masks.row_bytes + kTileBytes - 1) / kTileBytes;
  const uint32_t tiles = across * ((height + kTileRows - 1) / kTileRows);
  const auto images = static_cast<uint32_t>(launch.heads.count);
  const uint64_t blocks = uint64_t{tiles} * launch.detections.max_rows;
  if (blocks > kMaxBlocks) {
    Fail(ErrorCode::kUnsupported, launch.detections.max_rows, " masks of ", masks.axes.x.pixels,
         "x", height, " pixels are too many for a GPU: lower max_detections");
  }
  Launch(WritePacked, dim3(static_cast<uint32_t>(blocks), images), kPackThreads, 0, stream,
         launch.heads, launch.detections, masks, tiles);
}

}  // namespace endcap
