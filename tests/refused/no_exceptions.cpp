// Compiled with -fno-exceptions.
#include <coir/coir.hpp>
