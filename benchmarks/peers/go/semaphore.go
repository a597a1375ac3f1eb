package main

import (
	"runtime"
	"sync"
	"time"
)

const (
	contendedLockings  = 1_000_000
	permits            = 3
	contendingRoutines = 8
)

// The standard library has no semaphore: it is a buffered channel, of which each value is a permit taken.

func acquireUncontended() time.Duration {
	start := time.Now()
	permit := make(chan struct{}, 1)
	var done sync.WaitGroup
	counter := 0
	done.Add(1)
	go func() {
		for n := 0; n < lockings; n++ {
			permit <- struct{}{}
			counter++
			<-permit
		}
		done.Done()
	}()
	done.Wait()
	took := time.Since(start)
	check(counter == lockings, "semaphore")
	return took
}

// acquireContended has most of its goroutines wait, since they yield while they hold a permit.
func acquireContended() time.Duration {
	start := time.Now()
	few := make(chan struct{}, permits)
	var done sync.WaitGroup
	done.Add(contendingRoutines)
	for i := 0; i < contendingRoutines; i++ {
		go func() {
			for n := 0; n < contendedLockings/contendingRoutines; n++ {
				few <- struct{}{}
				runtime.Gosched()
				<-few
			}
			done.Done()
		}()
	}
	done.Wait()
	took := time.Since(start)
	check(len(few) == 0, "semaphore")
	return took
}
