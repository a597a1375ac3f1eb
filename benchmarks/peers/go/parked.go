package main

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const parkedFibers = 1_000_000

// parked blocks a million goroutines in a receive on one channel, then closes it.
func parked() []value {
	before := residentBytes()
	start := time.Now()
	var done sync.WaitGroup
	var arrived int64
	never := make(chan struct{})
	done.Add(parkedFibers)
	for i := 0; i < parkedFibers; i++ {
		go func() {
			atomic.AddInt64(&arrived, 1)
			<-never
			done.Done()
		}()
	}
	for atomic.LoadInt64(&arrived) < parkedFibers {
		runtime.Gosched()
	}
	created := time.Since(start)
	resident := residentBytes() - before

	start = time.Now()
	close(never)
	done.Wait()
	woken := time.Since(start)
	return []value{
		{"parked_create", created.Seconds(), "s"},
		{"parked_rss", float64(resident) / parkedFibers, "bytes"},
		{"parked_wake", woken.Seconds(), "s"},
	}
}

func residentBytes() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(statm)[1]), 10, 64)
	if err != nil {
		panic(err)
	}
	return pages * int64(os.Getpagesize())
}
