/* Which instruction sets this processor and operating system can run. */
#ifndef PE_CPU_H
#define PE_CPU_H

typedef enum { PE_ISA_SCALAR, PE_ISA_AVX2, PE_ISA_AVX512, PE_ISA_COUNT } pe_isa;

extern const char *const pe_isa_names[PE_ISA_COUNT];
pe_isa pe_best_isa(void);

#endif
