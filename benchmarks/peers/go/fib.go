package main

import "time"

func fib(n int) int {
	if n < 2 {
		return n
	}
	a, b := make(chan int, 1), make(chan int, 1)
	go func() { a <- fib(n - 1) }()
	go func() { b <- fib(n - 2) }()
	return <-a + <-b
}

func fib27() time.Duration {
	start := time.Now()
	result := fib(27)
	took := time.Since(start)
	check(result == 196_418, "fib27")
	return took
}
