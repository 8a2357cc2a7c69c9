#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/nvjpeg_api.h"

namespace endcap {

// nvJPEG as it was found and opened at run time; it stays open until the process ends.
struct NvjpegLibrary {
  nvjpeg::Api api{};
  std::string path;     // of the file that was loaded
  std::string version;  // "13.0.1"
};

// The places where nvJPEG is looked for, in this order, given the file that holds the calling code.
// For nvJPEG of CUDA 13, then for that of CUDA 12: beside the file; in the pip package of the
// environment whose site-packages holds that file's folder (nvidia-nvjpeg, nvidia-nvjpeg-cu12); the
// loader's own paths.
std::vector<std::string> NvjpegPlaces(std::string_view holder);

// Opens one file, or a name that the loader looks up. Throws kCuda when it cannot be opened or does
// not have a function that is needed.
NvjpegLibrary OpenNvjpegLibrary(const std::string& place);

// Opens the first of `places` that can be opened. Throws kCuda with the reason and what to do.
NvjpegLibrary OpenNvjpegLibrary(const std::vector<std::string>& places);

// The library of this process: the file that ENDCAP_NVJPEG_LIBRARY names and no other where that is
// set, else that of NvjpegPlaces. Throws as OpenNvjpegLibrary. Looked for once.
const NvjpegLibrary& TheNvjpegLibrary();

}  // namespace endcap
