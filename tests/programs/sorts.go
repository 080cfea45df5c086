// SPDX-License-Identifier: BSD-2-Clause

// Sorts in four goroutines, with allocation and so with garbage collection beside it.
package main

import (
	"fmt"
	"math/rand"
	"sort"
	"sync"
)

func work(seed int64, group *sync.WaitGroup) {
	random := rand.New(rand.NewSource(seed))
	for round := 0; round < 120; round++ {
		words := make([]string, 8000)
		for i := range words {
			words[i] = fmt.Sprint(random.Int63())
		}
		sort.Strings(words)
	}
	group.Done()
}

func main() {
	var group sync.WaitGroup
	for i := int64(0); i < 4; i++ {
		group.Add(1)
		go work(i, &group)
	}
	group.Wait()
}
