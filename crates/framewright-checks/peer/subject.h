/*
 * What lib/test_vmalloc.c is run over: one program for each subject. A worker is a CPU, from its `subject_enter` to its
 * `subject_leave`; outside of these it calls nothing else.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#define SUBJECT_CPUS 2
#define SUBJECT_PAGES (1UL << 18)
#define WINDOW_BYTES (32UL << 30)

struct page;

/* The subject's name, for messages. */
extern const char subject_name[];

/* Begins. `keeps` leaves freed areas mapped. */
void subject_begin(bool keeps);
/* Ends, and says how many areas, frames or rules are not as at the beginning: 0. */
unsigned long subject_end(void);
void subject_enter(unsigned int cpu);
void subject_leave(void);

/* Addresses for areas. The tests write a byte into each: memory lies there, whatever a subject's page tables say. */
char *test_window(void);

void *subject_vmalloc(size_t bytes, size_t align, bool is_zeroed);
void subject_vfree(const void *at);
/* `count` pages, as names that only the subject can read. */
unsigned long subject_pages(unsigned int count, struct page **into);
void subject_give_page(struct page *page);
void *subject_map_ram(struct page **pages, unsigned int count);
void subject_unmap_ram(const void *at, unsigned int count);
/* Memory of each CPU: for a subject without it the module's own, which end the program. */
void *subject_alloc_percpu(size_t bytes, size_t align);
void subject_free_percpu(const void *at);

#endif
