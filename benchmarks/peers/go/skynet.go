package main

import "time"

const (
	skynetLeaves = 1_000_000
	skynetFanOut = 10
)

func skynetNode(up chan<- int64, first int64, leaves int64) {
	if leaves == 1 {
		up <- first
		return
	}
	down := make(chan int64)
	each := leaves / skynetFanOut
	for i := int64(0); i < skynetFanOut; i++ {
		go skynetNode(down, first+i*each, each)
	}
	sum := int64(0)
	for i := 0; i < skynetFanOut; i++ {
		sum += <-down
	}
	up <- sum
}

func skynet() time.Duration {
	start := time.Now()
	root := make(chan int64)
	go skynetNode(root, 0, skynetLeaves)
	sum := <-root
	took := time.Since(start)
	check(sum == int64(skynetLeaves)*(skynetLeaves-1)/2, "skynet")
	return took
}
