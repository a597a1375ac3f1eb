package main

import "time"

const (
	timersInTurn = 1_000_000
	timerResets  = 2_000_000
	timersAtOnce = 100_000
	timerBatches = 5 // of timersAtOnce, one after the other
)

// timerTime is an hour or more, scattered.
func timerTime(i int) time.Duration {
	return time.Hour + time.Duration(i*7919%timersAtOnce)*time.Millisecond
}

func setAndStop() time.Duration {
	start := time.Now()
	stopped := 0
	for i := 0; i < timersInTurn; i++ {
		t := time.AfterFunc(time.Hour, func() {})
		if t.Stop() {
			stopped++
		}
	}
	took := time.Since(start)
	check(stopped == timersInTurn, "timer")
	return took
}

func resetTimer() time.Duration {
	t := time.AfterFunc(time.Hour, func() {})
	start := time.Now()
	pending := 0
	for i := 0; i < timerResets; i++ {
		if t.Reset(timerTime(i)) {
			pending++
		}
	}
	took := time.Since(start)
	t.Stop()
	check(pending == timerResets, "timer reset")
	return took
}

func setAndStopAll() time.Duration {
	start := time.Now()
	stopped := 0
	for n := 0; n < timerBatches; n++ {
		timers := make([]*time.Timer, 0, timersAtOnce)
		for i := 0; i < timersAtOnce; i++ {
			timers = append(timers, time.AfterFunc(timerTime(i), func() {}))
		}
		for _, t := range timers {
			if t.Stop() {
				stopped++
			}
		}
	}
	took := time.Since(start)
	check(stopped == timersAtOnce*timerBatches, "timers")
	return took
}
