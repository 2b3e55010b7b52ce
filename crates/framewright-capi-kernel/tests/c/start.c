// The machine of `kernel.c` without a C library: a program whose first instruction is its own, and which makes two system
// calls of Linux on x86-64. It runs what is linked for a bare machine.
void console(const char *text);
int kernel_main(void);
void begin(void);

static long call(long number, long one, long two, long three)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three) : "rcx", "r11", "memory");
    return result;
}

void console(const char *text)
{
    long length = 0;
    while (text[length] != 0)
        length++;
    call(1, 1, (long)text, length); // write
}

__attribute__((used)) void begin(void)
{
    call(231, kernel_main(), 0, 0); // exit_group
}

// The stack is aligned to 16 bytes at the first instruction; a function expects the address to return to above that.
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tcall begin\n");
