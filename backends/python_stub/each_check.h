// The checks, one for each thing that can keep a model from working.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checks.h"

namespace endcap::python_stub {

// Sets `python` to the first on PATH.
Check CheckPython(const Subject& subject, std::optional<PythonEnvironment>& python);

// Whether there is a stub, and one for this Python.
Check CheckStub(const Subject& subject, const PythonEnvironment& python,
                const std::optional<RealStub>& stub);

// Whether stub and server belong together, as far as fingerprints were recorded.
Check CheckRelease(const Subject& subject, const Settings& settings, const RealStub& stub);

// Whether the loader finds the stub's libraries; adds to `library_path` where that takes it.
Check CheckLibraries(const PythonEnvironment& python, const RealStub& stub,
                     std::string& library_path);

// Whether NumPy is there, and one that the stub takes.
Check CheckNumpy(const std::vector<std::filesystem::path>& folders, const RealStub& stub);

// Whether endcap is there where the model imports it.
Check CheckEndcap(const std::filesystem::path& model_folder,
                  const std::vector<std::filesystem::path>& folders);

// Whether the instance's region has room.
Check CheckSharedMemory(const Subject& subject);

}  // namespace endcap::python_stub
