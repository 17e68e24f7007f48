/* Sums over a chunk of rows for each channel, shared by teams: the rows of threads of a block.
 *
 * 64 channels are 8 or 16 threads with 16 bytes each: too few for a block.  So KAS_NORM_TEAMS such
 * rows of threads share the chunk: of every KAS_NORM_TEAMS * KAS_NORM_RUN rows a team takes
 * KAS_NORM_RUN neighbours, several of which are under way at a time, and in the end one team puts
 * together what all found, in order.  On the CPU a team is a turn of a loop, and the sums have the
 * same order. */
#ifndef KAS_DEVICE_CODE_TEAMS_H
#define KAS_DEVICE_CODE_TEAMS_H

#define KAS_TEAM_ROUND (KAS_NORM_TEAMS * KAS_NORM_RUN)
#define KAS_TEAM_BATCH 4 /* rows under way where a row is more than one load */

/* Of `rows` rows, those that a team takes. */
KAS_FN int kas_team_share(int rows, int team)
{
    const int rest = rows % KAS_TEAM_ROUND - team * KAS_NORM_RUN;
    return rows / KAS_TEAM_ROUND * KAS_NORM_RUN + kas_imin(kas_imax(rest, 0), KAS_NORM_RUN);
}

/* Two values a lane to where the other teams ([team][KAS_NORM_LANES] in shared memory), or the next
 * kernel, find them. */
KAS_FN void kas_team_keep(float *to, float *to_other, const float *value, const float *other,
                          int lanes, int whole)
{
    KAS_PART_THREADS(t, lanes)
    {
        KAS_WIDE_VALUE(one, KAS_EACH_OF(value, t));
        KAS_WIDE_VALUE(two, KAS_EACH_OF(other, t));
        KAS_PART_STORE(to, t, one, lanes, whole);
        KAS_PART_STORE(to_other, t, two, lanes, whole);
    }
}
KAS_FN void kas_team_zero(float *value, float *other, int lanes)
{
    KAS_PART_THREADS(t, lanes)
    {
        KAS_EACH(KAS_EACH_OF(value, t) = 0.0f; KAS_EACH_OF(other, t) = 0.0f;)
    }
}

/* The sums of some teams, in order, to where the next kernel wants them. */
KAS_FN void kas_team_sums(const float *plains, const float *products, int teams, float *to,
                          float *to_product, int lanes, int whole)
{
    KAS_PART_THREADS(t, lanes)
    {
        KAS_WIDE_VALUE(plain, 0.0f);
        KAS_WIDE_VALUE(product, 0.0f);
        for (int team = 0; team < teams; team++) {
            KAS_WIDE_LOAD(p, plains, team * KAS_NORM_LANES + t);
            KAS_WIDE_LOAD(q, products, team * KAS_NORM_LANES + t);
            KAS_EACH(KAS_EACH_VALUE(plain) += KAS_EACH_VALUE(p);
                     KAS_EACH_VALUE(product) += KAS_EACH_VALUE(q);)
        }
        KAS_PART_STORE(to, t, plain, lanes, whole);
        KAS_PART_STORE(to_product, t, product, lanes, whole);
    }
}

#endif
