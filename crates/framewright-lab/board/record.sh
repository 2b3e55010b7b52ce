#!/bin/sh
# Records what a machine's page allocator does, where framewright itself does not run: with a POSIX shell, cat, sed, wc,
# sleep, mkdir, rmdir, kill, mount and gzip, root, and a kernel with tracefs. The recording goes to standard output in one
# stream, which `framewright replay` reads; docs/trace-formats.md describes it.
#
#   ssh root@board sh -s 60 < record.sh > board.stream.gz      60 seconds
#   sh record.sh 600 16384 > /mnt/board.stream.gz              600 seconds, 16,384 KiB of buffer for each CPU
#
# Ctrl-C ends it early, and so does a reader that is gone. Memory does not grow with the recording. Nothing is left behind:
# the tracing instance goes, and tracefs is unmounted again where it was not mounted.
set -u
LC_ALL=C
export LC_ALL
seconds=${1:-60}
buffer_kib=${2:-8192}

say() { echo "record.sh: $*" >&2; }
fail() { say "$*"; exit 2; }

for number in "$seconds" "$buffer_kib"; do
    case $number in
    # A shell takes numbers with a leading zero for octal ones, and longer ones for none.
    0* | *[!0-9]* | ??????????*)
        fail "$number: expected a whole number of at most nine digits without a leading zero: sh record.sh [SECONDS] [KIB]"
        ;;
    esac
done
[ ! -t 1 ] || fail "standard output is a terminal, expected a file or a pipe: sh record.sh 60 > board.stream.gz"
command -v gzip > /dev/null || fail "there is no gzip"

mounted=
for tracing in /sys/kernel/tracing /sys/kernel/debug/tracing; do
    [ ! -d "$tracing/instances" ] || break
done
if [ ! -d "$tracing/instances" ]; then
    tracing=/sys/kernel/tracing
    mount -t tracefs tracefs "$tracing" || fail "tracefs cannot be mounted: it needs root and CONFIG_FTRACE"
    mounted=$tracing
fi
instance=$tracing/instances/framewright-$$

clean_up() {
    trap '' INT TERM HUP PIPE
    # It ignores what Ctrl-C and a lost connection send, and it holds the instance and the stream.
    [ -z "$reader" ] || kill -KILL "$reader" 2> /dev/null
    if [ -d "$instance" ]; then
        echo 0 > "$instance/tracing_on"
        exec 9>&-
        # The reader of its pipe may hold it for a moment.
        for _ in 1 2 3 4 5; do
            rmdir "$instance" 2> /dev/null && break
            sleep 1
        done
        [ ! -d "$instance" ] || say "the tracing instance $instance could not be removed: rmdir it"
    fi
    [ -z "$mounted" ] || umount "$mounted"
}

# section NAME TEXT: a line with the length, and the text with a line's end.
section() {
    length=$(printf '%s\n' "$2" | wc -c)
    printf '#section %s %d\n%s\n' "$1" "$length" "$2"
}

# What is kept of how the kernel is set: settings, and words that it was booted with. /proc/cmdline may hold passwords and names
# of hosts, so of it only words about memory are kept; src/trace/state/settings.rs has the same lists.
vm_settings='min_free_kbytes watermark_scale_factor watermark_boost_factor compaction_proactiveness extfrag_threshold defrag_mode'
huge_page_settings='enabled defrag'
boot_words='cma cma_pernuma crashkernel debug_guardpage_minorder debug_pagealloc default_hugepagesz highmem hugepages hugepagesz
hugetlb_cma hugetlb_free_vmemmap init_on_alloc init_on_free kernelcore mem memmap movable_node movablecore numa numa_cma page_owner
page_poison percpu_alloc slab_max_order slab_nomerge slub_max_order slub_min_order swiotlb thp_anon transparent_hugepage vmalloc'

# What the kernel was booted with; a test gives another file.
cmdline=${FRAMEWRIGHT_CMDLINE:-/proc/cmdline}

# settings: a name and a value a line, of what this kernel has. It runs in a shell of its own.
settings() {
    # Not by read: some shells take a byte at a time, and a setting has no second one.
    for name in $vm_settings; do
        value=$(cat "/proc/sys/vm/$name" 2> /dev/null)
        [ -z "$value" ] || printf 'vm.%s %s\n' "$name" "$value"
    done
    for name in $huge_page_settings; do
        value=$(cat "/sys/kernel/mm/transparent_hugepage/$name" 2> /dev/null)
        case $value in
        *\[?*\]*)
            value=${value#*\[}
            printf 'transparent_hugepage.%s %s\n' "$name" "${value%%\]*}"
            ;;
        esac
    done
    # A word's own * stands for no files.
    set -f
    known=" $(echo $boot_words) "
    for word in $(cat "$cmdline" 2> /dev/null); do
        case $word in
        # What follows may be a part of a quoted value, or an init's.
        -- | *\"*) break ;;
        esac
        case $known in
        *" ${word%%=*} "*) printf 'boot %s\n' "$word" ;;
        esac
    done
}

# machine WHEN: what the machine says of itself.
machine() {
    for file in pagetypeinfo buddyinfo zoneinfo vmstat meminfo; do
        [ ! -r "/proc/$file" ] || section "$1.$file" "$(cat "/proc/$file")"
    done
    section "$1.settings" "$(settings)"
    if [ -r /proc/kpageflags ]; then
        length=$(wc -c < /proc/kpageflags)
        printf '#section %s %d\n' "$1.kpageflags" "$length"
        cat /proc/kpageflags
    fi
}

