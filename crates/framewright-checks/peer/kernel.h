/*
 * What Linux's mm/vmalloc.c, lib/xarray.c, lib/rbtree.c and lib/llist.c ask of a kernel, in a process. Only names and
 * their meaning are the kernel's.
 *
 * For serve.c one CPU works; others exist in number alone. Locks are an atomic exchange and a release, as they are without
 * contention. Memory comes from free lists. Nothing is mapped: every page table is empty. Deferred work and frees
 * wait until serve.c calls settle() behind an operation, as they would run on the same CPU. What only frees pages ends
 * the program: no operation there comes to it.
 *
 * With PEER_THREADS, for subject_linux.c, each thread is a CPU of its own, a lock that is held is waited for, and there are
 * pages and page tables (tables.h).
 */
#ifndef KERNEL_H
#define KERNEL_H

#define _GNU_SOURCE
#define __KERNEL__ 1
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types. */
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef int s32;
typedef unsigned long phys_addr_t;
typedef unsigned int gfp_t;
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;
struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
struct callback_head { struct callback_head *next; void (*func)(struct callback_head *); void *whole; };
#define rcu_head callback_head
struct cpumask { unsigned long bits[2]; };
typedef struct cpumask cpumask_t;
struct mm_struct;
struct page;

/* Configuration: as Debian's, but for what only debugging and other machines need. */
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_MMU 1
#define NR_CPUS 64
#define BITS_PER_LONG 64
#define BITS_PER_BYTE 8
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define THREAD_ALIGN (4 * PAGE_SIZE)
#define SHMLBA PAGE_SIZE
#define U8_MAX 255
#ifdef PEER_THREADS
extern unsigned long window_start, window_end;
#define VMALLOC_START window_start
#define VMALLOC_END window_end
#else
#define VMALLOC_START (4UL << 30)
#define VMALLOC_END (VMALLOC_START + (32UL << 30) - 1)
#endif

/* The compiler. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __must_check
#define __init
#define __initdata
#define __read_mostly
#define __ro_after_init
#define __force
#define __user
#define __iomem
#define __rcu
#define __percpu
#define __bitwise
#define __maybe_unused __attribute__((unused))
#define __attribute_const__
#define __acquires(x)
#define __releases(x)
#define __must_hold(x)
#define __alloc_size(...)
#define __realloc_size(...)
#define __cacheline_aligned __attribute__((aligned(64)))
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define fallthrough __attribute__((fallthrough))
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define data_race(x) (x)
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_store_release(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)
#define smp_load_acquire(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define static_assert _Static_assert
#define BUILD_BUG_ON(wrong) _Static_assert(!(wrong), #wrong)
#define BUILD_BUG_ON_ZERO(wrong) 0
#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)
#define early_param(name, function)
#define module_init(function)
#define alloc_hooks(call) (call)
#define container_of(at, type, member) ((type *)((char *)(at) - offsetof(type, member)))
#define __same_type(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))

/* Complaints end the program: no figure is worth anything behind one. */
#define COMPLAIN() (fprintf(stderr, "peer: %s:%d\n", __FILE__, __LINE__), abort())
#define BUG() COMPLAIN()
#define BUG_ON(wrong) ((void)(unlikely(wrong) ? (COMPLAIN(), 0) : 0))
#define VIRTUAL_BUG_ON(wrong) ((void)0)
#define WARN_ON(wrong) ({ bool is_wrong = !!(wrong); if (unlikely(is_wrong)) COMPLAIN(); is_wrong; })
#define WARN_ON_ONCE(wrong) WARN_ON(wrong)
#define WARN(wrong, ...) WARN_ON(wrong)
#define WARN_ONCE(wrong, ...) WARN_ON(wrong)
/* A request that cannot be served is told by what it returns. */
#define pr_warn(...) ((void)0)
#define pr_err(...) ((void)0)
#define pr_info(...) ((void)0)
#define pr_emerg(...) ((void)0)
#define pr_cont(...) ((void)0)
#define printk_ratelimit() 0
#define warn_alloc(...) ((void)0)

