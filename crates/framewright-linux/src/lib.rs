//! The engine inside a Linux process: memory is a memfd, page tables are mmap.
