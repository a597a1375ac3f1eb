// All of coir.
#pragma once

#include <coir/error.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/source_location.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>
#include <coir/wait_group.hpp>
#if __has_include(<coir/chan.hpp>)
#include <coir/chan.hpp>
#endif
#if __has_include(<coir/select.hpp>)
#include <coir/select.hpp>
#endif
#if __has_include(<coir/time.hpp>)
#include <coir/time.hpp>
#endif
