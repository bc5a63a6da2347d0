//! Allocator and panic handler, which a program without an operating system has to have itself.
#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr;

/// A device that has no memory to give.
struct NoMemory;

// SAFETY: null means that there is no memory; none is ever allocated, so none is freed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static MEMORY: NoMemory = NoMemory;

/// With `std` in any dependency, there would be two of these, which the compiler refuses.
#[panic_handler]
fn halt(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
