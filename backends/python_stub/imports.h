// What a Python file imports, found in its text alone.
#pragma once

#include <filesystem>
#include <string>

namespace endcap::python_stub {

// Whether a Python file imports the package whenever it is loaded: by a line that begins with the
// import, outside texts in triple quotes. What stands in a `try`, an `if` or a function is
// indented.
bool Imports(const std::filesystem::path& python_file, const std::string& package);

}  // namespace endcap::python_stub
