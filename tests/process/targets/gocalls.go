// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Raw system calls of goroutines, while their threads get the signal by which the runtime preempts them. Says "ready",
// and answers each number on its input when so many calls have been made.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const callers = 8

var bad int64

func caller(n int, want uintptr, wg *sync.WaitGroup) {
	defer wg.Done()
	for i := 0; i < n; i++ {
		if pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); pid != want {
			atomic.AddInt64(&bad, 1)
		}
	}
}

// The signal to each thread, again and again.
func storm(over *int32, wg *sync.WaitGroup) {
	defer wg.Done()
	for atomic.LoadInt32(over) == 0 {
		dir, err := os.ReadDir("/proc/self/task")
		if err != nil {
			panic(err)
		}
		for i := 0; i < 50; i++ {
			for _, e := range dir {
				tid, _ := strconv.Atoi(e.Name())
				syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(tid), uintptr(syscall.SIGURG))
			}
			time.Sleep(300 * time.Microsecond)
		}
	}
}

func main() {
	var over int32
	var last sync.WaitGroup
	want := uintptr(os.Getppid())

	fmt.Println("ready")
	last.Add(1)
	go storm(&over, &last)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var wg sync.WaitGroup

		n, _ := strconv.Atoi(in.Text())
		for i := 0; i < callers; i++ {
			wg.Add(1)
			go caller(n/callers, want, &wg)
		}
		wg.Wait()
		fmt.Printf("bad %d\n", bad)
	}
	atomic.StoreInt32(&over, 1)
	last.Wait()
}
