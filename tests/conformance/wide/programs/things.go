// SPDX-License-Identifier: BSD-2-Clause
// Goroutines, channels, maps, panics, signals, garbage.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func (n *node) count() int {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func main() {
	var group sync.WaitGroup
	results := make(chan int, 10)
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			results <- tree(n % 10).count()
		}(i)
	}
	go func() { group.Wait(); close(results) }()
	sum := 0
	for n := range results {
		sum += n
	}
	runtime.GC()
	words := strings.Fields("the quick brown fox jumps over the lazy dog")
	sort.Strings(words)
	fmt.Println(sum, words)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-told)
	out, err := exec.Command("sh", "-c", "echo sub; exit 3").Output()
	fmt.Printf("%q %v\n", out, err)
	spins := 0
	done := time.After(30 * time.Millisecond)
	go func() {
		for {
			spins++
		}
	}()
	<-done
	func() {
		defer func() { fmt.Println(recover()) }()
		var nothing *node
		fmt.Println(nothing.left)
	}()
	func() {
		defer func() { fmt.Println(recover()) }()
		zero := 0
		fmt.Println(1 / zero)
	}()
	var m map[string]int
	m["x"] = 1
}
