package main

import (
	"sync"
	"time"
)

const (
	parallelBodies  = 10_000_000
	sumOfScrambled  = uint64(18_301_005_220_854_878_917)
	sumOfLowHalves  = 21_476_013_663_834_821
	bodiesOfAChunk  = 10_000
	chunksOfTheLoop = parallelBodies / bodiesOfAChunk
)

func scrambled(n uint64) uint64 {
	n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9
	n = (n ^ (n >> 27)) * 0x94d049bb133111eb
	return n ^ (n >> 31)
}

// inChunks calls chunk for each of them, in a goroutine of its own.
func inChunks(chunk func(number int)) {
	var all sync.WaitGroup
	all.Add(chunksOfTheLoop)
	for c := 0; c < chunksOfTheLoop; c++ {
		c := c
		go func() {
			chunk(c)
			all.Done()
		}()
	}
	all.Wait()
}

func fillInParallel() time.Duration {
	all := make([]uint32, parallelBodies)
	for i := range all { // the pages are there
		all[i] = 1
	}
	start := time.Now()
	inChunks(func(c int) {
		part := all[c*bodiesOfAChunk : (c+1)*bodiesOfAChunk]
		for i := range part {
			part[i] = uint32(scrambled(uint64(c*bodiesOfAChunk + i)))
		}
	})
	took := time.Since(start)
	sum := 0
	for _, n := range all {
		sum += int(n)
	}
	check(sum == sumOfLowHalves, "parallel_for")
	return took
}

func addInParallel() time.Duration {
	start := time.Now()
	sums := make([]uint64, chunksOfTheLoop)
	inChunks(func(c int) {
		sum := uint64(0)
		for i := c * bodiesOfAChunk; i < (c+1)*bodiesOfAChunk; i++ {
			sum += scrambled(uint64(i))
		}
		sums[c] = sum
	})
	sum := uint64(0)
	for _, s := range sums {
		sum += s
	}
	took := time.Since(start)
	check(sum == sumOfScrambled, "parallel_reduce")
	return took
}
