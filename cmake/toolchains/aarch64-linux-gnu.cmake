# 64-bit ARM with Debian's cross compiler, run under qemu's user-mode emulation. What coir links with for that architecture
# lies in COIR_AARCH64_SYSROOT, which .ci/aarch64-sysroot fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(COIR_AARCH64_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64-sysroot" CACHE PATH "arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COIR_AARCH64_SYSROOT)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH "${COIR_AARCH64_SYSROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
