# The first instructions of each hart, in the supervisor's mode without translation, and those of each trap.

.section .bss
.balign 4096
boot_stack: .skip 0x10000
boot_stack_end:

.section .boot.text, "ax"
.global boot_entry
# The first hart: its number in a0, the device tree's address in a1.
boot_entry:
    la sp, boot_stack_end
    call enter_translation
    call kernel_main
    unimp

# The others, started by the firmware: the number of the CPU in a1.
.global other_hart
other_hart:
    la t0, CPU_STACK_TOPS
    slli t1, a1, 3
    add t0, t0, t1
    ld sp, 0(t0)                    # an area, which only translation reaches
    call enter_translation
    mv a0, a1
    call other_cpu_main
    unimp

# Sv39 with the boot's root; this code lies at the same address as before. No interrupts, no floating point.
enter_translation:
    csrw sie, zero
    li t0, 0x6002
    csrc sstatus, t0
    la t0, boot_root
    srli t0, t0, 12
    li t1, 8 << 60
    or t0, t0, t1
    csrw satp, t0
    sfence.vma
    ret

.section .text
.balign 4
.global trap_entry
# An interrupt goes on on the stack that it finds. A fault has a stack of its own, at 8(tp), because a guard page below
# a stack is one of its causes.
trap_entry:
    csrw sscratch, sp
    csrr sp, scause
    bltz sp, 1f
    ld sp, 8(tp)
    j 2f
1:  csrr sp, sscratch
2:  addi sp, sp, -160
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrr t0, sscratch
    sd t0, 128(sp)
    csrr t0, sepc
    sd t0, 136(sp)
    csrr t0, sstatus
    sd t0, 144(sp)
    csrr a1, scause
    mv a0, sp
    call on_trap
    ld t0, 144(sp)
    csrw sstatus, t0
    ld t0, 136(sp)
    csrw sepc, t0
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    ld sp, 128(sp)
    sret

# Writes a byte at a0, and says whether it did: 0 if the access faulted.
.global try_write, try_write_access, try_write_faulted
try_write:
    li a1, 1
try_write_access:
    sb a1, 0(a0)
    li a0, 1
    ret
try_write_faulted:
    li a0, 0
    ret
