package main

import (
	"sync"
	"syscall"
	"time"
)

const sleepingFibers = 100_000

// sleepTime spreads the fibers evenly over 0 to 200 ms, in scattered order.
func sleepTime(i int) time.Duration {
	return time.Duration(i*7919%sleepingFibers) * 2 * time.Microsecond
}

func sleepers() []value {
	cpu := usage()
	start := time.Now()
	var done sync.WaitGroup
	done.Add(sleepingFibers)
	for i := 0; i < sleepingFibers; i++ {
		d := sleepTime(i)
		go func() {
			time.Sleep(d)
			done.Done()
		}()
	}
	done.Wait()
	wall := time.Since(start)
	return []value{
		{"sleepers_wall", wall.Seconds() * 1e3, "ms"},
		{"sleepers_cpu", cpu.millisecondsSince(), "ms"},
	}
}

// used is what the process has used so far.
type used struct {
	cpu      time.Duration
	switches int64
}

func usage() used {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return used{time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw + u.Nivcsw}
}

func (before used) millisecondsSince() float64 { return (usage().cpu - before.cpu).Seconds() * 1e3 }
