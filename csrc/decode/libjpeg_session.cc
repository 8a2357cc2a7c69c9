#include "decode/libjpeg_session.h"

#include <jerror.h>

#include <limits>
#include <utility>

#include "common/fail.h"

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

void DoNothing(j_decompress_ptr /*info*/) {}
void PrintNothing(j_common_ptr /*info*/) {}

}  // namespace

LibjpegSession::LibjpegSession(const uint8_t* bytes, size_t size) {
  info_.err = jpeg_std_error(&error_.base);
  error_.base.error_exit = OnError;
  error_.base.emit_message = OnMessage;
  error_.base.output_message = PrintNothing;
  Guarded([](jpeg_decompress_struct* info) { jpeg_create_decompress(info); });
  source_.base.next_input_byte = bytes;
  source_.base.bytes_in_buffer = size;
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
    FailCorrupt("the JPEG's bytes changed while it was decoded");
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
  // Without restart markers the library's own decoder hurries, and takes a bad code for a zero. (A
  // file of several scans can set this back for the later ones; EntropyDecoder does not mind.)
  if (info_.restart_interval == 0) info_.restart_interval = kNever;
  if (codes == Codes::kEntropyDecoder && EntropyDecoder::CanDecode(info_)) {
    entropy_ = std::make_unique<EntropyDecoder>(info_);
    info_.client_data = entropy_.get();
    progress_.takes_over = true;
  }
  progress_.base.progress_monitor = OnProgress;
  info_.progress = &progress_.base;
  Guarded([](jpeg_decompress_struct* info) {
    jpeg_start_decompress(info);
    OnProgress(reinterpret_cast<j_common_ptr>(info));  // it calls it for several scans only
    info->progress = nullptr;
  });
  ThrowIfDataLost();
  if (jpeg_has_multiple_scans(&info_) != 0 && source_.past_end) {
    FailCorrupt("the JPEG is cut short: its last scans are missing");
  }
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

// The library's coefficient controller looks at component_needed block by block.
void LibjpegSession::SkipPlanes(JSAMPIMAGE planes, int rows) {
  NeedComponents(false);
  ReadPlanes(planes, rows);
  NeedComponents(true);
}

void LibjpegSession::ReadPlanes(JSAMPIMAGE planes, int rows) {
  JDIMENSION count = 0;
  Guarded([&count, planes, rows](jpeg_decompress_struct* info) {
    count = jpeg_read_raw_data(info, planes, static_cast<JDIMENSION>(rows));
  });
  ThrowIfDataLost();
  if (count == 0) Fail(ErrorCode::kInternal, "libjpeg-turbo returned no samples");
}

// Called between what is read of the scans. The first time the library's decoder is there, and has
// read nothing yet.
void LibjpegSession::OnProgress(j_common_ptr info) {
  auto* monitor = reinterpret_cast<ProgressMonitor*>(info->progress);
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (std::exchange(monitor->takes_over, false)) EntropyDecoder::TakeOver(decompress);
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
  manager->data_lost = true;
  manager->base.format_message(info, manager->message);
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

}  // namespace endcap
