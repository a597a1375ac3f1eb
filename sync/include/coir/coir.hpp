// All of coir.
#pragma once

#include <coir/barrier.hpp>
#include <coir/chan.hpp>
#include <coir/condition_variable.hpp>
#include <coir/error.hpp>
#include <coir/latch.hpp>
#include <coir/mutex.hpp>
#include <coir/once.hpp>
#include <coir/recursive_mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/select_set.hpp>
#include <coir/semaphore.hpp>
#include <coir/shared_mutex.hpp>
#include <coir/single_flight.hpp>
#include <coir/sleep.hpp>
#include <coir/source_location.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>
#include <coir/time.hpp>
#include <coir/timed_mutex.hpp>
#include <coir/wait_group.hpp>
