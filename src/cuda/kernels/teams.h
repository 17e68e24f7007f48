/* Sums over rows for each channel, shared by teams: the rows of threads of a block.
 *
 * 64 channels take 8 or 16 threads with 16 bytes each: too few for a block. So KAS_NORM_TEAMS
 * such rows of threads share the chunk: of every KAS_NORM_TEAMS * KAS_NORM_RUN rows a team
 * takes KAS_NORM_RUN neighbours, of which it has several under way at a time. In the end one
 * team adds up what all found, in order. On the CPU a team is a turn of a loop, and the sums
 * have the same order. */
#ifndef KAS_CUDA_KERNELS_TEAMS_H
#define KAS_CUDA_KERNELS_TEAMS_H

#define KAS_TEAM_ROUND (KAS_NORM_TEAMS * KAS_NORM_RUN)
#define KAS_TEAM_BATCH 4 /* rows under way where a row is more than one load */

/* Returns how many of `rows` rows a team takes. */
KAS_FN int kas_team_share(int rows, int team)
{
    const int rest = rows % KAS_TEAM_ROUND - team * KAS_NORM_RUN;
    return rows / KAS_TEAM_ROUND * KAS_NORM_RUN + kas_imin(kas_imax(rest, 0), KAS_NORM_RUN);
}

/* Stores one value for each lane where the other teams find it ([team][KAS_NORM_LANES] in shared
 * memory), or the next kernel. */
KAS_FN void kas_team_keep_one(float *to, const float *value, int lanes, int whole)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_VALUE(one, KAS_EACH_OF(value, t));
        KAS_PART_STORE(to, t, one, lanes, whole);
    }
}
KAS_FN void kas_team_keep(float *to, float *to_other, const float *value, const float *other,
                          int lanes, int whole)
{
    kas_team_keep_one(to, value, lanes, whole);
    kas_team_keep_one(to_other, other, lanes, whole);
}
/* Takes one value for each lane from where it was kept, and adds what was kept elsewhere to it. */
KAS_FN void kas_team_take(float *value, const float *from, int lanes)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_LOAD(kept, from, t);
        KAS_EACH(KAS_EACH_OF(value, t) = KAS_EACH_VALUE(kept);)
    }
}
KAS_FN void kas_team_add_kept(float *to, const float *from, int lanes)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_LOAD(sum, to, t);
        KAS_WIDE_LOAD(more, from, t);
        KAS_WIDE_VALUE(both, KAS_EACH_VALUE(sum) + KAS_EACH_VALUE(more));
        KAS_WIDE_STORE(to, t, both);
    }
}
KAS_FN void kas_team_zero_one(float *value, int lanes)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_EACH(KAS_EACH_OF(value, t) = 0.0f;)
    }
}
KAS_FN void kas_team_zero(float *value, float *other, int lanes)
{
    kas_team_zero_one(value, lanes);
    kas_team_zero_one(other, lanes);
}

/* Adds every `step`-th of the rows [first, last) to lane values, several loads at a time. Threads
 * without lanes leave this function and `whole` is a constant, because no load moves in front of a
 * test. */
KAS_FN void kas_team_add_rows_(const kas_real *x, int pitch, int first, int last, int step,
                               float *sum, int lanes, int whole)
{
    KAS_WIDE_LEAVE(lanes);
    KAS_UNROLL_FEW(8)
    for (int r = first; r < last; r += step) {
        KAS_PART_THREADS (t, lanes) {
            KAS_PART_LOAD_REAL(in, x + (kas_i64)r * pitch, t, lanes, whole);
            KAS_EACH(KAS_EACH_OF(sum, t) += KAS_EACH_VALUE(in);)
        }
    }
}
KAS_FN void kas_team_add_rows(const kas_real *x, int pitch, int first, int last, int step,
                              float *sum, int lanes, int whole)
{
    if (KAS_WHOLE(whole))
        kas_team_add_rows_(x, pitch, first, last, step, sum, lanes, 1);
    else
        kas_team_add_rows_(x, pitch, first, last, step, sum, lanes, 0);
}

/* Adds up in order what some teams kept: into lane values, or two sums to where the next kernel
 * wants them. */
KAS_FN void kas_team_add(const float *kept, int teams, float *sum, int lanes)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_VALUE(all, 0.0f);
        for (int team = 0; team < teams; team++) {
            KAS_WIDE_LOAD(other, kept, team * KAS_NORM_LANES + t);
            KAS_EACH(KAS_EACH_VALUE(all) += KAS_EACH_VALUE(other);)
        }
        KAS_EACH(KAS_EACH_OF(sum, t) = KAS_EACH_VALUE(all);)
    }
}
KAS_FN void kas_team_sums(const float *plains, const float *products, int teams, float *to,
                          float *to_product, int lanes, int whole)
{
    KAS_WIDE_LANE(sum, KAS_NORM_LANES);
    kas_team_add(plains, teams, sum, lanes);
    kas_team_keep_one(to, sum, lanes, whole);
    kas_team_add(products, teams, sum, lanes);
    kas_team_keep_one(to_product, sum, lanes, whole);
}

#endif
