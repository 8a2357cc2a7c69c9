# Cross compilation for arm64 with Debian's g++-aarch64-linux-gnu. The libraries are those of
# scripts/arm64_sysroot.sh; what is built runs under QEMU's user mode.
set(ENDCAP_ARM64_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot" CACHE PATH
    "The arm64 libraries, from scripts/arm64_sysroot.sh")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ENDCAP_ARM64_SYSROOT)
get_filename_component(CMAKE_SYSROOT "${ENDCAP_ARM64_SYSROOT}" ABSOLUTE)
if(NOT EXISTS "${CMAKE_SYSROOT}/usr/include/jpeglib.h")
  message(FATAL_ERROR "${CMAKE_SYSROOT} has no arm64 libraries: run scripts/arm64_sysroot.sh "
                      "${CMAKE_SYSROOT}")
endif()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(CMAKE_C_COMPILER aarch64-linux-gnu-gcc REQUIRED)
find_program(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++ REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${CMAKE_SYSROOT}")

# Programs are the building machine's; packages of headers alone, such as pybind11, may be.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
