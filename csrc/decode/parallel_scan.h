#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "decode/crew.h"
#include "decode/scan_reader.h"
#include "decode/sequential_decoder.h"

namespace endcap {

// Decodes a scan by several threads, to the samples of SequentialDecoder. The data is cut into
// segments. A thread that reads one does not know where in the image it is, nor at which bit its
// first code begins; it starts some bytes before, since a reader that starts anywhere soon reads
// the codes that are there. In their order the pieces that were read so are accepted: those that
// begin where the one before ended. What that one counted and summed up, MCUs and DCs, places them,
// and any thread can transform them. Others are read again from where the one before ended.
class ParallelScan final : public Crew::Work {
 public:
  // How a scan is cut, so that what is in memory is bounded.
  struct Plan {
    size_t segment_bytes = 0;
    size_t bytes_before = 0;  // a segment, that are read to fall into step
    int pieces = 0;           // in memory; 0: the scan is not for several threads
    int mcus_per_piece = 0;   // at most
    int mcu_rows = 2;         // of the image, of which samples are in memory
  };
  static Plan MakePlan(const SequentialDecoder& alone, const Crew& crew);

  // alone: a decoder of the scan, which is not used but to make others, and must outlive this.
  // rows_of: where the samples go; a row's place may be that of the row plan.mcu_rows before.
  // end_mcu_row: of the image, behind the last that is read. Throws std::bad_alloc.
  ParallelScan(const SequentialDecoder& alone, const Plan& plan, Crew& crew,
               SequentialDecoder::RowsOf rows_of, int end_mcu_row);
  ~ParallelScan() override;

  // Waits until the samples of an MCU row are there, and gives away the place of the row two
  // before. Returns false where they will not be: there is damage up to this row, or it is not to
  // be read. To be called for one row after the other.
  bool Require(int mcu_row);

  // After the last row.
  ScanReader& data() noexcept { return last_->data(); }

  bool DoJob(Crew::Lock& lock, bool is_owner) noexcept override;

 private:
  // unread -> reading -> read -> taken; or unread -> taken, where its beginning is known.
  enum class State { kUnread, kReading, kRead, kTaken };
  struct Segment {
    const uint8_t* begin = nullptr;
    const uint8_t* end = nullptr;  // null: that of the scan
    State state = State::kUnread;
    std::unique_ptr<ScanPiece> piece;  // null where the guess was wrong
  };
  struct Accepted {
    std::unique_ptr<ScanPiece> piece;
    int first_mcu = 0;
    ScanPiece::Dcs dcs{};
    State state = State::kUnread;  // of its transform
  };

  void Cut();
  int pieces_in_use() const noexcept {
    return guessed_pieces_ + static_cast<int>(accepted_.size());
  }
  bool has_intervals() const noexcept { return alone_.data().restart_interval() != 0; }
  void AcceptPieces();
  void Accept(std::unique_ptr<ScanPiece> piece);
  bool ReadNext(Crew::Lock& lock);
  bool Transform(Crew::Lock& lock);
  bool Guess(Crew::Lock& lock);
  std::unique_ptr<SequentialDecoder> TakeDecoder(Crew::Lock& lock);

  const SequentialDecoder& alone_;
  const Plan plan_;
  const SequentialDecoder::RowsOf rows_of_;
  Crew& crew_;
  std::vector<std::unique_ptr<SequentialDecoder>> decoders_;  // that no thread has
  std::vector<std::unique_ptr<ScanPiece>> pieces_;            // the same
  std::unique_ptr<SequentialDecoder> last_;                   // has read to the end
  std::vector<Segment> segments_;
  size_t next_guess_ = 1;   // the segment that is read next without knowing its beginning
  int guessed_pieces_ = 0;  // that are neither accepted nor rejected
  // What the next piece that is accepted begins with.
  size_t segment_ = 0;
  ScanPosition position_;
  int mcu_ = 0;
  ScanPiece::Dcs dcs_{};
  bool is_reading_next_ = false;
  std::deque<Accepted> accepted_;
  int end_mcu_ = 0;
  int done_mcus_ = 0;  // those before are transformed
  int oldest_row_ = 0;
  bool waits_for_rows_ = false;
  bool failed_ = false;
};

}  // namespace endcap
