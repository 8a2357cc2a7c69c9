#include "decode/nvjpeg_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <variant>

#include "common/fail.h"

namespace endcap {
namespace {

// Newest first.
constexpr std::array<std::string_view, 2> kFileNames = {"libnvjpeg.so.13", "libnvjpeg.so.12"};
constexpr std::array<std::string_view, 2> kPackageFolders = {"/nvidia/cu13/lib/",
                                                             "/nvidia/nvjpeg/lib/"};

std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : path.substr(0, slash);
}

std::string HolderOfThisCode() {
  static const char here = 0;
  Dl_info info;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

template <typename Function>
void Load(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    Fail(ErrorCode::kCuda, path, " lacks ", name, "; nvJPEG of CUDA 12 or 13 is needed");
  }
}

nvjpeg::Api LoadFunctions(void* library, const std::string& path) {
  nvjpeg::Api api{};
#define ENDCAP_LOAD(name) Load(library, path, "nvjpeg" #name, api.name)
  ENDCAP_LOAD(GetProperty);
  ENDCAP_LOAD(CreateEx);
  ENDCAP_LOAD(Destroy);
  ENDCAP_LOAD(JpegStreamCreate);
  ENDCAP_LOAD(JpegStreamDestroy);
  ENDCAP_LOAD(JpegStreamParseHeader);
  ENDCAP_LOAD(JpegStreamParse);
  ENDCAP_LOAD(JpegStreamGetComponentsNum);
  ENDCAP_LOAD(JpegStreamGetComponentDimensions);
  ENDCAP_LOAD(DecodeParamsCreate);
  ENDCAP_LOAD(DecodeParamsDestroy);
  ENDCAP_LOAD(DecodeParamsSetOutputFormat);
  ENDCAP_LOAD(JpegStateCreate);
  ENDCAP_LOAD(JpegStateDestroy);
  ENDCAP_LOAD(DecodeBatchedSupportedEx);
  ENDCAP_LOAD(DecodeBatchedInitialize);
  ENDCAP_LOAD(DecodeBatched);
  ENDCAP_LOAD(DecoderCreate);
  ENDCAP_LOAD(DecoderDestroy);
  ENDCAP_LOAD(DecoderJpegSupported);
  ENDCAP_LOAD(DecoderStateCreate);
  ENDCAP_LOAD(BufferPinnedCreate);
  ENDCAP_LOAD(BufferPinnedDestroy);
  ENDCAP_LOAD(BufferDeviceCreate);
  ENDCAP_LOAD(BufferDeviceDestroy);
  ENDCAP_LOAD(StateAttachPinnedBuffer);
  ENDCAP_LOAD(StateAttachDeviceBuffer);
  ENDCAP_LOAD(DecodeJpegHost);
  ENDCAP_LOAD(DecodeJpegTransferToDevice);
  ENDCAP_LOAD(DecodeJpegDevice);
#undef ENDCAP_LOAD
  return api;
}

int Version(const nvjpeg::Api& api) {
  int version = 0;
  for (const int property : {0, 1, 2}) {
    int value = 0;
    if (api.GetProperty(property, &value) != nvjpeg::kSuccess) return 0;
    version = version * 100 + value;
  }
  return version;
}

// What dlopen says of the places that hold something it cannot use is of more interest than that
// the others hold nothing; the last of its sentences is kept.
NvjpegLibrary FindAndOpen() {
  const char* given = std::getenv("ENDCAP_NVJPEG_LIBRARY");
  if (given != nullptr && *given != 0) return OpenNvjpegLibrary(given);
  std::string last;
  for (const std::string& place : NvjpegPlaces(HolderOfThisCode())) {
    try {
      return OpenNvjpegLibrary(place);
    } catch (const Error& error) {
      last = error.what();
    }
  }
  Fail(ErrorCode::kCuda,
       "nvJPEG was not found: install it with 'pip install nvidia-nvjpeg', or name the file in "
       "ENDCAP_NVJPEG_LIBRARY (the last place looked at: ",
       last, ")");
}

}  // namespace

std::vector<std::string> NvjpegPlaces(std::string_view holder) {
  const std::string folder(FolderOf(holder));
  std::vector<std::string> places;
  places.reserve(2 * kFileNames.size() + kPackageFolders.size());
  for (const auto& name : kFileNames) places.push_back(folder + "/" + std::string(name));
  for (const auto& name : kFileNames) places.emplace_back(name);
  for (size_t i = 0; i < kFileNames.size(); ++i) {
    places.push_back(folder + "/.." + std::string(kPackageFolders[i]) + std::string(kFileNames[i]));
  }
  return places;
}

NvjpegLibrary OpenNvjpegLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    Fail(ErrorCode::kCuda, "nvJPEG could not be opened: ", error == nullptr ? path.c_str() : error);
  }
  NvjpegLibrary opened;
  opened.api = LoadFunctions(library, path);
  opened.path = path;
  opened.version = Version(opened.api);
  return opened;
}

const NvjpegLibrary& TheNvjpegLibrary() {
  // Never destroyed: decoders may outlive static objects.
  static const auto* const found = []() -> std::variant<NvjpegLibrary, std::string>* {
    try {
      return new std::variant<NvjpegLibrary, std::string>(FindAndOpen());
    } catch (const Error& error) {
      return new std::variant<NvjpegLibrary, std::string>(error.what());
    }
  }();
  if (const auto* reason = std::get_if<std::string>(found)) Fail(ErrorCode::kCuda, *reason);
  return std::get<NvjpegLibrary>(*found);
}

}  // namespace endcap
