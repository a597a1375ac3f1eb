package main

import (
	"sort"
	"time"
)

const (
	sortedNumbers   = 10_000_000
	sumOfNumbers    = 10_735_976_483_140_018
	leastPiece      = 2
	sequentialPiece = 10_000
)

func merge(l, r []int) []int {
	m := make([]int, 0, len(l)+len(r))
	for len(l) > 0 && len(r) > 0 {
		if l[0] <= r[0] {
			m = append(m, l[0])
			l = l[1:]
		} else {
			m = append(m, r[0])
			r = r[1:]
		}
	}
	return append(append(m, l...), r...)
}

// mergeSort sorts a piece of no more than least numbers by itself.
func mergeSort(piece []int, least int) []int {
	switch {
	case len(piece) <= 2:
		return merge(piece[:1], piece[1:])
	case len(piece) <= least:
		sorted := append([]int(nil), piece...)
		sort.Ints(sorted)
		return sorted
	}
	left, right := make(chan []int), make(chan []int)
	middle := len(piece) / 2
	go func() { left <- mergeSort(piece[:middle], least) }()
	go func() { right <- mergeSort(piece[middle:], least) }()
	low, high := <-left, <-right
	return merge(low, high)
}

func mergeSortOfPieces(least int) time.Duration {
	input := make([]int, sortedNumbers)
	x := uint64(1)
	for i := range input {
		x = x*6364136223846793005 + 1442695040888963407
		input[i] = int(x >> 33)
	}
	start := time.Now()
	sorted := mergeSort(input, least)
	took := time.Since(start)
	sum := 0
	for _, n := range sorted {
		sum += n
	}
	check(len(sorted) == sortedNumbers && sum == sumOfNumbers && sort.IntsAreSorted(sorted), "sort")
	return took
}
