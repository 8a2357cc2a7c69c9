// What the C library says of itself, and who hears of which error.

#include "endcap/c_api.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "c_api_client.h"
#include "c_api_images.h"
#include "endcap/postprocess.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

TEST(CApi, AClientInC) {
  const char* problem = RunCClient();
  EXPECT_EQ(problem, nullptr) << problem;
}

TEST(CApi, TellsItsVersionAndTheNamesOfStatuses) {
  EXPECT_EQ(endcap_c_abi(), ENDCAP_C_ABI);
  EXPECT_STREQ(endcap_version(), PROJECT_VERSION);
  EXPECT_STREQ(endcap_status_name(0), "ok");
  EXPECT_STREQ(endcap_status_name(1), "corrupt_image");
  EXPECT_STREQ(endcap_status_name(7), "internal");
  EXPECT_STREQ(endcap_status_name(8), "unknown");
  EXPECT_STREQ(endcap_status_name(-1), "unknown");
}

void ExpectTable(const std::vector<ParameterInfo>& expected, const endcap_parameter_info* rows,
                 size_t count) {
  ASSERT_EQ(count, expected.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rows[i].name, expected[i].name);
    EXPECT_EQ(rows[i].meaning, expected[i].meaning);
    EXPECT_EQ(rows[i].allowed, expected[i].allowed);
    EXPECT_EQ(rows[i].value, expected[i].value);
  }
}

TEST(CApi, TheTablesAreTheCores) {
  const endcap_parameter_info* rows = nullptr;
  size_t count = 0;
  ASSERT_EQ(endcap_preprocess_parameters(&rows, &count), 0);
  ExpectTable(DescribePreprocessParams({}), rows, count);
  ASSERT_EQ(endcap_postprocess_parameters(&rows, &count), 0);
  ExpectTable(DescribePostprocessParams({}), rows, count);
  EXPECT_TRUE(Refused("rows is NULL", endcap_preprocess_parameters(nullptr, &count)));
  EXPECT_TRUE(Refused("count is NULL", endcap_postprocess_parameters(&rows, nullptr)));
}

TEST(CApi, ALastErrorStaysUntilTheNextAndAnItemsUntilTheNextRun) {
  const MixedImages mixed;
  const PreprocessorHandle handle = NewPreprocessor({{"size", "8"}});
  endcap_tensor_spec spec;
  ASSERT_TRUE(Refused("size is 0,7", endcap_preprocessor_tensor(handle.get(), 0, 7, &spec)));
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 7, 7, &spec), 0);
  EXPECT_STREQ(endcap_last_error(), "size is 0,7: give each from 1 to 16384");
  ByC(handle.get(), {mixed.images[2]});
  const std::string said = endcap_item_error(0);
  EXPECT_NE(said, "");
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 7, 7, &spec), 0);
  EXPECT_EQ(endcap_item_error(0), said);
  EXPECT_STREQ(endcap_item_error(1), "");
  ASSERT_NE(endcap_preprocessor_run(handle.get(), nullptr, nullptr, 1, nullptr), 0);
  EXPECT_STREQ(endcap_item_error(0), "") << "a run that failed has no items";
}

// Two threads on one handle: each has its own images, sizes and errors, all at the same time.
TEST(CApi, EveryThreadHasItsOwnErrors) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}};
  const PreprocessorHandle handle = NewPreprocessor(list, ENDCAP_CPU, 2);
  std::barrier together(2);
  const auto work = [&](int number, size_t bad) {
    const std::vector<endcap_image> images = {mixed.images[0], mixed.images[bad]};
    const std::vector<Size> sizes = {{}, {20 + number, 30}};
    const ImageResults expected = ByCore(ParsePreprocessParams(list), images, sizes);
    for (int round = 0; round < 20; ++round) {
      endcap_tensor_spec spec;
      together.arrive_and_wait();
      endcap_preprocessor_tensor(handle.get(), -number, 7, &spec);
      EXPECT_TRUE(ByC(handle.get(), images, sizes) == expected);
      together.arrive_and_wait();  // the other thread's calls lie between ours and the checks
      EXPECT_EQ(endcap_last_error(),
                "size is " + std::to_string(-number) + ",7: give each from 1 to 16384");
      EXPECT_EQ(endcap_item_error(1), expected.messages[1]);
    }
  };
  std::thread other([&] { work(1, 2); });
  work(2, 9);
  other.join();
}

TEST(CApi, AThreadThatHadNoErrorHasNoMessage) {
  std::thread([] {
    EXPECT_STREQ(endcap_last_error(), "");
    EXPECT_STREQ(endcap_item_error(0), "");
  }).join();
}

}  // namespace
}  // namespace endcap
