# %% [markdown]
# # 1. The dog, the man and the clock
#
# Why does a transformer have to be told where its words stand, and what has that to do with a clock?
#
# After this notebook you can show, with numbers, that attention is blind to order; you can test the four
# rules of a group on anything that has moves; and you can tell a translation that keeps structure from one
# that breaks it. That is the ground on which every positional encoding stands.
#
# **How to use it.** Run the cells from top to bottom (Shift + Enter). Where it says **Predict**, stop and
# decide before you run the next cell, best with a pen: a wrong guess teaches more than a right one that you
# never made. Five exercises check themselves. They give a tick or a hint, and never the solution.
#
# It needs Python, `numpy`, `matplotlib` and `pe`, no downloads, and about half an hour of yours. The
# questions come from *The Dog, the Man, and the Clock*; all numbers are computed here, while you watch.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np

import pe

# %% [markdown]
# ## Five words, two stories
#
# *The dog bit the man* is an accident. *The man bit the dog* is news. Both are made of the same five words,
# so the whole difference is in the order.
#
# Now look at what attention does with them. Every word becomes three vectors: a query (what do I look for?),
# a key (what can I be found by?) and a value (what do I have to say?). How much word *i* cares about word *j*
# is
#
# > score(*i*, *j*) = *q*ᵢ · *k*ⱼ
#
# Search that line for the *places* *i* and *j*. They are names on the vectors. No arithmetic is done with
# them.
#
# Let us build the smallest attention layer there is: a random vector for each word, three random matrices,
# and `pe.attention`, which does the rest.

# %%
rng = np.random.default_rng(0)
vector = {word: rng.standard_normal(16) for word in ("the", "dog", "bit", "man")}
to_q, to_k, to_v = rng.standard_normal((3, 16, 16)) / 4
first, second = "the dog bit the man".split(), "the man bit the dog".split()

def attend(sentence, **keywords):
    x = np.array([vector[word] for word in sentence])
    return pe.attention(x @ to_q, x @ to_k, x @ to_v, **keywords)

# %% [markdown]
# **Predict.** "bit" is the third word of both sentences. Attention mixes what all five words have to say and
# hands "bit" a new vector. In one sentence the dog comes before it, in the other the man. Will the two new
# vectors be *equal*, *similar* or *clearly different*?

# %%
print("bit in 'the dog bit the man':", attend(first)[2, :5].round(4))
print("bit in 'the man bit the dog':", attend(second)[2, :5].round(4))

# %% [markdown]
# Equal. The verb cannot know who did the biting.
#
# Here is why. `pe.attention_weights` tells how strongly each word (row) looks at each word (column); darker
# is stronger. Before you run the cell: if two words trade places, what happens to this picture?

# %% alt="Weights of both sentences: the rows and columns of dog and man have traded places."
def weights(sentence, **keywords):
    x = np.array([vector[word] for word in sentence])
    return pe.attention_weights(x @ to_q, x @ to_k, **keywords)

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
for ax, sentence in zip(axes, (first, second), strict=True):
    ax.imshow(weights(sentence), cmap="Blues", vmin=0)
    ax.set_xticks(range(5), sentence)
    ax.set_yticks(range(5), sentence)

# %% [markdown]
# The second picture is the first one, with its rows and columns carried along by their words. Nothing is new
# in it. If that is so, the 25 weights of the two sentences are the same 25 numbers, in another arrangement.
# Sort them and see:

# %%
sorted_first, sorted_second = np.sort(weights(first).ravel()), np.sort(weights(second).ravel())
print("the same 25 numbers:", np.allclose(sorted_first, sorted_second, rtol=0, atol=1e-12))

# %% [markdown]
# ### Exercise 1: predict a layer without running it
#
# `y` is what attention gives for some text, one row for each word. Now the text is shuffled: the word at
# place `i` is the one that stood at place `order[i]` before. What does attention give for the shuffled text?
#
# Write the function. It gets `y` and `order` and must not call attention. Your prediction has to be right to
# within one millionth.

# %% tags=["exercise"]
def predict(y, order):
    return ...

pe.check.nb1_ex1(predict)

# %% [markdown]
# > **A question you may have now: is that true of the models I use? They read from left to right.**
# >
# > Find out: the cell below measures the largest change in any number of any word's output when dog and man
# > trade places, first without and then with a causal mask (each word sees itself and the words before it).
# > The third line adds a rotary encoding. Predict which of the three are zero, then run it, and try
# > `alibi_slopes=0.5`.

