package main

import (
	"runtime"
	"sync"
	"time"
)

const lockingsAWrite = 16 // the others are reads

func readUncontended() time.Duration {
	start := time.Now()
	var lock sync.RWMutex
	var done sync.WaitGroup
	counter := 0
	done.Add(1)
	go func() {
		for n := 0; n < lockings; n++ {
			lock.RLock()
			counter++
			lock.RUnlock()
		}
		done.Done()
	}()
	done.Wait()
	took := time.Since(start)
	check(counter == lockings, "shared_mutex")
	return took
}

// readAndWrite has goroutines that each write now and then, and yield while they do, so that the others queue.
func readAndWrite() time.Duration {
	const writes = contendedLockings / contendingRoutines / lockingsAWrite
	start := time.Now()
	var lock sync.RWMutex
	var done sync.WaitGroup
	written := 0
	done.Add(contendingRoutines)
	for i := 0; i < contendingRoutines; i++ {
		go func() {
			seen := 0
			for n := 0; n < writes; n++ {
				lock.Lock()
				before := written
				runtime.Gosched()
				written = before + 1
				lock.Unlock()
				for r := 1; r < lockingsAWrite; r++ {
					lock.RLock()
					check(written > seen || r > 1, "shared_mutex")
					seen = written
					lock.RUnlock()
				}
			}
			done.Done()
		}()
	}
	done.Wait()
	took := time.Since(start)
	check(written == contendingRoutines*writes, "shared_mutex")
	return took
}
