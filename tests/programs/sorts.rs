// SPDX-License-Identifier: BSD-2-Clause
//! Sorts in two threads and builds maps of strings.
use std::collections::BTreeMap;
use std::thread;

fn work(mut seed: u64) -> usize {
    let mut total = 0;
    for _ in 0..240 {
        let mut map = BTreeMap::new();
        let mut numbers = Vec::new();
        for i in 0..4000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            numbers.push(seed >> 20);
            map.insert(format!("{}", seed % 5000), i);
        }
        numbers.sort();
        total += map.len() + (numbers[7] % 3) as usize;
    }
    total
}

fn main() {
    let threads: Vec<_> = (0..2).map(|i| thread::spawn(move || work(i))).collect();
    let total: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(total + work(9) > 0);
}
