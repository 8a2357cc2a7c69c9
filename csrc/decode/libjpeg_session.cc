#include "decode/libjpeg_session.h"

#include <jerror.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "decode/file_formats.h"
#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

// MCUs between restart markers, more than a file can have.
constexpr unsigned kNever = std::numeric_limits<unsigned>::max();

constexpr JOCTET kEndMarker[] = {0xFF, JPEG_EOI};

// Warnings after which pixels are not those of the file. Source: libjpeg-turbo's jerror.h.
bool MeansDataLost(int message_code) {
  switch (message_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

// Whether a marker ends an image somewhere in `bytes`.
bool HoldsEndMarker(std::span<const uint8_t> bytes) {
  return std::search(bytes.begin(), bytes.end(), std::begin(kEndMarker), std::end(kEndMarker)) !=
         bytes.end();
}

// Reads all rows of a file as small as they come, for the errors alone.
bool Decodes(std::span<const uint8_t> file, const ImageHeader& header,
             LibjpegSession::Codes codes) {
  try {
    LibjpegSession session(file, Truncated::kReject);
    session.ReadHeader(header);
    session.SetOutput(session.info().jpeg_color_space, 8);
    session.Start(/*raw=*/false, codes);
    const jpeg_decompress_struct& info = session.info();
    std::vector<uint8_t> row(size_t{info.output_width} *
                             static_cast<size_t>(info.output_components));
    std::array<JSAMPROW, 1> rows = {row.data()};
    while (info.output_scanline < info.output_height) session.ReadRows(rows.data(), 1);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptImage) throw;
    return false;
  }
  return true;
}

void DoNothing(j_decompress_ptr /*info*/) {}
void PrintNothing(j_common_ptr /*info*/) {}

}  // namespace

LibjpegSession::LibjpegSession(std::span<const uint8_t> file, Truncated truncated) : file_(file) {
  info_.err = jpeg_std_error(&error_.base);
  error_.base.error_exit = OnError;
  error_.base.emit_message = OnMessage;
  error_.base.output_message = PrintNothing;
  error_.accepts_end = truncated == Truncated::kAccept;
  Guarded([](jpeg_decompress_struct* info) { jpeg_create_decompress(info); });
  source_.base.next_input_byte = file.data();
  source_.base.bytes_in_buffer = file.size();
  source_.base.init_source = DoNothing;
  source_.base.fill_input_buffer = OnSourceEmpty;
  source_.base.skip_input_data = OnSkip;
  source_.base.resync_to_restart = jpeg_resync_to_restart;
  source_.base.term_source = DoNothing;
  info_.src = &source_.base;
}

LibjpegSession::~LibjpegSession() { jpeg_destroy_decompress(&info_); }

// longjmp leaves `call`, so `call` must own nothing that has a destructor.
template <typename Call>
void LibjpegSession::Guarded(Call call) {
  if (setjmp(error_.escape) != 0) {
    if (error_.base.msg_code == JERR_OUT_OF_MEMORY) Fail(ErrorCode::kOutOfMemory, error_.message);
    FailCorrupt("the JPEG cannot be decoded: ", error_.message);
  }
  call(&info_);
}

void LibjpegSession::ThrowIfDataLost() const {
  if (error_.data_lost) FailCorrupt("the JPEG is cut short or damaged: ", error_.message);
}

void LibjpegSession::ReadHeader(const ImageHeader& expected) {
  Guarded([](jpeg_decompress_struct* info) { jpeg_read_header(info, TRUE); });
  if (info_.image_width != static_cast<unsigned>(expected.width) ||
      info_.image_height != static_cast<unsigned>(expected.height) ||
      (info_.progressive_mode != 0) != expected.progressive) {
    FailChanged(FileFormat::kJpeg);
  }
  progress_.scan_count = expected.scan_count;
}

