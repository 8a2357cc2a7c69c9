#include "decode/sequential_decoder.h"

#include <gtest/gtest.h>

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including what declares it
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "decode/huffman_block.h"
#include "decode/jpeg_markers.h"
#include "decoded_pixels.h"
#include "endcap/decode.h"
#include "jpeg_writer.h"

// Against libjpeg-turbo, which is the scalar implementation, on every target of this machine.

namespace endcap {
namespace {

using testing::Bytes;
using testing::ExpectTargetsEqual;
using testing::JpegOptions;
using testing::MakeJpeg;

// A gray or YCbCr file with coefficients and a quantization table of the test's choice.
struct CoefficientFile {
  int width_in_blocks = 7;
  int height_in_blocks = 5;
  int channels = 1;
  unsigned quantization = 1;  // of all places
  std::mt19937 random{3};

  // fill(coefficients in the order of rows, number of the block).
  template <typename Fill>
  Bytes Write(Fill fill) {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    errors.emit_message = [](j_common_ptr, int) {};  // that the quantization is coarse
    jpeg_create_compress(&info);
    unsigned char* memory = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&info, &memory, &size);
    info.image_width = static_cast<JDIMENSION>(width_in_blocks * DCTSIZE);
    info.image_height = static_cast<JDIMENSION>(height_in_blocks * DCTSIZE);
    info.input_components = channels;
    info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
    jpeg_set_defaults(&info);
    info.optimize_coding = TRUE;
    std::array<jvirt_barray_ptr, 3> arrays{};
    for (int i = 0; i < channels; ++i) {
      info.comp_info[i].h_samp_factor = info.comp_info[i].v_samp_factor = 1;
      info.comp_info[i].quant_tbl_no = 0;
      arrays[static_cast<size_t>(i)] = (*info.mem->request_virt_barray)(
          reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, TRUE,
          static_cast<JDIMENSION>(width_in_blocks), static_cast<JDIMENSION>(height_in_blocks), 1);
    }
    std::array<unsigned, DCTSIZE2> table{};
    table.fill(quantization);
    jpeg_add_quant_table(&info, 0, table.data(), 100, FALSE);
    jpeg_write_coefficients(&info, arrays.data());
    int number = 0;
    for (int i = 0; i < channels; ++i) {
      for (int y = 0; y < height_in_blocks; ++y) {
        JBLOCKARRAY rows = (*info.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&info),
                                                           arrays[static_cast<size_t>(i)],
                                                           static_cast<JDIMENSION>(y), 1, TRUE);
        for (int x = 0; x < width_in_blocks; ++x) {
          std::fill_n(rows[0][x], DCTSIZE2, JCOEF{0});
          fill(rows[0][x], number++);
        }
      }
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    Bytes file(memory, memory + size);
    std::free(memory);
    return file;
  }

  int16_t Value(int most) {
    return static_cast<int16_t>(std::uniform_int_distribution<int>(-most, most)(random));
  }
};

bool IsTaken(const Bytes& file) {
  return SequentialDecoder::CanDecode(ReadMarkers(file.data(), file.size()));
}

TEST(SequentialDecoder, GivesTheLibrarysPixelsOfBlocksThatEndAnywhere) {
  for (size_t last = 0; last < DCTSIZE2; ++last) {
    CoefficientFile writer;
    writer.quantization = 3;
    const Bytes file = writer.Write([&](JCOEF* block, int /*number*/) {
      for (size_t k = 0; k <= last; ++k) block[kNaturalOrder[k]] = writer.Value(60);
    });
    ASSERT_TRUE(IsTaken(file));
    ExpectTargetsEqual(file, "up to place " + std::to_string(last));
  }
}

TEST(SequentialDecoder, GivesTheLibrarysPixelsOfNeighboursThatDiffer) {
  CoefficientFile writer;
  writer.width_in_blocks = 31;
  writer.channels = 3;
  writer.quantization = 5;
  const Bytes file = writer.Write([&](JCOEF* block, int number) {
    constexpr std::array<size_t, 5> kCounts{1, 3, 10, 25, 64};
    const size_t count = kCounts[static_cast<size_t>(number * number) % kCounts.size()];
    for (size_t k = 0; k < count; ++k) block[kNaturalOrder[k]] = writer.Value(40);
  });
  ExpectTargetsEqual(file, "blocks of all kinds");
}

// Damaged and hostile files have such; sums and products leave 16 bits.
TEST(SequentialDecoder, GivesTheLibrarysPixelsWhereCoefficientsLeaveTheirRange) {
  for (const unsigned quantization : {1U, 8U, 60U, 255U, 3000U, 32767U, 65535U}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{9}, size_t{10}, size_t{64}}) {
      for (const bool first_row : {false, true}) {
        CoefficientFile writer;
        writer.quantization = quantization;
        const Bytes file = writer.Write([&](JCOEF* block, int number) {
          for (size_t k = 0; k < count; ++k) {
            // Blocks whose first row is the only one are a case of their own in libjpeg-turbo.
            const size_t place = first_row && number % 2 == 0 ? k % DCTSIZE : kNaturalOrder[k];
            block[place] = writer.Value(1000);
          }
        });
        ExpectTargetsEqual(file, "quantization " + std::to_string(quantization) + ", " +
                                     std::to_string(count) + " coefficients");
      }
    }
  }
}

