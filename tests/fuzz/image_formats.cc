// Files of all formats but JPEG: a window against the whole image, gray and four channels against
// three, and the promises of their headers. Of Y4M files that planes lie inside the file.

#include "agreement.h"
#include "common/color_conversion.h"
#include "small_files.h"

namespace endcap::fuzz {
namespace {

DecodeLimits LimitsOfFormats() {
  DecodeLimits limits = SmallLimits();
  limits.max_decoded_bytes = 16 * 64 * 64;
  limits.formats = {FileFormat::kPng, FileFormat::kWebp, FileFormat::kBmp, FileFormat::kGif,
                    FileFormat::kY4m};
  return limits;
}

PixelRect PickWindow(FuzzInput& input, const ImageHeader& header) {
  PixelRect window;
  window.x = input.Int(0, 4095) % header.width;
  window.y = input.Int(0, 4095) % header.height;
  window.width = 1 + input.Int(0, 4095) % (header.width - window.x);
  window.height = 1 + input.Int(0, 4095) % (header.height - window.y);
  return window;
}

// The pixels of a part of an image of three channels, as an image of `channels` has them.
std::vector<uint8_t> PartAs(const PixelBuffer& image, const PixelRect& part, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = part.y; y < part.bottom(); ++y) {
    for (int x = part.x; x < part.right(); ++x) {
      const size_t place =
          static_cast<size_t>(y) * static_cast<size_t>(image.format.width) + static_cast<size_t>(x);
      const uint8_t* rgb = image.pixels.data() + 3 * place;
      if (channels == 1) {
        pixels.push_back(Luma(rgb[0], rgb[1], rgb[2]));
      } else {
        pixels.insert(pixels.end(), rgb, rgb + 3);
      }
    }
  }
  return pixels;
}

// The planes of a Y4M file: as large as the header says, all of their bytes in the file.
void CheckPlanes(const ImageView& file, const ImageHeader& header) {
  const std::optional<ImageView> view = ViewY4mPlanes(file, LimitsOfFormats());
  Require(view.has_value(), "a Y4M file without planes");
  Require(view->width == header.width && view->height == header.height, "another size");
  const bool is_nv12 = view->format == PixelFormat::kNv12;
  const int chroma_rows = (view->height + view->chroma_step_y - 1) / view->chroma_step_y;
  for (size_t i = 0; i < view->planes.size(); ++i) {
    const ImageView::Plane& plane = view->planes[i];
    if (plane.data == nullptr) continue;
    const int rows = i == 0 ? view->height : chroma_rows;
    const ptrdiff_t needed =
        i == 0 ? view->width
               : ptrdiff_t{is_nv12 ? 2 : 1} *
                     ((view->width + view->chroma_step_x - 1) / view->chroma_step_x);
    Require(plane.row_stride_bytes == needed, "rows of a plane that are not dense");
    Require(plane.data > file.planes[0].data &&
                plane.data + plane.row_stride_bytes * rows <= file.planes[0].data + file.size_bytes,
            "a plane outside of its file");
  }
}

// The channels of an image that mean something.
std::vector<uint8_t> Channels(const PixelBuffer& image) {
  const int channels = image.format.channels;
  if (channels != 4) return image.pixels;
  std::vector<uint8_t> pixels;
  const auto count =
      static_cast<size_t>(image.format.width) * static_cast<size_t>(image.format.height);
  for (size_t i = 0; i < count; ++i) {
    pixels.insert(pixels.end(), image.pixels.data() + 4 * i, image.pixels.data() + 4 * i + 3);
  }
  return pixels;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const int channels = input.Pick(std::array{3, 4, 1});
  std::array<uint8_t, 8> choice{};
  for (uint8_t& byte : choice) byte = input.Byte();
  const std::vector<uint8_t> file = input.Rest();
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  const std::optional<ImageHeader> header =
      ReadSmallHeader(image, Damaged::kReject, LimitsOfFormats());
  if (!header) return 0;
  if (header->format == FileFormat::kY4m) {
    CheckPlanes(image, *header);
    return 0;
  }
  FuzzInput chosen(choice.data(), choice.size());
  const PixelRect window = PickWindow(chosen, *header);

  for (const Alpha alpha : {Alpha::kDrop, Alpha::kWhite}) {
    PixelBuffer whole;
    DecodeReport report;
    const Outcome decoded = Capture(
        [&](Outcome&) { whole = DecodeOriented(image, *header, {.alpha = alpha}, 1, report); });
    Require(decoded.code != ErrorCode::kInternal, "internal error: ", decoded.message);
    if (!decoded.ok()) return 0;
    const DecodeOptions options{.channels = channels, .alpha = alpha};
    const PixelBuffer part = DecodeWindow(image, *header, options, 1, window, report);
    Require(Channels(part) == PartAs(whole, window, channels), "a window of ", channels,
            " channels differs from the whole image");
  }
  return 0;
}
