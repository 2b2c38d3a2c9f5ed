/* For LD_PRELOAD beside linux.uml, whose buffer for a processor's extended registers has 2,696 bytes (up to AVX-512).

   Where there are more of them (AMX: 11,008 bytes), Linux writes back only the whole and refuses a part of it with
   EFAULT, upon which the guest's first process dies. So the registers that the guest does not know keep what they have.
   Needs no headers. Numbers are those of Linux on x86-64. */

enum { SYS_PTRACE = 101, PEEKUSER = 3, GETREGSET = 0x4204, SETREGSET = 0x4205, NT_X86_XSTATE = 0x202 };

typedef struct {
    void *base;
    unsigned long length;
} iovec;

extern long syscall(long number, ...);
extern int *__errno_location(void);

long ptrace(long request, int pid, long address, void *data)
{
    static char registers[1 << 16];

    if (request == SETREGSET && address == NT_X86_XSTATE) {
        const iovec *part = data;
        iovec whole = {registers, sizeof registers};

        if (syscall(SYS_PTRACE, GETREGSET, pid, address, &whole) < 0)
            return -1;
        if (part->length < whole.length) {
            __builtin_memcpy(registers, part->base, part->length);
            return syscall(SYS_PTRACE, request, pid, address, &whole);
        }
    }
    if (request > 0 && request <= PEEKUSER) { /* the C library returns what the kernel writes there */
        long word;

        if (syscall(SYS_PTRACE, request, pid, address, &word) < 0)
            return -1;
        *__errno_location() = 0;
        return word;
    }
    return syscall(SYS_PTRACE, request, pid, address, data);
}
