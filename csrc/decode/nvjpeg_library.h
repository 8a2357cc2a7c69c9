#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/nvjpeg_api.h"

namespace endcap {

// nvJPEG as it was found and opened at run time; it stays open until the process ends.
struct NvjpegLibrary {
  nvjpeg::Api api{};
  std::string path;
  int version = 0;  // 10000 * major + 100 * minor + patch
};

// Where nvJPEG is looked for, in this order, given the file that asks: beside it, by the loader's
// own paths, and in the pip packages of the environment whose site-packages holds that file's
// folder (nvidia-nvjpeg for CUDA 13, nvidia-nvjpeg-cu12).
std::vector<std::string> NvjpegPlaces(std::string_view holder);

// Opens one file. Throws kCuda where it cannot be opened or lacks a function.
NvjpegLibrary OpenNvjpegLibrary(const std::string& path);

// The library of this process: that of ENDCAP_NVJPEG_LIBRARY and no other where that is set, else
// the first of NvjpegPlaces that can be opened. Throws kCuda with the reason and what to do; looks
// once.
const NvjpegLibrary& TheNvjpegLibrary();

}  // namespace endcap
