// Arguments, settings, environments, packages and libraries of the stub in a model's folder.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "binary_file.h"
#include "environment.h"
#include "packages.h"
#include "python_stub_files.h"
#include "real_stub.h"
#include "settings.h"

namespace endcap::python_stub {
namespace {

using Texts = std::vector<std::string>;

TEST(ArgumentsTest, ReadsTheArgumentsOfTriton) {
  const auto arguments =
      ReadArguments({"stub", "/models/m/3/model.py", "region", "1048576", "65536", "17",
                     "/opt/backends/python", "0", "m_0", "DEFAULT"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->ModelFolder(), "/models/m");
  EXPECT_EQ(arguments->shared_memory_region, "region");
  EXPECT_EQ(arguments->shared_memory_bytes, 1048576);
  EXPECT_EQ(arguments->shared_memory_growth, 65536);
  EXPECT_EQ(arguments->server_folder, "/opt/backends/python");
}

TEST(ArgumentsTest, RejectsOtherArguments) {
  EXPECT_FALSE(ReadArguments({"stub"}));
  EXPECT_FALSE(ReadArguments({"stub", "m", "region", "1x", "1", "17", "/opt", "0", "m_0"}));
}

TEST(EnvironmentTest, TheVersionIsInTheNameOfTheProgram) {
  const TemporaryFolder folder;
  folder.WriteProgram("env/bin/python3.12");
  folder.Link("env/bin/python3", "python3.12");
  const auto pythons = FindPythons("/nowhere:" + (folder.path() / "env/bin").string());
  ASSERT_EQ(pythons.size(), 1U);
  EXPECT_EQ(pythons[0].minor, 12);
  EXPECT_EQ(pythons[0].prefix, folder.path() / "env");
  EXPECT_EQ(pythons[0].ListPackageFolders()[0], folder.path() / "env/lib/python3.12/site-packages");
}

TEST(EnvironmentTest, TheVersionIsElseThatOfTheStandardLibrary) {
  const TemporaryFolder folder;
  folder.WriteProgram("env/bin/python3");
  folder.Write("env/lib/python3.9/os.py");
  const std::string search_path = (folder.path() / "env/bin").string();
  EXPECT_EQ(FindPythons(search_path).at(0).minor, 9);
  folder.Write("env/lib/python3.10/os.py");
  EXPECT_EQ(FindPythons(search_path).at(0).minor, std::nullopt);
}

TEST(EnvironmentTest, VirtualEnvironmentHasItsOwnPackages) {
  const TemporaryFolder folder;
  folder.WriteProgram("base/bin/python3.11");
  folder.Link("venv/bin/python3", "../../base/bin/python3.11");
  const std::string home = "home = " + (folder.path() / "base/bin").string() + "\n";
  folder.Write("venv/pyvenv.cfg", home + "version = 3.11.7\n");
  const auto alone = FindPythons((folder.path() / "venv/bin").string()).at(0);
  EXPECT_EQ(alone.minor, 11);
  EXPECT_EQ(alone.prefix, folder.path() / "venv");
  EXPECT_EQ(alone.base_prefix, folder.path() / "base");
  EXPECT_EQ(alone.ListPackageFolders().size(), 2U);
  folder.Write("venv/pyvenv.cfg", home + "include-system-site-packages = true\n");
  const auto sharing = FindPythons((folder.path() / "venv/bin").string()).at(0);
  EXPECT_EQ(sharing.minor, 11);
  EXPECT_EQ(sharing.ListPackageFolders()[2], folder.path() / "base/lib/python3.11/site-packages");
  // The user's packages come with those of the installation.
  EXPECT_EQ(alone.ListPackageFolders("", "/home/.local").size(), 2U);
  const auto all = sharing.ListPackageFolders("/a::/b", "/home/.local");
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(all[0], "/a");
  EXPECT_EQ(all[1], "/b");
  EXPECT_EQ(all[2], "/home/.local/lib/python3.11/site-packages");
  EXPECT_EQ(all[3], folder.path() / "venv/lib/python3.11/site-packages");
}

TEST(EnvironmentTest, TheActivatedEnvironmentIsFirstOnBothPaths) {
  const TemporaryFolder folder;
  folder.Write("env/bin/activate");
  const std::string lib = (folder.path() / "env/lib").string();
  const std::string bin = (folder.path() / "env/bin").string();
  EXPECT_EQ(FindActivatedPrefix("/usr/bin:" + bin, lib + ":/usr/lib"), folder.path() / "env");
  EXPECT_EQ(FindActivatedPrefix(bin, "/usr/lib:" + lib), std::nullopt);
  EXPECT_EQ(FindActivatedPrefix("", ""), std::nullopt);
  // Its libraries are first, but the Python is another one.
  folder.Write("env/bin/python3");
  EXPECT_EQ(FindActivatedPrefix("/usr/bin:" + bin, lib + ":/usr/lib"), std::nullopt);
  EXPECT_EQ(FindActivatedPrefix(bin + ":/usr/bin", lib + ":/usr/lib"), folder.path() / "env");
  folder.Link("link", "env");
  EXPECT_EQ(FindActivatedPrefix((folder.path() / "link/bin").string(), lib), folder.path() / "env");
}

TEST(PackagesTest, TheFirstFolderWins) {
  const TemporaryFolder folder;
  folder.Write("a/numpy/__init__.py");
  folder.Write("a/numpy/version.py", "short = 1\nversion = \"1.24.0\"\n");
  folder.Write("b/numpy/__init__.py");
  folder.Write("b/numpy-2.1.3.dist-info/METADATA");
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  EXPECT_EQ(FindPackage({folder.path(), a, b}, "numpy")->version, "1.24.0");
  EXPECT_EQ(FindPackage({b, a}, "numpy")->version, "2.1.3");
  EXPECT_FALSE(FindPackage({a, b}, "endcap"));
}

TEST(PackagesTest, FoldersOfPthFilesAreSearched) {
  const TemporaryFolder folder;
  folder.WriteProgram("env/bin/python3.11");
  folder.Link("env/bin/python3", "python3.11");
  folder.Write("env/lib/python3.11/site-packages/more.pth",
               "import something\n# a comment\n../../../../elsewhere\n");
  folder.Write("elsewhere/endcap/__init__.py");
  const auto python = FindPythons((folder.path() / "env/bin").string()).at(0);
  EXPECT_TRUE(FindPackage(python.ListPackageFolders(), "endcap"));
}

TEST(PackagesTest, LinesMayBeLong) {
  const TemporaryFolder folder;
  const std::string much(200'000, 'x');
  folder.Write("numpy/__init__.py");
  folder.Write("numpy/version.py", "version" + much + "\nversion: str = '1.26.4'  # " + much);
  EXPECT_EQ(FindPackage({folder.path()}, "numpy")->version, "1.26.4");
  folder.WriteProgram("env/bin/python3");
  folder.Write("env/pyvenv.cfg", "version = 3.11.7" + much);
  EXPECT_EQ(FindPythons((folder.path() / "env/bin").string()).at(0).minor, 11);
  const BinaryFile stub =
      BinaryFile::Read(folder.Write("file", MakeElfFile({"libpython3.11.so" + much}, "1"))).value();
  EXPECT_EQ(FindPythonMinor(stub), std::nullopt);
}

class ImportsTest : public testing::Test {
 protected:
  bool ImportsEndcap(const std::string& text) const {
    return ImportsPackage(folder_.Write("model.py", text), "endcap");
  }

  TemporaryFolder folder_;
};

TEST_F(ImportsTest, AreFoundAtTheStartOfLines) {
  EXPECT_TRUE(ImportsEndcap("import os\nimport endcap\n"));
  EXPECT_TRUE(ImportsEndcap("from endcap.nms import nms\n"));
  EXPECT_TRUE(ImportsEndcap("import  endcap as e\r\n"));
  EXPECT_FALSE(ImportsEndcap("import endcapsulate\n# import endcap\n"));
  EXPECT_FALSE(ImportsEndcap("importendcap\nimport\nimport \nfrom"));
}

TEST_F(ImportsTest, ConditionalOnesDoNotCount) {
  EXPECT_FALSE(ImportsEndcap("try:\n    import endcap\nexcept ImportError:\n    pass\n"));
  EXPECT_FALSE(ImportsEndcap("def f():\n\timport endcap\n"));
}

TEST_F(ImportsTest, ThoseInStringsDoNotCount) {
  EXPECT_FALSE(ImportsEndcap("\"\"\"How to:\nimport endcap\n\"\"\"\n"));
  EXPECT_FALSE(ImportsEndcap("x = r'''\\''' \"\"\"\nimport endcap\n'''\n"));
  EXPECT_TRUE(ImportsEndcap("\"\"\"It's one line.\"\"\"\nimport endcap\n"));
  EXPECT_TRUE(ImportsEndcap("\"\"\"Two\nlines\"\"\"\nimport endcap\n"));
  EXPECT_TRUE(ImportsEndcap("# don't, '''\nx = '\"\"\"' + \"\\\"'''\"\nimport endcap\n"));
}

TEST_F(ImportsTest, AreFoundInLongLines) {
  const std::string much(200'000, 'x');
  EXPECT_TRUE(ImportsEndcap("# " + much + "\nimport endcap  # " + much));
}

TEST(SettingsTest, TheStubIsRelativeToTheModelsFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadSettings(folder.path()).stub, "");
  folder.Write(kSettingsFile, R"({"stub": "other", "library_folders": ["/a"], "release": "r"})");
  const Settings settings = ReadSettings(folder.path());
  EXPECT_EQ(settings.stub, folder.path() / "other");
  EXPECT_EQ(settings.library_folders, Texts({"/a"}));
  folder.Write(kSettingsFile, R"({"stub": "/stubs"})");
  EXPECT_EQ(ReadSettings(folder.path()).stub, "/stubs");
}

TEST(SettingsTest, AnInvalidFileIsAnErrorMessage) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text) -> std::string {
    folder.Write(kSettingsFile, text);
    try {
      ReadSettings(folder.path());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("{").find("endcap stub install"), std::string::npos);
  EXPECT_NE(message("[]").find("is no JSON object"), std::string::npos);
  EXPECT_NE(message(R"({"stub": 1})").find("is no JSON object"), std::string::npos);
  EXPECT_NE(message(R"({"stubb": ""})").find("unknown name 'stubb'; known are stub,"),
            std::string::npos);
}

TEST(RealStubTest, TheStubOfTheModelComesFirst) {
  const TemporaryFolder folder;
  const std::string for_9 = MakeElfFile({"libpython3.9.so.1.0"}, "9");
  const std::string for_11 = MakeElfFile({"libpython3.11.so.1.0"}, "11");
  folder.Write("server/triton_python_backend_stub", for_11);
  folder.Write("model/config.pbtxt");
  const auto find = [&](int minor, const Settings& settings = {}) {
    return FindRealStub(folder.path() / "model", settings, folder.path() / "server", minor);
  };
  EXPECT_EQ(find(11)->path, folder.path() / "server/triton_python_backend_stub");
  EXPECT_FALSE(find(9));
  folder.Write("model/triton_python_backend_stub.real", for_9);
  EXPECT_EQ(find(11)->minor, 9);
  folder.Write("stubs/3.11/triton_python_backend_stub", for_11);
  Settings settings;
  settings.stub = folder.path() / "stubs";
  EXPECT_EQ(find(11, settings)->path, folder.path() / "stubs/3.11/triton_python_backend_stub");
}

TEST(LibraryPathTest, AnActivatedEnvironmentKeepsItsColon) {
  Settings settings;
  EXPECT_EQ(MakeLibraryPath("", settings, "", false), "");
  EXPECT_EQ(MakeLibraryPath("", settings, "", true), "/usr/lib:/usr/lib");
  EXPECT_EQ(MakeLibraryPath("/env/lib:", settings, "", true), "/env/lib:/env/lib");
  settings.library_folders = {"/stub/libs"};
  EXPECT_EQ(MakeLibraryPath("/env/lib:", settings, "", true), "/env/lib:/stub/libs");
  EXPECT_EQ(MakeLibraryPath("/a::/b", settings, "", false), "/a:/b:/stub/libs");
}

TEST(LibraryPathTest, MissingLibrariesAreNamed) {
  EXPECT_EQ(FindMissingLibraries("/bin/sh", ""), Texts());
  EXPECT_EQ(FindMissingLibraries(FAKE_PYTHON_STUB, ""), Texts({"libpython3.99.so.1.0"}));
  const TemporaryFolder folder;
  EXPECT_EQ(FindMissingLibraries(folder.Write("none"), ""), std::nullopt);
}

// Returns the fake stub, with a text in it replaced by another of the same size.
std::string ReplaceInFakeStub(const std::string& text, const std::string& other) {
  std::ifstream file(FAKE_PYTHON_STUB, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t at = bytes.find(text);
  return at == std::string::npos ? "" : bytes.replace(at, text.size(), other);
}

TEST(LibraryPathTest, TheLoaderThatAProgramNamesIsNotStarted) {
  const TemporaryFolder folder;
#if defined(__aarch64__)
  const std::string bytes = ReplaceInFakeStub("/lib/ld-linux-", "/non/ld-linux-");
#else
  const std::string bytes = ReplaceInFakeStub("/lib64/ld-linux-", "/other/ld-linux-");
#endif
  EXPECT_EQ(FindMissingLibraries(folder.WriteProgram("stub", bytes), ""),
            Texts({"libpython3.99.so.1.0"}));
}

TEST(LibraryPathTest, AProgramWithAuditLibrariesIsNotTraced) {
  const TemporaryFolder folder;
  // DT_DEBUG is in every program, has the value 0, and is ignored by the loader.
  const auto make_entry = [](Elf64_Sxword tag) {
    const Elf64_Dyn entry = {tag, {0}};
    return std::string(reinterpret_cast<const char*>(&entry), sizeof(entry));
  };
  for (const Elf64_Sxword tag : {DT_AUDIT, DT_DEPAUDIT}) {
    const std::string bytes = ReplaceInFakeStub(make_entry(DT_DEBUG), make_entry(tag));
    ASSERT_NE(bytes, "");
    EXPECT_EQ(FindMissingLibraries(folder.WriteProgram("stub", bytes), ""), std::nullopt);
  }
}

}  // namespace
}  // namespace endcap::python_stub
