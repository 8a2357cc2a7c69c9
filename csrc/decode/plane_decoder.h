#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/chroma_upsampling.h"
#include "decode/group_transform.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_markers.h"
#include "decode/libjpeg_session.h"
#include "decode/multi_scan_decoder.h"
#include "decode/parallel_scan.h"
#include "decode/sequential_decoder.h"
#include "endcap/decode.h"

namespace endcap {

// Decodes a JPEG to the planes of its components, a row of MCUs at a time: by SequentialDecoder or
// MultiScanDecoder. libjpeg-turbo decodes what those leave to it: files with a segment that is not
// what the standard has there, progressive ones that lack bits, scales without a transform of ours,
// and all where truncated or damaged files are accepted, since it is its decoder that makes up what
// is missing. All give the same samples.
class PlaneDecoder {
 public:
  enum class Decoder { kSequential, kMultiScan, kLibjpegTurbo };

  // `header` must come from ReadHeader on the same bytes, which checked the limits. One channel
  // asks for luma alone, three or four for color. Throws kCorruptImage.
  PlaneDecoder(std::span<const uint8_t> file, const ImageHeader& header,
               const DecodeOptions& options);
  PlaneDecoder(const PlaneDecoder&) = delete;
  PlaneDecoder& operator=(const PlaneDecoder&) = delete;

  const JpegFrame& frame() const noexcept { return frame_; }
  // Whether all planes can get the image's size; libjpeg-turbo has an error for others, and nothing
  // else is to be called then.
  bool has_pixels() const noexcept;
  // The planes that are decoded: luma alone where the image is to be gray, and is not RGB or CMYK.
  size_t plane_count() const noexcept { return luma_only_ ? 1 : frame_.component_count; }
  // How luma and chroma become the image; nothing where they are something else, see GetUpsampling
  // and HasFullLuma.
  std::optional<ChromaUpsampling> upsampling() const noexcept;
  Decoder decoder() const noexcept { return decoder_; }  // after Start

  // Takes memory; a file of several scans is read whole. Throws kCorruptImage, kOutOfMemory.
  void Start();
  // Samples outside of these columns of the image are not needed, nor written where that saves
  // time. Between Start and ReadMcuRow.
  void NeedColumns(int begin, int end) noexcept;
  // How a crew shares the decoding; pieces: 0 where it is not for several threads.
  ParallelScan::Plan MakePlan(const Crew& crew) const;
  // Lets it, as far as rows of MCUs before `end_mcu_row`. What ReadMcuRow is given is then what
  // `rows_of` gives. After NeedColumns.
  void Share(Crew& crew, const ParallelScan::Plan& plan, SequentialDecoder::RowsOf rows_of,
             int end_mcu_row);
  // Reads one row of MCUs. planes: null to compute no sample. Throws kCorruptImage when the data is
  // damaged up to there.
  void ReadMcuRow(const PlaneRows* planes);
  // After the last row of the image before `end_row` was read. Throws kCorruptImage for a truncated
  // file that shows no damage, because what follows the image data was decoded in the place of the
  // missing rest; see LibjpegSession::CheckEnd.
  void CheckEnd(int end_row);
  // See DecodeReport; after CheckEnd.
  std::string damage() const { return library_ != nullptr ? library_->damage() : ""; }

 private:
  Decoder ChooseDecoder() const noexcept;
  void StartLibrary();

  std::span<const uint8_t> file_;
  const ImageHeader header_;
  const JpegMarkers markers_;
  const bool luma_only_;
  const DecodeOptions options_;
  const JpegFrame frame_;
  Decoder decoder_ = Decoder::kLibjpegTurbo;
  std::unique_ptr<SequentialDecoder> sequential_;
  std::unique_ptr<ParallelScan> parallel_;  // of the same scan
  int next_mcu_row_ = 0;                    // of `parallel_`
  std::unique_ptr<MultiScanDecoder> multi_scan_;
  std::unique_ptr<LibjpegSession> library_;
};

}  // namespace endcap
