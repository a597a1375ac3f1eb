// The HTTP server example opens files below its root, with openat2() and where the kernel has none.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "http/static_path.hpp"
#include "refusals.hpp"

namespace {

namespace fs = std::filesystem;

class StaticPath : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "static_path.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    fs::create_directories(top_ / "root" / "docs");
    std::ofstream(top_ / "secret") << "secret";
    std::ofstream(top_ / "root" / "page") << "page";
    std::ofstream(top_ / "root" / "docs" / "guide") << "guide";
    fs::create_symlink("../secret", top_ / "root" / "to_secret");
    fs::create_directory_symlink("..", top_ / "root" / "up");
    root_ = ::open((top_ / "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(root_, 0);
  }
  void TearDown() override {
    faults::refuse_nothing();
    ::close(root_);
    fs::remove_all(top_);
  }

  /// What is in that file, or "error N".
  std::string contents(const std::string& path) const {
    const int file = example::open_below(root_, path);
    if (file < 0) return "error " + std::to_string(errno);
    char text[16];
    const ::ssize_t n = ::read(file, text, sizeof text);
    const std::string result = n < 0 ? "a directory" : std::string(text, static_cast<std::size_t>(n));
    ::close(file);
    return result;
  }

  void expect_what_is_below_alone() const {
    EXPECT_EQ(contents("page"), "page");
    EXPECT_EQ(contents("docs/guide"), "guide");
    EXPECT_EQ(contents("docs"), "a directory");
    EXPECT_EQ(contents("nothing"), "error " + std::to_string(ENOENT));
    EXPECT_EQ(contents("nothing/guide"), "error " + std::to_string(ENOENT));
    EXPECT_EQ(contents("page/guide"), "error " + std::to_string(ENOTDIR));
    EXPECT_TRUE(contents("to_secret").starts_with("error"));
    EXPECT_TRUE(contents("up/secret").starts_with("error"));
  }

 private:
  fs::path top_;
  int root_ = -1;
};

TEST_F(StaticPath, NothingOutsideOfTheRootIsOpened) { expect_what_is_below_alone(); }

TEST_F(StaticPath, NorWithoutOpenat2) {
  faults::refuse(faults::call::openat2);
  expect_what_is_below_alone();
  EXPECT_EQ(faults::refused(faults::call::openat2), 8);
}

}  // namespace
