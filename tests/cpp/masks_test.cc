// Masks by every target against the scalar implementation, which tests/python/core/test_masks.py
// holds to the reference.

#include "endcap/masks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "endcap/error.h"
#include "error_matchers.h"

namespace endcap {
namespace {

constexpr MaskResolution kResolutions[] = {MaskResolution::kPrototype, MaskResolution::kInput,
                                           MaskResolution::kSource};

struct Scene {
  int count, height, width;
  int input_height, input_width;
  Geometry geometry;
  std::vector<float> prototypes, coefficients, boxes;

  size_t detections() const { return boxes.size() / 4; }
};

struct Masks {
  std::vector<uint8_t> packed;
  std::vector<std::string> rle;
  std::string error;

  bool operator==(const Masks&) const = default;
};

Masks Make(const Scene& scene, MaskResolution resolution, Implementation implementation) {
  // Of exactly its size, so that a read beyond the end can be seen.
  const MaskPrototypes prototypes{scene.prototypes.data(), scene.count, scene.height, scene.width};
  const MaskDetections detections{scene.coefficients, scene.boxes, {}};
  const MaskPlan plan{resolution, scene.input_height, scene.input_width, &scene.geometry};
  Masks masks;
  try {
    EncodeMasks(prototypes, detections, plan, implementation, masks.rle);
    const MaskSize size = ComputeMaskSize(prototypes, plan);
    masks.packed.resize(scene.detections() * size.packed_bytes());
    WritePackedMasks(prototypes, detections, plan, implementation, masks.packed.data());
  } catch (const Error& error) {
    masks = {{}, {}, error.what()};
  }
  return masks;
}

void ExpectEqualImplementations(const Scene& scene) {
  for (const MaskResolution resolution : kResolutions) {
    const Masks expected = Make(scene, resolution, Implementation::kScalar);
    for (const std::string_view target : SimdTargets()) {
      ForceSimdTarget(target);
      EXPECT_EQ(SimdTarget(), target);
      const Masks masks = Make(scene, resolution, Implementation::kSimd);
      EXPECT_TRUE(masks == expected)
          << target << ", resolution " << static_cast<int>(resolution) << ", " << scene.count
          << " prototypes of " << scene.height << "x" << scene.width << "; scalar: '"
          << expected.error << "', simd: '" << masks.error << "'";
    }
    ForceSimdTarget("");
  }
}

Geometry Letterboxed(int image_h, int image_w, int input_h, int input_w) {
  Geometry geometry;
  const float scale = std::min(static_cast<float>(input_h) / static_cast<float>(image_h),
                               static_cast<float>(input_w) / static_cast<float>(image_w));
  geometry.scale_x = geometry.scale_y = scale;
  geometry.pad_x = (static_cast<float>(input_w) - scale * static_cast<float>(image_w)) / 2.0F;
  geometry.pad_y = (static_cast<float>(input_h) - scale * static_cast<float>(image_h)) / 2.0F;
  geometry.image_w = static_cast<float>(image_w);
  geometry.image_h = static_cast<float>(image_h);
  return geometry;
}

using Value = std::function<float(std::mt19937&)>;

float Normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }

Scene Random(unsigned seed, int count, int height, int width, size_t detections,
             const Value& value = Normal) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> side(1, 400);
  Scene scene{count, height, width, 4 * height, 4 * width, {}, {}, {}, {}};
  scene.geometry = Letterboxed(side(random), side(random), 4 * height, 4 * width);
  for (int i = 0; i < count * height * width; ++i) scene.prototypes.push_back(value(random));
  for (size_t n = 0; n < detections; ++n) {
    for (int m = 0; m < count; ++m) scene.coefficients.push_back(Normal(random));
    for (const int length : {scene.input_width, scene.input_height}) {
      std::uniform_real_distribution<float> place(-0.2F, 1.2F);
      scene.boxes.push_back(static_cast<float>(length) * place(random));
    }
    for (const int length : {scene.input_width, scene.input_height}) {
      std::uniform_real_distribution<float> place(0.2F, 1.2F);
      scene.boxes.push_back(static_cast<float>(length) * place(random));
    }
  }
  return scene;
}

// Signs are kept in words of 64 rows.
TEST(MaskSimd, EqualsScalarAroundWords) {
  for (int height = 60; height <= 68; ++height) {
    ExpectEqualImplementations(Random(static_cast<unsigned>(height), 4, height, 9, 6));
  }
  ExpectEqualImplementations(Random(1, 3, 130, 20, 8));
}

// Between two rows of the smallest number, halfway, there is 0.
TEST(MaskSimd, EqualsScalarWhereASignIsLost) {
  Scene scene = Random(6, 1, 40, 40, 0, [](std::mt19937&) { return 1e-45F; });
  scene.geometry = {8.0F / 3.0F, 8.0F, 0.0F, 0.0F, 60.0F, 20.0F, 1.0F, 0.0F};
  scene.coefficients = {1.0F};
  scene.boxes = {0, 0, 160, 160};
  const std::string_view nothing = "`U1";  // 1200 pixels
  EXPECT_NE(Make(scene, MaskResolution::kInput, Implementation::kScalar).rle[0], nothing);
  ExpectEqualImplementations(scene);
}

TEST(MaskSimd, EqualsScalarOnAnImageOfManyDetections) {
  ExpectEqualImplementations(Random(5, 32, 48, 80, 300));
}

TEST(Masks, HaveNoImplementationOnAGpu) {
  const Scene scene = Random(7, 1, 4, 4, 1);
  EXPECT_NE(Make(scene, MaskResolution::kInput, Implementation::kCuda)
                .error.find("no implementation on a GPU"),
            std::string::npos);
}

TEST(Masks, NeedAsManyIndicesAsDetections) {
  const Scene scene = Random(8, 2, 4, 4, 2);
  const MaskPrototypes prototypes{scene.prototypes.data(), 2, 4, 4};
  const std::vector<int32_t> indices = {7};
  std::vector<std::string> rle;
  EXPECT_TRUE(testing::Throws(ErrorCode::kInvalidArgument, "1 indices", [&] {
    EncodeMasks(prototypes, {scene.coefficients, scene.boxes, indices},
                {MaskResolution::kInput, 16, 16, nullptr}, Implementation::kScalar, rle);
  }));
}

}  // namespace
}  // namespace endcap
