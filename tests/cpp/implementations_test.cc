// The vector implementations of decode and preprocess against the scalar ones, on every instruction
// set of the machine, in buffers that end where the tensor ends: under AddressSanitizer nothing is
// touched beyond.

#include <gtest/gtest.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <memory>
#include <string>

#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::OnCpu;
using testing::Results;

// Ends what a test forced.
class PathsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ForceImplementation("auto");
    ForceSimdTarget("");
  }
};

Bytes Run(const PreprocessParams& params, const ImageView& image) {
  const Results results = OnCpu(params, {image});
  EXPECT_EQ(results.items[0].status.code, ErrorCode::kOk) << results.items[0].status.message;
  return results.tensors[0];
}

void ExpectEqualImplementations(const PreprocessParams& params, const ImageView& image,
                                const std::string& what) {
  ForceImplementation("scalar");
  const Bytes expected = Run(params, image);
  ForceImplementation("simd");
  for (const std::string_view target : SimdTargets()) {
    ForceSimdTarget(target);
    EXPECT_TRUE(Run(params, image) == expected) << what << " on " << target;
  }
  for (const ImplementationInfo& entry : ListImplementations()) {
    if (entry.stage == Stage::kPreprocess && entry.implementation == Implementation::kSimd) {
      EXPECT_TRUE(entry.ran_last);
    }
  }
}

void ExpectEqualImplementations(const PreprocessParams& params, const Bytes& file,
                                const std::string& what) {
  // A copy of the very size of the file: bytes beyond it are nobody's.
  const auto bytes = std::make_unique<uint8_t[]>(file.size());
  std::copy(file.begin(), file.end(), bytes.get());
  ExpectEqualImplementations(params, ImageView::Encoded(bytes.get(), file.size()), what);
}

#if defined(__aarch64__)
TEST(SimdTargets, HaveNeonOnArm) {
  if ((getauxval(AT_HWCAP) & HWCAP_AES) == 0) GTEST_SKIP() << "this CPU has no AES instructions";
  EXPECT_EQ(SimdTargets(), std::vector<std::string_view>{"neon"});
  EXPECT_EQ(SimdTarget(), "neon");
}
#endif

bool HasTargets() { return !SimdTargets().empty(); }

TEST_F(PathsTest, EveryOrientationAndArithmetic) {
  if (!HasTargets()) GTEST_SKIP() << "this CPU has no SIMD target";
  for (int orientation = 1; orientation <= 8; ++orientation) {
    JpegOptions options;
    options.orientation = orientation;
    const Bytes file = MakeJpeg(45, 67, 3, options);
    for (const Fit fit : {Fit::kLetterbox, Fit::kStretch, Fit::kCenterCrop}) {
      for (const auto interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                       Interpolation::kBicubic, Interpolation::kArea}) {
        for (const bool antialias : {false, true}) {
          for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
            PreprocessParams params;
            params.fit = fit;
            params.height = 21;
            params.width = 30;
            params.resize_shorter = 33;
            params.interpolation = interpolation;
            params.antialias = antialias && interpolation != Interpolation::kNearest;
            params.quantize = quantize;
            for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
              params.color = color;
              params.decode = color == Color::kBgr ? DecodeMode::kFast : DecodeMode::kExact;
              ExpectEqualImplementations(params, file,
                                         "orientation " + std::to_string(orientation));
            }
          }
        }
      }
    }
  }
}

// All values of each channel, at the size that is copied and not resized.
TEST_F(PathsTest, EveryPreset) {
  if (!HasTargets()) GTEST_SKIP() << "this CPU has no SIMD target";
  Bytes pixels;
  for (int i = 0; i < 256; ++i) {
    for (const int value : {i, 255 - i, i + 100}) pixels.push_back(static_cast<uint8_t>(value));
  }
  const auto image = ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 256, 1, 3 * 256);
  for (const std::string_view preset : PresetNames()) {
    PreprocessParams params = Preset(preset);
    params.fit = Fit::kStretch;
    params.height = 1;
    params.width = 256;
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8}) {
      params.dtype = dtype;
      ExpectEqualImplementations(params, image, std::string(preset));
    }
  }
}

}  // namespace
}  // namespace endcap
