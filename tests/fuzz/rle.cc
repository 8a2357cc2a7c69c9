// RLE of masks: any text is decoded or refused, and what was encoded decodes to itself.

#include "agreement.h"
#include "endcap/masks.h"

namespace endcap::fuzz {
namespace {

// COCO's maskApi, rleFrString and rleDecode, in whole numbers that do not overflow; false where the
// text is none.
bool SlowDecode(const std::string& text, std::vector<uint8_t>& pixels) {
  std::vector<int64_t> lengths;
  size_t place = 0;
  while (place < text.size()) {
    int64_t number = 0;
    int bits = 0;
    int group = 0x20;
    while ((group & 0x20) != 0) {
      if (place == text.size() || bits > 30) return false;
      group = static_cast<unsigned char>(text[place++]) - 48;
      if (group < 0 || group > 63) return false;
      number += int64_t{group & 0x1F} << bits;
      bits += 5;
    }
    if ((group & 0x10) != 0) number -= int64_t{1} << bits;
    if (lengths.size() > 2) number += lengths[lengths.size() - 2];
    lengths.push_back(number);
  }
  size_t done = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > static_cast<int64_t>(pixels.size() - done)) return false;
    for (int64_t k = 0; k < lengths[i]; ++k) pixels[done++] = i % 2;
  }
  return done == pixels.size();
}

void CheckText(const std::string& text, size_t pixel_count) {
  std::vector<uint8_t> expected(pixel_count);
  std::vector<uint8_t> decoded(pixel_count);
  const bool good = SlowDecode(text, expected);
  const Outcome outcome = Capture([&](Outcome& result) {
    DecodeRle(text, decoded);
    result.Add(decoded);
  });
  Require(outcome.ok() == good, good ? "good run lengths are refused: " : "bad ones are taken",
          outcome.message);
  Require(!good || expected == decoded, "decoded pixels differ from the definition's");
}

void CheckRoundTrip(const std::vector<uint8_t>& bits) {
  std::vector<uint8_t> pixels;
  for (const uint8_t byte : bits) {
    for (int bit = 0; bit < 8; ++bit) pixels.push_back((byte >> bit) & 1 ? byte : 0);
  }
  const std::string text = EncodeRle(pixels);
  std::vector<uint8_t> back(pixels.size());
  DecodeRle(text, back);
  for (size_t i = 0; i < pixels.size(); ++i) {
    Require((pixels[i] != 0) == (back[i] == 1), "pixel ", i, " is ", int{back[i]});
  }
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const bool is_text = input.Bool();
  const size_t pixel_count = input.Size(2000);
  const std::vector<uint8_t> bytes = input.Bytes(512);
  if (is_text) {
    CheckText({bytes.begin(), bytes.end()}, pixel_count);
  } else {
    CheckRoundTrip(bytes);
  }
  return 0;
}
