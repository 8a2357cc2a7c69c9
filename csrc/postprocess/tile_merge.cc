#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/steady_clock.h"
#include "endcap/nms.h"
#include "nms/iou.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

// Memory for the detections of tiles; of masks and keypoints for what the image's outputs want.
struct TileOutputs {
  TileOutputs(const PostprocessParams& params, size_t tiles, const PostprocessOutput& image)
      : rle(image.rle != nullptr ? tiles : 0), outputs(tiles) {
    for (const TensorSpec& spec : PostprocessOutputs(params)) {
      const size_t at = memory.size();
      TensorView view{nullptr, spec.dtype, spec.shape, spec.rank};
      const bool used =
          at < kExtraOutput || HasAngles(params.head) || image.tensors[at].data != nullptr;
      memory.emplace_back(used ? tiles * view.size_bytes() : 0);
      for (size_t i = 0; i < tiles; ++i) {
        if (used) view.data = memory.back().data() + i * view.size_bytes();
        outputs[i].tensors.push_back(view);
      }
    }
    for (size_t i = 0; i < rle.size(); ++i) outputs[i].rle = &rle[i];
  }

  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<std::string>> rle;
  std::vector<PostprocessOutput> outputs;  // of each tile
};

// The detections of all tiles, tile after tile.
struct Found {
  std::vector<float> boxes;  // xyxy [N][4], pixels of the image
  std::vector<float> xywhr;  // [N][5] of a head with angles
  std::vector<float> scores;
  std::vector<int32_t> classes;                   // without class_agnostic
  std::vector<std::pair<size_t, size_t>> places;  // tile and row

  void Add(const PostprocessParams& params, const PostprocessOutput& tile, size_t number,
           size_t count) {
    for (size_t row = 0; row < count; ++row) {
      const float* box = Output<float>(tile, kBoxesOutput) + 4 * row;
      boxes.insert(boxes.end(), box, box + 4);
      scores.push_back(Output<float>(tile, kScoresOutput)[row]);
      if (!params.class_agnostic) classes.push_back(Output<int32_t>(tile, kClassesOutput)[row]);
      places.emplace_back(number, row);
      if (!HasAngles(params.head)) continue;
      xywhr.insert(xywhr.end(), {(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0],
                                 box[3] - box[1], Output<float>(tile, kExtraOutput)[row]});
    }
  }
};

// As endcap/nms.h has it, float32 compared as double; boxes that do not overlap never match.
bool Matches(const PostprocessParams& params, const float* a, const float* b) {
  const float intersection = BoxIntersection(a, b);
  if (!(intersection > 0.0F)) return false;
  const bool is_iou = params.merge_metric == MergeMetric::kIou;
  const double overlap = intersection / (is_iou ? BoxArea(a) + BoxArea(b) - intersection
                                                : std::min(BoxArea(a), BoxArea(b)));
  return overlap > params.merge_threshold ||
         (params.merge == Merge::kNmm && overlap == params.merge_threshold);
}

// Returns the kept boxes, best first, and enlarges them in `united`, a copy of found.boxes. The
// order of kNms is that of endcap/nms.h. kNmm is GREEDYNMM of SAHI 0.12: boxes by score, equal ones
// by x1, y1, x2, y2. A box that none has taken is kept, and takes all later ones whose overlap with
// it, as it was found, is at least the threshold. In this order they are united with it where their
// overlap with the union so far is that large, too, and dropped elsewhere.
std::vector<int64_t> Keep(const PostprocessParams& params, const Found& found,
                          std::vector<float>& united) {
  if (HasAngles(params.head)) {
    return NmsRotated(found.xywhr, found.scores, found.classes,
                      {params.merge_threshold, params.max_detections, params.rotated_nms});
  }
  const bool unites = params.merge == Merge::kNmm;
  const auto box = [&](int64_t i) { return found.boxes.data() + 4 * i; };
  const auto score = [&](int64_t i) { return found.scores[static_cast<size_t>(i)]; };
  const auto same_class = [&](int64_t a, int64_t b) {
    return found.classes.empty() ||
           found.classes[static_cast<size_t>(a)] == found.classes[static_cast<size_t>(b)];
  };
  std::vector<int64_t> order(found.scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    if (score(a) != score(b) || !unites) return score(a) > score(b);
    return std::lexicographical_compare(box(a), box(a) + 4, box(b), box(b) + 4);
  });
  std::vector<int64_t> kept;
  for (const int64_t i : order) {
    const auto taker = std::ranges::find_if(
        kept, [&](int64_t k) { return same_class(k, i) && Matches(params, box(k), box(i)); });
    if (taker == kept.end()) {
      if (std::ssize(kept) < params.max_detections) kept.push_back(i);
      continue;
    }
    float* whole = united.data() + 4 * *taker;
    if (!unites || !Matches(params, whole, box(i))) continue;
    for (int side = 0; side < 2; ++side) {
      whole[side] = std::min(whole[side], box(i)[side]);
      whole[side + 2] = std::max(whole[side + 2], box(i)[side + 2]);
    }
  }
  return kept;
}

