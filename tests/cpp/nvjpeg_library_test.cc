#include "decode/nvjpeg_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

TEST(NvjpegPlaces, AreBesideTheFileThenTheLoadersThenPackages) {
  EXPECT_EQ(NvjpegPlaces("/env/site-packages/endcap/libendcap_cuda.so"),
            (std::vector<std::string>{
                "/env/site-packages/endcap/libnvjpeg.so.13",
                "/env/site-packages/endcap/libnvjpeg.so.12", "libnvjpeg.so.13", "libnvjpeg.so.12",
                "/env/site-packages/endcap/../nvidia/cu13/lib/libnvjpeg.so.13",
                "/env/site-packages/endcap/../nvidia/nvjpeg/lib/libnvjpeg.so.12"}));
  EXPECT_EQ(NvjpegPlaces("libendcap_cuda.so").front(), "./libnvjpeg.so.13");
}

TEST(OpenNvjpegLibrary, SaysWhatIsMissing) {
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "/no/such/libnvjpeg.so.13",
                     [] { OpenNvjpegLibrary("/no/such/libnvjpeg.so.13"); }));
  EXPECT_TRUE(
      Throws(ErrorCode::kCuda, "lacks nvjpegGetProperty", [] { OpenNvjpegLibrary("libdl.so.2"); }));
}

// NVIDIA's own library, where this machine has one.
class RealNvjpeg : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      library_ = TheNvjpegLibrary();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  NvjpegLibrary library_;
};

TEST_F(RealNvjpeg, HasEveryFunctionThatIsUsed) {
  EXPECT_GE(library_.version, 120000);
  EXPECT_LT(library_.version, 140000);
}

bool HasDriver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr; }

TEST_F(RealNvjpeg, AnswersWithAnErrorWhereThereIsNoDriver) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver";
  for (const nvjpeg::Backend backend :
       {nvjpeg::kBackendDefault, nvjpeg::kBackendGpuHybrid, nvjpeg::kBackendHardware}) {
    nvjpeg::Handle handle = nullptr;
    EXPECT_NE(library_.api.CreateEx(backend, nullptr, nullptr, 0, &handle), nvjpeg::kSuccess);
  }
}

}  // namespace
}  // namespace endcap
