// A picture on all processors: drawn and blurred by parallel loops over its lines, measured by a reduction, its colours
// sorted. The lines are told to a fiber that reports progress: bodies of parallel loops may use channels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <vector>

#include <coir/chan.hpp>
#include <coir/parallel.hpp>
#include <coir/runtime.hpp>

namespace {

struct picture {
  picture(int w, int h) : width(w), height(h), dots(static_cast<std::size_t>(w) * static_cast<std::size_t>(h)) {}

  std::uint8_t& at(int x, int y) { return dots[index(x, y)]; }
  std::uint8_t at(int x, int y) const { return dots[index(x, y)]; }
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
  }

  int width;
  int height;
  std::vector<std::uint8_t> dots;
};

picture draw(int width, int height) {
  picture p(width, height);
  coir::parallel_for(0, height, [&](int y) {
    for (int x = 0; x < width; ++x) p.at(x, y) = static_cast<std::uint8_t>((x * x + y * y) % 251);
  });
  return p;
}

picture blurred(const picture& sharp, int radius, const coir::send_chan<int>& done) {
  picture soft(sharp.width, sharp.height);
  coir::parallel_for(0, sharp.height, [&](int y) {
    for (int x = 0; x < sharp.width; ++x) {
      int sum = 0;
      int count = 0;
      for (int v = std::max(0, y - radius); v <= std::min(sharp.height - 1, y + radius); ++v)
        for (int u = std::max(0, x - radius); u <= std::min(sharp.width - 1, x + radius); ++u, ++count)
          sum += sharp.at(u, v);
      soft.at(x, y) = static_cast<std::uint8_t>(sum / count);
    }
    done.send(y);
  });
  return soft;
}

/// How far neighbours are apart on average.
double sharpness(const picture& p) {
  const double sum = coir::parallel_reduce(
      0, p.height, 0.0,
      [&](int y) {
        int of_line = 0;
        for (int x = 1; x < p.width; ++x) of_line += std::abs(p.at(x, y) - p.at(x - 1, y));
        return static_cast<double>(of_line);
      },
      std::plus<>());
  return sum / static_cast<double>(p.dots.size());
}

int median(picture p) {
  coir::parallel_sort(p.dots);
  return p.dots[p.dots.size() / 2];
}

}  // namespace

int main() {
  coir::run([] {
    const picture sharp = draw(320, 200);
    const auto done = coir::make_chan<int>();
    coir::task<int> progress = coir::spawn([done] {
      int lines = 0;
      for ([[maybe_unused]] const int line : done) ++lines;
      return lines;
    });
    const picture soft = blurred(sharp, 2, done);
    done.close();
    std::cout << progress.get() << " lines blurred\n";

    double before = 0;
    double after = 0;
    coir::parallel_invoke([&] { before = sharpness(sharp); }, [&] { after = sharpness(soft); });
    std::cout << (after < before / 2 ? "softer" : "as sharp as before") << '\n';
    std::cout << "median " << median(sharp) << " and " << median(soft) << '\n';
  });
}