void LibjpegSession::TakeFirstComponentOnly() noexcept {
  for (int i = 1; i < info_.num_components; ++i) info_.comp_info[i].component_needed = FALSE;
}

void LibjpegSession::SetOutput(J_COLOR_SPACE color, int scale_denominator) {
  info_.out_color_space = color;
  info_.scale_num = 1;
  info_.scale_denom = static_cast<unsigned>(scale_denominator);
  Guarded([](jpeg_decompress_struct* info) { jpeg_calc_output_dimensions(info); });
}

void LibjpegSession::Start(bool raw, Codes codes) {
  info_.raw_data_out = raw ? TRUE : FALSE;
  codes_ = error_.accepts_end ? Codes::kLibrary : codes;
  if (error_.accepts_end) LeaveOutCutSegment();
  if (raw && codes_ == Codes::kEndcap && jpeg_has_multiple_scans(&info_) == 0 &&
      SequentialDecoder::CanDecode(info_)) {
    sequential_ = std::make_unique<SequentialDecoder>(info_);
    return;
  }
  // For the first scan, which CheckedScans does not see; EntropyDecoder does not mind.
  if (info_.restart_interval == 0) info_.restart_interval = kNever;
  if (codes_ == Codes::kEndcap && EntropyDecoder::CanDecode(info_)) {
    entropy_ = std::make_unique<EntropyDecoder>(info_);
    info_.client_data = entropy_.get();
    progress_.take_over = EntropyDecoder::TakeOver;
  } else if (CheckedScans::CanTakeOver()) {
    info_.client_data = &checked_scans_;
    progress_.take_over = CheckedScans::TakeOver;
  }
  progress_.base.progress_monitor = OnProgress;
  info_.progress = &progress_.base;
  Guarded([](jpeg_decompress_struct* info) {
    jpeg_start_decompress(info);
    OnProgress(reinterpret_cast<j_common_ptr>(info));  // it calls it for several scans only
    info->progress = nullptr;
  });
  ThrowIfDataLost();
  if (jpeg_has_multiple_scans(&info_) != 0 && source_.past_end && !error_.accepts_end) {
    FailCorrupt("the JPEG is cut short: its last scans are missing");
  }
}

// A file that ends in a segment between two scans: the library would take that for an error.
void LibjpegSession::LeaveOutCutSegment() {
  const JpegMarkers markers = ReadMarkers(file_.data(), file_.size());
  if (!markers.has_several_scans()) return;
  const ScanSummary scans =
      ReadScans(file_.data(), file_.size(), markers, progress_.scan_count + 1);
  const uint8_t* end = file_.data() + scans.end;
  if (end < source_.base.next_input_byte) FailChanged(FileFormat::kJpeg);
  source_.base.bytes_in_buffer = static_cast<size_t>(end - source_.base.next_input_byte);
}

int LibjpegSession::ReadRows(JSAMPROW* rows, int capacity) {
  JDIMENSION count = 0;
  Guarded([&count, rows, capacity](jpeg_decompress_struct* info) {
    count = jpeg_read_scanlines(info, rows, static_cast<JDIMENSION>(capacity));
  });
  ThrowIfDataLost();
  if (count == 0) Fail(ErrorCode::kInternal, "libjpeg-turbo returned no row");
  return static_cast<int>(count);
}

void LibjpegSession::SkipRows(int count) {
  Guarded([count](jpeg_decompress_struct* info) {
    jpeg_skip_scanlines(info, static_cast<JDIMENSION>(count));
  });
  ThrowIfDataLost();
}

void LibjpegSession::NeedComponents(bool needed) noexcept {
  for (int i = 0; i < info_.num_components; ++i) {
    info_.comp_info[i].component_needed = needed ? TRUE : FALSE;
  }
}

