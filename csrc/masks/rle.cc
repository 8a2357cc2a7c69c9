#include "masks/rle.h"

#include <algorithm>
#include <limits>

#include "common/fail.h"
#include "endcap/masks.h"
#include "masks/masks.h"

namespace endcap {
namespace {

// Reads one number and moves `position` behind it.
int64_t ReadNumber(std::string_view rle, size_t& position) {
  int64_t number = 0;
  for (int group = 0; group < kRleMaxGroups; ++group) {
    if (position == rle.size()) FailArgument("the RLE ends within a number");
    const int value = static_cast<unsigned char>(rle[position]) - kRleZero;
    if (value < 0 || value >= 2 * kRleMore) {
      FailArgument("the RLE has character code ", value + kRleZero, " at ", position,
                   ": COCO's compressed counts use the codes 48 to 111");
    }
    ++position;
    number |= (value & kRleGroup) << (kRleGroupBits * group);
    if ((value & kRleMore) != 0) continue;
    const bool negative = (value & kRleSign) != 0;
    return negative ? number - (int64_t{1} << (kRleGroupBits * (group + 1))) : number;
  }
  FailArgument("the RLE holds a number of more than ", kRleMaxGroups, " characters at ", position);
}

}  // namespace

void RleCounts::Write(uint32_t pixels, std::string& rle) {
  if (end_ < pixels || counts_.empty()) counts_.push_back(pixels - end_);
  rle.clear();
  for (size_t i = 0; i < counts_.size(); ++i) {
    const int64_t before = i > 2 ? counts_[i - 2] : 0;
    WriteRleNumber(counts_[i] - before, [&rle](char group) { rle.push_back(group); });
  }
}

void CheckRleBytes(size_t bytes, size_t masks, int width, int height) {
  if (bytes <= kMaxRleBytes) return;
  Fail(ErrorCode::kImageLimit, "the RLEs of ", masks, " masks of ", width, "x", height,
       " pixels take more than ", kMaxRleBytes, " bytes");
}

std::string EncodeRle(std::span<const uint8_t> columns) {
  if (columns.size() > std::numeric_limits<uint32_t>::max()) {
    FailArgument("a mask has ", columns.size(), " pixels: RLE needs fewer than 2^32");
  }
  RleCounts counts;
  const auto is_inside = [](uint8_t pixel) { return pixel != 0; };
  auto begin = std::find_if(columns.begin(), columns.end(), is_inside);
  while (begin != columns.end()) {
    const auto end = std::find_if_not(begin, columns.end(), is_inside);
    counts.Add(static_cast<uint32_t>(begin - columns.begin()),
               static_cast<uint32_t>(end - columns.begin()));
    begin = std::find_if(end, columns.end(), is_inside);
  }
  std::string rle;
  counts.Write(static_cast<uint32_t>(columns.size()), rle);
  return rle;
}

void DecodeRle(std::string_view rle, std::span<uint8_t> columns) {
  const auto pixels = static_cast<int64_t>(columns.size());
  int64_t before = 0;  // the length two before
  int64_t last = 0;
  int64_t done = 0;
  size_t position = 0;
  for (size_t i = 0; position < rle.size(); ++i) {
    const int64_t length = ReadNumber(rle, position) + (i > 2 ? before : 0);
    if (length < 0 || length > pixels - done) {
      FailArgument("run length ", i, " is ", length, ", and ", pixels - done, " of ", pixels,
                   " pixels are left: give the size that the RLE was made for");
    }
    std::fill_n(columns.begin() + done, length, static_cast<uint8_t>(i % 2));
    done += length;
    before = last;
    last = length;
  }
  if (done != pixels) {
    FailArgument("the RLE is that of ", done, " pixels, not of ", pixels,
                 ": give the size that they were made for");
  }
}

}  // namespace endcap
