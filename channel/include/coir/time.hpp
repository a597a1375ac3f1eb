// Time: sleep_for() and sleep_until().
#pragma once

#include <coir/sleep.hpp>
