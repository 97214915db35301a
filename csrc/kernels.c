/* The only choice of instruction set: plain C first, then upward. */
#include "kernels.h"

extern const pe_kernels pe_kernels_scalar, pe_kernels_avx2, pe_kernels_avx512, pe_kernels_avx512bf16;

const pe_kernels *pe_active = &pe_kernels_scalar;

const pe_kernels *pe_kernels_of(pe_isa isa) {
    const pe_kernels *k = &pe_kernels_scalar;
#if defined(__x86_64__)
    if (isa >= PE_ISA_AVX2) k = &pe_kernels_avx2;
    if (isa >= PE_ISA_AVX512) k = &pe_kernels_avx512;
#if !defined(PE_NO_PAIRS)
    if (isa >= PE_ISA_AVX512BF16) k = &pe_kernels_avx512bf16;
#endif
#else
    (void)isa;
#endif
    return k;
}
