#pragma once

#include <array>
#include <optional>

#include "agreement.h"
#include "endcap/decode.h"

namespace endcap::fuzz {

// Each DCT scale that a file can be decoded at.
inline constexpr std::array kEighths = {8, 4, 2, 1, 3, 5, 6, 7};

// Small images are decoded often: of many pixels a fuzzer learns no more.
inline DecodeLimits SmallLimits() {
  DecodeLimits limits;
  limits.max_pixels = 64 * 64;
  limits.max_side = 320;
  limits.max_scans = 24;
  limits.formats = {FileFormat::kJpeg};
  return limits;
}

// The header of a file that the limits let pass, which keeps to them.
inline std::optional<ImageHeader> ReadSmallHeader(const ImageView& image,
                                                  Damaged damaged = Damaged::kReject,
                                                  const DecodeLimits& limits = SmallLimits()) {
  try {
    const ImageHeader header = ReadHeader(image, limits, damaged);
    Require(limits.formats.Contains(header.format), "a format that was not accepted");
    Require(header.width >= 1 && header.height >= 1, "an empty image was accepted");
    Require(header.width <= limits.max_side && header.height <= limits.max_side, "max_side");
    Require(int64_t{header.width} * header.height <= limits.max_pixels, "max_pixels");
    Require(header.scan_count <= limits.max_scans, "max_scans");
    Require(header.orientation >= 1 && header.orientation <= 8, "an unknown orientation");
    return header;
  } catch (const Error& error) {
    Require(error.code() != ErrorCode::kInternal, "internal error: ", error.what());
    Require(error.what()[0] != '\0', "an error without a message");
    return std::nullopt;
  }
}

// RequireEqualPaths for what needs only the upper rows of a file. How far down damage is seen
// depends on how many rows a path reads at a time, so one of the two may report it, of a damaged
// file only.
template <typename Run>
Outcome RequireEqualFileResults(std::string_view target, std::string_view what,
                                const ImageView& image, Run run) {
  PathOutcomes outcomes = RunOnPaths(target, run);
  const auto damaged = [](const Outcome& outcome) {
    return outcome.code == ErrorCode::kCorruptImage;
  };
  if (damaged(outcomes.scalar) == damaged(outcomes.simd)) {
    RequireEqual(outcomes.scalar, outcomes.simd,
                 std::string(what) + ", scalar against " + std::string(target));
    return std::move(outcomes.scalar);
  }
  const Outcome whole = Capture([&](Outcome&) { Decode(image, SmallLimits(), {}, false); });
  Require(damaged(whole), what, ": one path reports damage of a good file: '",
          outcomes.scalar.message, "' against '", outcomes.simd.message, "'");
  return damaged(outcomes.scalar) ? std::move(outcomes.scalar) : std::move(outcomes.simd);
}

// Makes damage that an item reports that of the outcome.
inline void FailIfDamaged(const ItemStatus& status) {
  if (status.code == ErrorCode::kCorruptImage) throw Error(status.code, status.message);
}

}  // namespace endcap::fuzz
