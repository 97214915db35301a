#include "vec_scalar.h"

#define ISA PE_ISA_SCALAR
#define TABLE pe_kernels_scalar
#include "micro.inc.h"
