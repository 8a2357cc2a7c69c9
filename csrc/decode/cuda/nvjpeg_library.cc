#include "decode/cuda/nvjpeg_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <variant>

#include "common/fail.h"

namespace endcap {
namespace {

struct Release {
  std::string_view file_name;
  std::string_view package_folder;  // of its pip package, in site-packages
};

// Newest first.
constexpr Release kReleases[] = {{"libnvjpeg.so.13", "/nvidia/cu13/lib/"},
                                 {"libnvjpeg.so.12", "/nvidia/nvjpeg/lib/"}};

// The file that an address was loaded from; empty when it is unknown.
std::string FindFile(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

template <typename Function>
void Load(void* library, const std::string& place, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    Fail(ErrorCode::kCuda, place, " has no function ", name, "; nvJPEG of CUDA 12 or 13 is needed");
  }
}

nvjpeg::Api LoadFunctions(void* library, const std::string& place) {
  nvjpeg::Api api{};
#define ENDCAP_LOAD(name) Load(library, place, "nvjpeg" #name, api.name)
  ENDCAP_LOAD(GetProperty);
  ENDCAP_LOAD(CreateEx);
  ENDCAP_LOAD(Destroy);
  ENDCAP_LOAD(JpegStreamCreate);
  ENDCAP_LOAD(JpegStreamDestroy);
  ENDCAP_LOAD(JpegStreamParseHeader);
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
#undef ENDCAP_LOAD
  return api;
}

std::string ReadVersion(const nvjpeg::Api& api) {
  std::string version;
  for (const int property : {0, 1, 2}) {
    int value = 0;
    if (api.GetProperty(property, &value) != nvjpeg::kSuccess) return "";
    version += (property == 0 ? "" : ".") + std::to_string(value);
  }
  return version;
}

NvjpegLibrary FindAndOpen() {
  const char* given = std::getenv("ENDCAP_NVJPEG_LIBRARY");
  if (given != nullptr && *given != 0) return OpenNvjpegLibrary(std::string(given));
  // An address of data: where functions are called through a table, theirs may be another file's.
  static const char here = 0;
  return OpenNvjpegLibrary(NvjpegPlaces(FindFile(&here)));
}

}  // namespace

std::vector<std::string> NvjpegPlaces(std::string_view holder) {
  const size_t slash = holder.rfind('/');
  const std::string folder(slash == std::string_view::npos ? "." : holder.substr(0, slash));
  std::vector<std::string> places;
  for (const Release& release : kReleases) {
    const std::string name(release.file_name);
    places.push_back(folder + "/" + name);
    places.push_back(folder + "/.." + std::string(release.package_folder) + name);
    places.push_back(name);
  }
  return places;
}

NvjpegLibrary OpenNvjpegLibrary(const std::string& place) {
  void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    Fail(ErrorCode::kCuda,
         "nvJPEG could not be opened: ", error == nullptr ? place.c_str() : error);
  }
  NvjpegLibrary opened;
  opened.api = LoadFunctions(library, place);
  opened.path = FindFile(reinterpret_cast<const void*>(opened.api.GetProperty));
  opened.version = ReadVersion(opened.api);
  return opened;
}

NvjpegLibrary OpenNvjpegLibrary(const std::vector<std::string>& places) {
  std::string unusable;  // why the first file that is there cannot be used
  std::string looked;
  for (const std::string& place : places) {
    try {
      return OpenNvjpegLibrary(place);
    } catch (const Error& error) {
      if (unusable.empty() && access(place.c_str(), F_OK) == 0) unusable = error.what();
    }
    looked += (looked.empty() ? "" : ", ") + place;
  }
  if (!unusable.empty()) Fail(ErrorCode::kCuda, unusable);
  Fail(ErrorCode::kCuda, "nvJPEG was not found (looked for ", looked,
       "); install it with `pip install nvidia-nvjpeg`, or name the file in "
       "ENDCAP_NVJPEG_LIBRARY");
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
