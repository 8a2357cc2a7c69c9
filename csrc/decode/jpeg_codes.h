#pragma once

#include <cstdint>

namespace endcap {

// Second bytes of JPEG markers. Source: ITU-T T.81, table B.1.
inline constexpr uint8_t kTem = 0x01;
inline constexpr uint8_t kSof0 = 0xC0;  // baseline
inline constexpr uint8_t kSof1 = 0xC1;  // extended sequential
inline constexpr uint8_t kSof2 = 0xC2;  // progressive
inline constexpr uint8_t kSof3 = 0xC3;  // lossless
inline constexpr uint8_t kDht = 0xC4;
inline constexpr uint8_t kJpg = 0xC8;
inline constexpr uint8_t kSof9 = 0xC9;  // from here on arithmetic-coded
inline constexpr uint8_t kDac = 0xCC;
inline constexpr uint8_t kSof15 = 0xCF;
inline constexpr uint8_t kRst0 = 0xD0;
inline constexpr uint8_t kRst7 = 0xD7;
inline constexpr uint8_t kSoi = 0xD8;
inline constexpr uint8_t kEoi = 0xD9;
inline constexpr uint8_t kSos = 0xDA;
inline constexpr uint8_t kApp0 = 0xE0;
inline constexpr uint8_t kApp1 = 0xE1;
inline constexpr uint8_t kApp14 = 0xEE;

}  // namespace endcap
