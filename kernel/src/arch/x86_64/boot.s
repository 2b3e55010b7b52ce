# The first instructions of each CPU: from the mode in which it starts to 64 bits and a stack.
#
# Page tables at boot: 4 GiB, by 2 MiB, at address 0 and at the direct map (entry 273 of the root). The
# kernel maps the rest of the memory itself.

# By this note QEMU boots an ELF64 file: name "Xen", type 18, the address of the 32-bit entry in 8 bytes.
.section .note.pvh, "a", @note
.balign 4
.long 4, 8, 18
.asciz "Xen"
.quad boot_entry

.section .bss
.balign 4096
.global boot_root
boot_root: .skip 4096
boot_gibibytes: .skip 4096
boot_mebibytes: .skip 4 * 4096
boot_stack: .skip 0x10000
boot_stack_end:

.section .data
.balign 8
# Null, 64-bit code, data.
boot_segments: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_segments_end:
boot_segments_pointer:
    .word boot_segments_end - boot_segments - 1
    .quad boot_segments
.balign 8
next_cpu: .quad 1

.section .boot.text, "ax"
.code32
.global boot_entry
# Protected mode, no paging, the address of the start information in ebx.
boot_entry:
    cli
    cld
    movl $boot_stack_end, %esp
    movl $boot_mebibytes, %edi
    movl $0x83, %eax                # present, writable, 2 MiB
1:  movl %eax, (%edi)
    addl $8, %edi
    addl $0x200000, %eax
    jnc 1b                          # until the address wraps at 4 GiB
    movl $boot_gibibytes, %edi
    movl $boot_mebibytes + 3, %eax
    movl $4, %ecx
2:  movl %eax, (%edi)
    addl $8, %edi
    addl $4096, %eax
    loop 2b
    movl $boot_gibibytes + 3, %eax
    movl %eax, boot_root
    movl %eax, boot_root + 273 * 8
    call enter_long_mode
    lgdt boot_segments_pointer
    ljmp $8, $first_cpu

# Long mode with no-execute, write protection for the kernel too.
enter_long_mode:
    movl $0x20, %eax                # CR4.PAE
    movl %eax, %cr4
    movl $boot_root, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    movl $0x900, %eax               # EFER.LME, EFER.NXE
    xorl %edx, %edx
    wrmsr
    movl $0x80010033, %eax          # paging, WP, protected mode
    movl %eax, %cr0
    ret

.code64
.macro data_segments
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
.endm

first_cpu:
    data_segments
    movabsq $boot_stack_end, %rsp
    movl %ebx, %edi
    call kernel_main
    ud2

other_cpu:
    data_segments
    movl $1, %edi
    lock xaddq %rdi, next_cpu
    cmpq ${MAX_CPUS}, %rdi          # the call that starts CPUs reaches also those that have no stack
    jae no_stack
    movq CPU_STACK_TOPS(, %rdi, 8), %rsp
    testq %rsp, %rsp
    jz no_stack
    call other_cpu_main
    ud2

no_stack:
    hlt
    jmp no_stack

# Copied to 0x8000, where the other CPUs start in 16-bit mode.
.section .trampoline, "a"
.global trampoline, trampoline_end
.set START, 0x8000
.code16
trampoline:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl START + trampoline_pointer - trampoline
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $8, $START + trampoline_32 - trampoline
.code32
trampoline_32:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $START + 0x800, %esp
    movl $enter_long_mode, %eax
    call *%eax
    lgdt boot_segments_pointer
    ljmp $8, $other_cpu
.balign 8
trampoline_segments: .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
trampoline_pointer:
    .word 23
    .long START + trampoline_segments - trampoline
trampoline_end:
.section .text
.code64
