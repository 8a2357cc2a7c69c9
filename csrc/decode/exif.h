#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

// Orientation 1 to 8 from the payload of a JPEG APP1 segment (after its length field); 1 when it is
// not an Exif segment, has no orientation, or is damaged. Reads IFD0 only, so that offsets cannot
// lead in circles. Source: Exif 2.3, sections 4.6.2 and 4.6.4; TIFF 6.0, section 2.
int ExifOrientation(const uint8_t* payload, size_t size) noexcept;

}  // namespace endcap
