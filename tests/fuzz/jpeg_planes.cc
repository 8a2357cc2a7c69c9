// The planes that a GPU's preprocessing takes: against the pixels of the same file, whole and in
// part, and the choice of who decodes the file.

#include "agreement.h"
#include "decode/planes.h"
#include "small_files.h"

namespace endcap::fuzz {
namespace {

// The samples of the planes' first rows. A plane that the file does not have is empty.
struct Planes {
  bool available = false;
  JpegPlaneLayout layout;
  std::array<std::vector<uint8_t>, 3> samples;
};

Planes ReadPlanes(const ImageView& image, const ImageHeader& header, const DecodeOptions& options,
                  int end_row) {
  Planes planes;
  JpegPlaneReader reader(image, header, options, end_row);
  planes.layout = reader.layout();
  planes.available = planes.layout.available;
  if (!planes.available) return planes;
  std::vector<uint8_t> block(planes.layout.size_bytes);
  reader.Decode(block.data());
  for (size_t i = 0; i < static_cast<size_t>(planes.layout.plane_count); ++i) {
    const JpegPlane& plane = planes.layout.planes[i];
    Require(plane.width >= 1 && plane.rows >= 0 && plane.rows <= plane.height, "plane ", i, " has ",
            plane.rows, " rows of ", plane.width, "x", plane.height);
    for (int row = 0; row < plane.rows; ++row) {
      const uint8_t* begin =
          block.data() + plane.offset_bytes + plane.row_stride_bytes * static_cast<size_t>(row);
      planes.samples[i].insert(planes.samples[i].end(), begin, begin + plane.width);
    }
  }
  return planes;
}

void ComparePart(const Planes& whole, const Planes& part) {
  Require(part.available == whole.available, "the end row decides whether there are planes");
  for (size_t i = 0; i < whole.samples.size(); ++i) {
    const size_t bytes = part.samples[i].size();
    Require(
        bytes <= whole.samples[i].size() &&
            std::equal(part.samples[i].begin(), part.samples[i].end(), whole.samples[i].begin()),
        "plane ", i, " in part is not the beginning of the whole");
  }
}

void CheckDecoderChoice(FuzzInput& input, const std::vector<uint8_t>& file, bool has_planes) {
  JpegDecoderRequest request;
  request.mode = input.PickEnum(DecodeMode::kFast);
  request.requested = input.PickEnum(JpegDecoder::kNvjpeg);
  request.nvjpeg_available = input.Bool();
  request.file = {has_planes, input.Bool(), EndsWithEndMarker(file.data(), file.size())};
  request.pixels = input.Integer(1, 1 << 24);
  request.batch_size = input.Int(1, 64);
  try {
    CheckJpegDecoder(request.mode, request.requested, request.nvjpeg_available, "it is not there");
    const JpegDecoder chosen = ChooseJpegDecoder(request);
    Require(chosen != JpegDecoder::kAuto, "no decoder was chosen");
    Require(chosen == JpegDecoder::kCpu || has_planes, "a file without planes goes to a GPU");
    Require(chosen != JpegDecoder::kNvjpeg || request.nvjpeg_available, "nvJPEG is not there");
    Require(request.requested == JpegDecoder::kAuto || chosen == request.requested ||
                (request.requested == JpegDecoder::kHybrid && !has_planes),
            "a named decoder is not taken");
  } catch (const Error& error) {
    Require(request.requested == JpegDecoder::kNvjpeg, "refused: ", error.what());
  }
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const DecodeOptions options{input.Pick(std::array{3, 1}), input.Pick(kEighths)};
  const int end_row = input.Int(0, 255);
  FuzzInput choice = input;
  input.Word(8);
  const std::vector<uint8_t> file = input.Rest();
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  const std::optional<ImageHeader> header = ReadSmallHeader(image);
  if (!header) return 0;

  Planes whole;
  const Outcome read =
      Capture([&](Outcome&) { whole = ReadPlanes(image, *header, options, header->height); });
  Planes part;
  const Outcome read_part =
      Capture([&](Outcome&) { part = ReadPlanes(image, *header, options, end_row); });
  if (!read.ok()) return 0;  // its part may be good
  Require(read_part.ok(), "a part of good planes: ", read_part.message);
  ComparePart(whole, part);
  CheckDecoderChoice(choice, file, whole.available);
  if (!whole.available) return 0;
  PixelBuffer gray;
  const Outcome decoded = Capture([&](Outcome&) {
    DecodeReport report;
    gray = DecodeOriented(image, *header, {1, options.eighths}, 1, report);
  });
  Require(decoded.ok(), "planes are good and pixels are not: ", decoded.message);
  std::vector<uint8_t> luma;
  const auto width = static_cast<size_t>(gray.format.width);
  const auto plane_width = static_cast<size_t>(whole.layout.planes[0].width);
  for (size_t row = 0; row < static_cast<size_t>(gray.format.height); ++row) {
    const uint8_t* begin = whole.samples[0].data() + plane_width * row;
    luma.insert(luma.end(), begin, begin + width);
  }
  Require(luma == gray.pixels, "the luma plane is not the gray image");
  return 0;
}
