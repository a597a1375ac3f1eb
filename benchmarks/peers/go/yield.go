package main

import (
	"runtime"
	"sync"
	"time"
)

const yields = 10_000_000

func yieldInTurn(fibers int) time.Duration {
	start := time.Now()
	var done sync.WaitGroup
	done.Add(fibers)
	for i := 0; i < fibers; i++ {
		go func() {
			for n := 0; n < yields/fibers; n++ {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	done.Wait()
	return time.Since(start)
}
