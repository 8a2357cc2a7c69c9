#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cuda_runtime/library_loader.h"
#include "cuda_runtime/runtime.h"
#include "error_matchers.h"

namespace endcap {
namespace {

// Opens the fake library with these environment variables.
CudaLibrary Open(const std::map<std::string, std::string>& settings) {
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
  CudaLibrary library = OpenCudaLibrary(FAKE_CUDA_LIBRARY);
  for (const auto& [name, value] : settings) unsetenv(name.c_str());
  return library;
}

void ExpectUnavailable(const CudaLibrary& library, const std::string& words) {
  EXPECT_EQ(library.api, nullptr);
  EXPECT_FALSE(library.state.available);
  EXPECT_NE(library.state.reason.find(words), std::string::npos) << library.state.reason;
}

TEST(ListCudaLibraryPaths, AreBesideTheFileAndInThePackageOfABackend) {
  EXPECT_EQ(ListCudaLibraryPaths("/p/endcap/backends/b/libtriton_b.so"),
            (std::vector<std::string>{"/p/endcap/backends/b/libendcap_cuda.so",
                                      "/p/endcap/backends/b/../../libendcap_cuda.so"}));
  EXPECT_EQ(ListCudaLibraryPaths("program").front(), "./libendcap_cuda.so");
}

TEST(CoversDevice, TakesMachineCodeOfTheSameMajorVersionAndOlderPtx) {
  EXPECT_TRUE(CoversDevice("75-real 80-real", 8, 0));
  EXPECT_TRUE(CoversDevice("75-real 80-real", 8, 9));
  EXPECT_FALSE(CoversDevice("75-real 86-real", 8, 0));
  EXPECT_FALSE(CoversDevice("75-real 80-real", 7, 0));
  EXPECT_FALSE(CoversDevice("75-real 80-real", 9, 0));
  EXPECT_TRUE(CoversDevice("75-real 90-virtual", 12, 1));
  EXPECT_FALSE(CoversDevice("90-virtual", 8, 9));
  EXPECT_TRUE(CoversDevice("80", 9, 0));
  EXPECT_TRUE(CoversDevice("100-real", 10, 3));
  EXPECT_FALSE(CoversDevice("100-real", 1, 0));
  EXPECT_FALSE(CoversDevice("", 9, 0));
}

TEST(CoversDevice, CountsWordsWithoutANumberAsPtxForAnyDevice) {
  EXPECT_TRUE(CoversDevice("native", 9, 0));
  EXPECT_TRUE(CoversDevice("100-real all-major", 7, 5));
}

TEST(CoversDevice, ReadsTheNumberBeforeALetter) {
  EXPECT_TRUE(CoversDevice("90a-real", 9, 0));
  EXPECT_FALSE(CoversDevice("90a-real", 8, 9));
}

TEST(FakeCuda, IsAvailableWithADriverAndACoveredDevice) {
  const CudaLibrary library = Open({});
  ASSERT_NE(library.api, nullptr);
  EXPECT_TRUE(library.state.available);
  EXPECT_EQ(library.state.reason, "");
  EXPECT_EQ(library.state.library_path, FAKE_CUDA_LIBRARY);
  EXPECT_EQ(library.state.driver_version, 13010);
  EXPECT_EQ(library.state.runtime_version, 13000);
  EXPECT_EQ(library.state.architectures, "75-real 90-real");
  ASSERT_EQ(library.state.devices.size(), 2U);
  EXPECT_EQ(library.state.devices[1].id, 1);
  EXPECT_EQ(library.state.devices[1].name, "Fake 1");
  EXPECT_TRUE(library.state.devices[0].covered);
  EXPECT_FALSE(library.state.devices[1].covered);
}

TEST(FakeCuda, SaysWhyItIsUnavailable) {
  struct Case {
    std::map<std::string, std::string> settings;
    std::vector<std::string> words;
  };
  const Case cases[] = {{{{"FAKE_CUDA_DRIVER", "0"}}, {"no NVIDIA driver"}},
                        {{{"FAKE_CUDA_DRIVER", "12040"}}, {"runs CUDA 12.4", "driver 580"}},
                        {{{"FAKE_CUDA_DEVICES", "0"}}, {"no GPU"}},
                        {{{"FAKE_CUDA_DEVICES_FAIL", "1"}}, {"the fake device is broken"}},
                        {{{"FAKE_CUDA_DEVICES", "1"}, {"FAKE_CUDA_COMPUTE", "61"}},
                         {"compute capability 6.1", "75-real"}},
                        {{{"FAKE_CUDA_VERSION", "4711"}}, {"another build"}},
                        {{{"FAKE_CUDA_LAYOUT", "4711"}}, {"another build"}}};
  for (const auto& [settings, words] : cases) {
    const CudaLibrary library = Open(settings);
    for (const std::string& each : words) ExpectUnavailable(library, each);
  }
}

TEST(OpenCudaLibrary, SaysWhyAFileCannotBeOpened) {
  const CudaLibrary library = OpenCudaLibrary("/nowhere/libendcap_cuda.so");
  ExpectUnavailable(library, "/nowhere/libendcap_cuda.so");
  EXPECT_EQ(library.state.library_path, "/nowhere/libendcap_cuda.so");
}

TEST(OpenCudaLibrary, RefusesAForeignLibrary) {
  ExpectUnavailable(OpenCudaLibrary("libm.so.6"), "not endcap's");
}

TEST(RequireCuda, IsAnErrorWithTheReasonOrForADeviceThatIsNotThere) {
  const CudaState& state = DescribeCuda();
  const std::string words = state.available ? "cuda:4711" : state.reason;
  EXPECT_TRUE(testing::Throws(ErrorCode::kCuda, words, [] { RequireCuda(4711); }));
  EXPECT_TRUE(testing::Throws(ErrorCode::kCuda, state.available ? "cuda:-1" : state.reason,
                              [] { RequireCuda(-1); }));
  EXPECT_EQ(state.available, state.reason.empty());
}

}  // namespace
}  // namespace endcap
