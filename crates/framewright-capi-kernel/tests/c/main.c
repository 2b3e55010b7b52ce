// The machine of `kernel.c` in a process: a console on the standard output.
#include <stdio.h>

void console(const char *text);
int kernel_main(void);

void console(const char *text)
{
    fputs(text, stdout);
}

int main(void)
{
    return kernel_main();
}
