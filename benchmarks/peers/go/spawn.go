package main

import (
	"sync"
	"time"
)

const spawnedFibers = 1_000_000

func spawnJoin() time.Duration {
	start := time.Now()
	var done sync.WaitGroup
	done.Add(spawnedFibers)
	for i := 0; i < spawnedFibers; i++ {
		go done.Done()
	}
	done.Wait()
	return time.Since(start)
}
