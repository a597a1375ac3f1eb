// Runs the fuzz entry over files: each file named on the command line, and each file of each directory named.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

unsigned replay(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    unsigned files = 0;
    for (const auto& file : std::filesystem::directory_iterator(path)) files += replay(file.path());
    return files;
  }
  std::fprintf(stderr, "%s\n", path.c_str());
  std::ifstream file{path, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return 0;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned files = 0;
  for (int i = 1; i < argc; ++i) files += replay(argv[i]);
  std::fprintf(stderr, "%u inputs\n", files);
  return files == 0 ? 1 : 0;  // an empty corpus tests nothing
}
