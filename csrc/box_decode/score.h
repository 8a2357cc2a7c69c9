#pragma once

#include <cmath>

#include "endcap/box_decode.h"

namespace endcap {

// A raw score under `activation`; kFamilyDefault and kNone leave it.
inline float ActivateScore(Activation activation, float raw) {
  return activation == Activation::kSigmoid ? 1.0F / (1.0F + std::exp(-raw)) : raw;
}

}  // namespace endcap
