#include "decode/parallel_scan.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "decode/huffman_block.h"
#include "endcap/error.h"

namespace endcap {
namespace {

// Of coefficients, whatever the size of the image.
constexpr size_t kMaxBytes = size_t{10} << 20;

// Nearly all readers fall into step on the way, at qualities from 30 to 98; see docs/benchmarks.md.
constexpr size_t kMcusToSynchronize = 16;

// A segment takes longer than waking up a thread does, and some come to each thread.
constexpr size_t kMinSegmentBytes = size_t{8} << 10;
constexpr size_t kMaxSegmentBytes = size_t{32} << 10;
constexpr size_t kSegmentsPerThread = 8;

// From this number on the owner does not guess: it alone makes pixels of the samples.
constexpr int kHelpersThatSuffice = 3;

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

// The first byte from `from` on that follows a restart marker; the end where none does.
const uint8_t* FindInterval(const uint8_t* from, const uint8_t* end) {
  while (from < end && !(from[-2] == 0xFF && from[-1] >= kRst0 && from[-1] < kRst0 + 8)) ++from;
  return from;
}

// Null where there is none.
template <typename T>
std::unique_ptr<T> TakeLast(std::vector<std::unique_ptr<T>>& all) {
  if (all.empty()) return nullptr;
  std::unique_ptr<T> last = std::move(all.back());
  all.pop_back();
  return last;
}

using Pieces = std::vector<std::unique_ptr<ScanPiece>>;

// Pieces of scans that have ended, with clean memory, for the next scan. Nobody waits for them:
// after a fork, the thread that has the lock may be gone.
std::mutex kept_mutex;
Pieces& KeptPieces() {
  static Pieces& pieces = *new Pieces;  // threads may still decode when the process exits
  return pieces;
}

}  // namespace

ParallelScan::Plan ParallelScan::MakePlan(const SequentialDecoder& alone, const Crew& crew) {
  Plan plan;
  const int threads = crew.helpers() + 1;
  const size_t bytes = alone.data().data().size();
  const size_t by_size = bytes / (kSegmentsPerThread * static_cast<size_t>(threads));
  plan.segment_bytes = crew.segment_bytes() != 0
                           ? crew.segment_bytes()
                           : std::clamp(by_size, kMinSegmentBytes, kMaxSegmentBytes);
  if (bytes < 2 * plan.segment_bytes || !alone.CanReadPieces()) return {};
  plan.pieces = threads + CeilDivide(threads, 2) + 2;
  const auto mcus = static_cast<size_t>(alone.mcus_until(alone.mcu_rows()));
  plan.bytes_before = std::min(kMcusToSynchronize * bytes / mcus, plan.segment_bytes);
  const auto most =
      static_cast<int>(kMaxBytes / static_cast<size_t>(plan.pieces) / alone.bytes_per_mcu());
  const int mean = std::min(static_cast<int>(mcus * plan.segment_bytes / bytes) + 1, most);
  // Pixels are made of two rows; a piece begins and ends within one, and where an interval does.
  plan.mcu_rows =
      std::min(6 + CeilDivide(mean * plan.pieces, alone.mcus_until(1)), alone.mcu_rows() + 5);
  plan.mcus_per_piece =
      std::min(most, alone.mcus_until(plan.mcu_rows - 4)) - alone.data().restart_interval();
  return plan.mcus_per_piece > 0 ? plan : Plan{};
}

ParallelScan::ParallelScan(const SequentialDecoder& alone, const Plan& plan, Crew& crew,
                           SequentialDecoder::RowsOf rows_of, int end_mcu_row)
    : alone_(alone),
      plan_(plan),
      rows_of_(std::move(rows_of)),
      crew_(crew),
      end_mcu_(alone.mcus_until(end_mcu_row)) {
  Cut();
  position_.byte = segments_.front().begin;
  if (const std::unique_lock lock(kept_mutex, std::try_to_lock); lock) pieces_.swap(KeptPieces());
  crew_.Begin(*this);
}

ParallelScan::~ParallelScan() {
  crew_.End();
  size_t bytes = 0;
  std::erase_if(pieces_, [&](const std::unique_ptr<ScanPiece>& piece) {
    bytes += piece->chunks.size() * CoefficientChunk::kBytes;
    return bytes > kMaxBytes;
  });
  if (const std::unique_lock lock(kept_mutex, std::try_to_lock); lock) KeptPieces().swap(pieces_);
}

// The end of the last segment is known by its MCUs alone, so that it is not read before its
// beginning is known. That would hold up the others at the end, so it is short.
void ParallelScan::Cut() {
  const std::span<const uint8_t> data = alone_.data().data();
  const uint8_t* const end = data.data() + data.size();
  segments_.emplace_back().begin = data.data();
  const auto add = [&](size_t place) {
    const uint8_t* at = data.data() + std::max(place, size_t{2});
    const uint8_t* const next = at + std::min(plan_.segment_bytes, static_cast<size_t>(end - at));
    if (has_intervals()) {
      at = FindInterval(at, next);
    } else {
      while (at < next && at[-1] == 0xFF) ++at;
    }
    if (at == next || at <= segments_.back().begin) return;
    segments_.back().end = at;
    segments_.emplace_back().begin = at;
  };
  const size_t last = data.size() - plan_.segment_bytes / 4;
  for (size_t at = plan_.segment_bytes; at < last; at += plan_.segment_bytes) add(at);
  add(last);
}

bool ParallelScan::Require(int mcu_row) {
  const int needed = alone_.mcus_until(mcu_row + 1);
  if (needed > end_mcu_) return false;
  bool is_there = false;
  crew_.WorkUntil([&] {
    oldest_row_ = std::max(mcu_row - 1, 0);
    if (std::exchange(waits_for_rows_, false)) crew_.Notify();
    is_there = done_mcus_ >= needed;
    return failed_ || is_there;
  });
  return is_there;
}

bool ParallelScan::DoJob(Crew::Lock& lock, bool is_owner) noexcept {
  try {
    const bool guesses = !is_owner || crew_.helpers() < kHelpersThatSuffice;
    return !failed_ && (Transform(lock) || ReadNext(lock) || (guesses && Guess(lock)));
  } catch (...) {
    // Reading the rows one after the other shows what it is.
    if (!lock.owns_lock()) lock.lock();
    failed_ = true;
    return true;
  }
}

// Reads the next piece where its beginning is known and nobody has read it.
bool ParallelScan::ReadNext(Crew::Lock& lock) {
  const bool has_space = accepted_.empty() || pieces_in_use() < plan_.pieces;
  if (mcu_ == end_mcu_ || is_reading_next_ || !has_space) return false;
  Segment& segment = segments_[segment_];
  if (segment.state == State::kReading) return false;
  segment.state = State::kTaken;
  is_reading_next_ = true;
  std::unique_ptr<ScanPiece> piece = TakeLast(pieces_);
  if (piece == nullptr) piece = std::make_unique<ScanPiece>();
  piece->begin = position_;
  const int most = end_mcu_ - mcu_;
  std::unique_ptr<SequentialDecoder> decoder = TakeDecoder(lock);
  decoder->ReadPiece(*piece, segment.end, plan_.mcus_per_piece, most);
  lock.lock();
  is_reading_next_ = false;
  Accept(std::move(piece));
  (mcu_ == end_mcu_ ? last_ : decoders_.emplace_back()) = std::move(decoder);
  return true;
}

void ParallelScan::AcceptPieces() {
  while (mcu_ < end_mcu_ && segments_[segment_].state == State::kRead) {
    Segment& segment = segments_[segment_];
    segment.state = State::kTaken;
    --guessed_pieces_;
    std::unique_ptr<ScanPiece> piece = std::move(segment.piece);
    // The end of the scan is read by the decoder that keeps it.
    const bool fits =
        piece != nullptr && piece->begin == position_ && piece->mcus < end_mcu_ - mcu_;
    if (fits) Accept(std::move(piece));
  }
}

void ParallelScan::Accept(std::unique_ptr<ScanPiece> piece) {
  accepted_.push_back({std::move(piece), mcu_, dcs_, {}});
  const ScanPiece& last = *accepted_.back().piece;
  mcu_ += last.mcus;
  position_ = last.end;
  if (last.is_whole) ++segment_;
  for (size_t i = 0; i < dcs_.size() && !has_intervals(); ++i) {
    dcs_[i] = WrappedSum(dcs_[i], last.last_dcs[i]);
  }
}

// Transforms the first piece that nobody has begun with, if its rows have a place.
bool ParallelScan::Transform(Crew::Lock& lock) {
  AcceptPieces();
  const auto found = std::ranges::find(accepted_, State::kUnread, &Accepted::state);
  if (found == accepted_.end()) return false;
  Accepted& next = *found;  // stays in place when others are added and taken at the ends
  const int last_row = alone_.mcu_row_of(next.first_mcu + next.piece->mcus - 1);
  if (last_row >= oldest_row_ + plan_.mcu_rows) {
    waits_for_rows_ = true;
    return false;
  }
  next.state = State::kReading;
  std::unique_ptr<SequentialDecoder> decoder = TakeDecoder(lock);
  decoder->TransformPiece(*next.piece, next.first_mcu, next.dcs, rows_of_);
  lock.lock();
  decoders_.push_back(std::move(decoder));
  next.state = State::kTaken;
  for (; !accepted_.empty() && accepted_.front().state == State::kTaken; accepted_.pop_front()) {
    done_mcus_ += accepted_.front().piece->mcus;
    pieces_.push_back(std::move(accepted_.front().piece));
  }
  return true;
}

// Reads a segment whose beginning is not known.
bool ParallelScan::Guess(Crew::Lock& lock) {
  next_guess_ = std::max(next_guess_, segment_ + 1);
  if (mcu_ == end_mcu_ || next_guess_ + 1 >= segments_.size() || pieces_in_use() >= plan_.pieces) {
    return false;
  }
  Segment& segment = segments_[next_guess_++];
  segment.state = State::kReading;
  ++guessed_pieces_;
  std::unique_ptr<ScanPiece> piece = TakeLast(pieces_);
  if (piece == nullptr) piece = std::make_unique<ScanPiece>();
  std::unique_ptr<SequentialDecoder> decoder = TakeDecoder(lock);
  const std::span<const uint8_t> data = alone_.data().data();
  try {
    piece->begin = {segment.begin, 0};
    if (!has_intervals()) {
      const ptrdiff_t before =
          std::min(segment.begin - data.data(), static_cast<ptrdiff_t>(plan_.bytes_before));
      piece->begin = decoder->Synchronize(segment.begin - before, segment.begin);
    }
    decoder->ReadPiece(*piece, segment.end, plan_.mcus_per_piece, end_mcu_);
  } catch (const Error&) {
    piece = nullptr;
  }
  lock.lock();
  decoders_.push_back(std::move(decoder));
  segment.piece = std::move(piece);
  segment.state = State::kRead;
  return true;
}

// Releases the lock.
std::unique_ptr<SequentialDecoder> ParallelScan::TakeDecoder(Crew::Lock& lock) {
  std::unique_ptr<SequentialDecoder> decoder = TakeLast(decoders_);
  lock.unlock();
  return decoder != nullptr ? std::move(decoder) : alone_.MakeAnother();
}

}  // namespace endcap
