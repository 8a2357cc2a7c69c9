#include "decode/libjpeg_session.h"

#include <jerror.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "common/fail.h"
#include "decode/file_formats.h"
#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

// MCUs between restart markers, more than a file can have.
constexpr unsigned kNever = std::numeric_limits<unsigned>::max();

constexpr JOCTET kEndMarker[] = {0xFF, JPEG_EOI};

// A segment by which a file ends its restart markers.
constexpr std::array<uint8_t, 6> kNoRestarts = {0xFF, kDri, 0, 4, 0, 0};

// Samples of a block's side that the inverse DCT gives. The field's name depends on the version of
// the interface.
int ScaledBlockSize(const jpeg_component_info& component) {
#if JPEG_LIB_VERSION >= 70
  return component.DCT_h_scaled_size;
#else
  return component.DCT_scaled_size;
#endif
}

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

bool HoldsEndMarker(std::span<const uint8_t> bytes) {
  return std::search(bytes.begin(), bytes.end(), std::begin(kEndMarker), std::end(kEndMarker)) !=
         bytes.end();
}

// Reads all rows of a file as small as they come, for the errors alone.
bool Decodes(std::span<const uint8_t> file, const ImageHeader& header) {
  try {
    LibjpegSession session(file, {});
    session.ReadHeader(header);
    session.SetOutput(session.info().jpeg_color_space, /*eighths=*/1);
    session.Start(/*raw=*/false);
    const jpeg_decompress_struct& info = session.info();
    std::vector<uint8_t> row(size_t{info.output_width} *
                             static_cast<size_t>(info.output_components));
    while (info.output_scanline < info.output_height) session.ReadRow(row.data());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptImage) throw;
    return false;
  }
  return true;
}

void DoNothing(j_decompress_ptr /*info*/) {}
void PrintNothing(j_common_ptr /*info*/) {}

}  // namespace

LibjpegSession::LibjpegSession(std::span<const uint8_t> file, const DecodeOptions& options)
    : file_(file) {
  info_.err = jpeg_std_error(&error_.base);
  error_.base.error_exit = OnError;
  error_.base.emit_message = OnMessage;
  error_.base.output_message = PrintNothing;
  error_.accepts_end = options.truncated == Truncated::kAccept;
  error_.accepts_damage = options.damaged == Damaged::kAccept;
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
  if (error_.data_lost && !error_.accepts_damage) {
    FailCorrupt("the JPEG is cut short or damaged: ", error_.message,
                "; damaged: accept decodes it");
  }
}

// What the library does not warn about.
void LibjpegSession::NoteDamage(const char* what) noexcept {
  if (error_.data_lost) return;
  error_.data_lost = true;
  std::snprintf(error_.message, sizeof(error_.message), "%s", what);
}

void LibjpegSession::ReadHeader(const ImageHeader& expected) {
  Guarded([](jpeg_decompress_struct* info) { jpeg_read_header(info, TRUE); });
  if (info_.image_width != static_cast<unsigned>(expected.width) ||
      info_.image_height != static_cast<unsigned>(expected.height) ||
      (info_.progressive_mode != 0) != expected.progressive) {
    FailChanged(FileFormat::kJpeg);
  }
  progress_.scan_count = expected.scan_count;
  if (expected.lacks_component) NoteDamage("the JPEG is cut short: a color component has no scan");
}

void LibjpegSession::TakeFirstComponentOnly() noexcept {
  needed_components_ = 1;
  NeedComponents(needed_components_);
}

void LibjpegSession::SetOutput(J_COLOR_SPACE color, int eighths) {
  info_.out_color_space = color;
  info_.scale_num = static_cast<unsigned>(eighths);
  info_.scale_denom = kBlockSide;
  Guarded([](jpeg_decompress_struct* info) { jpeg_calc_output_dimensions(info); });
}

