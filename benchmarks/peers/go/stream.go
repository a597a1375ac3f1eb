package main

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	bufferedValues   = 10_000_000
	unbufferedValues = 4_000_000
)

// stream sends values through one channel, from pairs producers to as many consumers.
func stream(pairs, capacity, values int) time.Duration {
	start := time.Now()
	ch := make(chan int, capacity)
	var sum int64
	var producers, consumers sync.WaitGroup
	producers.Add(pairs)
	consumers.Add(pairs)
	for p := 0; p < pairs; p++ {
		go func() {
			for i := 0; i < values/pairs; i++ {
				ch <- i
			}
			producers.Done()
		}()
		go func() {
			var own int64
			for v := range ch {
				own += int64(v)
			}
			atomic.AddInt64(&sum, own)
			consumers.Done()
		}()
	}
	producers.Wait()
	close(ch)
	consumers.Wait()
	took := time.Since(start)
	each := int64(values / pairs)
	check(sum == int64(pairs)*(each*(each-1)/2), "stream")
	return took
}
