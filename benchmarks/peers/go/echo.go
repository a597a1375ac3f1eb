package main

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	echoClients   = 64
	echoesAClient = 1_500
	echoSize      = 64
)

func serveEchoes(peer net.Conn) {
	message := make([]byte, echoSize)
	for {
		if _, err := io.ReadFull(peer, message); err != nil {
			break
		}
		if _, err := peer.Write(message); err != nil {
			break
		}
	}
	peer.Close()
}

func askEchoes(server net.Conn) {
	message := make([]byte, echoSize)
	for i := 0; i < echoesAClient; i++ {
		sent := byte(i)
		message[echoSize-1] = sent
		_, err := server.Write(message)
		check(err == nil, "echo")
		_, err = io.ReadFull(server, message)
		check(err == nil && message[echoSize-1] == sent, "echo")
	}
}

func echo() time.Duration {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(err == nil, "listen")
	var clients []net.Conn
	var servers, done sync.WaitGroup
	for i := 0; i < echoClients; i++ {
		client, err := net.Dial("tcp4", listener.Addr().String())
		check(err == nil, "connect")
		peer, err := listener.Accept()
		check(err == nil, "accept")
		clients = append(clients, client)
		servers.Add(1)
		go func() {
			serveEchoes(peer)
			servers.Done()
		}()
	}
	start := time.Now()
	for _, client := range clients {
		client := client
		done.Add(1)
		go func() {
			askEchoes(client)
			done.Done()
		}()
	}
	done.Wait()
	took := time.Since(start)
	for _, client := range clients {
		client.Close()
	}
	servers.Wait()
	listener.Close()
	return took
}
