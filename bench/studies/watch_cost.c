/* One pass of a training step, called as often as the argument says: what valgrind counts in
 * watch_cost.sh, which includes the device code's headers in front and defines PASS, one of UPDATE,
 * AVERAGE and NORM, and WATCH where the arguments have the word. */
#include <stdlib.h>
#include <string.h>

enum { COUNT = 272 * KAS_UPDATE_BLOCK, ARRAYS = 5 };

void PASS(const void *, const unsigned *, unsigned, unsigned, const unsigned *);

int main(int argc, char **argv)
{
    float *array[ARRAYS];
    kas_dev_state state;
    kas_dev_row row;
    memset(&state, 0, sizeof state);
    memset(&row, 0, sizeof row);
    row.lr = 0.1f, row.correction1 = row.correction2 = 1, row.renew = 0.5f;
    for (int i = 0; i < ARRAYS; i++) {
        array[i] = aligned_alloc(64, sizeof(float) * COUNT);
        for (int k = 0; array[i] && k < COUNT; k++)
            array[i][k] = 0.5f + (float)(i + k % 7);
    }
#if defined(NORM)
    kas_norm_args a;
    memset(&a, 0, sizeof a);
    a.partial = array[0], a.running_mean = array[1], a.running_var = array[2];
    a.saved_mean = array[3], a.saved_rstd = array[4];
    a.rows = 2048, a.c = 64, a.chunks = 16, a.chunk_rows = 128, a.whole = 1;
    a.eps = 1e-5f, a.momentum = 0.1f;
    const unsigned grid[3] = {1, 1, 1};
#elif defined(AVERAGE)
    kas_average_args a;
    memset(&a, 0, sizeof a);
    a.average = array[0], a.value = array[1], a.rows = &row, a.state = &state, a.count = COUNT;
    const unsigned grid[3] = {COUNT / KAS_UPDATE_BLOCK, 1, 1};
#else
    kas_update_args a;
    memset(&a, 0, sizeof a);
    a.param = array[0], a.first = array[1], a.second = array[2], a.grad = array[3];
    a.decay = array[4], a.rows = &row, a.state = &state, a.count = COUNT;
    a.momentum = 0.9f, a.along_velocity = 1;
    a.beta1 = a.beta2 = a.rest1 = a.rest2 = 0.5f, a.epsilon = 1;
    const unsigned grid[3] = {COUNT / KAS_UPDATE_BLOCK, 1, 1};
#endif
#ifdef WATCH
    kas_u32 word = 0;
    a.watch = &word;
#endif
    const int runs = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < runs; i++)
        PASS(&a, grid, 0, grid[0], NULL);
    for (int i = 0; i < ARRAYS; i++)
        free(array[i]);
    return 0;
}
