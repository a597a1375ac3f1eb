// What coir needs of the compiler and its library. One message, in place of the many that would follow.
#pragma once

#include <version>

#if !defined(__linux__)
#error "coir: Linux only"
#endif
#if __cplusplus < 202002L
#error "coir: C++20 is needed: -std=c++20 or later"
#endif
#if !defined(__cpp_exceptions)
#error "coir: exceptions are needed: fibers are cancelled by one. Compile without -fno-exceptions"
#endif
#if !defined(__cpp_lib_jthread)
#error "coir: std::stop_token is needed: libstdc++ 10, or libc++ 18 with -fexperimental-library, or later"
#endif
