#include "decode/plane_decoder.h"

#include <utility>

#include "common/fail.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

JpegMarkers ReadMarkersAgain(std::span<const uint8_t> file, const ImageHeader& header) {
  const JpegMarkers markers = ReadMarkers(file.data(), file.size());
  const int count = markers.component_count;
  const bool same =
      markers.width == header.width && markers.height == header.height && markers.precision == 8 &&
      markers.frame_marker <= kSof2 && markers.progressive() == header.progressive &&
      DetectColor(markers) == header.color && (count == 1 || count == 3 || count == 4);
  if (!same) FailChanged(FileFormat::kJpeg);
  return markers;
}

}  // namespace

PlaneDecoder::PlaneDecoder(std::span<const uint8_t> file, const ImageHeader& header,
                           const DecodeOptions& options)
    : file_(file),
      header_(header),
      markers_(ReadMarkersAgain(file, header)),
      luma_only_(options.channels == 1 &&
                 (header.color == JpegColor::kGray || header.color == JpegColor::kYcbcr)),
      options_(options),
      frame_(MakeFrame(markers_, options.eighths)) {}

PlaneDecoder::Decoder PlaneDecoder::ChooseDecoder() const noexcept {
  if (options_.truncated == Truncated::kAccept || options_.damaged == Damaged::kAccept) {
    return Decoder::kLibjpegTurbo;
  }
  const InverseDctKernels kernels = FastestInverseDct();
  for (size_t i = 0; i < frame_.component_count; ++i) {
    if (!kernels.Have(frame_.components[i].block_size)) return Decoder::kLibjpegTurbo;
  }
  if (SequentialDecoder::CanDecode(markers_)) return Decoder::kSequential;
  return MultiScanDecoder::CanDecode(file_, markers_, header_.scan_count) ? Decoder::kMultiScan
                                                                          : Decoder::kLibjpegTurbo;
}

bool PlaneDecoder::has_pixels() const noexcept {
  for (size_t i = 0; i < plane_count(); ++i) {
    if (!GetPlaneUpsampling(frame_, i)) return false;
  }
  return true;
}

std::optional<ChromaUpsampling> PlaneDecoder::upsampling() const noexcept {
  if (!luma_only_) return GetUpsampling(frame_);
  return HasFullLuma(frame_) ? std::optional(ChromaUpsampling::kGray) : std::nullopt;
}

void PlaneDecoder::Start() {
  decoder_ = ChooseDecoder();
  if (decoder_ == Decoder::kSequential) {
    sequential_ = std::make_unique<SequentialDecoder>(file_, markers_, frame_, plane_count());
  } else if (decoder_ == Decoder::kMultiScan) {
    multi_scan_ = std::make_unique<MultiScanDecoder>(file_, markers_, frame_, plane_count(),
                                                     header_.scan_count);
  } else {
    StartLibrary();
  }
}

void PlaneDecoder::StartLibrary() {
  library_ = std::make_unique<LibjpegSession>(file_, options_);
  library_->ReadHeader(header_);
  if (luma_only_) library_->TakeFirstComponentOnly();
  library_->SetOutput(luma_only_ ? JCS_GRAYSCALE : JCS_RGB, options_.eighths);
  if (!library_->HasFrame(frame_)) FailChanged(FileFormat::kJpeg);
  library_->Start(/*raw=*/true);
}

void PlaneDecoder::NeedColumns(int begin, int end) noexcept {
  if (sequential_ != nullptr) sequential_->NeedColumns(begin, end);
  if (multi_scan_ != nullptr) multi_scan_->NeedColumns(begin, end);
}

ParallelScan::Plan PlaneDecoder::MakePlan(const Crew& crew) const {
  return sequential_ != nullptr ? ParallelScan::MakePlan(*sequential_, crew) : ParallelScan::Plan{};
}

void PlaneDecoder::Share(Crew& crew, const ParallelScan::Plan& plan,
                         SequentialDecoder::RowsOf rows_of, int end_mcu_row) {
  parallel_ =
      std::make_unique<ParallelScan>(*sequential_, plan, crew, std::move(rows_of), end_mcu_row);
}

// Where parallel decoding fails, one thread decodes the file again from the beginning, and reports
// the error.
void PlaneDecoder::ReadMcuRow(const PlaneRows* planes) {
  if (parallel_ != nullptr) {
    if (parallel_->Require(next_mcu_row_)) {
      ++next_mcu_row_;
      return;
    }
    parallel_ = nullptr;
    for (int row = 0; row < next_mcu_row_; ++row) sequential_->ReadMcuRow(nullptr);
  }
  if (sequential_ != nullptr) {
    sequential_->ReadMcuRow(planes);
  } else if (multi_scan_ != nullptr) {
    multi_scan_->ReadMcuRow(planes);
  } else {
    library_->ReadPlanes(planes, frame_.rows_per_mcu());
  }
}

void PlaneDecoder::CheckEnd(int end_row) {
  if (library_ != nullptr) return library_->CheckEnd(header_, end_row);
  // The decoder of several scans has looked for the end of the file.
  if (sequential_ == nullptr || end_row <= (frame_.mcu_rows - 1) * frame_.rows_per_mcu()) return;
  ScanReader& data = parallel_ != nullptr ? parallel_->data() : sequential_->data();
  const bool has_unread_bytes = data.has_unread_bytes();
  if (data.FindEndMarker()) return;
  CheckZerosAtEnd(file_);
  if (has_unread_bytes) FailUnreadBytes();
}

}  // namespace endcap
