// SPDX-License-Identifier: MIT OR GPL-2.0-only

// What bench-apps.py probes as a Go program: a server of HTTP at a Unix socket, and its clients.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
)

type order struct{ id, quantity int }

//go:noinline
func price(o order) int { return o.id%7*100 + o.quantity*3 }

//go:noinline
func handle(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.URL.Query().Get("id"))
	fmt.Fprintf(w, "order %d costs %d\n", id, price(order{id, len(r.URL.Path)}))
}

func serve(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	http.HandleFunc("/order", handle)
	return http.Serve(listener, nil)
}

func ask(client *http.Client, n int) error {
	for i := 0; i < n; i++ {
		reply, err := client.Get("http://served/order?id=" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
	}
	return nil
}

func load(socket string, requests int) error {
	const clients = 4
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: clients}}
	failed := make(chan error, clients)
	var all sync.WaitGroup
	for c := 0; c < clients; c++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := ask(client, requests/clients); err != nil {
				failed <- err
			}
		}()
	}
	all.Wait()
	close(failed)
	return <-failed
}

func main() {
	err := fmt.Errorf("usage: served serve SOCKET | load SOCKET REQUESTS")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "load":
		n, _ := strconv.Atoi(os.Args[3])
		err = load(os.Args[2], n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "served:", err)
		os.Exit(1)
	}
}
