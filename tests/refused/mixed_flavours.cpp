// Compiled with the ordinary headers, linked with the library for explorations: their objects have other layouts.
#include <coir/runtime.hpp>

int main() {
  coir::run([] {});
}
