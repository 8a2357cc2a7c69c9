#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/map_box.h"
#include "common/score_order.h"
#include "common/steady_clock.h"
#include "endcap/nms.h"
#include "endcap/postprocess.h"
#include "endcap/thread_pool.h"
#include "postprocess/device.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

// Returns the time of a stage that began at `last_ns`, where the next one begins.
int64_t EndStage(int64_t& last_ns) {
  const int64_t now = SteadyNowNs();
  return now - std::exchange(last_ns, now);
}

std::optional<Geometry> ReadGeometry(const float* values) {
  if (values == nullptr) return std::nullopt;
  for (int i = 0; i < Geometry::kSize; ++i) {
    if (!std::isfinite(values[i])) FailArgument("geometry is not finite at element ", i);
  }
  const Geometry geometry = Geometry::FromArray(values);
  if (geometry.scale_x <= 0.0F || geometry.scale_y <= 0.0F) {
    FailArgument("geometry has scales ", geometry.scale_x, " and ", geometry.scale_y,
                 ": both must be greater than 0");
  }
  if (geometry.image_w < 0.0F || geometry.image_h < 0.0F) {
    FailArgument("geometry has an image of ", geometry.image_w, "x", geometry.image_h, " pixels");
  }
  return geometry;
}

// Memory that a thread keeps from item to item.
struct ItemScratch {
  Candidates candidates;
  std::vector<int64_t> kept;
  ClassScores classes;
  ExtraScratch extras;

  void Trim() {
    TrimScratch(candidates.boxes_xyxy, candidates.scores, candidates.class_ids, candidates.indices,
                kept, classes.probabilities);
    extras.Trim();
  }
};

// extras.boxes: the candidates of a head with angles.
void Suppress(const PostprocessParams& params, const Candidates& candidates,
              const ExtraScratch& extras, std::vector<int64_t>& kept) {
  const std::span<const int32_t> classes =
      params.class_agnostic ? std::span<const int32_t>{} : candidates.class_ids;
  if (!NeedsNms(params.head.family)) {
    kept.resize(candidates.size());
    std::iota(kept.begin(), kept.end(), int64_t{0});
  } else if (HasAngles(params.head)) {
    NmsRotated(extras.boxes, candidates.scores, classes,
               {params.iou_threshold, params.max_detections, params.rotated_nms}, kept);
  } else {
    Nms(candidates.boxes_xyxy, candidates.scores, classes,
        {params.iou_threshold, params.max_detections}, kept);
  }
}

// Whether candidate `i` has an area in the source image.
bool HasArea(const PostprocessParams& params, const Geometry& geometry, const ItemScratch& scratch,
             size_t i) {
  if (!HasAngles(params.head)) {
    return HasMappedArea(geometry, scratch.candidates.boxes_xyxy.data() + 4 * i);
  }
  const float* xywhr = scratch.extras.boxes.data() + 5 * i;
  return xywhr[2] > 0.0F && xywhr[3] > 0.0F;
}

void RemoveWithoutArea(const PostprocessParams& params, const Geometry& geometry,
                       ItemScratch& scratch) {
  Candidates& candidates = scratch.candidates;
  std::vector<float>& xywhr = scratch.extras.boxes;
  const bool has_angles = HasAngles(params.head);
  size_t to = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!HasArea(params, geometry, scratch, i)) continue;
    std::copy_n(candidates.boxes_xyxy.data() + 4 * i, 4, candidates.boxes_xyxy.data() + 4 * to);
    candidates.scores[to] = candidates.scores[i];
    candidates.class_ids[to] = candidates.class_ids[i];
    candidates.indices[to] = candidates.indices[i];
    if (has_angles) std::copy_n(xywhr.data() + 5 * i, 5, xywhr.data() + 5 * to);
    ++to;
  }
  candidates.boxes_xyxy.resize(4 * to);
  candidates.scores.resize(to);
  candidates.class_ids.resize(to);
  candidates.indices.resize(to);
  if (has_angles) xywhr.resize(5 * to);
}

// Fills scratch.kept. With a geometry, boxes without an area in the source image are no candidates:
// they suppress nothing and take no row.
void Select(const PostprocessParams& params, const Geometry* geometry, ItemScratch& scratch) {
  if (geometry != nullptr && HasAngles(params.head)) RemoveWithoutArea(params, *geometry, scratch);
  Suppress(params, scratch.candidates, scratch.extras, scratch.kept);
  if (geometry == nullptr || HasAngles(params.head)) return;
  // Axis-aligned boxes without an area matter only if they are kept, which is rare: then again.
  const size_t rows = std::min(scratch.kept.size(), static_cast<size_t>(params.max_detections));
  const auto has_area = [&](int64_t i) {
    return HasArea(params, *geometry, scratch, static_cast<size_t>(i));
  };
  if (std::ranges::all_of(std::span(scratch.kept).first(rows), has_area)) return;
  RemoveWithoutArea(params, *geometry, scratch);
  Suppress(params, scratch.candidates, scratch.extras, scratch.kept);
}

