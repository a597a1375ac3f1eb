package main

import "time"

const selectedValues = 2_000_000

// produce starts a producer for each of n channels; together they send selectedValues ones.
func produce(n, capacity int) []chan int {
	channels := make([]chan int, n)
	for i := range channels {
		ch := make(chan int, capacity)
		channels[i] = ch
		go func() {
			for v := 0; v < selectedValues/n; v++ {
				ch <- 1
			}
		}()
	}
	return channels
}

func selectOfTwo(capacity int) time.Duration {
	start := time.Now()
	c := produce(2, capacity)
	a, b := c[0], c[1]
	sum := 0
	for i := 0; i < selectedValues; i++ {
		select {
		case v := <-a:
			sum += v
		case v := <-b:
			sum += v
		}
	}
	took := time.Since(start)
	check(sum == selectedValues, "select of two")
	return took
}

func selectOfEight(capacity int) time.Duration {
	start := time.Now()
	c := produce(8, capacity)
	c0, c1, c2, c3, c4, c5, c6, c7 := c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
	sum := 0
	for i := 0; i < selectedValues; i++ {
		select {
		case v := <-c0:
			sum += v
		case v := <-c1:
			sum += v
		case v := <-c2:
			sum += v
		case v := <-c3:
			sum += v
		case v := <-c4:
			sum += v
		case v := <-c5:
			sum += v
		case v := <-c6:
			sum += v
		case v := <-c7:
			sum += v
		}
	}
	took := time.Since(start)
	check(sum == selectedValues, "select of eight")
	return took
}
