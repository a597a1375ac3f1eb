#include <system_error>

#include <gtest/gtest.h>

#include <coir/net_error.hpp>

namespace {

using coir::net::errc;

TEST(NetError, IsAnErrorCodeAndSaysWhatItIs) {
  const std::error_code closed = errc::closed;
  EXPECT_EQ(closed, errc::closed);
  EXPECT_NE(closed, errc::end_of_stream);
  EXPECT_STREQ(closed.category().name(), "coir.net");
  EXPECT_EQ(closed.message(), "closed on this side");
  EXPECT_EQ(std::error_code(errc::end_of_stream).message(), "the peer has ended too early");
}

TEST(NetError, IsEquivalentToTheSystemsKin) {
  EXPECT_EQ(std::error_code(errc::closed), std::errc::bad_file_descriptor);
  EXPECT_EQ(std::error_code(errc::end_of_stream), std::errc::connection_aborted);
}

}  // namespace
