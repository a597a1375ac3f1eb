// What ThreadSanitizer gets wrong about std::stop_callback between two fibers. Its destructor asks which *thread* runs
// request_stop(): on that thread it need not wait for the callback, which cannot but be over there. That holds for
// fibers too, as a stop callback never switches; but only by the order of things on one thread, which is hidden from
// ThreadSanitizer, so that it does not take one fiber's past for the other's.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::stop_token::_Stop_state_t::_M_remove_callback\n"
         "race:std::stop_token::_Stop_state_t::_M_request_stop\n";
}
