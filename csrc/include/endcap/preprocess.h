#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/decode.h"
#include "endcap/error.h"
#include "endcap/geometry.h"
#include "endcap/image_view.h"
#include "endcap/params.h"
#include "endcap/tensor_view.h"
#include "endcap/thread_pool.h"

namespace endcap {

enum class Fit : int32_t { kLetterbox, kStretch, kCenterCrop };
enum class Interpolation : int32_t { kNearest, kBilinear, kBicubic, kArea };
enum class Quantize : int32_t { kUint8, kNone };
enum class PadAlign : int32_t { kCenter, kTopLeft };
enum class Color : int32_t { kRgb, kBgr, kGray };
enum class Layout : int32_t { kNchw, kNhwc };
enum class ExifPolicy : int32_t { kApply, kIgnore };
enum class DecodeMode : int32_t { kExact, kFast };
enum class JpegDecoder : int32_t { kAuto, kCpu, kHybrid, kNvjpeg };
enum class OnError : int32_t { kError, kBlank };

// Everything that decides what a tensor holds. The defaults here are the only place where defaults
// live; DescribePreprocessParams lists them with what is allowed.
struct PreprocessParams {
  int height = 640;  // of the tensor, pixels; `size`
  int width = 640;
  Fit fit = Fit::kLetterbox;  // kCenterCrop resizes the short side to resize_shorter, then crops
  int resize_shorter = 256;   // pixels; kCenterCrop only
  Interpolation interpolation = Interpolation::kBilinear;  // half-pixel centres
  bool antialias = false;                                  // the filter widens when shrinking
  Quantize quantize = Quantize::kUint8;    // kUint8: resized pixels are 8-bit, in the arithmetic of
                                           // OpenCV, or of Pillow with antialias; kNone: float
  int pad_value = 114;                     // 0 to 255, before normalisation; kLetterbox only
  PadAlign pad_align = PadAlign::kCenter;  // where the image lies between its padding
  bool upscale = true;                     // whether kLetterbox may enlarge
  Color color = Color::kRgb;
  Layout layout = Layout::kNchw;
  DType dtype = DType::kFloat32;
  // y = (x * scale - mean) / std. Without a scale: 1 for uint8, 1/255 for the other dtypes. Integer
  // dtypes round half to even and saturate.
  std::optional<double> scale;
  std::array<double, 3> mean{0.0, 0.0, 0.0};  // per channel of the tensor
  std::array<double, 3> std{1.0, 1.0, 1.0};
  ExifPolicy exif = ExifPolicy::kApply;  // whether EXIF orientation turns the image
  // kExact: libjpeg-turbo's default pixels. kFast: DCT scaling to the smallest of 1/1, 1/2, 1/4 and
  // 1/8 that is not below the resized size.
  DecodeMode decode = DecodeMode::kExact;
  JpegDecoder jpeg_decoder = JpegDecoder::kAuto;
  DecodeLimits limits;
  Truncated truncated = Truncated::kReject;
  // Regions of one image, and bytes of all their tensors; RunRois only, checked before anything is
  // decoded. The defaults go together: 1000 regions for a classifier, 3x224x224 float32, take 602
  // MB.
  int max_rois = 1000;
  int64_t max_roi_bytes = int64_t{1} << 30;
  // What a caller does with a bad image: kError: its request fails; kBlank: zeros and its status.
  OnError on_error = OnError::kError;

