// What ThreadSanitizer gets wrong about std::stop_callback between two fibers (which condition_variable's stop_token
// overloads use). Its destructor reads, after it has unlocked, which *thread* runs request_stop(); libstdc++ remarks
// there that "despite appearances there is no data race". That holds for fibers too, as coir's callbacks never switch.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::stop_token::_Stop_state_t::_M_remove_callback\n";
}
