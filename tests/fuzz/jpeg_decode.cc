// Whole images: the decoder's implementations against each other and against libjpeg-turbo, and one
// thread against a crew.

#include <thread>

#include "agreement.h"
#include "decode/bands.h"
#include "plain_jpeg.h"
#include "small_files.h"

namespace endcap::fuzz {
namespace {

bool HasRepeatedFill(const std::vector<uint8_t>& file) {
  const auto is_fill = [](uint8_t a, uint8_t b) { return a == 0xFF && b == 0xFF; };
  return std::adjacent_find(file.begin(), file.end(), is_fill) != file.end();
}

// The first three channels of each pixel; the fourth means nothing.
void AddPixels(const PixelBuffer& image, Outcome& outcome) {
  const int channels = image.format.channels;
  const size_t count =
      static_cast<size_t>(image.format.width) * static_cast<size_t>(image.format.height);
  if (channels != 4) {
    outcome.Add(image.pixels);
    return;
  }
  for (size_t i = 0; i < count; ++i) outcome.Add(image.pixels.data() + 4 * i, 3);
}

void CompareWithLibrary(const std::vector<uint8_t>& file, const ImageHeader& header,
                        const DecodeOptions& options, const Outcome& outcome) {
  if (header.color == JpegColor::kCmyk || header.color == JpegColor::kYcck) return;
  const BandFormat format = DecodedFormat(header, options);
  // Where several 0xFF stand before a zero the library's faster decoder gives up, and leaves what
  // it made of the block to the careful decoder, which does not clear it. That counts as damage.
  const bool careful = options.damaged == Damaged::kReject && HasRepeatedFill(file);
  const auto expected =
      endcap::testing::DecodePlainly(file, options.channels == 1 ? 1 : 3, options.eighths, careful);
  Require(!expected.pixels.empty(), "libjpeg-turbo refuses a file that was decoded");
  Require(expected.width == format.width && expected.height == format.height,
          "libjpeg-turbo gives ", expected.width, "x", expected.height);
  Require(expected.pixels == outcome.bytes(), "pixels differ from libjpeg-turbo's");
}

// The first three channels of each pixel of an image that is decoded in bands.
class PixelSink final : public BandSink {
 public:
  explicit PixelSink(Outcome& outcome) : outcome_(outcome) {}

  void Begin(const BandFormat& format) override { format_ = format; }
  void Consume(const RowBand& band) override {
    const size_t row_bytes =
        static_cast<size_t>(format_.width) * static_cast<size_t>(format_.channels);
    for (int row = 0; row < band.row_count; ++row) {
      const uint8_t* begin = band.data + band.row_stride_bytes * row;
      if (format_.channels != 4) {
        outcome_.Add(begin, row_bytes);
        continue;
      }
      for (int x = 0; x < format_.width; ++x) outcome_.Add(begin + 4 * static_cast<size_t>(x), 3);
    }
  }
  int EndRow() const override { return format_.height; }

 private:
  Outcome& outcome_;
  BandFormat format_{};
};

// Decodes by a crew of which this number of helpers come.
Outcome DecodeTogether(const ImageView& image, const ImageHeader& header,
                       const DecodeOptions& options, int helpers, size_t segment_bytes) {
  return Capture([&](Outcome& outcome) {
    Crew crew(2, segment_bytes);
    std::vector<std::thread> threads;
    for (int i = 0; i < helpers; ++i) threads.emplace_back([&crew] { crew.Help(); });
    const auto end = [&] {
      crew.End();
      for (std::thread& thread : threads) thread.join();
    };
    PixelSink sink(outcome);
    try {
      DecodeToBands(image, header, options, sink, &crew);
    } catch (const Error&) {
      end();
      throw;
    }
    end();
  });
}

// Returns whether the file could be decoded.
bool CheckPixels(std::string_view target, const std::vector<uint8_t>& file,
                 const ImageHeader& header, const DecodeOptions& options, size_t segment_bytes) {
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  const Outcome outcome = RequireEqualPaths(target, "decoded pixels", [&](Outcome& result) {
    DecodeReport report;
    AddPixels(DecodeOriented(image, header, options, 1, report), result);
  });
  for (const int helpers : {0, 2}) {
    RequireEqual(outcome, DecodeTogether(image, header, options, helpers, segment_bytes),
                 "one thread and a crew");
  }
  if (outcome.ok()) CompareWithLibrary(file, header, options, outcome);
  return outcome.ok();
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  DecodeOptions options{input.Pick(std::array{3, 4, 1}), input.Pick(kEighths)};
  const int orientation = input.Int(1, 8);
  const std::vector<uint8_t> file = input.Rest();
  const size_t segment_bytes = size_t{64} << (file.size() % 11);
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  options.damaged = Damaged::kAccept;
  std::optional<ImageHeader> header = ReadSmallHeader(image, options.damaged);
  if (header) CheckPixels(target, file, *header, options, segment_bytes);
  options.damaged = Damaged::kReject;
  header = ReadSmallHeader(image);
  if (!header || !CheckPixels(target, file, *header, options, segment_bytes) || orientation == 1)
    return 0;
  DecodeReport report;
  const PixelBuffer stored = DecodeOriented(image, *header, options, 1, report);
  const PixelBuffer rotated = DecodeOriented(image, *header, options, orientation, report);
  // Rotated back: 6 and 8 are each other's inverse, the others their own.
  const int back = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
  Outcome again;
  AddPixels(ApplyOrientation(rotated, back), again);
  Outcome before;
  AddPixels(stored, before);
  Require(again.bytes() == before.bytes(), "orientation ", orientation, " lost pixels");
  return 0;
}
