#include "cuda_runtime/library_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace endcap {
namespace {

// CUDA code runs on drivers of the same major version or later.
constexpr int GetMajor(int cuda_version) { return cuda_version / 1000; }

std::string WrittenVersion(int cuda_version) {
  return std::to_string(GetMajor(cuda_version)) + "." + std::to_string(cuda_version % 1000 / 10);
}

CudaLibrary Unavailable(CudaState state, std::string reason) {
  state.available = false;
  state.reason = std::move(reason);
  return {nullptr, std::move(state)};
}

std::string FindOwnLibrary() {
  Dl_info info;
  // An address of data: where functions are called through a table, theirs may be another file's.
  static const char here = 0;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

std::string WhyNoDriver(const CudaState& state) {
  if (state.driver_version == 0) {
    return "there is no NVIDIA driver on this machine; in a container, start it with --gpus all";
  }
  if (GetMajor(state.driver_version) < GetMajor(state.runtime_version)) {
    return "the NVIDIA driver runs CUDA " + WrittenVersion(state.driver_version) +
           ", and endcap's GPU code is CUDA " + WrittenVersion(state.runtime_version) +
           "; install driver 580 or later";
  }
  return "";
}

// Fills state.devices; returns why there are none.
std::string FindDevices(const CudaApi& api, CudaState& state) {
  int32_t count = 0;
  if (api.device_count(&count) != 0) {
    return std::string("the NVIDIA driver does not respond: ") + api.last_message() +
           "; `nvidia-smi` may say more";
  }
  for (int32_t id = 0; id < count; ++id) {
    CudaDeviceFacts facts{};
    if (api.describe_device(id, &facts) != 0) {
      return "GPU " + std::to_string(id) + " does not respond: " + api.last_message() +
             "; `nvidia-smi` may say more";
    }
    state.devices.push_back(
        {id, facts.name, facts.compute_major, facts.compute_minor, facts.multiprocessors,
         facts.memory_bytes,
         CoversDevice(state.architectures, facts.compute_major, facts.compute_minor)});
  }
  if (state.devices.empty()) {
    return "the NVIDIA driver shows this process no GPU; CUDA_VISIBLE_DEVICES may hide it";
  }
  if (std::ranges::none_of(state.devices, &CudaDevice::covered)) {
    const CudaDevice& first = state.devices.front();
    return "the GPU " + first.name + " has compute capability " +
           std::to_string(first.compute_major) + "." + std::to_string(first.compute_minor) +
           ", and this build has code for " + state.architectures;
  }
  return "";
}

CudaLibrary FindAndOpen() {
  if (const char* given = std::getenv("ENDCAP_CUDA_LIBRARY"); given != nullptr && *given != 0) {
    return OpenCudaLibrary(given);
  }
  std::string looked;
  for (const std::string& place : ListCudaLibraryPaths(FindOwnLibrary())) {
    if (access(place.c_str(), F_OK) == 0) return OpenCudaLibrary(place);
    looked += (looked.empty() ? "" : " and ") + place;
  }
  return Unavailable({}, "this build of endcap has no GPU code (looked for " + looked +
                             "); it is built where CMake finds CUDA 13, and in the wheels");
}

}  // namespace

std::vector<std::string> ListCudaLibraryPaths(std::string_view holder) {
  const size_t slash = holder.rfind('/');
  const std::string folder(slash == std::string_view::npos ? "." : holder.substr(0, slash));
  return {folder + "/" + kCudaLibraryName, folder + "/../../" + kCudaLibraryName};
}

bool CoversDevice(std::string_view architectures, int compute_major, int compute_minor) {
  const int device = compute_major * 10 + compute_minor;
  while (!architectures.empty()) {
    const size_t end = std::min(architectures.find(' '), architectures.size());
    const std::string_view entry = architectures.substr(0, end);
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
    // A value without a number, such as `native`, leaves 0 and counts as PTX for any device,
    // because the architectures that CMake chose for it are not known here.
    int built = 0;
    (void)std::from_chars(entry.data(), entry.data() + entry.size(), built);
    const bool machine_code = entry.find("-virtual") == std::string_view::npos;
    const bool ptx = entry.find("-real") == std::string_view::npos;
    if (machine_code && built / 10 == compute_major && built <= device) return true;
    if (ptx && built <= device) return true;
  }
  return false;
}

CudaLibrary OpenCudaLibrary(const std::string& path) {
  CudaState state;
  state.library_path = path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    return Unavailable(std::move(state), "endcap's GPU code could not be loaded: " +
                                             std::string(error == nullptr ? path : error));
  }
  const auto get = reinterpret_cast<CudaApiFunction>(dlsym(handle, kCudaApiSymbol));
  if (get == nullptr) {
    return Unavailable(std::move(state), path + " is not endcap's GPU code");
  }
  const CudaApi* api = get();
  if (api->version != kCudaApiVersion || api->layout != GetExpectedLayout()) {
    return Unavailable(std::move(state), path + " is of another build of endcap; reinstall endcap");
  }
  state.architectures = api->architectures;
  if (api->versions(&state.driver_version, &state.runtime_version) != 0) {
    return Unavailable(std::move(state),
                       std::string("CUDA does not tell its version: ") + api->last_message());
  }
  std::string reason = WhyNoDriver(state);
  if (reason.empty()) reason = FindDevices(*api, state);
  if (!reason.empty()) return Unavailable(std::move(state), std::move(reason));
  state.available = true;
  return {api, std::move(state)};
}

const CudaLibrary& GetCudaLibrary() noexcept {
  // Never destroyed: other threads may still use it while the process ends.
  static const CudaLibrary* const library = []() noexcept {
    try {
      return new CudaLibrary(FindAndOpen());
    } catch (...) {
      static CudaLibrary none;  // there was no memory even for the message
      return &none;
    }
  }();
  return *library;
}

const CudaState& DescribeCuda() noexcept { return GetCudaLibrary().state; }

}  // namespace endcap
