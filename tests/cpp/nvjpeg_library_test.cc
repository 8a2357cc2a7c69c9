#include "decode/cuda/nvjpeg_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

constexpr char kHolder[] = "/env/site-packages/endcap/libendcap_cuda.so";

TEST(NvjpegPlaces, AreAllOfCuda13BeforeThoseOfCuda12) {
  EXPECT_EQ(
      NvjpegPlaces(kHolder),
      (std::vector<std::string>{"/env/site-packages/endcap/libnvjpeg.so.13",
                                "/env/site-packages/endcap/../nvidia/cu13/lib/libnvjpeg.so.13",
                                "libnvjpeg.so.13", "/env/site-packages/endcap/libnvjpeg.so.12",
                                "/env/site-packages/endcap/../nvidia/nvjpeg/lib/libnvjpeg.so.12",
                                "libnvjpeg.so.12"}));
  EXPECT_EQ(NvjpegPlaces("libendcap_cuda.so").front(), "./libnvjpeg.so.13");
}

TEST(OpenNvjpegLibrary, SaysWhatIsMissing) {
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "/no/such/libnvjpeg.so.13",
                     [] { OpenNvjpegLibrary("/no/such/libnvjpeg.so.13"); }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "has no function nvjpegGetProperty",
                     [] { OpenNvjpegLibrary("libdl.so.2"); }));
}

TEST(OpenNvjpegLibrary, TakesTheFirstPlaceThatCanBeOpened) {
  const std::vector<std::string> places = {"/no/such/libnvjpeg.so.13", FAKE_NVJPEG,
                                           "libnvjpeg.so.12"};
  const NvjpegLibrary library = OpenNvjpegLibrary(places);
  EXPECT_EQ(library.path, FAKE_NVJPEG);
  EXPECT_EQ(library.version, "13.0.2");
}

TEST(OpenNvjpegLibrary, SaysWhereItLookedOrWhyAFileCannotBeUsed) {
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "pip install nvidia-nvjpeg", [] {
    OpenNvjpegLibrary(std::vector<std::string>{"/no/such/first.so", "/no/such/second.so"});
  }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "/no/such/first.so, /no/such/second.so", [] {
    OpenNvjpegLibrary(std::vector<std::string>{"/no/such/first.so", "/no/such/second.so"});
  }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "nvJPEG could not be opened: /proc/self/cmdline", [] {
    OpenNvjpegLibrary(std::vector<std::string>{"/proc/self/cmdline", "/no/such/second.so"});
  }));
}

}  // namespace
}  // namespace endcap