void Detect(const PostprocessParams& params, const PostprocessInput& input,
            const PostprocessOutput& output, ItemScratch& scratch, PostprocessItem& item) {
  const auto geometry = ReadGeometry(input.geometry);
  const Candidates& candidates = scratch.candidates;
  item.start_ns = SteadyNowNs();
  int64_t last_ns = item.start_ns;
  BoxDecode(params.head, input.head, scratch.candidates);
  if (HasAngles(params.head)) {
    ReadRotatedBoxes(params.head, input.head, candidates.indices, scratch.extras.boxes);
  }
  item.box_decode_ns = EndStage(last_ns);
  const Geometry* placed = geometry ? &*geometry : nullptr;
  Select(params, placed, scratch);
  item.nms_ns = EndStage(last_ns);
  item.truncated = candidates.truncated;
  item.dropped = candidates.dropped;
  item.num_detections = WriteDetections(params, candidates, scratch.kept, placed, output);
  const auto rows = std::span(scratch.kept).first(static_cast<size_t>(item.num_detections));
  WriteExtras(params, input, {candidates, rows, placed}, scratch.extras, output);
  item.output_ns = EndStage(last_ns);
}

void ClassifyItem(const PostprocessParams& params, const PostprocessInput& input,
                  const PostprocessOutput& output, ItemScratch& scratch, PostprocessItem& item) {
  if (input.head.size() != 1) {
    FailArgument("head classification came with ", input.head.size(), " tensors: it needs 1");
  }
  item.start_ns = SteadyNowNs();
  Classify(params.head, input.head[0], scratch.classes);
  WriteClasses(scratch.classes, output);
  item.box_decode_ns = SteadyNowNs() - item.start_ns;
}

PostprocessItem RunItem(const PostprocessParams& params, const PostprocessInput& input,
                        const PostprocessOutput& output) noexcept {
  PostprocessItem item;
  WriteEmpty(params, output, input.status);
  if (input.status != 0) return item;
  try {
    thread_local ItemScratch scratch;
    const TrimOnExit trim(scratch);
    if (IsClassification(params.head.family)) {
      ClassifyItem(params, input, output, scratch, item);
    } else if (IsSemantic(params.head.family)) {
      item.start_ns = SteadyNowNs();
      WriteClassMap(params, input, output);
      item.box_decode_ns = SteadyNowNs() - item.start_ns;
    } else {
      Detect(params, input, output, scratch, item);
    }
  } catch (...) {
    item = {};
    item.status = MakeStatusFromCurrentException();
    WriteEmpty(params, output, static_cast<int32_t>(item.status.code));
  }
  return item;
}

class CpuPostprocess final : public PostprocessDevice {
 public:
  CpuPostprocess(const PostprocessParams& params, int threads) : params_(params), pool_(threads) {}

  int threads() const noexcept override { return pool_.thread_count(); }

  std::vector<PostprocessItem> Run(std::span<const PostprocessInput> inputs,
                                   std::span<const PostprocessOutput> outputs,
                                   void* /*stream*/) override {
    if (params_.merge == Merge::kNone) return RunItems(inputs, outputs);
    std::vector<PostprocessItem> items;
    items.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      items.push_back(MergeTiles(
          params_, inputs[i], outputs[i],
          [this](auto tiles, auto tile_outputs) { return RunItems(tiles, tile_outputs); }));
    }
    return items;
  }

  void Enqueue(std::span<const PostprocessInput> inputs, std::span<const PostprocessOutput> outputs,
               void* stream) override {
    Run(inputs, outputs, stream);
  }

 private:
  std::vector<PostprocessItem> RunItems(std::span<const PostprocessInput> inputs,
                                        std::span<const PostprocessOutput> outputs) {
    std::vector<PostprocessItem> items(inputs.size());
    const auto run = [&](int i) {
      const auto index = static_cast<size_t>(i);
      items[index] = RunItem(params_, inputs[index], outputs[index]);
    };
    // By reference, a std::function needs no memory.
    pool_.ParallelFor(static_cast<int>(inputs.size()), std::cref(run));
    return items;
  }

  PostprocessParams params_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<PostprocessDevice> MakeCpuPostprocess(const PostprocessParams& params,
                                                      int threads) {
  return std::make_unique<CpuPostprocess>(params, threads);
}

}  // namespace endcap
