// A fiber's function takes no arguments.
#include <coir/runtime.hpp>

void use() {
  coir::go([](int) {});
}
