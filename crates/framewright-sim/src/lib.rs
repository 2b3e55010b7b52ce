//! A machine in a variable: simulated memory, CPUs and clock, failure of the n-th call, the slow
//! models, and the driver that runs engine and model in step.
#![forbid(unsafe_code)]
