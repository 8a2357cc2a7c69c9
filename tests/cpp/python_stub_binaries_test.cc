// ELF files as the stub in a model's folder reads them.
#include <gtest/gtest.h>

#include "binary_file.h"
#include "python_stub_files.h"

namespace endcap::python_stub {
namespace {

using Texts = std::vector<std::string>;

BinaryFile ReadElf(const TemporaryFolder& folder, const std::string& bytes) {
  return BinaryFile::Read(folder.Write("file", bytes)).value();
}

TEST(BinaryFileTest, ReadsLibrariesAndBuildId) {
  const TemporaryFolder folder;
  const BinaryFile file = ReadElf(folder, MakeElfFile({"libm.so.6", "libc.so.6"}, "\x01\xab\xff"));
  EXPECT_EQ(file.NeededLibraries(), Texts({"libm.so.6", "libc.so.6"}));
  EXPECT_EQ(file.BuildId(), "01abff");
}

TEST(BinaryFileTest, RejectsOtherFiles) {
  const TemporaryFolder folder;
  EXPECT_FALSE(BinaryFile::Read(folder.path() / "absent"));
  EXPECT_FALSE(BinaryFile::Read(folder.path()));
  EXPECT_FALSE(BinaryFile::Read(folder.Write("script", std::string(100, '#'))));
}

TEST(BinaryFileTest, RejectsProgramsOfOtherMachines) {
  const TemporaryFolder folder;
  std::string bytes = MakeElfFile({}, "1");
  bytes[offsetof(Elf64_Ehdr, e_machine)] = EM_S390;
  EXPECT_FALSE(BinaryFile::Read(folder.Write("file", bytes)));
}

TEST(BinaryFileTest, UsesTheFirstDynamicSegment) {
  const TemporaryFolder folder;
  std::string bytes = MakeElfFile({"libm.so.6"}, "1");
  // The header of the note becomes a second dynamic segment with the same entries.
  std::memcpy(bytes.data() + sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr),
              bytes.data() + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
  EXPECT_EQ(ReadElf(folder, bytes).NeededLibraries(), Texts({"libm.so.6"}));
}

TEST(BinaryFileTest, DoesNotReadPastTheEndOfATruncatedFile) {
  const TemporaryFolder folder;
  const std::string whole = MakeElfFile({"libpython3.11.so.1.0"}, "0123456789");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (const auto file = BinaryFile::Read(folder.Write("file", whole.substr(0, size)))) {
      EXPECT_EQ(file->BuildId(), "") << size;
      EXPECT_LE(file->NeededLibraries().size(), 1U);
    }
  }
}

TEST(BinaryFileTest, ThePythonVersionIsThatOfLibpython) {
  const TemporaryFolder folder;
  const auto find_minor = [&](const std::string& library) {
    return FindPythonMinor(ReadElf(folder, MakeElfFile({"libm.so.6", library}, "1")));
  };
  EXPECT_EQ(find_minor("libpython3.11.so.1.0"), 11);
  EXPECT_EQ(find_minor("libpython3.7m.so.1.0"), 7);
  EXPECT_EQ(find_minor("libpython3-419a3a08.13.so.1.0"), 13);
  EXPECT_EQ(find_minor("libpython3.so"), std::nullopt);
}

TEST(BinaryFileTest, Numpy2SupportIsFoundByTheNameOfAModule) {
  const TemporaryFolder folder;
  const auto supports = [&](const std::string& text) {
    return SupportsNumpy2(ReadElf(folder, MakeElfFile({}, "1", text)));
  };
  EXPECT_EQ(supports("numpy.core.multiarray"), false);
  EXPECT_EQ(supports("numpy.core.multiarray numpy._core"), true);
  EXPECT_EQ(supports("nothing"), std::nullopt);
}

TEST(BinaryFileTest, AnIsolatedPythonUsesNoEnvironmentVariables) {
  const TemporaryFolder folder;
  EXPECT_TRUE(UsesEnvironmentVariables(ReadElf(folder, MakeElfFile({}, "1", "Py_InitializeEx"))));
  EXPECT_FALSE(UsesEnvironmentVariables(
      ReadElf(folder, MakeElfFile({}, "1", "PyConfig_InitIsolatedConfig"))));
}

}  // namespace
}  // namespace endcap::python_stub
