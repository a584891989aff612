// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Goroutines that compute, grow their stacks, allocate and are preempted. Ends at SIGTERM.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var calls, bad int64

//go:noinline
func Fib(n int) int {
	if n < 2 {
		return n
	}
	return Fib(n-1) + Fib(n-2)
}

//go:noinline
func Deep(n int, s string) int {
	var pad [200]byte
	pad[n%200] = byte(n)
	if n == 0 {
		return len(s) + int(pad[0])
	}
	return Deep(n-1, s) + 0*int(pad[1])
}

//go:noinline
func Words(n int) int {
	parts := strings.Fields(strings.Repeat("alpha beta gamma ", n))
	sort.Strings(parts)
	m := map[string]int{}
	for _, p := range parts {
		m[p]++
	}
	return m["beta"]
}

func worker(stop *int32, wg *sync.WaitGroup) {
	defer wg.Done()
	for atomic.LoadInt32(stop) == 0 {
		if Fib(12) != 144 || Deep(500, "xyz") != 3 || Words(20) != 20 {
			atomic.AddInt64(&bad, 1)
		}
		atomic.AddInt64(&calls, 1)
		time.Sleep(time.Millisecond)
	}
}

func main() {
	var stop int32
	var wg sync.WaitGroup
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	for i := 0; i < 16; i++ {
		wg.Add(1)
		go worker(&stop, &wg)
	}
	fmt.Printf("ready %d\n", os.Getpid())
	<-c
	atomic.StoreInt32(&stop, 1)
	wg.Wait()
	fmt.Printf("calls %d bad %d\n", calls, bad)
	if bad != 0 {
		os.Exit(1)
	}
}
