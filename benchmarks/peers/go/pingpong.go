package main

import "time"

const roundTrips = 2_000_000

func pingPong() time.Duration {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v + 1
		}
	}()
	start := time.Now()
	v := 0
	for i := 0; i < roundTrips; i++ {
		ping <- v
		v = <-pong
	}
	took := time.Since(start)
	close(ping)
	check(v == roundTrips, "pingpong")
	return took
}
