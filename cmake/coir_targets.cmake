# What every target of coir has in common: the language, the warnings, the sanitizers; and how a layer is made.

# The warnings that coir's own sources are free of. Linked PRIVATE, so that users never inherit them. In a unity build, as
# the sanitizers' presets are, a local name of one source may hide a name of another, and GCC takes the sources for headers.
add_library(coir_warnings INTERFACE)
# Clang 19 takes a capture of a structured binding under its own name, which Clang 14 asks for, for shadowing.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 19)
  set(coir_scope_warnings)
elseif(NOT CMAKE_UNITY_BUILD)
  set(coir_scope_warnings -Wshadow)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(coir_scope_warnings -Wno-subobject-linkage)
endif()
target_compile_options(coir_warnings INTERFACE -Wall -Wextra -Wpedantic ${coir_scope_warnings} -Wconversion
                                               $<$<BOOL:${COIR_WERROR}>:-Werror>)

# COIR_SANITIZE as flags. They are PUBLIC on the layers: who links an instrumented coir has to link the sanitizer too.
set(coir_sanitize_flags)
if(COIR_SANITIZE STREQUAL "address")
  set(coir_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(COIR_SANITIZE STREQUAL "thread")
  set(coir_sanitize_flags -fsanitize=thread)
elseif(NOT COIR_SANITIZE STREQUAL "")
  message(FATAL_ERROR "COIR_SANITIZE is '${COIR_SANITIZE}'; it may be empty, address or thread")
endif()

# Frames larger than a guard touch each of their pages, so that they cannot step over the guard below a fiber's stack. For
# coir's own sources; what is compiled outside chooses for itself (coir-config.cmake, coir.pc).
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fstack-clash-protection COIR_HAVE_STACK_CLASH_PROTECTION)

# coir_add_layer(runtime rooms...): target coir_runtime, alias coir::runtime, from the layer's *.cpp, those in its rooms
# (folders; private headers are included as "room/x.hpp"), and its headers: include/coir/*.hpp for users, and
# include/coir/detail/*.hpp for what those need. The headers are a file set based at the layer's own include directory, so
# that <coir/x.hpp> is found in this layer and those that it links, and nowhere else.
function(coir_add_layer name)
  set(target coir_${name})
  list(TRANSFORM ARGN APPEND "/*.cpp" OUTPUT_VARIABLE room_sources)
  list(TRANSFORM ARGN APPEND "/*.hpp" OUTPUT_VARIABLE room_headers)
  file(GLOB sources CONFIGURE_DEPENDS "*.cpp" ${room_sources})
  file(GLOB private_headers CONFIGURE_DEPENDS "*.hpp" ${room_headers})
  file(GLOB public_headers CONFIGURE_DEPENDS "include/coir/*.hpp" "include/coir/detail/*.hpp")

  add_library(${target} ${sources} ${private_headers})
  add_library(coir::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${public_headers})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(ARGN)
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:coir_warnings>)
  set_target_properties(
    ${target}
    PROPERTIES CXX_EXTENSIONS OFF
               INSTALL_RPATH "$ORIGIN"  # shared, the layers find one another
               EXPORT_NAME ${name}
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(COIR_HAVE_STACK_CLASH_PROTECTION)
    target_compile_options(${target} PRIVATE -fstack-clash-protection)
  endif()
  if(coir_sanitize_flags)
    target_compile_options(${target} PUBLIC ${coir_sanitize_flags} PRIVATE -g1 -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC ${coir_sanitize_flags})
  endif()
endfunction()

# coir_add_program(name sources...): a test, example or benchmark, linked with coir.
function(coir_add_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE coir::coir coir_warnings)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  coir_build_quickly(${name})
endfunction()

# coir_build_quickly(name): of a sanitizer build, what is linked with coir but not part of it. Optimizing instrumented
# templates takes up to twice as long, and coir's own sources keep the level of the build. GCC saves nothing below -Og,
# where GCC 12 takes members of std::stop_source for uninitialized; that warning is on in the other builds.
function(coir_build_quickly name)
  if(coir_sanitize_flags)
    target_compile_options(
      ${name} PRIVATE $<IF:$<CXX_COMPILER_ID:GNU>,-Og;-Wno-maybe-uninitialized,-O0> -g1 -fno-omit-frame-pointer)
  endif()
endfunction()
