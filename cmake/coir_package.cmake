# Debian packages, by `cpack -G DEB` (or `make deb`) in a build with shared libraries:
#   libcoir0.1    the shared libraries; one package for each version that breaks the ABI (docs/versioning.md)
#   libcoir-dev   headers, find_package(coir), pkg-config coir
#   libcoir-dbg   the commands for gdb
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME coir)
set(CPACK_PACKAGE_VENDOR "The authors of coir")
set(CPACK_PACKAGE_CONTACT "The authors of coir <coir@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_COMPONENTS_ALL runtime dev dbg)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(abi "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Fibers, channels and select for C++20: shared libraries")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Fibers, channels and select for C++20: headers and build files")
set(CPACK_COMPONENT_DBG_DESCRIPTION "Fibers, channels and select for C++20: commands for gdb")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libcoir${abi}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    "${PROJECT_BINARY_DIR}/runtime" "${PROJECT_BINARY_DIR}/channel" "${PROJECT_BINARY_DIR}/sync"
    "${PROJECT_BINARY_DIR}/net")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libcoir-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libcoir${abi} (= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_DBG_PACKAGE_NAME libcoir-dbg)
set(CPACK_DEBIAN_DBG_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_DBG_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DBG_PACKAGE_DEPENDS "gdb")

include(CPack)
