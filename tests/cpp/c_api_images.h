#pragma once

#include <array>
#include <string>
#include <vector>

#include "c_api_handles.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

namespace endcap::testing {

// What a batch leaves behind, tensors in CPU memory.
struct ImageResults {
  std::vector<Bytes> tensors;
  std::vector<std::array<float, 8>> geometry;
  std::vector<int32_t> status;
  std::vector<std::string> messages;

  explicit ImageResults(size_t count) : tensors(count), geometry(count), status(count, -1) {}
  bool operator==(const ImageResults&) const = default;
};

struct Size {
  int height = 0;
  int width = 0;
};

inline endcap_image CImage(const Bytes& file) {
  return {ENDCAP_ENCODED, 0, file.data(), file.size(), 0, 0, 0};
}

inline endcap_image CImage(endcap_pixel_format format, const uint8_t* pixels, int width, int height,
                           int64_t row_stride_bytes) {
  return {format, 0, pixels, 0, width, height, row_stride_bytes};
}

inline ImageView CoreView(const endcap_image& image) {
  if (image.format == ENDCAP_ENCODED) return ImageView::Encoded(image.data, image.size_bytes);
  return ImageView::Interleaved(static_cast<PixelFormat>(image.format), image.data, image.width,
                                image.height, image.row_stride_bytes);
}

inline PreprocessParams WithSize(PreprocessParams params, const Size& size) {
  if (size.height > 0) params.height = size.height;
  if (size.width > 0) params.width = size.width;
  return params;
}

// Every image by a Preprocessor whose parameters have its size. sizes: empty, or one of each image.
inline ImageResults ByCore(const PreprocessParams& params, const std::vector<endcap_image>& images,
                           const std::vector<Size>& sizes = {}) {
  ImageResults results(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const PreprocessParams own = sizes.empty() ? params : WithSize(params, sizes[i]);
    TensorView view = ImageTensor(own, nullptr);
    results.tensors[i].resize(view.size_bytes());
    view.data = results.tensors[i].data();
    const std::array views = {CoreView(images[i])};
    const std::array outputs = {PreprocessOutput{view, results.geometry[i].data(),
                                                 &results.status[i], static_cast<int>(i)}};
    results.messages.push_back(Preprocessor(own, 1).Run(views, outputs)[0].status.message);
  }
  return results;
}

// The same by one call of endcap_preprocessor_run.
inline ImageResults ByC(endcap_preprocessor* handle, const std::vector<endcap_image>& images,
                        const std::vector<Size>& sizes = {}) {
  ImageResults results(images.size());
  std::vector<endcap_preprocess_output> outputs;
  for (size_t i = 0; i < images.size(); ++i) {
    const Size size = sizes.empty() ? Size{} : sizes[i];
    endcap_tensor_spec spec;
    EXPECT_EQ(endcap_preprocessor_tensor(handle, size.height, size.width, &spec), 0)
        << endcap_last_error();
    const auto elements = static_cast<size_t>(spec.shape[0] * spec.shape[1] * spec.shape[2]);
    results.tensors[i].assign(elements * GetElementSize(static_cast<DType>(spec.dtype)), 0xEE);
    outputs.push_back({results.tensors[i].data(), results.tensors[i].size(), size.height,
                       size.width, results.geometry[i].data(), &results.status[i],
                       static_cast<int32_t>(i)});
  }
  EXPECT_EQ(endcap_preprocessor_run(handle, images.data(), outputs.data(), images.size(), nullptr),
            0)
      << endcap_last_error();
  for (size_t i = 0; i < images.size(); ++i) results.messages.emplace_back(endcap_item_error(i));
  return results;
}

// Files and pixels of every kind, good and bad; they point into this object.
struct MixedImages {
  Bytes color = MakeJpeg(90, 120);
  Bytes gray = MakeJpeg(50, 70, 1);
  Bytes rotated = MakeJpeg(40, 64, 3, {.orientation = 6});
  Bytes cut{color.begin(), color.begin() + static_cast<ptrdiff_t>(color.size() / 2)};
  Bytes pixels = MakePixels(30, 40, 3);
  std::vector<endcap_image> images = {
      CImage(color),
      CImage(gray),
      CImage(cut),
      CImage(rotated),
      CImage(ENDCAP_RGB, pixels.data(), 40, 30, 120),
      CImage(ENDCAP_BGR, pixels.data() + 120, 25, 20, 120),
      CImage(ENDCAP_GRAY, pixels.data(), 120, 30, 120),
      CImage(ENDCAP_RGB, pixels.data() + 29 * 120, 40, 30, -120),  // bottom up
      CImage(Bytes{}),
      CImage(ENDCAP_RGB, nullptr, 0, 0, 0),
  };
  static constexpr std::array kBad = {size_t{2}, size_t{8}, size_t{9}};

  MixedImages() = default;
  MixedImages(const MixedImages&) = delete;
  MixedImages& operator=(const MixedImages&) = delete;
};

}  // namespace endcap::testing
