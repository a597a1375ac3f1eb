package main

import (
	"math"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	latencySamples = 400
	latencyLimit   = 6 * time.Second // then a row ends with the samples that it has
)

// compute reads the clock until the time is over, as coir's does.
func compute(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

type samples struct {
	wanted int
	times  []time.Duration
	since  time.Time
}

func newSamples(wanted int) *samples {
	return &samples{wanted, make([]time.Duration, 0, wanted), time.Now()}
}

func (s *samples) record(d time.Duration) { s.times = append(s.times, d) }
func (s *samples) wantsMore() bool {
	return len(s.times) < s.wanted && time.Since(s.since) < latencyLimit
}

// quantile is the least of the recorded times, in microseconds, that so large a part of all does not exceed.
func (s *samples) quantile(part float64) float64 {
	sort.Slice(s.times, func(i, j int) bool { return s.times[i] < s.times[j] })
	rank := int(math.Ceil(part * float64(len(s.times))))
	if rank < 1 {
		rank = 1
	}
	return float64(s.times[rank-1].Nanoseconds()) / 1e3
}

// values are the row's; cpu, in milliseconds, is that of all samples, or zero where it says nothing.
func (s *samples) values(row string, cpu float64) []value {
	if len(s.times) < s.wanted {
		notes[row] = strconv.Itoa(len(s.times)) + " samples"
	}
	v := []value{
		{row + "_p50", s.quantile(0.5), "us"},
		{row + "_p99", s.quantile(0.99), "us"},
		{row + "_max", s.quantile(1), "us"},
	}
	if cpu > 0 {
		v = append(v, value{row + "_cpu", cpu * 1e3 / float64(len(s.times)), "us"})
	}
	return v
}

// underLoad calls f while four goroutines a processor compute for 5 ms at a time and yield.
func underLoad(f func()) {
	var stop atomic.Bool
	var ended sync.WaitGroup
	for i := 0; i < 4*runtime.GOMAXPROCS(0); i++ {
		ended.Add(1)
		go func() {
			for !stop.Load() {
				compute(5 * time.Millisecond)
				runtime.Gosched()
			}
			ended.Done()
		}()
	}
	f()
	stop.Store(true)
	ended.Wait()
}

func lateSleep() []value {
	late := newSamples(latencySamples)
	underLoad(func() {
		for late.wantsMore() {
			start := time.Now()
			time.Sleep(time.Millisecond)
			late.record(time.Since(start) - time.Millisecond)
		}
	})
	return late.values("late_sleep", 0)
}

func lateHandoff() []value {
	late := newSamples(latencySamples)
	var ended sync.WaitGroup
	ended.Add(1)
	times := make(chan time.Time)
	go func() {
		for sent := range times {
			late.record(time.Since(sent))
		}
		ended.Done()
	}()
	before := usage()
	for i := 0; i < latencySamples; i++ {
		time.Sleep(2 * time.Millisecond) // the receiver waits again, and the processors are idle
		times <- time.Now()
		compute(3 * time.Millisecond)
	}
	cpu := before.millisecondsSince()
	close(times)
	ended.Wait()
	return late.values("late_handoff", cpu)
}

// release: so many goroutines and the one that releases them compute for 1 ms each. On two processors that takes so
// many rounds of 1 ms.
func release(row string, waiters, rounds int) []value {
	const work = time.Millisecond
	beyond := newSamples(latencySamples)
	cpu := 0.0
	for beyond.wantsMore() {
		gate := make(chan struct{})
		var ended sync.WaitGroup
		ended.Add(waiters)
		for i := 0; i < waiters; i++ {
			go func() {
				<-gate
				compute(work)
				ended.Done()
			}()
		}
		time.Sleep(2 * time.Millisecond) // the waiters wait, and the processors are idle
		before := usage()
		start := time.Now()
		close(gate)
		compute(work)
		ended.Wait()
		beyond.record(time.Since(start) - time.Duration(rounds)*work)
		cpu += before.millisecondsSince()
	}
	return beyond.values(row, cpu)
}

func releaseOne() []value   { return release("release_one", 1, 1) }
func releaseThree() []value { return release("release_three", 3, 2) }

func request() []value {
	const (
		clients  = 8
		servers  = 8
		requests = 1000 // of a client
		pause    = time.Millisecond
	)
	type question struct {
		number int
		to     chan int
	}
	questions := make(chan question)
	var served sync.WaitGroup
	served.Add(servers)
	for i := 0; i < servers; i++ {
		go func() {
			for q := range questions {
				compute(20 * time.Microsecond)
				q.to <- q.number
			}
			served.Done()
		}()
	}

	var trips [clients]*samples
	var ended sync.WaitGroup
	ended.Add(clients)
	before := usage()
	for c := 0; c < clients; c++ {
		own := newSamples(requests)
		trips[c] = own
		first := pause * time.Duration(c) / clients
		go func() {
			mine := make(chan int)
			time.Sleep(first) // not all at once
			for n := 0; own.wantsMore(); n++ {
				time.Sleep(pause)
				asked := time.Now()
				questions <- question{n, mine}
				check(<-mine == n, "request")
				own.record(time.Since(asked))
			}
			ended.Done()
		}()
	}
	ended.Wait()
	cpu := before.millisecondsSince()
	close(questions)
	served.Wait()

	all := newSamples(clients * requests)
	for _, s := range trips {
		all.times = append(all.times, s.times...)
	}
	return all.values("request", cpu)
}

// heartbeats: fifty thousand goroutines that sleep for 50 to 150 ms at a time.
func heartbeats() []value {
	const goroutines, beats = 50_000, 10
	late := newSamples(goroutines * beats)
	late.times = late.times[:goroutines*beats]
	var ended sync.WaitGroup
	ended.Add(goroutines)
	before := usage()
	for i := 0; i < goroutines; i++ {
		go func(i int) {
			scatter := uint32(i) * 2_654_435_761 // wraps around
			for n := 0; n < beats; n++ {
				scatter = scatter*1_664_525 + 1_013_904_223
				d := time.Duration(50_000+(scatter>>8)%100_000) * time.Microsecond
				until := time.Now().Add(d)
				time.Sleep(time.Until(until))
				late.times[i*beats+n] = time.Since(until)
			}
			ended.Done()
		}(i)
	}
	ended.Wait()
	cpu := before.millisecondsSince()
	return late.values("heartbeats", cpu)
}
