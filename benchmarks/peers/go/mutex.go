package main

import (
	"sync"
	"time"
)

const lockings = 8_000_000

// lockInTurn increments one counter under one mutex, from so many goroutines.
func lockInTurn(fibers int) time.Duration {
	start := time.Now()
	var lock sync.Mutex
	var done sync.WaitGroup
	counter := 0
	done.Add(fibers)
	for i := 0; i < fibers; i++ {
		go func() {
			for n := 0; n < lockings/fibers; n++ {
				lock.Lock()
				counter++
				lock.Unlock()
			}
			done.Done()
		}()
	}
	done.Wait()
	took := time.Since(start)
	check(counter == lockings, "mutex")
	return took
}
