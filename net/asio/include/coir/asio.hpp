// Boost.Asio, and what is built on it, in fibers. CMake target coir::asio; needs Boost 1.74 or later.
//
//   coir::asio_stream   a stream of coir as Asio's synchronous functions want one: asio::read_until(), Boost.Beast,
//                       asio::ssl::stream
//   coir::use_fiber     a completion token: an asynchronous operation of Asio blocks the calling fiber
//
// <coir/coir.hpp> does not include this.
#pragma once

#include <coir/asio_stream.hpp>
#include <coir/use_fiber.hpp>
