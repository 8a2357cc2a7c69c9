#include "endcap/cost.h"

#include <gtest/gtest.h>

#include <string>

#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::MakeJpeg;

double Term(const CostTerms& terms, CostTerm term) { return terms[static_cast<size_t>(term)]; }

CostTerms OnlyImage() {
  CostTerms terms{};
  terms[static_cast<size_t>(CostTerm::kImage)] = 1;
  return terms;
}

TEST(Cost, TermsAreThoseOfTheHeader) {
  const Bytes file = MakeJpeg(480, 640);
  const CostTerms terms = GetCostTerms(Preset("ultralytics"), Encoded(file));
  EXPECT_EQ(Term(terms, CostTerm::kImage), 1);
  EXPECT_EQ(Term(terms, CostTerm::kSequentialBytes), static_cast<double>(file.size()));
  // Luma 80x60 blocks, chroma a quarter of it twice.
  EXPECT_EQ(Term(terms, CostTerm::kSequentialBlocks), 7200);
  EXPECT_EQ(Term(terms, CostTerm::kProgressiveBytes), 0);
  EXPECT_EQ(Term(terms, CostTerm::kScannedBlocks), 0);
  EXPECT_EQ(Term(terms, CostTerm::kConvertedPixels), 640 * 480);
  EXPECT_EQ(Term(terms, CostTerm::kTensorElements), 3 * 640 * 640);
  EXPECT_EQ(Term(terms, CostTerm::kTensorBytes), 4 * 3 * 640 * 640);
}

TEST(Cost, CountsTheScansOfAProgressiveFile) {
  const Bytes file = MakeJpeg(480, 640, 3, {.progressive = true});
  const ImageHeader header = ReadHeader(Encoded(file), {});
  const CostTerms terms = GetCostTerms(Preset("ultralytics"), Encoded(file));
  EXPECT_EQ(Term(terms, CostTerm::kSequentialBlocks), 0);
  EXPECT_EQ(Term(terms, CostTerm::kScannedBlocks), 7200.0 * header.scan_count);
  EXPECT_GT(header.scan_count, 1);
}

TEST(Cost, FastDecodingTransformsLess) {
  const Bytes file = MakeJpeg(1280, 1280);
  PreprocessParams params = Preset("ultralytics");
  const CostTerms exact = GetCostTerms(params, Encoded(file));
  params.decode = DecodeMode::kFast;
  const CostTerms fast = GetCostTerms(params, Encoded(file));
  EXPECT_EQ(Term(fast, CostTerm::kTransformedBlocks),
            Term(exact, CostTerm::kTransformedBlocks) / 4);
}

// Floating-point arithmetic orients the whole image before the resize; 8-bit arithmetic does not.
TEST(Cost, OrientingAWholeImageCosts) {
  constexpr double kPixels = 1280 * 960;
  for (const int orientation : {1, 3, 6}) {
    SCOPED_TRACE(orientation);
    const Bytes file = MakeJpeg(960, 1280, 3, {.orientation = orientation});
    PreprocessParams params = Preset("ultralytics");
    const CostTerms streamed = GetCostTerms(params, Encoded(file));
    EXPECT_EQ(Term(streamed, CostTerm::kOrientedPixels), 0);
    EXPECT_EQ(Term(streamed, CostTerm::kTurnedPixels), orientation == 6 ? kPixels : 0);
    const CostTerms regions = GetCostTerms(params, Encoded(file), /*regions=*/2);
    params.quantize = Quantize::kNone;
    const CostTerms whole = GetCostTerms(params, Encoded(file));
    for (const CostTerms& terms : {whole, regions}) {
      EXPECT_EQ(Term(terms, CostTerm::kOrientedPixels), orientation == 1 ? 0 : kPixels);
      EXPECT_EQ(Term(terms, CostTerm::kTurnedPixels), 0);
    }
    const double upright = PredictCostMs(params, Encoded(MakeJpeg(960, 1280)));
    if (orientation != 1) {
      EXPECT_GT(PredictCostMs(params, Encoded(file)), 1.3 * upright);
    }
  }
}

TEST(Cost, OfWhatIsRefusedIsThatOfOneHeader) {
  const PreprocessParams params = Preset("ultralytics");
  const Bytes file = MakeJpeg(480, 640);
  EXPECT_EQ(GetCostTerms(params, ImageView::Encoded(nullptr, 0)), OnlyImage());
  EXPECT_EQ(GetCostTerms(params, ImageView::Encoded(file.data(), 40)), OnlyImage());
  // Too many pixels for the limits, and too few bytes for its pixels.
  EXPECT_EQ(GetCostTerms(params, Encoded(testing::WithSize(file, 60000, 60000))), OnlyImage());
  EXPECT_EQ(GetCostTerms(params, Encoded(testing::WithSize(file, 8000, 8000))), OnlyImage());
  PreprocessParams strict = params;
  strict.limits.max_bytes = 100;
  EXPECT_EQ(GetCostTerms(strict, Encoded(file)), OnlyImage());
}

}  // namespace
}  // namespace endcap
