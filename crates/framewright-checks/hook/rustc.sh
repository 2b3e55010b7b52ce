#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER: counters in the workspace's own crates alone. With counters in shuttle's scheduler
# its schedules take ten times as long. Branches are counted by an option that the stable compiler has, but
# calls unstable.
exec "$@" -Cinstrument-coverage -Zcoverage-options=branch