# %%
moved = [0, 4, 2, 3, 1]  # where each word of the second sentence stood in the first
for keywords in ({}, {"causal": True}, {"rope": pe.Rope(16)}):
    change = np.abs(attend(first, **keywords)[moved] - attend(second, **keywords)).max()
    print(f"{change:.4f}", ", ".join(keywords) or "nothing")

# %% [markdown]
# The mask alone gives something away: it tells a word *who is before it*, though not how far. Some decoders
# live on that, with no encoding at all. Without a mask there is nothing, and the encoding brings the order
# in.
#
# People have invented a whole zoo of encodings. To see that the zoo is a short list, leave transformers alone
# for a while and look at a clock.

# %% [markdown]
# ## A clock
#
# Take a clock with one hand and twelve hours. A *move* pushes the hand forward by some hours: h₁, h₅, h₉. Two
# moves, one after the other, are a move again, and the clock wraps around.

# %%
def forward(a, b):
    return (a + b) % 12

print("h5 then h4 is h", forward(5, 4), sep="")
print("h7 then h8 is h", forward(7, 8), sep="")
print("h5 then h0 is h", forward(5, 0), sep="")
print("(h2 h3) h4 is h", forward(forward(2, 3), 4), ", h2 (h3 h4) is h", forward(2, forward(3, 4)), sep="")

# %% [markdown]
# All that can be known about this clock fits on one sheet: a table with hᵢ then hⱼ in row *i*, column *j*.
#
# **Predict.** How often does 0 stand in each row? What is the shape of the cells that share a number?

# %% alt="A 12 by 12 table: row i holds the hours shifted by i, equal hours lie on slanted lines."
hours = np.arange(12)
table = forward(hours[:, None], hours)
plt.figure(figsize=(4.6, 4.6))
plt.imshow(table, cmap="twilight")
for i, j in itertools.product(hours, hours):
    plt.text(j, i, table[i, j], ha="center", va="center", color="white" if 3 < table[i, j] < 9 else "black")
plt.xticks(hours)
plt.yticks(hours)
plt.show()

# %% [markdown]
# Once in each row: for every move there is exactly one that leads back to 0.
#
# Four things hold on this sheet, and they have names:
#
# | rule | it says | on the clock |
# |---|---|---|
# | closure | two moves make a move | every cell holds an hour from 0 to 11 |
# | identity | one move does nothing | row 0 and column 0 repeat the headings |
# | inverses | every move can be undone | a 0 in every row |
# | associativity | brackets do not matter | not visible: it takes three moves |
#
# Any collection of moves that keeps all four is called a **group**. `pe.check_group_axioms` tries them all,
# every pair and every triple:

# %%
print(pe.check_group_axioms(range(12), forward))

# %% [markdown]
# ### Exercise 2: undo
#
# The hand can only go forward. Which of the moves h₀ to h₁₁ undoes h₅? Give its number.

# %% tags=["exercise"]
undo_h5 = ...

pe.check.nb1_ex2(undo_h5)

# %% [markdown]
# ## Other worlds, the same four rules
#
# Only the moves and the way to combine them matter. Here are three more systems. The last two are infinite,
# so we try a sample and say with `contains=` what belongs to the set. Predict first: which of them are
# groups?

# %%
quarter_turn = np.array([[0, -1], [1, 0]])
square = [np.linalg.matrix_power(quarter_turn, n) for n in range(4)]
print("quarter turns of a square:", pe.check_group_axioms(square, np.matmul), sep="\n")

slides = pe.check_group_axioms([-3, 0, 1.5, 2.5], np.add, contains=np.isreal, inverse=np.negative)
print("slides along a line:", slides, sep="\n")

positive = pe.check_group_axioms([1, 2, 3], np.add, contains=lambda n: n >= 1)
print("positive whole numbers, added:", positive, sep="\n")

# %% [markdown]
# There is no positive number that does nothing when you add it, and so there is no way back either. A check
# of a sample can only find faults; that the slides have none is easy to see here, but it is not proved by
# four numbers.
#
# > **WAIT. Four rules that simple: why give them a name?**
# >
# > Because so little is asked, so much keeps them; and yet what keeps them is rare. See for yourself. Invent
# > a world of three moves 0, 1, 2. Let 0 be the one that does nothing, so its row and column are fixed. Four
# > cells are left, and in each you may write 0, 1 or 2 as you like: 3⁴ = 81 worlds. **Predict** how many of
# > the 81 are groups.

