// Go's server of the network rows, as benchmarks/net/servers/coir.cpp:
//
//	net_go MODE        prints "port N", then serves until it is killed
//	                   echo, deadline, yielding, computing, timers as there; http: /plaintext by net/http
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	readTimeout         = 10 * time.Second
	computation         = 100 * time.Millisecond
	yieldingGoroutines  = 4
	computingGoroutines = 2
	timers              = 1000000
)

func echo(c net.Conn, deadlines bool) {
	defer c.Close()
	buffer := make([]byte, 256)
	for {
		if deadlines {
			c.SetReadDeadline(time.Now().Add(readTimeout))
		}
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		if _, err = c.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func compute(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func listen() net.Listener {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	return listener
}

func main() {
	mode := ""
	if len(os.Args) == 2 {
		mode = os.Args[1]
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	var set []*time.Timer
	switch mode {
	case "echo", "deadline":
	case "yielding":
		for i := 0; i < yieldingGoroutines; i++ {
			go func() {
				for {
					runtime.Gosched()
				}
			}()
		}
	case "computing":
		for i := 0; i < computingGoroutines; i++ {
			go func() {
				for ; ; runtime.Gosched() {
					compute(computation)
				}
			}()
		}
	case "timers":
		for i := 0; i < timers; i++ {
			set = append(set, time.AfterFunc(time.Hour+time.Duration(i)*3600*time.Microsecond, func() {}))
		}
	case "http":
		http.HandleFunc("/plaintext", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "Hello, World!")
		})
		fmt.Fprintln(os.Stderr, http.Serve(listen(), nil))
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "usage: net_go echo|deadline|yielding|computing|timers|http")
		os.Exit(2)
	}
	listener := listen()
	for {
		c, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go echo(c, mode == "deadline")
	}
}
