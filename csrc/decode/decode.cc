#include "endcap/decode.h"

#include <cstring>

namespace endcap {
namespace {

// Collects the bands into a whole image.
class BufferSink : public BandSink {
 public:
  explicit BufferSink(PixelBuffer& buffer) : buffer_(buffer) {}

  void Begin(const BandFormat& format) override {
    buffer_.format = format;
    row_bytes_ = static_cast<size_t>(format.width) * static_cast<size_t>(format.channels);
    const size_t slack = format.channels == 4 ? kRowSlackBytes : 0;
    buffer_.pixels.resize(row_bytes_ * static_cast<size_t>(format.height) + slack);
  }
  void Consume(const RowBand& band) override {
    for (int i = 0; i < band.row_count; ++i) {
      std::memcpy(buffer_.pixels.data() + row_bytes_ * static_cast<size_t>(band.first_row + i),
                  band.data + band.row_stride_bytes * i, row_bytes_);
    }
  }
  int EndRow() const override { return buffer_.format.height; }

 private:
  PixelBuffer& buffer_;
  size_t row_bytes_ = 0;
};

}  // namespace

PixelBuffer DecodeOriented(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, int orientation, int64_t& decode_ns) {
  PixelBuffer stored;
  BufferSink sink(stored);
  decode_ns += DecodeToBands(image, header, options, sink);
  return orientation == 1 ? stored : ApplyOrientation(stored, orientation);
}

PixelBuffer Decode(const ImageView& image, const DecodeLimits& limits, const DecodeOptions& options,
                   bool apply_orientation) {
  const ImageHeader header = ReadHeader(image, limits);
  int64_t decode_ns = 0;
  return DecodeOriented(image, header, options, apply_orientation ? header.orientation : 1,
                        decode_ns);
}

}  // namespace endcap