/* Arithmetic. */
#define ALIGN(x, to) (((x) + ((__typeof__(x))(to) - 1)) & ~((__typeof__(x))(to) - 1))
#define IS_ALIGNED(x, to) (((x) & ((__typeof__(x))(to) - 1)) == 0)
#define PTR_ALIGN(at, to) ((__typeof__(at))ALIGN((unsigned long)(at), to))
#define PAGE_ALIGN(x) ALIGN(x, PAGE_SIZE)
#define PAGE_ALIGNED(x) IS_ALIGNED((unsigned long)(x), PAGE_SIZE)
#define offset_in_page(at) ((unsigned long)(at) & (PAGE_SIZE - 1))
#define PFN_DOWN(x) ((x) >> PAGE_SHIFT)
#define DIV_ROUND_UP(x, by) (((x) + (by) - 1) / (by))
#define round_up(x, to) ALIGN(x, to)
#define ARRAY_SIZE(all) (sizeof(all) / sizeof((all)[0]))
#define BITS_TO_LONGS(bits) DIV_ROUND_UP(bits, 64)
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]
#define BIT(n) (1UL << (n))
#define min(a, b) ({ __typeof__(a) of_a = (a); __typeof__(b) of_b = (b); of_a < of_b ? of_a : of_b; })
#define max(a, b) ({ __typeof__(a) of_a = (a); __typeof__(b) of_b = (b); of_a > of_b ? of_a : of_b; })
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define max3(a, b, c) max(max(a, b), c)
#define clamp(x, low, high) min(max(x, low), high)
#define clamp_t(type, x, low, high) min_t(type, max_t(type, x, low), high)
#define swap(a, b) ({ __typeof__(a) was = (a); (a) = (b); (b) = was; })
#define ilog2(x) (63 - __builtin_clzl(x))
#define __ffs(x) ((unsigned long)__builtin_ctzl(x))
#define __fls(x) ((unsigned long)(63 - __builtin_clzl(x)))
#define is_power_of_2(x) ((x) != 0 && ((x) & ((x) - 1)) == 0)
#define roundup_pow_of_two(x) ((x) <= 1 ? 1UL : 1UL << (64 - __builtin_clzl((unsigned long)(x) - 1)))
#define check_add_overflow(a, b, into) __builtin_add_overflow(a, b, into)
static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline int fls64(u64 x) { return x ? 64 - __builtin_clzl(x) : 0; }
#define fls_long(x) fls64(x)
static inline int get_count_order_long(unsigned long x) { return x ? fls64(x - 1) : -1; }
static inline int get_order(unsigned long bytes) { return fls64((bytes - 1) >> PAGE_SHIFT); }

/* Pointers that are errors. */
#define MAX_ERRNO 4095
#define IS_ERR_VALUE(x) ((unsigned long)(x) >= (unsigned long)-MAX_ERRNO)
static inline void *ERR_PTR(long error) { return (void *)error; }
static inline long PTR_ERR(const void *at) { return (long)at; }
static inline bool IS_ERR(const void *at) { return IS_ERR_VALUE(at); }
static inline bool IS_ERR_OR_NULL(const void *at) { return !at || IS_ERR(at); }
#define ERR_CAST(at) ((void *)(at))

/* Atomics. */
#define ATOMIC_LONG_INIT(x) { (x) }
#define ATOMIC_INIT(x) { (x) }
#define atomic_long_read(at) READ_ONCE((at)->counter)
#define atomic_long_set(at, x) WRITE_ONCE((at)->counter, x)
#define atomic_long_add_return(x, at) __atomic_add_fetch(&(at)->counter, x, __ATOMIC_SEQ_CST)
#define atomic_long_add(x, at) ((void)__atomic_add_fetch(&(at)->counter, x, __ATOMIC_SEQ_CST))
#define atomic_long_sub(x, at) ((void)__atomic_sub_fetch(&(at)->counter, x, __ATOMIC_SEQ_CST))
#define xchg(at, x) __atomic_exchange_n(at, x, __ATOMIC_SEQ_CST)
#define cmpxchg(at, old, new) ({ __typeof__(*(at)) seen = (old); \
	__atomic_compare_exchange_n(at, &seen, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); seen; })
