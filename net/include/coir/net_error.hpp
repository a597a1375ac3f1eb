// The errors of streams that the operating system has no number for.
//
// They are reported as the system's own errors are: in a std::error_code or a std::system_error. Test for them with
// `error == coir::net::errc::closed`. A deadline that has passed is reported as std::errc::timed_out.
#pragma once

#include <system_error>
#include <type_traits>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::net {

/// Errors that the operating system has no number for.
enum class errc {
  closed = 1,     ///< this side has closed the stream, socket or listener, in this fiber or another one
  end_of_stream,  ///< the peer has ended the stream before all requested bytes had come
};

/// The category of errc. Its name is "coir.net".
const std::error_category& error_category() noexcept;

/// errc::closed is equivalent to std::errc::bad_file_descriptor, errc::end_of_stream to std::errc::connection_aborted.
std::error_code make_error_code(errc e) noexcept;

}  // namespace coir::net

template <>
struct std::is_error_code_enum<coir::net::errc> : std::true_type {};
