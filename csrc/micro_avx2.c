#include "vec_avx2.h"

#define ISA PE_ISA_AVX2
#define TABLE pe_kernels_avx2
#include "micro.inc.h"
