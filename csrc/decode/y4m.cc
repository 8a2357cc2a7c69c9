#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/fail.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

using namespace std::string_view_literals;

// Header lines are short; a longer one is not a header.
constexpr size_t kMaxLineBytes = 1024;
constexpr int kMaxSide = 1 << 24;

// The first frame of a file, whose planes lie in the file one after the other.
struct Y4mFrame {
  ImageView image;    // without data
  size_t first = 0;   // byte of the first plane
  size_t luma = 0;    // bytes of a plane
  size_t chroma = 0;  // bytes of a plane of U or V, or half of those of the plane of both
  bool is_gray = false;

  size_t size_bytes() const { return is_gray ? luma : luma + 2 * chroma; }
};

// Takes a line off the beginning of `rest`, without its end.
std::string_view TakeLine(std::string_view& rest) {
  const size_t end = rest.substr(0, kMaxLineBytes).find('\n');
  if (end == std::string_view::npos) {
    FailCorrupt("the Y4M file is cut short, or its header has a line of more than ", kMaxLineBytes,
                " bytes");
  }
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

int ReadSide(std::string_view text) {
  int side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (error != std::errc{} || end != text.data() + text.size() || side < 1 || side > kMaxSide) {
    FailCorrupt("the Y4M file has a side of '", text.substr(0, 16), "' pixels: sides are 1 to ",
                kMaxSide);
  }
  return side;
}

// The values of the tag C, and their chroma. Its samples count as centred, whatever the tag says.
struct Sampling {
  std::string_view tag;
  int step_x;
  int step_y;
};
constexpr Sampling kSamplings[] = {{"420", 2, 2},      {"420jpeg", 2, 2}, {"420mpeg2", 2, 2},
                                   {"420paldv", 2, 2}, {"nv12", 2, 2},    {"mono", 2, 2},
                                   {"422", 2, 1},      {"440", 1, 2},     {"444", 1, 1}};

void ReadChroma(std::string_view text, Y4mFrame& frame) {
  const auto* const sampling = std::ranges::find(kSamplings, text, &Sampling::tag);
  if (sampling == std::end(kSamplings)) {
    Fail(ErrorCode::kUnsupported, "the Y4M file has samples of the kind C", text.substr(0, 16),
         ": give 8 bits a sample, as C420, C422, C440, C444, Cmono or Cnv12");
  }
  frame.image.format = text == "nv12" ? PixelFormat::kNv12 : PixelFormat::kPlanarYuv;
  frame.image.chroma_step_x = sampling->step_x;
  frame.image.chroma_step_y = sampling->step_y;
  frame.is_gray = text == "mono";
}

// The tags X: of others than these nothing is known, and they are skipped.
void ReadExtension(std::string_view text, Y4mFrame& frame) {
  ImageView& image = frame.image;
  if (text == "COLORRANGE=FULL"sv) image.range = YuvRange::kFull;
  if (text == "COLORRANGE=LIMITED"sv) image.range = YuvRange::kLimited;
  if (text == "COLORMATRIX=BT601"sv) image.matrix = YuvMatrix::kBt601;
  if (text == "COLORMATRIX=BT709"sv) image.matrix = YuvMatrix::kBt709;
  if (text == "COLORMATRIX=BT2020"sv) image.matrix = YuvMatrix::kBt2020;
}

Y4mFrame ReadFrame(std::span<const uint8_t> file) {
  std::string_view rest(reinterpret_cast<const char*>(file.data()), file.size());
  std::string_view line = TakeLine(rest);
  Y4mFrame frame;
  ReadChroma("420", frame);
  line.remove_prefix(kY4mSignature.size());
  while (!line.empty()) {
    const std::string_view tag = line.substr(0, line.find(' '));
    line.remove_prefix(tag.size() == line.size() ? tag.size() : tag.size() + 1);
    if (tag.empty()) continue;
    const std::string_view value = tag.substr(1);
    if (tag[0] == 'W') frame.image.width = ReadSide(value);
    if (tag[0] == 'H') frame.image.height = ReadSide(value);
    if (tag[0] == 'C') ReadChroma(value, frame);
    if (tag[0] == 'X') ReadExtension(value, frame);
  }
  if (frame.image.width == 0 || frame.image.height == 0) {
    FailCorrupt("the Y4M file has no width or no height");
  }
  if (frame.is_gray && frame.image.range != YuvRange::kFull) {
    Fail(ErrorCode::kUnsupported,
         "the Y4M file has luma alone, at limited range: give XCOLORRANGE=FULL, or C420");
  }
  if (!TakeLine(rest).starts_with("FRAME"sv)) FailCorrupt("the Y4M file has no frame");
  const auto divide = [](int side, int step) {
    return static_cast<size_t>((side + step - 1) / step);
  };
  frame.first = file.size() - rest.size();
  frame.luma = static_cast<size_t>(frame.image.width) * static_cast<size_t>(frame.image.height);
  frame.chroma = divide(frame.image.width, frame.image.chroma_step_x) *
                 divide(frame.image.height, frame.image.chroma_step_y);
  return frame;
}

// Throws unless the planes are in the file and within the limits.
void CheckFrame(const Y4mFrame& frame, std::span<const uint8_t> file, const DecodeLimits& limits) {
  CheckSizeLimits(frame.image.width, frame.image.height, limits);
  if (file.size() - frame.first < frame.size_bytes()) {
    FailCorrupt("the Y4M file is cut short: its first frame has ", frame.size_bytes(),
                " bytes, and ", file.size() - frame.first, " are there",
                AdviseOnDroppedZeros(file));
  }
}

ImageView ViewPlanes(const Y4mFrame& frame, const uint8_t* file) {
  const uint8_t* luma = file + frame.first;
  const uint8_t* chroma = luma + frame.luma;
  ImageView image = frame.image;
  const ptrdiff_t width = image.width;
  if (frame.is_gray) {
    return ImageView::Interleaved(PixelFormat::kGray, luma, image.width, image.height, width);
  }
  const ptrdiff_t chroma_width = (width + image.chroma_step_x - 1) / image.chroma_step_x;
  image.planes[0] = {luma, width};
  if (image.format == PixelFormat::kNv12) {
    image.planes[1] = {chroma, 2 * chroma_width};
  } else {
    image.planes[1] = {chroma, chroma_width};
    image.planes[2] = {chroma + frame.chroma, chroma_width};
  }
  return image;
}

}  // namespace

ImageHeader ReadY4mHeader(std::span<const uint8_t> file, const DecodeLimits& limits) {
  const Y4mFrame frame = ReadFrame(file);
  CheckFrame(frame, file, limits);
  return {.format = FileFormat::kY4m, .width = frame.image.width, .height = frame.image.height};
}

std::optional<ImageView> ViewY4mPlanes(const ImageView& image, const DecodeLimits& limits) {
  const std::span file(image.planes[0].data, image.size_bytes);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (image.format != PixelFormat::kEncoded || !text.starts_with(kY4mSignature)) {
    return std::nullopt;
  }
  ReadHeader(image, limits);  // also `formats` and max_bytes
  // Read again, as what follows has to be of the same bytes where another process may change them.
  const Y4mFrame frame = ReadFrame(file);
  CheckFrame(frame, file, limits);
  return ViewPlanes(frame, file.data());
}

}  // namespace endcap
