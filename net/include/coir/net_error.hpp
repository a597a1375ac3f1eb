// Errors of streams that no operating system has a number for.
//
// They are reported as std::error_code, or in a std::system_error, like the system's own: test for them with
// `error == coir::net::errc::closed`. A deadline that has passed is std::errc::timed_out.
#pragma once

#include <system_error>
#include <type_traits>

namespace coir::net {

enum class errc {
  closed = 1,     ///< the stream, socket or listener was closed on this side, by this fiber or by another one
  end_of_stream,  ///< the peer has ended before all that was asked for had come
};

const std::error_category& error_category() noexcept;

/// errc::closed is equivalent to std::errc::bad_file_descriptor, errc::end_of_stream to std::errc::connection_aborted.
std::error_code make_error_code(errc e) noexcept;

}  // namespace coir::net

template <>
struct std::is_error_code_enum<coir::net::errc> : std::true_type {};