// Writes a detection of a tile to a row of the image; masks come row after row.
void CopyRow(const PostprocessParams& params, const PostprocessOutput& tile, size_t from,
             const PostprocessOutput& image, size_t to) {
  for (size_t at = kBoxesOutput; at + 1 < image.tensors.size(); ++at) {
    auto* data = Output<std::byte>(image, at);
    if (data == nullptr || (at == kExtraOutput && GivesRle(params))) continue;  // mask_size
    const auto rows = static_cast<size_t>(params.max_detections);
    const size_t bytes = image.tensors[at].size_bytes() / rows;
    std::memcpy(data + to * bytes, Output<std::byte>(tile, at) + from * bytes, bytes);
  }
  if (image.rle != nullptr) image.rle->push_back((*tile.rle)[from]);
}

// Returns the number of detections.
int Write(const PostprocessParams& params, const PostprocessInput& image, const Found& found,
          std::span<const PostprocessOutput> tiles, const PostprocessOutput& output) {
  const HeadFamilyInfo& family = GetFamily(params.head.family);
  const int64_t anchors = image.tiles[0].head[family.rows_input].shape[family.rows_axis];
  std::vector<float> united = found.boxes;
  const std::vector<int64_t> kept = Keep(params, found, united);
  for (size_t to = 0; to < kept.size(); ++to) {
    const auto [tile, row] = found.places[static_cast<size_t>(kept[to])];
    CopyRow(params, tiles[tile], row, output, to);
    if (auto* boxes = Output<float>(output, kBoxesOutput)) {
      std::copy_n(united.data() + 4 * kept[to], 4, boxes + 4 * to);
    }
    if (auto* indices = Output<int32_t>(output, kIndicesOutput)) {
      indices[to] += static_cast<int32_t>(static_cast<int64_t>(tile) * anchors);
    }
  }
  const TensorView& extra = output.tensors[kExtraOutput];
  if (GivesRle(params) && extra.data != nullptr) {  // mask_size, that of the image
    std::memcpy(extra.data, Output<std::byte>(tiles[0], kExtraOutput), extra.size_bytes());
  }
  const auto count = static_cast<int32_t>(kept.size());
  if (auto* written = Output<int32_t>(output, kNumOutput)) *written = count;
  return count;
}

void CheckGeometries(std::span<const PostprocessInput> tiles) {
  for (size_t i = 0; i < tiles.size(); ++i) {
    const float* image_size = tiles[i].geometry == nullptr ? nullptr : tiles[i].geometry + 4;
    if (image_size != nullptr && std::equal(image_size, image_size + 2, tiles[0].geometry + 4)) {
      continue;
    }
    FailArgument("tile ", i, " has no geometry, or that of another image than tile 0: merge needs ",
                 "the tiles of one image with their geometry");
  }
}

}  // namespace

PostprocessItem MergeTiles(const PostprocessParams& params, const PostprocessInput& image,
                           const PostprocessOutput& output, const RunTiles& run) {
  const auto failed = std::ranges::find_if(image.tiles, &PostprocessInput::status);
  WriteEmpty(params, output, failed == image.tiles.end() ? 0 : failed->status);
  PostprocessItem item;
  if (failed != image.tiles.end()) return item;
  item.start_ns = SteadyNowNs();
  const TileOutputs tiles(params, image.tiles.size(), output);
  const std::vector<PostprocessItem> items = run(image.tiles, tiles.outputs);
  try {
    Found found;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].status.ok()) {
        Fail(items[i].status.code, "tile ", i, " of ", items.size(), ": ", items[i].status.message);
      }
      item.truncated |= items[i].truncated;
      item.dropped += items[i].dropped;
      found.Add(params, tiles.outputs[i], i, static_cast<size_t>(items[i].num_detections));
    }
    item.box_decode_ns = SteadyNowNs() - item.start_ns;
    CheckGeometries(image.tiles);
    item.num_detections = Write(params, image, found, tiles.outputs, output);
    item.nms_ns = SteadyNowNs() - item.start_ns - item.box_decode_ns;
  } catch (...) {
    item = {};
    item.status = MakeStatusFromCurrentException();
    WriteEmpty(params, output, static_cast<int32_t>(item.status.code));
  }
  return item;
}

}  // namespace endcap
