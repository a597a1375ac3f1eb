package main

import (
	"sync"
	"time"
)

const (
	idleFibers = 100
	idleTime   = 5 * time.Second
)

func idle() []value {
	var done sync.WaitGroup
	never := make(chan struct{})
	done.Add(idleFibers)
	for i := 0; i < idleFibers; i++ {
		go func() {
			<-never
			done.Done()
		}()
	}
	before := usage()
	time.Sleep(idleTime)
	after := usage()
	close(never)
	done.Wait()
	return []value{
		{"idle_cpu", (after.cpu - before.cpu).Seconds() * 1e3, "ms"},
		{"idle_switches", float64(after.switches - before.switches), "switches"},
	}
}
