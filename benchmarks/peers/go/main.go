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

// notes say where Go does the work with something else than coir, or less of it.
var notes = map[string]string{
	"semaphore1":      "a buffered channel",
	"semaphore8":      "a buffered channel",
	"generator":       "a goroutine and a channel",
	"coroutine":       "a goroutine and two channels",
	"parallel_for":    "a goroutine for 10,000 bodies",
	"parallel_reduce": "a goroutine for 10,000 values",
	"parallel_sort":   "merge_sort_pieces",
}

// row is one program run: it may yield several values. It is run warmUps times first, so that goroutines, stacks and
// heap are there. One with none is measured cold, from the start of the process.
type row struct {
	name    string
	warmUps int
	run     func() []value
}

var rows = []row{
	{"spawn_join", 1, perOperation("spawn_join", spawnedFibers, spawnJoin)},
	{"parked", 0, parked},
	{"yield2", 1, perOperation("yield2", yields, func() time.Duration { return yieldInTurn(2) })},
	{"yield1000", 1, perOperation("yield1000", yields, func() time.Duration { return yieldInTurn(1000) })},
	{"pingpong", 1, perOperation("pingpong", roundTrips, pingPong)},
	{"spsc128", 1, perOperation("spsc128", bufferedValues, func() time.Duration { return stream(1, 128, bufferedValues) })},
	{"spsc0", 1, perOperation("spsc0", unbufferedValues, func() time.Duration { return stream(1, 0, unbufferedValues) })},
	{"mpmc128", 1, perOperation("mpmc128", bufferedValues, func() time.Duration { return stream(4, 128, bufferedValues) })},
	{"select2_0", 1, perOperation("select2_0", selectedValues, func() time.Duration { return selectOfTwo(0) })},
	{"select2_128", 1, perOperation("select2_128", selectedValues, func() time.Duration { return selectOfTwo(128) })},
	{"select8_0", 1, perOperation("select8_0", selectedValues, func() time.Duration { return selectOfEight(0) })},
	{"select8_128", 1, perOperation("select8_128", selectedValues, func() time.Duration { return selectOfEight(128) })},
	{"mutex1", 1, perOperation("mutex1", lockings, func() time.Duration { return lockInTurn(1) })},
	{"mutex8", 1, perOperation("mutex8", lockings, func() time.Duration { return lockInTurn(8) })},
	{"semaphore1", 1, perOperation("semaphore1", lockings, acquireUncontended)},
	{"semaphore8", 1, perOperation("semaphore8", contendedLockings, acquireContended)},
	{"shared_mutex1", 1, perOperation("shared_mutex1", lockings, readUncontended)},
	{"shared_mutex8", 1, perOperation("shared_mutex8", contendedLockings, readAndWrite)},
	{"timer_stop", 1, perOperation("timer_stop", timersInTurn, setAndStop)},
	{"timer_reset", 1, perOperation("timer_reset", timerResets, resetTimer)},
	{"timer100k", 1, perOperation("timer100k", timersAtOnce*timerBatches, setAndStopAll)},
	{"generator", 1, perOperation("generator", generatedValues, generate)},
	{"coroutine", 1, perOperation("coroutine", generatedValues, sendAndReceive)},
	{"skynet", 1, inMilliseconds("skynet", skynet)},
	{"sieve", 1, inMilliseconds("sieve", sieve)},
	{"ring", 1, perOperation("ring", hops, ring)},
	{"fib27", 1, inMilliseconds("fib27", fib27)},
	{"merge_sort", 0, inMilliseconds("merge_sort", func() time.Duration { return mergeSortOfPieces(leastPiece) })},
	{"merge_sort_pieces", 0, inMilliseconds("merge_sort_pieces", func() time.Duration { return mergeSortOfPieces(sequentialPiece) })},
	{"parallel_for", 1, inMilliseconds("parallel_for", fillInParallel)},
	{"parallel_reduce", 1, inMilliseconds("parallel_reduce", addInParallel)},
	{"parallel_sort", 1, inMilliseconds("parallel_sort", func() time.Duration { return mergeSortOfPieces(sequentialPiece) })},
	{"echo", 1, perOperation("echo", echoClients*echoesAClient, echo)},
	{"sleepers", 4, sleepers},
	{"idle", 0, idle},
	{"late_sleep", 0, lateSleep},
	{"heartbeats", 0, heartbeats},
	{"late_handoff", 0, lateHandoff},
	{"release_one", 0, releaseOne},
	{"release_three", 0, releaseThree},
	{"request", 0, request},
}

// coldToo are the rows that also give the values of their first run, name_cold.
var coldToo = map[string]bool{"spawn_join": true, "skynet": true, "fib27": true, "sleepers": true,
	"parallel_for": true, "parallel_reduce": true, "parallel_sort": true}

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
		var cold []value
		for i := 0; i < r.warmUps; i++ {
			values := r.run()
			if i == 0 && coldToo[r.name] {
				cold = values
			}
		}
		for i := range cold {
			cold[i].name += "_cold"
		}
		for _, v := range append(r.run(), cold...) {
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
