# Installation: headers, libraries, find_package(coir) and pkg-config coir. Three components, one for each package of
# coir_package.cmake: runtime (what a program needs that is linked with shared libraries), dev (what its build needs), dbg.
include(CMakePackageConfigHelpers)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/coir")
install(
  TARGETS coir coir_runtime coir_channel coir_sync coir_net coir_hooks coir_lockcheck
  EXPORT coir_targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE COMPONENT dev
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
if(TARGET coir_explore AND coir_top_level)
  install(
    TARGETS coir_explore
    EXPORT coir_targets
    ARCHIVE COMPONENT dev
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
endif()
install(EXPORT coir_targets NAMESPACE coir:: FILE coir_targets.cmake DESTINATION "${config_dir}" COMPONENT dev)

# coir::asio has targets of its own, which coir-config.cmake reads only where Boost's headers are.
if(TARGET coir_asio)
  install(
    TARGETS coir_asio
    EXPORT coir_asio_targets
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT coir_asio_targets NAMESPACE coir:: FILE coir_asio_targets.cmake DESTINATION "${config_dir}")
endif()

configure_package_config_file(cmake/coir-config.cmake.in "${PROJECT_BINARY_DIR}/coir-config.cmake"
                              INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/coir-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/coir-config.cmake" "${PROJECT_BINARY_DIR}/coir-config-version.cmake"
        DESTINATION "${config_dir}" COMPONENT dev)

install(FILES runtime/observe/gdb/coir-gdb.py DESTINATION "${CMAKE_INSTALL_DATADIR}/coir" COMPONENT dbg)

# pkg-config. A static library's own dependencies are named in Libs, not in Libs.private: a plain `pkg-config --libs` is
# what people type, and there is nothing else to link against.
if(BUILD_SHARED_LIBS)
  set(COIR_PC_LIBS "-lcoir_net -lcoir_sync -lcoir_channel -lcoir_runtime -pthread")
  set(COIR_PC_LIBS_PRIVATE "-lboost_context ${COIR_PC_UNWIND}")
else()
  set(COIR_PC_LIBS "-lcoir_net -lcoir_sync -lcoir_channel -lcoir_runtime -lboost_context ${COIR_PC_UNWIND} -pthread")
  set(COIR_PC_LIBS_PRIVATE "")
endif()
list(JOIN coir_sanitize_flags " " COIR_PC_SANITIZE)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(COIR_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(COIR_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()  # found from where coir.pc lies, so that an installation may be moved, or made with another --prefix
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(COIR_PC_PREFIX "\${pcfiledir}/${up}")
  set(COIR_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(COIR_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(COIR_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
foreach(name IN ITEMS coir coir-hooks)
  configure_file(cmake/${name}.pc.in "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
endforeach()

if(coir_top_level)
  include(cmake/coir_package.cmake)
endif()
