#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER: counters in the workspace's own crates alone. With counters in shuttle's scheduler
# its schedules take ten times as long. Branches are counted by an option that the stable compiler has, but
# calls unstable. The compiler counts with atomic instructions, which are most of such a program's time; the models are one thread,
# so plain ones count the same.
exec "$@" -Cinstrument-coverage -Zcoverage-options=branch -Cpasses=lower-atomic