#define try_cmpxchg(at, old, new) \
	__atomic_compare_exchange_n(at, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Locks. */
typedef struct { int held; } spinlock_t;
struct mutex { spinlock_t lock; };
#define DEFINE_SPINLOCK(name) spinlock_t name = { 0 }
#define __SPIN_LOCK_UNLOCKED(name) { 0 }
#define DEFINE_MUTEX(name) struct mutex name = { { 0 } }
static inline void spin_lock_init(spinlock_t *lock) { lock->held = 0; }
static inline bool spin_trylock(spinlock_t *lock) { return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0; }
void spin_wait(spinlock_t *lock);
static inline void spin_lock(spinlock_t *lock) { if (unlikely(!spin_trylock(lock))) spin_wait(lock); }
static inline void spin_unlock(spinlock_t *lock) { __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); }
#define spin_lock_bh(lock) spin_lock(lock)
#define spin_unlock_bh(lock) spin_unlock(lock)
#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) ({ (flags) = 0; spin_lock(lock); })
#define spin_unlock_irqrestore(lock, flags) ({ (void)(flags); spin_unlock(lock); })
#define spin_lock_nested(lock, class) spin_lock(lock)
static inline void mutex_lock(struct mutex *mutex) { spin_lock(&mutex->lock); }
static inline void mutex_unlock(struct mutex *mutex) { spin_unlock(&mutex->lock); }
static inline void leave_mutex(struct mutex **mutex) { mutex_unlock(*mutex); }
static inline struct mutex *enter_mutex(struct mutex *mutex) { mutex_lock(mutex); return mutex; }
#define guard(kind) struct mutex *held_##kind __attribute__((cleanup(leave_mutex), unused)) = enter_mutex
#define lockdep_is_held(lock) 1
#define lockdep_assert_held(lock) ((void)0)
#define might_lock(lock) ((void)0)
#define might_alloc(flags) ((void)0)
#define might_sleep() ((void)0)
#define cond_resched() ((void)0)
#define need_resched() 0
#define preempt_disable() barrier()
#define preempt_enable() barrier()
#define in_interrupt() 0
#define in_nmi() 0

/* CPUs. */
#ifdef PEER_THREADS
extern __thread unsigned int this_cpu;
#define THIS_CPU this_cpu
#else
#define THIS_CPU 0u
#endif
extern unsigned int nr_cpu_ids;
extern const cpumask_t every_cpu;
#define cpu_online_mask (&every_cpu)
#define cpu_possible_mask (&every_cpu)
#define num_possible_cpus() nr_cpu_ids
#define num_online_cpus() nr_cpu_ids
#define num_online_nodes() 1
#define raw_smp_processor_id() THIS_CPU
#define smp_processor_id() THIS_CPU
#define numa_node_id() 0
#define NUMA_NO_NODE (-1)
#define cpu_possible(cpu) ((unsigned int)(cpu) < nr_cpu_ids)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)
#define for_each_cpu(cpu, mask) for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++) if (cpumask_test_cpu(cpu, mask))
#define cpumask_next(cpu, mask) ((unsigned int)(cpu) + 1)
#define cpumask_set_cpu(cpu, mask) ((mask)->bits[(cpu) / 64] |= 1UL << ((cpu) % 64))
#define cpumask_test_cpu(cpu, mask) ((mask)->bits[(cpu) / 64] >> ((cpu) % 64) & 1)
#define CPU_MASK_NONE ((cpumask_t){ { 0 } })
static inline unsigned int cpumask_weight(const cpumask_t *mask)
{
	return (unsigned int)(__builtin_popcountl(mask->bits[0]) + __builtin_popcountl(mask->bits[1]));
}
#define DEFINE_PER_CPU(type, name) __typeof__(type) name[NR_CPUS] __attribute__((aligned(64)))
#define per_cpu(name, cpu) (name[cpu])
#define per_cpu_ptr(all, cpu) (&(*(all))[cpu])
#define raw_cpu_ptr(all) (&(*(all))[THIS_CPU])
#define this_cpu_read(name) READ_ONCE(name[THIS_CPU])
#define __this_cpu_xchg(name, new) ({ __typeof__(name[0]) was = name[THIS_CPU]; name[THIS_CPU] = (new); was; })
#define __this_cpu_try_cmpxchg(name, old, new) \
	({ bool is_old = name[THIS_CPU] == *(old); if (is_old) name[THIS_CPU] = (new); else *(old) = name[THIS_CPU]; is_old; })

/* What is read without a lock stays until settle(). */
#define rcu_read_lock() barrier()
#define rcu_read_unlock() barrier()
#define rcu_read_lock_held() 1
#define rcu_read_lock_any_held() 1
#define rcu_dereference(at) READ_ONCE(at)
#define rcu_dereference_raw(at) READ_ONCE(at)
#define rcu_dereference_check(at, reason) READ_ONCE(at)
#define rcu_dereference_protected(at, reason) (at)
#define rcu_assign_pointer(at, x) smp_store_release(&(at), x)
#define RCU_INIT_POINTER(at, x) WRITE_ONCE(at, x)
#define RCU_LOCKDEP_WARN(wrong, text) ((void)0)
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *));
void free_later(void *whole, struct rcu_head *head);
#define kfree_rcu(at, member) free_later(at, &(at)->member)