# %%
groups = []
for a, b, c, d in itertools.product(range(3), repeat=4):
    world = np.array([[0, 1, 2], [1, a, b], [2, c, d]])
    if pe.check_group_axioms(range(3), world.item).is_group:
        groups.append(world)
print(len(groups), "of 81:")
print(*groups, sep="\n")

# %% [markdown]
# One. And you know it: it is a clock with three hours. Whoever finds three moves that keep the rules,
# anywhere, in cards, crystals or code, has found that clock, and everything known about it is true there as
# well.
#
# That is what a name buys. For some kinds of groups the list of all that can exist is complete. If your
# problem falls into such a kind, you need not search any more; you look it up. Positional encodings will turn
# out to be one of these problems.

# %% [markdown]
# ### Exercise 3: which are groups?
#
# - **A**: the hours 0, 3, 6, 9 of the clock, combined as on the clock;
# - **B**: the hours 1 to 11 of the clock, combined as on the clock;
# - **C**: all whole numbers, combined by *subtraction*;
# - **D**: all matrices `[[1, t], [0, 1]]` with any real *t*, multiplied.
#
# Answer with the letters of all that are, such as `"BC"`. Pen and paper do; `pe.check_group_axioms` helps.

# %% tags=["exercise"]
which_are_groups = ...

pe.check.nb1_ex3(which_are_groups)

# %% [markdown]
# ### Exercise 4: be the judge
#
# Write `is_group(table)`. The moves are the numbers from 0 to `len(table) - 1`, and `table[i, j]` is what `i`
# and `j` make together. Return `True` or `False`. Four rules, so about four lines; the clock's `table` from
# above is there to try it on. Beware: some of the tables it will be asked about are cunning.

# %% tags=["exercise"]
def is_group(table):
    return ...

pe.check.nb1_ex4(is_group)

# %% [markdown]
# ## A matrix is a verb
#
# From here on a matrix is something that is *done* to an arrow. Four verbs, done to two arrows, the columns
# (5, 3) and (5, 99). The determinant is the factor by which an area grows.
#
# **Predict.** After one of the four you can no longer tell which arrow was which. After which?

# %%
arrows = np.array([[5, 5], [3, 99]])
squash = np.diag([1, 0])
verbs = {"double": 2 * np.eye(2), "quarter turn": quarter_turn, "nothing": np.eye(2), "squash": squash}
for name, M in verbs.items():
    (x1, x2), (y1, y2) = M @ arrows
    det = np.linalg.det(M)
    print(f"{name:13} (5, 3) -> ({x1:g}, {y1:g})   (5, 99) -> ({x2:g}, {y2:g})   determinant {det:g}")

# %% [markdown]
# A squash cannot be undone: what was 3 and what was 99 is 0 now. So the 2 x 2 matrices are no group under
# multiplication, and the check names the culprit:

# %%
every_matrix = pe.check_group_axioms(
    verbs.values(), np.matmul, contains=lambda M: np.shape(M) == (2, 2), inverse=np.linalg.inv)
print(every_matrix.witness["inverses"][0])

# %% [markdown]
# Throw out all matrices with determinant 0, keep those that can be undone, and the four rules hold. That
# group is called *GL*(2), or *GL*(*n*) for larger ones. Every encoding to come lives in it.
#
# In a product *MN* the right one acts first, as in *M*(*N*(*x*)). Does the order matter? You have two verbs
# at hand: compare `squash @ quarter_turn` and `quarter_turn @ squash`.

# %%
print(squash @ quarter_turn)
print(quarter_turn @ squash)

# %% [markdown]
# ## A translation between two worlds
#
# Before there were calculators, one multiplied with two rulers. On each, the number 2 is engraved at the
# length log₁₀ 2, the number 3 at log₁₀ 3. Put the two lengths end to end and read what is engraved there:

# %%
lengths = np.log10([2, 3])
print("2 stands at", lengths[0].round(4), "and 3 at", lengths[1].round(4))
print("end to end:", lengths.sum().round(4), "where", (10 ** lengths.sum()).round(4), "is engraved")