void LibjpegSession::ReadMcuRow(JSAMPIMAGE planes) {
  const SequentialDecoder::Damage damage = sequential_->ReadMcuRow(planes);
  if (damage.warning != 0) {
    info_.err->msg_code = damage.warning;
    info_.err->msg_parm.i[0] = damage.marker;
    info_.err->msg_parm.i[1] = damage.expected;
    OnMessage(reinterpret_cast<j_common_ptr>(&info_), -1);
    ThrowIfDataLost();
  }
  if (++mcu_rows_read_ < info_.total_iMCU_rows) return;
  info_.unread_marker = sequential_->SkipToMarker();
  source_.base.next_input_byte = sequential_->rest().data();
  source_.base.bytes_in_buffer = sequential_->rest().size();
}

// The library's coefficient controller looks at component_needed block by block.
void LibjpegSession::SkipPlanes(JSAMPIMAGE planes, int rows) {
  if (sequential_ != nullptr) return ReadMcuRow(nullptr);
  NeedComponents(false);
  ReadPlanes(planes, rows);
  NeedComponents(true);
}

void LibjpegSession::ReadPlanes(JSAMPIMAGE planes, int rows) {
  if (sequential_ != nullptr) return ReadMcuRow(planes);
  JDIMENSION count = 0;
  Guarded([&count, planes, rows](jpeg_decompress_struct* info) {
    count = jpeg_read_raw_data(info, planes, static_cast<JDIMENSION>(rows));
  });
  ThrowIfDataLost();
  if (count == 0) Fail(ErrorCode::kInternal, "libjpeg-turbo returned no samples");
}

// The rows were read to the last MCU.
bool LibjpegSession::HasEndMarker() const noexcept {
  if (source_.past_end) return false;
  if (info_.unread_marker == JPEG_EOI) return true;
  return HoldsEndMarker({source_.base.next_input_byte, source_.base.bytes_in_buffer});
}

void LibjpegSession::CheckEnd(const ImageHeader& header, int end_row) {
  const auto last_mcu_row = static_cast<int>(info_.total_iMCU_rows) - 1;
  if (end_row <= last_mcu_row * ImageRowsPerMcu(info_)) return;
  // Start has looked for the end of other files.
  if (error_.accepts_end || jpeg_has_multiple_scans(&info_) != 0 || HasEndMarker()) return;
  size_t size = file_.size();
  while (size > 2 && file_[size - 1] == 0xFF) --size;
  if (file_[size - 1] == 0 && file_[size - 2] == 0) {
    FailCorrupt(
        "the JPEG is cut short: it has no end marker and ends in zeros; truncated: accept decodes "
        "it");
  }
  // Whether bytes were left over depends on how far the library's decoder reads ahead.
  if (Decodes(file_.first(size - 1), header, codes_)) {
    FailCorrupt(
        "the JPEG is cut short: it has no end marker, and more bytes than its image needs; "
        "truncated: accept decodes it");
  }
}

// Called between what is read of the scans. The first time the library's decoder is there, and has
// read nothing yet.
void LibjpegSession::OnProgress(j_common_ptr info) {
  auto* monitor = reinterpret_cast<ProgressMonitor*>(info->progress);
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (const auto take_over = std::exchange(monitor->take_over, nullptr)) take_over(decompress);
  if (decompress->input_scan_number <= monitor->scan_count) return;
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  std::snprintf(manager->message, sizeof(manager->message), "it has more than the %d scans counted",
                monitor->scan_count);
  manager->base.msg_code = 0;
  std::longjmp(manager->escape, 1);
}

void LibjpegSession::OnError(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message);
  std::longjmp(manager->escape, 1);
}

void LibjpegSession::OnMessage(j_common_ptr info, int level) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  if (level >= 0) return;  // a trace message
  ++manager->base.num_warnings;
  if (manager->data_lost || !MeansDataLost(manager->base.msg_code)) return;
  if (manager->accepts_end && IsEarlyEnd(info)) return;
  manager->data_lost = true;
  manager->base.format_message(info, manager->message);
}

