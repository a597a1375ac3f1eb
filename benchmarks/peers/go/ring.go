package main

import "time"

const (
	ringFibers = 1_000
	hops       = 2_000_000
)

// ring passes a token that counts its hops down.
func ring() time.Duration {
	channels := make([]chan int, ringFibers)
	for i := range channels {
		channels[i] = make(chan int)
	}
	finished := make(chan int)
	for i := range channels {
		go func(in <-chan int, out chan<- int) {
			for left := range in {
				if left == 0 {
					finished <- left
				} else {
					out <- left - 1
				}
			}
		}(channels[i], channels[(i+1)%ringFibers])
	}
	start := time.Now()
	channels[0] <- hops
	<-finished
	took := time.Since(start)
	for _, c := range channels {
		close(c)
	}
	return took
}
