#include <algorithm>
#include <cstring>

#include "common/row_band.h"
#include "decode/sequential_decoder.h"
#include "endcap/error.h"

namespace endcap {
std::unique_ptr<SequentialDecoder> SequentialDecoder::MakeAnother() const {
  auto another = std::make_unique<SequentialDecoder>(file_, markers_, frame_, needed_components_);
  another->first_needed_mcu_ = first_needed_mcu_;
  another->end_of_needed_mcus_ = end_of_needed_mcus_;
  return another;
}

SequentialDecoder::Coefficients SequentialDecoder::BatchOf(ScanPiece& piece, int mcu) const {
  const auto batch = static_cast<size_t>(mcu / mcus_per_batch_);
  const size_t per_chunk = CoefficientChunk::kBytes / bytes_per_batch();
  if (batch / per_chunk == piece.chunks.size()) piece.chunks.emplace_back();
  return BatchOf(piece.chunks[batch / per_chunk], batch % per_chunk);
}

// Codes that no table has, and no others, show that the reader was wrong from the beginning.
ScanPosition SequentialDecoder::Synchronize(const uint8_t* from, const uint8_t* mark) {
  constexpr ptrdiff_t kTries = 8;
  const ptrdiff_t next = (mark - from) / kTries + 1;
  const Coefficients spare = BatchOf(batch_, 0);
  SetDestination(spare);
  for (;; from += next) {
    while (from < mark && from > reader_.data().data() && from[-1] == 0xFF) ++from;
    from = std::min(from, mark);
    try {
      reader_.Seek({from, 0}, mark);
      while (!reader_.IsPastMark()) ReadBlocksOf(0, 1, spare);
      reader_.RefuseFill();
      return reader_.position();
    } catch (const Error&) {
      if (mark - from <= next) throw;
    }
  }
}

void SequentialDecoder::ReadPiece(ScanPiece& piece, const uint8_t* mark, int enough, int most) {
  reader_.Seek(piece.begin, mark);
  RestartDcs();
  piece.mcus = 0;
  piece.is_whole = false;
  while (piece.mcus < most) {
    const bool begins = reader_.BeginInterval();
    if (begins) RestartDcs();
    piece.is_whole = begins ? reader_.position().byte == mark : reader_.IsPastMark();
    const bool may_end = begins || reader_.restart_interval() == 0;
    if (piece.is_whole || (may_end && piece.mcus >= enough)) break;
    const int in_batch = piece.mcus % mcus_per_batch_;
    const int wanted = reader_.IsNearMark() ? 1 : mcus_per_batch_ - in_batch;
    const int count = reader_.TakeMcus(std::min(wanted, most - piece.mcus));
    const Coefficients batch = BatchOf(piece, piece.mcus);
    SetDestination(batch);
    ReadBlocksOf(in_batch, in_batch + count, batch);
    piece.mcus += count;
  }
  reader_.RefuseFill();
  piece.end = reader_.position();
  for (size_t i = 0; i < components_.size(); ++i) piece.last_dcs[i] = components_[i].last_dc;
}

void SequentialDecoder::TransformPiece(ScanPiece& piece, int first_mcu, const ScanPiece::Dcs& dcs,
                                       const RowsOf& rows_of) {
  int row = first_mcu / mcus_per_row_;
  int column = first_mcu % mcus_per_row_;
  PlaneRows planes = rows_of(row / rows_of_mcus_);
  for (int done = 0; done < piece.mcus; done += mcus_per_batch_) {
    const Coefficients batch = BatchOf(piece, done);
    const int count = std::min(mcus_per_batch_, piece.mcus - done);
    if (count < mcus_per_batch_ || column + count > mcus_per_row_) {
      TransformApart(batch, first_mcu + done, count, rows_of, dcs);
    } else if (planes[0].data == nullptr || !IsNeeded(column)) {
      Clear(batch);
    } else {
      TransformBatch(column, batch, planes, row % rows_of_mcus_, &dcs);
    }
    if (needed_components_ < components_.size()) Clear(batch);
    column += mcus_per_batch_;
    if (column < mcus_per_row_) continue;
    column -= mcus_per_row_;
    ++row;
    if (done + mcus_per_batch_ < piece.mcus) planes = rows_of(row / rows_of_mcus_);
  }
}

// A batch that goes beyond the end of a row, or has other MCUs than its piece: its samples are
// copied where they belong.
void SequentialDecoder::TransformApart(const Coefficients& from, int first_mcu, int count,
                                       const RowsOf& rows_of, const ScanPiece::Dcs& dcs) {
  PlaneRows apart;
  for (const Component& component : components_) {
    const size_t stride =
        component.mcu_width * static_cast<size_t>(mcus_per_batch_) + kRowSlackBytes;
    apart_[component.index].resize(stride * component.mcu_height);
    apart[component.index] = {apart_[component.index].data(), stride};
  }
  TransformBatch(0, from, apart, 0, &dcs);
  for (int done = 0; done < count;) {
    const int row = (first_mcu + done) / mcus_per_row_;
    const int column = (first_mcu + done) % mcus_per_row_;
    const int mcus = std::min(count - done, mcus_per_row_ - column);
    const PlaneRows planes = rows_of(row / rows_of_mcus_);
    for (const Component& component : components_) {
      const SampleBlock& to = planes[component.index];
      if (to.data == nullptr) continue;
      const size_t first_row = static_cast<size_t>(row % rows_of_mcus_) * component.mcu_height;
      for (size_t y = 0; y < component.mcu_height; ++y) {
        std::memcpy(to.Row(first_row + y) + static_cast<size_t>(column) * component.mcu_width,
                    apart[component.index].Row(y) + static_cast<size_t>(done) * component.mcu_width,
                    static_cast<size_t>(mcus) * component.mcu_width);
      }
    }
    done += mcus;
  }
}

}  // namespace endcap
