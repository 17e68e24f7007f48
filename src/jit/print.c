/* Prints a program as text that compiles by itself. */
#include "cuda/kernels/device_code.h"
#include "jit/ir/program.h"

static const char *pass_name(kas_conv_pass pass)
{
    return pass == KAS_CONV_FORWARD         ? "forward"
           : pass == KAS_CONV_BACKWARD_DATA ? "gradient of the input"
                                            : "gradient of the weights";
}

static void print_operation(const kas_operation *op, kas_buf *out)
{
    if (op->kind == KAS_OPERATION_LAUNCH) {
        kas_buf_printf(out, " *     %-12s grid %u x %u x %u, block %u x %u%s", op->function,
                       op->grid[0], op->grid[1], op->grid[2], op->block[0], op->block[1],
                       op->width > 1 ? ", 16-byte accesses" : "");
    } else {
        const kas_conv_desc *d = &op->conv;
        kas_buf_printf(out,
                       " *     library      convolution %dx%d, %d -> %d channels in %d groups, "
                       "%d x %d x %d pixels: %s",
                       d->kernel_h, d->kernel_w, d->c_in, d->c_out, d->groups, d->n, d->h, d->w,
                       pass_name(op->pass));
    }
    kas_buf_printf(out, "; at least %.3g MFLOP, %.3g MB\n", op->flops * 1e-6, op->bytes * 1e-6);
}

static void print_how(bool cuda, kas_buf *out)
{
    if (cuda) {
        kas_buf_puts(out, " * Compile with NVRTC or nvcc -x cu -std=c++17 -cubin.\n");
        return;
    }
    kas_buf_printf(out, " * Compile with %s -x c -std=c17 -march=%s", kas_device_code_compiler,
                   kas_device_code_march);
    for (const char *const *flag = kas_device_code_flags; *flag; flag++)
        kas_buf_printf(out, " %s", *flag);
    kas_buf_puts(out, " -fPIC -shared, and -lm.\n");
}

kas_status kas_program_print(const kas_program *program, bool cuda, kas_buf *out)
{
    const kas_target *t = &program->target;
    kas_buf_printf(out,
                   "/* %s: [%u, %u, %u] -> [%u, %u, %u], kernel %ux%u, batch %d%s\n"
                   " * Instances: %u (input parts: %u, output parts: %u), %u channels each.\n",
                   t->name, t->c_in, program->x_h, program->x_w, t->c_out, t->h, t->w, t->kernel_h,
                   t->kernel_w, program->batch, program->training ? ", with gradients" : "",
                   t->parts_in * t->parts_out, t->parts_in, t->parts_out, t->c);
    print_how(cuda, out);
    kas_buf_puts(out, " *\n * Forward:\n");
    for (int i = 0; i < program->forwards; i++)
        print_operation(&program->forward[i], out);
    if (program->training)
        kas_buf_puts(out, " * Backward:\n");
    for (int i = 0; i < program->backwards; i++)
        print_operation(&program->backward[i], out);
    kas_buf_puts(out, " */\n\n");
    kas_buf_puts(out, kas_prelude_text);
    kas_buf_puts(out, "\n");
    kas_buf_puts(out, program->source);
    return kas_buf_status(out);
}
