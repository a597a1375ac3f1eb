// The prime sieve of the Go tour: a filter fiber for each prime, unbuffered channels between them, 2,000 primes.
#pragma once

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds sieve() {
  const stopwatch time;
  coir::wait_group filters;
  auto stop = coir::make_chan<void>();
  auto in = coir::make_chan<int>();
  filters.add(1);
  coir::go([out = in, stop, &filters] {
    // The generator alone looks at stop; the filters end when their input is closed.
    bool stopped = false;
    for (int i = 2; !stopped; ++i)
      coir::select(coir::on_send(out, i), coir::on_recv(stop, [&](bool) { stopped = true; }));
    out.close();
    filters.done();
  });
  int prime = 0;
  for (int n = 1;; ++n) {
    prime = *in.recv();
    if (n == sieve_primes) break;
    auto out = coir::make_chan<int>();
    filters.add(1);
    coir::go([in, out, prime, &filters] {
      for (int i : in)
        if (i % prime != 0) out.send(i);
      out.close();
      filters.done();
    });
    in = out;
  }
  const seconds took = time.elapsed();
  check(prime == last_prime, "sieve");
  stop.close();
  while (in.recv()) {  // drains the pipeline, unmeasured
  }
  filters.wait();
  return took;
}

}  // namespace bench
