// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A Rust target that counts its own calls. Usage: rustwork SECONDS
use std::collections::BTreeMap;

#[no_mangle]
#[inline(never)]
pub extern "C" fn rust_step(n: u64, m: &mut BTreeMap<u64, String>) -> u64 {
    m.insert(n % 97, format!("value {}", n));
    m.len() as u64 + n
}

fn main() {
    let secs: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5);
    println!("ready {}", std::process::id());
    let begin = std::time::Instant::now();
    let mut m = BTreeMap::new();
    let mut n = 0u64;
    while begin.elapsed().as_secs() < secs {
        for _ in 0..100 {
            rust_step(n, &mut m);
            n += 1;
        }
        let r = std::panic::catch_unwind(|| {
            if n % 1000 == 0 {
                std::panic::resume_unwind(Box::new(7))
            }
        });
        if n % 1000 == 0 && r.is_ok() {
            println!("bad");
            std::process::exit(1);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!("calls {}", n);
}
