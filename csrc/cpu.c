#include "cpu.h"

#include <stdbool.h>

const char *const pe_isa_names[PE_ISA_COUNT] = {"scalar", "avx2", "avx512", "avx512bf16"};

#if defined(__x86_64__)
#include <cpuid.h>

static unsigned long long xgetbv0(void) {
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return ((unsigned long long)hi << 32) | lo;
}

/* Read from cpuid rather than __builtin_cpu_supports, which clang 14 refuses for f16c. A feature counts only
 * when the operating system saves its registers: xcr0 bits 1-2 for ymm, 5-7 also for zmm and mask registers. */
pe_isa pe_best_isa(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return PE_ISA_SCALAR;
    bool fma = c & (1u << 12), osxsave = c & (1u << 27), avx = c & (1u << 28), f16c = c & (1u << 29);
    if (!(fma && osxsave && avx && f16c)) return PE_ISA_SCALAR;
    unsigned long long xcr0 = xgetbv0();
    if ((xcr0 & 0x6) != 0x6) return PE_ISA_SCALAR;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return PE_ISA_SCALAR;
    if (!(b & (1u << 5))) return PE_ISA_SCALAR;
    bool f = b & (1u << 16), dq = b & (1u << 17), bw = b & (1u << 30), vl = b & (1u << 31);
    if (!(f && dq && bw && vl) || (xcr0 & 0xe6) != 0xe6) return PE_ISA_AVX2;
#if !defined(PE_NO_PAIRS) /* the compiler had no words for them */
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && a & (1u << 5)) return PE_ISA_AVX512BF16;
#endif
    return PE_ISA_AVX512;
}

/* A dot product of pairs takes as long as a multiply-add on AMD's Zen 4 and 5, and four times as long on Intel's
 * servers (Sapphire Rapids: 27-32 flop a cycle against 55-64). */
pe_isa pe_fastest_isa(void) {
    const pe_isa best = pe_best_isa();
    unsigned a, b = 0, c = 0, d;
    const bool amd = __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx;
    return best == PE_ISA_AVX512BF16 && !amd ? PE_ISA_AVX512 : best;
}
#else
pe_isa pe_best_isa(void) { return PE_ISA_SCALAR; }
pe_isa pe_fastest_isa(void) { return PE_ISA_SCALAR; }
#endif
