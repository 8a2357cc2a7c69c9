// Images of any kind to tensors: the implementations against each other.

#include "agreement.h"
#include "preprocess_params.h"

namespace endcap::fuzz {
namespace {

// Pixels in memory of exactly the size that the view needs.
struct Pixels {
  ImageView view;
  std::array<std::vector<uint8_t>, 3> planes;

  void AddPlane(size_t index, int row_bytes, int rows, FuzzInput& input, Noise& noise) {
    const int stride = row_bytes + input.Int(0, 3);
    std::vector<uint8_t>& memory = planes[index];
    memory.resize(static_cast<size_t>(stride) * static_cast<size_t>(rows - 1) +
                  static_cast<size_t>(row_bytes));
    noise.Fill(memory);
    const bool bottom_up = input.Bool();
    const uint8_t* first = memory.data() + (bottom_up ? ptrdiff_t{stride} * (rows - 1) : 0);
    view.planes[index] = {first, bottom_up ? -stride : stride};
  }
};

Pixels MakePixels(FuzzInput& input) {
  Pixels pixels;
  ImageView& view = pixels.view;
  view.format = static_cast<PixelFormat>(input.Integer(static_cast<int>(PixelFormat::kRgb),
                                                       static_cast<int>(PixelFormat::kPlanarYuv)));
  view.width = input.Int(1, 70);
  view.height = input.Int(1, 40);
  view.chroma_step_x = input.Int(1, 2);
  view.chroma_step_y = input.Int(1, 2);
  view.matrix = input.PickEnum(YuvMatrix::kBt2020);
  view.range = input.PickEnum(YuvRange::kLimited);
  Noise noise(input.Word(2));
  const bool nv12 = view.format == PixelFormat::kNv12;
  const int step_x = nv12 ? 2 : view.chroma_step_x;
  const int step_y = nv12 ? 2 : view.chroma_step_y;
  const int chroma_width = (view.width + step_x - 1) / step_x;
  const int chroma_height = (view.height + step_y - 1) / step_y;
  const bool interleaved = view.format == PixelFormat::kRgb || view.format == PixelFormat::kBgr;
  pixels.AddPlane(0, view.width * (interleaved ? 3 : 1), view.height, input, noise);
  if (nv12) pixels.AddPlane(1, 2 * chroma_width, chroma_height, input, noise);
  if (view.format == PixelFormat::kPlanarYuv) {
    pixels.AddPlane(1, chroma_width, chroma_height, input, noise);
    pixels.AddPlane(2, chroma_width, chroma_height, input, noise);
  }
  return pixels;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const PreprocessParams params = PickPreprocessParams(input, 40);
  const bool encoded = input.Bool();
  Pixels pixels;
  std::vector<uint8_t> file;
  if (encoded) {
    file = input.Rest();
    pixels.view = ImageView::Encoded(file.data(), file.size());
  } else {
    pixels = MakePixels(input);
  }
  RequireEqualOnDevices(target, "tensor", pixels.view, [&](DeviceId device, Outcome& outcome) {
    Preprocessor preprocessor(params, device, 1);
    ItemMemory memory;
    const std::array outputs = {memory.Make(params, 3, device)};
    const auto items = preprocessor.Run(std::span(&pixels.view, 1), outputs);
    FailIfDamaged(items[0].status);
    memory.AddTo(outcome, items[0].status);
  });
  return 0;
}
