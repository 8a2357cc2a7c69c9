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
enum class Base64 : int32_t { kAccept, kReject };
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
  PadAlign pad_align = PadAlign::kCenter;  // position of the image in its padding
  bool upscale = true;                     // whether kLetterbox may enlarge
  Color color = Color::kRgb;
  Layout layout = Layout::kNchw;
  DType dtype = DType::kFloat32;
  // y = (x * scale - mean) / std. Without a scale: 1 for uint8, 1/255 for the other dtypes. Integer
  // dtypes round half to even and saturate.
  std::optional<double> scale;
  std::array<double, 3> mean{0.0, 0.0, 0.0};  // per channel of the tensor
  std::array<double, 3> std{1.0, 1.0, 1.0};
  ExifPolicy exif = ExifPolicy::kApply;  // whether EXIF orientation is applied
  // kExact: libjpeg-turbo's default pixels. kFast: DCT scaling to the smallest of 1/8 to 5/8 and
  // 8/8 that is not below the resized size.
  DecodeMode decode = DecodeMode::kExact;
  JpegDecoder jpeg_decoder = JpegDecoder::kAuto;
  // Whether an image may be base64 text of a file (DecodeBase64); limits are those of the file.
  Base64 base64 = Base64::kAccept;
  DecodeLimits limits;
  Truncated truncated = Truncated::kReject;
  Damaged damaged = Damaged::kReject;  // kAccept: without nvJPEG, whose pixels are others
  Alpha alpha = Alpha::kDrop;
  // Regions of one image, and bytes of all their tensors; checked before anything is decoded. The
  // defaults go together: 1000 regions for a classifier, 3x224x224 float32, take 602 MB.
  int max_rois = 1000;
  int64_t max_roi_bytes = int64_t{1} << 30;
  // Slicing: the size of an image's tiles, in its pixels; 0: off. See ReadTiles.
  int tile_height = 0;
  int tile_width = 0;
  double tile_overlap = 0.2;  // the share of a tile that the next one repeats
  bool tile_full = true;      // the whole image is one more tile
  // What a caller does with a bad image: kError: its request fails; kBlank: zeros and its status.
  OnError on_error = OnError::kError;

  double ResolvedScale() const noexcept {
    return scale.value_or(dtype == DType::kUint8 ? 1.0 : 1.0 / 255.0);
  }
  int channels() const noexcept { return color == Color::kGray ? 1 : 3; }
  bool slices() const noexcept { return tile_height > 0; }
  // Those of a file that is decoded to that many channels.
  DecodeOptions decode_options(int file_channels, int eighths = 8) const noexcept {
    return {file_channels, eighths, truncated, damaged, alpha};
  }
};

// Names of the presets: recipes of whole training pipelines.
std::span<const std::string_view> PresetNames() noexcept;

// The parameters of a preset; every field is the preset's own. Throws kInvalidArgument.
PreprocessParams Preset(std::string_view name);

// Builds parameters from text. A `preset` entry applies first, at any position in the list; the
// others override it. Throws kInvalidArgument for an unknown name or an impossible value,
// kUnsupported for what this build cannot do. The result is valid.
PreprocessParams ParsePreprocessParams(const ParameterList& list);

// The table: name, allowed values, and the value in `params`.
std::vector<ParameterInfo> DescribePreprocessParams(const PreprocessParams& params);

// Throws kInvalidArgument or kUnsupported when `params` cannot be carried out.
void Validate(const PreprocessParams& params);

// Names, dtypes and shapes of one image's outputs: images, geometry [8], status [1].
std::vector<TensorSpec> PreprocessOutputs(const PreprocessParams& params);

