// Instance masks: the implementations against each other, and RLE against packed bits.

#include "endcap/masks.h"

#include <cmath>

#include "agreement.h"

namespace endcap::fuzz {
namespace {

struct Scene {
  MaskPrototypes prototypes;
  MaskPlan plan;
  Geometry geometry;
  std::vector<float> prototype_values;
  std::vector<float> coefficients;
  std::vector<float> boxes;

  MaskDetections detections() const { return {coefficients, boxes, {}}; }
};

// The plan points into the scene.
void FillScene(FuzzInput& input, Scene& scene) {
  Noise noise(input.Word(2));
  MaskPrototypes& prototypes = scene.prototypes;
  prototypes.count = input.Int(1, 6);
  prototypes.height = input.Int(1, 24);
  prototypes.width = input.Int(1, 40);
  const int steps = input.Pick(std::array{2, 15, 1 << 20});
  scene.prototype_values.resize(static_cast<size_t>(prototypes.count) *
                                static_cast<size_t>(prototypes.height) *
                                static_cast<size_t>(prototypes.width));
  for (float& value : scene.prototype_values) value = noise.Number(-1.0, 1.0, steps);
  if (input.Happens(64)) Disturb(input, scene.prototype_values);
  prototypes.data = scene.prototype_values.data();

  MaskPlan& plan = scene.plan;
  plan.resolution = input.PickEnum(MaskResolution::kSource);
  plan.input_height = input.Int(1, 64);
  plan.input_width = input.Int(1, 64);
  if (input.Bool()) {
    Geometry& geometry = scene.geometry;
    geometry.scale_x = static_cast<float>(input.Number(0.01, 3.0));
    geometry.scale_y = static_cast<float>(input.Number(0.01, 3.0));
    geometry.pad_x = static_cast<float>(input.Number(-40.0, 40.0));
    geometry.pad_y = static_cast<float>(input.Number(-40.0, 40.0));
    geometry.image_w = static_cast<float>(input.Int(1, 80));
    geometry.image_h = static_cast<float>(input.Int(1, 60));
    if (input.Happens(16)) {
      std::array<float, Geometry::kSize> values = geometry.ToArray();
      // Not the sizes: a mask of many pixels tells no more than a small one.
      values[input.Size(3)] = input.AnyFloat();
      geometry = Geometry::FromArray(values.data());
    }
    plan.geometry = &geometry;
  }

  const int count = input.Int(0, 3);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < prototypes.count; ++k) {
      scene.coefficients.push_back(noise.Number(-2.0, 2.0, steps));
    }
    const double left = input.Number(-20.0, 70.0);
    const double top = input.Number(-20.0, 70.0);
    scene.boxes.push_back(static_cast<float>(left));
    scene.boxes.push_back(static_cast<float>(top));
    scene.boxes.push_back(static_cast<float>(left + input.Number(-2.0, 90.0)));
    scene.boxes.push_back(static_cast<float>(top + input.Number(-2.0, 90.0)));
  }
  if (input.Happens(64)) Disturb(input, scene.coefficients);
  if (input.Happens(64)) Disturb(input, scene.boxes);
}

Outcome Pack(const Scene& scene, Implementation implementation) {
  return Capture([&](Outcome& outcome) {
    const MaskSize size = ComputeMaskSize(scene.prototypes, scene.plan);
    std::vector<uint8_t> bits(scene.boxes.size() / 4 * size.packed_bytes());
    WritePackedMasks(scene.prototypes, scene.detections(), scene.plan, implementation, bits.data());
    outcome.Add(bits);
  });
}

Outcome Encode(const Scene& scene, Implementation implementation) {
  return Capture([&](Outcome& outcome) {
    std::vector<std::string> rle;
    EncodeMasks(scene.prototypes, scene.detections(), scene.plan, implementation, rle);
    const MaskSize size = ComputeMaskSize(scene.prototypes, scene.plan);
    std::vector<uint8_t> columns(size.pixels());
    const auto height = static_cast<size_t>(size.height);
    for (const std::string& text : rle) {
      DecodeRle(text, columns);
      std::vector<uint8_t> bits(size.packed_bytes());
      for (size_t i = 0; i < columns.size(); ++i) {
        const size_t x = i / height;
        const auto bit = static_cast<uint8_t>(columns[i] << (7 - x % 8));
        bits[i % height * size.packed_row_bytes() + x / 8] |= bit;
      }
      outcome.Add(bits);
    }
  });
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  Scene scene;
  FillScene(input, scene);
  const Outcome packed = Pack(scene, Implementation::kScalar);
  RequireEqual(packed, Encode(scene, Implementation::kScalar),
               "packed bits against run lengths, scalar");
  if (target.empty()) return 0;
  ForceSimdTarget(target);
  RequireEqual(packed, Pack(scene, Implementation::kSimd), "packed bits, scalar against simd");
  RequireEqual(packed, Encode(scene, Implementation::kSimd), "run lengths, scalar against simd");
  return 0;
}