/* Memory. */
#define GFP_KERNEL 0xcc0u
#define GFP_NOWAIT 0x800u
#define GFP_DMA 0x1u
#define GFP_DMA32 0x4u
#define __GFP_HIGHMEM 0x2u
#define __GFP_IO 0x40u
#define __GFP_FS 0x80u
#define __GFP_ZERO 0x100u
#define __GFP_DIRECT_RECLAIM 0x400u
#define __GFP_NOWARN 0x2000u
#define __GFP_RETRY_MAYFAIL 0x4000u
#define __GFP_NOFAIL 0x8000u
#define __GFP_NORETRY 0x10000u
#define __GFP_ACCOUNT 0x400000u
#define __GFP_SKIP_ZERO 0x1000000u
#define __GFP_SKIP_KASAN 0x2000000u
#define __GFP_BITS_SHIFT 26
#define GFP_RECLAIM_MASK 0x1dcc0u
#define SLAB_PANIC 0
#define gfpflags_allow_blocking(flags) ((flags) & __GFP_DIRECT_RECLAIM)
struct kmem_cache;
struct kmem_cache *new_cache(size_t bytes);
void *from_cache(struct kmem_cache *cache);
void *zeroed_from_cache(struct kmem_cache *cache);
void kmem_cache_free(struct kmem_cache *cache, void *at);
#define KMEM_CACHE(type, flags) new_cache(sizeof(struct type))
#define kmem_cache_alloc(cache, flags) from_cache(cache)
#define kmem_cache_alloc_node(cache, flags, node) from_cache(cache)
#define kmem_cache_alloc_lru(cache, lru, flags) from_cache(cache)
#define kmem_cache_zalloc(cache, flags) zeroed_from_cache(cache)
void *zeroed(size_t bytes);
#define kmalloc(bytes, flags) malloc(bytes)
#define kmalloc_node(bytes, flags, node) malloc(bytes)
#define kmalloc_array(n, bytes, flags) malloc((size_t)(n) * (bytes))
#define kcalloc(n, bytes, flags) calloc(n, bytes)
#define kzalloc(bytes, flags) zeroed(bytes)
#define kzalloc_node(bytes, flags, node) zeroed(bytes)
#define kfree(at) free((void *)(at))
#define MEMCG_VMALLOC 0
#define VM_DONTEXPAND 0
#define VM_DONTDUMP 0
struct vm_area_struct { unsigned long vm_start, vm_end, vm_flags; };
#define page_to_nid(page) 0

/* Page tables. */
typedef struct { unsigned long value; } pgd_t, p4d_t, pud_t, pmd_t, pte_t, pgprot_t;
typedef unsigned int pgtbl_mod_mask;
#define no_entry(type) ((type *)NULL)
#define PMD_SHIFT 21
#define PUD_SHIFT 30
#define P4D_SHIFT 39
#define PMD_SIZE (1UL << PMD_SHIFT)
#define PUD_SIZE (1UL << PUD_SHIFT)
#define P4D_SIZE (1UL << P4D_SHIFT)
#define PMD_MASK (~(PMD_SIZE - 1))
#define PUD_MASK (~(PUD_SIZE - 1))
#define P4D_MASK (~(P4D_SIZE - 1))
#define PGTBL_PGD_MODIFIED 1
#define PGTBL_P4D_MODIFIED 2
#define PGTBL_PUD_MODIFIED 4
#define PGTBL_PMD_MODIFIED 8
#define PGTBL_PTE_MODIFIED 16
#define ARCH_PAGE_TABLE_SYNC_MASK 0
#define PAGE_KERNEL ((pgprot_t){ 0 })
#define pgprot_nx(protection) (protection)
#define pgprot_val(protection) ((protection).value)
#define pgd_bad(entry) 0
#define p4d_bad(entry) 0
#define pud_bad(entry) 0
#define pmd_bad(entry) 0
#define pgd_leaf(entry) 0
#define p4d_leaf(entry) 0
#define pud_leaf(entry) 0
#define pmd_leaf(entry) 0
#define p4d_clear_huge(entry) 0
#define pud_clear_huge(entry) 0
#define pmd_clear_huge(entry) 0
#define pmd_page(entry) no_entry(struct page)
#define pud_page(entry) no_entry(struct page)
#define p4d_page(entry) no_entry(struct page)
#define arch_sync_kernel_mappings(from, to) ((void)0)
#define flush_cache_vmap(from, to) ((void)0)
#define flush_cache_vunmap(from, to) ((void)0)
#define kmsan_ioremap_page_range(...) 0
extern unsigned long tlb_flushes;
#define flush_tlb_kernel_range(from, to) ((void)tlb_flushes++)
#define debug_pagealloc_enabled_static() 0
#define debug_check_no_locks_freed(...) ((void)0)
#define debug_check_no_obj_freed(...) ((void)0)
#define set_direct_map_invalid_noflush NULL
#define set_direct_map_default_noflush NULL
#define want_init_on_free() 0
#define want_init_on_alloc(flags) 0
extern struct mm_struct init_mm;
struct task { int unused; };
#define current ((struct task *)NULL)

