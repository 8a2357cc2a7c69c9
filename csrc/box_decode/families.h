#pragma once

#include <array>
#include <span>

#include "box_decode/decode_scratch.h"
#include "endcap/box_decode.h"

namespace endcap {

// One function per head family; each stands in a file of its name, the simd path beside it.
// `inputs` has the length of HeadInputs(params); shapes, dtypes and values are checked by the
// function. A simd path gives what the scalar one gives, errors included.
using HeadTensors = std::span<const ConstTensorView>;

void DecodeYolov5(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates);
void DecodeYolov5Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates);
void DecodeYolov8(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates);
void DecodeYolov8Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates);
// These two have some hundred rows, and one path.
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates);
void DecodeEfficientNms(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                        Candidates& candidates);

// HeadInputs without memory of its own.
struct HeadSpecs {
  std::array<TensorSpec, 4> specs;
  size_t count;
};
HeadSpecs SpecsOf(const HeadParams& params) noexcept;

// box_format with the family's default filled in.
BoxFormat ResolvedBoxFormat(const HeadParams& params) noexcept;

}  // namespace endcap