  double ResolvedScale() const noexcept {
    return scale.value_or(dtype == DType::kUint8 ? 1.0 : 1.0 / 255.0);
  }
  int channels() const noexcept { return color == Color::kGray ? 1 : 3; }
};

// Names of the presets: recipes of whole training pipelines.
std::span<const std::string_view> PresetNames() noexcept;

// The parameters of a preset; every field is the preset's own. Throws kInvalidArgument.
PreprocessParams Preset(std::string_view name);

// Builds parameters from text. A `preset` entry applies first, wherever it stands; the others
// override it. Throws kInvalidArgument for an unknown name or an impossible value, kUnsupported for
// what this build cannot do. The result is valid.
PreprocessParams ParsePreprocessParams(const ParameterList& list);

// The table: name, allowed values, and the value in `params`.
std::vector<ParameterInfo> DescribePreprocessParams(const PreprocessParams& params);

// Throws kInvalidArgument or kUnsupported when `params` cannot be carried out.
void Validate(const PreprocessParams& params);

// Names, dtypes and shapes of one image's outputs: images, geometry [8], status [1].
std::vector<TensorSpec> PreprocessOutputs(const PreprocessParams& params);

// Where the results of one image go. All are written, also when the image fails: then the tensor
// is zeros and the geometry that of an unscaled 0x0 image.
struct PreprocessOutput {
  // Shape and dtype as PreprocessOutputs says. Without data: nobody wants the tensor, and the image
  // is decoded for its status alone, which is the same; CudaPreprocessor::Run needs the data.
  TensorView image;
  float* geometry = nullptr;  // 8 values; may be null
  int32_t* status = nullptr;  // one value, an ErrorCode; may be null
  int source_index = 0;       // copied into the geometry
};

// What one image came to.
struct PreprocessItem {
  ItemStatus status;
  int64_t decode_ns = 0;                     // time spent in the JPEG decoder
  JpegDecoder decoder = JpegDecoder::kAuto;  // the one that ran; kAuto: none, the image was pixels
};

// A region of interest of an image: its edges in pixels of the source image after EXIF orientation,
// as the boxes of a detector are. Rounded outward to whole pixels (floor, ceil) and clipped to the
// image before use.
struct Roi {
  float x1 = 0.0F;
  float y1 = 0.0F;
  float x2 = 0.0F;
  float y2 = 0.0F;
};

// One image and what is wanted of it.
struct RoiImage {
  ImageView image;
  std::span<const Roi> rois;
  std::span<const PreprocessOutput> outputs;  // one for each region; all with a tensor, or none
};

// What one image and its regions came to.
struct RoiItem {
  ItemStatus status;  // the image's, which is then that of all regions; else the first bad region's
  std::vector<ItemStatus> rois;              // one for each region
  int64_t decode_ns = 0;                     // time spent in the JPEG decoder, once for all regions
  JpegDecoder decoder = JpegDecoder::kAuto;  // the one that ran; kAuto: none
};

// Throw kInvalidArgument when one image has more regions than `max_rois`; the second also when
// their tensors have more bytes than `max_roi_bytes`. For callers that have to find memory for the
// tensors first.
void CheckRoiCount(const PreprocessParams& params, int64_t count);
void CheckRoiTensors(const PreprocessParams& params, int64_t count);

// Encoded or decoded images -> tensors. Reusable and thread-safe.
class Preprocessor {
 public:
  // threads: images worked on at the same time in one Run; 0 takes all CPUs. Throws as Validate.
  explicit Preprocessor(const PreprocessParams& params, int threads = 0);

  const PreprocessParams& params() const noexcept { return params_; }
  int threads() const noexcept { return pool_.thread_count(); }

  // Processes images[i] into outputs[i]. A bad image gives its own item a status and touches no
  // other; results do not depend on the batch or the thread count. Throws kInvalidArgument when the
  // spans differ in length or an output does not have the right shape and dtype, before any work.
  std::vector<PreprocessItem> Run(std::span<const ImageView> images,
                                  std::span<const PreprocessOutput> outputs);

  // A tensor for each region of each image; an image is decoded once, and only as far down as its
  // regions reach. A region's tensor is the one that Run would make of its pixels, cut out of the
  // decoded image. Its geometry maps to coordinates of the whole image, whose size it holds:
  // pad_x is lowered by the region's left edge times scale_x, pad_y likewise. `decode: fast` does
  // not apply: regions are cut out of the exact pixels.
  //
  // A region without a pixel of the image, or with a number that is not finite, gets
  // kInvalidArgument and a blank tensor, and touches no other. A bad image fails all of its
  // regions; damage in a file below the last row that a region needs is not seen, and with no
  // region at all only the header is read. Throws as CheckRoiTensors, and as Run, before any work.
  std::vector<RoiItem> RunRois(std::span<const RoiImage> images);

 private:
  PreprocessParams params_;
  ThreadPool pool_;
};

// The same on a GPU: one launch makes the tensors of a whole batch. Reusable and thread-safe.
//
// `decode: exact` gives the CPU's numbers bit for bit: CPU threads do entropy decoding and inverse
// DCT, planes go up from pinned memory while other images are decoded, the kernel does the rest
// (`jpeg_decoder: hybrid`). `decode: fast` may use the GPU's JPEG engine through nvJPEG, for the
// files that it decodes (`jpeg_decoder: nvjpeg`).
class CudaPreprocessor {
 public:
  // threads: images decoded at the same time. Throws as Validate, and kCuda when the device cannot
  // be used.
  explicit CudaPreprocessor(const PreprocessParams& params, int device_id = 0, int threads = 0);
  ~CudaPreprocessor();
  CudaPreprocessor(const CudaPreprocessor&) = delete;
  CudaPreprocessor& operator=(const CudaPreprocessor&) = delete;

  const PreprocessParams& params() const noexcept;
  int threads() const noexcept;
  int device_id() const noexcept;

  // As Preprocessor::Run, but: images are encoded bytes in CPU memory, or pixels in CPU memory or
  // in that of the device; outputs[i].image is memory of the device; geometry and status are CPU
  // memory and valid on return. The tensors are written in the order of `stream` (a cudaStream_t;
  // null: the legacy default stream); the host has then read all images in CPU memory, but does not
  // wait for the kernel. A bad image gives its own item a status, and zeros. Throws kCuda and
  // kOutOfMemory for what is not one image's fault.
  std::vector<PreprocessItem> Run(std::span<const ImageView> images,
                                  std::span<const PreprocessOutput> outputs, void* stream);

  // As Preprocessor::RunRois, with images, outputs and `stream` as for Run: what holds the regions
  // is decoded by CPU threads (`jpeg_decoder` does not apply) and goes up as pixels. YUV in GPU
  // memory is kUnsupported.
  std::vector<RoiItem> RunRois(std::span<const RoiImage> images, void* stream);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace endcap