#ifdef PEER_THREADS
#include "tables.h"
#else
/* Empty ones, which nothing fills: a mapping says "done" before it comes to them. Pages are counted nowhere. */
struct page { unsigned long unused; };
#define __free_page(page) COMPLAIN()
#define kvfree(at) COMPLAIN()
#define mod_memcg_page_state(...) COMPLAIN()
#define totalram_pages() (1UL << 30)
extern pgd_t empty_table;
#define pgd_offset_k(at) (&empty_table)
#define pgd_addr_end(at, end) (end)
#define p4d_addr_end(at, end) (end)
#define pud_addr_end(at, end) (end)
#define pmd_addr_end(at, end) (end)
#define pgd_none(entry) 1
#define p4d_none(entry) 1
#define pud_none(entry) 1
#define pmd_none(entry) 1
#define pte_none(entry) 1
#define pmd_present(entry) 0
#define pud_present(entry) 0
#define p4d_present(entry) 0
#define pte_present(entry) 0
#define pgd_none_or_clear_bad(entry) 1
#define p4d_none_or_clear_bad(entry) 1
#define pud_none_or_clear_bad(entry) 1
#define pmd_none_or_clear_bad(entry) 1
#define p4d_offset(above, at) no_entry(p4d_t)
#define pud_offset(above, at) no_entry(pud_t)
#define pmd_offset(above, at) no_entry(pmd_t)
#define pte_offset_kernel(above, at) no_entry(pte_t)
#define p4d_alloc_track(mm, above, at, mask) no_entry(p4d_t)
#define pud_alloc_track(mm, above, at, mask) no_entry(pud_t)
#define pmd_alloc_track(mm, above, at, mask) no_entry(pmd_t)
#define pte_alloc_kernel_track(above, at, mask) no_entry(pte_t)
#define ptep_get(entry) (*(entry))
#define ptep_get_and_clear(mm, at, entry) (*(entry))
#define pfn_pte(frame, protection) ((pte_t){ 0 })
#define mk_pte(page, protection) ((pte_t){ 0 })
#define set_pte_at(mm, at, entry, value) ((void)(value))
#define pte_page(entry) no_entry(struct page)
#define page_to_pfn(page) 0ul
#define pfn_valid(frame) 0
#define page_to_phys(page) 0ul
#define page_address(page) NULL
#define kmsan_vmap_pages_range_noflush(...) 1
#define kmsan_vunmap_range_noflush(...) ((void)0)
#endif

/* Checkers of the kernel that are off. */
typedef unsigned int kasan_vmalloc_flags_t;
#define KASAN_VMALLOC_NONE 0
#define KASAN_VMALLOC_INIT 1
#define KASAN_VMALLOC_VM_ALLOC 2
#define KASAN_VMALLOC_PROT_NORMAL 4
#define KASAN_VMALLOC_PAGE_RANGE 1
#define KASAN_VMALLOC_TLB_FLUSH 2
#define kasan_reset_tag(at) (at)
#define kasan_populate_vmalloc(...) 0
#define kasan_release_vmalloc(...) ((void)0)
#define kasan_poison_vmalloc(...) ((void)0)
#define kasan_unpoison_vmalloc(at, ...) ((void *)(at))
#define kasan_unpoison_vmap_areas(...) ((void)0)
#define kasan_hw_tags_enabled() 0
#define kasan_free_module_shadow(area) ((void)0)
#define kmemleak_scan_area(...) ((void)0)
#define kmemleak_vmalloc(...) ((void)0)
#define kmemleak_free(...) ((void)0)
#define trace_alloc_vmap_area(...) ((void)0)
extern unsigned long lazy_peak;
#define trace_free_vmap_area_noflush(start, lazy, most) ((void)(lazy_peak = max(lazy_peak, (unsigned long)(lazy))))
#define trace_purge_vmap_area_lazy(...) ((void)0)

