// A window of a decoded image against the whole image, with both implementations.

#include "agreement.h"
#include "decode/bands.h"
#include "small_files.h"

namespace endcap::fuzz {
namespace {

void AddRows(const PixelBuffer& image, const PixelRect& part, Outcome& outcome) {
  const auto channels = static_cast<size_t>(image.format.channels);
  for (int y = part.y; y < part.bottom(); ++y) {
    for (int x = part.x; x < part.right(); ++x) {
      const size_t pixel =
          static_cast<size_t>(y) * static_cast<size_t>(image.format.width) + static_cast<size_t>(x);
      // The fourth channel means nothing.
      outcome.Add(image.pixels.data() + channels * pixel, channels == 4 ? 3 : channels);
    }
  }
}

// Where a window lies, in fractions of an image whose size is not known yet.
struct WindowChoice {
  explicit WindowChoice(FuzzInput& input)
      : x(input.Int(0, 4095)),
        y(input.Int(0, 4095)),
        width(input.Int(0, 4095)),
        height(input.Int(0, 4095)) {}

  PixelRect In(const BandFormat& image) const {
    PixelRect window;
    window.x = x % image.width;
    window.y = y % image.height;
    window.width = 1 + width % (image.width - window.x);
    window.height = 1 + height % (image.height - window.y);
    return window;
  }

  int x;
  int y;
  int width;
  int height;
};

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const DecodeOptions options{input.Pick(std::array{3, 4, 1}), input.Pick(kEighths)};
  const int orientation = input.Int(1, 8);
  const WindowChoice choice(input);
  const std::vector<uint8_t> file = input.Rest();
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  const std::optional<ImageHeader> header = ReadSmallHeader(image);
  if (!header) return 0;
  BandFormat oriented = DecodedFormat(*header, options);
  if (GetOrientationTransform(orientation).swap_axes) std::swap(oriented.width, oriented.height);
  const PixelRect window = choice.In(oriented);

  const Outcome cut = RequireEqualFileResults(target, "window", image, [&](Outcome& result) {
    DecodeReport report;
    AddRows(DecodeWindow(image, *header, options, orientation, window, report),
            {0, 0, window.width, window.height}, result);
  });
  // Damage below the window is not seen; all that the whole image shows has to be the same.
  const Outcome whole = Capture([&](Outcome& result) {
    DecodeReport report;
    AddRows(DecodeOriented(image, *header, options, orientation, report), window, result);
  });
  if (!whole.ok()) return 0;
  RequireEqual(whole, cut, "window against whole image");
  return 0;
}
