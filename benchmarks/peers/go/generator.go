package main

import "time"

const generatedValues = 4_000_000

// Go (before 1.23) has no generators: one is a goroutine that sends on an unbuffered channel, and one that is also sent
// values receives them on a second.

func successor(v uint64) uint64 { return v*5 + 1 }

func lastGeneratedValue() uint64 {
	v := uint64(0)
	for i := 0; i < generatedValues; i++ {
		v = successor(v)
	}
	return v
}

func generate() time.Duration {
	values := make(chan uint64)
	go func() {
		v := uint64(0)
		for i := 0; i < generatedValues; i++ {
			v = successor(v)
			values <- v
		}
		close(values)
	}()
	start := time.Now()
	last := uint64(0)
	for v := range values {
		last = v
	}
	took := time.Since(start)
	check(last == lastGeneratedValue(), "generator")
	return took
}

func sendAndReceive() time.Duration {
	out, in := make(chan uint64), make(chan uint64)
	go func() {
		for v := range in {
			out <- successor(v)
		}
	}()
	start := time.Now()
	v := uint64(0)
	for i := 0; i < generatedValues; i++ {
		in <- v
		v = <-out
	}
	took := time.Since(start)
	close(in)
	check(v == lastGeneratedValue(), "coroutine")
	return took
}
