/*
 * What Linux's lib/test_vmalloc.c asks of a kernel, in a process: parameters, threads, time, chance, and memory, which
 * comes from the subject (subject.h). Only names and their meaning are the kernel's.
 */
#ifndef MODULE_H
#define MODULE_H

#define _GNU_SOURCE
#include "subject.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef uint8_t u8, __u8;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef long long ktime_t;
#define PAGE_SIZE 4096UL
#define BITS_PER_LONG 64
#define THREAD_ALIGN (4 * PAGE_SIZE)
#define HZ 1000
#define GFP_KERNEL 0
#define __GFP_ZERO 1
#define NUMA_NO_NODE (-1)
#define __percpu
#define ARRAY_SIZE(all) (sizeof(all) / sizeof((all)[0]))
#define clamp(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define swap(a, b) ({ __typeof__(a) was = (a); (a) = (b); (b) = was; })
#define do_div(n, by) ((n) /= (by))
#define fls(x) ((x) ? 32 - __builtin_clz(x) : 0)
#define IS_ERR(at) ((unsigned long)(at) >= (unsigned long)-4095)
#define pr_info(...) printf(__VA_ARGS__)
#define pr_err(...) fprintf(stderr, __VA_ARGS__)

/* Modules. */
void new_parameter(const char *name, void *at, size_t bytes);
#define module_param(name, type, mode) \
	static void __attribute__((constructor)) parameter_##name(void) { new_parameter(#name, &name, sizeof(name)); }
#define MODULE_PARM_DESC(name, text)
#define MODULE_LICENSE(text) _Static_assert(1, "")
#define MODULE_AUTHOR(text) _Static_assert(1, "")
#define MODULE_DESCRIPTION(text) _Static_assert(1, "")
#define module_init(function) int start_module(void) { return function(); }

/* Waiting. */
typedef struct { int counter; } atomic_t;
#define ATOMIC_INIT(x) { (x) }
#define atomic_inc(at) ((void)__atomic_add_fetch(&(at)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic_dec_and_test(at) (__atomic_sub_fetch(&(at)->counter, 1, __ATOMIC_SEQ_CST) == 0)
#define DECLARE_RWSEM(name) pthread_rwlock_t name = PTHREAD_RWLOCK_INITIALIZER
#define down_read(lock) pthread_rwlock_rdlock(lock)
#define up_read(lock) pthread_rwlock_unlock(lock)
#define down_write(lock) pthread_rwlock_wrlock(lock)
#define up_write(lock) pthread_rwlock_unlock(lock)
struct completion { int done; pthread_mutex_t lock; pthread_cond_t changed; };
#define DECLARE_COMPLETION(name) struct completion name = { 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }
void complete(struct completion *completion);
int wait_for_completion_timeout(struct completion *completion, long ticks);
struct task_struct;
struct task_struct *run_thread(int (*function)(void *), void *argument);
#define kthread_run(function, argument, ...) run_thread(function, argument)
bool kthread_should_stop(void);
int kthread_stop(struct task_struct *task);
#define msleep(ms) ((void)0)
ktime_t ktime_get(void);
#define ktime_us_delta(later, earlier) (((later) - (earlier)) / 1000)
#define get_cycles() ((unsigned long)ktime_get())
#define num_online_cpus() SUBJECT_CPUS

/* Chance. */
u64 next_random(void);
#define get_random_u8() ((u8)next_random())
#define get_random_u32_below(n) ((u32)((next_random() >> 32) * (n) >> 32))
#define get_random_u32_inclusive(low, high) ((u32)(low) + get_random_u32_below((high) - (low) + 1))

/* Memory. */
struct rcu_head { void *unused[2]; };
void *counted_vmalloc(size_t bytes, size_t align, bool is_zeroed);
void vfree_later(void *at);
#define vmalloc(bytes) counted_vmalloc(bytes, 1, false)
#define vmalloc_huge(bytes, flags) counted_vmalloc(bytes, 1, false)
#define __vmalloc_node(bytes, align, flags, node, caller) counted_vmalloc(bytes, align, (flags) & __GFP_ZERO)
#define vfree(at) subject_vfree(at)
#define vm_map_ram(pages, count, node) subject_map_ram(pages, count)
#define vm_unmap_ram(at, count) subject_unmap_ram(at, count)
#define alloc_pages_bulk_array(flags, count, into) subject_pages(count, into)
#define __free_page(page) subject_give_page(page)
#define kvfree_rcu_mightsleep(at) vfree_later(at)
#define kvfree_rcu(at, member) vfree_later(at)
#define kcalloc(n, bytes, flags) calloc(n, bytes)
#define kvcalloc(n, bytes, flags) calloc(n, bytes)
#define kfree(at) free(at)
#define kvfree(at) free(at)
#define __alloc_percpu(bytes, align) subject_alloc_percpu(bytes, align)
#define free_percpu(at) subject_free_percpu(at)

#endif
