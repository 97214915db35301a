/* What is computed from masks, lengths and gates alone: a running count, a count a text, a running sum. */
#include "kernels.h"

#define CLOSED (-1000.0) /* the logarithm of a closed gate */

/* Steps to the next row of a view, all axes but the last, and the index along `axis` with it; false after the last. */
static bool next_row(int ndim, const ptrdiff_t *shape, const ptrdiff_t *stride, ptrdiff_t *index, ptrdiff_t *at) {
    for (int i = ndim - 2; i >= 0; i--) {
        *at += stride[i];
        if (++index[i] < shape[i]) return true;
        *at -= shape[i] * stride[i];
        index[i] = 0;
    }
    return false;
}

void pe_count_mask(int ndim, const ptrdiff_t *shape, const pe_view *mask, int64_t *out) {
    const ptrdiff_t n = shape[ndim - 1], stride = mask->stride[ndim - 1];
    ptrdiff_t index[PE_MAX_AXES] = {0}, at = 0;
    do {
        int64_t count = 0;
        for (ptrdiff_t i = 0; i < n; i++) {
            const int64_t token = mask->data[at + i * stride] != 0;
            out[i] = count & -token;
            count += token;
        }
        out += n;
    } while (next_row(ndim, shape, mask->stride, index, &at));
}

void pe_count_lengths(ptrdiff_t n, const pe_view *lengths, int64_t *out, ptrdiff_t room) {
    for (ptrdiff_t text = 0; text < n; text++) {
        int64_t length = pe_int_read(lengths->data + text * *lengths->stride);
        if (length > room) length = room;
        for (int64_t i = 0; i < length; i++) *out++ = i;
        if (length > 0) room -= length;
    }
}

static double gate_at(const pe_view *gates, ptrdiff_t at) {
    float gate;
    if (gates->dtype == PE_F64) return pe_double_at(gates->data + at, 0);
    pe_active->real[false].load_row(gates->dtype, 1, gates->data + at, &gate);
    return gate;
}

bool pe_clock(int ndim, const ptrdiff_t *shape, int axis, const pe_view *gates, double *out) {
    const ptrdiff_t n = shape[ndim - 1], stride = gates->stride[ndim - 1];
    ptrdiff_t index[PE_MAX_AXES] = {0}, at = 0, step = 1; /* from an element of out to the next along the axis */
    bool fit = true;
    for (int i = axis + 1; i < ndim; i++) step *= shape[i];
    do {
        const double *before = axis < ndim - 1 && index[axis] ? out - step : NULL;
        double sum = 0;
        for (ptrdiff_t i = 0; i < n; i++) {
            const double gate = gate_at(gates, at + i * stride);
            fit &= gate <= 0;
            sum = (axis == ndim - 1 ? sum : before ? before[i] : 0) - (gate > CLOSED ? gate : CLOSED);
            out[i] = sum;
        }
        out += n;
    } while (fit && next_row(ndim, shape, gates->stride, index, &at));
    return fit;
}
