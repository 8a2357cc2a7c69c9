// Whole images: the decoder's implementations against each other and against libjpeg-turbo, one
// thread against two, and planes against pixels.

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including what declares it
#include <jpeglib.h>
// clang-format on

#include <csetjmp>
#include <thread>

#include "agreement.h"
#include "jpeg_files.h"

namespace endcap::fuzz {
namespace {

struct Escape {
  jpeg_error_mgr base;
  std::jmp_buf place;
};

void LeaveOnError(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Escape*>(info->err)->place, 1);
}
void SayNothing(j_common_ptr /*info*/, int /*level*/) {}

bool HasRepeatedFill(const std::vector<uint8_t>& file) {
  const auto is_fill = [](uint8_t a, uint8_t b) { return a == 0xFF && b == 0xFF; };
  return std::adjacent_find(file.begin(), file.end(), is_fill) != file.end();
}

// What libjpeg-turbo gives to a caller who asks for nothing special; empty where it gives up.
// volatile: written between setjmp and longjmp.
std::vector<uint8_t> DecodeByLibrary(const std::vector<uint8_t>& file, const BandFormat& format,
                                     int eighths) {
  const size_t row_bytes = static_cast<size_t>(format.width) * static_cast<size_t>(format.channels);
  std::vector<uint8_t> pixels(row_bytes * static_cast<size_t>(format.height));
  jpeg_decompress_struct info{};
  Escape escape{};
  info.err = jpeg_std_error(&escape.base);
  escape.base.error_exit = LeaveOnError;
  escape.base.emit_message = SayNothing;
  volatile bool done = false;
  if (setjmp(escape.place) == 0) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
    info.out_color_space = format.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.scale_num = static_cast<unsigned>(eighths);
    info.scale_denom = 8;
    // The fast decoder, for data without restart markers, checks less. Where several 0xFF stand
    // before a zero it gives up, and leaves what it made of the block to the careful decoder, which
    // does not clear it.
    if (HasRepeatedFill(file) && info.restart_interval == 0) info.restart_interval = 1U << 31;
    jpeg_start_decompress(&info);
    const bool fits = static_cast<int>(info.output_width) == format.width &&
                      static_cast<int>(info.output_height) == format.height;
    Require(fits, "libjpeg-turbo gives ", info.output_width, "x", info.output_height);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels.data() + row_bytes * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    done = true;
  }
  jpeg_destroy_decompress(&info);
  if (!done) pixels.clear();
  return pixels;
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
  BandFormat format = DecodedFormat(header, options);
  format.channels = options.channels == 1 ? 1 : 3;
  const std::vector<uint8_t> expected = DecodeByLibrary(file, format, options.eighths);
  Require(!expected.empty(), "libjpeg-turbo refuses a file that was decoded");
  Require(expected == outcome.bytes(), "pixels differ from libjpeg-turbo's");
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

// Decodes with a second thread that may go ahead, or with none that comes.
Outcome DecodeAhead(const ImageView& image, const ImageHeader& header, const DecodeOptions& options,
                    bool has_helper) {
  return Capture([&](Outcome& outcome) {
    ReadAhead ahead;
    std::thread helper;
    if (has_helper) helper = std::thread([&ahead] { ahead.Help(); });
    const auto end = [&] {
      ahead.End();
      if (helper.joinable()) helper.join();
    };
    PixelSink sink(outcome);
    try {
      DecodeToBands(image, header, options, sink, &ahead);
    } catch (const Error&) {
      end();
      throw;
    }
    end();
  });
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const DecodeOptions options{input.Pick(std::array{3, 4, 1}), input.Pick(kEighths)};
  const int orientation = input.Int(1, 8);
  const std::vector<uint8_t> file = input.Rest();
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  const std::optional<ImageHeader> header = ReadSmallHeader(image);
  if (!header) return 0;

  const Outcome outcome = RequireEqualPaths(target, "decoded pixels", [&](Outcome& result) {
    int64_t decode_ns = 0;
    AddPixels(DecodeOriented(image, *header, options, 1, decode_ns), result);
  });
  for (const bool has_helper : {false, true}) {
    RequireEqual(outcome, DecodeAhead(image, *header, options, has_helper),
                 has_helper ? "one thread against two" : "without and with steps");
  }
  if (!outcome.ok()) return 0;
  CompareWithLibrary(file, *header, options, outcome);
  if (orientation == 1) return 0;
  int64_t decode_ns = 0;
  const PixelBuffer stored = DecodeOriented(image, *header, options, 1, decode_ns);
  const PixelBuffer rotated = DecodeOriented(image, *header, options, orientation, decode_ns);
  // Rotated back: 6 and 8 are each other's inverse, the others their own.
  const int back = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
  Outcome again;
  AddPixels(ApplyOrientation(rotated, back), again);
  Require(again.bytes() == outcome.bytes(), "orientation ", orientation, " lost pixels");
  return 0;
}