bool LibjpegSession::HasFrame(const JpegFrame& frame) const noexcept {
  bool same = info_.output_width == static_cast<unsigned>(frame.width) &&
              info_.output_height == static_cast<unsigned>(frame.height) &&
              info_.num_components == static_cast<int>(frame.component_count) &&
              info_.max_h_samp_factor == frame.max_h && info_.max_v_samp_factor == frame.max_v;
  for (size_t i = 0; same && i < frame.component_count; ++i) {
    const jpeg_component_info& found = info_.comp_info[i];
    const JpegComponent& component = frame.components[i];
    same = found.h_samp_factor == component.h && found.v_samp_factor == component.v &&
           ScaledBlockSize(found) == component.block_size;
  }
  return same;
}

void LibjpegSession::Start(bool raw) {
  info_.raw_data_out = raw ? TRUE : FALSE;
  const bool has_several_scans = jpeg_has_multiple_scans(&info_) != 0;
  if (error_.accepts_end) LeaveOutCutSegment();
  if (!error_.accepts_damage) {
    // The library's decoder for data without restart markers takes a bad code for a zero.
    if (info_.restart_interval == 0) info_.restart_interval = kNever;
    if (has_several_scans) {
      source_.rest = {source_.base.next_input_byte, source_.base.bytes_in_buffer};
      GiveNextPart(source_);
    }
  }
  progress_.base.progress_monitor = OnProgress;
  info_.progress = &progress_.base;
  Guarded([](jpeg_decompress_struct* info) {
    jpeg_start_decompress(info);
    info->progress = nullptr;
  });
  ThrowIfDataLost();
  if (has_several_scans && source_.past_end && !error_.accepts_end) {
    constexpr const char* kMissing = "the JPEG is cut short: its last scans are missing";
    if (!error_.accepts_damage) FailCorrupt(kMissing);
    NoteDamage(kMissing);
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

void LibjpegSession::ReadRow(uint8_t* row) {
  JDIMENSION count = 0;
  Guarded([&](jpeg_decompress_struct* info) { count = jpeg_read_scanlines(info, &row, 1); });
  ThrowIfDataLost();
  if (count == 0) Fail(ErrorCode::kInternal, "libjpeg-turbo returned no row");
}

void LibjpegSession::SkipRows(int count) {
  Guarded([count](jpeg_decompress_struct* info) {
    jpeg_skip_scanlines(info, static_cast<JDIMENSION>(count));
  });
  ThrowIfDataLost();
}

// The library's coefficient controller looks at component_needed block by block.
void LibjpegSession::NeedComponents(int count) noexcept {
  for (int i = 0; i < info_.num_components; ++i) {
    info_.comp_info[i].component_needed = i < count ? TRUE : FALSE;
  }
}

void LibjpegSession::ReadPlanes(const PlaneRows* planes, int rows) {
  // A component has no more rows than the MCU: its blocks grow only as far as that.
  std::array<std::array<JSAMPROW, MAX_SAMP_FACTOR * DCTSIZE>, kMaxJpegComponents> row_pointers{};
  std::array<JSAMPARRAY, MAX_COMPONENTS> of_components{};
  for (size_t i = 0; planes != nullptr && i < planes->size(); ++i) {
    if ((*planes)[i].data == nullptr) continue;
    of_components[i] = row_pointers[i].data();
    const jpeg_component_info& component = info_.comp_info[i];
    const int count = component.v_samp_factor * ScaledBlockSize(component);
    for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
      row_pointers[i][row] = (*planes)[i].Row(row);
    }
  }
  NeedComponents(planes != nullptr ? needed_components_ : 0);
  JDIMENSION count = 0;
  JSAMPIMAGE image = of_components.data();
  Guarded([&count, image, rows](jpeg_decompress_struct* info) {
    count = jpeg_read_raw_data(info, image, static_cast<JDIMENSION>(rows));
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
  const int last_mcu_row = static_cast<int>(info_.total_iMCU_rows) - 1;
  const int rows_per_mcu = info_.max_v_samp_factor * kBlockSide *
                           static_cast<int>(info_.scale_num) / static_cast<int>(info_.scale_denom);
  if (end_row <= last_mcu_row * rows_per_mcu) return;
  // Start has looked for the end of other files.
  if (error_.accepts_end || jpeg_has_multiple_scans(&info_) != 0 || HasEndMarker()) return;
  if (!error_.accepts_damage) return CheckWhatFollows(header);
  if (error_.data_lost) return;
  try {
    CheckWhatFollows(header);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptImage) throw;
    NoteDamage(error.what());
  }
}

void LibjpegSession::CheckWhatFollows(const ImageHeader& header) const {
  CheckZerosAtEnd(file_);
  size_t size = file_.size();
  while (size > 2 && file_[size - 1] == 0xFF) --size;
  // Whether bytes were left over depends on how far the library's decoder reads ahead.
  if (Decodes(file_.first(size - 1), header)) FailUnreadBytes();
}

void CheckZerosAtEnd(std::span<const uint8_t> file) {
  size_t size = file.size();
  while (size > 2 && file[size - 1] == 0xFF) --size;
  if (file[size - 1] == 0 && file[size - 2] == 0) {
    FailCorrupt(
        "the JPEG is cut short: it has no end marker and ends in zeros; truncated: accept decodes "
        "it");
  }
}

void FailUnreadBytes() {
  FailCorrupt(
      "the JPEG is cut short: it has no end marker, and more bytes than its image needs; "
      "truncated: accept decodes it");
}

// Called between what is read of the scans.
void LibjpegSession::OnProgress(j_common_ptr info) {
  auto* monitor = reinterpret_cast<ProgressMonitor*>(info->progress);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= monitor->scan_count) return;
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
  if (manager->accepts_end && !manager->accepts_damage && IsEarlyEnd(info)) return;
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

// Up to the next segment that ends restart markers. What looks like one in the middle of another
// does no harm.
void LibjpegSession::GiveNextPart(SourceManager& source) noexcept {
  const auto found =
      std::search(source.rest.begin(), source.rest.end(), kNoRestarts.begin(), kNoRestarts.end());
  const bool is_last = found == source.rest.end();
  const auto size =
      static_cast<size_t>(found - source.rest.begin()) + (is_last ? 0 : kNoRestarts.size());
  source.base.next_input_byte = source.rest.data();
  source.base.bytes_in_buffer = size;
  source.rest = source.rest.subspan(size);
}

// At the end of the data an end marker is made up once: a file that lacks nothing else decodes, and
// one that lacks image data makes the entropy decoder warn (JWRN_HIT_MARKER). Where damage is
// accepted it is made up as often as the library asks, as its own source of memory does.
boolean LibjpegSession::OnSourceEmpty(j_decompress_ptr info) {
  auto* source = reinterpret_cast<SourceManager*>(info->src);
  if (!source->rest.empty()) {
    // As in Start, for the scans behind the segment.
    if (info->restart_interval == 0) info->restart_interval = kNever;
    GiveNextPart(*source);
    return TRUE;
  }
  const bool is_plain = reinterpret_cast<ErrorManager*>(info->err)->accepts_damage;
  if (source->past_end && !is_plain) ERREXIT(info, JERR_INPUT_EOF);
  source->past_end = true;
  source->base.next_input_byte = kEndMarker;
  source->base.bytes_in_buffer = sizeof(kEndMarker);
  return TRUE;
}

void LibjpegSession::OnSkip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  auto* source = reinterpret_cast<SourceManager*>(info->src);
  auto left = static_cast<size_t>(count);
  while (left > source->base.bytes_in_buffer && !source->rest.empty()) {
    left -= source->base.bytes_in_buffer;
    GiveNextPart(*source);
  }
  const bool is_plain = reinterpret_cast<ErrorManager*>(info->err)->accepts_damage;
  while (left > source->base.bytes_in_buffer) {
    if (!is_plain) ERREXIT(info, JERR_INPUT_EOF);
    left -= source->base.bytes_in_buffer;
    OnSourceEmpty(info);
  }
  source->base.next_input_byte += left;
  source->base.bytes_in_buffer -= left;
}

}  // namespace endcap
