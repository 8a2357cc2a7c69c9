#include "decode/exif.h"

#include <cstring>

#include "decode/byte_reader.h"

namespace endcap {
namespace {

constexpr char kExifPrefix[] = {'E', 'x', 'i', 'f', '\0', '\0'};
constexpr uint16_t kTiffMagic = 42;
constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShortType = 3;
constexpr size_t kEntryBytes = 12;

}  // namespace

int ExifOrientation(const uint8_t* payload, size_t size) noexcept {
  if (size < sizeof(kExifPrefix) + 8) return 1;
  if (std::memcmp(payload, kExifPrefix, sizeof(kExifPrefix)) != 0) return 1;
  const uint8_t* tiff = payload + sizeof(kExifPrefix);
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  const bool little_endian = tiff[0] == 'I' && tiff[1] == 'I';
  if (!big_endian && !little_endian) return 1;

  ByteReader reader(tiff, size - sizeof(kExifPrefix), big_endian);
  reader.Skip(2);
  if (reader.Word() != kTiffMagic) return 1;
  reader.Seek(reader.Long());
  const int entry_count = reader.Word();
  for (int i = 0; i < entry_count && reader.remaining() >= kEntryBytes; ++i) {
    const uint16_t tag = reader.Word();
    const uint16_t type = reader.Word();
    const uint32_t count = reader.Long();
    const uint16_t value = reader.Word();
    reader.Skip(2);
    if (tag != kOrientationTag) continue;
    const bool valid = type == kShortType && count == 1 && value >= 1 && value <= 8;
    return valid ? value : 1;
  }
  return 1;
}

}  // namespace endcap