# Names of the tasks that run. A container numbers them otherwise than events do.
tasks() {
    case $(readlink /proc/self/ns/pid 2> /dev/null) in
    '' | 'pid:[4026531836]') ;;
    *) return ;;
    esac
    for file in /proc/[0-9]*/task/[0-9]*/comm; do
        task=${file%/comm}
        { IFS= read -r name < "$file"; } 2> /dev/null && printf '%s %s\n' "${task##*/}" "$name"
    done
}

stream() {
    stop=
    reader=
    trap clean_up EXIT
    trap 'stop=1' INT TERM HUP
    trap 'exit 1' PIPE
    mkdir "$instance" || fail "no tracing instance can be made"
    # While it is open, no recorder takes it for one that a killed recorder left.
    exec 9> "$instance/tracing_on"
    echo 0 > "$instance/tracing_on"
    echo mono > "$instance/trace_clock"
    # A new instance prints as the machine's own tracing does, and that may be set otherwise. Old kernels lack some.
    for option in raw hex bin verbose fields latency-format record-tgid; do
        [ ! -e "$instance/options/$option" ] || echo 0 > "$instance/options/$option"
    done
    for option in context-info irq-info record-cmd markers; do
        [ ! -e "$instance/options/$option" ] || echo 1 > "$instance/options/$option"
    done
    # What finds no room overwrites the oldest, and the pipe says where events were lost.
    echo 1 > "$instance/options/overwrite"
    echo "$buffer_kib" > "$instance/buffer_size_kb" || fail "no buffers of $buffer_kib KiB a CPU: give fewer"
    for event in kmem/mm_page_alloc kmem/mm_page_free; do
        echo 1 > "$instance/events/$event/enable" || fail "this kernel does not trace $event"
    done
    for event in kmem/mm_page_alloc_extfrag compaction/mm_compaction_begin compaction/mm_compaction_end \
        compaction/mm_compaction_try_to_compact_pages migrate/mm_migrate_pages_start migrate/mm_migrate_pages \
        vmscan/mm_vmscan_direct_reclaim_begin vmscan/mm_vmscan_direct_reclaim_end vmscan/mm_vmscan_kswapd_wake \
        vmscan/mm_vmscan_kswapd_sleep task/task_newtask task/task_rename; do
        [ ! -e "$instance/events/$event/enable" ] || echo 1 > "$instance/events/$event/enable"
    done
    echo '#framewright stream 1'
    section kernel "$(cat /proc/sys/kernel/osrelease)"
    section tasks "$(tasks)"
    machine before
    echo 1 > "$instance/tracing_on"
    # A task may have taken another name before tracing began, and no event says so. The later name stands.
    section tasks "$(tasks)"
    echo '# tracer: nop'
    # It ends behind the mark. Some kinds of sed look a line ahead.
    # It takes no signal, from its first moment on.
    trap '' INT TERM HUP
    sed '/: tracing_mark_write: framewright ends$/q' < "$instance/trace_pipe" &
    reader=$!
    trap 'stop=1' INT TERM HUP
    say "recording for $seconds s; Ctrl-C ends it"
    left=$seconds
    enabled=
    while [ "$left" -gt 0 ] && [ -z "$stop" ] && kill -0 "$reader" 2> /dev/null; do
        sleep 1 &
        wait $!
        left=$((left - 1))
        # The shell that was started has got a signal.
        { IFS= read -r enabled < "$instance/events/enable"; } 2> /dev/null
        [ "$enabled" != 0 ] || stop=1
    done
    kill -0 "$reader" 2> /dev/null || { reader=; fail "the stream's reader is gone"; }
    echo 0 > "$instance/events/enable"
    for _ in 1 2 3; do
        echo 'framewright ends' > "$instance/trace_marker"
    done
    waited=0
    while kill -0 "$reader" 2> /dev/null; do
        # What takes the stream takes nothing more: it stays without its end.
        [ "$waited" -lt 60 ] || { kill -KILL "$reader"; fail "the events are not taken within 60 s"; }
        sleep 1
        waited=$((waited + 1))
    done
    echo 0 > "$instance/tracing_on"
    ended=$reader
    reader=
    wait "$ended" || fail "the stream's reader is gone"
    machine after
    lost=$(cat "$instance"/per_cpu/cpu*/stats | while read -r word value; do
        case $word in overrun:) printf '%s+' "$value" ;; esac
    done)
    section end "recorded $((seconds - left)) s${stop:+ until interrupted}, lost $((${lost}0)) events"
    say "recorded $((seconds - left)) s, lost $((${lost}0)) events"
}

# Each of these shells waits, and gzip sees the end, whatever signal ends the recording. A pipe has its last command's status,
# and both parts' count.
record() {
    trap : INT TERM HUP
    {
        status=$(
            trap : INT TERM HUP
            {
                {
                    trap : INT TERM HUP
                    (stream 3>&- 4>&-)
                    echo $? >&3
                } | {
                    trap : INT TERM HUP
                    (trap '' INT TERM HUP; exec gzip -1 >&4 3>&- 4>&-) || echo 2 >&3
                }
            } 3>&1
        )
    } 4>&1
    [ "$status" = 0 ]
}

# A shell heeds a signal at once only where it waits for a job. The signal may be for this shell alone, by `kill PID`: it passes
# it on as an end of all events, which the recording's shell looks for. One that is still setting up would switch them on again.
interrupted=
trap interrupted=1 INT TERM HUP
record &
recording=$!
wait "$recording"
status=$?
if [ "$status" -gt 128 ]; then
    while [ -n "$interrupted" ] && kill -0 "$recording" 2> /dev/null; do
        [ ! -e "$instance/events/enable" ] || { echo 0 > "$instance/events/enable"; } 2> /dev/null
        sleep 1
    done
    wait "$recording"
    status=$?
fi
[ "$status" = 0 ] || exit 2
