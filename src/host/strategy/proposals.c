#include "host/strategy/proposals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/space/file/assignment.h"

enum { MOST_NOTES = 100 }; /* lines of an answer of which is said what became of them */

/* What is done with one answer. */
typedef struct gathering {
    kas_proposals *p;
    kas_children *checker;
    const kas_question *question;
    kas_name_set *names;
    int line;      /* number of the line, from 1 */
    int noted;     /* lines */
    char why[512]; /* of the present line */
    int ended[KAS_PROPOSAL_ENDS];
} gathering;

static void drop_list(kas_proposals *p)
{
    for (int i = p->next; i < p->count; i++)
        kas_replacement_free(&p->list[i].replacement);
    free(p->list);
    p->list = NULL;
    p->count = p->next = 0;
}

void kas_proposals_free(kas_proposals *p)
{
    drop_list(p);
}

/* ---- one line -------------------------------------------------------------------------------- */

/* Returns the status unless it says only that the kernel is refused: then *refused is true, and the
 * reason is kept. */
static kas_status refuse(gathering *g, kas_status status, bool *refused)
{
    *refused = status == KAS_BAD_INPUT || status == KAS_ILLEGAL || status == KAS_OVER_BUDGET ||
               status == KAS_UNSUPPORTED;
    if (*refused)
        snprintf(g->why, sizeof g->why, "%s", kas_error());
    return *refused ? KAS_OK : status;
}

/* Reads a kernel file with one kernel for all layers. */
static kas_status read_kernel(gathering *g, const char *text, size_t size, kas_kernel *out,
                              kas_proposal_end *end)
{
    kas_assignment kernels;
    bool refused;
    *end = KAS_PROPOSAL_UNREADABLE;
    KAS_TRY(refuse(g, kas_assignment_read_json("the line", text, size, &kernels), &refused));
    if (refused)
        return KAS_OK;
    const bool one = kernels.layers == 0;
    if (one)
        *out = kernels.kernel[0];
    kas_assignment_free(&kernels);
    if (!one) {
        snprintf(g->why, sizeof g->why, "a file of layers; expected one kernel for all layers");
        return KAS_OK;
    }
    KAS_TRY(refuse(g, kas_kernel_infer(out), &refused));
    *end = refused ? KAS_PROPOSAL_ILLEGAL : KAS_PROPOSAL_TAKEN;
    return KAS_OK;
}

static kas_status append(gathering *g, kas_proposed *one, kas_proposal_end *end)
{
    bool is_new = false;
    kas_proposals *p = g->p;
    kas_status status = kas_canonical_name(one->replacement.kernel, one->name);
    if (status == KAS_OK)
        status = kas_name_set_add(g->names, one->name, &is_new);
    if (status == KAS_OK && is_new) {
        p->list[p->count++] = *one;
        return KAS_OK;
    }
    *end = KAS_PROPOSAL_TWICE;
    snprintf(g->why, sizeof g->why, "kernel %s is in the study already", one->name);
    kas_replacement_free(&one->replacement);
    return status;
}

/* Appends the kernel to the list if it is as good as a sample. */
static kas_status admit(gathering *g, const kas_kernel *kernel, kas_proposal_end *end)
{
    kas_proposed one;
    kas_reject why;
    KAS_TRY(kas_children_admit(g->checker, kernel, &one.replacement, &why));
    if (why == KAS_REJECT_NONE)
        return append(g, &one, end);
    *end = why == KAS_REJECT_BUDGET ? KAS_PROPOSAL_OVER_BUDGET : KAS_PROPOSAL_ILLEGAL;
    snprintf(g->why, sizeof g->why, "%s", kas_reject_name(why));
    return KAS_OK;
}