// Where one tensor goes, and what belongs to it. All are written, also when the image fails: then
// the tensor is zeros and the geometry that of an unscaled 0x0 image.
struct PreprocessOutput {
  // Shape and dtype as PreprocessOutputs says, in memory of the preprocessor's device. Without
  // data: the tensor is not wanted, and the image is decoded for its status alone, which is the
  // same.
  TensorView image;
  float* geometry = nullptr;  // 8 values in CPU memory; may be null
  int32_t* status = nullptr;  // one value in CPU memory, an ErrorCode; may be null
  int source_index = 0;       // copied into the geometry
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

// An image, and the outputs that are made of it: one of the whole image, or, with `rois`, one of
// each region; all with a tensor, or none.
struct PreprocessInput {
  ImageView image;
  std::optional<std::span<const Roi>> rois;
  std::span<const PreprocessOutput> outputs;
};

// The result of one input.
struct PreprocessItem {
  ItemStatus status;  // the image's, which is then that of all regions; else the first bad region's
  std::vector<ItemStatus> rois;  // one for each region; none for a whole image
  int64_t start_ns = 0;          // when the work on it began, by the steady clock; 0: not measured
  int64_t decode_ns = 0;         // time spent in the JPEG decoder
  std::string damage;            // see DecodeReport
  int64_t resize_ns = 0;         // time spent on the rest, where start_ns is measured
  JpegDecoder decoder = JpegDecoder::kAuto;  // the one that ran; kAuto: none, the image was pixels
};

// Throw kInvalidArgument when one image has more regions than `max_rois`; the second also when
// their tensors have more bytes than `max_roi_bytes`. For callers that have to find memory for the
// tensors first.
void CheckRoiCount(const PreprocessParams& params, int64_t count);
void CheckRoiTensors(const PreprocessParams& params, int64_t count);

// The tiles of an image of that size: rows from the top down, each from the left, where SAHI's
// get_slice_bboxes places them. Neighbours share int(tile_overlap * tile) pixels, the last tile of
// a row or column is moved back into the image. Several are followed by the whole image with
// tile_full. Throws as CheckRoiTensors.
std::vector<Roi> ComputeTiles(const PreprocessParams& params, int image_w, int image_h);

// The same for an image, of which only the header is read: the regions that Run takes with the
// parameter `tile`. An image that cannot be read has one, which Run gives its status. Throws
// kInvalidArgument without `tile`.
std::vector<Roi> ReadTiles(const PreprocessParams& params, ImageView image);

class PreprocessDevice;

// Encoded or decoded images -> tensors, on a CPU or a GPU with the same results. Reusable and
// thread-safe.
//
// On a GPU one launch makes the tensors of a whole batch. `decode: exact` gives the CPU's numbers
// bit for bit: CPU threads do entropy decoding and inverse DCT, planes are uploaded from pinned
// memory while other images are decoded, the kernel does the rest (`jpeg_decoder: hybrid`).
// `decode: fast` may use the GPU's JPEG engine through nvJPEG, for the files that it decodes
// (`jpeg_decoder: nvjpeg`).
class Preprocessor {
 public:
  // threads: images worked on at the same time in one Run; 0 takes all CPUs. Throws as Validate,
  // kUnsupported for a `jpeg_decoder` that the device does not have, and kCuda when the device
  // cannot be used.
  Preprocessor(const PreprocessParams& params, DeviceId device, int threads = 0);
  // On the CPU.
  explicit Preprocessor(const PreprocessParams& params, int threads = 0);
  ~Preprocessor();
  Preprocessor(const Preprocessor&) = delete;
  Preprocessor& operator=(const Preprocessor&) = delete;

  const PreprocessParams& params() const noexcept { return params_; }
  DeviceId device() const noexcept { return device_; }
  int threads() const noexcept;

  // Makes the tensors of all inputs. A bad image gives its own item a status and touches no other;
  // results do not depend on the batch or the thread count. Throws kInvalidArgument when an input
  // has another number of outputs than it needs or an output does not have the right shape, dtype
  // and device, before any work; as CheckRoiTensors.
  //
  // Images are encoded bytes in CPU memory, or pixels in CPU memory or, on a GPU, in that of the
  // device. On a GPU the tensors are written stream-ordered on `stream` (a cudaStream_t; null: the
  // legacy default stream); on return the host has read all images in CPU memory and written
  // geometries and statuses, but does not wait for the kernel. Throws kCuda and kOutOfMemory for
  // what is not one image's fault. On a CPU `stream` is not used.
  //
  // Regions: an image is decoded once, and only as far down as its regions reach. A region's tensor
  // is the one that would be made of its pixels alone, cut out of the decoded image. Its geometry
  // maps to coordinates of the whole image, whose size it holds: pad_x is lowered by the region's
  // left edge times scale_x, pad_y likewise. `decode: fast` and `jpeg_decoder` do not apply:
  // regions are cut out of the exact pixels, which CPU threads decode. A region without a pixel of
  // the image, or with a number that is not finite, gets kInvalidArgument and a blank tensor, and
  // touches no other. A bad image fails all of its regions; damage in a file below the last row
  // that a region needs is not seen, and with no region at all only the header is read. Regions of
  // YUV in GPU memory are kUnsupported.
  std::vector<PreprocessItem> Run(std::span<const PreprocessInput> inputs, void* stream = nullptr);

  // The same for whole images: images[i] into outputs[i].
  std::vector<PreprocessItem> Run(std::span<const ImageView> images,
                                  std::span<const PreprocessOutput> outputs,
                                  void* stream = nullptr);

 private:
  PreprocessParams params_;
  DeviceId device_;
  std::unique_ptr<PreprocessDevice> engine_;
};

}  // namespace endcap
