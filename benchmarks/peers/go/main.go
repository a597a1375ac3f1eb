// The rows of coir's comparison, in Go. The same work, counts and output as benchmarks/rows.cpp:
//
//	go_rows ROW PROCESSORS      runs one row once; a line a value: "row processors value unit [# note]"
//	go_rows --list              the rows
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// value is one number of the table.
type value struct {
	name   string
	number float64
	unit   string
}

// notes say where Go does the work with something else than coir.
var notes = map[string]string{
	"semaphore1": "a buffered channel",
	"semaphore8": "a buffered channel",
	"generator":  "a goroutine and a channel",
	"coroutine":  "a goroutine and two channels",
}

// row is one program run: it may yield several values. A row with warmUp set is run once unmeasured first, so that
// goroutines, stacks and heap are there; one without it is measured cold, from the start of the process.
type row struct {
	name   string
	warmUp bool
	run    func() []value
}

var rows = []row{
	{"spawn_join", true, perOperation("spawn_join", spawnedFibers, spawnJoin)},
	{"parked", false, parked},
	{"yield2", true, perOperation("yield2", yields, func() time.Duration { return yieldInTurn(2) })},
	{"yield1000", true, perOperation("yield1000", yields, func() time.Duration { return yieldInTurn(1000) })},
	{"pingpong", true, perOperation("pingpong", roundTrips, pingPong)},
	{"spsc128", true, perOperation("spsc128", bufferedValues, func() time.Duration { return stream(1, 128, bufferedValues) })},
	{"spsc0", true, perOperation("spsc0", unbufferedValues, func() time.Duration { return stream(1, 0, unbufferedValues) })},
	{"mpmc128", true, perOperation("mpmc128", bufferedValues, func() time.Duration { return stream(4, 128, bufferedValues) })},
	{"select2_0", true, perOperation("select2_0", selectedValues, func() time.Duration { return selectOfTwo(0) })},
	{"select2_128", true, perOperation("select2_128", selectedValues, func() time.Duration { return selectOfTwo(128) })},
	{"select8_0", true, perOperation("select8_0", selectedValues, func() time.Duration { return selectOfEight(0) })},
	{"select8_128", true, perOperation("select8_128", selectedValues, func() time.Duration { return selectOfEight(128) })},
	{"mutex1", true, perOperation("mutex1", lockings, func() time.Duration { return lockInTurn(1) })},
	{"mutex8", true, perOperation("mutex8", lockings, func() time.Duration { return lockInTurn(8) })},
	{"semaphore1", true, perOperation("semaphore1", lockings, acquireUncontended)},
	{"semaphore8", true, perOperation("semaphore8", contendedLockings, acquireContended)},
	{"shared_mutex1", true, perOperation("shared_mutex1", lockings, readUncontended)},
	{"shared_mutex8", true, perOperation("shared_mutex8", contendedLockings, readAndWrite)},
	{"timer_stop", true, perOperation("timer_stop", timersInTurn, setAndStop)},
	{"timer_reset", true, perOperation("timer_reset", timerResets, resetTimer)},
	{"timer100k", true, perOperation("timer100k", timersAtOnce*timerBatches, setAndStopAll)},
	{"generator", true, perOperation("generator", generatedValues, generate)},
	{"coroutine", true, perOperation("coroutine", generatedValues, sendAndReceive)},
	{"skynet", true, inMilliseconds("skynet", skynet)},
	{"sieve", true, inMilliseconds("sieve", sieve)},
	{"ring", true, perOperation("ring", hops, ring)},
	{"fib27", true, inMilliseconds("fib27", fib27)},
	{"sleepers", true, sleepers},
	{"idle", false, idle},
}

func perOperation(name string, operations int, f func() time.Duration) func() []value {
	return func() []value {
		return []value{{name, float64(f().Nanoseconds()) / float64(operations), "ns"}}
	}
}

func inMilliseconds(name string, f func() time.Duration) func() []value {
	return func() []value { return []value{{name, f().Seconds() * 1e3, "ms"}} }
}

func check(ok bool, what string) {
	if !ok {
		panic(what + ": wrong result")
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--list" {
		for _, r := range rows {
			fmt.Println(r.name)
		}
		return
	}
	processors := 0
	if len(os.Args) == 3 {
		processors, _ = strconv.Atoi(os.Args[2])
	}
	if processors < 1 {
		fmt.Fprintln(os.Stderr, "usage: go_rows ROW PROCESSORS | --list")
		os.Exit(2)
	}
	for _, r := range rows {
		if r.name != os.Args[1] {
			continue
		}
		runtime.GOMAXPROCS(processors)
		if r.warmUp {
			r.run()
		}
		for _, v := range r.run() {
			fmt.Printf("%s %d %.6g %s", v.name, processors, v.number, v.unit)
			if note, ok := notes[r.name]; ok {
				fmt.Print(" # ", note)
			}
			fmt.Println()
		}
		return
	}
	fmt.Fprintln(os.Stderr, "go_rows: no such row:", os.Args[1])
	os.Exit(2)
}