/* Notes what became of the present line. */
static void note_line(gathering *g, kas_proposal_end end)
{
    static const char *const words[] = {"taken", "no kernel file", "not a kernel of the sampler",
                                        "over the budget", "twice"};
    const kas_proposer *proposer = &g->p->proposer;
    char note[700];
    if (end == KAS_PROPOSAL_TOO_MANY || g->noted++ >= MOST_NOTES)
        return;
    if (end == KAS_PROPOSAL_TAKEN)
        snprintf(g->why, sizeof g->why, "kernel %s", g->p->list[g->p->count - 1].name);
    snprintf(note, sizeof note, "generation %d, line %d: %s: %s", g->question->generation, g->line,
             words[end], g->why);
    proposer->note(proposer->context, g->question, note, false);
}

static kas_status take_line(gathering *g, const char *text, size_t size)
{
    kas_proposal_end end = KAS_PROPOSAL_TOO_MANY;
    kas_kernel kernel;
    if (g->p->count < g->question->wanted) {
        KAS_TRY(read_kernel(g, text, size, &kernel, &end));
        if (end == KAS_PROPOSAL_TAKEN)
            KAS_TRY(admit(g, &kernel, &end));
    }
    g->ended[end]++;
    note_line(g, end);
    return KAS_OK;
}

/* ---- an answer ------------------------------------------------------------------------------- */

static bool is_blank(const char *text, size_t size)
{
    return strspn(text, " \t\r\n") >= size;
}

static kas_status take_lines(gathering *g, const char *text)
{
    while (*text) {
        const size_t size = strcspn(text, "\n");
        g->line++;
        if (!is_blank(text, size))
            KAS_TRY(take_line(g, text, size));
        text += size + (text[size] == '\n');
    }
    return KAS_OK;
}

static void describe(const int ended[KAS_PROPOSAL_ENDS], kas_buf *out)
{
    int lines = 0;
    for (int i = 0; i < KAS_PROPOSAL_ENDS; i++)
        lines += ended[i];
    kas_buf_printf(out,
                   "%d of %d proposals taken; no kernel file: %d; not legal: %d; over budget: "
                   "%d; in the study already: %d; more than asked for: %d",
                   ended[KAS_PROPOSAL_TAKEN], lines, ended[KAS_PROPOSAL_UNREADABLE],
                   ended[KAS_PROPOSAL_ILLEGAL], ended[KAS_PROPOSAL_OVER_BUDGET],
                   ended[KAS_PROPOSAL_TWICE], ended[KAS_PROPOSAL_TOO_MANY]);
}

static kas_status take_answer(gathering *g, const kas_answer *answer)
{
    kas_proposals *p = g->p;
    kas_buf text = {0};
    p->list = calloc((size_t)g->question->wanted + 1, sizeof *p->list);
    if (!p->list)
        return kas_fail(KAS_NO_MEMORY, "proposals: out of memory");
    p->answers++;
    p->failed += *answer->fault != 0;
    KAS_TRY(take_lines(g, answer->text));
    for (int i = 0; i < KAS_PROPOSAL_ENDS; i++)
        p->ended[i] += g->ended[i];
    kas_buf_printf(&text, "generation %d: ", g->question->generation);
    describe(g->ended, &text);
    p->proposer.note(p->proposer.context, g->question, kas_buf_text(&text), true);
    kas_buf_free(&text);
    return KAS_OK;
}

kas_status kas_proposals_gather(kas_proposals *p, kas_children *checker,
                                const kas_question *question, kas_name_set *names, bool *ready)
{
    gathering g = {.p = p, .checker = checker, .question = question, .names = names};
    kas_answer answer = {0};
    drop_list(p);
    KAS_TRY(p->proposer.answer(p->proposer.context, question, &answer, ready));
    if (!*ready || !answer.text)
        return KAS_OK;
    const kas_status status = take_answer(&g, &answer);
    kas_answer_clear(&answer);
    return status;
}

kas_proposed *kas_proposals_next(kas_proposals *p)
{
    return p->next < p->count ? &p->list[p->next++] : NULL;
}

void kas_proposals_describe(const kas_proposals *p, kas_buf *out)
{
    if (p->answers == 0)
        return;
    kas_buf_puts(out, out->size ? "; " : "");
    describe(p->ended, out);
    kas_buf_printf(out, "; answers: %d, of these with a fault: %d", p->answers, p->failed);
}