# %% [markdown]
# You *added* lengths and the numbers were *multiplied*. The logarithm translates one world into the other,
# and it does not matter whether you combine first and translate then, or translate first and combine then:
#
# > log(*a* · *b*) = log *a* + log *b*, and back again exp(*a* + *b*) = exp(*a*) · exp(*b*)
#
# A translation for which the two routes always meet is a **homomorphism**. Remember the second formula:
# addition on the left, multiplication on the right. All of the story hangs on that shape.
#
# > **WAIT. Is a homomorphism not just a function?**
# >
# > Try it. `pe.homomorphism_defect(f, a, b, ...)` walks both routes and tells how far apart they end. Run the
# > cell, then add functions of your own: `np.sqrt`, `np.abs`, `lambda x: 3 * x`, `lambda x: x + 1`. Which
# > ones survive?

# %%
print("log:   ", round(pe.homomorphism_defect(np.log, 2.0, 3.0, op_in=np.multiply, op_out=np.add), 9))
print("exp:   ", round(pe.homomorphism_defect(np.exp, 2.0, 3.0, op_in=np.add, op_out=np.multiply), 9))
print("times 3", round(pe.homomorphism_defect(lambda x: 3 * x, 2.0, 3.0), 9))
print("plus 1 ", round(pe.homomorphism_defect(lambda x: x + 1, 2.0, 3.0), 9))

# %% [markdown]
# Most functions fail, and `np.abs` passes only as long as nobody tries -2 and 3. To be a homomorphism is a
# promise about *all* pairs, so it takes a proof to keep it and a single pair to break it.
#
# ### Exercise 5: break it
#
# Does *f*(*x*) = *x*² carry addition over into addition? If you think so, answer `True`. If you think not,
# answer with the pair `(a, b)` that proves it.

# %% tags=["exercise"]
squaring = ...

pe.check.nb1_ex5(squaring)

# %% [markdown]
# ## The clock becomes a matrix
#
# Now put the two halves together: translate the *clock* into *matrices*. Let *h* hours become the turn of the
# plane by *h* twelfths of a full circle. `pe.transport(X, t)` makes the turn by *t* (what *X* is comes later
# in the story).
#
# **Predict.** h₇ then h₈ wraps around to h₃. Does the product of the matrices of h₇ and h₈ know?

# %%
X = pe.generators.turn(1.0)

def matrix(h):
    return pe.transport(X, 2 * np.pi * h / 12)

print((matrix(7) @ matrix(8)).round(4) + 0.0)
print(matrix(3).round(4) + 0.0)
defect = pe.homomorphism_defect(matrix, hours[:, None], hours, op_in=forward, op_out=np.matmul)
print("largest defect over all 144 pairs is below 1e-12:", defect < 1e-12)

# %% [markdown]
# It knows. The clock lives on inside the matrices, with all its rules.
#
# But the matrices can do more than the clock: nothing forces *h* to be a whole number. Below is a hand
# without a ratchet. It shows the turn by *u*, for every real *u*, acting on the whole plane; the dot starts
# at (1, 1) and the shaded unit square rides along. (It turns as angles do, against the clock.)
#
# **Predict, then move *u*** (drag it, or click it and use the arrow keys, or type a number):
#
# 1. At which *u* is the square back home for the first time? How often does it come home up to *u* = 20?
# 2. *u* = 2.618 is five hours. Type it, and find the *u* of the move that undoes it.
# 3. What does det *A*(*u*) do while you turn, and what does that say about undoing?
#
# Then press the buttons above the picture. Each of them is a world with a move for every real *u*. In which
# does the square keep its area, in which does it shrink away or blow up? Does det *A*(*u*) ever reach 0, as
# it does for a squash?

# %%
pe.explore.generator("turn", u=2.618)

# %% [markdown]
# ## What you know now
#
# - Attention without position is blind: shuffle the words and the outputs are shuffled, no more.
# - A **group** is a set of moves with closure, identity, inverses and associativity. A clock is one.
# - The rules ask little and leave little: with three moves there is one group. Complete lists exist.
# - A **homomorphism** carries the rules from one world to another. exp(*a* + *b*) = exp(*a*) · exp(*b*) is
#   the one to remember.
# - The clock can be carried into matrices, and there its hand may stop anywhere.
#
# The next question is the great one: if there is a matrix *A*(*u*) for *every* real *u*, changing without a
# jump, with *A*(*u*) *A*(*v*) = *A*(*u* + *v*), what can it possibly do? The answer is three words, turn,
# fade and slide, and what can be mixed of them (to explode is to fade backwards). The picture above showed
# them all. In a terminal, `python -m pe tour` tells the rest, and why there is no fourth word.