TEST(SequentialDecoder, GivesTheLibrarysPixelsOfAnySizeAndSampling) {
  for (const int width : {1, 3, 8, 15, 17, 33, 63, 64, 65, 129, 130}) {
    for (const int height : {1, 7, 16, 17, 40}) {
      for (const int columns : {1, 2, 4}) {
        for (const int rows : {1, 2}) {
          JpegOptions options;
          options.luma_columns = columns;
          options.luma_rows = rows;
          options.restart_rows = width % 2;
          const Bytes file = MakeJpeg(height, width, 3, options);
          const std::string what = std::to_string(width) + "x" + std::to_string(height) + ", " +
                                   std::to_string(columns) + "x" + std::to_string(rows);
          ExpectTargetsEqual(file, what);
          ExpectTargetsEqual(file, what + ", luma", {1});
        }
      }
      ExpectTargetsEqual(MakeJpeg(height, width, 1), "gray " + std::to_string(width));
    }
  }
}

TEST(SequentialDecoder, GivesTheLibrarysPixelsWhereDataBeginsAnewAfterAnyMcu) {
  for (const int mcus : {1, 3, 5, 9, 11}) {
    for (const int columns : {1, 2}) {
      JpegOptions options;
      options.luma_columns = options.luma_rows = columns;
      options.restart_mcus = mcus;
      const Bytes file = MakeJpeg(40, 130, 3, options);
      const std::string what = std::to_string(mcus) + " MCUs, " + std::to_string(columns);
      ExpectTargetsEqual(file, what);
      ExpectTargetsEqual(file, what + ", luma", {1});
      ExpectTargetsEqual(MakeJpeg(40, 130, 1, options), what + ", gray");
    }
  }
}

TEST(SequentialDecoder, LeavesSidesThatTheLibraryRefusesToIt) {
  const Bytes file = MakeJpeg(8, 16, 1);
  EXPECT_TRUE(IsTaken(testing::WithSize(file, 1, 65500)));
  EXPECT_FALSE(IsTaken(testing::WithSize(file, 1, 65501)));
  EXPECT_FALSE(IsTaken(testing::WithSize(file, 65501, 1)));
}

// Some cameras give gray files the sampling of color: it changes nothing but the library's rows.
TEST(SequentialDecoder, TakesGrayFilesWithASampling) {
  Bytes file = MakeJpeg(45, 70, 1);
  const size_t sampling = testing::FindFrame(file) + 11;
  ASSERT_EQ(file[sampling], 0x11);
  for (const uint8_t value : std::array<uint8_t, 4>{0x12, 0x21, 0x22, 0x44}) {
    file[sampling] = value;
    ASSERT_TRUE(IsTaken(file));
    ExpectTargetsEqual(file, "sampling " + std::to_string(value));
  }
}

TEST(SequentialDecoder, LeavesFilesOfSeveralScansToOthers) {
  JpegOptions progressive;
  progressive.progressive = true;
  JpegOptions separate;
  separate.separate_scans = true;
  EXPECT_FALSE(IsTaken(MakeJpeg(32, 32, 3, progressive)));
  EXPECT_FALSE(IsTaken(MakeJpeg(32, 32, 3, separate)));
  EXPECT_TRUE(IsTaken(MakeJpeg(32, 32, 3)));
}

}  // namespace
}  // namespace endcap
