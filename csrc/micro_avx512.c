#include "vec_avx512.h"

#define ISA PE_ISA_AVX512
#define TABLE pe_kernels_avx512
#include "micro.inc.h"
