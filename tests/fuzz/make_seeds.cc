// Writes the files that the fuzz targets of images start from into FOLDER/TARGET: small JPEGs of
// every kind that libjpeg-turbo writes, followed by bytes that choose how a target reads them.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "fuzz_input.h"
#include "jpeg_writer.h"

namespace {

namespace fs = std::filesystem;
using endcap::testing::Bytes;
using endcap::testing::JpegOptions;
using endcap::testing::MakeJpeg;

void Write(const fs::path& file, const Bytes& content) {
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) throw std::runtime_error(file.string() + " cannot be written");
}

std::vector<Bytes> MakeFiles() {
  std::vector<Bytes> files;
  for (int kind = 0; kind < 24; ++kind) {
    for (const int channels : {1, 3, 4}) {
      JpegOptions options;
      options.quality = kind % 2 == 0 ? 30 : 95;
      options.progressive = kind % 4 == 1;
      options.bit_by_bit = kind % 4 == 2 && channels != 4;
      options.separate_scans = kind % 4 == 3;
      options.orientation = kind % 9;
      options.luma_columns = 1 + kind / 2 % 2;
      options.luma_rows = 1 + kind / 4 % 2;
      if (kind == 20) options.luma_columns = 4;
      options.restart_rows = kind % 3 == 2 ? 1 : 0;
      options.optimized = kind % 5 == 4;
      files.push_back(MakeJpeg(5 + kind * 2, 3 + kind * 3, channels, options));
    }
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const std::vector<Bytes> files = MakeFiles();
  for (const char* target : {"jpeg_header", "jpeg_decode", "jpeg_planes", "jpeg_window", "regions",
                             "preprocess", "c_api"}) {
    endcap::fuzz::Noise noise(7);
    for (size_t i = 0; i < files.size(); ++i) {
      Bytes content = files[i];
      content.resize(content.size() + 64);
      noise.Fill(std::span(content).last(64));
      Write(fs::path(argv[1]) / target / ("seed" + std::to_string(i)), content);
    }
  }
  return 0;
}
