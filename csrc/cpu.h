/* Which instruction sets this processor and operating system can run. */
#ifndef PE_CPU_H
#define PE_CPU_H

/* AVX512BF16: AVX512 with dot products of bfloat16 pairs */
typedef enum { PE_ISA_SCALAR, PE_ISA_AVX2, PE_ISA_AVX512, PE_ISA_AVX512BF16, PE_ISA_COUNT } pe_isa;

extern const char *const pe_isa_names[PE_ISA_COUNT];
pe_isa pe_best_isa(void);    /* the highest that runs here */
pe_isa pe_fastest_isa(void); /* where bfloat16 pairs are slower than float32 products, that is a lower one */

#endif
