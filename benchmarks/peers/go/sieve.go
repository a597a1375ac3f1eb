package main

import (
	"sync"
	"time"
)

const (
	sievePrimes = 2_000
	lastPrime   = 17_389
)

func sieve() time.Duration {
	start := time.Now()
	var filters sync.WaitGroup
	stop := make(chan struct{})
	in := make(chan int)
	filters.Add(1)
	go func(out chan<- int) {
		defer filters.Done()
		for i := 2; ; i++ {
			// The generator alone looks at stop; the filters end when their input is closed.
			select {
			case out <- i:
			case <-stop:
				close(out)
				return
			}
		}
	}(in)
	prime := 0
	for n := 1; ; n++ {
		prime = <-in
		if n == sievePrimes {
			break
		}
		out := make(chan int)
		filters.Add(1)
		go func(in <-chan int, out chan<- int, prime int) {
			for i := range in {
				if i%prime != 0 {
					out <- i
				}
			}
			close(out)
			filters.Done()
		}(in, out, prime)
		in = out
	}
	took := time.Since(start)
	check(prime == lastPrime, "sieve")
	close(stop)
	for range in { // drain, unmeasured
	}
	filters.Wait()
	return took
}
