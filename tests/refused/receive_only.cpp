// A direction converts to nothing else.
#include <coir/chan.hpp>

coir::chan<int> use(const coir::recv_chan<int>& in) { return in; }
