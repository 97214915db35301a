#include "vec_avx512.h"

#define ISA PE_ISA_AVX512
#define TABLE pe_kernels_avx512
#include "micro.inc.h"

#if !defined(PE_NO_PAIRS)
extern const pe_kernels pe_kernels_avx512bf16;
extern const pe_pair_kernels pe_pairs_avx512bf16;

const pe_kernels pe_kernels_avx512bf16 = {.isa = PE_ISA_AVX512BF16, KERNELS, .pairs = &pe_pairs_avx512bf16};
#endif
