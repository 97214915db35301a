/* Writing past the cache: what is made row by row in a buffer leaves it in whole lines, however rows are aligned.
 * On processors with AVX-512 the same vectors stored straight from registers reach 60 to 90 % of copy bandwidth: lines
 * go out in parts, and the processor runs so far ahead that its stores and the lines it reads are in each other's way.
 * Here a line is loaded across two vectors just put into the buffer, and so waits until they and the lines before them
 * have left the store queue (a fence a row instead: as fast where out is aligned, 25 points slower where it is not).
 * With AVX2 (STREAM_REGISTERS) it is the wait that costs, 10 to 30 points: there whole lines leave from registers, and
 * only what lines share goes by the buffer.
 *
 * The buffer is one page: a store into two pages takes some 400 cycles, and it would be the same one in every row. */
#define LINE 64
#define STREAM_STEP (STREAM_REGISTERS ? LINE : 2 * LINE) /* by memory, two lines at a time */
#define STREAM_PIECE (8 * LINE)                          /* of two streams, by turns */

typedef struct {
    char *buffer, *line;  /* buffer holds the bytes from `line` on */
    ptrdiff_t held, skip; /* how many; of those, the first that lie before the output */
} stream_t;

/* rows follow one another from `out` on; the buffer is aligned, and holds a row and a line */
static inline stream_t stream_open(char *out, char *buffer) {
    const ptrdiff_t skip = (ptrdiff_t)((uintptr_t)out % LINE);
    return (stream_t){.buffer = buffer, .line = out - skip, .held = skip, .skip = skip};
}

/* where the next row is to be put */
static inline char *stream_place(const stream_t *s) { return s->buffer + s->held; }

/* n bytes were put there */
static inline void stream_row(stream_t *s, ptrdiff_t n) {
    ptrdiff_t at = 0;
    s->held += n;
    if (s->skip && s->held >= LINE) { /* the rest of that line is somebody else's */
        memcpy(s->line + s->skip, s->buffer + s->skip, (size_t)(LINE - s->skip));
        s->skip = 0;
        at = LINE;
    }
    for (; at + LINE <= s->held; at += LINE) stream_line(s->line + at, s->buffer + at);
    if (!at) return;
    copy_line(s->buffer, s->buffer + at);
    s->line += at;
    s->held -= at;
}

/* n bytes that stand elsewhere are the next row */
static inline void stream_copy(stream_t *s, const char *from, ptrdiff_t n) {
    const ptrdiff_t part = s->held && n > LINE - s->held ? LINE - s->held : s->held ? n : 0;
    if (part) {
        memcpy(stream_place(s), from, (size_t)part);
        stream_row(s, part);
    }
    for (from += part, n -= part; n >= LINE; n -= LINE, from += LINE, s->line += LINE) stream_line(s->line, from);
    memcpy(stream_place(s), from, (size_t)n);
    s->held += n;
}

static inline void stream_close(const stream_t *s) {
    memcpy(s->line + s->skip, s->buffer + s->skip, (size_t)(s->held - s->skip));
}

/* the next row is at `out`, which may be elsewhere */
static inline void stream_move(stream_t *s, char *out) {
    if (out == s->line + s->held) return;
    stream_close(s);
    *s = stream_open(out, s->buffer);
}
