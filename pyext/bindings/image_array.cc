#include "bindings/image_array.h"

#include <cstddef>
#include <limits>

#include "endcap/error.h"

namespace endcap::python {
namespace {

using Shape = std::vector<int64_t>;

[[noreturn]] void FailImage(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

std::string FormatShape(const Shape& shape) {
  std::string text;
  for (const int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
  return "[" + text + "]";
}

void CheckBytes(const ImageArray& array) {
  if (array.item_bytes != 1) FailImage("an image must hold uint8 values");
}

// [H,W] or [H,W,C].
void CheckRows(const ImageArray& array) {
  const Shape& shape = array.shape;
  const int64_t channels = shape.size() == 3 ? shape[2] : 1;
  const bool dense_pixels = shape[1] <= 1 || array.strides_bytes[1] == channels;
  const bool dense_channels = channels == 1 || array.strides_bytes[2] == 1;
  if (!dense_pixels || !dense_channels) FailImage("the pixels of a row must be contiguous");
  const auto limit = static_cast<int64_t>(std::numeric_limits<int>::max());
  if (shape[0] > limit || shape[1] > limit) FailImage("an image is too large");
}

void CheckPlane(const ImageArray& array, size_t rank, const std::string& name) {
  CheckBytes(array);
  if (array.shape.size() != rank) {
    FailImage("the " + name + " plane has shape " + FormatShape(array.shape) + "; give " +
              (rank == 3 ? "[H, W, 2]" : "[H, W]"));
  }
  CheckRows(array);
}

int64_t Halved(int64_t side, int64_t step) { return (side + step - 1) / step; }

ImageView::Plane MakePlane(const ImageArray& array) {
  return {array.data, static_cast<ptrdiff_t>(array.strides_bytes[0])};
}

YuvMatrix ParseMatrix(const std::string& name) {
  if (name == "bt601") return YuvMatrix::kBt601;
  if (name == "bt709") return YuvMatrix::kBt709;
  if (name == "bt2020") return YuvMatrix::kBt2020;
  FailImage("matrix is '" + name + "': give one of bt601, bt709, bt2020");
}

YuvRange ParseRange(const std::string& name) {
  if (name == "full") return YuvRange::kFull;
  if (name == "limited") return YuvRange::kLimited;
  FailImage("range is '" + name + "': give one of full, limited");
}

void SetSize(ImageView& view, int64_t height, int64_t width) {
  view.height = static_cast<int>(height);
  view.width = static_cast<int>(width);
}

// Y, and below it rows of U and V in turn.
void SetNv12(ImageView& view, const ImageArray& all) {
  CheckPlane(all, 2, "NV12");
  const int64_t rows = all.shape[0];
  if (rows % 3 != 0 || all.shape[1] % 2 != 0) {
    FailImage("NV12 in one array has shape " + FormatShape(all.shape) +
              "; give [H*3/2, W] with even H and W, or Y [H, W] and UV [H/2, W/2, 2] apart");
  }
  SetSize(view, rows / 3 * 2, all.shape[1]);
  view.planes[0] = view.planes[1] = MakePlane(all);
  view.planes[1].data += view.planes[1].row_stride_bytes * view.height;
}

void SetNv12(ImageView& view, const ImageArray& y, const ImageArray& uv) {
  CheckPlane(y, 2, "Y");
  CheckPlane(uv, 3, "UV");
  const Shape expected = {Halved(y.shape[0], 2), Halved(y.shape[1], 2), 2};
  if (uv.shape != expected) {
    FailImage("the UV plane has shape " + FormatShape(uv.shape) + "; with Y of " +
              FormatShape(y.shape) + " give " + FormatShape(expected));
  }
  SetSize(view, y.shape[0], y.shape[1]);
  view.planes[0] = MakePlane(y);
  view.planes[1] = MakePlane(uv);
}

int ComputeStep(int64_t side, int64_t chroma_side) {
  if (chroma_side == side) return 1;
  return chroma_side == Halved(side, 2) ? 2 : 0;
}

void SetPlanar(ImageView& view, const std::vector<ImageArray>& planes) {
  const Shape& y = planes[0].shape;
  const Shape& u = planes[1].shape;
  const Shape& v = planes[2].shape;
  CheckPlane(planes[0], 2, "Y");
  CheckPlane(planes[1], 2, "U");
  CheckPlane(planes[2], 2, "V");
  if (v != u) {
    FailImage("the U plane has shape " + FormatShape(u) + " and the V plane " + FormatShape(v) +
              "; give planes of one size");
  }
  view.chroma_step_y = ComputeStep(y[0], u[0]);
  view.chroma_step_x = ComputeStep(y[1], u[1]);
  if (view.chroma_step_x == 0 || view.chroma_step_y == 0) {
    FailImage("the U plane has shape " + FormatShape(u) + "; with Y of " + FormatShape(y) +
              " give as many or half as many rows and columns, rounded up");
  }
  SetSize(view, y[0], y[1]);
  for (size_t i = 0; i < 3; ++i) view.planes[i] = MakePlane(planes[i]);
}

}  // namespace

ImageView MakeView(const ImageArray& array, PixelFormat format) {
  const Shape& shape = array.shape;
  CheckBytes(array);
  ImageView view;
  if (shape.size() == 1) {
    if (shape[0] > 1 && array.strides_bytes[0] != 1) FailImage("encoded bytes must be contiguous");
    view = ImageView::Encoded(array.data, static_cast<size_t>(shape[0]));
  } else {
    const int64_t channels = shape.size() == 3 ? shape[2] : 1;
    if ((shape.size() != 2 && shape.size() != 3) || (channels != 1 && channels != 3)) {
      FailImage("an image must be 1-D (encoded), [H,W] (gray), [H,W,1] or [H,W,3], not " +
                std::to_string(shape.size()) + "-D with " + std::to_string(channels) + " channels");
    }
    CheckRows(array);
    view = ImageView::Interleaved(channels == 1 ? PixelFormat::kGray : format, array.data,
                                  static_cast<int>(shape[1]), static_cast<int>(shape[0]),
                                  static_cast<ptrdiff_t>(array.strides_bytes[0]));
  }
  view.device = array.device;
  view.device_id = array.device_id;
  return view;
}

ImageView MakeYuvView(const std::vector<ImageArray>& arrays, const YuvFormat& format) {
  ImageView view;
  view.matrix = ParseMatrix(format.matrix);
  view.range = ParseRange(format.range);
  if (format.layout == "nv12" && arrays.size() == 1) {
    view.format = PixelFormat::kNv12;
    SetNv12(view, arrays[0]);
  } else if (format.layout == "nv12" && arrays.size() == 2) {
    view.format = PixelFormat::kNv12;
    SetNv12(view, arrays[0], arrays[1]);
  } else if (format.layout == "planar" && arrays.size() == 3) {
    view.format = PixelFormat::kPlanarYuv;
    SetPlanar(view, arrays);
  } else {
    FailImage("an image in YUV has layout '" + format.layout + "' and " +
              std::to_string(arrays.size()) + " planes: give nv12 with 1 or 2, or planar with 3");
  }
  view.device = arrays[0].device;
  view.device_id = arrays[0].device_id;
  for (const ImageArray& array : arrays) {
    if (array.device != view.device || array.device_id != view.device_id) {
      FailImage("the planes of an image lie in CPU memory and in a GPU's: give one or the other");
    }
  }
  return view;
}

}  // namespace endcap::python
