// SPDX-License-Identifier: BSD-2-Clause
// Threads, channels, maps, boxes, panics.
use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

trait Shape {
    fn area(&self) -> f64;
}
struct Square(f64);
struct Circle(f64);
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Circle {
    fn area(&self) -> f64 {
        self.0 * self.0 * std::f64::consts::PI
    }
}

fn main() {
    let total = Arc::new(Mutex::new(0u64));
    let threads: Vec<_> = (0..8u64)
        .map(|i| {
            let total = total.clone();
            thread::spawn(move || {
                for j in 0..2000 {
                    *total.lock().unwrap() += i * j;
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || (0..1000).for_each(|i| sender.send(i * i).unwrap()));
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for i in 0..50000u64 {
        *counts.entry(i * 7919 % 97).or_default() += i;
    }
    let sorted: BTreeMap<_, _> = counts.into_iter().collect();
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(2.0)), Box::new(Circle(1.0))];
    println!("{} {} {:?} {:.3}", total.lock().unwrap(), receiver.iter().sum::<u64>(), sorted.get(&5),
             shapes.iter().map(|s| s.area()).sum::<f64>());
    let caught = thread::spawn(|| panic!("inside")).join();
    println!("{}", caught.is_err());
    let status = Command::new("sh").args(["-c", "exit 4"]).status().unwrap();
    println!("{:?}", status.code());
    let v: Vec<i32> = Vec::new();
    println!("{}", v[std::env::args().count()]);
}