/* Work for later, notifiers, shrinkers. */
struct work_struct { void (*func)(struct work_struct *); struct work_struct *next; bool queued; };
typedef void (*work_func_t)(struct work_struct *);
#define __WORK_INITIALIZER(name, function) { .func = (function) }
#define DECLARE_WORK(name, function) struct work_struct name = __WORK_INITIALIZER(name, function)
#define INIT_WORK(work, function) (*(work) = (struct work_struct){ .func = (function) })
bool schedule_work(struct work_struct *work);
bool flush_work(struct work_struct *work);
#define schedule_work_on(cpu, work) schedule_work(work)
#define queue_work_on(cpu, queue, work) schedule_work(work)
#define system_wq NULL
struct blocking_notifier_head { int unused; };
struct notifier_block { int unused; };
#define BLOCKING_NOTIFIER_HEAD(name) struct blocking_notifier_head name
#define blocking_notifier_call_chain(chain, value, data) ((void)(value), 0)
#define blocking_notifier_chain_register(...) 0
#define blocking_notifier_chain_unregister(...) 0
struct shrink_control { gfp_t flags; };
struct shrinker {
	unsigned long (*count_objects)(struct shrinker *, struct shrink_control *);
	unsigned long (*scan_objects)(struct shrinker *, struct shrink_control *);
};
extern struct shrinker one_shrinker;
#define shrinker_alloc(flags, name) (&one_shrinker)
#define shrinker_register(shrinker) ((void)(shrinker))
#define SHRINK_STOP (~0UL)
#define SHRINK_EMPTY (~0UL - 1)

/* Bitmaps. */
#define BIT_MASK(n) (1UL << ((n) % 64))
#define BIT_WORD(n) ((n) / 64)
static inline bool test_bit(unsigned long n, const unsigned long *bits) { return bits[n / 64] >> (n % 64) & 1; }
static inline void __set_bit(unsigned long n, unsigned long *bits) { bits[n / 64] |= BIT_MASK(n); }
static inline void __clear_bit(unsigned long n, unsigned long *bits) { bits[n / 64] &= ~BIT_MASK(n); }
static inline bool __test_and_set_bit(unsigned long n, unsigned long *bits) { bool was = test_bit(n, bits); __set_bit(n, bits); return was; }
static inline bool __test_and_clear_bit(unsigned long n, unsigned long *bits) { bool was = test_bit(n, bits); __clear_bit(n, bits); return was; }
static inline unsigned long next_equal(const unsigned long *bits, unsigned long n, unsigned long from, unsigned long flip)
{
	while (from < n) {
		unsigned long word = (bits[from / 64] ^ flip) >> (from % 64);
		if (word)
			return min(from + (unsigned long)__builtin_ctzl(word), n);
		from = (from / 64 + 1) * 64;
	}
	return n;
}
#define find_next_bit(bits, n, from) next_equal(bits, n, from, 0ul)
#define find_first_bit(bits, n) next_equal(bits, n, 0, 0ul)
#define find_next_zero_bit(bits, n, from) next_equal(bits, n, from, ~0ul)
#define for_each_set_bitrange(from, to, bits, n) \
	for ((from) = find_first_bit(bits, n), (to) = find_next_zero_bit(bits, n, from); (from) < (n); \
	     (from) = find_next_bit(bits, n, to), (to) = find_next_zero_bit(bits, n, from))
static inline void bitmap_set(unsigned long *bits, unsigned int from, unsigned int n) { while (n--) __set_bit(from++, bits); }
static inline void bitmap_clear(unsigned long *bits, unsigned int from, unsigned int n) { while (n--) __clear_bit(from++, bits); }
static inline void bitmap_zero(unsigned long *bits, unsigned int n) { memset(bits, 0, BITS_TO_LONGS(n) * 8); }
static inline void bitmap_fill(unsigned long *bits, unsigned int n) { bitmap_set(bits, 0, n); }
#define bitmap_empty(bits, n) (find_first_bit(bits, n) >= (n))

/* Files of /proc, and I/O to user memory, which nothing here asks for. */
struct seq_file { void *private; };
struct seq_operations { int unused; };
struct iov_iter { size_t count; };

/* Headers of the kernel that its other headers would bring. */
#include <linux/rculist.h>
#endif