// Whether a warning means that the image's end came early, or follows from that: the library puts
// zeros in the place of what is missing, which may be no code.
bool LibjpegSession::IsEarlyEnd(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  const int code = manager->base.msg_code;
  const bool at_marker = code == JWRN_HIT_MARKER || code == JWRN_MUST_RESYNC;
  const int marker = reinterpret_cast<j_decompress_ptr>(info)->unread_marker;
  manager->has_ended = manager->has_ended || (at_marker && marker == JPEG_EOI);
  return manager->has_ended;
}

// At the end of the data an end marker is made up once: a file that lacks nothing else decodes, and
// one that lacks image data makes the entropy decoder warn (JWRN_HIT_MARKER).
boolean LibjpegSession::OnSourceEmpty(j_decompress_ptr info) {
  auto* source = reinterpret_cast<SourceManager*>(info->src);
  if (source->past_end) ERREXIT(info, JERR_INPUT_EOF);
  source->past_end = true;
  source->base.next_input_byte = kEndMarker;
  source->base.bytes_in_buffer = sizeof(kEndMarker);
  return TRUE;
}

void LibjpegSession::OnSkip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  jpeg_source_mgr* source = info->src;
  if (static_cast<size_t>(count) > source->bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
  source->next_input_byte += count;
  source->bytes_in_buffer -= static_cast<size_t>(count);
}

namespace {

// Samples of a component in each direction, of max_samp_factor at full size.
struct Sampling {
  int h;
  int v;
  bool operator==(const Sampling&) const = default;
};

Sampling GetSampling(const jpeg_decompress_struct& info, int component) {
  const jpeg_component_info& c = info.comp_info[component];
  return {c.h_samp_factor * ScaledBlockSize(c) / MinScaledBlockSize(info),
          c.v_samp_factor * ScaledBlockSize(c) / MinScaledBlockSize(info)};
}

Sampling FullSampling(const jpeg_decompress_struct& info) {
  return {info.max_h_samp_factor, info.max_v_samp_factor};
}

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

}  // namespace

std::optional<ChromaUpsampling> GetUpsampling(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space == JCS_GRAYSCALE) return ChromaUpsampling::kGray;
  if (info.jpeg_color_space != JCS_YCbCr || info.num_components != 3) return std::nullopt;
  const Sampling full = FullSampling(info);
  const Sampling chroma = GetSampling(info, 1);
  if (GetSampling(info, 0) != full || GetSampling(info, 2) != chroma) return std::nullopt;
  if (chroma == full) return ChromaUpsampling::kNone;
  const bool columns = chroma.h * 2 == full.h;
  const bool rows = chroma.v * 2 == full.v;
  if ((!columns && chroma.h != full.h) || (!rows && chroma.v != full.v)) return std::nullopt;
  // Where the library takes the nearest sample instead of its filter.
  if (MinScaledBlockSize(info) == 1) return std::nullopt;
  if (columns && info.comp_info[1].downsampled_width <= 2) return std::nullopt;
  if (columns) return rows ? ChromaUpsampling::kColumnsAndRows : ChromaUpsampling::kColumns;
  return ChromaUpsampling::kRows;
}

bool HasFullLuma(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space == JCS_GRAYSCALE) return true;
  return info.jpeg_color_space == JCS_YCbCr && GetSampling(info, 0) == FullSampling(info);
}

PlaneSize GetPlaneSize(const jpeg_decompress_struct& info, int component) {
  const jpeg_component_info& c = info.comp_info[component];
  const int mcu_width = info.max_h_samp_factor * MinScaledBlockSize(info);
  const int mcus = CeilDivide(static_cast<int>(info.output_width), mcu_width);
  return {static_cast<int>(c.downsampled_width), static_cast<int>(c.downsampled_height),
          mcus * c.h_samp_factor * ScaledBlockSize(c), c.v_samp_factor * ScaledBlockSize(c)};
}

}  // namespace endcap
